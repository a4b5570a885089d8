"""The folder of a run: beside the result while it is made, kept if it ends before that, gone afterwards.

What belongs together is a step, done in pieces of work. A piece leaves a small file when all that it wrote is written;
so whoever was interrupted, a worker, the process that gives out work, or a scheduler, the same command goes on with
the pieces that left none. Whatever the result depends on is in `run.json`: another file or other options are refused.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cnf.errors import CnfError, ExecutionError, FileError
from cnf.execution import Executor, Failed
from cnf.files import lock_folder, write_text

KEY, SUFFIX = "run.json", ".parts"
MEMORY = "memory"  # the note of what each process may take
MESH = "mesh"  # what steps begin with whose pieces are worth keeping whatever happens
LARGEST = 1 << 24  # bytes of a note
Piece = dict[str, np.ndarray]  # what a piece of work leaves: plain arrays
# What becomes of code that reads tables and notes in which somebody put something else.
UNFIT = (ArithmeticError, AssertionError, AttributeError, FileNotFoundError, LookupError, TypeError, ValueError)


class DamagedError(FileError):
    """Something in the folder of a run is not what a run put there."""


@dataclass(frozen=True)
class Folder:
    """Of a run that makes the file `target`."""

    path: Path

    @staticmethod
    def beside(target: Path) -> Folder:
        """By its full name, for workers may have been started elsewhere."""
        return Folder(target.parent.absolute() / f"{target.name}{SUFFIX}")

    def shorten(self, path: str) -> str:
        """The name of a file here from the folder on: a run that goes on may have been started elsewhere."""
        return Path(path).relative_to(self.path).as_posix()

    def find(self, name: str) -> str:
        """The file of such a name, which leads nowhere else."""
        if Path(name).is_absolute() or ".." in Path(name).parts or not (self.path / name).is_file():
            raise damaged(self.path / name)
        return str(self.path / name)

    @contextmanager
    def opened(self, key: dict[str, Any], needed: int) -> Iterator[bool]:
        """Make the folder, or go on in it; whether there was one. No other run works in it meanwhile.

        `needed`: bytes of disk that the run will take.
        """
        there = self.open(key, needed)
        try:
            lock = lock_folder(self.path)
        except BlockingIOError:
            raise FileError(f"another run is at work in {self.path}; wait for it, or name another result") from None
        try:
            yield there
        except BaseException as error:
            self._leave(error, there)
            raise
        finally:
            if lock is not None:
                os.close(lock)

    def open(self, key: dict[str, Any], needed: int) -> bool:
        """The same without a word to other runs."""
        there = (self.path / KEY).exists()
        if there:
            self._check(key)
            return True
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if any(self.path.iterdir()):
                raise FileError(f"{self.path} is not a folder of an unfinished run; move it, or name another result")
            free = shutil.disk_usage(self.path).free
        except OSError as error:
            raise FileError(f"cannot write into {self.path}: {error.strerror or error}") from None
        if free < needed:
            self.path.rmdir()
            raise FileError(
                f"{needed / 1e9:.1f} GB are needed on the disk of {self.path.parent} until the mesh is written, and "
                f"{free / 1e9:.1f} are free: make room, or put the result elsewhere"
            )
        write_text(self.path / KEY, json.dumps(key, indent=1) + "\n")
        return False

    def _leave(self, error: BaseException, there: bool) -> None:
        """As a run ends early: remove what nobody can go on with, if this run made it, or say that it is kept."""
        if there and isinstance(error, UNFIT):
            raise DamagedError(f"something in {self.path} is damaged: {advise(self.path)}") from error
        again = not isinstance(error, CnfError) or (  # whether the same call may come farther
            isinstance(error, FileError | ExecutionError) and not isinstance(error, DamagedError)
        )
        begun = {path.name for path in self.path.glob("*")} > {KEY, f"{MEMORY}.json"}
        if not there and not (begun and (again or any(self.path.glob(f"{MESH}*/[0-9]*.npz")))):
            self.remove()
        elif again:
            error.add_note(f"finished tiles are kept in {self.path}: the same command goes on with them")

    def _check(self, key: dict[str, Any]) -> None:
        before = _read_note(self.path / KEY)
        changed = [name for name in dict.fromkeys([*before, *key]) if before.get(name) != key.get(name)]
        if changed:
            raise CnfError(
                f"{self.path} is of an unfinished run with another {', another '.join(changed)}: repeat that command "
                "to finish it, or remove the folder to start anew"
            )

    def note(self, name: str, values: dict[str, Any] | None = None) -> dict[str, Any] | None:
        """Keep plain values under a name, or look what was kept."""
        path = self.path / f"{name}.json"
        if values is not None:
            write_text(path, json.dumps(values) + "\n")
            return values
        if not path.exists():
            return None
        return _read_note(path)

    def memory(self) -> float | None:
        """Bytes that each process of an unfinished run may take."""
        kept = self.note(MEMORY)
        size = None if kept is None else kept.get("bytes")
        if kept is not None and not (isinstance(size, int | float) and 0 < size < float("inf")):
            raise damaged(self.path / f"{MEMORY}.json")
        return size

    def file_of(self, step: str, number: int) -> Path:
        return self.path / step / f"{number}.npz"

    def run(
        self,
        step: str,
        work: Callable[[int], Any],
        numbers: Sequence[int],
        executor: Executor,
        report: Callable[[str], None],
    ) -> None:
        """Do those pieces of a step that left no file; `work` has the numbers of pieces, and writes their files."""
        (self.path / step).mkdir(exist_ok=True)
        missing = [number for number in numbers if not self.file_of(step, number).exists()]
        done = len(numbers) - len(missing)
        if done and missing:
            report(f"{step}: {done} of {len(numbers)} pieces are there already")
        with closing(executor.run(work, missing)) as running:  # whatever happens here, workers end what they are at
            for _, found in running:
                if isinstance(found, Failed):
                    found.raise_error()
                done += 1
                report(f"{step}: {done} of {len(numbers)}")

    def pieces(self, step: str, numbers: Sequence[int]) -> Iterator[Piece]:
        """What the pieces of a step left, one after the other."""
        for number in numbers:
            yield load(self.file_of(step, number))

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def keep(path: Path, piece: Piece) -> None:
    """Write a piece, whole or not at all: another worker may be at the same one."""
    temporary = path.with_name(f".{secrets.token_hex(8)}.npz")
    try:
        with temporary.open("wb") as file:
            np.savez(file, **piece)  # type: ignore[arg-type]
        os.replace(temporary, path)
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)


def load(path: Path, *names: str) -> Piece:
    """What was kept, or some of it; nothing in it is unpickled."""
    with reading(path), np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in names or archive.files}


def _read_note(path: Path) -> dict[str, Any]:
    with reading(path):
        found = json.loads(path.read_bytes()) if path.stat().st_size <= LARGEST else None
    if not isinstance(found, dict):
        raise damaged(path)
    return found


# ---- what others did to it


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Whatever goes wrong in reading a file of the folder is said in one line."""
    try:
        yield
    except (CnfError, MemoryError):
        raise
    except OSError as error:
        if isinstance(error, FileNotFoundError) or not error.errno:  # those without are of the format
            raise damaged(path) from None
        raise FileError(f"{path} cannot be read: {error.strerror or error}") from None
    except Exception:  # zip, zlib, NumPy and JSON have a dozen for what they do not understand
        raise damaged(path) from None


def damaged(path: str | Path) -> DamagedError:
    """What is to be said of a file that was changed, or is missing."""
    parents = Path(path).parents
    return DamagedError(f"{path} is damaged: {advise(next((p for p in parents if (p / KEY).exists()), parents[0]))}")


def advise(folder: Path) -> str:
    return f"remove the folder {folder}, and start again"
