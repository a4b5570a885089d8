"""What a field is at the points it was made from, and at the vertices of a mesh: errors and attributes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cnf.meshes.mesh import Mesh, unit_rows
from cnf.shapes.clouds.preparation import Prepared
from cnf.shapes.reconstruction.refinement import NORMALS
from cnf.shapes.reconstruction.surface import Surface, local_mean

if TYPE_CHECKING:
    from cnf.shapes.reconstruction.parts import PartedSurface


@dataclass(frozen=True, eq=False)
class Errors:
    """Worst ones at the points: |d|, |grad d - n|, and the angle in degrees; normals where they are conditions."""

    value: float = 0.0
    normal: float = 0.0
    angle: float = 0.0

    def worse(self, other: Errors) -> Errors:
        """The worst of both; NaN if either is."""
        pairs = ((self.value, other.value), (self.normal, other.normal), (self.angle, other.angle))
        return Errors(*(float(np.max(pair)) for pair in pairs))


def measure_at_points(surface: Surface, points: np.ndarray, normals: np.ndarray, trusted: np.ndarray) -> Errors:
    """By evaluating the field anew at points (P, 3); normals are measured where they are conditions, `trusted` (P,)."""
    found = surface.slopes(points)
    gradients, wanted = found[trusted, 1:], normals[trusted]
    lengths = np.linalg.norm(gradients, axis=1)
    cosine = np.einsum("pd,pd->p", gradients, wanted) / np.maximum(lengths, 1e-300)
    sine = np.linalg.norm(gradients - cosine[:, None] * lengths[:, None] * wanted, axis=1)
    angle = np.degrees(np.arctan2(sine, cosine * lengths))
    off = np.linalg.norm(gradients - wanted, axis=1)
    return Errors(float(np.abs(found[:, 0]).max(initial=0)), float(off.max(initial=0)), float(angle.max(initial=0)))


def complete_attributes(surface: Surface | PartedSurface, cloud: Prepared, mesh: Mesh) -> dict[str, np.ndarray]:
    """Unit normals of the field at the vertices, and the attributes there; what the mesh has is taken."""
    normals = mesh.attributes.get(NORMALS)
    if normals is None:
        normals = unit_rows(surface.slopes(mesh.vertices)[:, 1:])
    if all(name in mesh.attributes for name in cloud.attributes):
        return {**{name: mesh.attributes[name] for name in cloud.attributes}, NORMALS: normals}
    return {**attributes_at(surface, cloud, mesh.vertices), NORMALS: normals}


def attributes_at(
    surface: Surface | PartedSurface, cloud: Prepared, vertices: np.ndarray, ranges: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """The attributes at vertices (V, 3), within the range of those given, or within `ranges` (2, k) of all of them."""
    if not cloud.attributes or not len(vertices):
        return {name: np.empty((len(vertices), values.shape[1])) for name, values in cloud.attributes.items()}
    tree, rows, start, result = surface.spacing.tree, surface.guide.rows, 0, {}
    beyond = surface.attributes(vertices)
    for name, values in cloud.attributes.items():
        stop = start + values.shape[1]
        found = local_mean(tree, values if rows is None else values[rows], vertices) + beyond[:, start:stop]
        low, high = (values.min(axis=0), values.max(axis=0)) if ranges is None else ranges[:, start:stop]
        result[name] = np.clip(found, low, high)
        start = stop
    return result
