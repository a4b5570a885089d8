"""Clouds, the value at the end: a triangle mesh, what can be measured on it, and points sampled from it.

In come vertices (V, 3), faces (F, 3) and attributes of the vertices; out go areas, normals, counts of edges, components
and genus, and area-uniform samples. Nothing here needs more than NumPy and SciPy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from cnf.errors import ConstraintError

SIDES = 1 << 24  # sides of faces that are sorted together
CHUNK = 1 << 18  # faces that are looked at together
PORTION = 1 << 14  # faces whose corners are held at once: all that comes of them fits into the cache


@dataclass(frozen=True, eq=False)
class Mesh:
    """Triangles over shared vertices; counter-clockwise faces look outward. Attributes are one row per vertex.

    >>> vertices = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=float)
    >>> mesh = cnf.shapes.Mesh(vertices, np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]))
    >>> mesh.is_watertight, mesh.euler, round(mesh.volume, 4)
    (True, 2, 0.1667)
    """

    vertices: np.ndarray  # (V, 3) float64
    faces: np.ndarray  # (F, 3) int64
    attributes: dict[str, np.ndarray] = field(default_factory=dict)  # name -> (V, k)

    def __post_init__(self):
        vertices = np.ascontiguousarray(self.vertices, dtype=np.float64)
        vertices = vertices.reshape(0, 3) if vertices.size == 0 else vertices
        faces = np.asarray(self.faces)
        faces = np.empty((0, 3), dtype=np.int64) if faces.size == 0 else faces
        if faces.dtype.kind not in "iu":
            raise ConstraintError(f"faces are integers, three vertex numbers each, got {faces.dtype}")
        if vertices.ndim != 2 or vertices.shape[1] != 3:
            raise ConstraintError(f"a mesh has vertices (V, 3), got {np.shape(self.vertices)}")
        if faces.ndim != 2 or faces.shape[1] != 3:
            raise ConstraintError(f"a mesh has faces (F, 3), got {faces.shape}; split polygons into triangles")
        faces = np.ascontiguousarray(faces, dtype=np.int64)
        if len(faces) and (faces.min() < 0 or faces.max() >= len(vertices)):
            row = int(np.flatnonzero(((faces < 0) | (faces >= len(vertices))).any(1))[0])
            raise ConstraintError(f"face {row} is {faces[row].tolist()}, but the vertices are 0 to {len(vertices) - 1}")
        object.__setattr__(self, "vertices", vertices)
        object.__setattr__(self, "faces", faces)
        object.__setattr__(self, "attributes", attributes_of(self.attributes, len(vertices), "vertex"))

    def __repr__(self) -> str:
        named = f", attributes {', '.join(self.attributes)}" if self.attributes else ""
        return f"Mesh({len(self.vertices)} vertices, {len(self.faces)} faces{named})"

    # ---- geometry

    @cached_property
    def _crosses(self) -> np.ndarray:
        found = np.empty((len(self.faces), 3))  # twice the area long
        for start in range(0, len(found), PORTION):
            part = slice(start, start + PORTION)
            a, b, c = (self.vertices[self.faces[part, i]] for i in range(3))
            with np.errstate(over="ignore", invalid="ignore"):  # `draw` refuses areas that are not finite
                found[part] = np.cross(b - a, c - a)
        return found

    @cached_property
    def areas(self) -> np.ndarray:
        """(F,)."""
        with np.errstate(over="ignore", invalid="ignore"):
            return 0.5 * np.linalg.norm(self._crosses, axis=1)

    @property
    def area(self) -> float:
        """Of all faces together."""
        return float(self.areas.sum())

    @property
    def volume(self) -> float:
        """Enclosed, positive if the faces look outward; means something for closed meshes only."""
        if not len(self.faces):
            return 0.0
        shifted = self.vertices - self.vertices[self.faces[:, 0]].mean(0)  # far from the origin the sum would cancel
        return float((shifted[self.faces[:, 0]] * self._crosses).sum() / 6)

    @cached_property
    def face_normals(self) -> np.ndarray:
        """(F, 3), unit; zero for a face without area."""
        return unit_rows(self._crosses)

    @cached_property
    def vertex_normals(self) -> np.ndarray:
        """(V, 3), unit, faces weighted by their angle at the vertex; zero for a vertex without faces."""
        total = np.zeros_like(self.vertices)
        for start in range(0, len(self.faces), CHUNK):
            faces = self.faces[start : start + CHUNK]
            corners = [self.vertices[faces[:, i]] for i in range(3)]
            normals = self.face_normals[start : start + CHUNK]
            for i in range(3):
                ahead = unit_rows(corners[(i + 1) % 3] - corners[i])
                back = unit_rows(corners[(i + 2) % 3] - corners[i])
                angle = np.arctan2(np.linalg.norm(np.cross(ahead, back), axis=1), (ahead * back).sum(1))
                for d in range(3):
                    total[:, d] += np.bincount(faces[:, i], weights=angle * normals[:, d], minlength=len(total))
        return unit_rows(total)

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Lowest and highest corner of the box around the vertices, (3,) each."""
        if not len(self.vertices):
            raise ConstraintError("a mesh without vertices has no bounds")
        return self.vertices.min(0), self.vertices.max(0)

    # ---- topology

    @property
    def _directed(self) -> tuple[np.ndarray, np.ndarray]:
        """Start and end (3F,) of the three sides of every face, in the direction in which the face runs."""
        return self.faces.ravel(), np.roll(self.faces, -1, axis=1).ravel()

    @cached_property
    def _edge_table(self) -> tuple[np.ndarray, np.ndarray]:
        start, end = self._directed
        keys = np.minimum(start, end) * len(self.vertices)
        keys += np.maximum(start, end)
        del start, end  # of millions of faces these are most of the memory
        keys.sort()
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        counts = np.diff(first, append=len(keys))
        keys = keys[first]
        return np.stack([keys // max(len(self.vertices), 1), keys % max(len(self.vertices), 1)], axis=1), counts

    @property
    def edges(self) -> np.ndarray:
        """(E, 2), each edge once, the smaller vertex number first."""
        return self._edge_table[0]

    @property
    def edge_counts(self) -> np.ndarray:
        """(E,): in how many faces each edge lies; 2 everywhere on a closed surface."""
        return self._edge_table[1]

    @cached_property
    def _edge_kinds(self) -> tuple[int, int, int, int]:
        """How many edges there are; lie in one face, in more than two, in two that run through it in opposite ways.

        Edges are counted by ranges of their smaller vertex: of millions of faces a table of all takes several times as
        much memory as the mesh.
        """
        total, count = np.zeros(4, dtype=np.int64), len(self.vertices)
        bounds = np.linspace(0, count, max(1, -(-3 * len(self.faces) // SIDES)) + 1).astype(np.int64)
        for low, high in pairwise(bounds):
            keys = []
            for i in range(3):
                start, end = self.faces[:, i], self.faces[:, (i + 1) % 3]
                smaller = np.minimum(start, end)
                own = (smaller >= low) & (smaller < high)
                start, end = start[own], end[own]
                larger, straight = np.maximum(start, end), start < end
                keys.append(2 * ((smaller[own] - low) * count + larger) + straight)
            sides = np.sort(np.concatenate(keys))
            first = np.flatnonzero(np.diff(sides >> 1, prepend=-1))
            held = np.diff(first, append=len(sides))
            opposite = (held == 2) & (sides[first] & 1 != sides[first + (held > 1)] & 1)
            total += [len(first), np.sum(held == 1), np.sum(held > 2), np.sum(opposite)]
        return int(total[0]), int(total[1]), int(total[2]), int(total[3])

    @property
    def boundary_edges(self) -> int:
        """How many edges lie in one face only: rims and holes."""
        return self._edge_kinds[1]

    @property
    def crowded_edges(self) -> int:
        """How many edges lie in more than two faces: the surface is no manifold there."""
        return self._edge_kinds[2]

    @property
    def is_watertight(self) -> bool:
        """Whether every edge lies in exactly two faces which run through it in opposite directions."""
        edges, _, _, opposite = self._edge_kinds
        return edges > 0 and opposite == edges

    @cached_property
    def used(self) -> np.ndarray:
        """(V,) bool: the vertices that lie in a face."""
        mask = np.zeros(len(self.vertices), dtype=bool)
        mask[self.faces.ravel()] = True
        return mask

    @cached_property
    def vertex_components(self) -> np.ndarray:
        """(V,): number of the connected part a vertex belongs to, from 0; -1 for a vertex without faces."""
        count = len(self.vertices)
        if not len(self.faces):
            return np.full(count, -1)
        ends = self.faces[:, :2].ravel(), self.faces[:, 1:].ravel()  # two sides join the corners of a face
        graph = coo_matrix((np.ones(len(ends[0]), dtype=bool), ends), shape=(count, count))
        labels = connected_components(graph, directed=False)[1].astype(np.int64)
        numbers = np.full(count, -1)
        numbers[self.used] = np.unique(labels[self.used], return_inverse=True)[1]
        return numbers

    @property
    def components(self) -> int:
        """How many connected parts the faces form."""
        return int(self.vertex_components.max(initial=-1)) + 1

    @property
    def euler(self) -> int:
        """V - E + F over the vertices in use."""
        return int(self.used.sum()) - self._edge_kinds[0] + len(self.faces)

    @property
    def genus(self) -> int | None:
        """Number of handles over all components, or None if the mesh is not closed."""
        return (2 * self.components - self.euler) // 2 if self.is_watertight else None

    # ---- other meshes and points

    def weld(self) -> Mesh:
        """Vertices at the very same position made one (texture seams, STL files), unused and doubled ones dropped.

        Attributes come from the first of the vertices merged; faces that lose a corner are dropped.
        """
        kept, first, inverse = np.unique(self.vertices, axis=0, return_index=True, return_inverse=True)
        faces = inverse.reshape(-1)[self.faces]
        a, b, c = faces.T if len(faces) else np.empty((3, 0), dtype=np.int64)
        faces = faces[(a != b) & (b != c) & (c != a)]
        mesh = Mesh(kept, faces, {name: value[first] for name, value in self.attributes.items()})
        return mesh.keep_vertices(mesh.used)

    def keep_vertices(self, mask: np.ndarray) -> Mesh:
        """The part over the vertices in `mask` (V,) bool: faces with all corners in it, renumbered."""
        numbers = np.cumsum(mask) - 1
        faces = self.faces[mask[self.faces].all(axis=1)]
        return Mesh(self.vertices[mask], numbers[faces], {name: value[mask] for name, value in self.attributes.items()})

    def face_outward(self) -> Mesh:
        """The same mesh, with all faces turned over if it is closed and they look inward."""
        inward = self.is_watertight and self.volume < 0
        return replace(self, faces=self.faces[:, ::-1]) if inward else self

    def with_attributes(self, **attributes: np.ndarray) -> Mesh:
        """The same mesh with further (or other) attributes, (V,) or (V, k) each."""
        return replace(self, attributes={**self.attributes, **attributes})

    def to_trimesh(self) -> Any:
        """As a `trimesh.Trimesh`, with normals, colours and all other attributes."""
        from cnf.meshes.exchange import to_trimesh

        return to_trimesh(self)

    def to_open3d(self, tensor: bool = False) -> Any:
        """As an `open3d.geometry.TriangleMesh`, with normals and colours; `tensor`: of `open3d.t`, with everything."""
        from cnf.meshes.exchange import to_open3d

        return to_open3d(self, tensor)

    def to_pyvista(self) -> Any:
        """As a `pyvista.PolyData`, with normals, colours and all other attributes."""
        from cnf.meshes.exchange import to_pyvista

        return to_pyvista(self)

    def draw(self, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Places spread uniformly over the area: the face (P,) of each and the weights (P, 3) of its corners."""
        if count < 1:
            raise ConstraintError(f"a sample needs at least one point, got count={count}")
        if not np.isfinite(self.area):
            raise ConstraintError(f"{self!r} has an area beyond all numbers; check its units")
        if not self.area > 0:
            raise ConstraintError(f"{self!r} has no area to sample; it needs at least one triangle that is not flat")
        random = np.random.default_rng(seed)
        reached = np.cumsum(self.areas)
        # Stratified along the list of faces: one point per equal share of area, which is evener than independent draws.
        steps = (np.arange(count) + random.random(count)) / count * reached[-1]
        last = int(np.flatnonzero(self.areas)[-1])  # rounding must not choose a flat face at the end
        chosen = np.minimum(np.searchsorted(reached, steps, side="right"), last)
        u, v = random.random((2, count))
        root = np.sqrt(u)
        return chosen, np.stack([1 - root, root * (1 - v), root * v], axis=1)

    def interpolate(self, values: np.ndarray, chosen: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Values of the vertices (V, k) at the places that `draw` gave, (P, k)."""
        return np.einsum("pc,pck->pk", weights, values[self.faces[chosen]])

    def sample(self, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Points (P, 3) spread uniformly over the area, and their unit normals (P, 3), interpolated from the vertices'.

        Where interpolated normals cancel (a fold seen from both sides), the face's own normal is taken.
        """
        chosen, weights = self.draw(count, seed)
        return self.interpolate(self.vertices, chosen, weights), self.normals_at(chosen, weights)

    def normals_at(self, chosen: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Unit normals (P, 3) at the places that `draw` gave."""
        mixed = self.interpolate(self.vertex_normals, chosen, weights)
        weak = np.linalg.norm(mixed, axis=1) < 1e-6
        mixed[weak] = self.face_normals[chosen[weak]]
        return unit_rows(mixed)


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Rows (P, D) scaled to length one; zero rows stay zero."""
    largest = np.abs(vectors).max(axis=1, keepdims=True, initial=0)  # first, as the squares of 1e-200 vanish
    scaled = np.divide(vectors, largest, out=np.zeros_like(vectors), where=largest > 0)
    length = np.sqrt((scaled * scaled).sum(axis=1, keepdims=True))
    return np.divide(scaled, length, out=scaled, where=length > 0)


def attributes_of(given: Mapping[str, np.ndarray], rows: int, what: str) -> dict[str, np.ndarray]:
    """Attributes as float64 (rows, k), refused if their number of rows is another."""
    checked = {}
    for name, value in given.items():
        array = np.asarray(value, dtype=np.float64)
        array = array[:, None] if array.ndim == 1 else array
        if array.ndim != 2 or len(array) != rows:
            raise ConstraintError(
                f"attribute {name!r} has shape {np.shape(value)}; expected a row per {what}, {rows} in all"
            )
        checked[str(name)] = array
    return checked
