"""Regions: coefficients that jump from one part of a domain to the other, and fields that do.

    python -m benchmarks.regions

All solutions are known: a disk in a uniform flow (u = A x inside, x + B x / r^2 outside), layers by formulas of one
dimension, r^p times a profile of the angle where regions meet in a point (Kellogg's checkerboard: r^0.1; errors at
random points, as a grid has the point itself), and for the rest two different formulas inside and outside whose jumps
are given on the interface. How far an interface may turn in a cell and which slivers join others was chosen on the
disks marked with an asterisk and five more like them; in space, how far interfaces turn in a cell, which slivers join
others, how many points interfaces have and what counts how much was chosen on balls marked so, at ratios from 1e-4 to
1e4. So the others are the ones to look at. Times are processor
seconds of one thread, everything included. Exit code 1 if a figure is missed.
"""

from __future__ import annotations

import math

import torch
from scipy.optimize import brentq

import cnf
from benchmarks.cases import Case, run_cases
from cnf.domains import Ball, Box, Difference, Disk, Domain, Intersection, Polygon

SQUARE, UNIT = Box((-1, -1), (1, 1)), Box((0, 0), (1, 1))
BLOCK = Box((-1, -1, -1), (1, 1, 1))
CONDUCTION = r"-\nabla\cdot(k \nabla u) = f"
INNER, OUTER = "x^2 y + 1", r"\sin(2x)\cos(3y)"
SLOPES = {INNER: ("2 x y", "x^2"), OUTER: (r"2\cos(2x)\cos(3y)", r"-3\sin(2x)\sin(3y)"), "x - y": ("1", "-1")}
SOURCES = {INNER: "-2 k y", OUTER: rf"13 k {OUTER}", "x - y": "0"}


def entries(target: float, **more: object) -> dict[str, object]:
    return {"coordinates": "x y", "solve": {"target": target}, **more}


def disk(ratio: float, radius: float, centre: tuple[float, float], domain: Domain = SQUARE) -> dict[str, object]:
    """A disk that conducts better, or worse, in a uniform flow."""
    x, square = f"(x - {centre[0]})", f"((x - {centre[0]})^2 + (y - {centre[1]})^2)"
    inside = f"{2 / (1 + ratio)!r} {x}"
    outside = f"{x} + {radius**2 * (1 - ratio) / (1 + ratio)!r} {x} / {square}"
    return entries(
        1e-6,
        domain=domain,
        regions={"disk": Disk(centre, radius)},
        parameters={"k": {"disk": ratio, "rest": 1}},
        equations={"interior": r"-\nabla\cdot(k \nabla u) = 0", "boundary": f"u = {outside}"},
        exact={"disk": inside, "rest": outside},
    )


def layers() -> dict[str, object]:
    """sin(pi x) Y(y) with Y'' = pi^2 Y; Y and k Y' are continuous at 0.4."""
    a, b = math.sinh(0.4 * math.pi), math.cosh(0.4 * math.pi) / 50
    above = rf"\sin(\pi x)({a!r} \cosh(\pi (y - 0.4)) + {b!r} \sinh(\pi (y - 0.4)))"
    return entries(
        1e-8,
        domain=UNIT,
        regions={"lower": Box((0, 0), (1, 0.4))},
        parameters={"k": {"lower": 1, "rest": 50}},
        equations={
            "interior": r"-\nabla\cdot(k \nabla u) = 0",
            "y = 1": f"u = {above}",
            **dict.fromkeys(("x = 0", "x = 1", "y = 0"), "u = 0"),
        },
        exact={"lower": r"\sin(\pi x)\sinh(\pi y)", "rest": above},
    )


