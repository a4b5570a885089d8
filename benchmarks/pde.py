"""Partial differential equations from problem files: errors, residuals, times, convergence and cost.

python -m benchmarks.pde [--threads 2] [--out results/pde]      (gallery, convergence; about five minutes)
python -m benchmarks.pde --cost                                 (4000 conditions with tuning: time and peak memory)
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from pathlib import Path

import numpy as np
import torch

import cnf
from benchmarks.gallery import GALLERY, errors_of
from benchmarks.timing import peak_memory
from cnf.files import write_atomically, write_text
from cnf.reports.tables import Table

ASKED = {  # relative L2 error, seconds
    "advection": (1e-9, None),
    "poisson_1d": (1e-12, 5),
    "poisson_2d": (1e-11, 20),
    "helmholtz": (1e-10, None),
    "wave": (1e-7, None),
    "biharmonic": (1e-11, None),
    "stokes": (1e-9, None),
}
COUNTS = (16, 25, 36, 49, 64, 100, 144, 196, 256, 324, 400)
CONVERGING = ("poisson_2d", "biharmonic", "convection_diffusion", "helmholtz")
FLOOR = 1e-10  # errors above this are fitted
COST = 4000


def run_gallery() -> str:
    """Every file of the gallery, as a table."""
    rows = []
    for path in sorted(GALLERY.glob("*.toml")):
        started = time.perf_counter()
        answer = cnf.Problem.read(path).solve()
        seconds = time.perf_counter() - started
        errors = errors_of(path.stem, answer)
        error, limit = ASKED.get(path.stem, (None, None))
        velocity = max(v for name, v in errors.items() if path.stem != "stokes" or name != "p")
        asked = "-" if error is None else f"{error:.0e}" + ("" if limit is None else f", {limit} s")
        rows.append(
            [
                path.stem,
                str(answer.conditions),
                ", ".join(f"{name} {value:.1e}" for name, value in errors.items()),
                asked,
                "-" if error is None else "yes" if velocity <= error and seconds <= (limit or math.inf) else "NO",
                f"{answer.certificate.worst:.1e}",
                f"{max(answer.certificate.residuals.values()):.1e}",
                f"{answer.worst_held_out:.1e}",
                f"{answer.estimate:.1e}",
                str(len(answer.tuning.trials)),
                f"{seconds:.1f}",
            ]
        )
        print(f"  {path.stem:<22} {rows[-1][2]:<40} {seconds:6.1f} s", flush=True)
    header = [
        "problem",
        "conditions",
        "relative L2 error",
        "asked",
        "met",
        "residual",
        "absolute",
        "between",
        "estimate",
        "trials",
        "seconds",
    ]
    return Table(header, rows).text()


def run_convergence() -> dict[str, list[tuple[int, float]]]:
    """Error against the number of interior points, every field tuned on its own."""
    found: dict[str, list[tuple[int, float]]] = {}
    for name in CONVERGING:
        found[name] = []
        for count in COUNTS:
            file = GALLERY / f"{name}.toml"
            answer = cnf.Problem.read(file, points={"count": count}, tuning="held-out").solve()  # exact, no fits
            assert answer.errors is not None
            found[name].append((count, max(answer.errors.values())))
        print(f"  {name:<22} {fit_rate(found[name]):.2f} digits per point and side", flush=True)
    return found


def fit_rate(series: list[tuple[int, float]]) -> float:
    """Digits gained per point and side, fitted while the error is above the floor."""
    above = [(math.sqrt(n), math.log10(e)) for n, e in series if e > FLOOR]
    sides, digits = np.array(above).T
    return float(-np.polyfit(sides, digits, 1)[0])


def save_convergence(found: dict[str, list[tuple[int, float]]], folder: Path) -> None:
    """The numbers as CSV, and a picture: straight lines are exponential convergence."""
    from matplotlib.figure import Figure

    rows = [[name, n, f"{e:.3e}"] for name, series in found.items() for n, e in series]
    write_text(folder / "convergence.csv", Table(["problem", "points", "error"], rows).csv())
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for (name, series), marker in zip(found.items(), "os^D", strict=True):
        axes.semilogy([math.sqrt(n) for n, _ in series], [e for _, e in series], marker=marker, ms=5, label=name)
    axes.axhline(FLOOR, color="0.6", lw=0.8, ls="--")
    axes.set(
        xlabel="interior points per side", ylabel="relative L2 error", title="Straight lines: exponential convergence"
    )
    axes.grid(alpha=0.3, which="major")
    axes.legend(frameon=False)
    write_atomically(folder / "convergence.png", lambda path: figure.savefig(path, dpi=160))


def run_cost() -> None:
    """A problem of 4000 conditions, tuning included."""
    sides = 4 * 61
    problem = cnf.Problem.read(
        GALLERY / "helmholtz.toml", points={"count": COST - sides, "boundary": sides}, basis={"poles": False}
    )
    started = time.perf_counter()
    answer = problem.solve(
        report=lambda trial: print(f"  {trial.conditions:5d} conditions  {trial}  {trial.seconds:.1f} s")
    )
    seconds = time.perf_counter() - started
    print(
        f"{answer.conditions} conditions: {seconds:.0f} s with {len(answer.tuning.trials)} trials (asked: under 180 s)"
    )
    print(f"peak memory {peak_memory():.2f} GB (asked: under 6), error {max((answer.errors or {}).values()):.1e}")


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--threads", type=int, default=2)
    reader.add_argument("--out", type=Path, default=Path("results/pde"))
    reader.add_argument("--cost", action="store_true", help="only the problem of 4000 conditions")
    asked = reader.parse_args()
    torch.set_num_threads(asked.threads)
    warnings.simplefilter("ignore", cnf.errors.CnfWarning)
    if asked.cost:
        run_cost()
        return
    print("convergence", flush=True)
    save_convergence(run_convergence(), asked.out)
    print("gallery", flush=True)
    table = run_gallery()
    write_text(asked.out / "gallery.txt", table + "\n")
    print(f"\n{table}\n\nwritten to {asked.out}; python -m benchmarks.pde --cost measures a large problem")


if __name__ == "__main__":
    main()
