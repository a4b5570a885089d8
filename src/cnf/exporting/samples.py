"""Samples: a solved field on a regular grid, and meshes, as files that other programs draw: NPZ, VTK, glTF."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from cnf.errors import CnfError
from cnf.files import as_path, write_atomically
from cnf.meshes.gltf import write_glb
from cnf.meshes.mesh import Mesh
from cnf.reports.arrays import write_arrays
from cnf.reports.vtk import write_vtk
from cnf.solution import Solution

COUNTS = {1: 1001, 2: 201, 3: 65}  # points along every coordinate, unless given
MOST = 2**24  # points of a grid
SPREAD = 70_000  # of one in more than three coordinates
HEIGHT = 0.0  # of a plane field in space: the plane itself


def write_sample(solution: Solution, path: object, to: str, points: int | None = None) -> Path:
    """Write the field on a grid over the region of its conditions as `to`: "npz", "vtk" or "gltf".

    `points` along every coordinate. VTK files end in .vti, glTF in .glb. Where the conditions lie on a curved domain,
    the grid reaches beyond it, and the field is what it is there.

    >>> space = cnf.Space("x y", "u")
    >>> condition = space.constraint("u = x", at=cnf.Box([0, 0], [1, 1]).grid(4))
    >>> solution = cnf.ConstrainedField(cnf.bases.RandomFourier(space, 40, 0.7), [condition]).solve()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = cnf.exporting.write_sample(solution, f"{folder}/field.npz", "npz", points=5)
    ...     arrays = np.load(path)
    ...     {name: arrays[name].shape for name in arrays}
    {'x': (5,), 'y': (5,), 'u': (5, 5)}
    """
    axes = axes_of(solution, points)
    if to == "npz":
        arrays = dict(zip(solution.space.coordinates, axes, strict=True))
        return write_arrays(path, {**arrays, **values_on(solution, axes)})
    if to == "vtk":
        if len(axes) > 3:
            raise CnfError(f"VTK knows up to three coordinates, the field has {len(axes)}; write it as npz")
        return write_grid(path, axes, values_on(solution, axes))
    if to != "gltf":
        raise CnfError(f"a field on a grid is written as npz, vtk or gltf; got {to!r}")
    if len(axes) != 2:
        raise CnfError(
            f"glTF holds surfaces: fields of two coordinates, coloured by their first channel; this one has "
            f"{len(axes)}. Write it as vtk or npz"
        )
    return write_surface(path, plane(axes, values_on(solution, axes)))


def write_surface(path: object, mesh: Mesh) -> Path:
    """A mesh as binary glTF."""
    target = as_path(path)
    if target.suffix.lower() != ".glb":
        raise CnfError(f"binary glTF files end in .glb; got {target.name}")
    return write_atomically(target, lambda file: write_glb(file, mesh))


def write_grid(path: object, axes: Sequence[np.ndarray], arrays: dict[str, np.ndarray]) -> Path:
    """Values on a grid as VTK's ImageData."""
    target = as_path(path)
    if target.suffix != ".vti":  # written as it is spelt: .VTI would be another file
        raise CnfError(f"grids of VTK are files that end in .vti; got {target.name}")
    return write_vtk(target.with_suffix(""), axes, np.ones([len(a) for a in axes], dtype=bool), arrays)


def axes_of(solution: Solution, points: int | None) -> list[np.ndarray]:
    """Evenly spaced numbers along every coordinate, from end to end of the conditions."""
    every = torch.cat([c.points.detach().to(torch.float64).cpu() for c in solution.constraints])
    low, high = every.amin(dim=0).tolist(), every.amax(dim=0).tolist()
    dimension = len(low)
    count = points or COUNTS.get(dimension) or max(3, int(SPREAD ** (1 / dimension)))
    if count < 2 or count**dimension > MOST:
        raise CnfError(f"a grid has from 2 points along every coordinate to {MOST} altogether; got {count}^{dimension}")
    flat = [name for name, a, b in zip(solution.space.coordinates, low, high, strict=True) if a == b]
    if flat:
        raise CnfError(f"all conditions have the same {flat[0]}: a grid has no extent there")
    return [np.linspace(a, b, count) for a, b in zip(low, high, strict=True)]


def values_on(solution: Solution, axes: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Every channel on the grid, (n_1, ..., n_D) by its name; one that is called as a coordinate has a line below."""
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    with torch.no_grad():
        found = solution(torch.from_numpy(grid.reshape(-1, len(axes)))).to(torch.float64).cpu().numpy()
    shape = grid.shape[:-1]
    names = [name + "_" * (name in solution.space.coordinates) for name in solution.space.channels]
    return {name: found[:, k].reshape(shape) for k, name in enumerate(names)}


def plane(axes: Sequence[np.ndarray], arrays: dict[str, np.ndarray]) -> Mesh:
    """The grid as triangles in the plane, every channel as an attribute, the first one as colours."""
    x, y = np.meshgrid(*axes, indexing="ij")
    number = np.arange(x.size).reshape(x.shape)
    low, high = slice(None, -1), slice(1, None)
    a, b, c, d = (number[ends].ravel() for ends in ((low, low), (low, high), (high, low), (high, high)))
    faces = np.concatenate([np.stack([a, c, d], axis=1), np.stack([a, d, b], axis=1)])
    vertices = np.stack([x.ravel(), y.ravel(), np.full(x.size, HEIGHT)], axis=1)
    columns = {name: values.reshape(-1, 1) for name, values in arrays.items()}
    return Mesh(vertices, faces, {"colours": colours(next(iter(arrays.values())).ravel()), **columns})


def colours(values: np.ndarray) -> np.ndarray:
    """From blue over white to red, (V, 3), white in the middle of what occurs."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    share = np.nan_to_num((values - low) / ((high - low) or 1.0), nan=0.5)[:, None]
    blue, white, red = (np.array(c) for c in ((0.23, 0.3, 0.75), (0.95, 0.95, 0.95), (0.7, 0.02, 0.15)))
    return np.where(share < 0.5, blue + 2 * share * (white - blue), white + (2 * share - 1) * (red - white))
