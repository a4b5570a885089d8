"""Light path: travel time of the trained path against the least of all paths and of all quadratic paths.

    python -m benchmarks.light_path [--seeds 10]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from cnf.applications.light_path import LightPath, solve_light_path


def main(arguments: Sequence[str] | None = None) -> list[LightPath]:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=10, help="how many random starts, from 0")
    parser.add_argument("--steps", type=int, default=100)
    asked = parser.parse_args(arguments)
    print(f"{'seed':>4} {'start':>9} {'final':>11} {'quadratic':>11} {'exact':>11} {'excess':>9} {'end error':>9} {'steps':>5}")
    found = []
    for seed in range(asked.seeds):
        r = solve_light_path(steps=asked.steps, seed=seed, progress=False)
        found.append(r)
        print(
            f"{seed:>4} {r.start_time:>9.4f} {r.final_time:>11.8f} {r.quadratic_time:>11.8f} {r.exact_time:>11.8f} {r.excess:>9.1e} "
            f"{r.end_error:>9.1e} {len(r.history):>5}",
            flush=True,
        )
    print(f"worst: {max(r.excess for r in found):.1e} above the least time, end points off by {max(r.end_error for r in found):.1e}")
    return found


if __name__ == "__main__":
    main()
