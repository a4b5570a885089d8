"""Halving tables on disk, until memory holds what is left: the upper levels of a tree over very many points.

In comes a column whose first three numbers are a point; out come `Portion`s, a file each, as if all had been sorted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cnf.shapes.tiles.columns import Column, find_rank

AT_ONCE = 1 << 17  # rows


@dataclass(frozen=True)
class Portion:
    """Rows that lie together: the portion of this number on a level, from row `start` of the whole on."""

    level: int
    number: int
    start: int
    rows: Column


def halve_table(
    whole: Column, folder: Path, most: int, rank: Callable[[int, int, int, int], int]
) -> tuple[list[Portion], list[Path]]:
    """Portions of at most so many rows, each halved across the widest side of its points; files that are new.

    `rank(level, number, start, count)`: how many rows are in the lower half.
    """
    found, waiting, made = list[Portion](), [Portion(0, 0, 0, whole)], list[Path]()
    while waiting:
        portion = waiting.pop()
        if portion.rows.count <= most:
            found.append(portion)
            continue
        level, number, start = portion.level, portion.number, portion.start
        lower = rank(level, number, start, portion.rows.count)
        halves = _part(portion.rows, lower, folder, f"{level + 1}-{2 * number}", f"{level + 1}-{2 * number + 1}")
        if portion.rows.path in map(str, made):
            Path(portion.rows.path).unlink()
        made += [Path(half.path) for half in halves]
        waiting += [
            Portion(level + 1, 2 * number + 1, start + lower, halves[1]),
            Portion(level + 1, 2 * number, start, halves[0]),
        ]
    return found, made


def _part(rows: Column, count: int, folder: Path, *names: str) -> tuple[Column, Column]:
    """The `count` lowest rows along the widest side of their points, and the others."""
    low, high = np.full(3, np.inf), np.full(3, -np.inf)
    for first in range(0, rows.count, AT_ONCE):
        points = rows.read(first, min(first + AT_ONCE, rows.count))[:, :3]
        low, high = np.minimum(low, points.min(axis=0)), np.maximum(high, points.max(axis=0))
    axis = int(np.argmax(high - low))
    middle = find_rank(rows, count, AT_ONCE, axis)  # the first one of the upper half
    lower = 0
    for first in range(0, rows.count, AT_ONCE):
        lower += int(np.sum(rows.read(first, min(first + AT_ONCE, rows.count))[:, axis] < middle))
    equal = count - lower  # so many of those in the middle belong to the lower half
    halves = tuple(
        Column(str(folder / f"{name}.rows"), held, rows.width).make()
        for name, held in zip(names, (count, rows.count - count), strict=True)
    )
    filled = [0, 0]
    for first in range(0, rows.count, AT_ONCE):
        some = rows.read(first, min(first + AT_ONCE, rows.count))
        below, same = some[:, axis] < middle, np.flatnonzero(some[:, axis] == middle)
        below[same[:equal]] = True
        equal -= min(equal, len(same))
        for k, own in enumerate((some[below], some[~below])):
            halves[k].write(filled[k], own)
            filled[k] += len(own)
    return halves[0], halves[1]
