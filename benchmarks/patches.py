"""Patches: problems that waves over the whole domain cannot do, and how cost grows with the number of conditions.

    python -m benchmarks.patches [--largest 300000]

Layers and Helmholtz have known solutions; settings of the refinement were chosen on the layers, so the others are the
ones to look at. The narrow source is compared with one of the same mass that is twice as wide: far away both are the
same. Times are processor seconds of one thread, everything included. Exit code 1 if a figure is missed.
"""

from __future__ import annotations

import argparse
import math
import resource
import time

import torch

import cnf
from benchmarks.cases import Case, run_cases, solved
from cnf.bases import Cells
from cnf.domains import Disk, Polygon
from cnf.pde.patches.building import Mesh, build_field, orders_of
from cnf.pde.problems.on_patches import question_of

SQUARE = cnf.Box((0, 0), (1, 1))
DISK = "(1 - x^2 - y^2)^2 / 64"
TRIANGLE = [(2 / 3, 0), (-1 / 3, 3**-0.5), (-1 / 3, -(3**-0.5))]
WOINOWSKY = r"\frac{1}{64} (x^3 - 3 x y^2 - x^2 - y^2 + \frac{4}{27}) (\frac{4}{9} - x^2 - y^2)"


def layer(width: float) -> dict[str, object]:
    return {
        "coordinates": "x y",
        "domain": SQUARE,
        "parameters": {"a": width},
        "equations": {"interior": r"-a \Delta u + u_x = 1", "boundary": r"u = x - e^{(x-1)/a}"},
        "exact": r"x - e^{(x-1)/a}",
        "solve": {"method": "patches", "target": 1e-8},
    }


def plate(domain: cnf.domains.Domain, second: str, exact: str) -> dict[str, object]:
    """Laplace twice under a uniform load."""
    equations = [
        {"on": "interior", "equation": r"\Delta^2 u = 1"},
        {"on": "boundary", "equation": "u = 0"},
        {"on": "boundary", "equation": second, "name": "second"},
    ]
    solve = {"method": "patches", "target": 1e-8}
    return {"coordinates": "x y", "domain": domain, "equations": equations, "exact": exact, "solve": solve}


def carried() -> dict[str, object]:
    """First order, with a layer that goes slanting through the square."""
    exact = r"\arctan((y - 0.5 x - 0.2) / 0.02)"
    return {
        "coordinates": "x y",
        "domain": SQUARE,
        "equations": {"interior": "u_x + 0.5 u_y = 0", "x = 0": f"u = {exact}", "y = 0": f"u = {exact}"},
        "exact": exact,
        "solve": {"method": "patches", "target": 1e-6},
    }


def darcy() -> dict[str, object]:
    """A system of first order, with a peak of the pressure; closed by pressures at two sides and fluxes at two."""
    peak = r"e^{-((x - 0.4)^2 + (y - 0.6)^2) / 0.01}"
    source = rf"(400 - 40000 ((x - 0.4)^2 + (y - 0.6)^2)) {peak}"
    inside = ("a + p_x = 0", "b + p_y = 0", f"a_x + b_y = {source}")
    sides = [(f"x = {k}", f"p = {peak}") for k in (0, 1)] + [(f"y = {k}", f"b = 200 (y - 0.6) {peak}") for k in (0, 1)]
    return {
        "coordinates": "x y",
        "channels": "a b p",
        "domain": SQUARE,
        "equations": [{"on": on, "equation": e} for on, e in (*(("interior", e) for e in inside), *sides)],
        "exact": {"p": peak},
        "solve": {"method": "patches", "target": 1e-6},
    }


def helmholtz() -> dict[str, object]:
    """k = 40 with a source; sin(24 x) cos(32 y) solves the homogeneous equation."""
    return {
        "coordinates": "x y",
        "domain": SQUARE,
        "equations": {"interior": r"\Delta u + 1600 u = 1600 x", "boundary": r"u = \sin(24x)\cos(32y) + x"},
        "exact": r"\sin(24x)\cos(32y) + x",
        "solve": {"method": "patches", "target": 1e-5},
    }


