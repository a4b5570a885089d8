"""Engineering problems with cnf and with other packages: error, processor seconds and memory, at equal error and time.

    make bench-engineering              install the other packages, each in its own environment, then run all
    python -m benchmarks.engineering [--only lshape darcy] [--peers skfem,deepxde] [--rungs 8] [--out FOLDER]

The problems are in engineering_problems/, what each package does with them in engineering_peers/. Every case (a
problem, a package, a setting) is a process of its own with one thread, and a JSON file in FOLDER/cases: a run that was
interrupted goes on where it stopped, and --fresh starts again. cnf is asked for 1e-4, for 1e-6 and for what the problem
asks; nothing else is set.
scikit-fem climbs a ladder of meshes until its error is below 1e-6 or a mesh costs more than the limit; times between
two meshes are interpolated, as if it knew the right mesh beforehand. The errors are of the same 2000 points for all.
Writes engineering.md and engineering.csv. Exit code 1 if a figure is missed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.engineering_problems import PROBLEMS
from benchmarks.peers import ENVIRONMENTS, NOT_INSTALLED, ROOT, THREAD_VARIABLES, last_line
from cnf.files import check_writable, write_text
from studies.tables import Table

TARGETS = ("1e-4", "1e-6")
PEERS = ("skfem", "deepxde")
FINE = 5e-7  # a ladder ends below this error
EXPONENT = 2  # of the rungs of a ladder: every second level halves the cells
Case = dict[str, Any]


@dataclass(frozen=True)
class Runner:
    """Where results are kept, how long a case may take, and whether kept ones count."""

    folder: Path
    limit: float  # processor seconds of a case
    fresh: bool = False

    def run(self, package: str, problem: str, variant: str, setting: str) -> Case:
        """The result of one case, from its file if there is one; what goes wrong becomes its note."""
        path = self.folder / "cases" / f"{problem}--{package}--{variant}--{setting}.json"
        if path.exists() and not self.fresh:
            return json.loads(path.read_text())
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

    def climb(self, package: str, problem: str, variant: str, rungs: int) -> list[Case]:
        """A ladder, until it is fine enough or too dear."""
        found: list[Case] = []
        for rung in range(rungs):
            case = self.run(package, problem, variant, str(EXPONENT * rung))
            found.append(case)
            if case.get("note") or case["error"] <= FINE or case["processor_seconds"] > self.limit / 4:
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
    """The error that a ladder has reached in so many seconds: between its rungs and beyond the last by powers."""
    good = [c for c in cases if not c.get("note")]
    if not good or seconds < good[0]["processor_seconds"]:
        return math.inf
    if len(good) == 1:
        return good[0]["error"]
    for before, after in itertools.pairwise(good):
        if before["processor_seconds"] <= seconds <= after["processor_seconds"]:
            break
    else:
        before, after = good[-2:]
    span = math.log(after["processor_seconds"] / before["processor_seconds"])
    if span <= 0:
        return min(before["error"], after["error"])
    share = math.log(seconds / before["processor_seconds"]) / span
    return before["error"] * (after["error"] / before["error"]) ** share


def target_of(problem: str) -> str:
    """What is asked of a problem, as cnf is told it."""
    return f"{PROBLEMS[problem].asked:.0e}".replace("e-0", "e-")


@dataclass(frozen=True)
class Line:
    """A problem with all that was found about it."""

    problem: str
    ours: Mapping[str, Case]  # by target
    quadratic: Sequence[Case] = ()
    linear: Sequence[Case] = ()
    deepxde: Case | None = None

    @property
    def best(self) -> Case:
        """What the finest target of all problems gave."""
        return self.ours[TARGETS[-1]]

    @property
    def asked(self) -> Case:
        """What the target gave that is asked of this problem."""
        return self.ours[target_of(self.problem)]

    def ours_to(self, error: float) -> float:
        return min(
            (c["processor_seconds"] for c in self.ours.values() if not c.get("note") and c["error"] <= error),
            default=math.inf,
        )

    def faster_at(self, error: float) -> bool:
        """Whether we reach the error, and in less time."""
        return self.ours_to(error) < time_to(error, self.quadratic)

    @property
    def closer_at_equal_time(self) -> bool:
        return not self.best.get("note") and self.best["error"] < error_at(
            self.best["processor_seconds"], self.quadratic
        )


def number(value: float, seconds: bool = False) -> str:
    if not math.isfinite(value):
        return "-"
    return (f"{value:.2f}" if value < 10 else f"{value:.0f}") if seconds else f"{value:.1e}"


def as_cells(case: Case | None) -> list[str]:
    """error, seconds, GB; or why not."""
    if case is None or case.get("note"):
        return [str(case["note"])[:60] if case else "-", "-", "-"]
    return [number(case["error"]), number(case["processor_seconds"], True), f"{case['memory']:.2f}"]


def answers_table(lines: Sequence[Line]) -> Table:
    """What cnf answers when asked for 1e-6, what is asked of it, and how good its estimate is."""
    header = [
        "problem",
        "error",
        "s",
        "GB",
        "estimate",
        "exact",
        "conditions",
        "asked",
        "s asked",
        "skfem in that time",
    ]
    rows = []
    for line in lines:
        problem, case = PROBLEMS[line.problem], line.best
        found = not case.get("note")
        rows.append(
            [
                problem.title,
                *as_cells(case),
                number(case["estimate"]) if found else "-",
                ("yes" if case["exact"] else "NO") if found else "-",
                case["unknowns"] if found else "-",
                number(problem.asked),
                number(problem.seconds, True),
                number(error_at(case["processor_seconds"], line.quadratic)) if found else "-",
            ]
        )
    return Table(header, rows)


def equal_error_table(lines: Sequence[Line]) -> Table:
    """Processor seconds to an error; behind a ladder that ends before it, the best it had."""
    header = ["problem"]
    for target in TARGETS:
        header += [f"cnf to {target}", f"quadratic to {target}", f"linear to {target}"]
    header += ["quadratic ends at", "s", "GB", "linear ends at", "s"]
    rows = []
    for line in lines:
        row = [PROBLEMS[line.problem].title]
        for target in TARGETS:
            limit = float(target)
            row += [number(line.ours_to(limit), True)]
            row += [number(time_to(limit, cases), True) for cases in (line.quadratic, line.linear)]
        for cases, width in ((line.quadratic, 3), (line.linear, 2)):
            good = [c for c in cases if not c.get("note")]
            row += as_cells(good[-1] if good else (cases[-1] if cases else None))[:width]
        rows.append(row)
    return Table(header, rows)


def deepxde_table(lines: Sequence[Line]) -> Table:
    rows = [
        [PROBLEMS[line.problem].title, *as_cells(line.deepxde), *as_cells(line.best)]
        for line in lines
        if line.deepxde is not None
    ]
    return Table(["problem", "DeepXDE error", "s", "GB", "cnf error", "s", "GB"], rows)


def judge(lines: Sequence[Line]) -> list[tuple[str, bool]]:
    """The figures that are asked for, each with whether it is reached; shares of the sixteen first asked for."""
    compared = [line for line in lines if any(not c.get("note") for c in line.quadratic)]
    count, figures = len(compared), []
    for target in TARGETS if compared else ():
        faster, wanted = sum(line.faster_at(float(target)) for line in compared), math.ceil(count * 10 / 16)
        text = f"less time than quadratic elements to {target}: {faster} of {count} (asked {wanted})"
        figures.append((text, faster >= wanted))
    if compared:
        closer, wanted = sum(line.closer_at_equal_time for line in compared), math.ceil(count * 12 / 16)
        figures.append((f"smaller error in equal time: {closer} of {count} (asked {wanted})", closer >= wanted))
    runs = [c for line in lines for c in line.ours.values() if not c.get("note")]
    ratios = [c["estimate"] / max(c["error"], PROBLEMS[c["problem"]].digits) for c in runs]
    within = sum(0.1 <= r <= 10 for r in ratios)
    low = sum(r < 1 / 3 for r in ratios)
    figures.append(
        (f"estimates within a factor 10: {within} of {len(ratios)} (asked 90 %)", within >= 0.9 * len(ratios))
    )
    figures.append((f"estimates more than 3 times too small: {low} (asked none)", low == 0))
    for line in lines:
        problem, case = PROBLEMS[line.problem], line.asked
        good = not case.get("note") and case["error"] <= problem.asked and case["processor_seconds"] <= problem.seconds
        in_time = f" in {problem.seconds:g} s" if math.isfinite(problem.seconds) else ""
        figures.append(
            (f"{problem.title}: {' '.join(as_cells(case)[:2])} s (asked {problem.asked:.0e}{in_time})", good)
        )
    return figures


def run(asked: argparse.Namespace, runner: Runner) -> list[Line]:
    lines = []
    for name in asked.only:
        targets = dict.fromkeys((*TARGETS, target_of(name)))
        ours = {target: runner.run("cnf", name, asked.method, target) for target in targets}
        peers = asked.peers
        quadratic = runner.climb("skfem", name, "quadratic", asked.rungs) if "skfem" in peers else []
        linear = runner.climb("skfem", name, "linear", asked.rungs) if "skfem" in peers else []
        deep = None
        if "deepxde" in peers and "deepxde" in PROBLEMS[name].trained_by:
            deep = runner.run("deepxde", name, "", "fair")
        lines.append(Line(name, ours, quadratic, linear, deep))
        save(lines, runner.folder)
    return lines


def save(lines: Sequence[Line], folder: Path) -> list[Table]:
    """Tables as Markdown, cases as CSV."""
    tables = [answers_table(lines), equal_error_table(lines)]
    if any(line.deepxde is not None for line in lines):
        tables.append(deepxde_table(lines))
    write_text(folder / "engineering.md", "\n\n".join(t.markdown() for t in tables) + "\n")
    cases = [
        c
        for line in lines
        for c in (*line.ours.values(), *line.quadratic, *line.linear, *([line.deepxde] if line.deepxde else []))
    ]
    header = list(dict.fromkeys(key for case in cases for key in case))
    write_text(folder / "engineering.csv", Table(header, [[c.get(key) for key in header] for c in cases]).csv())
    return tables


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS), metavar="NAME")
    parser.add_argument("--peers", type=lambda s: [p for p in s.split(",") if p], default=list(PEERS))
    parser.add_argument("--rungs", type=int, default=8, help="of the ladder of meshes, each with cells half as wide")
    parser.add_argument("--method", default="patches", help="of cnf: patches, waves, auto")
    parser.add_argument("--limit", type=float, default=240, help="processor seconds of a case")
    parser.add_argument("--fresh", action="store_true", help="run again what is there already")
    parser.add_argument("--out", default="results/engineering", help="folder")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.peers) - set(PEERS):
        parser.error(f"no such peer: {', '.join(sorted(unknown))}; known are {', '.join(PEERS)}")
    runner = Runner(Path(asked.out), asked.limit, asked.fresh)
    check_writable(runner.folder / "engineering.md")
    lines = run(asked, runner)
    for table in save(lines, runner.folder):
        print(f"\n{table.text()}")
    figures = judge(lines)
    print()
    for text, reached in figures:
        print(f"{'reached' if reached else 'MISSED ':<8} {text}")
    return int(not all(reached for _, reached in figures))


if __name__ == "__main__":
    raise SystemExit(main())
