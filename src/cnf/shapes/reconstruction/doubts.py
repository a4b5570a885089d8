"""What exactness at the points does not say: a look at the cloud before the field, and at the mesh after it.

In come a prepared cloud, or a finished mesh with the spacing of its points; out go notes for the user, none where there
is nothing to tell, and a `Coverage`: how far the mesh goes from the points, and how much of it is a guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from cnf.meshes.mesh import Mesh
from cnf.shapes.clouds.estimation import fit_planes
from cnf.shapes.clouds.preparation import Prepared
from cnf.shapes.clouds.spacing import Spacing

UNEVEN, CROOKED = 2.0, 30.0  # ratio of spacings, and degrees between normals and fitted planes, that are told
THICK = 0.1  # of the points across a fitted plane: thicker ones are not held against a normal
THIN, NOTABLE = 1.5, 0.02  # grid steps between two sheets, and the share of points on them, from which on it is told
OPPOSITE, FACING = -0.5, 0.8  # cosines: of normals of two sheets, and of a way across with the normal
MISSED = 1.5  # grid steps from every vertex, from which on a point is not on the mesh; on it, one is never that far
ALLOWED = 1.5  # spacings from every point, from which on it is always told; a note only if chance does not explain it
SCATTER, ONE = 6.0, 3.0  # standard deviations of what chance leaves beyond, and squares of the spacing in one large gap
LISTED = 3  # places without support whose sizes are told one by one
LEEWAY = 0.4  # spacings beyond the largest gap that chance leaves, from which on a vertex has no support


class Placed(Protocol):
    """What knows the way back to the coordinates of the input."""

    def to_input(self, points: np.ndarray) -> np.ndarray:
        """From scaled coordinates (P, D)."""
        ...

    @property
    def scale(self) -> float:
        """Of one unit."""
        ...


@dataclass(frozen=True, eq=False)
class Sparse:
    """What of a mesh is farther than `ALLOWED` spacings from every point; random points leave some of it by chance."""

    vertices: int  # so many of them
    area: float  # share of the area, a third of each face for each corner there, 0 to 1
    cells: float  # the same area in squares of the spacings there
    chance: float  # share that points drawn at random leave on average
    explained: float  # `cells` up to which that is chance
    farthest: np.ndarray | None  # (3,), the vertex farthest in spacings, if there is one

    @property
    def by_chance(self) -> bool:
        return self.cells <= self.explained


@dataclass(frozen=True, eq=False)
class Coverage:
    """How far the vertices of a mesh are from the points it goes through; lengths in scaled coordinates."""

    distance: float  # of the vertex farthest from its nearest point
    spacings: float  # the largest distance in spacings of the points there
    limit: float  # spacings beyond which nothing is supported
    unsupported: float  # share of the area whose faces have all corners beyond, 0 to 1
    places: int  # connected parts of it
    box: np.ndarray | None  # (2, 3) around the largest of them
    empty: np.ndarray  # (places,) diameters of the largest balls without points around a vertex there, descending
    sparse: Sparse

    def say(self, cloud: Placed) -> str:
        """What is farther than `ALLOWED` spacings from the points, in a line, whether there is any or not."""
        sparse = self.sparse
        if sparse.farthest is None:
            return f"farther than {ALLOWED:g} spacings from every point: nothing"
        where = ", ".join(f"{x:.4g}" for x in cloud.to_input(sparse.farthest))
        return (
            f"farther than {ALLOWED:g} spacings from every point: {sparse.vertices} vertices, "
            f"{100 * sparse.area:.2g} % of the area, the farthest at ({where}); points drawn at random leave about "
            f"{100 * sparse.chance:.2g} %"
        )

    def describe(self, cloud: Placed) -> list[str]:
        """Notes on what is unsupported, and on more gaps than chance leaves, in the coordinates of the input."""
        if self.box is None:
            return [] if self.sparse.by_chance else [f"{self.say(cloud)}: there are more gaps than that explains"]
        low, high = (", ".join(f"{x:.4g}" for x in corner) for corner in cloud.to_input(self.box))
        where = f"between ({low}) and ({high})"
        if self.places > 1:
            where = f"in {self.places} places, the largest {where}"
        sizes = ", ".join(f"{cloud.scale * size:.3g}" for size in self.empty[:LISTED])
        sizes += f" and {self.places - LISTED} smaller" if self.places > LISTED else ""
        return [
            f"{100 * self.unsupported:.2g} % of the surface is farther from every point than {self.limit:.1f} of their "
            f"spacings there (up to {self.spacings:.1f}), {where}: no point speaks for it, and it is a guess, such as "
            f"a lid over a hole; empty of points across {sizes}; add points there, or cut it off"
        ]


def measure_coverage(mesh: Mesh, spacing: Spacing) -> Coverage:
    """Of a mesh in the coordinates of the points."""
    limit = largest_gap(spacing.tree.n) + LEEWAY
    if not len(mesh.vertices):
        return Coverage(0.0, 0.0, limit, 0.0, 0, None, np.empty(0), _measure_sparse(mesh, np.empty(0), np.empty(0), 0))
    distance, apart = spacing.measure(mesh.vertices)
    sparse = _measure_sparse(mesh, distance, apart, spacing.tree.n)
    farthest, spacings = float(distance.max()), float(apart.max())
    bare = mesh.faces[(apart > limit)[mesh.faces].all(axis=1)]
    bare_distance = distance[bare].max(axis=1)
    share, places, box, empty = measure_bare(mesh.vertices, bare, bare_distance, mesh.area)
    return Coverage(farthest, spacings, limit, share, places, box, empty, sparse)


def measure_bare(
    vertices: np.ndarray, faces: np.ndarray, distance: np.ndarray, area: float
) -> tuple[float, int, np.ndarray | None, np.ndarray]:
    """Faces (F, 3) that no point speaks for, at most so far from the points (F,): see `Coverage`.

    Their share of an area, how many places they make, the box around the largest, diameters of what is empty there.
    """
    if not len(faces):
        return 0.0, 0, None, np.empty(0)
    areas = Mesh(vertices, faces).areas
    ends = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]]])
    graph = coo_matrix((np.ones(len(ends), dtype=bool), (ends[:, 0], ends[:, 1])), shape=(len(vertices),) * 2)
    part = np.unique(connected_components(graph, directed=False)[1][faces[:, 0]], return_inverse=True)[1]
    largest = vertices[faces[part == np.argmax(np.bincount(part, weights=areas))]].reshape(-1, 3)
    empty = np.zeros(part.max() + 1)
    np.maximum.at(empty, part, 2 * distance)
    box = np.stack([largest.min(axis=0), largest.max(axis=0)])
    return float(areas.sum() / area), len(empty), box, np.sort(empty)[::-1]


def _measure_sparse(mesh: Mesh, distance: np.ndarray, apart: np.ndarray, count: int) -> Sparse:
    """A place is farther than r spacings from independent points with probability exp(-pi r^2).

    So of `count` squares of the spacing so many are left on average; a gap counts for one to three, so that scatters
    by more than its root.
    """
    off = apart > ALLOWED
    shares = np.bincount(mesh.faces.ravel(), np.repeat(mesh.areas / 3, 3), len(mesh.vertices))[off]  # of each vertex
    farthest = mesh.vertices[np.argmax(apart)] if off.any() else None
    return sum_sparse(int(off.sum()), shares, distance[off], apart[off], mesh.area, farthest, count)


def sum_sparse(
    vertices: int,
    shares: np.ndarray,
    distance: np.ndarray,
    apart: np.ndarray,
    area: float,
    farthest: np.ndarray | None,
    count: int,
) -> Sparse:
    """From the shares of the area (n,) that so many vertices have which are so far from `count` points (n,)."""
    chance = float(np.exp(-np.pi * ALLOWED**2))
    explained = count * chance + SCATTER * np.sqrt(count * chance) + ONE
    if not vertices:
        return Sparse(0, 0.0, 0.0, chance, explained, None)
    cells = float(np.sum(shares / (distance / apart) ** 2))
    return Sparse(vertices, float(shares.sum() / area), cells, chance, explained, farthest)


def cut_unsupported(mesh: Mesh, spacing: Spacing) -> Mesh:
    """Without the faces that no point speaks for: lids over holes, and what leads on beyond a rim."""
    apart = spacing.measure(mesh.vertices)[1]
    faces = mesh.faces[(apart <= largest_gap(spacing.tree.n) + LEEWAY)[mesh.faces].any(axis=1)]
    kept, numbers = np.unique(faces, return_inverse=True)
    attributes = {name: rows[kept] for name, rows in mesh.attributes.items()}
    return Mesh(mesh.vertices[kept], numbers.reshape(-1, 3), attributes)


def largest_gap(count: int) -> float:
    """The largest disc that so many independent points leave empty, as its radius in spacings.

    A disc of radius r spacings is empty with probability exp(-pi r^2); among as many discs as points one is about as
    likely as not to be empty where that is 1 / count. From 50 points to 300,000 this is the middle of what is found.
    """
    return float(np.sqrt(np.log(max(count, 2)) / np.pi))


def note_unevenness(cloud: Prepared, neighbours: int) -> list[str]:
    """A note on points of uneven spacing, for a field that has one support for all of them."""
    chosen = _some(cloud)
    count = min(neighbours, len(cloud) - 1)
    reach = cKDTree(cloud.points).query(cloud.points[chosen], k=[count + 1])[0][:, 0]
    low, high = np.median(reach), reach.max()  # a bare side of the shape holds few of the points
    if high <= UNEVEN * low:
        return []
    return [
        f"the points are unevenly spaced (by a factor of {high / max(low, 1e-300):.0f}), but all get one support: "
        "where they are far apart the surface is a guess; solver 'blend' has a support for every density"
    ]


def note_thinness(cloud: Prepared, step: float) -> list[str]:
    """A note on sheets, or gaps between them, that the grid cannot keep apart."""
    chosen, tree = _some(cloud), cKDTree(cloud.points)
    near = tree.query_ball_point(cloud.points[chosen], THIN * step)
    owner = np.repeat(chosen, [len(found) for found in near])
    other = np.concatenate(near).astype(np.int64)
    facing = np.einsum("ed,ed->e", cloud.normals[owner], cloud.normals[other]) < OPPOSITE
    owner, other = owner[facing], other[facing]
    way = cloud.points[other] - cloud.points[owner]
    across = np.abs(np.einsum("ed,ed->e", way, cloud.normals[owner]))
    straight = across > FACING * np.linalg.norm(way, axis=1)
    share = len(np.unique(owner[straight])) / len(chosen)
    if share < NOTABLE:
        return []
    thin = float(np.median(across[straight]))
    return [
        f"at {100 * share:.0f} % of the points another side is closer than {THIN:g} steps of the grid ({step:.3g}), "
        f"half of these at {thin:.2g}: the mesh may be pierced, or joined, there; a resolution of "
        f"{int(np.ceil(4 / thin)) + 1 if thin > 0 else 'more nodes'} keeps them apart"
    ]


def note_missed(points: np.ndarray, mesh: Mesh, step: float, total: int | None = None) -> list[str]:
    """A note on points (P, 3), some of `total`, that the mesh does not come near, whatever the field does there."""
    apart = cKDTree(mesh.vertices).query(points)[0]
    off = apart > MISSED * step
    if not off.any():
        return []
    return [
        f"{off.sum()} of {total or len(points)} points are not on the mesh, but up to {apart.max():.2g} from it: they "
        f"lie in parts thinner than the grid step {step:.3g}; raise the resolution to see them"
    ]


def note_crookedness(cloud: Prepared) -> list[str]:
    """A note on given normals that do not fit the points."""
    if len(cloud) <= 20 or cloud.estimated:
        return []
    chosen = _some(cloud)
    fitted, thickness = fit_planes(cloud.points, at=chosen)
    angle = np.degrees(np.arccos(np.clip(np.abs(np.einsum("pd,pd->p", fitted, cloud.normals[chosen])), 0, 1)))
    angle = angle[thickness < THICK]  # on a thin slab, or with few points, planes fitted to them are wrong
    if 4 * len(angle) <= len(chosen) or np.median(angle) <= CROOKED:
        return []
    return [
        f"half of the normals that can be checked are more than {np.median(angle):.0f} degrees off the planes "
        "through the points around: are they normals of these points? Leave them out to have them estimated"
    ]


def _some(cloud: Prepared) -> np.ndarray:
    """Numbers of at most 4000 of the points."""
    return np.arange(0, len(cloud), max(1, len(cloud) // 2000))