def advection() -> dict[str, object]:
    return {
        "coordinates": "x t",
        "domain": cnf.domains.Timed(cnf.Box(0, 1), 0, 1),
        "equations": {
            "interior": "u_t + 0.5 u_x = 0",
            "x = 0": r"u = e^{-100 (0.5 t + 0.3)^2}",
            "t = 0": r"u = e^{-100 (x - 0.3)^2}",
        },
        "exact": r"e^{-100 (x - 0.5 t - 0.3)^2}",
        "solve": {"method": "patches", "target": 1e-6},
    }


def source(width: float) -> dict[str, object]:
    peak = rf"\frac{{1}}{{{2 * math.pi * width**2!r}}} e^{{-((x - 0.31)^2 + (y - 0.67)^2) / {2 * width**2!r}}}"
    return {
        "coordinates": "x y",
        "domain": SQUARE,
        "equations": {"interior": rf"-\Delta u = {peak}", "boundary": "u = 0"},
        "solve": {"method": "patches", "target": 1e-6},
    }


CASES = (
    Case("layer of 0.01", layer(1e-2), 1e-8, 5),
    Case("layer of 0.001", layer(1e-3), 1e-8, 5),
    Case("Helmholtz, k = 40, with a source", helmholtz(), 1e-5, math.inf),
    Case("advection of a Gaussian", advection(), 1e-6, math.inf),
    Case("clamped disk, uniform load", plate(Disk((0, 0), 1), r"\partial_n u = 0", DISK), 1e-8),
    Case("supported triangle, uniform load", plate(Polygon(TRIANGLE), r"\Delta u = 0", WOINOWSKY), 1e-8),
    Case("layer that is carried along", carried(), 1e-6),
    Case("fluxes beside a pressure", darcy(), 1e-6),
)


def run_source() -> int:
    (narrow, seconds), (wide, _) = (solved(source(width)) for width in (0.002, 0.004))
    far = torch.tensor([[0.8, 0.2], [0.1, 0.1], [0.9, 0.9], [0.6, 0.4]], dtype=torch.float64)
    off = float(((narrow(far) - wide(far)) / wide(far)).abs().max())
    good = off <= 1e-6
    print(
        f"source of width 0.002: estimate {narrow.estimate:.1e}, far from it {off:.1e} from the same mass spread wider "
        f"(asked: 1e-06), {narrow.conditions} conditions, exact {narrow.certificate.exact}, {seconds:.1f} s"
        f"{'' if good else '  MISSED'}",
        flush=True,
    )
    return int(not good)


def run_growth(largest: int) -> int:
    """-Laplace u = f with sin(8 pi x) cos(6 pi y) on uniform cells of degree 10."""
    problem = cnf.Problem(
        "x y",
        domain=SQUARE,
        equations={
            "interior": r"-\Delta u = 100 \pi^2 \sin(8\pi x)\cos(6\pi y)",
            "boundary": r"u = \sin(8\pi x)\cos(6\pi y)",
        },
    )
    question, found = question_of(problem), []
    orders = orders_of(question)
    x = SQUARE.fill(2000, "halton", 1)
    exact = torch.sin(8 * math.pi * x[:, 0]) * torch.cos(6 * math.pi * x[:, 1])
    for side in (9, 16, 29, 50):
        cells = Cells([0, 0], [1, 1])
        for axis in (0, 1):
            while cells.count < (side if axis == 0 else side * side):
                wide = (cells.upper - cells.lower)[:, axis]
                cells = cells.cut([k for k in range(cells.count) if wide[k] > 0.99 * wide.max()], axis)
        started = time.process_time()
        field = build_field(question, orders, Mesh.of(cells, (10, 10))).eval()
        with torch.no_grad():
            error = float((field(x)[:, 0] - exact).norm() / exact.norm())
        certificate, seconds = field.certificate, time.process_time() - started
        found.append((certificate.conditions, seconds, error))
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"{certificate.conditions:>8} conditions: error {error:.1e}, worst residual {certificate.worst:.1e}, "
            f"{seconds:.1f} s, peak {memory:.1f} GB",
            flush=True,
        )
        if certificate.conditions * 2 > largest:
            break
    exponent = math.log(found[-1][1] / found[0][1]) / math.log(found[-1][0] / found[0][0])
    good = exponent <= 1.3
    print(f"cost grows with the power {exponent:.2f} of the conditions (asked: 1.3){'' if good else '  MISSED'}")
    return int(not good)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=300_000)
    largest = parser.parse_args().largest
    torch.set_num_threads(1)
    return int(run_cases(CASES) + run_source() + run_growth(largest) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
