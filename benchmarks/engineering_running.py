"""Cases of the engineering benchmark: each a process of its own, kept in a file; ladders of them, and what they reach.

What comes in: a package, a problem, a variant and a setting. What goes out: what its script printed, or a note.
"""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.peers import ENVIRONMENTS, ROOT, THREAD_VARIABLES, last_line
from cnf.files import write_text

FINE = 5e-7  # a ladder ends below this error
NOT_RUN = "not run"
NOT_INSTALLED = "not installed: make bench-engineering"
EVERY_LEVEL = 2  # of a ladder: every second level halves the cells
Case = dict[str, Any]


@dataclass(frozen=True)
class Runner:
    """Where results are kept, how long a case may take, and whether kept ones count."""

    folder: Path
    limit: float  # processor seconds of a case
    fresh: bool = False
    kept: bool = False  # nothing is run: what has no file is a note

    def run(self, package: str, problem: str, variant: str, setting: str) -> Case:
        """The result of one case, from its file if there is one; what goes wrong becomes its note."""
        path = self.folder / "cases" / f"{problem}--{package}--{variant}--{setting}.json"
        if path.exists() and not self.fresh:
            return json.loads(path.read_text())
        if self.kept:
            return {"problem": problem, "package": package, "variant": variant, "setting": setting, "note": NOT_RUN}
        print(f"{problem:<16} {package:<8} {variant:<10} {setting:<6} ", end="", flush=True)
        case = self._solve(package, problem, variant, setting)
        print(case.get("note") or f"error {case['error']:.1e} in {case['processor_seconds']:.2f} s", flush=True)
        if case.get("note") != NOT_INSTALLED:
            write_text(path, json.dumps(case))
        return case

    def _solve(self, package: str, problem: str, variant: str, setting: str) -> Case:
        known: Case = {"problem": problem, "package": package, "variant": variant, "setting": setting}
        python = sys.executable if package == "cnf" else str(ENVIRONMENTS / package / "bin" / "python")
        if package != "cnf" and not (ENVIRONMENTS / package / ".installed").exists():
            return {**known, "note": NOT_INSTALLED}
        command = [python, "-W", "ignore", "-m", f"benchmarks.engineering_peers.{package}_peer", problem]
        environment = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, "1")}
        done = subprocess.run(
            [*command, "--setting", setting, "--variant", variant],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            # Of the processor, not of the clock: a busy machine does not change what is stopped.
            preexec_fn=partial(resource.setrlimit, resource.RLIMIT_CPU, (int(self.limit) + 1, int(self.limit) + 5)),
        )
        if done.returncode < 0:
            return {
                **known,
                "note": f"stopped after {self.limit:g} s" if done.returncode == -24 else "ended by a signal",
            }
        if done.returncode:
            return {**known, "note": f"failed: {last_line(done.stderr)[:160]}"}
        return {**known, **json.loads(last_line(done.stdout))}

    def climb(
        self, package: str, problem: str, variant: str, rungs: int, share: float = 0.25, beyond: float = 0.0
    ) -> list[Case]:
        """A ladder, until it is fine enough and took longer than `beyond`, or a rung costs a share of the limit."""
        found: list[Case] = []
        for rung in range(rungs):
            case = self.run(package, problem, variant, str(EVERY_LEVEL * rung))
            found.append(case)
            if case.get("note") or case["processor_seconds"] > share * self.limit:
                break
            if case["error"] <= FINE and case["processor_seconds"] >= beyond:
                break
        return found


def time_to(error: float, cases: Sequence[Case]) -> float:
    """Processor seconds to an error: between the rungs by powers, infinite if no rung is good enough."""
    good = [c for c in cases if not c.get("note")]
    best = math.inf
    for k, case in enumerate(good):
        if case["error"] > error:
            continue
        best = min(best, case["processor_seconds"])
        before = good[k - 1] if k and good[k - 1]["error"] > error else None
        if before is not None and before["processor_seconds"] < case["processor_seconds"]:
            share = math.log(before["error"] / error) / math.log(before["error"] / case["error"])
            span = math.log(case["processor_seconds"] / before["processor_seconds"])
            best = min(best, before["processor_seconds"] * math.exp(share * span))
    return best


def error_at(seconds: float, cases: Sequence[Case]) -> float:
    """The error that a ladder has reached in so many seconds: between its rungs by powers, after the last as there."""
    good = [c for c in cases if not c.get("note")]
    if not good or seconds < good[0]["processor_seconds"]:
        return math.inf
    if seconds >= max(c["processor_seconds"] for c in good):
        return min(c["error"] for c in good)  # what a finer mesh would do was not measured
    before, after = next(
        pair for pair in pairwise(good) if pair[0]["processor_seconds"] <= seconds < pair[1]["processor_seconds"]
    )
    span = math.log(after["processor_seconds"] / before["processor_seconds"])
    share = math.log(seconds / before["processor_seconds"]) / span
    return before["error"] * (after["error"] / before["error"]) ** share
