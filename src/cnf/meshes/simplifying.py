"""Meshes with fewer faces, for looking at: vertices of one cell of a grid become one, at their mean.

In comes a mesh, out goes one with at most so many faces and the same attributes. Fast and of little memory, but no mesh
to measure anything on: thin parts may touch and edges get crowded.
"""

from __future__ import annotations

import numpy as np

from cnf.meshes.mesh import Mesh

COARSER = 1.2  # how much the cells grow if there are still too many faces


def simplify(mesh: Mesh, most: int) -> Mesh:
    """The mesh itself if it has at most `most` faces and no more vertices, else one over clusters of its vertices."""
    mesh = mesh if mesh.used.all() else mesh.keep_vertices(mesh.used)
    if len(mesh.faces) <= most and len(mesh.vertices) <= most:
        return mesh
    low, high = mesh.bounds
    # A surface that crosses about F / 2 cells gets F faces; `area` is what the cells have to cover.
    cell = max(float(np.sqrt(2 * mesh.area / most)), float((high - low).max()) / 2**20, 1e-300)
    while True:
        made = join_cells(mesh, np.floor((mesh.vertices - low) / cell).astype(np.int64))
        if len(made.faces) <= most and len(made.vertices) <= most:
            return made
        cell *= COARSER


def join_cells(mesh: Mesh, cells: np.ndarray) -> Mesh:
    """One vertex for all in a cell (V, 3), at their mean and with the mean of their attributes; each face once."""
    numbers = np.unique(cells @ (np.array([2**42, 2**21, 1])), return_inverse=True)[1].reshape(-1)
    count = int(numbers.max()) + 1
    size = np.bincount(numbers, minlength=count)[:, None]

    def mean(values: np.ndarray) -> np.ndarray:
        sums = [np.bincount(numbers, weights=column, minlength=count) for column in values.T]
        return np.stack(sums, axis=1) / size

    faces = numbers[mesh.faces]
    a, b, c = faces.T
    faces = faces[(a != b) & (b != c) & (c != a)]
    _, first = np.unique(np.sort(faces, axis=1), axis=0, return_index=True)
    made = Mesh(mean(mesh.vertices), faces[first], {name: mean(value) for name, value in mesh.attributes.items()})
    return made.keep_vertices(made.used)
