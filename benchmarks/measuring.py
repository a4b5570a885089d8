"""What measuring costs: solves and training steps with the certificate, and with measuring patched away.

    python -m benchmarks.measuring [--rounds 9]

Both variants take turns in one run. Shares are of processor seconds, which a busy machine disturbs least; wall time
stands beside them. Solves measure every condition on the field, steps of a training a sample of them. Exit code 1 if
a bound is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from unittest.mock import patch

import torch

import cnf
from benchmarks.hypernet import build_field, eikonal_points
from cnf.certificate import Certificate

MODULE = sys.modules["cnf.field"]  # where a solve asks to be measured
SQUARE = cnf.Box((0.0, 0.0), (1.0, 1.0))
SPACE = cnf.Space("x y", "u")


@dataclass(frozen=True)
class Case:
    name: str
    run: Callable[[], object]
    most: float  # share that measuring may add
    repeats: int = 1  # runs per timing


def nothing(solution: cnf.Solution, tolerance: float, seconds: float, *_: object) -> Certificate:
    """What `certify` is replaced by: a certificate without a measurement."""
    return Certificate({}, tolerance, 0, 0, 1, 0.0, 0.0, seconds, "not measured", 0)


def wave(p: torch.Tensor) -> torch.Tensor:
    return torch.sin(3 * p[:, 0]) * torch.cos(2 * p[:, 1])


def conditions(count: int, latex: str = r"\Delta u") -> list[cnf.Constraint]:
    """A fifth of the conditions are values, the others of that operator."""
    points = SQUARE.halton(count, seed=1)
    values = SPACE.constraint("u", at=points[: count // 5], equals=wave, name="values")
    return [values, SPACE.constraint(latex, at=points[count // 5 :], equals=lambda p: -13 * wave(p), name="equation")]


def solve_of(basis: cnf.bases.Basis, given: list[cnf.Constraint]) -> Callable[[], object]:
    field = cnf.ConstrainedField(basis, given, tolerance=1e9)

    def run() -> None:
        with torch.no_grad():
            field.solve()

    return run


def step_of(field: cnf.ConstrainedField, loss: Callable[[cnf.Solution], torch.Tensor]) -> Callable[[], object]:
    """One step of training, as `cnf.fit` makes it."""
    optimizer = torch.optim.Adam(field.parameters(), lr=1e-6)

    def run() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss(field.solve()).backward()
        optimizer.step()

    return run


def solves() -> list[Case]:
    given = conditions(1000)
    values = [SPACE.constraint("u", at=SQUARE.halton(1000, seed=1), equals=wave, name="values")]
    kernel, fourier = cnf.kernels.Gaussian(0.03), cnf.bases.RandomFourier(SPACE, 2048, 0.2)
    return [
        Case("solve, RandomFourier 2048, 1000 conditions", solve_of(fourier, given), 0.15),
        Case("solve, Kernel, 1000 conditions", solve_of(cnf.bases.Kernel(SPACE, values, kernel), values), 0.15),
        Case("solve, Hermite, 1000 conditions", solve_of(cnf.bases.Hermite(SPACE, given, kernel), given), 0.25),
    ]


def steps() -> list[Case]:
    points = SQUARE.halton(4096, seed=2)
    regression = cnf.losses.Regression(points, wave)
    given = [SPACE.constraint("u", at=SQUARE.halton(100, seed=1), equals=wave, name="values")]
    encoder = cnf.encoders.SIREN(2, 64, hidden=(128, 128), seed=0)
    kernel = cnf.ConstrainedField(
        cnf.bases.Kernel(SPACE, given, cnf.kernels.Gaussian(1.0), encoder), given, tolerance=1e9
    )
    many = conditions(1024, r"\partial_x u + \partial_y u")
    fourier = cnf.ConstrainedField(cnf.bases.RandomFourier(SPACE, 2048, 0.2), many, tolerance=1e9)
    hypernet, eikonal = build_field(hidden=120, features=80), cnf.losses.Eikonal(eikonal_points(1000))
    return [
        Case("step, Kernel with SIREN, 100 conditions, 4096 points", step_of(kernel, regression), 0.05, 5),
        Case("step, RandomFourier 2048, 1024 conditions, 4096 points", step_of(fourier, regression), 0.05),
        Case("step, HypernetKernel, 27 conditions, 1000 points", step_of(hypernet, eikonal), 0.05, 5),
    ]


def measure(case: Case, rounds: int) -> tuple[list[float], list[float]]:
    """Processor seconds and wall seconds, each (with measuring, without): medians over interleaved rounds."""
    found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for k in range(rounds + 1):
        for measured in (True, False) if k % 2 else (False, True):
            with patch.object(MODULE, "certify", MODULE.certify if measured else nothing):
                started = time.process_time(), time.perf_counter()
                for _ in range(case.repeats):
                    case.run()
                ended = time.process_time(), time.perf_counter()
            if k:  # the first round warms up
                found[measured].append(((ended[0] - started[0]) / case.repeats, (ended[1] - started[1]) / case.repeats))
    processor, wall = ([median(t[clock] for t in found[on]) for on in (True, False)] for clock in (0, 1))
    return processor, wall


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    missed = 0
    print(f"{'':<56} {'processor ms: with, without':>28} {'wall ms':>16} {'added':>8} {'at most':>8}")
    for case in (*solves(), *steps()):
        processor, wall = measure(case, rounds)
        added = processor[0] / processor[1] - 1
        missed += added > case.most
        cpu, real = ("{:8.1f} {:8.1f}".format(*(1e3 * t for t in pair)) for pair in (processor, wall))
        verdict = "" if added <= case.most else "  MISSED"
        print(f"{case.name:<56} {cpu:>28} {real:>16} {added:>8.1%} {case.most:>8.0%}{verdict}", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
