"""Harsh problems with known solutions, for estimates and certificates of fields on patches: scales, layers, resonances.

What is wrong with a solver shows where problems are unlike those it was tried on: widths of 1e6 or 1e-6, values of
1e12, domains of 1 : 1000, coefficients of 1e-8 or that nearly vanish, sources in a small spot, kinks, corner data that
nearly contradict each other, Helmholtz near resonance, reaction of 1e6, long times. What goes out: the entries of a
`cnf.Problem`; every one has been picked to break something, none to succeed.
"""

from __future__ import annotations

from collections.abc import Iterator

import sympy as sp

import cnf
from benchmarks.manufactured import Drawn, T, X, Y, laplacian, latex
from cnf.domains import Difference, Disk, Domain, Intersection, Polygon, Timed, Union

SQUARE = cnf.Box((0, 0), (1, 1))
L_SHAPE = Polygon([(0, 0), (1, 0), (1, 0.5), (0.5, 0.5), (0.5, 1), (0, 1)])
SMOOTH = sp.sin(2 * X + Y) + X * Y


def scaled(u: sp.Expr, width: float) -> sp.Expr:
    """The same function on a domain that is so many times as wide."""
    return u.subs({X: X / sp.Float(width), Y: Y / sp.Float(width)}, simultaneous=True)


def elliptic(name: str, domain: Domain, u: sp.Expr, left: str = r"-\Delta u", right: sp.Expr | None = None) -> Drawn:
    """Given values all around; `right` is what the equation makes of u, by default -Laplace u."""
    given = -laplacian(u) if right is None else right
    equations = {"interior": f"{left} = {latex(given)}", "boundary": f"u = {latex(u)}"}
    return Drawn(name, {"coordinates": "x y", "domain": domain, "equations": equations, "exact": latex(u)})


def scales() -> Iterator[Drawn]:
    for width in (1e6, 1e-6):
        u = scaled(SMOOTH, width)
        yield elliptic(f"square of {width:g}", cnf.Box((0, 0), (width, width)), u)
        yield elliptic(f"disk of {width:g}", Disk((0, 0), width), u)
        corners = [(width * x, width * y) for x, y in L_SHAPE.vertices]
        yield elliptic(f"L-shape of {width:g}", Polygon(corners), u)
    for size in (1e12, 1e-12):
        yield elliptic(f"values of {size:g}", SQUARE, sp.Float(size) * SMOOTH)
        yield elliptic(f"values of {size:g}, disk", Disk((0, 0), 1), sp.Float(size) * SMOOTH)
    yield elliptic("1e12 and a ripple of one", SQUARE, sp.Float(1e12) + sp.sin(5 * X) * Y)
    yield elliptic("far from the origin", cnf.Box((1e4, 1e4), (1e4 + 1, 1e4 + 1)), sp.sin(X - 10000) * Y)
    yield elliptic("disk far from the origin", Disk((1e3, -1e3), 1), sp.sin(X - 1000) + Y / 1000)
    for thin in (1e-2, 1e-3):
        yield elliptic(f"box 1 : {thin:g}", cnf.Box((0, 0), (1, thin)), sp.sin(6 * X) * sp.cos(Y / sp.Float(thin)))
        yield elliptic(f"triangle 1 : {thin:g}", Polygon([(0, 0), (1, 0), (1, thin)]), sp.sin(6 * X) + Y)


def coefficients() -> Iterator[Drawn]:
    u = SMOOTH
    for small in (1e-4, 1e-8):
        e = sp.Float(small)
        yield elliptic(f"{small:g} Laplace and u", SQUARE, u, rf"-{small:.8f} \Delta u + u", -e * laplacian(u) + u)
        right = -e * laplacian(u) + sp.diff(u, X)
        yield elliptic(f"{small:g} Laplace and u_x", SQUARE, u, rf"-{small:.8f} \Delta u + u_x", right)
    layer = sp.exp(-X / sp.Float(1e-3)) + Y
    yield elliptic("reaction 1e6", SQUARE, layer, r"-\Delta u + 1000000 u", -laplacian(layer) + 10**6 * layer)
    yield elliptic("reaction 1e6, smooth", SQUARE, u, r"-\Delta u + 1000000 u", -laplacian(u) + 10**6 * u)
    disk = Disk((0, 0), 1)
    yield elliptic("reaction 1e6, disk", disk, u, r"-\Delta u + 1000000 u", -laplacian(u) + 10**6 * u)
    for least in (1e-2, 1e-4):
        k = (X - sp.Rational(1, 3)) ** 2 + sp.Float(least)
        right = -sp.diff(k * u.diff(X), X) - sp.diff(k * u.diff(Y), Y)
        yield elliptic(f"k down to {least:g}", SQUARE, u, rf"-\nabla\cdot(({latex(k)}) \nabla u)", right)
    right = -u.diff(X, 2) - sp.Float(1e-4) * u.diff(Y, 2)
    yield elliptic("anisotropic 1 : 1e-4", SQUARE, u, "-u_{xx} - 0.0001 u_{yy}", right)
    yield elliptic("anisotropic, disk", disk, u, "-u_{xx} - 0.01 u_{yy}", -u.diff(X, 2) - u.diff(Y, 2) / 100)
    yield elliptic(
        "strong turning flow",
        disk,
        u,
        r"-\Delta u - 200 y u_x + 200 x u_y",
        -laplacian(u) - 200 * Y * u.diff(X) + 200 * X * u.diff(Y),
    )


