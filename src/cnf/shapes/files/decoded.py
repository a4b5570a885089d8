"""Data, first step of reading: a file from a stranger, checked and bounded, and the numbers in its text.

In comes a path; out go a file that is there and not too large, arrays of numbers, and `Decoded`, the common result of
all formats. Whatever is wrong becomes a `FileError` of one line that names the file and the place.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cnf.errors import FileError
from cnf.files import LARGEST, as_path


@dataclass(frozen=True, eq=False)
class Decoded:
    """What a file holds: points, and whatever else it has of normals, faces and attributes."""

    points: np.ndarray  # (P, D)
    normals: np.ndarray | None = None  # (P, D)
    faces: np.ndarray | None = None  # (F, 3)
    attributes: dict[str, np.ndarray] = field(default_factory=dict)  # name -> (P,) or (P, k)
    notes: tuple[str, ...] = ()


def check_source(path: object) -> Path:
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
    if size > LARGEST:
        raise FileError(f"{source} has {size} bytes; at most {LARGEST} are read, thin it first")
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


def triangulate(corners: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Polygons, all corners in a row (sum of counts,) and their number per polygon, as fans of triangles (F, 3)."""
    starts = np.cumsum(counts) - counts
    fans = np.maximum(counts - 2, 0)  # triangles per polygon; points and lines have none
    polygon = np.repeat(np.arange(len(counts)), fans)
    step = np.arange(len(polygon)) - np.repeat(np.cumsum(fans) - fans, fans) + 1
    origin = starts[polygon]
    return np.stack([corners[origin], corners[origin + step], corners[origin + step + 1]], axis=1).astype(np.int64)


def check_faces(faces: np.ndarray, count: int, source: Path) -> np.ndarray:
    """The faces, if they only use vertices that are there."""
    if len(faces) and (faces.min() < 0 or faces.max() >= count):
        row = int(np.flatnonzero(((faces < 0) | (faces >= count)).any(axis=1))[0])
        raise FileError(
            f"{source}: triangle {row} uses vertices {faces[row].tolist()}, but there are only {count} (from 0); "
            "the file is damaged"
        )
    return faces


def check_finite(points: np.ndarray, source: Path) -> np.ndarray:
    """The points, if none of them is NaN or infinite."""
    if np.isfinite(points.sum()):  # one pass without a mask; an overflow only costs the second look
        return points
    bad = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if len(bad):
        raise FileError(
            f"{source}: {len(bad)} of {len(points)} points are not finite, the first is number {bad[0]} (from 0): "
            f"{points[bad[0]].tolist()}; remove them"
        )
    return points
