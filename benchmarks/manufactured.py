"""Problems with known solutions, drawn at random: easy and hopeless ones alike, for the estimates of the error.

Solutions are waves of 1 to 25 per unit, bumps, layers, poles, points where a derivative does not exist; the right-hand
sides are what the equations make of them. What goes out: the entries of a `cnf.Problem`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import sympy as sp

import cnf

X, Y, Z, T = sp.symbols("x y z t")


@dataclass(frozen=True)
class Drawn:
    """A problem with a known solution."""

    name: str
    entries: dict[str, object]


def solutions(draw: random.Random, names: tuple[sp.Symbol, ...]) -> tuple[str, sp.Expr]:
    """A random function of the coordinates, of a random difficulty."""
    kind = draw.choice(("wave", "wave", "bump", "layer", "pole", "rough", "smooth"))
    at = [draw.uniform(0.2, 0.8) for _ in names]
    square = sum((name - round(a, 3)) ** 2 for name, a in zip(names, at, strict=True))
    slope = sum(round(draw.uniform(-1, 1), 2) * name for name in names) or names[0]
    if kind == "wave":
        k = round(10 ** draw.uniform(0, 1.4), 2)
        found = sp.sin(k * slope + 1) + sp.Rational(1, 2) * sp.cos(k * names[0])
    elif kind == "bump":
        found = sp.exp(-square / round(10 ** draw.uniform(-1.3, 0), 4) ** 2)
    elif kind == "layer":
        found = sp.tanh((slope - round(draw.uniform(-0.3, 0.3), 2)) / round(10 ** draw.uniform(-1.4, 0), 4))
    elif kind == "pole":
        found = 1 / (square + round(10 ** draw.uniform(-2, 0), 4))
    elif kind == "rough":
        corner = draw.random() < 0.5
        found = (sum(name**2 for name in names) if corner else square) ** sp.Float(draw.choice((1.75, 2.25, 2.75)))
    else:
        found = sp.exp(slope) * sp.cos(2 * names[-1]) + names[0] ** 2
    return kind, found


def latex(expression: sp.Expr) -> str:
    return sp.latex(expression)


def plane_domain(draw: random.Random) -> tuple[str, cnf.domains.Domain]:
    square = cnf.Box((0, 0), (1, 1))
    return draw.choice(
        (
            ("square", square),
            ("square", square),
            ("disk", cnf.domains.Disk((0.5, 0.5), 0.6)),
            ("L-shape", cnf.domains.Polygon([(0, 0), (1, 0), (1, 0.5), (0.5, 0.5), (0.5, 1), (0, 1)])),
            ("holed", cnf.domains.Difference(square, cnf.domains.Disk((0.4, 0.6), 0.2))),
        )
    )


def plane(draw: random.Random) -> Drawn:
    """Poisson, Helmholtz, or convection and diffusion with given values; now and then with a given slope on a side."""
    shape, domain = plane_domain(draw)
    kind, u = solutions(draw, (X, Y))
    name, left, operator = draw.choice(
        (
            ("poisson", r"-\Delta u", lambda v: -sp.diff(v, X, 2) - sp.diff(v, Y, 2)),
            ("helmholtz", r"\Delta u + 9 u", lambda v: sp.diff(v, X, 2) + sp.diff(v, Y, 2) + 9 * v),
            (
                "convection",
                r"-0.1 \Delta u + 2 u_x + u_y",
                lambda v: -0.1 * (sp.diff(v, X, 2) + sp.diff(v, Y, 2)) + 2 * sp.diff(v, X) + sp.diff(v, Y),
            ),
        )
    )
    equations = {"interior": f"{left} = {latex(operator(u))}", "boundary": f"u = {latex(u)}"}
    if shape == "square" and draw.random() < 0.4:
        name += ", slope"
        equations = {"interior": equations["interior"], "x = 0": f"u_x = {latex(sp.diff(u, X))}"}
        equations |= dict.fromkeys(("x = 1", "y = 0", "y = 1"), f"u = {latex(u)}")
    entries = {"coordinates": "x y", "domain": domain, "equations": equations, "exact": latex(u)}
    return Drawn(f"{name}, {shape}, {kind}", entries)


def in_time(draw: random.Random) -> Drawn:
    kind, u = solutions(draw, (X, T))
    heat = draw.random() < 0.5
    right = sp.diff(u, T) - 0.2 * sp.diff(u, X, 2) if heat else sp.diff(u, T) + 0.7 * sp.diff(u, X)
    equations = {
        "interior": f"{'u_t - 0.2 u_{xx}' if heat else 'u_t + 0.7 u_x'} = {latex(right)}",
        "t = 0": f"u = {latex(u)}",
        "x = 0": f"u = {latex(u)}",
        **({"x = 1": f"u = {latex(u)}"} if heat else {}),
    }
    domain = cnf.domains.Timed(cnf.Box(0, 1), 0, 1)
    entries = {"coordinates": "x t", "domain": domain, "equations": equations, "exact": latex(u)}
    return Drawn(f"{'heat' if heat else 'advection'}, {kind}", entries)


def on_a_line(draw: random.Random) -> Drawn:
    kind, u = solutions(draw, (X,))
    equations = {"interior": f"-u_{{xx}} + 4 u = {latex(-sp.diff(u, X, 2) + 4 * u)}", "boundary": f"u = {latex(u)}"}
    return Drawn(
        f"line, {kind}", {"coordinates": "x", "domain": cnf.Box(0, 1), "equations": equations, "exact": latex(u)}
    )


def elastic_inside(f: sp.Expr, g: sp.Expr) -> list[dict[str, str]]:
    """Plane elasticity with Lame's constants 1.5 and 1 under the forces f and g."""
    return [
        {"on": "interior", "equation": f"-3.5 u_{{xx}} - u_{{yy}} - 2.5 v_{{xy}} = {latex(f)}"},
        {"on": "interior", "equation": f"-v_{{xx}} - 3.5 v_{{yy}} - 2.5 u_{{xy}} = {latex(g)}"},
    ]


