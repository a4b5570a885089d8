"""Advection on scattered points: all perturbations of the paper, several seeds, three methods, nothing tuned by hand.

    python -m benchmarks.advection [--levels 0.01 0.1] [--seeds 5] [--methods random-fourier] [--out FILE.csv]

One line per case, then the worst case of every level beside the paper's numbers.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence

from cnf.demo.advection import LEVELS, METHODS, Advection, solve_advection
from cnf.demo.tables import advection_table
from cnf.errors import CnfWarning
from cnf.files import check_writable, write_text
from cnf.reports.tables import Table

SHOWN = ("rmse", "start_rmse", "residual", "bandwidth", "seconds")
COLUMNS = ("perturbation", "seed", "method", "nrmse", *SHOWN, "rank", "condition")


def run(levels: Sequence[float], seeds: int, methods: Sequence[str]) -> list[Advection]:
    """Every case; skewed-rbf starts from the bandwidth that rbf found, if both are asked for."""
    found = []
    print(f"{'level':>6} {'seed':>4}  {'method':<15}" + "".join(f"{name:>11}" for name in SHOWN))
    for level in levels:
        for seed in range(seeds):
            bandwidth = None
            for method in methods:
                result = solve_advection(level, method, seed, bandwidth=bandwidth if method == "skewed-rbf" else None)
                bandwidth = result.bandwidth if method == "rbf" else bandwidth
                found.append(result)
                numbers = "".join(f"{getattr(result, name):>11.3g}" for name in SHOWN)
                print(f"{level:>6g} {seed:>4}  {method:<15}{numbers}", flush=True)
    return found


def save(results: Sequence[Advection], path: str) -> None:
    lines = []
    for r in results:
        facts = {"rank": r.certificate.rank, "condition": r.certificate.condition}
        lines.append([facts[name] if name in facts else getattr(r, name) for name in COLUMNS])
    write_text(path, Table(COLUMNS, lines).csv())


def main(arguments: Sequence[str] | None = None) -> list[Advection]:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--levels", type=float, nargs="+", default=list(LEVELS))
    parser.add_argument("--seeds", type=int, default=5, help="how many, from 0")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--out", default="results/advection.csv")
    asked = parser.parse_args(arguments)
    check_writable(asked.out)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)  # the table shows every residual
        results = run(asked.levels, asked.seeds, asked.methods)
    save(results, asked.out)
    print()
    print(advection_table(results))
    print(f"\nworst of {asked.seeds} seeds; all cases are in {asked.out}")
    return results


if __name__ == "__main__":
    main()
