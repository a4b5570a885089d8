"""How honest the estimate of the error is: problems with known solutions, easy and hopeless ones alike.

    python -m benchmarks.estimates [--method waves patches] [--count 40] [--seed 2]

Manufactured solutions (waves of 1 to 25 per unit, bumps, layers, poles, points where a derivative does not exist) on
squares, disks, L-shapes, plates with a hole, intervals and boxes, for eight kinds of equations, drawn at random. What
the estimate is made of was chosen on seed 1; seed 2, the default here, and the gallery took no part in that. Asked:
90 % of the estimates within a factor 10 of the error, none more than 3 times too small. Exit code 1 if that is missed.
"""

from __future__ import annotations

import argparse
import random
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import sympy as sp
import torch

import cnf
from cnf.errors import CnfError, CnfWarning

GALLERY = Path(__file__).parent.parent / "examples" / "pde"
X, Y, Z, T = sp.symbols("x y z t")
WITHIN, TOO_SMALL, SHARE = 10.0, 3.0, 0.9
ROUNDING = 1e-13  # below this, estimates and errors are both rounding


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


def elastic(draw: random.Random) -> Drawn:
    (first, u), (second, v) = solutions(draw, (X, Y)), solutions(draw, (X, Y))
    f = -3.5 * sp.diff(u, X, 2) - sp.diff(u, Y, 2) - 2.5 * sp.diff(v, X, Y)
    g = -sp.diff(v, X, 2) - 3.5 * sp.diff(v, Y, 2) - 2.5 * sp.diff(u, X, Y)
    equations = [
        {"on": "interior", "equation": f"-3.5 u_{{xx}} - u_{{yy}} - 2.5 v_{{xy}} = {latex(f)}"},
        {"on": "interior", "equation": f"-v_{{xx}} - 3.5 v_{{yy}} - 2.5 u_{{xy}} = {latex(g)}"},
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


KINDS: tuple[Callable[[random.Random], Drawn], ...] = (plane, plane, plane, in_time, in_time, on_a_line, elastic)


def draw_problems(seed: int, count: int, method: str) -> Iterator[Drawn]:
    """Problems of one seed; boxes in space for waves only, where they take seconds."""
    draw = random.Random(seed)
    for k in range(count):
        kind = in_space if method == "waves" and k % 8 == 7 else draw.choice(KINDS)
        found = kind(draw)
        solve: dict[str, object] = {"method": method}
        if method == "patches" or draw.random() < 0.3:
            solve["target"] = 10.0 ** -draw.randint(3, 7)
        yield Drawn(f"{k:2d} {found.name}", {**found.entries, "solve": solve, "seed": k})


def from_gallery(method: str) -> Iterator[Drawn]:
    """The gallery, as it is solved there; for patches, what they take."""
    for path in sorted(GALLERY.glob("*.toml")):
        yield Drawn(path.stem, {"path": path, "solve": {"method": method}})


def solved(drawn: Drawn) -> cnf.Answer:
    entries = dict(drawn.entries)
    path = entries.pop("path", None)
    problem = cnf.Problem(**entries) if path is None else cnf.Problem.read(path, **entries)  # type: ignore[arg-type]
    return problem.solve()


def judge(drawn: Drawn) -> tuple[float, float] | None:
    """(error, estimate); None if it is refused."""
    started = time.process_time()
    try:
        answer = solved(drawn)
    except CnfError as error:
        print(f"{drawn.name:<44} refused: {str(error).splitlines()[0][:90]}", flush=True)
        return None
    if answer.errors is None:
        return None
    error, estimate = max(answer.errors.values()), answer.estimate
    ratio = max(estimate, ROUNDING) / max(error, ROUNDING)
    mark = "  TOO SMALL" if ratio < 1 / TOO_SMALL else "  off" if ratio > WITHIN else ""
    seconds = time.process_time() - started
    state = "exact" if answer.certificate.exact else "not exact"
    print(f"{drawn.name:<44} {error:8.1e} {estimate:9.1e} {ratio:9.2g} {state:>9} {seconds:6.1f}{mark}", flush=True)
    return error, estimate


def run(title: str, problems: Iterator[Drawn]) -> bool:
    """Whether the estimates of these problems are as honest as is asked."""
    print(f"\n{title}\n{'':<44} {'error':>8} {'estimate':>9} {'ratio':>9} {'':>9} {'s':>6}", flush=True)
    pairs = [found for found in map(judge, problems) if found is not None]
    ratios = [max(b, ROUNDING) / max(a, ROUNDING) for a, b in pairs]
    if not ratios:
        return True
    within = sum(1 / WITHIN <= r <= WITHIN for r in ratios) / len(ratios)
    print(f"{title}: {within:.0%} of {len(ratios)} within a factor {WITHIN:.0f} (asked {SHARE:.0%}), ", end="")
    print(f"worst {1 / min(ratios):.2g} times too small (asked {TOO_SMALL:.0f}), {max(ratios):.2g} times too large")
    return within >= SHARE and min(ratios) >= 1 / TOO_SMALL


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--method", nargs="+", default=["waves", "patches"], choices=["waves", "patches"])
    reader.add_argument("--count", type=int, default=40)
    reader.add_argument("--seed", type=int, default=2)
    reader.add_argument("--gallery", action="store_true", help="the gallery as well")
    asked = reader.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", CnfWarning)
    good = []
    for method in asked.method:
        good.append(run(f"{method}, seed {asked.seed}", draw_problems(asked.seed, asked.count, method)))
        if asked.gallery:
            good.append(run(f"{method}, gallery", from_gallery(method)))
    return int(not all(good))


if __name__ == "__main__":
    raise SystemExit(main())
