"""Meshes with creases, to be shown: a vertex on a crease looks in one direction for each side.

In comes a mesh of which it is known what vertices are on creases; out goes one with such a vertex once for every face
there, and the normal of the faces that face alike. It looks the same and shades right, and is not watertight.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix

from cnf.meshes.mesh import Mesh, unit_rows

SHARP = "sharp"  # the attribute: 1 for a vertex on an edge, 2 for one on a corner, 0 elsewhere
ALIKE = 15.0  # degrees: faces around a vertex that turn by less are on one side of a crease


def part_at_creases(mesh: Mesh) -> Mesh:
    """The mesh, its vertices on creases once for each face; unchanged where none is marked as SHARP."""
    kind = mesh.attributes.get(SHARP)
    if kind is None or not kind.any():
        return mesh
    face, corner = np.nonzero(kind[mesh.faces, 0] > 0)
    vertex = mesh.faces[face, corner]
    normals = _look(mesh, face, vertex)
    faces = mesh.faces.copy()
    faces[face, corner] = len(mesh.vertices) + np.arange(len(face))
    attributes = {name: np.concatenate([rows, rows[vertex]]) for name, rows in mesh.attributes.items()}
    own = mesh.attributes.get("normals", mesh.vertex_normals)
    attributes["normals"] = np.concatenate([own, normals])
    return Mesh(np.concatenate([mesh.vertices, mesh.vertices[vertex]]), faces, attributes)


def _look(mesh: Mesh, face: np.ndarray, vertex: np.ndarray) -> np.ndarray:
    """For faces (n,) at vertices (n,) the mean normal (n, 3) of all faces given at that vertex that face alike."""
    normals, areas = mesh.face_normals[face], mesh.areas[face]
    rows = np.arange(len(face))
    table = coo_matrix((np.ones(len(face)), (rows, vertex)), shape=(len(face), len(mesh.vertices))).tocsr()
    one, other = (table @ table.T).nonzero()
    alike = np.einsum("nd,nd->n", normals[one], normals[other]) > np.cos(np.radians(ALIKE))
    total = np.zeros((len(face), 3))
    np.add.at(total, one[alike], areas[other[alike], None] * normals[other[alike]])
    return np.asarray(unit_rows(total))
