"""A basis trained for one initial state, used for others: python -m benchmarks.transfer

The same as `cnf study transfer`, whose options it takes.
"""

from __future__ import annotations

import sys

from cnf.cli.main import main as cnf_main

DEFAULT = ["--out", "results/transfer"]


def main() -> None:
    cnf_main(["study", "transfer", *(sys.argv[1:] or DEFAULT)])


if __name__ == "__main__":
    main()
