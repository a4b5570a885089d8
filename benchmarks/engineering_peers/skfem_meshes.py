"""Meshes as someone who knows scikit-fem would make them: graded to corners, sources and layers, curved with shapes.

Box-shaped domains get quadrilaterals or hexahedra, the rest triangles; gmsh makes the meshes around holes, with curved
(isoparametric) elements of second order. What goes out: scikit-fem meshes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import gmsh
import numpy as np
from scipy.spatial import cKDTree
from skfem import Basis, Mesh, MeshTet1, MeshTet2, MeshTri, MeshTri1, MeshTri2

Array = np.ndarray


def graded(mesh: MeshTri, size: Callable[[Array], Array]) -> MeshTri:
    """Cut every triangle that is larger than `size` says at its point nearest to what it grades to, until none is."""
    while True:
        corners = mesh.p[:, mesh.t]  # (2, 3, T)
        longest = max_side(corners)
        allowed = size(corners.reshape(2, -1)).reshape(3, -1).min(axis=0)
        centre = size(corners.mean(axis=1))
        marked = np.flatnonzero(longest > np.maximum(allowed, 0.5 * centre))
        if not len(marked):
            return mesh
        mesh = mesh.refined(marked)


def max_side(corners: Array) -> Array:
    return np.max([np.linalg.norm(corners[:, k] - corners[:, k - 1], axis=0) for k in range(3)], axis=0)


def towards(
    points: Sequence[tuple[float, float]], size: float, power: float, smallest: float
) -> Callable[[Array], Array]:
    """Sizes that shrink like distance^power towards points: size * r^power, not below `smallest`."""
    places = np.array(points, float)

    def allowed(x: Array) -> Array:
        r = np.min([np.hypot(x[0] - a, x[1] - b) for a, b in places], axis=0)
        return np.maximum(size * r**power, smallest)

    return allowed


def layered(cells: int, width: float) -> Array:
    """Nodes of [0, 1] for e^((x-1)/width) and quadratic elements: half of them in the layer, the same error in each."""
    half = cells // 2
    reach = min(0.5, 3 * width * np.log(max(cells, 3)) * 1.2)
    share = 1 - (1 - np.exp(-reach / (3 * width))) * np.arange(half + 1) / half
    return np.concatenate([np.linspace(0, 1 - reach, cells - half + 1)[:-1], 1 + 3 * width * np.log(share)[::-1]])


def crowded(cells: int, power: float = 2.0) -> Array:
    """Nodes of [0, 1] that crowd towards both ends."""
    s = np.linspace(0, 1, cells + 1)
    return np.where(s < 0.5, 0.5 * (2 * s) ** power, 1 - 0.5 * (2 - 2 * s) ** power)


def by_gmsh(
    build: Callable[[], object], dimension: int, size: float, per_circle: int, curved: bool
) -> tuple[Mesh, Array]:
    """A mesh of what `build` puts into gmsh, and the tag of the entity that every element belongs to."""
    gmsh.initialize(interruptible=False)
    gmsh.option.setNumber("General.Verbosity", 1)
    gmsh.option.setNumber("Mesh.MeshSizeMax", size)
    gmsh.option.setNumber("Mesh.MeshSizeFromCurvature", per_circle)
    gmsh.option.setNumber("Mesh.SecondOrderLinear", 0)
    build()
    gmsh.model.occ.synchronize()
    gmsh.model.mesh.generate(dimension)
    if curved:
        gmsh.model.mesh.setOrder(2)
    tags, places, _ = gmsh.model.mesh.getNodes()
    number = np.zeros(int(tags.max()) + 1, int)
    number[tags.astype(int)] = np.arange(len(tags))
    corners, entities = [], []
    for _, tag in gmsh.model.getEntities(dimension):
        kinds, _, nodes = gmsh.model.mesh.getElements(dimension, tag)
        for kind, flat in zip(kinds, nodes, strict=True):
            per = gmsh.model.mesh.getElementProperties(kind)[3]
            corners.append(number[flat.astype(int).reshape(-1, per)])
            entities.append(np.full(len(corners[-1]), tag))
    gmsh.finalize()
    table = np.concatenate(corners)  # (T, nodes of an element)
    used, table = np.unique(table, return_inverse=True)
    p, t = places.reshape(-1, 3)[used, :dimension].T.copy(), table.reshape(-1, corners[0].shape[1]).T.copy()
    if dimension == 3 and curved:
        t = t[[0, 1, 2, 3, 4, 5, 6, 7, 9, 8]]  # the last two edges of gmsh come in the other order
    kind = {(2, False): MeshTri1, (2, True): MeshTri2, (3, False): MeshTet1, (3, True): MeshTet2}[dimension, curved]
    return kind(p, t), np.concatenate(entities)


def pull_back(basis: Basis, points: Array, cells: Array) -> Array:
    """Where points (D, P) lie in the frames of elements, by Newton that stays near the element; far off if it fails."""
    local = np.full(
        points.shape, 1 / basis.mesh.refdom.nnodes if basis.mesh.dim() + 1 == basis.mesh.refdom.nnodes else 0.5
    )
    for _ in range(12):
        off = points - basis.mapping.F(local[:, :, None], tind=cells)[:, :, 0]
        slope = np.moveaxis(basis.mapping.DF(local[:, :, None], tind=cells)[..., 0], -1, 0)  # (P, D, D)
        step = np.linalg.solve(slope + 1e-300 * np.eye(len(points)), off.T[..., None])[..., 0].T
        local = np.clip(local + step, -1, 2)
    return local


def evaluation(basis: Basis, points: Array) -> tuple[Array, Array]:
    """Unknowns (K, P) and their weights (K, ..., P) that make up a field at points (P, D).

    A point belongs to the element that holds it, or nearly does where the boundary is curved.
    """
    mesh, count = basis.mesh, len(points)
    corners = mesh.p[:, mesh.t[: mesh.refdom.nnodes]]
    tree = cKDTree(corners.mean(axis=1).T)
    best, cells = np.full(count, np.inf), np.zeros(count, int)
    local = np.zeros((mesh.dim(), count))
    _, near = tree.query(points, k=min(30, mesh.t.shape[1]))
    low, high = corners.min(axis=1).T, corners.max(axis=1).T  # (T, D)
    for n, tried in enumerate([*np.atleast_2d(near.T), *range(8)]):
        left = np.flatnonzero(best > 1e-9)
        if not len(left) or (n >= 30 and best.max() < 0.3):
            break
        if n >= near.shape[1]:  # in thin layers thirty centres are not enough: the elements whose boxes hold the point
            holds = [np.flatnonzero(((low <= p) & (p <= high)).all(axis=1)) for p in points[left]]
            tried = np.zeros(count, int)
            tried[left] = [h[min(n - near.shape[1], len(h) - 1)] if len(h) else 0 for h in holds]
        inside = pull_back(basis, points[left].T, tried[left])
        simplex = mesh.refdom.nnodes == mesh.dim() + 1
        off = np.maximum(-inside.min(axis=0), (inside.sum(axis=0) if simplex else inside.max(axis=0)) - 1)
        better = off < best[left]
        best[left[better]], cells[left[better]] = off[better], tried[left[better]]
        local[:, left[better]] = inside[:, better]
    assert best.max() < 0.3, f"a point is outside of the mesh by {best.max():.2g} of an element"
    values = [
        np.asarray(basis.elem.gbasis(basis.mapping, local[:, :, None], k, tind=cells)[0])[..., 0]
        for k in range(basis.Nbfun)
    ]
    return basis.element_dofs[:, cells], np.array(values)


def evaluate(basis: Basis, u: Array, points: Array) -> Array:
    """A field at points (P, D), (P,) or (C, P)."""
    unknowns, weights = evaluation(basis, points)
    return np.einsum("k...p,kp->...p", weights, u[unknowns])
