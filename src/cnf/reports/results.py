"""Results: a folder of files that is complete or absent.

In: the folder somebody asked for. Out: a hidden folder beside it to write into, which takes its place in one step when
everything is there. Until then, and after any failure, interrupt or kill, what was there before stays as it is.

- Every run has an identifier; `run.json` records it for every kind of results, with the checksums of their files.
- Files of an earlier run of the same kind go; files that somebody else put there, or other commands, come along.
- Two runs into one folder do not mix: the one that finishes last wins as a whole.
- A hidden folder is locked by its run. What a killed run left is removed by the next run into the same folder.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shlex
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from cnf.errors import FileError
from cnf.files import as_path, hash_file
from cnf.reports.staging import RECORD, UNFINISHED, Stage, read_records, sweep, undisturbed

LEAST_SPACE = 2**20  # bytes that must be free before the work starts


@dataclass(frozen=True)
class Run:
    """What made some results: a random identifier with the time in front, the time in full, and the command."""

    identifier: str
    time: str
    command: str

    @staticmethod
    def start() -> Run:
        now = datetime.now().astimezone()
        program = Path(sys.argv[0] if sys.argv else "")
        name = {"main.py": "cnf", "__main__.py": program.parent.name}.get(program.name, program.name)
        identifier = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
        return Run(identifier, now.isoformat(timespec="seconds"), shlex.join([name or "python", *sys.argv[1:]]))


@dataclass(frozen=True)
class Results:
    """Results in the making: written into `folder` now, found in `target` when they are complete."""

    folder: Path
    target: Path
    run: Run = field(default_factory=Run.start)

    def within(self, name: str) -> Results:
        """A part of these results, in a folder of its own."""
        return Results(self.folder / name, self.target / name, self.run)

    def published(self, paths: Sequence[Path]) -> list[Path]:
        """Where files that are being written will be found."""
        return [self.target / path.relative_to(self.folder) for path in paths]

    def record(self) -> dict[str, object]:
        """The run, with the SHA-256 of every file written so far."""
        from cnf import __version__

        return {
            "run": self.run.identifier,
            "time": self.run.time,
            "command": self.run.command,
            "cnf": __version__,
            "files": {name: hash_file(self.folder / name) for name in _list_files(self.folder)},
        }


def check_target(folder: object) -> Path:
    """The folder, if results can be put there; asked before the work, not after."""
    target = as_path(folder)
    with _staged(_resolve(target), target) as (_, results), (results.folder / "space").open("wb") as file:
        file.write(bytes(LEAST_SPACE))  # a full disk has room for a folder, but not for this
        file.flush()
        os.fsync(file.fileno())
    return target


@contextmanager
def publish(folder: object, kind: str, replaces: Collection[str] = ()) -> Iterator[Results]:
    """Write into `.folder` of what this gives; the files appear in `folder` together, when the block ends well.

    `kind` says what they are results of. `replaces` names files of that kind that go even if no record lists them.
    Results that are being made already can be given as well: whoever began them publishes them.
    """
    if isinstance(folder, Results):
        folder.folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    target = as_path(folder)
    place = _resolve(target)
    with _staged(place, target) as (stage, results):
        yield results
        records = {**read_records(place), kind: results.record()}
        (results.folder / RECORD).write_text(json.dumps(records, indent=2) + "\n", encoding="utf-8")
        _sync(results.folder)
        stage.put(place, replaces)


@contextmanager
def publish_files(
    files: Sequence[Path], drops: Sequence[Path] = (), optional: Collection[str] = ()
) -> Iterator[Results]:
    """The same for a few files that go into one folder beside whatever is there; each is replaced in one step.

    All are complete before the first is replaced. Only a kill between these steps can leave files of two runs: put
    `record()` into the last one, and it shows. Those whose names are `optional` need not be written: earlier ones go.
    """
    target = files[0].parent
    place = Path(os.path.realpath(target)) / files[0].name
    with _staged(place, target) as (_, results):
        yield results
        _sync(results.folder)
        with undisturbed():
            for file in files:
                if file.name in optional and not (results.folder / file.name).exists():
                    file.unlink(missing_ok=True)
                else:
                    os.replace(results.folder / file.name, file)
            for file in drops:  # of an earlier run, and not of this one
                file.unlink(missing_ok=True)


@contextmanager
def _staged(place: Path, target: Path) -> Iterator[tuple[Stage, Results]]:
    """A hidden folder beside `place`, gone in the end; what fails in it is told with the names the user knows."""
    sweep(place)
    try:
        stage = Stage.begin(place)
    except OSError as error:
        reason = f"no folder can be made in {place.parent} ({error.strerror or error})"
        raise FileError(f"cannot write into {target}: {reason}; choose another folder") from None
    try:
        yield stage, Results(stage.path, target)
    except FileError as error:
        raise FileError(str(error).replace(str(stage.path), str(target))) from None
    except OSError as error:
        raise _refusal(target, error) from None
    finally:
        stage.end()


def _resolve(target: Path) -> Path:
    """The folder itself: absolute, without links and dots; refused if it can never be replaced as a whole."""
    try:
        place = Path(os.path.realpath(target))
        if place.exists() and not place.is_dir():
            raise FileError(f"cannot write into {target}: it is a file; give a folder")
        if target.is_symlink() and not place.exists():
            raise FileError(f"cannot write into {target}: it is a link to {place}, which is not there")
        here = "the current folder or one above" if _current_folder().is_relative_to(place) else ""
        if here or place.is_mount():
            raise FileError(
                f"cannot write into {target}: it is {here or 'a mount point'}, and results replace their folder as a "
                f"whole; give a folder in it, such as {target / 'results'}"
            )
        if place.exists() and not os.access(place, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        place.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        blocking = next(path for path in place.parents if path.exists())
        raise FileError(f"cannot write into {target}: {blocking} is a file; choose another folder") from None
    except (OSError, ValueError) as error:
        raise _refusal(target, error) from None
    return place


def _current_folder() -> Path:
    try:
        return Path.cwd()
    except OSError:  # it was removed
        return Path()


def _refusal(target: Path, error: Exception) -> FileError:
    reason = getattr(error, "strerror", None) or error
    return FileError(f"cannot write into {target}: {reason}; choose another folder")


def _list_files(folder: Path) -> list[str]:
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [p.relative_to(folder).as_posix() for p in found if p.name not in (RECORD, UNFINISHED)]


def _sync(folder: Path) -> None:
    """Have everything on the disk before it replaces something: names may reach it before contents do."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file, suppress(OSError):
                os.fsync(file.fileno())
