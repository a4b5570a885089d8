"""Regions: coefficients that jump from one part of a domain to the other, and fields that do.

    python -m benchmarks.regions

All solutions are known: a disk in a uniform flow (u = A x inside, x + B x / r^2 outside), layers by formulas of one
dimension, and for the rest two different formulas inside and outside whose jumps are given on the interface. How far an
interface may turn in a cell and which slivers join others was chosen on the disks marked with an asterisk and five more
like them, so the others are the ones to look at. Times are processor seconds of one thread, everything included. Exit
code 1 if a figure is missed.
"""

from __future__ import annotations

import math

import torch

from benchmarks.cases import Case, run_cases
from cnf.domains import Box, Difference, Disk, Domain, Intersection, Polygon

SQUARE, UNIT = Box((-1, -1), (1, 1)), Box((0, 0), (1, 1))
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
)


def main() -> int:
    torch.set_num_threads(1)
    return int(run_cases(CASES) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
