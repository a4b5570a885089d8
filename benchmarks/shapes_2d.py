"""Planar shapes with exact normals at the paper's sizes: each asked figure beside the measured.

    python -m benchmarks.shapes_2d [--shapes circle line triangle diamond] [--quick] [--threads 2]

Asked of every shape: mean normal error and worst |d| of at most 1e-12 at the start and after training, every condition
within 1e-12 at every step between, and 50 epochs in under 4 minutes on 2 threads.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import torch

from cnf.shapes.planar.fields import QUICK, Size
from studies.normals.shapes import SHAPES
from studies.normals.study import Case, Starts, study_case

EXACT, SECONDS = 1e-12, 240.0


def describe(case: Case) -> str:
    """One line: what was asked, what was found."""
    assert case.before is not None
    figures = {
        "normal error at the start": case.before.normal_error,
        "trained": case.after.normal_error,
        "|d|": max(case.before.value_error, case.after.value_error),
        "worst condition at any step": case.worst_residual,
    }
    shown = ", ".join(f"{name} {value:.1e}" for name, value in figures.items())
    good = all(value <= EXACT for value in figures.values())
    eikonal = f"eikonal loss {case.before.eikonal:.2g} to {case.after.eikonal:.2g}"
    return f"{case.shape.name:<9} {shown} (asked: {EXACT:g}){'' if good else ': NOT REACHED'}; {eikonal}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--quick", action="store_true", help="small networks, 20 epochs")
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args(arguments)
    torch.set_num_threads(asked.threads)
    starts, size = Starts(), QUICK if asked.quick else Size()
    for name in asked.shapes:
        case = study_case(name, "exact", size, starts=starts, side=5)
        print(describe(case))
        slow = ": NOT REACHED" if case.training_seconds > SECONDS and not asked.quick and asked.threads == 2 else ""
        print(f"{'':<9} {size.epochs} epochs {case.training_seconds:.0f} s (asked: {SECONDS:g}){slow}", flush=True)


if __name__ == "__main__":
    main()
