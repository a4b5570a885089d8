"""Engineering problems with cnf and with other packages: error, processor seconds and memory, at equal error and time.

    make bench-engineering              install the other packages, each in its own environment, then run all
    python -m benchmarks.engineering [--only lshape darcy] [--peers skfem,fastlsq] [--rungs 8] [--out FOLDER]

The problems are in engineering_problems/, what each package does with them in engineering_peers/. Every case (a
problem, a package, a setting) is a process of its own with one thread, and a JSON file in FOLDER/cases: a run that was
interrupted goes on where it stopped, and --fresh starts again. cnf is asked for 1e-4, for 1e-6 and for what the problem
asks; nothing else is set. fastlsq gets its own linear problems, and the time of its scan of nine scales.
scikit-fem climbs a ladder of meshes until its error is below 1e-6 and it took longer than cnf, or a mesh costs a
quarter of the limit; times between two meshes are interpolated, as if it knew the right mesh beforehand, and nothing is
said beyond the last. The errors are of the same 2000 points for all.
Writes engineering.md and engineering.csv, with --write docs/engineering.md too. Exit code 1 if a figure is missed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.engineering_problems import EVERY, PROBLEMS, SMOOTH
from benchmarks.engineering_running import ROOT, Case, Runner
from benchmarks.engineering_tables import (
    TARGETS,
    Line,
    answers_table,
    deepxde_table,
    judge,
    judge_smooth,
    ladders_table,
    settings_of,
    smooth_table,
    target_of,
    with_sections,
)
from cnf.files import check_writable, write_text
from studies.tables import Table

DOCS = ROOT / "docs" / "engineering.md"
PEERS = ("skfem", "deepxde", "fastlsq")
ADAPTIVE = ("layer-0.01", "layer-0.001", "lshape", "lshape-mixed", "source")  # where cells of one size are wasteful


def run(asked: argparse.Namespace, runner: Runner) -> list[Line]:
    lines = []
    for name in [n for n in asked.only if n in PROBLEMS]:
        targets = dict.fromkeys((*TARGETS, target_of(name)))
        ours = {target: runner.run("cnf", name, asked.method, target) for target in targets}
        peers = asked.peers
        longest = max(c.get("processor_seconds", 0.0) for c in ours.values())
        quadratic, linear, adaptive = [], [], []
        if "skfem" in peers:
            quadratic = runner.climb("skfem", name, "quadratic", asked.rungs, beyond=longest)
            linear = runner.climb("skfem", name, "linear", asked.rungs, 0.05)
        if "skfem" in peers and name in ADAPTIVE:
            adaptive = runner.climb("skfem", name, "adaptive", asked.rungs, beyond=longest)
        deep = None
        if "deepxde" in peers and "deepxde" in PROBLEMS[name].trained_by:
            deep = runner.run("deepxde", name, "", "fair")
        lines.append(Line(name, ours, quadratic, linear, adaptive, deep))
        save(lines, runner.folder)
    return lines


def run_smooth(asked: argparse.Namespace, runner: Runner) -> list[tuple[Case, Case]]:
    """cnf as it is, nothing set, beside a scan of fastlsq."""
    names = [n for n in asked.only if n in SMOOTH] if "fastlsq" in asked.peers else []
    return [(runner.run("cnf", n, "auto", "default"), runner.run("fastlsq", n, "", "scan")) for n in names]


def save(lines: Sequence[Line], folder: Path, smooth: Sequence[tuple[Case, Case]] = ()) -> dict[str, Table]:
    """Tables as Markdown, cases as CSV."""
    tables = {"answers": answers_table(lines), "ladders": ladders_table(lines)} if lines else {}
    if any(line.deepxde is not None for line in lines):
        tables["deepxde"] = deepxde_table(lines)
    if smooth:
        tables["fastlsq"] = smooth_table(smooth)
    write_text(folder / "engineering.md", "\n\n".join(t.markdown() for t in tables.values()) + "\n")
    cases = [c for line in lines for c in line.cases] + [case for pair in smooth for case in pair]
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
    parser.add_argument("--kept", action="store_true", help="run nothing: the tables of what was run before")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/engineering.md")
    parser.add_argument("--out", default="results/engineering", help="folder")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.peers) - set(PEERS):
        parser.error(f"no such peer: {', '.join(sorted(unknown))}; known are {', '.join(PEERS)}")
    runner = Runner(Path(asked.out), asked.limit, asked.fresh, asked.kept)
    check_writable(runner.folder / "engineering.md")
    lines = run(asked, runner)
    smooth = run_smooth(asked, runner)
    tables = save(lines, runner.folder, smooth)
    for table in tables.values():
        print(f"\n{table.text()}")
    figures = [*(judge(lines) if lines else ()), *judge_smooth(smooth)]
    print()
    for text, good in figures:
        print(f"{'reached' if good else 'MISSED ':<8} {text}")
    if asked.write:
        sections = {name: table.markdown() for name, table in tables.items()}
        if lines:
            sections["figures"] = "\n".join(
                f"- {'reached' if good else '**missed**'}: {text}" for text, good in figures
            )
            sections["settings"] = settings_of(
                [c for line in lines for c in line.cases if c != line.deepxde], asked.limit
            )
        write_text(DOCS, with_sections(DOCS.read_text(), sections))
    return int(not all(good for _, good in figures))


if __name__ == "__main__":
    raise SystemExit(main())
