"""Files, reading: `read_cloud` and `read_mesh` choose the decoder by the file's ending.

In comes a path, out goes a `PointCloud` or a `Mesh`, and a `FileError` of one line for whatever is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from cnf.errors import ConstraintError, FileError
from cnf.meshes.decoded import Decoded, check_finite, decode_file
from cnf.meshes.gltf import read_gltf
from cnf.meshes.mesh import Mesh
from cnf.meshes.obj import read_obj
from cnf.meshes.off import read_off
from cnf.meshes.ply import read_ply
from cnf.meshes.stl import read_stl
from cnf.reading.sources import check_source
from cnf.shapes.clouds.cloud import PointCloud
from cnf.shapes.files.arrays import read_npy, read_npz
from cnf.shapes.files.pcd import read_pcd
from cnf.shapes.files.scans import read_e57, read_las
from cnf.shapes.files.tables import read_table

READERS: dict[str, Callable[[Path], Decoded]] = {
    ".ply": read_ply,
    ".obj": read_obj,
    ".stl": read_stl,
    ".off": read_off,
    **dict.fromkeys([".glb", ".gltf"], read_gltf),
    ".pcd": read_pcd,
    **dict.fromkeys([".las", ".laz"], read_las),
    ".e57": read_e57,
    ".npz": read_npz,
    ".npy": read_npy,
    **dict.fromkeys([".xyz", ".txt", ".csv", ".pts", ".asc"], read_table),
}
SAMPLED = 10_000  # points taken from a mesh


def read_cloud(path: object, count: int = SAMPLED, seed: int = 0) -> PointCloud:
    """Read points from a file of any kind in `READERS`: PLY, OBJ, XYZ, CSV, NPZ, PCD, LAS, E57, STL, GLB and others.

    A file with faces is a mesh: `count` points are sampled from it, with normals and attributes, and a note says so.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = cnf.shapes.write_cloud(cnf.shapes.sample_knot(100), f"{folder}/knot.ply")
    ...     cloud = cnf.shapes.read_cloud(path)
    >>> cloud.points.shape[1], cloud.normals is not None
    (3, True)
    """
    source, decoded = decode(path)
    if decoded.faces is None:
        return PointCloud(decoded.points, decoded.normals, decoded.attributes, decoded.notes)
    mesh = Mesh(decoded.points, decoded.faces, decoded.attributes)
    try:
        return sample_cloud(mesh, source.name, count, seed, decoded.notes)
    except ConstraintError as error:
        raise ConstraintError(f"{source}: {error}") from None


def sample_cloud(given: Mesh, name: str, count: int, seed: int, notes: tuple[str, ...] = ()) -> PointCloud:
    """Points drawn from a mesh, with its normals and attributes; notes say so."""
    mesh = given.face_outward()
    chosen, weights = mesh.draw(count, seed)
    attributes = {key: mesh.interpolate(value, chosen, weights) for key, value in mesh.attributes.items()}
    note = f"{name} is a mesh of {len(mesh.faces)} faces: {count} points were sampled from it (seed {seed})"
    turned = () if mesh is given else ("its faces look inward; the normals were turned outward",)
    points = mesh.interpolate(mesh.vertices, chosen, weights)
    return PointCloud(points, mesh.normals_at(chosen, weights), attributes, (*notes, note, *turned))


def read_mesh(path: object) -> Mesh:
    """Read a mesh from a PLY, OBJ, STL, OFF, GLB, glTF or NPZ file; normals of vertices are the attribute `normals`.

    >>> vertices = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=float)
    >>> mesh = cnf.shapes.Mesh(vertices, np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = cnf.shapes.read_mesh(cnf.shapes.write_mesh(mesh, f"{folder}/tetrahedron.ply"))
    >>> again.faces.shape
    (4, 3)
    """
    source, decoded = decode(path)
    if decoded.faces is None:
        raise FileError(f"{source} has {len(decoded.points)} points but no faces; read it with read_cloud")
    if decoded.points.shape[1] != 3:
        raise FileError(f"{source}: a mesh needs points with x, y and z")
    normals = {} if decoded.normals is None else {"normals": decoded.normals}
    return Mesh(decoded.points, decoded.faces, {**decoded.attributes, **normals})


def decode(path: object) -> tuple[Path, Decoded]:
    """The file's content, finite and not empty."""
    source = check_source(path)
    decoded = decode_file(source, READERS)
    if not len(decoded.points):
        raise FileError(f"{source} holds no points")
    with np.errstate(over="ignore", invalid="ignore"):
        check_finite(decoded.points, source)
    if decoded.faces is not None and decoded.points.shape[1] != 3:
        raise FileError(f"{source}: faces need points with x, y and z")
    return source, decoded