def resonances() -> Iterator[Drawn]:
    """k^2 near 2 pi^2 = 19.7392..., an eigenvalue of the square, and near 5.78318..., one of the unit disk."""
    u = SMOOTH
    for k2 in (19.7, 19.739, 19.73920880):
        yield elliptic(
            f"resonance, square, {k2:.9g}", SQUARE, u, rf"\Delta u + {k2} u", laplacian(u) + sp.Float(k2) * u
        )
    for k2 in (5.78, 5.78318):
        right = laplacian(u) + sp.Float(k2) * u
        yield elliptic(f"resonance, disk, {k2:.9g}", Disk((0, 0), 1), u, rf"\Delta u + {k2} u", right)
    wave = sp.sin(30 * X + 40 * Y)
    yield elliptic("helmholtz 2500", SQUARE, wave, r"\Delta u + 2500 u", sp.Integer(0))
    yield elliptic("helmholtz 2500, disk", Disk((0, 0), 0.5), wave, r"\Delta u + 2500 u", sp.Integer(0))


def details() -> Iterator[Drawn]:
    """Something small, somewhere."""
    for width in (0.02, 0.003):
        spot = sp.exp(-((X - sp.Float(0.913)) ** 2 + (Y - sp.Float(0.077)) ** 2) / sp.Float(width) ** 2)
        yield elliptic(f"spot of {width:g}", SQUARE, SMOOTH + spot)
        yield elliptic(f"spot of {width:g}, L-shape", L_SHAPE, SMOOTH + spot)
    spot = sp.exp(-((X - sp.Float(0.6)) ** 2 + (Y - sp.Float(0.6)) ** 2) / sp.Float(0.02) ** 2)
    yield elliptic("spot of 0.02, disk", Disk((0, 0), 1), SMOOTH + spot)
    small = SMOOTH + spot * sp.Float(1e-4)
    yield elliptic("spot of 0.02, disk, 1e-4 high", Disk((0, 0), 1), small)
    chirp = sp.sin(8 / (X + sp.Float(0.1)))
    yield elliptic("fast in a corner", SQUARE, chirp * Y)
    yield elliptic("fast in a corner, L-shape", L_SHAPE, sp.sin(40 * X * Y + 60 * X**4))
    kink = sp.Abs(X - sp.Float(0.3)) ** 3 + Y
    right = -6 * sp.Abs(X - sp.Float(0.3))
    yield elliptic("kink of the load", SQUARE, kink, right=right)
    yield elliptic("kink of the load, disk", Disk((0, 0), 1), kink, right=right)
    root = (X**2 + Y**2) ** sp.Float(0.75)
    yield elliptic("r^1.5 at a corner", SQUARE, root)
    yield elliptic("r^1.5 in the middle", cnf.Box((-1, -1), (1, 1)), root)
    yield elliptic("r^1.5 in the middle, disk", Disk((0.1, 0), 1), root)
    near = 1 / ((X - sp.Float(1.02)) ** 2 + (Y - sp.Float(1.02)) ** 2)
    yield elliptic("pole beside a corner", SQUARE, near)
    yield elliptic("pole beside a disk", Disk((0, 0), 1), 1 / ((X - sp.Float(1.02)) ** 2 + Y**2))
    log = sp.log((X - sp.Float(0.5)) ** 2 + (Y - sp.Float(0.5)) ** 2)
    yield elliptic("tiny hole", Difference(SQUARE, [Disk((0.5, 0.5), 0.002)]), log + X)
    yield elliptic("thin ring", Difference(Disk((0, 0), 1), [Disk((0, 0), 0.98)]), SMOOTH)
    yield elliptic(
        "holes that nearly touch", Difference(SQUARE, [Disk((0.35, 0.5), 0.14), Disk((0.64, 0.5), 0.14)]), SMOOTH
    )
    yield elliptic("hole near the rim", Difference(Disk((0, 0), 1), [Disk((0.85, 0), 0.13)]), SMOOTH)
    yield elliptic("thin lens", Intersection([Disk((0, 0), 1), Disk((1.9, 0), 1)]), SMOOTH)
    yield elliptic("narrow neck", Union([Disk((0, 0), 1), Disk((1.98, 0), 1)]), SMOOTH)
    yield elliptic(
        "slit of 359 degrees", Polygon([(0, 0), (1, -0.008), (1, -1), (-1, -1), (-1, 1), (1, 1), (1, 0.008)]), SMOOTH
    )


