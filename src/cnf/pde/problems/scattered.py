"""Scattered points from files: CSV with a header, or NPY; read as data from strangers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cnf.errors import FileError, nearest
from cnf.files import as_path
from cnf.reading.arrays import read_array
from cnf.reading.sheets import is_number, open_sheet
from cnf.reading.sources import check_source

LARGEST = 200 * 2**20  # bytes
MOST_COLUMNS = 100


@dataclass(frozen=True)
class Scattered:
    """Points (P, D) and what was measured there, by column name, (P,) each."""

    points: Tensor
    columns: dict[str, Tensor]


def read_scattered(path: object, coordinates: Sequence[str]) -> Scattered:
    """Points from a file: a CSV whose header names every coordinate, or an NPY array with one column for each.

    Further columns of a CSV go by their names; those of an array are called d, or d1, d2 ... if there are several.
    """
    source = as_path(path)
    if source.suffix.lower() == ".npy":
        names, table = _read_array(source, coordinates)
    else:
        names, table = _read_csv(source, coordinates)
    if not table.shape[0]:
        raise FileError(f"{source} has no points")
    bad = np.argwhere(~np.isfinite(table))
    if bad.size:
        row, column = bad[0]
        raise FileError(
            f"{source}: {len(np.unique(bad[:, 0]))} of {table.shape[0]} rows have NaN or infinite numbers, first in "
            f"row {row + 1}, column {names[column]!r}; remove or repair them"
        )
    where = [names.index(c) for c in coordinates]
    values = torch.from_numpy(np.ascontiguousarray(table))
    others = {name: values[:, k].clone() for k, name in enumerate(names) if name not in coordinates}
    return Scattered(values[:, where].clone(), others)


def _read_csv(source: Path, coordinates: Sequence[str]) -> tuple[list[str], np.ndarray]:
    sheet = open_sheet(source, LARGEST)
    if not sheet.names:
        raise FileError(f"{source} is empty; expected a header {','.join(coordinates)} and one line per point")
    if len(sheet.names) > MOST_COLUMNS:
        raise FileError(f"{source} has {len(sheet.names)} columns; at most {MOST_COLUMNS} are read")
    _check_header(source, sheet.names, coordinates)
    return sheet.names, sheet.numbers()


def _check_header(source: Path, names: list[str], coordinates: Sequence[str]) -> None:
    if all(is_number(name) for name in names):
        raise FileError(
            f"{source} has no header; its first line must name the columns, such as {','.join(coordinates)},d"
        )
    for name in coordinates:
        if name not in names:
            raise FileError(
                f"{source} has no column {name!r}; its header has {listed(names)}, and the coordinates are "
                f"{', '.join(coordinates)}.{nearest(name, [n for n in names if len(n) <= 30])}"
            )
    for name in names:
        if names.count(name) > 1:
            raise FileError(f"{source} has two columns called {name!r}; rename one")


def listed(names: Sequence[str]) -> str:
    """A few names, each shortened: a file that is no table must not be printed whole."""
    shown = [name if len(name) <= 30 else f"{name[:27]}..." for name in names[:6]]
    return ", ".join(shown) + (", ..." if len(names) > 6 else "")


def _read_array(source: Path, coordinates: Sequence[str]) -> tuple[list[str], np.ndarray]:
    with check_source(source, LARGEST).open("rb") as file:
        table = read_array(file, source.stat().st_size, source, "it")
    wanted = len(coordinates)
    if table.dtype.kind not in "iuf":
        raise FileError(f"{source} does not hold real numbers")
    if table.ndim == 1 and wanted == 1:
        table = table[:, None]
    if table.ndim != 2 or not wanted <= table.shape[1] <= MOST_COLUMNS:
        raise FileError(
            f"{source} holds an array of shape {table.shape}; expected (points, {wanted}), one column for each of "
            f"{', '.join(coordinates)}, and any measured values after them"
        )
    extra = table.shape[1] - wanted
    names = ["d"] if extra == 1 else [f"d{k + 1}" for k in range(extra)]
    return [*coordinates, *names], np.array(table, dtype=np.float64)
