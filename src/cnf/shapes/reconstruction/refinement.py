"""Onto the zero set: vertices moved along the gradient, edges split where the surface bends away from them.

In come a mesh near the zero set and the field with its gradient; out goes a mesh whose vertices lie on the zero set to
rounding. Marching cubes leaves vertices O(step^2) away; two Newton steps take them to O(step^8), and splitting edges at
projected midpoints gives the accuracy of a finer grid for O(G^2) evaluations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cnf.errors import ConstraintError
from cnf.meshes.mesh import Mesh, unit_rows
from cnf.shapes.reconstruction.band import CHUNK
from cnf.shapes.reconstruction.flips import align

Slopes = Callable[[np.ndarray], np.ndarray]  # (P, 3) -> (P, 4): value and gradient
# The same of places that were asked before, (P, 3) and how far each may move until it must be looked at anew, (P,),
# negative for now: (P, 4), and what is left of these, (P,).
Near = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
ROUNDING = 1e-14  # of the mesh's size: a Newton step this short changes nothing
NORMALS = "normals"  # the attribute that keeps the field's unit gradients at the vertices
BENT = 0.5  # of the tolerance: what the normals at its ends foretell of an edge before its midpoint is looked at


@dataclass(frozen=True)
class Refinement:
    """A mesh on the zero set, and what it took."""

    mesh: Mesh
    evaluations: int
    moved: int  # vertices now on the zero set
    left: int  # vertices left where they were: no convergence, a step too long, or a face would have turned over


def project(mesh: Mesh, slopes: Slopes, farthest: float, rounds: int = 3, near: Near | None = None) -> Refinement:
    """Move the vertices onto the zero set of `slopes` ((P, 3) -> (P, 4)), at most `farthest` each.

    `near`: the same, if it takes less for places that move little.

    A vertex stays where it was if Newton's steps do not converge, lead farther than that (half the grid's step is a
    good bound), or would turn a face over. `rounds` is the largest number of evaluations per vertex.
    """
    way = approach(mesh.vertices, near or as_near(slopes), farthest, rounds)
    vertices, fine = _settle(mesh.vertices, way.places, way.fine, mesh.faces, mesh.vertex_normals)
    left = int(np.sum(~fine))
    normals = _normals(way, vertices, fine, slopes)
    attributes = {**mesh.attributes, NORMALS: normals}
    return Refinement(Mesh(vertices, mesh.faces, attributes), way.evaluations + left, len(fine) - left, left)


@dataclass(frozen=True)
class Approach:
    """Where Newton's steps lead, (P, 3), whether that can be trusted (P,), and the gradients met last, (P, 3)."""

    places: np.ndarray
    fine: np.ndarray
    gradients: np.ndarray
    evaluations: int


def _normals(way: Approach, places: np.ndarray, fine: np.ndarray, slopes: Slopes) -> np.ndarray:
    """Unit gradients (P, 3): those of the last, short step; anew where the way was not gone to its end."""
    gradients = way.gradients.copy()
    gradients[~fine] = evaluate_slopes(slopes, places[~fine])[:, 1:]
    return unit_rows(gradients)


def as_near(slopes: Slopes) -> Near:
    """Slopes that are the same work wherever a place was before."""
    return lambda x, leeway: (slopes(x), leeway)


def approach(
    points: np.ndarray,
    near: Near,
    farthest: float,
    rounds: int = 3,
    known: tuple[np.ndarray, np.ndarray] | None = None,
) -> Approach:
    """Newton's steps along the gradient.

    A point is done when the next step would be within rounding. Steps shrink quadratically, so two in a row foretell
    the next, and its evaluation is spared. Trusted are points whose last step was short. `known`: value and gradient at
    the start (P, 4), with the leeway there (P,).
    """
    if not farthest > 0 or rounds < 1:
        raise ConstraintError(f"expected farthest > 0 and rounds >= 1, got {farthest} and {rounds}")
    rounding = ROUNDING * (float(np.abs(points).max(initial=0.0)) + farthest)
    places, fine, gradients = points.copy(), np.zeros(len(points), dtype=bool), np.zeros_like(points)
    going = np.arange(len(points))
    last = np.full(len(points), np.inf)  # length of the step before
    evaluations, leeway = 0, np.full(len(points), -1.0) if known is None else known[1].copy()
    for turn in range(rounds):
        if known is not None and turn == 0:
            found = known[0]
        else:
            found, leeway[going] = evaluate_near(near, places[going], leeway[going])
            evaluations += len(going)
        gradients[going] = found[:, 1:]
        step = newton_steps(found)
        length = np.linalg.norm(step, axis=1)
        reached = np.linalg.norm(places[going] + step - points[going], axis=1)
        sound = np.isfinite(length) & (length <= np.maximum(0.5 * last[going], rounding)) & (reached <= farthest)
        places[going[sound]] += step[sound]
        leeway[going[sound]] -= length[sound]
        fine[going] = sound & (length <= 1e-3 * farthest)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            foretold = length if turn == 0 else 10 * length * (length / last[going]) ** 2
        last[going] = length
        going = going[sound & (length > rounding) & (foretold > rounding)]
        if not len(going):
            break
    return Approach(places, fine, gradients, evaluations)


