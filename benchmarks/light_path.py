"""Light path: travel time of the trained path against the least of all paths and of all quadratic paths.

python -m benchmarks.light_path [--seeds 10]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from cnf.demo.light_path import LightPath, solve_light_path

SHOWN = ("start_time", "final_time", "quadratic_time", "exact_time", "excess", "end_error", "seconds")


def main(arguments: Sequence[str] | None = None) -> list[LightPath]:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=10, help="how many random starts, from 0")
    parser.add_argument("--steps", type=int, default=100)
    asked = parser.parse_args(arguments)
    print("seed" + "".join(f"{name:>16}" for name in SHOWN) + "  steps")
    found = []
    for seed in range(asked.seeds):
        result = solve_light_path(steps=asked.steps, seed=seed, progress=False)
        found.append(result)
        numbers = "".join(f"{getattr(result, name):>16.8g}" for name in SHOWN)
        print(f"{seed:>4}{numbers}{len(result.history):>7}", flush=True)
    excess, missed = max(r.excess for r in found), max(r.end_error for r in found)
    print(f"worst: {excess:.1e} above the least time, end points off by {missed:.1e}")
    return found


if __name__ == "__main__":
    main()
