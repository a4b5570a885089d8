"""Meshes as objects of other packages, and such objects as meshes: trimesh, Open3D, PyVista.

In comes a `Mesh`, out goes the other package's, or the other way round as `Decoded`. Packages are imported only to make
their objects; objects that come in are known by what they have, so nothing is imported for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from cnf.errors import CnfError, MissingExtraError
from cnf.meshes.decoded import Decoded, triangulate

if TYPE_CHECKING:
    from cnf.meshes.mesh import Mesh

NORMALS, COLOURS = "normals", "colours"
TEXTURES = ("TCoords", "Texture Coordinates")  # of PyVista, say nothing about the surface


def to_trimesh(mesh: Mesh) -> Any:
    """A `trimesh.Trimesh` with the same vertices in the same order."""
    trimesh = find_package("trimesh")
    normals, colours, others = split_attributes(mesh)
    return trimesh.Trimesh(
        vertices=mesh.vertices.copy(),
        faces=mesh.faces.copy(),
        vertex_normals=normals,
        vertex_colors=None if colours is None else as_bytes(colours),
        vertex_attributes=others,
        process=False,  # which would join and reorder vertices
    )


def to_open3d(mesh: Mesh, tensor: bool = False) -> Any:
    """An `open3d.geometry.TriangleMesh`, which holds normals and colours; that of `open3d.t` holds everything."""
    open3d = find_package("open3d")
    normals, colours, others = split_attributes(mesh)
    if not tensor:
        vectors = open3d.utility
        made = open3d.geometry.TriangleMesh()
        made.vertices = vectors.Vector3dVector(mesh.vertices.copy())
        made.triangles = vectors.Vector3iVector(mesh.faces.astype(np.int32))
        if normals is not None:
            made.vertex_normals = vectors.Vector3dVector(normals)
        if colours is not None:
            made.vertex_colors = vectors.Vector3dVector(colours)
        return made
    made = open3d.t.geometry.TriangleMesh()
    made.vertex.positions = open3d.core.Tensor(mesh.vertices.copy())
    made.triangle.indices = open3d.core.Tensor(mesh.faces.copy())
    named = {"normals": normals, "colors": colours, **others}
    for name, values in named.items():
        if values is not None:
            made.vertex[name] = open3d.core.Tensor(values)
    return made


def to_pyvista(mesh: Mesh) -> Any:
    """A `pyvista.PolyData`; normals are its `Normals`, colours of bytes its `colours`."""
    pyvista = find_package("pyvista")
    normals, colours, others = split_attributes(mesh)
    corners = np.concatenate([np.full((len(mesh.faces), 1), 3), mesh.faces], axis=1)
    made = pyvista.PolyData(mesh.vertices.copy(), corners.ravel())
    if normals is not None:
        made.point_data["Normals"] = normals
    if colours is not None:
        made.point_data[COLOURS] = as_bytes(colours)
    for name, values in others.items():
        made.point_data[name] = values[:, 0] if values.shape[1] == 1 else values
    return made


def find_package(name: str) -> Any:
    """A package that is not ours to ask for, or how to get it."""
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtraError(f"a mesh as an object of {name} needs that package: pip install {name}") from None


def split_attributes(mesh: Mesh) -> tuple[np.ndarray | None, np.ndarray | None, dict[str, np.ndarray]]:
    """Normals (V, 3), colours (V, 3) and all others."""
    others = {name: np.array(values) for name, values in mesh.attributes.items()}  # writable, as Open3D asks for
    normals, colours = (
        others.pop(name) if name in others and others[name].shape[1] == 3 else None for name in (NORMALS, COLOURS)
    )
    return normals, colours, others


def as_bytes(shares: np.ndarray) -> np.ndarray:
    """0 to 1 as 0 to 255."""
    return np.rint(np.clip(shares, 0, 1) * 255).astype(np.uint8)


# ---- objects that come in


def decode_object(given: object) -> Decoded | None:
    """What an object of another package holds, or None if it is none that is known here."""
    for known, decode in (
        (("point_data", "points", "n_points"), decode_pyvista),
        (("point", "to_legacy"), decode_tensors),
        (("vertex", "triangle", "to_legacy"), decode_tensors),
        (("vertices", "faces", "vertex_attributes"), decode_trimesh),
        (("vertices", "triangles", "vertex_colors"), decode_open3d_mesh),
        (("points", "normals", "colors", "has_normals"), decode_open3d_cloud),
        (("vertices", "colors", "bounds"), decode_trimesh_cloud),
    ):
        if all(hasattr(given, name) for name in known):
            try:
                return decode(given)
            except (AttributeError, TypeError, ValueError, LookupError) as error:
                raise CnfError(f"{type(given).__name__} cannot be read as points ({error})") from None
    return None


def decode_trimesh(given: Any) -> Decoded:
    """`trimesh.Trimesh`."""
    attributes = numeric(given.vertex_attributes.items(), len(given.vertices))
    visual = getattr(given, "visual", None)
    if getattr(visual, "kind", None) == "vertex":
        attributes[COLOURS] = as_shares(visual.vertex_colors)  # type: ignore[union-attr]
    return make(given.vertices, None, given.faces, attributes)


def decode_trimesh_cloud(given: Any) -> Decoded:
    """`trimesh.PointCloud`."""
    return make(given.vertices, None, None, {COLOURS: as_shares(given.colors)} if filled(given.colors) else {})


def decode_open3d_cloud(given: Any) -> Decoded:
    """`open3d.geometry.PointCloud`."""
    normals = given.normals if filled(given.normals) else None
    return make(given.points, normals, None, {COLOURS: as_shares(given.colors)} if filled(given.colors) else {})


def decode_open3d_mesh(given: Any) -> Decoded:
    """`open3d.geometry.TriangleMesh`."""
    colours = {COLOURS: as_shares(given.vertex_colors)} if filled(given.vertex_colors) else {}
    return make(given.vertices, None, given.triangles, colours)


def decode_tensors(given: Any) -> Decoded:
    """`open3d.t.geometry.PointCloud` and `TriangleMesh`."""
    meshed = hasattr(given, "triangle")
    columns = {name: values.cpu().numpy() for name, values in (given.vertex if meshed else given.point).items()}
    points, normals = columns.pop("positions"), columns.pop("normals", None)
    colours = columns.pop("colors", None)
    attributes = numeric(columns.items(), len(points))
    if colours is not None:
        attributes[COLOURS] = as_shares(colours)
    return make(points, normals, given.triangle["indices"].cpu().numpy() if meshed else None, attributes)


def decode_pyvista(given: Any) -> Decoded:
    """`pyvista.PolyData`; its polygons are split into triangles."""
    named = ((str(name), np.asarray(values)) for name, values in given.point_data.items())
    columns = {name: values for name, values in named if name not in TEXTURES}
    shape = np.shape(given.points)
    found = next((name for name in ("Normals", "normals") if name in columns and columns[name].shape == shape), None)
    normals = columns.pop(found) if found else None
    attributes = numeric(columns.items(), given.n_points)
    for name in (COLOURS, "colors", "RGB", "rgb"):
        if name in attributes and columns[name].ndim == 2 and columns[name].shape[1] in (3, 4):
            del attributes[name]
            attributes[COLOURS] = as_shares(columns[name])
            break
    faces = getattr(given, "faces", None)
    listed = np.asarray([] if faces is None else faces, dtype=np.int64)
    return make(given.points, normals, split_polygons(listed) if listed.size else None, attributes)


def split_polygons(listed: np.ndarray) -> np.ndarray:
    """Triangles (F, 3) of polygons as VTK lists them: how many corners, the corners, and so on."""
    if len(listed) % 4 == 0 and (listed[::4] == 3).all():
        return listed.reshape(-1, 4)[:, 1:]
    counts, place = [], 0
    while place < len(listed):
        counts.append(int(listed[place]))
        place += 1 + max(counts[-1], 0)
    sizes = np.array(counts)
    heads = np.cumsum(sizes + 1) - sizes - 1
    return triangulate(np.delete(listed, heads), sizes)


def make(points: Any, normals: Any, faces: Any, attributes: dict[str, np.ndarray]) -> Decoded:
    """As arrays of ours."""
    triangles = None if faces is None or not len(faces) else np.asarray(faces, dtype=np.int64)
    place = np.array(points, dtype=np.float64)
    return Decoded(place, None if normals is None else np.array(normals, dtype=np.float64), triangles, attributes)


def filled(values: Any) -> bool:
    return values is not None and len(values) > 0


def as_shares(colours: Any) -> np.ndarray:
    """Red, green and blue of 0 to 1, from bytes or shares."""
    values = np.asarray(colours)
    return values[:, :3].astype(np.float64) / (255 if values.dtype.kind in "iu" else 1)


def numeric(columns: Iterable[tuple[Any, Any]], rows: int) -> dict[str, np.ndarray]:
    """Those that are numbers, a row for each point."""
    found = ((str(name), np.asarray(values)) for name, values in columns)
    return {
        name: values.astype(np.float64)
        for name, values in found
        if values.dtype.kind in "biuf" and values.ndim in (1, 2) and len(values) == rows
    }
