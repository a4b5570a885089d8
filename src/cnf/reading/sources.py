"""Reading, first step: a file from a stranger, checked and bounded, and the numbers in its text.

In comes a path; out go a file that is there and not too large, its bytes, and arrays of numbers. Whatever is wrong
becomes a `FileError` of one line that names the file and the place.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np

from cnf.errors import FileError
from cnf.files import LARGEST, as_path


def check_source(path: object, largest: int = LARGEST) -> Path:
    """The path, if a file is there that has something in it and is not too large."""
    source = as_path(path)
    try:
        if not source.exists():
            raise FileError(f"there is no file {source}")
        if not source.is_file():
            raise FileError(f"{source} is a folder, not a file; give the name of a file in it")
        size = source.stat().st_size
        with source.open("rb"):  # whether it may be read
            pass
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        raise FileError(f"{source} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if size == 0:
        raise FileError(f"{source} is empty")
    if size > largest:
        raise FileError(f"{source} has {size} bytes; at most {largest} are read, thin it first")
    return source


def read_bytes(source: Path) -> bytes:
    """The whole file."""
    try:
        return source.read_bytes()
    except (OSError, MemoryError) as error:
        raise FileError(f"{source} cannot be read: {getattr(error, 'strerror', None) or 'not enough memory'}") from None


def parse_numbers(text: bytes, source: Path, what: str, first_line: int = 1) -> np.ndarray:
    """All numbers in a text with blanks and line ends between them, (N,) float64, decoded by NumPy at once."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # so older NumPy says that it stopped halfway
            return np.fromstring(text, dtype=np.float64, sep=" ")
    except (ValueError, DeprecationWarning):
        pass
    for number, line in enumerate(text.split(b"\n"), first_line):
        for token in line.split():
            try:
                if b"_" in token:  # Python reads 1_000, files do not
                    raise ValueError
                float(token)
            except ValueError:
                raise FileError(f"{source}, line {number}: {show(token)} is not a number ({what})") from None
    raise FileError(f"{source}: something in its {what} is not a number")


def show(token: bytes) -> str:
    """A piece of a strange file in quotes, printable and short."""
    text = token[:40].decode("utf-8", errors="replace")
    return repr(text + ("..." if len(token) > 40 else ""))


def explain(message: str, skipped: int) -> str:
    """NumPy's message in one line, with lines counted as in the file."""
    line = message.splitlines()[0] if message else "it cannot be read"
    line = re.sub(r"; use `usecols`.*", "", line)
    match = re.search(r"at row (\d+)", line)
    return line.replace(match[0], f"at line {int(match[1]) + skipped + 1}") if match else line
