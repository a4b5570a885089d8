"""Sweep: a problem file solved for many values of its numbers, on any executor, kept case by case and gone on with.

In: a file, and what is swept. Out: a `Sweep`, rows in the order of the values; each with the folder that holds its
field and certificate, or the reason why there is none.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from cnf.errors import CnfError
from cnf.execution import Executor, opened
from cnf.field import ConstrainedField
from cnf.files import as_path, hash_file, read_text
from cnf.loading import load
from cnf.pde.problems.first_look import look_at, naming_lines
from cnf.pde.problems.problem import Problem
from cnf.pde.problems.source import LARGEST, parse_source
from cnf.pde.sweeps.axes import Axis, Number, combine, read_axes
from cnf.pde.sweeps.places import find_place, make_changes
from cnf.pde.sweeps.solving import FIELD, SolveCase
from cnf.reports.cases import Case, CaseFolder, Outcome, do_cases, open_cases

CASES = "cases"  # the folder of their folders


@dataclass(frozen=True)
class Row:
    """One case: its values, what was found, and where its files are."""

    values: Mapping[str, Number]
    found: Mapping[str, Any] | None  # plain numbers; None: there is no answer
    reason: str  # why not, or what is wrong with the answer
    lost: bool  # its workers or their scheduler ended: it may well have an answer
    repeated: bool  # an earlier run had done it
    folder: Path

    @property
    def holds(self) -> bool:
        """Whether there is a field that meets every condition."""
        return self.found is not None and bool(self.found["exact"])

    @property
    def good(self) -> bool:
        """Whether every condition holds and the target is reached."""
        return self.found is not None and not self.reason

    def load(self) -> ConstrainedField:
        """The field."""
        if self.found is None:
            raise CnfError(f"{name_case(self.values)} has no field: {self.reason}")
        return load(self.folder / FIELD)


@dataclass(frozen=True)
class Asked:
    """A problem file as it was read, and what is swept in it."""

    problem: Problem  # as the file has it
    source: Path
    text: str
    entries: Mapping[str, Any]
    changes: Mapping[str, object]
    axes: tuple[Axis, ...]

    @staticmethod
    def read(path: object, over: Mapping[str, object] | Sequence[str], changes: Mapping[str, object]) -> Asked:
        """Mistakes in the file, and in what is swept, are answered here."""
        axes, source = read_axes(over), as_path(path)
        text = read_text(source, LARGEST)
        entries = look_at(source, text, parse_source(source, text), changes)
        asked = Asked(Problem.from_text(text, source, changes), source, text, entries, changes, axes)
        with naming_lines(source, text):
            asked.places  # noqa: B018
        return asked

    @cached_property
    def places(self) -> dict[str, tuple[str | int, ...]]:
        return {axis.key: find_place(self.entries, axis.key) for axis in self.axes}

    @cached_property
    def cases(self) -> list[Case]:
        """Every combination of values."""
        cases = []
        for values in combine(self.axes):
            changes = make_changes(self.entries, {self.places[key]: value for key, value in values.items()})
            cases.append(Case(name_case(values), values, {**self.changes, **changes}))
        return cases

    def checksums(self) -> dict[str, str]:
        """What every case depends on besides its values: the file, the data it names, options."""
        found = {f"the text of {self.source.name}": sha256(self.text.encode()).hexdigest()}
        for name in sorted(set(_named_files(self.entries))):
            path = self.source.parent / name
            if path.is_file():
                found[f"the file {name}"] = hash_file(path)
        return {**found, **{f"the option for {key}": repr(value) for key, value in self.changes.items()}}


@dataclass(frozen=True)
class Sweep:
    """All rows of a sweep, and the problem as the file has it."""

    asked: Asked
    rows: tuple[Row, ...]
    folder: Path

    @property
    def axes(self) -> tuple[Axis, ...]:
        return self.asked.axes

    @property
    def problem(self) -> Problem:
        return self.asked.problem

    @property
    def complete(self) -> bool:
        """Whether nothing was lost with workers: other failures would come again."""
        return not any(row.lost for row in self.rows)


Report = Callable[[Row], object]


def sweep(
    path: object,
    over: Mapping[str, object] | Sequence[str],
    *,
    out: object = None,
    workers: int | str | Executor = 1,
    report: Report | None = None,
    **changes: object,
) -> Sweep:
    """The problem in a file for every value of some of its numbers: {"nu": [0.1, 0.2]}, {"nu": "0.1:1:20"}.

    Several numbers make a grid. `changes` are those of `Problem.read`. `workers`: processes, the address of a Dask
    scheduler, or an executor of `cnf.execution`; what is found does not depend on it. `out`: a folder that keeps every
    case as it is finished; given again, it is gone on with, as long as the file is the same; without one, files are
    kept as long as the `Sweep` is. `report` is called with every row as it comes. A case that fails is a row with its
    reason.

    >>> lines = ['coordinates = "x"', 'domain = { type = "interval", from = 0, to = 1 }', "[parameters]", "k = 1.0"]
    >>> lines += ["[equations]", "interior = 'u_{xx} = k'", "boundary = 'u = 0'"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = open(f"{folder}/beam.toml", "w").write("\\n".join(lines))
    ...     found = cnf.sweep(f"{folder}/beam.toml", {"k": [1, 2]})
    >>> [row.holds for row in found.rows]
    [True, True]
    """
    return run_sweep(Asked.read(path, over, changes), out, workers, report)


def run_sweep(asked: Asked, out: object, workers: int | str | Executor, report: Report | None = None) -> Sweep:
    """The same of what was read already."""
    target = tempfile.mkdtemp(prefix="cnf-sweep-") if out is None else out
    try:
        with open_cases(target, "sweep", asked.checksums(), CASES) as folder, opened(workers) as executor:
            work = SolveCase(asked.source.absolute(), asked.text)
            tell = (lambda outcome: None) if report is None else lambda one: report(_row(one, folder, asked.source))
            outcomes = do_cases(folder, work, asked.cases, executor, tell)
    except BaseException:
        if out is None:
            shutil.rmtree(str(target), ignore_errors=True)
        raise
    found = Sweep(asked, tuple(_row(outcome, folder, asked.source) for outcome in outcomes), folder.path)
    if out is None:
        weakref.finalize(found, shutil.rmtree, str(target), True)  # as long as somebody has the sweep
    return found


def _row(outcome: Outcome, folder: CaseFolder, source: Path) -> Row:
    found, case = outcome.row, outcome.case
    reason = outcome.reason.replace(str(source.absolute()), source.name) if found is None else str(found["fault"])
    return Row(case.identity, found, reason, outcome.lost, outcome.repeated, folder.place(case))


def name_case(values: Mapping[str, Number]) -> str:
    """The name of a case, and of its folder: "nu=0.1,points.count=500"."""
    return ",".join(f"{key}={value:.12g}" for key, value in values.items())


def _named_files(entries: Any) -> list[str]:
    """Every entry `file` of a problem, however deep."""
    if isinstance(entries, Mapping):
        own = [value for key, value in entries.items() if key == "file" and isinstance(value, str)]
        return own + [name for value in entries.values() for name in _named_files(value)]
    return [name for value in entries for name in _named_files(value)] if isinstance(entries, list) else []
