"""What is written comes back to the last bit, in every format; and files of other programs are understood."""

from __future__ import annotations

import struct
import tracemalloc

import numpy as np
import pytest

from cnf.meshes.mesh import Mesh
from cnf.shapes.clouds.cloud import PointCloud
from cnf.shapes.files.reading import read_cloud, read_mesh
from cnf.shapes.files.writing import write_cloud, write_mesh
from tests.shapes.known_clouds import circle, cube, sphere, torus_mesh

MESHES, CLOUDS, TABLES = ("ply", "obj", "npz"), ("ply", "obj", "npz", "csv", "xyz", "txt"), ("csv", "xyz", "txt")


def cloud_with_everything() -> PointCloud:
    """Values that need all 17 digits, normals, colours of whole bytes, and attributes of one and three columns."""
    points, normals = sphere(57)
    random = np.random.default_rng(3)
    attributes = {
        "colours": random.integers(0, 256, (57, 3)) / 255,
        "intensity": random.normal(size=(57, 1)) * 1e-30,
        "flow": random.normal(size=(57, 3)),
    }
    return PointCloud(points / 3 + [5e5, 5e6, 1e-7], normals, attributes)


@pytest.mark.parametrize("ending", MESHES)
def test_meshes_come_back_exactly(tmp_path, ending):
    """Vertices, faces, normals and colours (whole bytes) of a torus, bit for bit."""
    mesh = torus_mesh(7, 5)
    colours = np.random.default_rng(0).integers(0, 256, (35, 3)) / 255
    mesh = Mesh(mesh.vertices / 3, mesh.faces, {"colours": colours, "normals": mesh.vertex_normals})
    back = read_mesh(write_mesh(mesh, tmp_path / f"mesh.{ending}"))
    np.testing.assert_array_equal(back.vertices, mesh.vertices)
    np.testing.assert_array_equal(back.faces, mesh.faces)
    np.testing.assert_array_equal(back.attributes["normals"], mesh.attributes["normals"])
    np.testing.assert_array_equal(back.attributes["colours"], colours)


def test_stl_keeps_the_surface_in_single_precision(tmp_path):
    """The same triangles in the same order, corners rounded to float32, vertices joined again: genus 1."""
    mesh = torus_mesh(9, 6)
    back = read_mesh(write_mesh(mesh, tmp_path / "mesh.stl"))
    np.testing.assert_array_equal(
        back.vertices[back.faces], mesh.vertices[mesh.faces].astype(np.float32).astype(np.float64)
    )
    assert back.genus == 1


@pytest.mark.parametrize("ending", CLOUDS)
def test_points_and_normals_come_back_exactly(tmp_path, ending):
    cloud = cloud_with_everything()
    back = read_cloud(write_cloud(cloud, tmp_path / f"cloud.{ending}"))
    np.testing.assert_array_equal(back.points, cloud.points)
    np.testing.assert_array_equal(back.normals, cloud.normals)
    np.testing.assert_array_equal(back.attributes["colours"], cloud.attributes["colours"])
    if ending != "obj":
        assert sorted(back.attributes) == sorted(cloud.attributes)
        for name, value in cloud.attributes.items():
            np.testing.assert_array_equal(back.attributes[name], value)


@pytest.mark.parametrize("ending", ["ply", "npz", "csv", "xyz"])
def test_curves_come_back_exactly(tmp_path, ending):
    """D = 2, with and without normals."""
    points, normals = circle(20)
    back = read_cloud(write_cloud(PointCloud(points, normals), tmp_path / f"curve.{ending}"))
    np.testing.assert_array_equal(back.points, points)
    np.testing.assert_array_equal(back.normals, normals)
    bare = read_cloud(write_cloud(PointCloud(points), tmp_path / f"bare.{ending}"))
    np.testing.assert_array_equal(bare.points, points)
    assert bare.normals is None


PLY_PROPERTIES = "property float x\nproperty float y\nproperty float z\nproperty uchar red\nproperty uchar green\nproperty uchar blue\nproperty short label\n"  # noqa: E501
PLY_FACES = "element face 2\nproperty list ushort int vertex_indices\nproperty uchar tag\n"


@pytest.mark.parametrize("order", ["ascii", "binary_little_endian", "binary_big_endian"])
@pytest.mark.parametrize("breaks", ["\n", "\r\n"])
def test_ply_of_other_programs(tmp_path, order, breaks):
    """A quadrilateral and a triangle over five points with colours and labels, packed by `struct`, in all encodings.

    The quadrilateral 0 1 2 3 becomes 0 1 2 and 0 2 3. Colours are bytes: 255 is 1. A comment in Latin-1 harms nobody.
    """
    rows = [
        (0.5, 0, 0, 255, 0, 51, -7),
        (1, 0, 0, 1, 2, 3, 4),
        (1, 1, 0, 0, 0, 0, 0),
        (0, 1, 0, 9, 9, 9, 9),
        (2, 2, 2, 0, 0, 0, 1),
    ]
    faces = [((0, 1, 2, 3), 8), ((2, 3, 4), 9)]
    header = f"ply\nformat {order} 1.0\ncomment caf\xe9\nelement vertex 5\n{PLY_PROPERTIES}{PLY_FACES}end_header\n"
    if order == "ascii":
        body = "".join(" ".join(map(str, row)) + "\n" for row in rows)
        body += "".join(f"{len(face)} {' '.join(map(str, face))} {tag}\n" for face, tag in faces)
        content = (header + body).replace("\n", breaks).encode("latin-1")
    else:
        mark = "<" if "little" in order else ">"
        content = header.replace("\n", breaks).encode("latin-1") + b"".join(
            struct.pack(mark + "fffBBBh", *r) for r in rows
        )
        content += b"".join(struct.pack(f"{mark}H{len(f)}iB", len(f), *f, tag) for f, tag in faces)
    (tmp_path / "other.ply").write_bytes(content)
    mesh = read_mesh(tmp_path / "other.ply")
    np.testing.assert_array_equal(mesh.vertices, [row[:3] for row in rows])
    np.testing.assert_array_equal(mesh.faces, [[0, 1, 2], [0, 2, 3], [2, 3, 4]])
    np.testing.assert_array_equal(mesh.attributes["colours"], [[c / 255 for c in row[3:6]] for row in rows])
    np.testing.assert_array_equal(mesh.attributes["label"][:, 0], [row[6] for row in rows])


