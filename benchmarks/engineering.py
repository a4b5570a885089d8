"""Engineering problems with cnf and with other packages: error, processor seconds and memory, at equal error and time.

    make bench-engineering              install the other packages, each in its own environment, then run all
    python -m benchmarks.engineering [--only lshape darcy] [--peers skfem,fastlsq] [--rungs 8] [--out FOLDER]

The problems are in engineering_problems/, what each package does with them in engineering_peers/. Every case (a
problem, a package, a setting) is a process of its own with one thread, and a JSON file in FOLDER/cases: a run that was
interrupted goes on where it stopped, and --fresh starts again. cnf is asked for 1e-4, for 1e-6 and for what the problem
asks; nothing else is set. fastlsq gets its own linear problems, and the time of its scan of nine scales.
scikit-fem climbs a ladder of meshes until its error is below 1e-6 or a mesh costs more than the limit; times between
two meshes are interpolated, as if it knew the right mesh beforehand. The errors are of the same 2000 points for all.
Writes engineering.md and engineering.csv. Exit code 1 if a figure is missed.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engineering_problems import EVERY, PROBLEMS, SMOOTH
from benchmarks.engineering_running import Case, Runner, error_at, time_to
from cnf.files import check_writable, write_text
from studies.tables import Table

TARGETS = ("1e-4", "1e-6")
PEERS = ("skfem", "deepxde", "fastlsq")
SIX_OF_SEVEN = 6 / 7


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


def run(asked: argparse.Namespace, runner: Runner) -> list[Line]:
    lines = []
    for name in [n for n in asked.only if n in PROBLEMS]:
        targets = dict.fromkeys((*TARGETS, target_of(name)))
        ours = {target: runner.run("cnf", name, asked.method, target) for target in targets}
        peers = asked.peers
        quadratic = runner.climb("skfem", name, "quadratic", asked.rungs) if "skfem" in peers else []
        linear = runner.climb("skfem", name, "linear", asked.rungs, 0.05) if "skfem" in peers else []
        deep = None
        if "deepxde" in peers and "deepxde" in PROBLEMS[name].trained_by:
            deep = runner.run("deepxde", name, "", "fair")
        lines.append(Line(name, ours, quadratic, linear, deep))
        save(lines, runner.folder)
    return lines


def run_smooth(asked: argparse.Namespace, runner: Runner) -> list[tuple[Case, Case]]:
    """cnf as it is, nothing set, beside a scan of fastlsq."""
    names = [n for n in asked.only if n in SMOOTH] if "fastlsq" in asked.peers else []
    return [(runner.run("cnf", n, "auto", "default"), runner.run("fastlsq", n, "", "scan")) for n in names]


def save(lines: Sequence[Line], folder: Path, smooth: Sequence[tuple[Case, Case]] = ()) -> list[Table]:
    """Tables as Markdown, cases as CSV."""
    tables = [answers_table(lines), equal_error_table(lines)] if lines else []
    if any(line.deepxde is not None for line in lines):
        tables.append(deepxde_table(lines))
    if smooth:
        tables.append(smooth_table(smooth))
    write_text(folder / "engineering.md", "\n\n".join(t.markdown() for t in tables) + "\n")
    cases = [
        c
        for line in lines
        for c in (*line.ours.values(), *line.quadratic, *line.linear, *([line.deepxde] if line.deepxde else []))
    ] + [case for pair in smooth for case in pair]
    header = list(dict.fromkeys(key for case in cases for key in case))
    write_text(folder / "engineering.csv", Table(header, [[c.get(key) for key in header] for c in cases]).csv())
    return tables


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(EVERY), default=list(EVERY), metavar="NAME")
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
    smooth = run_smooth(asked, runner)
    for table in save(lines, runner.folder, smooth):
        print(f"\n{table.text()}")
    figures = [*(judge(lines) if lines else ()), *judge_smooth(smooth)]
    print()
    for text, reached in figures:
        print(f"{'reached' if reached else 'MISSED ':<8} {text}")
    return int(not all(reached for _, reached in figures))


if __name__ == "__main__":
    raise SystemExit(main())
