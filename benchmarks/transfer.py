"""A basis trained for one initial state, used for others: python -m benchmarks.transfer

The same as `python -m studies transfer`, whose options it takes.
"""

from __future__ import annotations

import sys

from studies.__main__ import main as run_study

DEFAULT = ["--out", "results/transfer"]


def main() -> None:
    run_study(["transfer", *(sys.argv[1:] or DEFAULT)])


if __name__ == "__main__":
    main()
