"""Closed meshes: what bounds a solid, mended where that is clear, refused where it is not.

In comes a mesh from a file; out go triangles with shared vertices that look out of the solid (into its cavities, too),
and notes about what was mended. Open surfaces and surfaces that cross themselves bound nothing and are refused.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import breadth_first_order, connected_components
from scipy.spatial import cKDTree

from cnf.errors import ConstraintError
from cnf.meshes.distances import ClosestPoints
from cnf.meshes.mesh import Mesh

MOST = 200_000  # faces
PAIRS = 2**19  # of faces looked at together


def close(mesh: Mesh) -> tuple[Mesh, np.ndarray, list[str]]:
    """The mesh as the boundary of a solid, which of its faces those are (F,), and what had to be done for that."""
    notes: list[str] = []
    if not len(mesh.faces) or len(mesh.faces) > MOST:
        raise ConstraintError(f"a solid has between 4 and {MOST} faces, got {len(mesh.faces)}; simplify the mesh first")
    if not np.isfinite(mesh.vertices).all():
        raise ConstraintError("a vertex of the mesh is not finite")
    _, place, joined = np.unique(mesh.vertices, axis=0, return_index=True, return_inverse=True)
    faces = joined.reshape(-1)[mesh.faces]
    kept = np.flatnonzero((faces[:, 0] != faces[:, 1]) & (faces[:, 1] != faces[:, 2]) & (faces[:, 2] != faces[:, 0]))
    welded = Mesh(mesh.vertices[place], faces[kept])
    welded = welded.keep_vertices(welded.used)
    if len(welded.vertices) < int(mesh.used.sum()):
        notes.append(f"{int(mesh.used.sum()) - len(welded.vertices)} vertices at places of others were joined to these")
    if welded.boundary_edges:
        raise ConstraintError(
            f"the mesh is open: {welded.boundary_edges} of its {len(welded.edges)} edges lie in one face only; close "
            "its holes first"
        )
    if welded.crowded_edges:
        raise ConstraintError(
            f"{welded.crowded_edges} edges of the mesh lie in more than two faces, so it does not say what is inside; "
            "remove inner walls first"
        )
    turned = _turned_alike(welded)
    if not turned.is_watertight:
        raise ConstraintError("the mesh has only one side, as a Klein bottle has: nothing is inside of it")
    refuse_crossings(turned)
    outward = _outward(turned)
    if (outward.faces != welded.faces).any():
        notes.append("faces of the mesh were turned over, so that they look out of the solid")
    return outward, kept, notes


def _turned_alike(mesh: Mesh) -> Mesh:
    """Faces turned over until neighbours run through their edge in opposite directions."""
    if mesh.is_watertight:
        return mesh
    start, end = mesh._directed
    low, high = np.minimum(start, end), np.maximum(start, end)
    order = np.lexsort([high, low])
    face = np.repeat(np.arange(len(mesh.faces)), 3)[order].reshape(-1, 2)  # every edge lies in two faces
    same = (start[order] == low[order]).reshape(-1, 2)
    same = same[:, 0] == same[:, 1]  # they run through it in the same direction: one of them is wrong
    count = len(mesh.faces)
    graph = coo_matrix((np.ones(len(face), dtype=bool), tuple(face.T)), shape=(count, count)).tocsr()
    wrong = {(int(a), int(b)) for (a, b), s in zip(np.sort(face, axis=1), same, strict=True) if s}
    flip = np.zeros(count, dtype=bool)
    _, part = connected_components(graph, directed=False)
    for root in np.unique(part, return_index=True)[1]:
        order, before = breadth_first_order(graph, root, directed=False)
        for k in order[1:].tolist():
            pair = (min(k, int(before[k])), max(k, int(before[k])))
            flip[k] = flip[before[k]] != (pair in wrong)
    return Mesh(mesh.vertices, np.where(flip[:, None], mesh.faces[:, ::-1], mesh.faces))


def _outward(mesh: Mesh) -> Mesh:
    """Every part turned outward, or inward where it bounds a cavity: where it lies inside an odd number of others."""
    parts = mesh.vertex_components[mesh.faces[:, 0]]
    faces = mesh.faces.copy()
    alone = [Mesh(mesh.vertices, faces[parts == k]) for k in range(mesh.components)]
    flat = [k for k, part in enumerate(alone) if abs(part.volume) <= 1e-14 * part.area**1.5]
    if flat:
        raise ConstraintError("a part of the mesh encloses nothing: its faces lie on each other")
    solid = [Mesh(part.vertices, part.faces if part.volume > 0 else part.faces[:, ::-1]) for part in alone]
    for k, part in enumerate(solid):
        probe = part.vertices[part.faces[0, 0]][None]
        depth = sum(
            bool(Sides(other).inside(probe)[0]) for j, other in enumerate(solid) if j != k and _holds(other, probe)
        )
        own = part.faces if depth % 2 == 0 else part.faces[:, ::-1]
        faces[parts == k] = own
    return Mesh(mesh.vertices, faces)


def _holds(mesh: Mesh, point: np.ndarray) -> bool:
    corners = mesh.vertices[mesh.faces].reshape(-1, 3)
    return bool((corners.min(axis=0) <= point).all() and (point <= corners.max(axis=0)).all())


class Sides:
    """On which side of a closed mesh points lie, and how far from it."""

    def __init__(self, mesh: Mesh):
        self.mesh = mesh
        self.closest = ClosestPoints(mesh)
        normals = mesh.face_normals
        start, end = mesh._directed
        keys = np.minimum(start, end) * len(mesh.vertices) + np.maximum(start, end)
        unique, place = np.unique(keys, return_inverse=True)
        summed = np.zeros((len(unique), 3))
        np.add.at(summed, place.reshape(-1), np.repeat(normals, 3, axis=0))
        self.edge_normals = summed[place.reshape(-1)].reshape(-1, 3, 3)  # of the side from corner k to k + 1

    def signed(self, points: np.ndarray) -> np.ndarray:
        """Distances (P,), positive inside.

        The sign is that of the normal at the closest point; on edges and vertices the mean of the faces there, weighted
        by their angles, has it right (Baerentzen and Aanaes).
        """
        found = self.closest.find(points)
        mesh, face = self.mesh, found.faces
        corners = mesh.vertices[mesh.faces[face]]  # (P, 3, 3)
        side = np.linalg.norm(np.roll(corners, -1, axis=1) - corners, axis=2).max(axis=1)
        tiny = 1e-9 * side
        normal = mesh.face_normals[face].copy()
        for k in range(3):
            a, b = corners[:, k], corners[:, (k + 1) % 3]
            along = (b - a) / np.maximum(np.linalg.norm(b - a, axis=1, keepdims=True), 1e-300)
            offset = found.points - a
            off = np.linalg.norm(offset - (offset * along).sum(axis=1, keepdims=True) * along, axis=1)
            on = off <= tiny
            normal[on] = self.edge_normals[face[on], k]
        for k in range(3):
            at = np.linalg.norm(found.points - corners[:, k], axis=1) <= tiny
            normal[at] = mesh.vertex_normals[mesh.faces[face[at], k]]
        outside = ((points - found.points) * normal).sum(axis=1) > 0
        return np.where(outside, -found.distances, found.distances)

    def inside(self, points: np.ndarray) -> np.ndarray:
        return self.signed(points) >= 0


def refuse_crossings(mesh: Mesh) -> None:
    """Raise if two faces that have no vertex in common cross or touch."""
    corners = mesh.vertices[mesh.faces]
    low, high = corners.min(axis=1), corners.max(axis=1)
    centre, radius = (low + high) / 2, np.linalg.norm(high - low, axis=1) / 2
    level = np.floor(np.log2(np.maximum(radius, 1e-300))).astype(int)
    groups = [np.flatnonzero(level == value) for value in np.unique(level)]
    trees = [cKDTree(centre[group]) for group in groups]
    for i, one in enumerate(groups):
        for two, other in zip(groups[i:], trees[i:], strict=True):
            reach = radius[one].max() + radius[two].max()
            for begin in range(0, len(one), 4096):
                near = other.query_ball_point(centre[one[begin : begin + 4096]], reach, return_sorted=False)
                counts = [len(found) for found in near]
                a = np.repeat(one[begin : begin + 4096], counts)
                b = two[np.concatenate([np.array(found, dtype=np.int64) for found in near])] if sum(counts) else a[:0]
                fits = (low[a] <= high[b]).all(axis=1) & (low[b] <= high[a]).all(axis=1) & (a != b)
                a, b = a[fits], b[fits]
                apart = ~(mesh.faces[a][:, :, None] == mesh.faces[b][:, None, :]).any(axis=(1, 2))
                _refuse_pairs(corners, a[apart], b[apart])


def _refuse_pairs(corners: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    for begin in range(0, len(a), PAIRS):
        first, second = a[begin : begin + PAIRS], b[begin : begin + PAIRS]
        for one, two in ((first, second), (second, first)):
            for k in range(3):
                start, end = corners[one, k], corners[one, (k + 1) % 3]
                hit = _crosses(start, end, corners[two])
                if hit.any():
                    where = ", ".join(f"{x:.4g}" for x in ((start + end) / 2)[np.flatnonzero(hit)[0]])
                    raise ConstraintError(f"the mesh crosses itself near ({where}); mend it first")


def _crosses(start: np.ndarray, end: np.ndarray, triangle: np.ndarray) -> np.ndarray:
    """Which segments (n, 3) go through triangles (n, 3, 3)."""
    origin, u, v = triangle[:, 0], triangle[:, 1] - triangle[:, 0], triangle[:, 2] - triangle[:, 0]
    along = end - start
    across = np.cross(along, v)
    determinant = (u * across).sum(axis=1)
    offset = start - origin
    turned = np.cross(offset, u)
    with np.errstate(divide="ignore", invalid="ignore"):
        s = (offset * across).sum(axis=1) / determinant
        t = (along * turned).sum(axis=1) / determinant
        place = (v * turned).sum(axis=1) / determinant
        size = np.linalg.norm(u, axis=1) * np.linalg.norm(v, axis=1) * np.linalg.norm(along, axis=1)
        found = (np.abs(determinant) > 1e-12 * size) & (s >= 0) & (t >= 0) & (s + t <= 1) & (place >= 0) & (place <= 1)
    return np.asarray(found)