def elastic(draw: random.Random) -> Drawn:
    (first, u), (second, v) = solutions(draw, (X, Y)), solutions(draw, (X, Y))
    f = -3.5 * sp.diff(u, X, 2) - sp.diff(u, Y, 2) - 2.5 * sp.diff(v, X, Y)
    g = -sp.diff(v, X, 2) - 3.5 * sp.diff(v, Y, 2) - 2.5 * sp.diff(u, X, Y)
    equations = [
        *elastic_inside(f, g),
        {"on": "boundary", "equation": f"u = {latex(u)}"},
        {"on": "boundary", "equation": f"v = {latex(v)}"},
    ]
    shape, domain = plane_domain(draw)
    exact = {"u": latex(u), "v": latex(v)}
    entries = {"coordinates": "x y", "channels": "u v", "domain": domain, "equations": equations, "exact": exact}
    return Drawn(f"elastic, {shape}, {first} {second}", entries)


def in_space(draw: random.Random) -> Drawn:
    kind, u = solutions(draw, (X, Y, Z))
    right = -sum(sp.diff(u, name, 2) for name in (X, Y, Z))
    equations = {"interior": rf"-\Delta u = {latex(right)}", "boundary": f"u = {latex(u)}"}
    entries = {
        "coordinates": "x y z",
        "domain": cnf.Box((0, 0, 0), (1, 1, 1)),
        "equations": equations,
        "exact": latex(u),
    }
    return Drawn(f"box, {kind}", entries)


def mild(draw: random.Random, names: tuple[sp.Symbol, ...]) -> sp.Expr:
    """A smooth function that is cheap to follow in several coordinates."""
    slope = sum(round(draw.uniform(-1, 1), 2) * name for name in names) or names[0]
    if draw.random() < 0.5:
        return sp.sin(round(draw.uniform(1, 6), 2) * slope + 1) + names[0] * names[-1]
    square = sum((name - round(draw.uniform(0.2, 0.8), 2)) ** 2 for name in names)
    return sp.exp(-square / round(draw.uniform(0.3, 1), 2) ** 2)


def laplacian(u: sp.Expr, names: tuple[sp.Symbol, ...] = (X, Y)) -> sp.Expr:
    return sum(sp.diff(u, name, 2) for name in names)


def vertices_around(draw: random.Random, most: int) -> list[tuple[float, float]]:
    """Three to `most` vertices around the middle, at any distance: corners of all angles, entrant ones as well."""
    count = draw.randint(3, most)
    turns = [(k + draw.uniform(-0.3, 0.3)) * math.tau / count for k in range(count)]
    sizes = [draw.uniform(0.25, 0.6) for _ in turns]
    return [
        (round(0.5 + r * math.cos(a), 3), round(0.5 + r * math.sin(a), 3)) for r, a in zip(sizes, turns, strict=True)
    ]


