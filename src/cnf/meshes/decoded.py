"""Files, what reading comes to: `Decoded`, the same for all formats, the reader by ending, and checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cnf.errors import FileError, nearest


@dataclass(frozen=True, eq=False)
class Decoded:
    """What a file holds: points, and whatever else it has of normals, faces and attributes."""

    points: np.ndarray  # (P, D)
    normals: np.ndarray | None = None  # (P, D)
    faces: np.ndarray | None = None  # (F, 3)
    attributes: dict[str, np.ndarray] = field(default_factory=dict)  # name -> (P,) or (P, k)
    notes: tuple[str, ...] = ()


def decode_file(source: Path, readers: Mapping[str, Callable[[Path], Decoded]]) -> Decoded:
    """What a file holds, by the reader for its ending."""
    ending = source.suffix.lower()
    if ending not in readers:
        known = ", ".join(readers)
        raise FileError(
            f"{source}: no reader for files ending in {ending!r}; expected {known}.{nearest(ending, readers)}"
        )
    try:
        return readers[ending](source)
    except MemoryError:
        raise FileError(f"{source} needs more memory than there is; thin it first") from None
    except OSError as error:
        raise FileError(f"{source} cannot be read: {error.strerror or error}") from None


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


def check_finite(points: np.ndarray, source: Path, before: int = 0) -> np.ndarray:
    """The points, if none of them is NaN or infinite; in the file so many come `before` these."""
    if np.isfinite(points.sum()):  # one pass without a mask; an overflow only costs the second look
        return points
    bad = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if len(bad):
        raise FileError(
            f"{source}: {len(bad)} of {len(points)} points are not finite, the first is number {before + bad[0]} (from "
            f"0): {points[bad[0]].tolist()}; remove them"
        )
    return points