def test_obj_with_texture_seams_quads_and_negative_numbers(tmp_path):
    """A cube of quads whose corners differ in texture and normal, one face counted backwards: closed, volume 1."""
    mesh = cube()
    lines = ["# made by hand", "mtllib none.mtl", *("v " + " ".join(map(str, v)) for v in mesh.vertices)]
    lines += ["vt 0 0", "vt 1 0", "vt 1 1", "vn 0 0 1", "o part", "usemtl stone", "s off"]
    lines += ["f 1/1/1 2/2/1 4/3/1 3/1/1", "f 5//1 7//1 8//1 6//1", "f 1/3 5/2 6/1 2/2", "f 3 4 8 7", "f 1 3 7 \\", "5"]
    lines += ["f -7 -3 -1 -5"]
    (tmp_path / "cube.obj").write_text("\n".join(lines))
    back = read_mesh(tmp_path / "cube.obj")
    assert (len(back.vertices), len(back.faces), back.is_watertight) == (8, 12, True)
    assert back.volume == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize(
    ("name", "text", "attributes"),
    [
        ("a.xyz", "1 2 3\n4 5 6\n", {}),
        ("a.csv", "x,y,z\n1,2,3\n4,5,6\n", {}),
        ("a.csv", "\ufeffX;Y;Z;Intensity\r\n1;2;3;7\r\n4;5;6;8\r\n", {"Intensity": [[7], [8]]}),
        ("a.txt", "# a scan\n// x y z heat\n\n1\t2\t3\t7\n4 5 6 8 # last\n", {"heat": [[7], [8]]}),
        ("a.pts", "2\n1 2 3\n4 5 6\n", {}),
        ("a.txt", "1 2 3 255 0 51\n4 5 6 0 0 0\n", {"colours": [[1, 0, 0.2], [0, 0, 0]]}),
        (
            "a.csv",
            "id, x, y, z, r, g, b\n5, 1, 2, 3, 255, 0, 51\n6, 4, 5, 6, 0, 0, 0\n",
            {"id": [[5], [6]], "colours": [[1, 0, 0.2], [0, 0, 0]]},
        ),
    ],
)
def test_tables_of_other_programs(tmp_path, name, text, attributes):
    """(1, 2, 3) and (4, 5, 6), whatever the header, the delimiter and the line ends; named columns are attributes."""
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    cloud = read_cloud(tmp_path / name)
    np.testing.assert_array_equal(cloud.points, [[1, 2, 3], [4, 5, 6]])
    assert cloud.normals is None and sorted(cloud.attributes) == sorted(attributes)
    for key, value in attributes.items():
        np.testing.assert_array_equal(cloud.attributes[key], value)


def test_six_columns_are_points_and_normals(tmp_path):
    (tmp_path / "a.xyz").write_text("1 2 3 0 0 1\n4 5 6 0 -1 0\n")
    np.testing.assert_array_equal(read_cloud(tmp_path / "a.xyz").normals, [[0, 0, 1], [0, -1, 0]])


def test_a_mesh_where_points_are_expected_is_sampled(tmp_path):
    """500 points on the faces of a cube whose faces look inward: on the surface, normals outward, and both are said."""
    mesh = cube()
    colours = mesh.vertices.copy()  # linear in the position, so interpolation must return the position
    path = write_mesh(Mesh(mesh.vertices, mesh.faces[:, ::-1], {"place": colours}), tmp_path / "cube.ply")
    cloud = read_cloud(path, count=500, seed=4)
    assert len(cloud) == 500 and cloud.normals is not None
    assert (np.abs(np.abs(cloud.points - 0.5).max(axis=1) - 0.5) < 1e-12).all()
    assert ((cloud.points - 0.5) * cloud.normals).sum(axis=1).min() > 0
    np.testing.assert_allclose(cloud.attributes["place"], cloud.points, atol=1e-14)
    assert "500 points were sampled" in cloud.notes[0] and "inward" in cloud.notes[1]


def test_a_large_file_takes_little_memory(tmp_path):
    """300,000 points with normals in float32 (7.2 MB): the answer has 14.4 MB, reading may not need thrice that."""
    rows = np.random.default_rng(0).normal(size=(300_000, 6)).astype("<f4")
    names = "".join(f"property float {name}\n" for name in ["x", "y", "z", "nx", "ny", "nz"])
    head = f"ply\nformat binary_little_endian 1.0\nelement vertex {len(rows)}\n{names}end_header\n"
    (tmp_path / "large.ply").write_bytes(head.encode() + rows.tobytes())
    tracemalloc.start()
    cloud = read_cloud(tmp_path / "large.ply")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(cloud.points, rows[:, :3])
    assert peak < 3 * 14.4e6