def on_polygon(draw: random.Random) -> Drawn:
    places = vertices_around(draw, 8)
    kind, u = solutions(draw, (X, Y))
    equations = {"interior": rf"-\Delta u = {latex(-laplacian(u))}", "boundary": f"u = {latex(u)}"}
    domain = cnf.domains.Polygon(places)
    return Drawn(
        f"polygon, {len(places)} sides, {kind}",
        {"coordinates": "x y", "domain": domain, "equations": equations, "exact": latex(u)},
    )


def with_holes(draw: random.Random) -> Drawn:
    """One to four holes in a square or a disk, with values, slopes or both around them."""
    outer = draw.choice((cnf.Box((0, 0), (1, 1)), cnf.domains.Disk((0.5, 0.5), 0.6)))
    holes: list[tuple[float, float, float]] = []
    for _ in range(draw.randint(1, 4)):
        x, y, r = (round(draw.uniform(*ends), 3) for ends in ((0.25, 0.75), (0.25, 0.75), (0.05, 0.15)))
        if all(math.hypot(x - a, y - b) > r + s + 0.05 for a, b, s in holes):
            holes.append((x, y, r))
    kind, u = solutions(draw, (X, Y))
    equations = {"interior": rf"-\Delta u + u = {latex(-laplacian(u) + u)}"}
    disks, names = [], []
    for k, (x, y, r) in enumerate(holes):
        names.append(f"hole{k + 1}")
        disks.append(cnf.domains.Disk((x, y), r, name=names[-1]))
        out = -(sp.diff(u, X) * (X - x) + sp.diff(u, Y) * (Y - y)) / r  # normals point out of the domain
        way = draw.choice(("u", r"\partial_n u", r"\partial_n u + 2 u"))
        right = {"u": u, r"\partial_n u": out}.get(way, out + 2 * u)
        equations[names[-1]] = f"{way} = {latex(right)}"
    equations[f"boundary except {', '.join(names)}"] = f"u = {latex(u)}"
    domain = cnf.domains.Difference(outer, disks)
    entries = {"coordinates": "x y", "domain": domain, "equations": equations, "exact": latex(u)}
    return Drawn(f"{len(holes)} holes, {type(outer).__name__}, {kind}", entries)


def at_corner(draw: random.Random) -> Drawn:
    """r^(pi/a) cos(pi phi / a), or r^(pi/2a) beside a free side, and a smooth part; any angle a."""
    angle = math.radians(draw.choice((270, 270, draw.randint(100, 330))))
    free = draw.random() < 0.4
    count = 3 + int(angle)
    rays = [-angle / 2 + angle * k / (count - 1) for k in range(count)]
    reach = [round(draw.uniform(0.7, 1), 2) for _ in rays]
    places = [(0.0, 0.0)] + [(r * math.cos(a), r * math.sin(a)) for r, a in zip(reach, rays, strict=True)]
    r = sp.sqrt(X**2 + Y**2)
    phi = 2 * sp.atan(Y / (r + X))
    power = sp.Float(math.pi / angle / (2 if free else 1))
    own = r**power * (sp.cos(power * (phi + angle / 2) - sp.pi / 2) if free else sp.cos(power * phi))
    v = mild(draw, (X, Y)) * round(draw.uniform(0, 1), 2)
    u = own + v
    # the second edge of the corner is the last of the polygon; out of the domain is to the right of the way along it
    out = (-math.sin(angle / 2), math.cos(angle / 2))
    slope = sp.diff(v, X) * out[0] + sp.diff(v, Y) * out[1]
    last = f"edge {count + 1}"
    equations = {
        "interior": rf"-\Delta u = {latex(-laplacian(v))}",
        "edge 1": f"u = {latex(v)}",
        last: rf"\partial_n u = {latex(slope)}" if free else f"u = {latex(v)}",
        f"boundary except edge 1, {last}": f"u = {latex(u)}",
    }
    entries = {"coordinates": "x y", "domain": cnf.domains.Polygon(places), "equations": equations, "exact": latex(u)}
    return Drawn(f"corner, {math.degrees(angle):.0f}{', free' if free else ''}", entries)


def with_layer(draw: random.Random) -> Drawn:
    """Layers of 0.3 to 0.001 along a side, or of 0.3 to 0.03 around a disk."""
    if draw.random() < 0.6:
        width = sp.Float(round(10 ** draw.uniform(-3, -0.5), 4))
        u = (X - sp.exp((X - 1) / width)) * sp.cos(round(draw.uniform(1, 4), 1) * Y)
        right = -width * laplacian(u) + sp.diff(u, X)
        left, domain, name = rf"-{width} \Delta u + u_x", cnf.Box((0, 0), (1, 1)), "side"
    else:
        width = sp.Float(round(10 ** draw.uniform(-1.5, -0.5), 3))
        r = X**2 + Y**2
        u = sp.exp((r - 1) / (2 * width)) * (1 + X / 2) + Y
        right = -(width**2) * laplacian(u) + u
        left, domain, name = rf"-{width**2} \Delta u + u", cnf.domains.Disk((0, 0), 1), "disk"
    equations = {"interior": f"{left} = {latex(right)}", "boundary": f"u = {latex(u)}"}
    entries = {"coordinates": "x y", "domain": domain, "equations": equations, "exact": latex(u)}
    return Drawn(f"layer, {name}, {float(width):.3g}", entries)


