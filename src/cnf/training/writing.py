"""Files that are either written completely or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from cnf.errors import FileError


def as_path(path: object) -> Path:
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise FileError(f"a path is a string or a Path; got {path!r}")
    return Path(os.fspath(path))


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Call `write` on a file beside `path` and move it there; a crash in between leaves the former file as it was."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with open(beside, "wb") as file:
            write(file)
        os.replace(beside, path)
    except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
        raise FileError(f"{path} cannot be written: {_reason(error)}") from None
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()


def check_writable(path: Path) -> None:
    """Fail now rather than after hours of work."""
    if path.is_dir():
        raise FileError(f"{path} is a directory; give the name of a file")
    if not path.parent.is_dir():
        raise FileError(f"{path} cannot be written: there is no directory {path.parent}; create it first")
    probe = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with open(probe, "wb"):
            pass
        probe.unlink()
    except OSError as error:
        raise FileError(f"{path} cannot be written: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).splitlines()[0]
