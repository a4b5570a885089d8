"""The attack on the certificate: random problems, every operator, basis and solver, looked at independently.

python -m benchmarks.certificate --count 5000 --seed 0 --workers 2
python -m benchmarks.certificate --only integrals --count 200
python -m benchmarks.certificate --case 1234                     one problem again, in full

A lie: the certificate says exact, and the field misses a condition by more than ten tolerances by a reference that
knows nothing of the library. A crash: an error that is not the library's own. Silent: not exact, and nobody said so. A
false alarm: a miss is announced although everything holds to a tenth of the tolerance. Hidden: exact only because the
error is compared with the natural size of the condition; it misses more than a thousandth of what is asked for. Unsure:
the reference is not accurate enough to tell. Fragile: all queries in float64 hold, the same weights in a hundred digits
do not. Ends with 1 if there is any lie, crash or silence.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from benchmarks.attack.problems import KINDS
from benchmarks.attack.verdict import Outcome, attack

COLUMNS = ("exact", "missed", "unmeasured", "refused", "lie", "crash", "silent", "false alarm", "unsure", "fragile")
MEMORY = 8 * 2**30
HIDDEN = 1e-3  # an exact claim that misses a condition by more than this part of its own right-hand side
FATAL = ("lie", "crash", "silent")
LISTED = (*FATAL, "unsure", "fragile", "false alarm")


def numbers(count: int, only: str | None) -> list[int]:
    """Case numbers: kinds take turns, so those of one kind are a fixed step apart."""
    if only is None:
        return list(range(count))
    first = list(KINDS).index(only)
    return [first + k * len(KINDS) for k in range(count)]


def limit_memory() -> None:
    """Problems are small: one that needs gigabytes is a crash, and must not take the machine with it."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def outcomes(seed: int, cases: Sequence[int], workers: int) -> Iterable[Outcome]:
    if workers < 2:
        limit_memory()
        yield from (attack(seed, case) for case in cases)
        return
    with ProcessPoolExecutor(workers, initializer=limit_memory) as pool:
        waiting = [pool.submit(attack, seed, case) for case in cases]
        yield from (done.result() for done in as_completed(waiting))


def is_hidden(outcome: Outcome) -> bool:
    """Exact by the natural size of the condition, but not by what it asks for."""
    return outcome.verdict == "exact" and outcome.of_values > HIDDEN


def table(found: Sequence[Outcome]) -> str:
    """Kinds by verdicts, the worst miss of an exact claim in tolerances, and seconds."""
    lines = [
        f"{'kind':<12} {'problems':>8} "
        + " ".join(f"{c:>11}" for c in (*COLUMNS, "hidden"))
        + f" {'worst ratio':>12} {'s':>7}"
    ]
    for kind in (*KINDS, "all"):
        own = [o for o in found if kind in (o.kind, "all")]
        if not own:
            continue
        counts = Counter(o.verdict for o in own)
        ratio = max((o.found / o.tolerance for o in own if o.verdict in ("exact", "lie")), default=0.0)
        hidden = sum(map(is_hidden, own))
        cells = " ".join(f"{counts[c]:>11}" for c in COLUMNS)
        lines.append(
            f"{kind:<12} {len(own):>8} {cells} {hidden:>11} {ratio:>12.1e} {sum(o.seconds for o in own):>7.1f}"
        )
    refused = Counter(o.detail.split(":")[0] for o in found if o.verdict == "refused")
    lines.append("refused: " + (", ".join(f"{name} {n}" for name, n in refused.most_common()) or "none"))
    return "\n".join(lines)


def line(outcome: Outcome) -> str:
    relative = f"claimed {outcome.claimed:.1e}, found {outcome.found:.1e}, of |g| {outcome.of_values:.1e}"
    head = f"{outcome.verdict} {outcome.number} ({outcome.kind}): {relative}, tolerance {outcome.tolerance:.0e}"
    return f"{head}; {outcome.detail}\n    {outcome.description}"


def write(path: Path, found: Sequence[Outcome]) -> None:
    """All outcomes as JSON or CSV, by the name of the file."""
    rows = [outcome.to_dict() for outcome in found]
    with path.open("w", newline="") as stream:
        if path.suffix == ".json":
            json.dump(rows, stream, indent=1)
        else:
            writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500, help="problems (default 500)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", choices=list(KINDS), help="problems of this kind only")
    parser.add_argument("--case", type=int, help="one problem, by its number")
    parser.add_argument("--out", type=Path, help="file for all outcomes, .csv or .json")
    parser.add_argument(
        "--every", action="store_true", help="list unsure, fragile and hidden cases and false alarms as well"
    )
    options = parser.parse_args()
    started = time.perf_counter()
    cases = [options.case] if options.case is not None else numbers(options.count, options.only)
    found = []
    listed = LISTED if options.every else FATAL
    for outcome in outcomes(options.seed, cases, options.workers):
        found.append(outcome)
        if outcome.verdict in listed or (options.every and is_hidden(outcome)) or options.case is not None:
            print(line(outcome), flush=True)
    found.sort(key=lambda outcome: outcome.number)
    print(table(found))
    slowest = sorted(found, key=lambda outcome: -outcome.seconds)[:5]
    print("slowest: " + ", ".join(f"{o.number} ({o.kind}) {o.seconds:.0f} s" for o in slowest))
    print(f"{time.perf_counter() - started:.0f} s, seed {options.seed}")
    if options.out is not None:
        write(options.out, found)
    return int(any(outcome.verdict in FATAL for outcome in found))


if __name__ == "__main__":
    sys.exit(main())