def evaluate_slopes(slopes: Slopes, points: np.ndarray) -> np.ndarray:
    """Value and gradient (P, 4) at points (P, 3), in bounded portions; refused if it is anything else."""
    return evaluate_near(as_near(slopes), points, np.full(len(points), -1.0))[0]


def evaluate_near(near: Near, points: np.ndarray, leeway: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same of places that were asked before, and what is left of their leeway (P,)."""
    answer, left = np.empty((len(points), 4)), np.empty(len(points))
    for start in range(0, len(points), CHUNK):
        part = slice(start, start + CHUNK)
        found, left[part] = near(points[part], leeway[part])
        found = np.asarray(found, dtype=np.float64)
        if found.shape != (len(left[part]), 4):
            raise ConstraintError(f"expected value and gradient ({len(left[part])}, 4), the field gave {found.shape}")
        answer[part] = found
    return answer, left


def newton_steps(found: np.ndarray) -> np.ndarray:
    """The shortest step (P, 3) to where the tangent of a field with value and gradient (P, 4) is zero.

    Not finite where the gradient vanishes.
    """
    value, gradient = found[:, :1], found[:, 1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        return -value * (gradient / np.sum(gradient**2, axis=1, keepdims=True))


def refine(
    mesh: Mesh,
    slopes: Slopes,
    farthest: float,
    tolerance: float = 0.0,
    rounds: int = 3,
    shared: np.ndarray | None = None,
    near: Near | None = None,
) -> Refinement:
    """Split edges at their midpoints and move the midpoints onto the zero set.

    Edges whose midpoint is at most `tolerance` away from the zero set stay whole; 0 splits all, and every face becomes
    four. Where the normals at the vertices are known, those at the ends of an edge foretell how far away it is, by the
    arc that turns from one to the other; only edges that are foretold to be far are looked at. `farthest` bounds the
    way of a midpoint. Vertices there before are not moved. Edges between two vertices that are `shared` (V,) with
    another mesh stay whole, for it must have the same. `near`: as in `project`.
    """
    near = near or as_near(slopes)
    edges = mesh.edges
    known = mesh.attributes.get(NORMALS)
    if tolerance > 0 and known is not None:
        looked = _foretold(mesh.vertices, known, edges) > BENT * tolerance
    else:
        looked = np.ones(len(edges), dtype=bool)
    if shared is not None:
        looked &= ~shared[edges].all(axis=1)
    middles = mesh.vertices[edges[looked]].mean(axis=1)
    found, leeway = evaluate_near(near, middles, np.full(len(middles), -1.0))
    away = np.linalg.norm(newton_steps(found), axis=1)
    far = ~(away <= tolerance) if tolerance > 0 else np.ones(len(middles), dtype=bool)
    chosen = looked.copy()
    chosen[looked] = far
    start = middles[far]
    way = approach(start, near, farthest, rounds, (found[far], leeway[far]))

    number = np.full(len(edges), -1)
    number[chosen] = len(mesh.vertices) + np.arange(len(start))
    faces = split_faces(mesh, number)
    flat = np.concatenate([mesh.vertices, start])
    looks = mesh.vertex_normals if known is None else known
    directions = np.concatenate([looks, looks[edges[chosen]].sum(axis=1)])
    old = np.zeros(len(mesh.vertices), dtype=bool)
    vertices, fine = _settle(
        flat, np.concatenate([mesh.vertices, way.places]), np.concatenate([old, way.fine]), faces, directions
    )
    fine = fine[len(mesh.vertices) :]
    left = int(np.sum(~fine))
    attributes = {
        name: np.concatenate([rows, rows[edges[chosen]].mean(axis=1)]) for name, rows in mesh.attributes.items()
    }
    if known is not None:
        attributes[NORMALS] = np.concatenate([known, _normals(way, vertices[len(mesh.vertices) :], fine, slopes)])
    evaluations = len(middles) + way.evaluations + (left if known is not None else 0)
    return Refinement(Mesh(vertices, faces, attributes), evaluations, len(fine) - left, left)


def _foretold(vertices: np.ndarray, normals: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """How far the middle of each edge (E, 2) is from an arc that turns from one normal to the other, (E,)."""
    found = np.empty(len(edges))
    for start in range(0, len(edges), CHUNK):
        a, b = edges[start : start + CHUNK].T
        turned = np.einsum("ed,ed->e", vertices[b] - vertices[a], normals[b] - normals[a])
        found[start : start + CHUNK] = np.abs(turned) / 8
    return found


def _settle(
    start: np.ndarray, target: np.ndarray, fine: np.ndarray, faces: np.ndarray, directions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (V, 3) at their targets where that is `fine` (V,) and turns no face against the surface's direction.

    The normal of a sliver says little, therefore faces are held against the directions (V, 3) of the vertices.
    """
    vertices, fine = np.where(fine[:, None], target, start), fine.copy()
    facing = align(start, faces, directions) > 0
    while True:  # taking a vertex back may turn another of its faces
        turned = facing & (align(vertices, faces, directions) <= 0)
        corners = np.unique(faces[turned])
        corners = corners[fine[corners]]
        if not len(corners):
            return vertices, fine
        vertices[corners], fine[corners] = start[corners], False


def split_faces(mesh: Mesh, number: np.ndarray) -> np.ndarray:
    """Faces after splitting the edges (E,) whose `number` of a new vertex is not -1.

    A face with one, two or three split edges becomes two, three or four; of the two ways for two the shorter diagonal
    is taken, so that no needles are left.
    """
    middle = _middles(mesh, number)  # (F, 3), of the side from corner i to i + 1
    parent = np.flatnonzero((middle >= 0).any(axis=1))
    faces, middle = mesh.faces[parent], middle[parent]
    split = middle >= 0
    many = split.sum(axis=1)
    # Turn each face so that a single split side comes first, and a single whole side last.
    turn = np.where(many == 1, np.argmax(split, axis=1), np.where(many == 2, (np.argmin(split, axis=1) + 1) % 3, 0))
    order = (turn[:, None] + np.arange(3)) % 3
    a, b, c = np.take_along_axis(faces, order, axis=1).T
    ab, bc, ca = np.take_along_axis(middle, order, axis=1).T

    ends = mesh.vertices
    half_ab, half_bc = (ends[a] + ends[b]) / 2, (ends[b] + ends[c]) / 2
    short = np.sum((half_ab - ends[c]) ** 2, axis=1) < np.sum((half_bc - ends[a]) ** 2, axis=1)
    pieces: list[tuple[np.ndarray, list[tuple[np.ndarray, ...]]]] = [
        (many == 1, [(a, ab, c), (ab, b, c)]),
        ((many == 2) & short, [(ab, b, bc), (ab, bc, c), (a, ab, c)]),
        ((many == 2) & ~short, [(ab, b, bc), (a, ab, bc), (a, bc, c)]),
        (many == 3, [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]),
    ]
    whole = np.ones(len(mesh.faces), dtype=bool)
    whole[parent] = False
    built = [np.stack([corner[mask] for corner in piece], axis=1) for mask, group in pieces for piece in group]
    origin = [parent[mask] for mask, group in pieces for _ in group]
    sequence = np.argsort(np.concatenate([np.flatnonzero(whole), *origin]), kind="stable")
    return np.concatenate([mesh.faces[whole], *built])[sequence]


def _middles(mesh: Mesh, number: np.ndarray) -> np.ndarray:
    """The `number` (E,) that the edge under each side of a face has, (F, 3); a portion of the faces after the other."""
    count = len(mesh.vertices)
    keys = mesh.edges[:, 0] * count + mesh.edges[:, 1]  # sorted
    found = np.empty(mesh.faces.shape, dtype=np.int64)
    for start in range(0, len(mesh.faces), CHUNK):
        faces = mesh.faces[start : start + CHUNK]
        ahead = np.roll(faces, -1, axis=1)
        sides = np.minimum(faces, ahead) * count + np.maximum(faces, ahead)
        found[start : start + CHUNK] = number[np.searchsorted(keys, sides)]
    return found