def with_regions(draw: random.Random) -> Drawn:
    """A conductor in another one: u = w / k with a w that vanishes between them, or two fields with given jumps."""
    inner, outer = sp.Float(round(10 ** draw.uniform(-2, 2), 3)), sp.Integer(1)
    domain = cnf.Box((0, 0), (1, 1))
    at, radius = (round(draw.uniform(0.4, 0.6), 2), round(draw.uniform(0.4, 0.6), 2)), round(draw.uniform(0.15, 0.3), 2)
    shape = draw.choice(("disk", "disk", "half"))
    region: cnf.domains.Domain
    if shape == "disk":
        region = cnf.domains.Disk(at, radius)
        vanishing = (X - at[0]) ** 2 + (Y - at[1]) ** 2 - radius**2
        normal = ((X - at[0]) / radius, (Y - at[1]) / radius)
    else:
        region, vanishing, normal = cnf.Box((0, 0), (at[0], 1)), X - at[0], (1, 0)
    jumping = draw.random() < 0.5
    if jumping:
        within, beyond = mild(draw, (X, Y)), solutions(draw, (X, Y))[1]
    else:
        w = vanishing * (1 + mild(draw, (X, Y)))
        within, beyond = w / inner, w / outer
    flux = [
        k * sum(sp.diff(u, c) * n for c, n in zip((X, Y), normal, strict=True))
        for k, u in ((inner, within), (outer, beyond))
    ]
    equations = {
        "part": rf"-\nabla\cdot(k \nabla u) = {latex(-inner * laplacian(within))}",
        "rest": rf"-\nabla\cdot(k \nabla u) = {latex(-outer * laplacian(beyond))}",
        "boundary": "u = g",
    }
    given = [{"on": on, "equation": equation} for on, equation in equations.items()]
    if jumping:
        given.append({"on": "interface part", "equation": f"[u] = {latex(beyond - within)}"})
        given.append({"on": "interface part", "equation": rf"[k \partial_n u] = {latex(flux[1] - flux[0])}"})
    both = {"part": latex(within), "rest": latex(beyond)}
    entries = {
        "coordinates": "x y",
        "domain": domain,
        "regions": {"part": region},
        "parameters": {"k": {"part": float(inner), "rest": float(outer)}, "g": both},
        "equations": given,
        "exact": both,
    }
    return Drawn(f"regions, {shape}, 1 : {float(inner):.3g}{', jumps' if jumping else ''}", entries)


def plane_in_time(draw: random.Random) -> Drawn:
    u = mild(draw, (X, Y, T))
    shape, space = draw.choice((("square", cnf.Box((0, 0), (1, 1))), ("disk", cnf.domains.Disk((0.5, 0.5), 0.5))))
    right = sp.diff(u, T) - laplacian(u) / 10
    equations = {
        "interior": rf"u_t - 0.1 \Delta u = {latex(right)}",
        "boundary": f"u = {latex(u)}",
        "t = 0": f"u = {latex(u.subs(T, 0))}",
    }
    domain = cnf.domains.Timed(space, 0, round(draw.uniform(0.3, 1), 1))
    return Drawn(
        f"heat, {shape}", {"coordinates": "x y t", "domain": domain, "equations": equations, "exact": latex(u)}
    )


def string(draw: random.Random) -> Drawn:
    """u_tt = c^2 u_xx + f, with the velocity as a channel."""
    kind, u = solutions(draw, (X, T))
    v, speed = sp.diff(u, T), round(draw.uniform(0.5, 2), 1)
    right = sp.diff(v, T) - speed**2 * sp.diff(u, X, 2)
    equations = [
        {"on": "interior", "equation": "u_t - v = 0"},
        {"on": "interior", "equation": f"v_t - {speed**2:.4g} u_{{xx}} = {latex(right)}"},
        {"on": "boundary", "equation": f"u = {latex(u)}"},
        {"on": "t = 0", "equation": f"u = {latex(u.subs(T, 0))}"},
        {"on": "t = 0", "equation": f"v = {latex(v.subs(T, 0))}"},
    ]
    entries = {
        "coordinates": "x t",
        "channels": "u v",
        "domain": cnf.domains.Timed(cnf.Box(0, 1), 0, 1),
        "equations": equations,
        "exact": {"u": latex(u), "v": latex(v)},
    }
    return Drawn(f"string, {kind}", entries)


