"""Files: written whole or not at all, and read as data from strangers.

Archives are dictionaries of tensors, numbers and strings, written by torch and read back with `weights_only`, so that a
file can never run code.
"""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch

from cnf.errors import FileError

LARGEST = 8 * 2**30  # bytes


def as_path(path: object) -> Path:
    """A path from a string or path-like object."""
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise FileError(f"expected a file name, got {path!r}")
    return Path(os.fspath(path))


def check_writable(path: object) -> Path:
    """The path, if a file can be created there; fails early instead of after hours of work."""
    target = as_path(path)
    try:
        if target.is_dir():
            raise FileError(f"cannot write {target}: it is a folder; give a file name")
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".cnf-", dir=target.parent)
        os.close(handle)
        os.unlink(name)
        target.exists()  # a name that is too long fails here
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"cannot write {target}: {reason}; choose another name or folder") from None
    return target


def write_atomically(path: object, write: Callable[[Path], object]) -> Path:
    """Let `write` fill a temporary file beside the target, then rename it: an interrupted run keeps the old file."""
    target = check_writable(path)
    handle, name = tempfile.mkstemp(prefix=".cnf-", suffix=target.suffix, dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise FileError(f"cannot write {target}: {reason}") from None
    finally:
        temporary.unlink(missing_ok=True)
    return target


def read_text(path: object, largest: int) -> str:
    """A text file in UTF-8 of at most `largest` bytes, with one clear line for whatever is wrong with it."""
    source = as_path(path)
    try:
        if not source.exists():
            raise FileError(f"there is no file {source}")
        if not source.is_file():
            raise FileError(f"{source} is not a file")
        if source.stat().st_size > largest:
            raise FileError(f"{source} has {source.stat().st_size} bytes; at most {largest} are read")
        return source.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise FileError(f"{source} is not a text file in UTF-8") from None
    except OSError as error:
        raise FileError(f"{source} cannot be read: {error.strerror or error}") from None


def write_archive(path: object, kind: str, version: int, content: dict) -> Path:
    """Save a dictionary of tensors and plain values, marked with what it is."""
    marked = {"kind": kind, "version": version, **content}

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:  # by name, torch would put the temporary name into the archive
            torch.save(marked, file)

    return write_atomically(path, write)


def read_archive(path: object, kind: str, version: int, largest: int = LARGEST) -> dict:
    """Read what `write_archive` wrote, up to `largest` bytes; anything else is refused with one clear line."""
    source = as_path(path)
    try:
        there = source.is_file()
    except OSError as error:
        raise FileError(f"cannot read {source}: {error.strerror or error}") from None
    if not there:
        raise FileError(f"there is no file {source}")
    if not zipfile.is_zipfile(source):
        raise FileError(f"{source} is damaged or not a {kind}: it was cut short, or written by another program")
    try:
        with zipfile.ZipFile(source) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
            if unpacked > largest:
                raise FileError(
                    f"{source} holds {unpacked / 2**20:.0f} MB, far more than this {kind} can; it is not read"
                )
            if archive.testzip() is not None:  # torch does not look at the checksums
                raise FileError(f"{source} is damaged: its checksums do not fit")
        content = torch.load(source, map_location="cpu", weights_only=True)
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"{source} cannot be read: {error.strerror or error}") from None
    except Exception as error:  # torch raises many kinds for a damaged or foreign archive
        raise FileError(f"{source} is damaged or not a {kind} ({type(error).__name__})") from None
    if not isinstance(content, dict) or content.get("kind") != kind:
        raise FileError(f"{source} is not a {kind}")
    found = content.get("version")
    if not isinstance(found, int) or found < 1:
        raise FileError(f"{source} is damaged: it has no version number")
    if found > version:
        raise FileError(
            f"{source} has format version {found}, newer than the {version} this cnf reads; update cnf to read it"
        )
    return content
