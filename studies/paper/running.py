"""Running every job: one list of all missing cases, how far it is and how long it will still take.

Cases are kept as they are finished (`studies.keeping`), in the folders that the studies use by themselves, so whatever
was run by `python -m studies NAME` with the same settings is found. A case that fails is recorded and stops nothing.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cnf.errors import CnfError
from cnf.reports.terminal import say
from studies.keeping import find_rows, keep_row
from studies.paper.jobs import Job
from studies.paper.records import Records, read_records, settle_settings
from studies.processes import run_in_processes
from studies.reporting import write_numbers
from studies.study import Case, Desk, Row, Study, as_plain


@dataclass
class Task:
    """A job with its study, what is finished of it, and what is to be run."""

    job: Job
    study: Study
    folder: Path
    names: list[str]  # of all cases, in order
    done: dict[str, Row]  # by the names of cases: found in the folder, or run now
    missing: list[Case]
    records: Records | None = None  # what the repository has, of any settings
    failed: list[str] = field(default_factory=list)
    guess: float = 60.0  # seconds of a case, where nothing is known

    @property
    def rows(self) -> list[Row]:
        """What is finished, in the order of the cases."""
        return [self.done[name] for name in self.names if name in self.done]


def plan_tasks(
    jobs: Sequence[Job],
    out: Path,
    rows: Path,
    quick: bool = False,
    take_records: bool = False,
    left_out: dict[str, str] | None = None,
) -> list[Task]:
    """What there is to do, before anything is; jobs that cannot be run here go to `left_out` with the reason.

    `take_records`: cases that the repository has rows of, with the same settings, count as finished.
    """
    tasks = []
    for job in jobs:
        if quick and job.quick is None:
            continue
        try:
            study = job.make(quick)
        except CnfError as error:
            if left_out is None:
                raise
            left_out[job.name] = str(error)
            continue
        folder = out / job.name
        cases = list(study.cases())
        names = [study.name_case(case) for case in cases]
        done, records = find_rows(study, folder), read_records(type(study), rows, job.name)
        known = _known_keys(study, records) if take_records else set()
        missing = [
            case for case, name in zip(cases, names, strict=True) if name not in done and _key(study, case) not in known
        ]
        tasks.append(Task(job, study, folder, names, done, missing, records, guess=job.guess[quick]))
    return tasks


def run_tasks(tasks: Sequence[Task], workers: int, finished: Callable[[Task], object] = lambda task: None) -> None:
    """Run what is missing, job by job, and say after every case what came of it and how much is left.

    `finished` is called when all cases of a job were run, and when a job was interrupted.
    """
    clock, total, count = Clock(tasks, workers), sum(len(task.missing) for task in tasks), 0
    for task in tasks:
        study, todo = task.study, clock.order(task)
        if not todo:
            finished(task)
            continue
        say(f"\n{study.name}: {study.introduce()}".rstrip())
        try:
            for case, row, files in run_in_processes(study, todo, task.folder, workers):
                name, count = study.name_case(case), count + 1
                keep_row(study, case, row, Desk(task.folder, name, files=files))
                task.missing.remove(case)
                if "failed" in row:
                    task.failed.append(f"{study.name} {study.label_case(case)}: {row['failed']}")
                else:
                    task.done[name] = row
                clock.note(task.job, case, row)
                say(_line(study, case, row, count, total, clock.left(tasks)))
                write_numbers(study, task.rows, task.folder)
        finally:
            finished(task)


class Clock:
    """How long what is left will take: by kind of case, from this run, else from rows of earlier ones, else guessed."""

    def __init__(self, tasks: Sequence[Task], workers: int):
        self.workers = workers
        self.recorded: dict[tuple[str, Any], list[float]] = {}
        self.measured: dict[tuple[str, Any], list[float]] = {}
        for task in tasks:
            for row in [*(task.records.rows if _same_settings(task) else []), *task.rows]:  # type: ignore[union-attr]
                seconds = _spent(task.job, row)
                if seconds is not None:
                    self.recorded.setdefault(_kind(task.job, row), []).append(seconds)

    def note(self, job: Job, case: Case, row: Row) -> None:
        """A case of this run is done; one that failed says nothing about others."""
        seconds = _spent(job, row)
        if seconds is not None and "failed" not in row:
            self.measured.setdefault(_kind(job, case), []).append(seconds)

    def order(self, task: Task) -> list[Case]:
        """What is missing, the quickest kinds first: whatever ends a run, most entries of a table are whole then."""
        return sorted(task.missing, key=lambda case: self.expect(task.job, case) or 0.0)

    def left(self, tasks: Sequence[Task]) -> float:
        """Seconds for all cases that are missing."""
        expected = [
            task.guess if (e := self.expect(task.job, case)) is None else e for task in tasks for case in task.missing
        ]
        return math.fsum(expected) / self.workers

    def expect(self, job: Job, case: Mapping[str, Any]) -> float | None:
        """Seconds of a case: the mean of its kind, else of all kinds of its job."""
        kind = _kind(job, case)
        for known in (self.measured, self.recorded):
            if kind in known:
                return statistics.fmean(known[kind])
        others = [
            v for known in (self.measured, self.recorded) for k, vs in known.items() if k[0] == job.name for v in vs
        ]
        return statistics.fmean(others) if others else None


def say_time(seconds: float) -> str:
    """About how long, as one says it."""
    if seconds < 100:
        return f"about {max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"about {minutes} min" if minutes < 100 else f"about {minutes // 60} h {minutes % 60:02d} min"


def _line(study: Study, case: Case, row: Row, count: int, total: int, left: float) -> str:
    what = f"failed: {row['failed']}" if "failed" in row else study.describe(row)
    took = "" if row.get("case_seconds") is None else f"{row['case_seconds']:.0f} s"
    ending = ", ".join(filter(None, [took, f"{say_time(left)} left" if left else ""]))
    return f"  case {count} of {total}   {study.label_case(case):<26} {what}   ({ending})"


def _same_settings(task: Task) -> bool:
    return task.records is not None and task.records.settings == settle_settings(task.study.settings())


def _known_keys(study: Study, records: Records | None) -> set[tuple[Any, ...]]:
    """The cases that the repository has rows of, if they have the settings of this study."""
    if records is None or records.settings != settle_settings(study.settings()):
        return set()
    return {_key(study, row) for row in records.rows}


def _key(study: Study, row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(as_plain(row[name]) for name in study.key)


def _kind(job: Job, row: Mapping[str, Any]) -> tuple[str, Any]:
    return job.name, row.get(job.kind)


def _spent(job: Job, row: Mapping[str, Any]) -> float | None:
    values = (row.get(name) for name in job.clock)
    return next((float(v) for v in values if isinstance(v, int | float) and v >= 0), None)


def time_of(started: float) -> str:
    """How long ago that was."""
    return say_time(time.monotonic() - started).removeprefix("about ")
