"""How honest the estimate of the error is: problems with known solutions, easy and hopeless ones alike.

    python -m benchmarks.estimates [--method patches shapes harsh] [--count 40] [--seed 2] [--only 3 7] [--gallery]

The problems are drawn in manufactured.py: for waves eight kinds of equations on squares, disks, L-shapes, plates with a
hole, intervals and boxes; for patches fourteen families in turn, of polygons, holes, corners, layers, regions, time,
systems, plates and space, each with a target between 1e-3 and 1e-7; for shapes (drawn_shapes.py) disks, holes,
polygons, lenses and unions, with targets to 1e-9; for harsh (harsh.py) 71 that were picked to break something. What
the estimate is made of was chosen on seed 1 (waves), on seeds 1 and 11 (patches) and on seeds from 100 on (shapes);
seed 2, the default here, and the gallery took no part in that. Asked: 90 % of the estimates within a factor 10 of the
error, none more than 3 times too small. Exit code 1 if that is missed. Errors and estimates below 1e-13 count as 1e-13:
there both are rounding.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator

import torch

import cnf
from benchmarks.drawn_shapes import draw_shapes
from benchmarks.gallery import GALLERY, errors_of
from benchmarks.harsh import draw_harsh
from benchmarks.manufactured import PATCHES, Drawn, draw_problems
from cnf.errors import CnfError, CnfWarning

METHODS = ["waves", "patches", "shapes", "harsh"]
WITHIN, TOO_SMALL, SHARE = 10.0, 3.0, 0.9
ROUNDING = 1e-13  # below this, estimates and errors are both rounding


def from_gallery(method: str) -> Iterator[Drawn]:
    """The gallery, as it is solved there; for patches, what they take."""
    for path in sorted(GALLERY.glob("*.toml")):
        yield Drawn(path.stem, {"path": path, "solve": {"method": method}})


def number(drawn: Drawn) -> int:
    return int(drawn.name.split()[0])


def solved(drawn: Drawn) -> cnf.Answer:
    entries = dict(drawn.entries)
    path = entries.pop("path", None)
    problem = cnf.Problem(**entries) if path is None else cnf.Problem.read(path, **entries)  # type: ignore[arg-type]
    return problem.solve()


def judge(drawn: Drawn) -> tuple[float, float] | None:
    """(error, estimate); None if it is refused."""
    started = time.process_time()
    try:
        answer = solved(drawn)
    except CnfError as error:
        print(f"{drawn.name:<44} refused: {str(error).splitlines()[0][:90]}", flush=True)
        return None
    if not (errors := errors_of(drawn.name, answer)):
        return None
    error, estimate = max(errors.values()), answer.estimate
    ratio = max(estimate, ROUNDING) / max(error, ROUNDING)
    mark = "  TOO SMALL" if ratio < 1 / TOO_SMALL else "  off" if ratio > WITHIN else ""
    seconds = time.process_time() - started
    state = "exact" if answer.certificate.exact else "not exact"
    print(f"{drawn.name:<44} {error:8.1e} {estimate:9.1e} {ratio:9.2g} {state:>9} {seconds:6.1f}{mark}", flush=True)
    return error, estimate


def run(title: str, problems: Iterator[Drawn]) -> bool:
    """Whether the estimates of these problems are as honest as is asked."""
    print(f"\n{title}\n{'':<44} {'error':>8} {'estimate':>9} {'ratio':>9} {'':>9} {'s':>6}", flush=True)
    judged = list(map(judge, problems))
    ratios = [max(b, ROUNDING) / max(a, ROUNDING) for a, b in filter(None, judged)]
    if not ratios:
        return True
    within, low = sum(1 / WITHIN <= r <= WITHIN for r in ratios), sum(r < 1 / TOO_SMALL for r in ratios)
    rounded = sum(max(pair) < ROUNDING for pair in judged if pair is not None)
    share = f"{within / len(ratios):.0%} (asked {SHARE:.0%})"
    print(f"{title}: {within} of {len(ratios)} within a factor {WITHIN:.0f}, {share};", end=" ")
    print(
        f"{low} more than {TOO_SMALL:.0f} times too small (asked none), the worst {1 / min(ratios):.2g} times;", end=" "
    )
    print(f"at most {max(ratios):.2g} times too large; {rounded} of them both at rounding, below {ROUNDING:.0e}")
    return within >= SHARE * len(ratios) and low == 0


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--method", nargs="+", default=METHODS, choices=METHODS)
    reader.add_argument("--count", type=int, default=40)
    reader.add_argument("--seed", type=int, default=2)
    reader.add_argument("--families", nargs="+", default=list(PATCHES), choices=list(PATCHES), metavar="NAME")
    reader.add_argument("--only", type=int, nargs="+", metavar="K", help="these problems of the seed")
    reader.add_argument("--gallery", action="store_true", help="the gallery as well")
    asked = reader.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", CnfWarning)
    good = []
    for method in asked.method:
        drawn = draw_problems(asked.seed, asked.count, method, asked.families)
        if method == "shapes":
            drawn = draw_shapes(asked.seed, asked.count)
        elif method == "harsh":
            drawn = draw_harsh()
        good.append(
            run(f"{method}, seed {asked.seed}", (one for one in drawn if number(one) in (asked.only or [number(one)])))
        )
        if asked.gallery and method in ("waves", "patches"):
            good.append(run(f"{method}, gallery", from_gallery(method)))
    return int(not all(good))


if __name__ == "__main__":
    raise SystemExit(main())
