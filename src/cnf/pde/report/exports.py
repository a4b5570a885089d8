"""Exports: the solution on a regular grid as CSV, NPZ and VTK, so that any other program can go on with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cnf.files import as_csv, write_text
from cnf.reports.arrays import write_arrays
from cnf.reports.vtk import time_field, write_collection, write_vtk

if TYPE_CHECKING:
    from cnf.pde.problems.answer import Answer

MOST_POINTS = 70_000  # of a grid in more than three coordinates


def grid_counts(answer: Answer) -> tuple[int, ...]:
    """Points per coordinate of the exported grid: fine enough to look at, small enough for every program."""
    dimension = len(answer.problem.space.coordinates)
    if is_timed(answer) and dimension > 2:
        return (
            (41,) * 2 + (21,)
            if dimension == 3
            else (*(17,) * (dimension - 1), 11)
            if dimension == 4
            else _even(dimension)
        )
    return {1: (1001,), 2: (101, 101), 3: (41, 41, 41)}.get(dimension) or _even(dimension)


def _even(dimension: int) -> tuple[int, ...]:
    return (max(3, int(MOST_POINTS ** (1 / dimension))),) * dimension


def is_timed(answer: Answer) -> bool:
    """True if the last coordinate is time and there is space beside it."""
    coordinates, time = answer.problem.space.coordinates, answer.problem.space.frame.time
    return len(coordinates) > 1 and coordinates[-1] in time


def export_columns(answer: Answer, grid: Any) -> dict[str, np.ndarray]:
    """Name -> values (P,) at the points of the grid: channels, then `exact_*` where an exact solution is known."""
    channels = answer.problem.space.channels
    values = grid.values.detach().cpu().numpy()
    columns = {name: values[:, k] for k, name in enumerate(channels)}
    if grid.exact is not None:
        exact = grid.exact.detach().cpu().numpy()
        known = [k for k in range(len(channels)) if np.isfinite(exact[:, k]).any()]
        columns |= {_free(f"exact_{channels[k]}", columns): exact[:, k] for k in known}
    return columns


def write_csv(answer: Answer, grid: Any, path: Path) -> Path:
    """Coordinates, channels and exact values at the grid points inside the domain, with all digits."""
    inside = grid.inside.cpu().numpy()
    points = grid.points.detach().cpu().numpy()
    columns = export_columns(answer, grid)
    table = np.column_stack([points, *columns.values()])[inside]
    return write_text(path, as_csv([*answer.problem.space.coordinates, *columns], table.tolist()))


def write_npz(answer: Answer, grid: Any, path: Path) -> Path:
    """Axes by coordinate name, channels and exact values of shape (n_1, ..., n_D), NaN outside, and `inside`."""
    shape = tuple(len(axis) for axis in grid.axes)
    arrays = {name: axis.cpu().numpy() for name, axis in zip(answer.problem.space.coordinates, grid.axes, strict=True)}
    for name, values in export_columns(answer, grid).items():
        arrays[_free(name, arrays)] = values.reshape(shape)
    arrays[_free("inside", arrays)] = grid.inside.cpu().numpy().reshape(shape)
    return write_arrays(path, arrays)


def write_vtk_files(answer: Answer, grid: Any, folder: Path) -> list[Path]:
    """What ParaView opens: `solution.vti` (or `.vtu` if the domain has holes), or for two and more space coordinates
    with time `solution.pvd` and one file per time in the folder `solution`. Time beside one space coordinate is an axis
    like any other. Nothing is written for more than three space coordinates, which VTK does not know.
    """
    axes = [axis.cpu().numpy() for axis in grid.axes]
    shape = tuple(len(axis) for axis in axes)
    series = is_timed(answer) and len(axes) > 2
    if len(axes) - series > 3:
        return []
    inside = grid.inside.cpu().numpy().reshape(shape)
    arrays = {name: values.reshape(shape) for name, values in export_columns(answer, grid).items()}
    for name in answer.problem.space.channels:
        if f"exact_{name}" in arrays:
            arrays[_free(f"error_{name}", arrays)] = np.abs(arrays[name] - arrays[f"exact_{name}"])
    for name, parts in answer.problem.space.vectors.items():
        if 2 <= len(parts) <= 3:
            zero = [np.zeros(shape)] * (3 - len(parts))
            arrays[_free(name, arrays)] = np.stack([*(arrays[part] for part in parts), *zero], axis=-1)
    if not series:
        return [write_vtk(folder / "solution", axes, inside, arrays)]
    files = []
    for k, time in enumerate(axes[-1]):
        at = {name: np.take(values, k, axis=len(shape) - 1) for name, values in arrays.items()}
        files.append(
            write_vtk(folder / "solution" / f"{k:04d}", axes[:-1], inside[..., k], at, time_field(float(time)))
        )
    return [write_collection(folder / "solution.pvd", axes[-1].tolist(), files), *files]


def _free(name: str, taken: Mapping[str, object]) -> str:
    """`name`, or with an underscore behind it if a channel or coordinate has it already."""
    while name in taken:
        name += "_"
    return name