def conditions() -> Iterator[Drawn]:
    """Slopes all around with a mean, tiny Robin coefficients, periodic, corner data that are nearly right."""
    u = SMOOTH
    slope = rf"n_x ({latex(u.diff(X))}) + n_y ({latex(u.diff(Y))})"
    inside = rf"-\Delta u = {latex(-laplacian(u))}"
    for name, domain in (("square", SQUARE), ("disk", Disk((0, 0), 1)), ("L-shape", L_SHAPE)):
        for small in (1e-3, 1e-8):
            equations = {
                "interior": inside,
                "boundary": rf"\partial_n u + {small:.8f} u = {slope} + {latex(sp.Float(small) * u)}",
            }
            entries = {"coordinates": "x y", "domain": domain, "equations": equations, "exact": latex(u)}
            yield Drawn(f"robin {small:g}, {name}", entries)
    mean = sp.integrate(u, (X, 0, 1), (Y, 0, 1))
    equations = [
        {"on": "interior", "equation": inside},
        {"on": "boundary", "equation": rf"\partial_n u = {slope}"},
        {"equation": rf"\int_0^1\!\int_0^1 u\,dx\,dy = {float(mean):.16g}"},
    ]
    yield Drawn(
        "slopes and a mean", {"coordinates": "x y", "domain": SQUARE, "equations": equations, "exact": latex(u)}
    )
    wave = sp.sin(2 * sp.pi * X) * sp.exp(Y)
    equations = [
        {"on": "interior", "equation": rf"-\Delta u = {latex(-laplacian(wave))}"},
        {"on": "x = 0", "equation": "u(0, y) - u(1, y) = 0"},
        {"on": "x = 0", "equation": "u_x(0, y) - u_x(1, y) = 0"},
        *({"on": f"y = {k}", "equation": f"u = {latex(wave.subs(Y, k))}"} for k in (0, 1)),
    ]
    yield Drawn("periodic", {"coordinates": "x y", "domain": SQUARE, "equations": equations, "exact": latex(wave)})


def times() -> Iterator[Drawn]:
    for end in (10.0, 100.0):
        for name, u in (("decay", sp.sin(sp.pi * X) * sp.exp(-T / 10) + X), ("swing", sp.sin(3 * X + T))):
            right = u.diff(T) - u.diff(X, 2) / 10
            equations = {"interior": f"u_t - 0.1 u_{{xx}} = {latex(right)}", "t = 0": f"u = {latex(u.subs(T, 0))}"}
            equations |= {f"x = {k}": f"u = {latex(u.subs(X, k))}" for k in (0, 1)}
            domain = Timed(cnf.Box(0, 1), 0, end)
            entries = {"coordinates": "x t", "domain": domain, "equations": equations, "exact": latex(u)}
            yield Drawn(f"{name} until {end:g}", entries)
    u = sp.exp(-(((X - T) - sp.Float(0.3)) ** 2) / sp.Float(0.05) ** 2)
    equations = {
        "interior": "u_t + u_x = 0",
        "t = 0": f"u = {latex(u.subs(T, 0))}",
        "x = 0": f"u = {latex(u.subs(X, 0))}",
    }
    domain = Timed(cnf.Box(0, 2), 0, 1.5)
    yield Drawn("pulse carried", {"coordinates": "x t", "domain": domain, "equations": equations, "exact": latex(u)})


def draw_harsh() -> Iterator[Drawn]:
    """All of them in turn, with targets of 1e-3, 1e-5 and 1e-7."""
    families = (scales, coefficients, resonances, details, conditions, times)
    for k, found in enumerate(drawn for family in families for drawn in family()):
        solve = {"method": "patches", "target": 10.0 ** -(3 + 2 * (k % 3))}
        yield Drawn(f"{k:3d} {found.name}", {**found.entries, "solve": solve, "seed": k})
