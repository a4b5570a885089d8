"""Lines, tables and figures of the engineering benchmark: what comes in are cases, what goes out is text.

Where scikit-fem is compared, it is the better of quadratic elements on meshes graded by hand and of its own adaptivity.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engineering_problems import PROBLEMS, SMOOTH
from benchmarks.engineering_running import Case, error_at, time_to
from studies.tables import Table

TARGETS = ("1e-4", "1e-6")
SIX_OF_SEVEN = 6 / 7
SHORT = 0.5  # of our time: a ladder that ends before is too short to be compared with


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
    adaptive: Sequence[Case] = ()
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
        seconds, theirs = self.ours_to(error), self.theirs_to(error)
        return seconds < theirs and (math.isfinite(theirs) or self.measured_for(seconds))

    @property
    def closer_at_equal_time(self) -> bool:
        if self.best.get("note") or not self.measured_for(self.best["processor_seconds"]):
            return False
        return self.best["error"] < self.theirs_at(self.best["processor_seconds"])

    def measured_for(self, seconds: float) -> bool:
        """Whether a ladder got near that time: one that was cut short before says nothing in our favour."""
        times = [c["processor_seconds"] for c in (*self.quadratic, *self.adaptive) if not c.get("note")]
        return max(times, default=0.0) >= SHORT * seconds

    def theirs_to(self, error: float) -> float:
        """Seconds that scikit-fem takes to an error; infinite if no mesh that was measured reaches it."""
        return min(time_to(error, cases) for cases in (self.quadratic, self.adaptive))

    def theirs_at(self, seconds: float) -> float:
        return min(error_at(seconds, cases) for cases in (self.quadratic, self.adaptive))

    @property
    def cases(self) -> list[Case]:
        """All of them."""
        deep = [self.deepxde] if self.deepxde else []
        return [*self.ours.values(), *self.quadratic, *self.linear, *self.adaptive, *deep]


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
    """What cnf answers when asked for 1e-6 beside what scikit-fem has by then, and the time of both to equal errors."""
    header = ["problem", "cnf error", "s", "GB", "estimate", "exact", "scikit-fem in that time"]
    for target in TARGETS:
        header += [f"cnf to {target}", f"scikit-fem to {target}"]
    rows = []
    for line in lines:
        case = line.best
        found = not case.get("note")
        row = [
            PROBLEMS[line.problem].title,
            *as_cells(case),
            number(case["estimate"]) if found else "-",
            ("yes" if case["exact"] else "NO") if found else "-",
            number(line.theirs_at(case["processor_seconds"])) if found else "-",
        ]
        for target in TARGETS:
            limit = float(target)
            row += [number(line.ours_to(limit), True), reached(line, limit)]
        rows.append(row)
    return Table(header, rows)


def reached(line: Line, error: float) -> str:
    """Seconds, or where the finest mesh that was measured ends."""
    if math.isfinite(seconds := line.theirs_to(error)):
        return number(seconds, True)
    good = [c for c in (*line.quadratic, *line.adaptive) if not c.get("note")]
    if not good:
        return "-"
    best = min(good, key=lambda c: c["error"])
    return f"never: {number(best['error'])} in {number(best['processor_seconds'], True)}"


def ladders_table(lines: Sequence[Line]) -> Table:
    """The three ways of scikit-fem: seconds to an error, and where they end."""
    ways = ("graded", "adaptive", "linear")
    header = ["problem", *(f"{way} to {target}" for target in TARGETS for way in ways)]
    header += ["graded ends at", "s", "GB", "adaptive ends at", "s", "GB"]
    rows = []
    for line in lines:
        row = [PROBLEMS[line.problem].title]
        for target in TARGETS:
            row += [
                number(time_to(float(target), c), True) if c else ""
                for c in (line.quadratic, line.adaptive, line.linear)
            ]
        for cases in (line.quadratic, line.adaptive):
            good = [c for c in cases if not c.get("note")]
            row += as_cells(good[-1]) if good else as_cells(cases[-1]) if cases else ["", "", ""]
        rows.append(row)
    return Table(header, rows)


def deepxde_table(lines: Sequence[Line]) -> Table:
    rows = [
        [PROBLEMS[line.problem].title, *as_cells(line.deepxde), *as_cells(line.best)]
        for line in lines
        if line.deepxde is not None
    ]
    return Table(["problem", "DeepXDE error", "s", "GB", "cnf error", "s", "GB"], rows)


def smooth_table(pairs: Sequence[tuple[Case, Case]]) -> Table:
    """fastlsq's own linear problems: its scan with the best of nine scales, cnf as it is."""
    rows = [[SMOOTH[ours["problem"]].title, *as_cells(theirs), *as_cells(ours)] for ours, theirs in pairs]
    return Table(["problem", "fastlsq error", "s of its scan", "GB", "cnf error", "s", "GB"], rows)


