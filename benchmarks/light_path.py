"""Travel time of trained paths against the least of all paths: python -m benchmarks.light_path

The same as `python -m studies light-path`, whose options it takes.
"""

from __future__ import annotations

import sys

from studies.__main__ import main as run_study

DEFAULT = ["--out", "results/light-path"]


def main() -> None:
    run_study(["light-path", *(sys.argv[1:] or DEFAULT)])


if __name__ == "__main__":
    main()
