"""Random nonlinear problems: what certificates say of them, looked at independently.

python -m benchmarks.random_nonlinear --count 2000 --seed 0
python -m benchmarks.random_nonlinear --only square --count 50
python -m benchmarks.random_nonlinear --case 1234               one problem again

A lie: a condition is said to hold, and the field misses it by more than ten tolerances, of the sizes of its terms or
its natural size, by a reference that knows nothing of the library's operators; or a solution is called locally unique
and the Jacobian, worked out apart, leaves a direction open; or the parts of a certificate contradict each other. A
crash: an error that is not the library's own. Silent: not exact, and nobody said so. Slow: more than two minutes of
the processor. A false alarm: a miss is announced although everything holds to a tenth of the tolerance. Ends with 1 if
there is any lie, crash, silence or slow problem.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.nonlinear_attack.problems import KINDS
from benchmarks.nonlinear_attack.verdict import Outcome, attack

COLUMNS = (
    *("exact", "not converged", "missed", "unmeasured", "refused", "lie", "crash", "silent", "slow", "false alarm"),
)
FATAL = ("lie", "crash", "silent", "slow")


def numbers(first: int, count: int, only: str | None) -> list[int]:
    """Numbers of problems: kinds take turns."""
    if only is None:
        return list(range(first, first + count))
    places = [k for k, kind in enumerate(KINDS) if kind == only]
    return [len(KINDS) * (n // len(places)) + places[n % len(places)] for n in range(first, first + count)]


def table(found: Sequence[Outcome]) -> str:
    """Kinds by verdicts, the worst miss of an exact claim in tolerances, the most steps, seconds."""
    lines = [f"{'kind':<11} {'problems':>8} " + " ".join(f"{c:>13}" for c in COLUMNS) + "  worst/tol steps  longest"]
    for kind in (*dict.fromkeys(KINDS), "all"):
        own = [o for o in found if kind in (o.kind, "all")]
        if not own:
            continue
        counts = Counter(o.verdict for o in own)
        ratio = max((o.found / o.tolerance for o in own if o.verdict == "exact"), default=0.0)
        cells = " ".join(f"{counts[c]:>13}" for c in COLUMNS)
        steps, longest = max(o.steps for o in own), max(o.seconds for o in own)
        lines.append(f"{kind:<11} {len(own):>8} {cells} {ratio:>10.1e} {steps:>5} {longest:>7.1f}s")
    said = Counter(o.said.split(";")[0] for o in found if o.said)
    lines += [f"  {n:>5}  {words}" for words, n in said.most_common()]
    refused = Counter(o.detail.split(":")[0] for o in found if o.verdict == "refused")
    return "\n".join([*lines, "refused: " + (", ".join(f"{name} {n}" for name, n in refused.most_common()) or "none")])


def line(o: Outcome) -> str:
    head = f"{o.verdict} {o.number} ({o.kind}): claimed {o.claimed:.1e}, found {o.found:.1e}, {o.seconds:.1f} s"
    return f"{head}; {o.said}; {o.detail}\n    {o.description}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="problems (default 200)")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=list(dict.fromkeys(KINDS)), help="problems of this kind only")
    parser.add_argument("--case", type=int, help="one problem, by its number")
    parser.add_argument("--out", type=Path, help="JSON file for all outcomes")
    parser.add_argument("--every", action="store_true", help="list false alarms and refusals as well")
    options = parser.parse_args()
    started, found = time.process_time(), []
    cases = numbers(options.first, options.count, options.only) if options.case is None else [options.case]
    listed = (*FATAL, "false alarm", "refused") if options.every else FATAL
    for number in cases:
        outcome = attack(options.seed, number)
        found.append(outcome)
        if outcome.verdict in listed or options.case is not None:
            print(line(outcome), flush=True)
        if options.out is not None and (len(found) % 50 == 0 or number == cases[-1]):
            options.out.write_text(json.dumps([o.to_dict() for o in found], indent=1))
    print(table(found))
    print(f"{time.process_time() - started:.0f} s of the processor, seed {options.seed}")
    return int(any(outcome.verdict in FATAL for outcome in found))


if __name__ == "__main__":
    sys.exit(main())