def in_pieces(shapes: dict[str, Domain], ratios: dict[str, float], fields: dict[str, str]) -> dict[str, object]:
    """A formula for every region; values and fluxes jump by what they differ."""
    everywhere = {**fields, "rest": OUTER}

    def flux(ratio: float, field: str) -> str:
        return f"{ratio} (n_x ({SLOPES[field][0]}) + n_y ({SLOPES[field][1]}))"

    conditions = [
        {"on": f"interface {name}", "equation": equation}
        for name, field in fields.items()
        for equation in (
            f"[u] = {OUTER} - ({field})",
            rf"[k \partial_n u] = {flux(1, OUTER)} - {flux(ratios[name], field)}",
        )
    ]
    return entries(
        1e-7,
        domain=SQUARE,
        regions=shapes,
        parameters={
            "k": {**ratios, "rest": 1},
            "f": {name: SOURCES[field] for name, field in everywhere.items()},
            "g": everywhere,
        },
        equations=[
            {"on": "interior", "equation": CONDUCTION},
            {"on": "boundary", "equation": "u = g"},
            *conditions,
        ],
        exact={"u": everywhere},
    )


def elastic() -> dict[str, object]:
    """u = (x y, x^2 - y) in a stiffer disk, (sin x, cos y) around it; tractions jump by what they differ."""
    traction = "s n_x - 6 x n_y", "-6 x n_x + r n_y"
    equations = [
        {"on": "interior", "equation": "-(l + 2m) u_{xx} - m u_{yy} - (l + m) v_{xy} = p"},
        {"on": "interior", "equation": "-m v_{xx} - (l + 2m) v_{yy} - (l + m) u_{xy} = q"},
        {"on": "boundary", "equation": r"u = \sin x"},
        {"on": "boundary", "equation": r"v = \cos y"},
        {"on": "interface a", "equation": r"[u] = \sin x - x y"},
        {"on": "interface a", "equation": r"[v] = \cos y - x^2 + y"},
        {"on": "interface a", "equation": f"[n_x ((l + 2m) u_x + l v_y) + n_y m (u_y + v_x)] = {traction[0]}"},
        {"on": "interface a", "equation": f"[n_x m (u_y + v_x) + n_y ((l + 2m) v_y + l u_x)] = {traction[1]}"},
    ]
    return entries(
        1e-7,
        channels="u v",
        domain=SQUARE,
        regions={"a": Disk((0.1, 0.05), 0.45)},
        parameters={
            "l": {"a": 3, "rest": 1.5},
            "m": {"a": 2, "rest": 1},
            "p": {"a": 0, "rest": r"3.5 \sin x"},
            "q": {"a": -9, "rest": r"3.5 \cos y"},
            "s": r"3.5 \cos x - 1.5 \sin y - 7 y + 3",
            "r": r"1.5 \cos x - 3.5 \sin y - 3 y + 7",
        },
        equations=equations,
        exact={"u": {"a": "x y", "rest": r"\sin x"}, "v": {"a": "x^2 - y", "rest": r"\cos y"}},
    )


def around_a_point(
    domain: Domain, shapes: dict[str, Domain], k: dict[str, float], fields: dict[str, str], walls: tuple[str, ...] = ()
) -> dict[str, object]:
    """Nothing flows in or out, and the field is a formula for every region; it vanishes on the walls, if there are."""
    given = ("x = -1", "x = 1", "y = 1") if walls else ("boundary",)
    return entries(
        1e-7,
        domain=domain,
        regions=shapes,
        parameters={"k": k, "g": fields},
        equations={
            "interior": r"-\nabla\cdot(k \nabla u) = 0",
            **dict.fromkeys(walls, "u = 0"),
            **dict.fromkeys(given, "u = g"),
        },
        exact={"u": fields},
    )


def at_angle(factor: float, power: float, function: str, middle: float, shift: float) -> str:
    """factor r^power cos or sin of power (angle - shift); angles by half of those from the `middle` of a sector."""
    cos, sin = math.cos(middle), math.sin(middle)
    along, across = f"({cos!r} x + ({sin!r}) y)", f"({cos!r} y - ({sin!r}) x)"
    angle = rf"2 \arctan({across} / (\sqrt{{x^2 + y^2}} + {along}))"
    return rf"{factor!r} (x^2 + y^2)^{{{power / 2!r}}} \{function}({power!r} ({angle} + ({middle - shift!r})))"


