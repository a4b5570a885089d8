"""Solid: the region of space inside a closed mesh of triangles, from files too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cnf.errors import ConstraintError, DomainError
from cnf.meshes.closed import Sides, close
from cnf.meshes.mesh import Mesh
from cnf.meshes.reading import read_surface
from cnf.pde.domains.boundary import Arrays, Patch, Piece
from cnf.pde.domains.domain import Domain, as_number, check_name, settle
from cnf.pde.domains.layouts import spread_out
from cnf.pde.domains.simplices import chain

CANDIDATES = 5  # for each point of a sample
FLAT = 1e-9  # of the size: slices at the ends are taken this far inside


@dataclass(frozen=True)
class Triangles:
    """Vertices (V, 3) and faces (F, 3) as bytes, so that solids are values."""

    vertices: bytes
    faces: bytes

    @staticmethod
    def of(mesh: Mesh) -> Triangles:
        return Triangles(mesh.vertices.tobytes(), mesh.faces.tobytes())

    def __repr__(self) -> str:
        return f"Triangles({len(self.vertices) // 24} vertices, {len(self.faces) // 24} faces)"


@dataclass(frozen=True)
class Solid(Domain):
    """What a closed mesh encloses: `vertices` (V, 3), `faces` (F, 3) of vertex numbers, in either direction.

    Vertices at one place are joined, faces that look inward are turned over (`notes` says so); open meshes and meshes
    that cross themselves are refused. A part of the mesh inside another bounds a cavity. `parts_of_faces` (F,) names
    parts of the boundary, "" for none.

    >>> corners = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    >>> tetrahedron = cnf.domains.Solid(corners, [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    >>> round(tetrahedron.volume, 6)
    0.166667
    """

    triangles: Triangles
    labels: tuple[str, ...]  # of the faces; () if none has one
    name: str | None = None

    def __init__(
        self,
        vertices: object,
        faces: object,
        name: str | None = None,
        parts_of_faces: Sequence[str] | None = None,
    ):
        check_name(name)
        try:
            given = Mesh(np.asarray(vertices, dtype=np.float64), np.asarray(faces))
            mesh, kept, notes = close(given)
        except (ConstraintError, TypeError, ValueError) as error:
            raise DomainError(str(error)) from None
        labels: tuple[str, ...] = ()
        if parts_of_faces is not None:
            if len(parts_of_faces) != len(given.faces):
                raise DomainError(f"{len(parts_of_faces)} names of faces are given for {len(given.faces)} faces")
            labels = tuple(parts_of_faces[k] for k in kept)
            for label in set(labels) - {""}:
                check_name(label)
        settle(self, triangles=Triangles.of(mesh), labels=labels, name=name, notes=tuple(notes))
        low, high = mesh.bounds
        settle(self, lower=tuple(map(float, low)), upper=tuple(map(float, high)))

    notes = ()  # what had to be mended

    @staticmethod
    def read(path: object, scale: float = 1.0, name: str | None = None) -> Solid:
        """From an STL, OBJ or PLY file, its coordinates times `scale`."""
        factor = as_number(scale, "`scale`")
        if factor == 0:
            raise DomainError("`scale` must not be 0")
        mesh = read_surface(path)
        try:
            return Solid(factor * mesh.vertices, mesh.faces, name)
        except DomainError as error:
            raise DomainError(f"{path}: {error}") from None

    @cached_property
    def _mesh(self) -> Mesh:
        vertices = np.frombuffer(self.triangles.vertices).reshape(-1, 3)
        return Mesh(vertices, np.frombuffer(self.triangles.faces, dtype=np.int64).reshape(-1, 3))

    @cached_property
    def _sides(self) -> Sides:
        return Sides(self._mesh)

    @property
    def volume(self) -> float:
        return self._mesh.volume

    def _bound(self, points: np.ndarray) -> np.ndarray:
        return self._sides.signed(points)

    def _inside(self, points: np.ndarray) -> np.ndarray:
        inside = np.asarray(((points >= self.lower) & (points <= self.upper)).all(axis=1))
        inside[inside] = self._sides.inside(points[inside])
        return inside

    def _outline(self) -> list[Piece]:
        own = (self.name,) if self.name is not None else ()
        if not self.labels:
            return [_Faces(self._mesh, np.arange(len(self._mesh.faces))).patch(own)]
        labels = np.array(self.labels)
        return [
            _Faces(self._mesh, np.flatnonzero(labels == label)).patch((*own, label) if label else own)
            for label in dict.fromkeys(self.labels)
        ]

    @property
    def _pieces(self) -> list[Piece]:
        return self._outline()

    def _section(self, axis: int, value: float) -> Domain | None:
        """The polygons in which a plane cuts the mesh; flat ends are cut a little inside."""
        from cnf.pde.domains.outline import Outline

        mesh = self._mesh
        tiny = FLAT * (self.upper[axis] - self.lower[axis])
        inner = min(max(value, self.lower[axis] + tiny), self.upper[axis] - tiny)
        height = mesh.vertices[:, axis] - inner
        above = height > 0
        corners = mesh.faces[above[mesh.faces].any(axis=1) & ~above[mesh.faces].all(axis=1)]
        if not len(corners):
            return None
        # Turn every triangle until its single corner, the one on a side of its own, comes first.
        up = above[corners]
        alone = np.where(up.sum(axis=1) == 1, up.argmax(axis=1), (~up).argmax(axis=1))
        rows = np.arange(len(corners))
        first, second, third = (corners[rows, (alone + k) % 3] for k in range(3))
        leaving = np.stack([np.minimum(first, second), np.maximum(first, second)], axis=1)
        entering = np.stack([np.minimum(first, third), np.maximum(first, third)], axis=1)
        turn = up[rows, alone]
        ends = np.where(turn[:, None, None], np.stack([leaving, entering], 1), np.stack([entering, leaving], 1))
        keys = ends[:, :, 0] * len(mesh.vertices) + ends[:, :, 1]
        unique, segments = np.unique(keys, return_inverse=True)
        a, b = unique // len(mesh.vertices), unique % len(mesh.vertices)
        share = height[a] / (height[a] - height[b])
        points = mesh.vertices[a] + share[:, None] * (mesh.vertices[b] - mesh.vertices[a])
        flat = np.delete(points, axis, axis=1)
        loops = [flat[numbers] for numbers in chain(segments.reshape(-1, 2))]
        size = max(b - a for a, b in zip(self.lower, self.upper, strict=True))
        kept = [loop for loop in map(_thinned, loops) if len(loop) > 2 and _area(loop) > 1e-12 * size**2]
        return Outline(kept) if kept else None


def _thinned(loop: np.ndarray) -> np.ndarray:
    """Without points that repeat the one before."""
    size = float(np.ptp(loop, axis=0).max())
    return loop[np.abs(loop - np.roll(loop, 1, axis=0)).max(axis=1) > 1e-12 * size]


def _area(loop: np.ndarray) -> float:
    x, y = (loop - loop[0]).T
    return abs(float((x * np.roll(y, -1) - y * np.roll(x, -1)).sum() / 2))


@dataclass(frozen=True, eq=False)
class _Faces:
    """Some faces of a mesh, to be sampled."""

    mesh: Mesh
    numbers: np.ndarray

    def patch(self, names: tuple[str, ...]) -> Patch:
        return Patch(names, float(self.mesh.areas[self.numbers].sum()), self.place)

    def place(self, count: int, random: np.random.Generator, seed: int) -> Arrays:
        """Points spread evenly over the faces, and the normals of these."""
        number = CANDIDATES * count + 64
        areas = self.mesh.areas[self.numbers]
        reached = np.cumsum(areas)
        steps = (np.arange(number) + random.random(number)) / number * reached[-1]
        face = self.numbers[np.minimum(np.searchsorted(reached, steps, side="right"), int(np.flatnonzero(areas)[-1]))]
        root, v = np.sqrt(random.random(number)), random.random(number)
        weights = np.stack([1 - root, root * (1 - v), root * v], axis=1)
        points = self.mesh.interpolate(self.mesh.vertices, face, weights)
        order = random.permutation(number)
        chosen = spread_out(points[order], count, float(np.sqrt(reached[-1] / count)))
        return points[order][chosen], self.mesh.face_normals[face[order][chosen]]
