"""Groups: domains from gmsh meshes, whose physical groups name parts of the boundary and regions of the inside."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cnf.errors import DomainError, nearest
from cnf.meshes.gmsh import Cells, Gmsh, read_gmsh
from cnf.pde.domains.domain import Domain, as_number
from cnf.pde.domains.outline import Outline, tidied
from cnf.pde.domains.simplices import chain
from cnf.pde.domains.solid import Solid

FLAT = 1e-9  # of the size: meshes that are no thicker lie in the plane
TETRAHEDRON = np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]])  # faces that look outward


def read_mesh_domain(
    path: object, smooth: bool | float = False, scale: float = 1.0, only: Sequence[str] = (), name: str | None = None
) -> Domain:
    """The domain that a gmsh mesh fills, or what its groups `only` fill: plane if all its points have one z.

    Groups of lines (or, in space, of faces) name parts of the boundary. `smooth` is that of `Outline`: the edges of a
    mesh are straight.

    >>> cnf.domains.read_mesh_domain("missing.msh")
    Traceback (most recent call last):
        ...
    cnf.errors.FileError: ...
    """
    factor = as_number(scale, "`scale`")
    if factor == 0:
        raise DomainError("`scale` must not be 0")
    mesh = read_gmsh(path)
    try:
        return _domain(mesh, smooth, factor, only, name)
    except DomainError as error:
        raise DomainError(f"{mesh.source}: {error}") from None


def region_names(path: object) -> tuple[str, ...]:
    """The names of the groups that fill parts of the inside, each of which can be read by `only`.

    >>> cnf.domains.region_names("missing.msh")
    Traceback (most recent call last):
        ...
    cnf.errors.FileError: ...
    """
    mesh = read_gmsh(path)
    return _known(mesh.solids if len(mesh.solids.corners) else mesh.faces)


def _domain(mesh: Gmsh, smooth: bool | float, scale: float, only: Sequence[str], name: str | None) -> Domain:
    points = scale * mesh.points
    if len(mesh.solids.corners):
        if smooth:
            raise DomainError("`smooth` is for meshes of the plane")
        return _solid(points, _boundary(mesh.solids.corners[_chosen(mesh.solids, only)], TETRAHEDRON), mesh.faces, name)
    if not len(mesh.faces.corners):
        raise DomainError("the mesh has no triangles, quadrangles or tetrahedra that could be a domain")
    chosen = mesh.faces.corners[_chosen(mesh.faces, only)]
    used = points[np.unique(chosen)]
    if np.ptp(used[:, 2]) > FLAT * np.ptp(used, axis=0).max():
        if smooth or only:
            raise DomainError("`smooth` and `only` are for meshes of the plane and meshes with tetrahedra")
        return _solid(points, chosen, mesh.faces, name)
    flat = points[:, :2]
    a, b, c = (flat[chosen[:, k]] for k in range(3))
    turn = (b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0] < 0
    chosen = np.where(turn[:, None], chosen[:, ::-1], chosen)
    return _outline(flat, _boundary(chosen, np.array([[0, 1], [1, 2], [2, 0]])), mesh.lines, smooth, name)


def _known(cells: Cells) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(n) for n in cells.names if n))


def _chosen(cells: Cells, only: Sequence[str]) -> np.ndarray:
    """Which elements are wanted, (E,) bool."""
    if not only:
        return np.ones(len(cells.corners), dtype=bool)
    known = _known(cells)
    for wanted in only:
        if wanted not in known:
            raise DomainError(
                f"no group is called {wanted!r}; known are {', '.join(known) or 'none'}.{nearest(wanted, known)}"
            )
    return np.isin(cells.names.astype(str), list(only))


def _boundary(elements: np.ndarray, sides: np.ndarray) -> np.ndarray:
    """The sides (S, k) of elements that belong to one of them only, in the direction they have there."""
    every = elements[:, sides].reshape(-1, sides.shape[1])
    _, place, count = np.unique(np.sort(every, axis=1), axis=0, return_inverse=True, return_counts=True)
    if (count > 2).any():
        raise DomainError("more than two elements of the mesh meet at one side; elements overlap or are there twice")
    return every[count[place.reshape(-1)] == 1]


def _labelled(sides: np.ndarray, cells: Cells) -> list[str]:
    """The name of the group of every side (S, k), "" for none."""
    named = {
        tuple(sorted(corners)): tidied(str(label))
        for corners, label in zip(cells.corners.tolist(), cells.names, strict=True)
    }
    return [named.get(tuple(sorted(side)), "") for side in sides.tolist()]


def _solid(points: np.ndarray, faces: np.ndarray, groups: Cells, name: str | None) -> Domain:
    labels = _labelled(faces, groups)
    return Solid(points, faces, name, labels if any(labels) else None)


def _outline(points: np.ndarray, edges: np.ndarray, groups: Cells, smooth: bool | float, name: str | None) -> Domain:
    if len(np.unique(edges[:, 0])) < len(edges):
        raise DomainError("the boundary of the mesh touches itself at a point; separate the parts there")
    label = dict(zip(map(tuple, edges.tolist()), _labelled(edges, groups), strict=True))
    loops = chain(edges)
    names = [[label[a, b] for a, b in zip(loop, np.roll(loop, -1), strict=True)] for loop in loops]
    curves = [points[loop] for loop in loops]
    return Outline(curves, smooth=smooth, name=name, edges=names if any(map(any, names)) else ())