def kellogg(power: float) -> dict[str, object]:
    """A checkerboard with the ratio that makes solutions go like r^power."""
    right, rho = math.pi / 2, math.pi / 4
    sigma = rho - right / power
    ratio = -math.tan(power * sigma) / math.tan(power * rho)
    parts = (
        (right - sigma, right - rho),
        (rho, 2 * right - sigma),
        (sigma, 2 * right + rho),
        (right - rho, 3 * right + sigma),
    )
    fields = {
        name: at_angle(math.cos(power * factor), power, "cos", (2 * quarter + 1) * rho, shift)
        for quarter, (name, (factor, shift)) in enumerate(zip(("a", "b", "c", "rest"), parts, strict=True))
    }
    shapes = {"a": Box((0, 0), (1, 1)), "b": Box((-1, 0), (0, 1)), "c": Box((-1, -1), (0, 0))}
    return around_a_point(SQUARE, shapes, {"a": ratio, "b": 1, "c": ratio, "rest": 1}, fields)


def right_angle(ratio: float) -> dict[str, object]:
    """The corner of a square, even about the bisector: ratio tan(p pi / 4) = -tan(3 p pi / 4); it ends in corners."""
    inside, outside = math.pi / 4, 3 * math.pi / 4

    def missing(p: float) -> float:
        return ratio * math.sin(p * inside) * math.cos(p * outside) + math.sin(p * outside) * math.cos(p * inside)

    power = brentq(missing, 0.67, 0.99)
    fields = {
        "a": at_angle(math.cos(outside * power) / math.cos(inside * power), power, "cos", 0.0, 0.0),
        "rest": at_angle(1.0, power, "cos", math.pi, math.pi),
    }
    return around_a_point(SQUARE, {"a": Polygon([(0, 0), (1, -1), (1, 1)])}, {"a": ratio, "rest": 1}, fields)


def at_the_wall(ratio: float) -> dict[str, object]:
    """An interface that leaves a wall with u = 0 at 60 degrees: ratio cot(2 p pi / 3) + cot(p pi / 3) = 0."""
    one, two = math.pi / 3, 2 * math.pi / 3

    def missing(p: float) -> float:
        return ratio * math.cos(p * two) * math.sin(p * one) + math.cos(p * one) * math.sin(p * two)

    power = brentq(missing, 0.55, 0.99)
    fields = {
        "a": at_angle(-math.sin(one * power) / math.sin(two * power), power, "sin", 2 * one, math.pi),
        "rest": at_angle(1.0, power, "sin", one / 2, 0.0),
    }
    wedge = Polygon([(0, 0), (1 / math.sqrt(3), 1), (-1, 1), (-1, 0)])
    return around_a_point(Box((-1, 0), (1, 1)), {"a": wedge}, {"a": ratio, "rest": 1}, fields, walls=("y = 0",))


def at_random_points(answer: cnf.Answer) -> float:
    """The relative error there."""
    problem = answer.problem
    x = problem.domain.random(4000, torch.Generator().manual_seed(0))
    assert problem.exact is not None
    wanted = problem.exact["u"](x).reshape(-1)
    with torch.no_grad():
        return float((answer(x)[:, 0] - wanted).norm() / wanted.norm())


def ball(ratio: float, radius: float, centre: tuple[float, float, float], domain: Domain = BLOCK) -> dict[str, object]:
    """A ball that conducts better, or worse, in a uniform flow."""
    z, square = f"(z - {centre[2]})", " + ".join(f"({x} - {c})^2" for x, c in zip("xyz", centre, strict=True))
    outside = f"{z} + ({radius**3 * (1 - ratio) / (2 + ratio)!r}) {z} / ({square})^{{1.5}}"
    return {
        "coordinates": "x y z",
        "domain": domain,
        "regions": {"ball": Ball(centre, radius)},
        "parameters": {"k": {"ball": ratio, "rest": 1}},
        "equations": {"interior": r"-\nabla\cdot(k \nabla u) = 0", "boundary": f"u = {outside}"},
        "exact": {"ball": f"{3 / (2 + ratio)!r} {z}", "rest": outside},
        "solve": {"target": 5e-3},
    }