def judge_smooth(pairs: Sequence[tuple[Case, Case]]) -> list[tuple[str, bool]]:
    """At least six of seven with a smaller error in less time than the scan."""
    compared = [(a, b) for a, b in pairs if not b.get("note")]
    if not compared:
        return []
    better = sum(
        not ours.get("note")
        and ours["error"] < theirs["error"]
        and ours["processor_seconds"] < theirs["processor_seconds"]
        for ours, theirs in compared
    )
    wanted = math.ceil(SIX_OF_SEVEN * len(compared) - 1e-9)
    text = f"fastlsq's problems, smaller error in less time than its scan: {better} of {len(compared)} (asked {wanted})"
    return [(text, better >= wanted)]


def judge(lines: Sequence[Line]) -> list[tuple[str, bool]]:
    """The figures that are asked for, each with whether it is reached; shares of the sixteen first asked for."""
    compared = [line for line in lines if any(not c.get("note") for c in (*line.quadratic, *line.adaptive))]
    count, figures = len(compared), []
    for target in TARGETS if compared else ():
        faster, wanted = sum(line.faster_at(float(target)) for line in compared), math.ceil(count * 10 / 16)
        text = f"less time than quadratic elements to {target}: {faster} of {count} (asked {wanted})"
        figures.append((text, faster >= wanted))
    if compared:
        closer, wanted = sum(line.closer_at_equal_time for line in compared), math.ceil(count * 12 / 16)
        figures.append((f"smaller error in equal time: {closer} of {count} (asked {wanted})", closer >= wanted))
    runs = [c for line in lines for c in line.ours.values() if not c.get("note")]
    floors = [PROBLEMS[c["problem"]].digits for c in runs]  # below that the reference says nothing about either
    ratios = [max(c["estimate"], low) / max(c["error"], low) for c, low in zip(runs, floors, strict=True)]
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


def settings_of(cases: Iterable[Case], limit: float) -> str:
    """What the numbers depend on besides the programs: versions, machine, how busy it was."""
    known = list(cases)
    versions = sorted({v for c in known for v in str(c.get("versions", "")).split(", ") if v})
    loads = [c["load"] for c in known if "load" in c]
    busy = f"; load of the machine {min(loads):.1f} to {max(loads):.1f}" if loads else ""
    return (
        f"One thread, {processor()}, Python {platform.python_version()}, {', '.join(versions)}; "
        f"a case may take {limit:g} processor seconds{busy}."
    )


def processor() -> str:
    info = Path("/proc/cpuinfo")
    names = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    return names[0] if names else platform.machine()


def with_sections(text: str, sections: Mapping[str, str]) -> str:
    """A text with what stands between <!-- NAME --> and <!-- end NAME --> replaced."""
    for name, content in sections.items():
        start, end = f"<!-- {name} -->\n", f"<!-- end {name} -->"
        if text.count(start) != 1 or text.count(end) != 1:
            raise ValueError(f"expected one {start.strip()} and one {end} in the text, to put the results between them")
        before, rest = text.split(start)
        text = before + start + content.rstrip("\n") + "\n" + end + rest.split(end)[1]
    return text
