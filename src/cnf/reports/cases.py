"""Cases: many runs of one kind into one folder, done wherever there is room, kept one by one, and gone on with.

In: cases with names, and work for an executor (`cnf.execution`) that makes of each a row of plain numbers and the bytes
of some files. Out: a folder for every case, complete or absent, and all rows. A folder of an interrupted run is taken
up again: what is there is not done twice. It is refused if anything else was asked for in it.

Only this process writes, so workers need not see the folder, and a worker that is lost leaves nothing behind.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from cnf.errors import CnfError, ExecutionError, FileError
from cnf.execution import Executor, Failed
from cnf.execution.executor import Work
from cnf.files import as_path, hash_file, lock_folder, read_text, write_text
from cnf.reports.results import publish

CASE = "case.json"
LARGEST = 2**26  # bytes of a record


@dataclass(frozen=True)
class Case:
    """`name`: of its folder; `identity`: plain data that tells it from others; `piece`: what the work is given."""

    name: str
    identity: Mapping[str, Any]
    piece: Any


@dataclass(frozen=True)
class Made:
    """What the work makes of a piece: a row of plain data, and files by name."""

    row: dict[str, Any]
    files: dict[str, bytes]


@dataclass(frozen=True)
class Outcome:
    """What came of a case: its row, or the reason why there is none; `repeated` if an earlier run had done it."""

    case: Case
    row: dict[str, Any] | None
    reason: str = ""
    repeated: bool = False
    lost: bool = False  # not by its own fault: its workers, or their scheduler, ended


@dataclass(frozen=True)
class CaseFolder:
    """A folder of cases of one kind, `asked` in one way; `within` it are the folders of the cases."""

    path: Path
    kind: str
    asked: Mapping[str, str] = field(default_factory=dict)
    within: str = "."

    def place(self, case: Case) -> Path:
        """Where the files of a case are, if it is done."""
        return self.path / self.within / case.name

    def kept(self, case: Case) -> dict[str, Any] | None:
        """The row of a case that is done, with all its files as they were written; else it is done again."""
        place = self.place(case)
        if not (place / CASE).is_file():
            return None
        try:
            record = json.loads(read_text(place / CASE, LARGEST))
            same = record["asked"] == dict(self.asked) and record["case"] == json.loads(json.dumps(case.identity))
            whole = record.pop("seal") == _seal_of(record)
            files = dict(record["files"]).items()
            if not (same and whole and all(hash_file(place / name) == checksum for name, checksum in files)):
                return None
            return dict(record["row"])
        except (FileError, OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None  # damaged

    def keep(self, case: Case, made: Made) -> None:
        """Write the files of a case; its folder is complete or absent."""
        files = {name: sha256(data).hexdigest() for name, data in made.files.items()}
        record = {"asked": dict(self.asked), "case": case.identity, "row": made.row, "files": files}
        record = json.loads(json.dumps(record, allow_nan=False))  # as it will be read
        with publish(self.place(case), self.kind) as results:
            for name, data in made.files.items():
                (results.folder / name).write_bytes(data)
            sealed = {**record, "seal": _seal_of(record)}
            write_text(results.folder / CASE, json.dumps(sealed, indent=2, allow_nan=False) + "\n")


def _seal_of(record: Mapping[str, Any]) -> str:
    """The checksum of a record: one that was edited since, or is damaged, has another."""
    return sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


@contextmanager
def open_cases(folder: object, kind: str, asked: Mapping[str, str], within: str = ".") -> Iterator[CaseFolder]:
    """The folder, made or taken up again; no other run works in it meanwhile.

    `asked`: what all cases depend on, by words that an error can say: {"the text of heat.toml": its checksum}.
    """
    target = as_path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        lock = lock_folder(target)
    except BlockingIOError:
        raise FileError(f"another run is at work in {target}; wait for it, or choose another folder") from None
    except OSError as error:
        raise FileError(f"cannot write into {target}: {error.strerror or error}; choose another folder") from None
    try:
        record = target / f"{kind}.json"
        _refuse_other(record, kind, asked)
        if not record.exists():
            write_text(record, json.dumps({"kind": kind, "asked": dict(asked)}, indent=2) + "\n")
        yield CaseFolder(target, kind, dict(asked), within)
    finally:
        if lock is not None:
            os.close(lock)


def _refuse_other(record: Path, kind: str, asked: Mapping[str, str]) -> None:
    if not record.exists():
        return
    try:
        before = dict(json.loads(read_text(record, LARGEST))["asked"])
    except (ValueError, TypeError, KeyError, RecursionError):
        raise FileError(f"{record} is damaged; remove the folder, or choose another") from None
    changed = [name for name in {**before, **asked} if before.get(name) != asked.get(name)]
    if changed:
        raise FileError(
            f"{record.parent} holds a {kind} that was asked for otherwise: {', '.join(changed)} changed since; choose "
            "another folder, or remove this one to begin anew"
        )


def do_cases(
    folder: CaseFolder,
    work: Work,
    cases: Sequence[Case],
    executor: Executor,
    tell: Callable[[Outcome], object] = lambda outcome: None,
) -> list[Outcome]:
    """Do what is not done yet and keep it as it comes; outcomes in the order of the cases, `tell` of what is settled.

    A case that fails is no reason not to do the others; it is tried again by the next run into the same folder.
    """
    refuse_alike(cases)
    found: dict[int, Outcome] = {}

    def settle(number: int, outcome: Outcome) -> None:
        found[number] = outcome
        tell(outcome)

    for number, case in enumerate(cases):
        row = folder.kept(case)
        if row is not None:
            settle(number, Outcome(case, row, repeated=True))
    waiting = [number for number in range(len(cases)) if number not in found]
    try:
        with closing(executor.run(work, [cases[number].piece for number in waiting])) as running:
            for place, made in running:
                number = waiting[place]
                case = cases[number]
                if isinstance(made, Failed):
                    settle(number, Outcome(case, None, made.reason, lost=made.error is None))
                    continue
                folder.keep(case, made)
                settle(number, Outcome(case, made.row))
    except ExecutionError as error:  # what is kept is kept
        for number in waiting:
            if number not in found:
                found[number] = Outcome(cases[number], None, str(error), lost=True)
    return [found[number] for number in range(len(cases))]


def refuse_alike(cases: Sequence[Case]) -> None:
    """Two cases of one name would take each other's place."""
    names = [case.name.casefold() for case in cases]  # file systems may not tell A from a
    twice = next((case.name for case, name in zip(cases, names, strict=True) if names.count(name) > 1), None)
    if twice is not None:
        raise CnfError(f"{twice} is asked for twice; give each case once")
