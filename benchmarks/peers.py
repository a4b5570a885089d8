"""The same problems with cnf and with other packages: error, worst residuals, time, on this machine with equal threads.

    make bench-peers                    install every peer in its own environment, then run all
    python -m benchmarks.peers [--problems wave peak] [--methods cnf tfc] [--threads 2] [--budget fair] [--out FOLDER]
    make bench-nonlinear                the same for nonlinear problems, or a part of them:
    python -m benchmarks.peers --set nonlinear [--problems burgers] [--methods cnf fastlsq] [--threads 1]

Problems are defined once in peer_scripts/problems.py and nonlinear_problems.py. Every run is a process of its own, kept
to as many cores as threads; time is training or solving with all tuning, without imports: by the clock, and of the
processor, which is the one to compare on a machine that does other things as well. Residuals are worst cases: of the
boundary and initial conditions and of the equation (divided by its largest term), each at the points the method was
given and between them. Writes peers.csv, peers.md and peers.png, the first two after every run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from benchmarks.peer_scripts.measuring import BUDGETS
from benchmarks.peer_scripts.nonlinear_problems import NONLINEAR, NONLINEAR_DOES_NOT_APPLY, NONLINEAR_METHODS
from benchmarks.peer_scripts.problems import DOES_NOT_APPLY, PROBLEMS
from cnf.files import check_writable, write_text
from cnf.reports.plots import BLUE, GREEN, GREY, INK, ORANGE, RED, SKY, draw
from studies.tables import Table

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = ROOT / ".venv-peers"


@dataclass(frozen=True)
class Selection:
    """Problems that are compared, and who takes part: method -> (environment, script); cnf runs in its own."""

    problems: Mapping[str, Any]
    scripts: Mapping[str, tuple[str, str]]
    excuses: Mapping[tuple[str, str], str]  # (method, problem) -> why it does not apply
    target: str  # of make, which installs the environments

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(self.scripts)


SETS = {
    "linear": Selection(
        PROBLEMS,
        {
            "cnf": ("", "cnf_peer"),
            "deepxde": ("deepxde", "deepxde_peer"),
            "tfc": ("tfc", "tfc_peer"),
            "siren": ("siren", "siren_peer"),
            "scipy-thin-plate": ("scipy", "scipy_peer"),
            "scipy-gaussian": ("scipy", "scipy_peer"),
        },
        DOES_NOT_APPLY,
        "bench-peers",
    ),
    "nonlinear": Selection(
        NONLINEAR,
        {m: ("" if m == "cnf" else m.split("-")[0], f"nonlinear_{m.split('-')[0]}_peer") for m in NONLINEAR_METHODS},
        NONLINEAR_DOES_NOT_APPLY,
        "bench-nonlinear",
    ),
}
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
MEASURES = {
    "error": "error",
    "max_error": "largest",
    "conditions": "conditions",
    "conditions_between": "between",
    "equation": "equation",
    "equation_between": "between",
    "seconds": "seconds",
    "processor_seconds": "processor",
}
COLOURS = (BLUE, SKY, GREEN, ORANGE, RED, INK, GREY, "#8c6d31", "#9467bd", "#17becf")
MARKERS = ("*", "o", "s", "^", "D", "P", "v", "X", "<", ">")


@dataclass(frozen=True)
class Row:
    """One method on one problem; measures are None where there is nothing to measure, and then `note` may say why."""

    problem: str
    method: str
    error: float | None = None  # relative L2
    max_error: float | None = None
    conditions: float | None = None
    conditions_between: float | None = None
    equation: float | None = None
    equation_between: float | None = None
    seconds: float | None = None
    processor_seconds: float | None = None
    threads: int | None = None
    seed: int | None = None
    budget: str = ""
    note: str = ""  # the setting, or why there is no result


def find_command(method: str, selection: Selection) -> list[str] | None:
    """How to start a method, or None if its environment is not there."""
    name, script = selection.scripts[method]
    folder = ENVIRONMENTS / name
    if name and not (folder / ".installed").exists():  # written last, so half an installation does not count
        return None
    python = str(folder / "bin" / "python") if name else sys.executable
    return [python, "-m", f"benchmarks.peer_scripts.{script}"]


def run_method(
    method: str,
    problem: str,
    threads: int,
    seed: int,
    budget: str,
    timeout: float,
    selection: Selection = SETS["linear"],
) -> Row:
    """One run in its own process; whatever goes wrong becomes the note of the row."""
    if (method, problem) in selection.excuses:
        return Row(problem, method, note=f"does not apply: {selection.excuses[method, problem]}")
    command = find_command(method, selection)
    if command is None:
        return Row(problem, method, note=f"not installed: make {selection.target}")
    command += [problem, "--method", method, "--threads", str(threads), "--seed", str(seed), "--budget", budget]
    # The filter of JAX would end every error with a line about itself.
    environment = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads)), "JAX_TRACEBACK_FILTERING": "off"}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return Row(problem, method, note=f"stopped after {timeout:g} s")
    except OSError as error:
        return Row(problem, method, note=f"failed: {error.strerror or error}")
    return read_result(problem, method, done.returncode, done.stdout, done.stderr)


def read_result(problem: str, method: str, code: int, output: str, errors: str) -> Row:
    """The last line of the output as a row, or the last line of the errors as its note."""
    if code < 0:
        return Row(problem, method, note=f"failed: ended by signal {-code}")  # what it said last is not the reason
    if code != 0:
        return Row(problem, method, note=f"failed: {last_line(errors) or f'exit code {code}'}")
    try:
        found = json.loads(last_line(output))
        note = found.pop("setting")
        return Row(**{**found, "problem": problem, "method": method}, note=note)
    except (ValueError, TypeError, KeyError, AttributeError):
        return Row(problem, method, note=f"failed: no result in its output, which ends {last_line(output)[:80]!r}")


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def write_number(value: float | None, name: str) -> str:
    if value is None:
        return "-"
    if name.endswith("seconds"):
        return f"{value:.3f}" if value < 1 else f"{value:.1f}"
    return "0" if value == 0 else f"{value:.1e}"


def make_table(rows: Sequence[Row]) -> Table:
    """A row per problem and method; the last column says how it was set, or why there is nothing."""
    header = ["problem", "method", *MEASURES.values(), "setting, or why not"]
    cells = [[r.problem, r.method, *(write_number(getattr(r, m), m) for m in MEASURES), r.note] for r in rows]
    return Table(header, cells, left=[*header[:2], header[-1]])


def save_tables(rows: Sequence[Row], folder: Path) -> None:
    write_text(folder / "peers.csv", Table([f.name for f in fields(Row)], [astuple(row) for row in rows]).csv())
    write_text(folder / "peers.md", make_table(rows).markdown() + "\n")


def plot_rows(rows: Sequence[Row], path: Path, selection: Selection = SETS["linear"]) -> Path:
    """Error against time, log-log: a marker per method, a colour per problem."""
    shown = [r for r in rows if r.error and r.seconds]
    markers = dict(zip(selection.methods, MARKERS, strict=False))
    colours = dict(zip(selection.problems, COLOURS, strict=False))

    def paint(figure: Any) -> None:
        from matplotlib.lines import Line2D

        panel = figure.subplots()
        for row in shown:
            size = 220 if row.method == "cnf" else 75
            style: Any = {"marker": markers[row.method], "color": colours[row.problem], "s": size}
            panel.scatter(row.seconds, row.error, edgecolors="white", linewidths=0.8, zorder=3, **style)
        panel.set(xscale="log", yscale="log", xlabel="time in seconds", ylabel="relative L2 error")
        panel.set_title("lower left is better")
        panel.grid(True)
        methods = [m for m in markers if any(r.method == m for r in shown)]
        problems = [p for p in colours if any(r.problem == p for r in shown)]
        plain: Any = {"linestyle": "none", "markeredgecolor": "white"}
        marks = [Line2D([], [], marker=markers[m], color="#444444", markersize=9, label=m, **plain) for m in methods]
        dots = [Line2D([], [], marker="o", color=colours[p], markersize=9, label=p, **plain) for p in problems]
        figure.legend(handles=[*marks, *dots], loc="outside right center")

    return draw(path, (8.2, 4.8), paint)


def run(asked: argparse.Namespace, folder: Path) -> list[Row]:
    """Every method on every problem, one after the other."""
    rows: list[Row] = []
    selection = SETS[asked.set]
    for problem in asked.problems:
        for method in asked.methods:
            print(f"{problem:<16} {method:<17}", end="", flush=True)
            row = run_method(method, problem, asked.threads, asked.seed, asked.budget, asked.timeout, selection)
            rows.append(row)
            save_tables(rows, folder)  # an interrupted run keeps what it has
            found = f"error {write_number(row.error, 'error')} in {write_number(row.seconds, 'seconds')} s"
            print(row.note if row.error is None else found, flush=True)
    return rows


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=list(SETS), default="linear", help="of problems, each with its own methods")
    parser.add_argument("--problems", nargs="+", metavar="NAME", help="of the set; all of them if not given")
    parser.add_argument("--methods", nargs="+", metavar="NAME", help="of the set; all of them if not given")
    parser.add_argument("--threads", type=int, default=2, help="for every method")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", choices=BUDGETS, default="fair", help="of the methods that train")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds per run")
    parser.add_argument("--out", default="results/peers", help="folder")
    asked = parser.parse_args(arguments)
    if asked.threads < 1 or asked.seed < 0 or not asked.timeout > 0:
        parser.error("--threads is at least 1, --seed at least 0, --timeout positive")
    for name, known in (("problems", SETS[asked.set].problems), ("methods", SETS[asked.set].methods)):
        setattr(asked, name, getattr(asked, name) or list(known))
        if unknown := [n for n in getattr(asked, name) if n not in known]:
            parser.error(f"the {asked.set} set has no {name} {', '.join(unknown)}; it has {', '.join(known)}")
    folder = Path(asked.out)
    check_writable(folder / "peers.csv")
    rows = run(asked, folder)
    print(f"\n{make_table(rows).text()}\n")
    print("conditions: boundary and initial; equation: relative to its largest term; between: not at the given points")
    if any(r.error and r.seconds for r in rows):
        plot_rows(rows, folder / "peers.png", SETS[asked.set])
    print(f"{asked.threads} threads, budget {asked.budget}; written to {folder}")
    return rows


if __name__ == "__main__":
    main()
