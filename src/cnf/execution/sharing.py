"""Sharing: a value whose large arrays are in files that every process on this machine maps into its memory.

However many processes look at them, the system holds them once, and gives them up where memory is short. The value
itself, with paths in place of its arrays, is small and can be sent. Tensors go as arrays, and are tensors again there.

Their folder is locked by the process that made it, and goes with it: removed by that process, by workers that see it
end (killed, it can remove nothing), or by the next that shares something in the same place.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import socket
import stat
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cnf.errors import FileError
from cnf.files import STALE, lock_folder

HOST = re.sub(r"\W", "_", socket.gethostname())  # locks may not be seen by other machines that share a folder
PREFIX = f"cnf-shared-{HOST}-"
TRIES = 10  # if others take a new folder for litter before it is locked
LARGE = 1 << 16  # bytes from which on an array is put into a file


@dataclass(frozen=True)
class SharedFolder:
    """A folder for shared files, which this process holds a lock on."""

    path: Path
    lock: int | None

    @staticmethod
    def begin(place: str | Path | None = None) -> SharedFolder:
        """A new one in `place`, or where temporary files go; what ended processes left there is removed."""
        remove_abandoned(place)
        for _ in range(TRIES):
            path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
            with suppress(FileNotFoundError, BlockingIOError):
                lock = lock_folder(path)
                if path.is_dir():
                    return SharedFolder(path, lock)
                if lock is not None:
                    os.close(lock)
        raise FileError(f"no folder for shared files can be kept in {place or tempfile.gettempdir()}")

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        if self.lock is not None:
            os.close(self.lock)


def remove_abandoned(place: str | Path | None = None) -> None:
    """Remove shared files of processes that have ended without doing so."""
    with suppress(OSError):
        for path in Path(place or tempfile.gettempdir()).iterdir():
            if re.fullmatch(rf"{PREFIX}\w+", path.name):
                with suppress(OSError):
                    _remove_unlocked(path)


def _remove_unlocked(path: Path) -> None:
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or (hasattr(os, "getuid") and found.st_uid != os.getuid()):
        return
    lock = lock_folder(path)  # BlockingIOError: its process goes on
    if lock is None and time.time() - found.st_mtime < STALE:
        return
    SharedFolder(path, lock).remove()


@dataclass(frozen=True)
class _Filed:
    """Stands for an array."""

    path: str


@dataclass(frozen=True)
class _AsTensor:
    """Stands for a tensor: its numbers, or the file they are in."""

    array: Any


@dataclass
class Mapped:
    """A value with `_Filed` for its arrays; each process opens it once."""

    value: Any
    opened: list[Any] = field(default_factory=list)

    def open(self) -> Any:
        if not self.opened:
            self.opened.append(_replace(self.value, _Filed | _AsTensor, _opened))
        return self.opened[0]

    def __getstate__(self) -> dict[str, Any]:
        return {"value": self.value, "opened": []}


def _opened(kept: _Filed | _AsTensor) -> Any:
    if isinstance(kept, _Filed):
        return np.load(kept.path, mmap_mode="r")
    import torch

    array = kept.array if isinstance(kept.array, np.ndarray) else np.load(kept.array.path)
    return torch.from_numpy(array)  # not of a mapped one, into which it could be written


def file_arrays(value: Any, folder: Path) -> Mapped:
    """Write the large arrays of a value (dataclasses, dictionaries, lists, tuples) to a folder."""
    import torch

    known: dict[int, tuple[_Filed, np.ndarray]] = {}  # an array that is in two places goes to one file

    def put(array: np.ndarray) -> Any:
        if array.nbytes < LARGE:
            return array
        if id(array) not in known:
            path = folder / f"{len(list(folder.iterdir()))}.npy"
            try:
                np.save(path, array, allow_pickle=False)
            except OSError as error:
                raise FileError(f"cannot write {path}: {error.strerror or error}") from None
            known[id(array)] = _Filed(str(path)), array  # kept, so that nothing else gets its identity
        return known[id(array)][0]

    def put_any(given: Any) -> Any:
        return put(given) if isinstance(given, np.ndarray) else _AsTensor(put(given.detach().cpu().numpy()))

    return Mapped(_replace(value, np.ndarray | torch.Tensor, put_any))


def _replace(value: Any, kind: Any, change: Any) -> Any:
    """The value with everything of a kind changed, inside what holds it."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, dict):
        return {name: _replace(one, kind, change) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_replace(one, kind, change) for one in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type | _Filed | _AsTensor):
        own = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
        return dataclasses.replace(value, **{name: _replace(one, kind, change) for name, one in own.items()})
    return value
