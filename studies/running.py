"""Running a study: what is finished is read, what is missing is run and kept, and a report is written of all.

A case that fails is recorded and does not stop the others; the next run tries it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cnf.errors import CnfError
from cnf.reports.progress import part
from cnf.reports.terminal import open_console, say
from studies.keeping import find_rows, keep_row
from studies.processes import Done, attempt, run_in_processes
from studies.reporting import write_numbers, write_report
from studies.study import Case, Desk, Row, Study


def conduct(
    study: Study, folder: Path, workers: int | None = None, restart: bool = False, pictures: bool = True
) -> list[Row]:
    """Run a study and report it, as the command does; Ctrl-C reports what is finished."""
    say(f"{study.introduce()}\n")
    rows: list[Row] = []
    try:
        run_study(study, folder, workers, restart, rows)
    except KeyboardInterrupt:
        if any("failed" not in row for row in rows):
            say("\ninterrupted; the same command goes on. What is finished:\n")
            write_report(study, rows, folder, pictures=False)
        raise
    write_report(study, rows, folder, pictures)
    failed = [row for row in rows if "failed" in row]
    if failed:
        raise CnfError(
            f"{len(failed)} of {len(rows)} cases failed, such as {study.label_case(failed[0])}: {failed[0]['failed']}; "
            "the same command runs them again"
        )
    return rows


def run_study(
    study: Study, folder: Path, workers: int | None = None, restart: bool = False, rows: list[Row] | None = None
) -> list[Row]:
    """Every case, in order; `rows` has those that are there whenever it is looked at."""
    cases, rows = list(study.cases()), [] if rows is None else rows
    names = [study.name_case(case) for case in cases]
    twice = next((name for name in names if names.count(name) > 1), None)
    if not cases or twice is not None:
        raise CnfError("there is nothing to run" if not cases else f"two cases are called {twice}; name them apart")
    found = find_rows(study, folder, restart)
    for case, name in zip(cases, names, strict=True):
        if name in found:
            say(f"  {study.label_case(case):<26} {study.describe(found[name])}   (from an earlier run)")
    missing = [case for case, name in zip(cases, names, strict=True) if name not in found]
    rows[:] = [found[name] for name in names if name in found]
    for case, row, files in _run_all(study, missing, folder, study.workers if workers is None else workers):
        keep_row(study, case, row, Desk(folder, study.name_case(case), files=files))
        found[study.name_case(case)] = row
        rows[:] = [found[name] for name in names if name in found]
        write_numbers(study, rows, folder)
    return rows


def _run_all(study: Study, cases: Sequence[Case], folder: Path, workers: int) -> Iterator[Done]:
    if workers > 1 or study.alone:
        for case, row, files in run_in_processes(study, cases, folder, workers):
            say(f"  {study.label_case(case):<26} {_describe(study, row)}")
            yield case, row, files
        return
    console, shared = open_console(), dict[str, Any]()
    for case in cases:
        with part(console, study.label_case(case), study.count_steps(case) or None) as shown:
            desk = Desk(folder, study.name_case(case), shown.step, shared)
            row = attempt(study, case, desk)
            shown.result = _describe(study, row)
        yield case, row, desk.files


def _describe(study: Study, row: Row) -> str:
    return f"failed: {row['failed']}" if "failed" in row else study.describe(row)
