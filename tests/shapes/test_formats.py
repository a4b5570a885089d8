"""Files of other programs: OFF, glTF, PCD, LAS and triangle strips, written by hand, by trimesh or by laspy."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from cnf.errors import FileError, MissingExtraError
from cnf.meshes.gltf import to_display, to_linear
from cnf.meshes.mesh import Mesh
from cnf.meshes.strips import cut_strips
from cnf.shapes.files.reading import read_cloud, read_mesh
from cnf.shapes.files.writing import write_mesh
from tests.shapes.known_clouds import cube, sphere, torus_mesh
from tests.shapes.pcd_files import pcd

trimesh = pytest.importorskip("trimesh")


# ---- triangle strips


def test_strips_are_cut_into_triangles_that_look_to_one_side():
    """0 1 2 3 is (0, 1, 2) and (2, 1, 3); -1 and a new list begin anew, also the turning; repeats make no face."""
    faces = cut_strips(np.array([0, 1, 2, 3, -1, 4, 5, 6, -1, 7, 7, 8, 9, -1, 1, 2, 3]), np.array([14, 3]))
    assert faces.tolist() == [[0, 1, 2], [2, 1, 3], [4, 5, 6], [8, 7, 9], [1, 2, 3]]


@pytest.mark.parametrize("kind", ["ascii", "int", "uint"])
def test_ply_with_strips(tmp_path: Path, kind: str):
    """A unit square as two strips in one list, -1 between them: area 1, faces up."""
    order = "ascii" if kind == "ascii" else "binary_little_endian"
    head = f"ply\nformat {order} 1.0\nelement vertex 4\nproperty float x\nproperty float y\nproperty float z\n"
    head += f"element tristrips 1\nproperty list int {'int' if kind == 'ascii' else kind} vertex_indices\nend_header\n"
    corners, strip = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], [0, 1, 2, -1, 1, 3, 2]
    if kind == "ascii":
        body = "\n".join(" ".join(map(str, row)) for row in [*corners, [len(strip), *strip]]).encode()
    else:
        body = np.array(corners, "<f4").tobytes() + np.array([len(strip), *strip], "<i4").tobytes()
    path = tmp_path / "square.ply"
    path.write_bytes(head.encode() + body)
    mesh = read_mesh(path)
    assert mesh.faces.tolist() == [[0, 1, 2], [1, 3, 2]] and (mesh.face_normals == [0, 0, 1]).all()
    path.write_bytes((head.encode() + body).replace(b"vertex 4", b"vertex 3").replace(b"1 1 0\n", b""))
    with pytest.raises(FileError):
        read_mesh(path)


# ---- OFF


def test_off_of_trimesh(tmp_path: Path):
    """Vertices to the ten digits that trimesh writes, faces as they are."""
    ball = trimesh.creation.icosphere(subdivisions=2)
    ball.export(tmp_path / "ball.off")
    mesh = read_mesh(tmp_path / "ball.off")
    np.testing.assert_allclose(mesh.vertices, ball.vertices, atol=1e-9)
    np.testing.assert_array_equal(mesh.faces, ball.faces)


def test_off_with_everything(tmp_path: Path):
    """Normals, colours of bytes, comments, empty lines, counts on the first line, a square and its colour."""
    text = "CNOFF 4 2 0 # by hand\n\n0 0 0 0 0 1 255 0 51 255\n1 0 0 0 0 1 0 0 0 255\n1 1 0 0 0 1 0 0 0 255\n"
    text += "0 1 0 0 0 1 0 255 0 255 # last\n4 0 1 2 3 200 0 0\n3 0 1 2\n"
    (tmp_path / "a.off").write_text(text)
    mesh = read_mesh(tmp_path / "a.off")
    assert mesh.faces.tolist() == [[0, 1, 2], [0, 2, 3], [0, 1, 2]]
    assert mesh.attributes["colours"][0].tolist() == [1, 0, 0.2] and (mesh.attributes["normals"] == [0, 0, 1]).all()


def test_off_comes_back_and_trimesh_reads_it(tmp_path: Path):
    """To the last bit here; trimesh finds the same volume."""
    mesh = torus_mesh(9, 6)
    path = write_mesh(mesh, tmp_path / "a.off")
    back = read_mesh(path)
    np.testing.assert_array_equal(back.vertices, mesh.vertices)
    np.testing.assert_array_equal(back.faces, mesh.faces)
    assert trimesh.load(path, process=False).volume == pytest.approx(mesh.volume, rel=1e-12)


# ---- glTF


def test_a_scene_of_trimesh(tmp_path: Path):
    """A turned, stretched and moved ball and a mirrored box: the volume, area and box that trimesh finds."""
    scene = trimesh.Scene()
    place = trimesh.transformations.rotation_matrix(0.7, [1, 2, 3])
    place[:3, :3] *= [1, 2, 3]
    place[:3, 3] = [100, 200, 300]
    scene.add_geometry(trimesh.creation.icosphere(subdivisions=2), transform=place)
    scene.add_geometry(trimesh.creation.box(), transform=np.diag([-1.0, 1, 1, 1]))
    (tmp_path / "scene.glb").write_bytes(scene.export(file_type="glb"))
    mesh, truth = read_mesh(tmp_path / "scene.glb"), scene.to_geometry()
    assert mesh.is_watertight and mesh.components == 2
    assert mesh.volume == pytest.approx(truth.volume, rel=1e-6) and mesh.area == pytest.approx(truth.area, rel=1e-6)
    np.testing.assert_allclose(mesh.bounds, truth.bounds, atol=1e-4)


def test_glb_comes_back(tmp_path: Path):
    """A million away from the origin: to single precision of the size, not of the distance; trimesh agrees."""
    ring = torus_mesh(9, 6)
    shades = np.random.default_rng(0).random((54, 3))
    given = {"normals": ring.vertex_normals, "colours": shades, "heat": ring.vertices[:, :1]}
    mesh = Mesh(ring.vertices + 1e6, ring.faces, given)
    path = write_mesh(mesh, tmp_path / "a.glb")
    back = read_mesh(path)
    np.testing.assert_allclose(back.vertices, mesh.vertices, atol=1e-7)
    np.testing.assert_array_equal(back.faces, mesh.faces)
    for name, values in given.items():
        np.testing.assert_allclose(back.attributes[name], values, atol=1e-6)
    (theirs,) = trimesh.load(path, process=False).geometry.values()
    assert theirs.volume == pytest.approx(ring.volume, rel=1e-5)
    np.testing.assert_allclose(theirs.vertex_attributes["_heat"], given["heat"], atol=1e-6)
    # glTF has linear light: half of the light of a screen is what it is told as 188 of 255.
    assert to_display(np.array([0.5]))[0] * 255 == pytest.approx(188, abs=0.5)
    np.testing.assert_allclose(to_display(to_linear(shades)), shades, atol=1e-12)


def gltf(points: list, faces: list, mode: int = 4, **more: object) -> dict:
    """A .gltf with its numbers within; `more` replaces entries."""
    data = np.array(points, "<f4").tobytes() + np.array(faces, "<u2").tobytes()
    views = [
        {"buffer": 0, "byteLength": 12 * len(points)},
        {"buffer": 0, "byteOffset": 12 * len(points), "byteLength": 2 * len(faces)},
    ]
    accessors = [
        {"bufferView": 0, "componentType": 5126, "count": len(points), "type": "VEC3"},
        {"bufferView": 1, "componentType": 5123, "count": len(faces), "type": "SCALAR"},
    ]
    uri = "data:application/octet-stream;base64," + base64.b64encode(data).decode()
    return {
        "asset": {"version": "2.0"},
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "indices": 1, "mode": mode}]}],
        "accessors": accessors,
        "bufferViews": views,
        "buffers": [{"uri": uri, "byteLength": len(data)}],
        **more,
    }


SQUARE = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]]


@pytest.mark.parametrize(("mode", "faces"), [(4, [0, 1, 2, 2, 1, 3]), (5, [0, 1, 2, 3]), (6, [0, 1, 3, 2])])
def test_triangles_strips_and_fans(tmp_path: Path, mode: int, faces: list):
    """The same square three ways: area 1, faces up."""
    (tmp_path / "a.gltf").write_text(json.dumps(gltf(SQUARE, faces, mode)))
    mesh = read_mesh(tmp_path / "a.gltf")
    assert mesh.area == pytest.approx(1) and len(mesh.faces) == 2 and (mesh.face_normals == [0, 0, 1]).all()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"buffers": [{"uri": "/etc/passwd", "byteLength": 60}]}, "no other file or address"),
        ({"buffers": [{"uri": "http://example.org/a.bin", "byteLength": 60}]}, "no other file or address"),
        ({"buffers": [{"uri": "neighbour.bin", "byteLength": 60}]}, "no other file or address"),
        ({"buffers": [{"byteLength": 60}]}, "no numbers"),
        ({"buffers": [{"uri": "data:;base64,AAAA"}]}, "not there"),
        ({"nodes": [{"mesh": 0, "children": [0]}]}, "tree"),
        ({"nodes": [{"mesh": 7}]}, "no entry '7' among its meshes"),
        ({"nodes": [{"mesh": 0, "scale": [1, "a", 1]}]}, "scale of a node"),
        ({"nodes": [{"mesh": 0, "scale": [1, 1e999, 1]}]}, "not finite"),
        ({"accessors": [{"bufferView": 0, "componentType": 5126, "count": 10**11, "type": "VEC3"}] * 2}, "not there"),
        ({"accessors": [{"componentType": 5126, "count": 10**11, "type": "VEC3"}] * 2}, "sparse"),
        ({"extensionsRequired": ["KHR_draco_mesh_compression"]}, "without compression"),
        ({"asset": {"version": "1.0"}}, "version 2 is read"),
        ({"scenes": [{"nodes": []}]}, "neither triangles nor points"),
        ({"meshes": 5}, "no entry"),
    ],
)
def test_a_hostile_gltf(tmp_path: Path, change: dict, says: str):
    """No file beside it and no address is opened, no memory asked for that the file does not fill: one line each."""
    (tmp_path / "neighbour.bin").write_bytes(bytes(60))
    (tmp_path / "a.gltf").write_text(json.dumps(gltf(SQUARE, [0, 1, 2, 2, 1, 3], **change)))
    with pytest.raises(FileError, match=says) as caught:
        read_mesh(tmp_path / "a.gltf")
    assert "\n" not in str(caught.value)


def test_a_part_that_is_shown_again_and_again_is_refused(tmp_path: Path):
    """3000 nodes show one part of 3000 points, 9 million of them from 100 kB."""
    points = sphere(3000)[0].tolist()
    nodes = [{"children": list(range(1, 3001))}, *({"mesh": 0} for _ in range(3000))]
    (tmp_path / "a.gltf").write_text(json.dumps(gltf(points, [0, 1, 2], 4, nodes=nodes)))
    with pytest.raises(FileError, match="many times"):
        read_mesh(tmp_path / "a.gltf")


def test_points_of_a_gltf(tmp_path: Path):
    (tmp_path / "a.gltf").write_text(json.dumps(gltf(SQUARE, [0], 0)))
    assert read_cloud(tmp_path / "a.gltf").points.tolist() == SQUARE


# ---- PCD


@pytest.mark.parametrize("kind", ["ascii", "binary", "binary_compressed"])
def test_pcd(tmp_path: Path, kind: str):
    """Points, normals, colours 255 51 0 and 0 0 255, labels; the point that is NaN is left out and told."""
    (tmp_path / "a.pcd").write_bytes(pcd(kind))
    cloud = read_cloud(tmp_path / "a.pcd")
    assert cloud.points.tolist() == [[1, 2, 3], [4, 5, 6]] and cloud.normals.tolist() == [[0, 0, 1], [0, 1, 0]]
    assert cloud.attributes["colours"].tolist() == [[1, 0.2, 0], [0, 0, 1]]
    assert cloud.attributes["label"].tolist() == [[7], [8]] and sorted(cloud.attributes) == ["colours", "label"]
    assert "1 of 3 points" in cloud.notes[0]


def test_lzf_repeats(tmp_path: Path):
    """The letter a and 'repeat 9 from 1 back', as LibLZF packs ten of them; a repeat from nowhere is refused."""
    from cnf.shapes.files.lzf import unpack_lzf

    packed = bytes([0, ord("a"), 0xE0, 0, 0])  # 7 in the first three bits: the length goes on in the next byte
    assert unpack_lzf(memoryview(packed), 10, tmp_path) == b"a" * 10
    for damaged, size in ((bytes([0, 97, 0xE0, 0, 5]), 10), (packed, 9), (packed[:-1], 10), (packed, 10**9)):
        with pytest.raises(FileError, match="damaged"):
            unpack_lzf(memoryview(damaged), size, tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("POINTS 3", "POINTS 900000000000", "WIDTH times HEIGHT"),
        ("WIDTH 3", "WIDTH 900000000000", "WIDTH times HEIGHT"),
        ("WIDTH 3\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS 3", "POINTS 900000000000", "promises 900000000000"),
        ("SIZE 4 4", "SIZE 3 4", "SIZE '3'"),
        ("SIZE 4 4", "SIZE 4", "8 SIZE"),
        ("COUNT 1 1", "COUNT 99999 1", "COUNT '99999'"),
        ("FIELDS x", "FIELDS w", "no x, y and z"),
        ("FIELDS x y", "FIELDS x x", "comes twice"),
        ("DATA binary", "DATA magic", "expected one of ascii"),
        ("DATA binary", "binary", "no line of a PCD header"),
    ],
)
def test_a_hostile_pcd(tmp_path: Path, old: str, new: str, says: str):
    """One line, and no memory for points that are not there."""
    content = pcd("binary")
    assert old.encode() in content
    (tmp_path / "a.pcd").write_bytes(content.replace(old.encode(), new.encode(), 1))
    with pytest.raises(FileError, match=says) as caught:
        read_cloud(tmp_path / "a.pcd")
    assert "\n" not in str(caught.value)


# ---- LAS and E57


@pytest.mark.parametrize("ending", ["las", "laz"])
def test_las_of_laspy(tmp_path: Path, ending: str):
    """Coordinates in steps of a millimetre around a far origin, colours of 16 bits; columns of zeros are none."""
    laspy = pytest.importorskip("laspy")
    pytest.importorskip("lazrs")
    header = laspy.LasHeader(point_format=3, version="1.2")
    header.scales, header.offsets = [1e-3] * 3, [5e5, 5e6, 0]
    scan, steps = laspy.LasData(header), np.arange(300).reshape(100, 3)
    scan.x, scan.y, scan.z = (steps * 1e-3 + [5e5, 5e6, 0]).T
    scan.red = np.full(100, 65535)
    path = tmp_path / f"a.{ending}"
    scan.write(str(path))
    cloud = read_cloud(path)
    np.testing.assert_allclose(cloud.points, steps * 1e-3 + [5e5, 5e6, 0], atol=1e-9)
    assert (cloud.attributes["colours"] == [1, 0, 0]).all() and list(cloud.attributes) == ["colours"]
    content = bytearray(path.read_bytes())
    content[107:111] = (2**31).to_bytes(4, "little")  # as many points
    path.write_bytes(content)
    with pytest.raises(FileError, match="promises 2147483648 points"):
        read_cloud(path)
    path.write_bytes(bytes(content[:200]))
    with pytest.raises(FileError, match="cut short"):
        read_cloud(path)


def test_e57_of_pye57(tmp_path: Path):
    """Two scans, the first moved by its pose; only where pye57 is installed."""
    pye57 = pytest.importorskip("pye57")
    points = sphere(50)[0].astype(np.float32)
    columns = {f"cartesian{axis}": points[:, k].copy() for k, axis in enumerate("XYZ")}
    file = pye57.E57(str(tmp_path / "a.e57"), mode="w")
    file.write_scan_raw(columns, rotation=np.array([1.0, 0, 0, 0]), translation=np.array([1.0, 2, 3]))
    file.write_scan_raw(columns)
    file.close()
    cloud = read_cloud(tmp_path / "a.e57")
    np.testing.assert_allclose(cloud.points, np.concatenate([points + np.array([1, 2, 3]), points]), atol=1e-6)
    assert "2 scans" in cloud.notes[0]


@pytest.mark.parametrize(("ending", "package"), [("las", "laspy"), ("e57", "pye57")])
def test_a_missing_package_is_named(tmp_path: Path, ending: str, package: str, monkeypatch: pytest.MonkeyPatch):
    """One line with the package, the extra and the command."""
    heads = {"las": bytearray(300), "e57": bytearray(b"ASTM-E57").ljust(300, b"\0")}
    heads["las"][:4], heads["las"][24:26] = b"LASF", b"\1\2"
    heads["las"][94:100] = (227).to_bytes(2, "little") + (227).to_bytes(4, "little")
    heads["las"][105:107] = (20).to_bytes(2, "little")
    (tmp_path / f"a.{ending}").write_bytes(bytes(heads[ending]))
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"need {package}: pip install .*formats"):
        read_cloud(tmp_path / f"a.{ending}")


def test_endings_that_are_written_are_those_that_are_listed(tmp_path: Path):
    from cnf.shapes.files.writing import MESH_ENDINGS

    for ending in MESH_ENDINGS:
        assert read_mesh(write_mesh(cube(), tmp_path / f"a{ending}")).volume == pytest.approx(1)
