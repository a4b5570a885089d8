"""Condition number of four bases while they are trained for it, at 1024 points: python -m benchmarks.conditioning

The same as `python -m studies conditioning`, whose options it takes; the paper's size is
--points 4096 --parameters 1.3e6.
"""

from __future__ import annotations

import sys

from studies.__main__ import main as run_study

DEFAULT = ["--points", "1024", "--parameters", "3e5", "--steps", "30", "--out", "results/conditioning"]


def main() -> None:
    run_study(["conditioning", *(sys.argv[1:] or DEFAULT)])


if __name__ == "__main__":
    main()