def solid_in_pieces(shape: Domain, domain: Domain = BLOCK) -> dict[str, object]:
    """x^2 y + z + 1 in a region ten times as conductive, sin(2x) cos(3y) e^z around it, and the jumps that makes."""
    inner, outer = "x^2 y + z + 1", r"\sin(2x)\cos(3y) e^z"
    slopes = r"2\cos(2x)\cos(3y) e^z", r"-3\sin(2x)\sin(3y) e^z", outer
    flux = " + ".join(f"n_{x} ({o} - 10 ({i}))" for x, o, i in zip("xyz", slopes, ("2 x y", "x^2", "1"), strict=True))
    return {
        "coordinates": "x y z",
        "domain": domain,
        "regions": {"a": shape},
        "parameters": {
            "k": {"a": 10, "rest": 1},
            "f": {"a": "-20 y", "rest": rf"12 {outer}"},
            "g": {"a": inner, "rest": outer},
        },
        "equations": [
            {"on": "interior", "equation": CONDUCTION},
            {"on": "boundary", "equation": "u = g"},
            {"on": "interface a", "equation": f"[u] = {outer} - ({inner})"},
            {"on": "interface a", "equation": rf"[k \partial_n u] = {flux}"},
        ],
        "exact": {"u": {"a": inner, "rest": outer}},
        "solve": {"target": 1e-2},
    }


def one(shape: Domain) -> dict[str, object]:
    return in_pieces({"a": shape}, {"a": 10}, {"a": INNER})


TRIANGLE = Polygon([(-0.5, -0.4), (0.6, -0.3), (0.2, 0.55)])
TWO = in_pieces(
    {"a": Disk((-0.45, 0.2), 0.33), "b": Disk((0.5, -0.3), 0.27)}, {"a": 10, "b": 0.01}, {"a": INNER, "b": "x - y"}
)
CASES = (
    Case("disk 1:100 *", disk(100, 0.5, (0, 0)), 1e-6, 20),
    Case("disk 1:100, off the centre", disk(100, 0.31, (-0.33, -0.27)), 1e-6, 20),
    Case("disk 1:100 in a disk", disk(100, 0.35, (0.1, 0.2), Disk((0, 0), 1)), 1e-6, 20),
    Case("disk 1:10000", disk(1e4, 0.42, (0.2, -0.15)), 1e-6, 20),
    Case("disk 10000:1", disk(1e-4, 0.42, (0.2, -0.15)), 1e-6, 20),
    Case("layers 1:50", layers(), 1e-8),
    Case("disk with given jumps", one(Disk((0.1, 0.15), 0.4)), 1e-7),
    Case("two disks, 10 and 0.01", TWO, 1e-7),
    Case("triangle with given jumps", one(TRIANGLE), 1e-7),
    Case("half disk at the boundary", one(Intersection([Disk((-1, 0), 0.8), SQUARE])), 1e-7),
    Case("ring", one(Difference(Disk((0.1, 0), 0.7), Disk((0.1, 0), 0.4))), 1e-7),
    Case("elastic inclusion", elastic(), 1e-7),
    Case("checkerboard, r^0.1", kellogg(0.1), 1e-7, error=at_random_points),
    Case("checkerboard, r^0.5", kellogg(0.5), 1e-7, error=at_random_points),
    Case("right angle of an interface, 1:10", right_angle(10), 1e-7, error=at_random_points),
    Case("interface at a wall, 60 degrees", at_the_wall(10), 1e-7, error=at_random_points),
    Case("ball 1:100 *", ball(100, 0.5, (0, 0, 0)), 5e-3, 100),
    Case("ball 100:1 *", ball(0.01, 0.5, (0, 0, 0)), 5e-3, 100),
    Case("ball 1:100, off the centre", ball(100, 0.31, (-0.33, -0.27, 0.2)), 5e-3, 100),
    Case("ball 1:100 in a ball", ball(100, 0.35, (0.1, 0.2, 0.05), Ball((0, 0, 0), 1)), 5e-3, 100),
    Case("ball with given jumps", solid_in_pieces(Ball((0.1, 0.15, -0.05), 0.4)), 1e-2, 100),
    Case("shell", solid_in_pieces(Difference(Ball((0.1, 0, 0), 0.75), Ball((0.1, 0, 0), 0.4))), 1e-2, 300),
    Case("half a ball on a wall", solid_in_pieces(Intersection([Ball((-1, 0, 0), 0.8), BLOCK])), 1e-2, 100),
)


def main() -> int:
    torch.set_num_threads(1)
    return int(run_cases(CASES) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