def flowing(draw: random.Random) -> Drawn:
    """Stokes: a stream function, any pressure that vanishes in the middle."""
    kind, stream = solutions(draw, (X, Y))
    u, v, p = sp.diff(stream, Y), -sp.diff(stream, X), mild(draw, (X, Y))
    p = p - p.subs({X: sp.Rational(1, 2), Y: sp.Rational(1, 2)})
    force = [-laplacian(w) + sp.diff(p, c) for w, c in ((u, X), (v, Y))]
    equations = [
        {"on": "interior", "equation": rf"-\Delta u + p_x = {latex(force[0])}"},
        {"on": "interior", "equation": rf"-\Delta v + p_y = {latex(force[1])}"},
        {"on": "interior", "equation": "u_x + v_y = 0"},
        {"on": "boundary", "equation": f"u = {latex(u)}"},
        {"on": "boundary", "equation": f"v = {latex(v)}"},
        {"equation": "p(0.5, 0.5) = 0"},
    ]
    exact = {"u": latex(u), "v": latex(v), "p": latex(p)}
    entries = {"coordinates": "x y", "channels": "u v p", "domain": cnf.Box((0, 0), (1, 1)), "equations": equations}
    return Drawn(f"stokes, {kind}", {**entries, "exact": exact})


def bending(draw: random.Random) -> Drawn:
    kind, u = solutions(draw, (X, Y))
    equations = [
        {"on": "interior", "equation": rf"\Delta^2 u = {latex(laplacian(laplacian(u)))}"},
        {"on": "boundary", "equation": f"u = {latex(u)}"},
        *({"on": f"x = {k}", "equation": f"u_x = {latex(sp.diff(u, X))}"} for k in (0, 1)),
        *({"on": f"y = {k}", "equation": f"u_y = {latex(sp.diff(u, Y))}"} for k in (0, 1)),
    ]
    entries = {"coordinates": "x y", "domain": cnf.Box((0, 0), (1, 1)), "equations": equations, "exact": latex(u)}
    return Drawn(f"bending, {kind}", entries)


def in_mild_space(draw: random.Random) -> Drawn:
    u = mild(draw, (X, Y, Z))
    equations = {
        "interior": rf"-\Delta u = {latex(-laplacian(u, (X, Y, Z)))}",
        "boundary": f"u = {latex(u)}",
    }
    shape, domain = draw.choice(
        (("box", cnf.Box((0, 0, 0), (1, 1, 1))), ("ball", cnf.domains.Ball((0.5, 0.5, 0.5), 0.5)))
    )
    return Drawn(
        f"space, {shape}", {"coordinates": "x y z", "domain": domain, "equations": equations, "exact": latex(u)}
    )


Kind = Callable[[random.Random], Drawn]
WAVES: tuple[Kind, ...] = (plane, plane, plane, in_time, in_time, on_a_line, elastic)
PATCHES: dict[str, Kind] = {
    "plane": plane,
    "polygon": on_polygon,
    "holes": with_holes,
    "corner": at_corner,
    "layer": with_layer,
    "regions": with_regions,
    "line": on_a_line,
    "time": in_time,
    "string": string,
    "plane and time": plane_in_time,
    "elastic": elastic,
    "stokes": flowing,
    "bending": bending,
    "space": in_mild_space,
}


def draw_problems(seed: int, count: int, method: str, families: Sequence[str] = tuple(PATCHES)) -> Iterator[Drawn]:
    """Problems of one seed: for patches the families in turn; for waves at random, and boxes in space."""
    draw = random.Random(seed)
    for k in range(count):
        if method == "waves":
            found = (in_space if k % 8 == 7 else draw.choice(WAVES))(draw)
        else:  # a draw of its own: one problem can be run without the others
            family = list(PATCHES)[k % len(PATCHES)]
            draw = random.Random(f"{seed} {k}")
            found = PATCHES[family](draw)
        solve: dict[str, object] = {"method": method}
        if method == "patches" or draw.random() < 0.3:
            solve["target"] = 10.0 ** -draw.randint(3, 7)
        if method == "waves" or family in families:
            yield Drawn(f"{k:3d} {found.name}", {**found.entries, "solve": solve, "seed": k})
