"""Files, writing: `write_mesh` and `write_cloud` choose the format by the file's ending; written whole or not at all.

Coordinates are written as float64 and read back to the last bit (STL and GLB have only float32). Attributes go into
PLY, GLB, CSV, XYZ, TXT and NPZ; the attribute `colours` (red green blue in 0 to 1) becomes bytes in PLY, as viewers
expect.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cnf.errors import FileError
from cnf.files import as_path, write_atomically
from cnf.meshes.gltf import write_glb
from cnf.meshes.mesh import Mesh
from cnf.meshes.stl import HEAD, TRIANGLE
from cnf.shapes.clouds.cloud import PointCloud

AXES = ("x", "y", "z")
MESH_ENDINGS = (".ply", ".obj", ".stl", ".off", ".glb", ".npz")  # of the files that `write_mesh` writes
PLAIN_COLOURS = ("red", "green", "blue", "alpha")


def write_mesh(mesh: Mesh, path: object) -> Path:
    """Write a mesh by the ending of the name.

    PLY (binary) and NPZ have all attributes, GLB those of up to four columns, OBJ and OFF colours and normals, STL
    none.

    >>> vertices = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=float)
    >>> mesh = cnf.shapes.Mesh(vertices, np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cnf.shapes.write_mesh(mesh, f"{folder}/tetrahedron.glb").stat().st_size > 0
    True
    """
    writers: dict[str, Callable[[Path], object]] = {
        ".ply": lambda target: write_ply(target, mesh.vertices, mesh.attributes, mesh.faces),
        ".obj": lambda target: write_obj(target, mesh.vertices, mesh.attributes, mesh.faces),
        ".stl": lambda target: write_stl(target, mesh),
        ".off": lambda target: write_off(target, mesh),
        ".glb": lambda target: write_glb(target, mesh),
        ".npz": lambda target: write_npz(target, {**mesh.attributes, "points": mesh.vertices, "faces": mesh.faces}),
    }
    return write_as(path, writers)


def write_cloud(cloud: PointCloud, path: object) -> Path:
    """Write points, normals and attributes as PLY (binary), XYZ, TXT, CSV, NPZ or OBJ (no attributes but colours).

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cnf.shapes.write_cloud(cnf.shapes.sample_knot(100), f"{folder}/knot.csv").name
    'knot.csv'
    """
    everything = dict(cloud.attributes)
    if cloud.normals is not None:
        everything = {"normals": cloud.normals, **everything}
    writers: dict[str, Callable[[Path], object]] = {
        ".ply": lambda target: write_ply(target, cloud.points, everything, None),
        ".obj": lambda target: write_obj(target, cloud.points, everything, None),
        ".npz": lambda target: write_npz(target, {**everything, "points": cloud.points}),
        ".csv": lambda target: write_table(target, cloud.points, everything, ","),
        **dict.fromkeys([".xyz", ".txt"], lambda target: write_table(target, cloud.points, everything, " ")),
    }
    return write_as(path, writers)


def write_as(path: object, writers: dict[str, Callable[[Path], object]]) -> Path:
    """By the ending of the name, through a temporary file."""
    target = as_path(path)
    ending = target.suffix.lower()
    if ending not in writers:
        raise FileError(f"cannot write {target}: no writer for {ending!r}; expected {', '.join(writers)}")
    return write_atomically(target, writers[ending])


def name_columns(points: np.ndarray, attributes: dict[str, np.ndarray]) -> list[tuple[str, np.ndarray]]:
    """Every column with its name: x y z, nx ny nz, red green blue, name, or name_0 name_1 ... for several."""
    columns = [(AXES[i], points[:, i]) for i in range(points.shape[1])]
    for given, value in attributes.items():
        name = "_".join(re.split(r"[\s,;]+", given)) or "unnamed"
        if name == "normals" and value.shape == points.shape:
            names = ["n" + axis for axis in AXES[: value.shape[1]]]
        elif name == "colours" and value.shape[1] == 3:
            names = list(PLAIN_COLOURS[:3])
        else:
            names = [name] if value.shape[1] == 1 else [f"{name}_{i}" for i in range(value.shape[1])]
        columns += [(one, value[:, i]) for i, one in enumerate(names)]
    doubled = {name for name, _ in columns if sum(name == other for other, _ in columns) > 1}
    if doubled:
        raise FileError(f"cannot write two attributes of the same name {', '.join(sorted(doubled))}; rename one")
    return columns


def write_ply(target: Path, points: np.ndarray, attributes: dict[str, np.ndarray], faces: np.ndarray | None) -> None:
    """Binary, little endian; colours as bytes, everything else as double."""
    columns = name_columns(points, attributes)
    shares = {name for name, values in columns if name in PLAIN_COLOURS and _is_share(values)}
    table = PlyTable(tuple(name for name, _ in columns), frozenset(shares))
    rows = table.fill(values for _, values in columns)
    table.write(target, len(points), [rows], None if faces is None else len(faces), [] if faces is None else [faces])


@dataclass(frozen=True)
class PlyTable:
    """The columns of vertices in a PLY file; those in `shares`, from 0 to 1, become bytes."""

    names: tuple[str, ...]
    shares: frozenset[str]

    @property
    def layout(self) -> list[tuple[str, str]]:
        return [(name, "u1" if name in self.shares else "<f8") for name in self.names]

    def fill(self, columns: Iterable[np.ndarray]) -> np.ndarray:
        """Rows of the file, from a column (n,) for each name."""
        given = list(columns)
        rows = np.empty(len(given[0]), dtype=self.layout)
        for name, values in zip(self.names, given, strict=True):
            rows[name] = np.rint(values * 255) if name in self.shares else values
        return rows

    def write(
        self, target: Path, count: int, rows: Iterable[np.ndarray], faces: int | None, corners: Iterable[np.ndarray]
    ) -> None:
        """The file, from `count` rows and so many faces (n, 3), each in pieces of any size; None: points alone."""
        lines = ["ply", "format binary_little_endian 1.0", "comment written by cnf", f"element vertex {count}"]
        for name, kind in self.layout:
            if not name.isascii():
                raise FileError(f"PLY files name attributes in ASCII; rename {name!r}")
            lines.append(f"property {'uchar' if kind == 'u1' else 'double'} {name}")
        if faces is not None:
            lines += [f"element face {faces}", "property list uchar int vertex_indices"]
        with target.open("wb") as file:
            file.write("\n".join([*lines, "end_header", ""]).encode())
            for some in rows:
                some.tofile(file)
            for some in corners:
                triangles = np.empty(len(some), dtype=[("count", "u1"), ("corners", "<i4", 3)])
                triangles["count"], triangles["corners"] = 3, some
                triangles.tofile(file)


def _is_share(values: np.ndarray) -> bool:
    """True for what can be a colour: from 0 to 1."""
    return bool(np.isfinite(values).all() and (values >= 0).all() and (values <= 1).all())


def write_obj(target: Path, points: np.ndarray, attributes: dict[str, np.ndarray], faces: np.ndarray | None) -> None:
    """Text: v with colours if there are any, vn, f."""
    if points.shape[1] != 3:
        raise FileError("OBJ files hold points with x, y and z; write curves as CSV, XYZ, PLY or NPZ")
    normals, colours = attributes.get("normals"), attributes.get("colours")
    coloured = colours is not None and colours.shape[1] == 3
    vertices = np.concatenate([points, colours], axis=1) if coloured and colours is not None else points
    with target.open("w", encoding="ascii") as file:
        file.write("# written by cnf\n")
        np.savetxt(file, vertices, fmt="v " + " ".join(["%.17g"] * vertices.shape[1]))
        if normals is not None:
            np.savetxt(file, normals, fmt="vn %.17g %.17g %.17g")
        if faces is not None and normals is not None:
            np.savetxt(file, np.repeat(faces + 1, 2, axis=1), fmt="f %d//%d %d//%d %d//%d")
        elif faces is not None:
            np.savetxt(file, faces + 1, fmt="f %d %d %d")


def write_stl(target: Path, mesh: Mesh) -> None:
    """Binary."""
    rows = np.zeros(len(mesh.faces), dtype=TRIANGLE)
    rows["normal"], rows["corners"] = mesh.face_normals, mesh.vertices[mesh.faces]
    with target.open("wb") as file:
        file.write(b"written by cnf".ljust(HEAD - 4) + len(rows).to_bytes(4, "little"))
        rows.tofile(file)


def write_off(target: Path, mesh: Mesh) -> None:
    """Text: x y z, normals and colours if there are any, and the faces."""
    normals, colours = mesh.attributes.get("normals"), mesh.attributes.get("colours")
    columns, word, kinds = [mesh.vertices], "OFF", ["%.17g"] * 3
    if normals is not None and normals.shape[1] == 3:
        columns, word, kinds = [*columns, normals], f"N{word}", [*kinds, *["%.17g"] * 3]
    if colours is not None and colours.shape[1] == 3:
        shades = np.rint(np.clip(colours, 0, 1) * 255)
        columns, word = [*columns, shades, np.full((len(shades), 1), 255.0)], f"C{word}"
        kinds = [*kinds, *["%d"] * 4]
    with target.open("w", encoding="ascii") as file:
        file.write(f"{word}\n{len(mesh.vertices)} {len(mesh.faces)} 0\n")
        np.savetxt(file, np.concatenate(columns, axis=1), fmt=" ".join(kinds))
        np.savetxt(file, mesh.faces, fmt="3 %d %d %d")


def write_npz(target: Path, arrays: dict[str, np.ndarray]) -> None:
    """As `np.savez` does, but for any names: that would take an attribute called `file` for its own argument."""
    with zipfile.ZipFile(target, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


def write_table(target: Path, points: np.ndarray, attributes: dict[str, np.ndarray], delimiter: str) -> None:
    """Text, one row per point; the columns are named in the first line unless they speak for themselves."""
    columns = name_columns(points, attributes)
    plain = delimiter == " " and points.shape[1] == 3 and list(attributes) in ([], ["normals"])
    header = "" if plain else delimiter.join(name for name, _ in columns)
    rows = np.stack([values for _, values in columns], axis=1)
    with target.open("w", encoding="utf-8") as file:
        np.savetxt(file, rows, fmt="%.17g", delimiter=delimiter, header=header, comments="")
