"""Shapes, measuring: how far a reconstructed mesh is from the true one, and from the points it was made of.

In come a mesh, the true mesh, and the oriented points given to the method; out go `Measures`: distances in the units of
the meshes, of samples of either surface from the triangles of the other, so there is no floor from samples that do not
meet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cnf.errors import ConstraintError
from cnf.meshes.distances import ClosestPoints
from cnf.meshes.mesh import Mesh, unit_rows

# Of places (P, 3) the distances (P,) from a surface that is known, and its unit normals (P, 3) where it is closest.
Known = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
FINE, COARSE = 0.002, 0.01  # thresholds of the F-scores, for shapes of size 2


@dataclass(frozen=True)
class Measures:
    """A mesh against the truth and against its inputs; distances are to triangles, never to samples."""

    chamfer: float  # mean of the mean distances mesh -> truth and truth -> mesh
    hausdorff: float  # the larger of the largest distances, of the samples
    largest: float  # distance of a vertex or sample of the mesh from the truth: sheets that should not be there
    normal_consistency: float  # mean |cos| between the face normals at a sample and at its closest point
    f_fine: float  # F-score at 0.002
    f_coarse: float  # F-score at 0.01
    input_mean: float  # distance of the input points from the mesh
    input_max: float
    input_angle_mean: float  # degrees between an input's normal and the face at its closest point
    input_angle_max: float
    watertight: bool
    components: int
    euler: int
    vertices: int
    faces: int


def compare(
    mesh: Mesh,
    truth: Mesh,
    points: np.ndarray,
    normals: np.ndarray | None = None,
    *,
    samples: int = 100_000,
    seed: int = 1,
    known: Known | None = None,
) -> Measures:
    """Measure `mesh` against `truth`, and against the input `points` (P, 3) with their `normals` (P, 3).

    `seed` draws the samples; take another than the one that drew the input points. Without normals the two angles are
    NaN. `known`: the true surface itself, if `truth` stands for it with facets: from the middle of a ball all of them
    are equally far, and to find the closest takes long.
    """
    if samples < 1:
        raise ConstraintError(f"measuring needs at least one sample, got samples={samples}")
    found, known = ClosestPoints(mesh), known or know_mesh(truth)
    true_points, true_faces = sample_faces(truth, samples, seed)
    mesh_points, mesh_faces = sample_faces(mesh, samples, seed + 1)
    there, true_normals = known(mesh_points)  # mesh -> truth
    back = found.find(true_points)  # truth -> mesh
    corners = known(mesh.vertices[mesh.used])[0]  # a spike that is too thin for a sample has its vertex
    cosines = (
        _cosines(mesh.face_normals[mesh_faces], true_normals),
        _cosines(truth.face_normals[true_faces], mesh.face_normals[back.faces]),
    )
    inputs = found.find(points)
    angles = (
        np.array([np.nan])
        if normals is None
        else _angles(unit_rows(np.asarray(normals, float)), mesh.face_normals[inputs.faces])
    )
    return Measures(
        chamfer=float(there.mean() + back.distances.mean()) / 2,
        hausdorff=float(max(there.max(), back.distances.max())),
        largest=float(max(there.max(), corners.max())),
        normal_consistency=float(np.nanmean(cosines[0]) + np.nanmean(cosines[1])) / 2,
        f_fine=f_score(there, back.distances, FINE),
        f_coarse=f_score(there, back.distances, COARSE),
        input_mean=float(inputs.distances.mean()),
        input_max=float(inputs.distances.max()),
        input_angle_mean=float(np.nanmean(angles)) if np.isfinite(angles).any() else float("nan"),
        input_angle_max=float(np.nanmax(angles)) if np.isfinite(angles).any() else float("nan"),
        watertight=mesh.is_watertight,
        components=mesh.components,
        euler=mesh.euler,
        vertices=int(mesh.used.sum()),
        faces=len(mesh.faces),
    )


def know_mesh(truth: Mesh) -> Known:
    """A mesh as the surface that is known."""
    closest = ClosestPoints(truth)

    def ask(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = closest.find(places)
        return found.distances, truth.face_normals[found.faces]

    return ask


def f_score(there: np.ndarray, back: np.ndarray, threshold: float) -> float:
    """Harmonic mean of the shares of `there` (precision) and `back` (recall) that are at most `threshold`."""
    precision, recall = float((there <= threshold).mean()), float((back <= threshold).mean())
    return 0.0 if precision + recall == 0 else 2 * precision * recall / (precision + recall)


def sample_faces(mesh: Mesh, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Independent points (P, 3) uniform over the area, and the faces (P,) they lie in."""
    points, faces, _ = _draw(mesh, count, seed)
    return points, faces


def sample_oriented(mesh: Mesh, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Independent points (P, 3) uniform over the area, with unit normals (P, 3) interpolated from the vertices'.

    Independent draws leave holes and near pairs, as scans and the usual benchmarks do; `Mesh.sample` is evener.
    """
    points, faces, weights = _draw(mesh, count, seed)
    mixed = np.einsum("pk,pkd->pd", weights, mesh.vertex_normals[mesh.faces[faces]])
    weak = np.linalg.norm(mixed, axis=1) < 1e-6  # they cancel: a fold seen from both sides
    mixed[weak] = mesh.face_normals[faces[weak]]
    return points, unit_rows(mixed)


def _draw(mesh: Mesh, count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if not mesh.area > 0:
        raise ConstraintError(f"{mesh!r} has no area to sample")
    random = np.random.default_rng(seed)
    reached = np.cumsum(mesh.areas)
    faces = np.searchsorted(reached, random.random(count) * reached[-1], side="right")
    faces = np.minimum(faces, len(mesh.faces) - 1)
    root, along = np.sqrt(random.random((count, 1))), random.random((count, 1))
    weights = np.concatenate([1 - root, root * (1 - along), root * along], axis=1)  # (P, 3), uniform in a triangle
    return np.einsum("pk,pkd->pd", weights, mesh.vertices[mesh.faces[faces]]), faces, weights


def _cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """|cos| of the angles between unit rows; NaN for faces without area, which have no normal."""
    known = first.any(axis=1) & second.any(axis=1)
    return np.where(known, np.abs((first * second).sum(axis=1)), np.nan)


def _angles(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Angles (P,) between unit rows in degrees, precise for small ones too; NaN where one has no direction."""
    known = first.any(axis=1) & second.any(axis=1)
    apart = np.arctan2(np.linalg.norm(first - second, axis=1), np.linalg.norm(first + second, axis=1))
    return np.where(known, np.degrees(2 * apart), np.nan)
