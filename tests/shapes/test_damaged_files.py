"""Files from strangers: whatever is wrong with them, the answer is a result or one line of a CnfError."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cnf.errors import CnfError, FileError
from cnf.meshes.mesh import Mesh
from cnf.shapes.clouds.cloud import PointCloud
from cnf.shapes.files.reading import read_cloud, read_mesh
from cnf.shapes.files.writing import write_cloud, write_mesh
from tests.shapes.known_clouds import cube, sphere
from tests.shapes.pcd_files import pcd

HEADER = (
    b"ply\nformat binary_little_endian 1.0\nelement vertex 4\nproperty float x\nproperty float y\nproperty float z\n"
)


def attempt(path) -> str | None:
    """None if the file was read, or the error's message; anything but a CnfError of one line is a failure."""
    for read in (read_cloud, read_mesh):
        try:
            read(path)
        except CnfError as error:
            assert "\n" not in str(error) and len(str(error)) < 700, error
            message = str(error)
        else:
            message = None
    return message


def good_files(folder) -> list:
    """One small file of every format."""
    mesh = cube().with_attributes(heat=np.arange(8.0))
    points, normals = sphere(9)
    cloud = PointCloud(points, normals, {"heat": np.arange(9.0)})
    found = [write_mesh(mesh, folder / f"mesh.{ending}") for ending in ("ply", "obj", "stl", "npz", "off", "glb")]
    found += [write_cloud(cloud, folder / f"cloud.{ending}") for ending in ("ply", "csv", "xyz", "npz", "obj")]
    np.save(folder / "cloud.npy", points)
    ascii_ply = "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\nelement face 1\nproperty list uchar int vertex_index\nend_header\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"  # noqa: E501
    (folder / "ascii.ply").write_text(ascii_ply)
    (folder / "ascii.stl").write_text(
        "solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\n"
        "endfacet\nendsolid a\n"
    )
    for kind in ("ascii", "binary", "binary_compressed"):
        (folder / f"{kind}.pcd").write_bytes(pcd(kind))
    more = [folder / f"{kind}.pcd" for kind in ("ascii", "binary", "binary_compressed")]
    return [*found, folder / "cloud.npy", folder / "ascii.ply", folder / "ascii.stl", *more]


def test_truncated_anywhere(tmp_path):
    """Every format cut at forty places: binary formats always notice; nothing but a CnfError is ever raised."""
    for path in good_files(tmp_path):
        content = path.read_bytes()
        for length in np.unique(np.linspace(0, len(content) - 1, 40).astype(int)):
            broken = tmp_path / f"cut{path.suffix}"
            broken.write_bytes(content[:length])
            message = attempt(broken)
            if path.suffix in (".npz", ".npy", ".glb") or (
                path.suffix in (".ply", ".stl", ".pcd") and path.stem != "ascii"
            ):
                assert message, f"{path.name} cut to {length} of {len(content)} bytes was read"


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> list[tuple[str, bytes]]:
    """Ending and content of one small file of every format."""
    return [(path.suffix, path.read_bytes()) for path in good_files(tmp_path_factory.mktemp("good"))]


@pytest.mark.parametrize("which", range(17))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(data=st.data())
def test_bytes_changed_anywhere(tmp_path, good, which, data):
    """Up to four bytes replaced, or a piece of the file copied elsewhere."""
    ending, original = good[which]
    content = bytearray(original)
    head = min(len(content), 400)  # headers are where the danger is
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.one_of(st.integers(0, head - 1), st.integers(0, len(content) - 1)))
        content[place] = data.draw(st.one_of(st.sampled_from(b"0123456789 -.\n/xnf\x00\xff"), st.integers(0, 255)))
    if data.draw(st.booleans()):
        start, end, to = (data.draw(st.integers(0, head)) for _ in range(3))
        content[to:to] = content[min(start, end) : max(start, end)]
    (tmp_path / f"changed{ending}").write_bytes(bytes(content))
    attempt(tmp_path / f"changed{ending}")


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)
@given(
    lines=st.lists(
        st.one_of(
            st.sampled_from(
                [
                    "format ascii 1.0",
                    "format binary_big_endian 1.0",
                    "element vertex 3",
                    "element vertex 99999999999",
                    "element face 2",
                    "property float x",
                    "property double y",
                    "property uchar z",
                    "property list uchar int vertex_indices",
                    "end_header",
                    "property list char int vertex_indices",
                    "property list float int vertex_index",
                    "element vertex -1",
                    "comment é",
                    "property",
                    "element",
                    "format",
                    "property list uchar double y",
                    "element empty 999999999999",
                    "obj_info",
                ]
            ),
            st.text(max_size=20),
        ),
        max_size=14,
    ),
    body=st.binary(max_size=80),
)
def test_headers_of_nonsense(tmp_path, lines, body):
    """Headers shuffled from valid and invalid lines, with any bytes behind."""
    text = "\n".join(["ply", *lines, "end_header", ""]).encode("utf-8", errors="surrogatepass")
    (tmp_path / "nonsense.ply").write_bytes(text + body)
    attempt(tmp_path / "nonsense.ply")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.ply", HEADER.replace(b"x 4", b"x 900000000000") + b"end_header\n" + bytes(48), "promises 900000000000"),
        ("a.ply", HEADER + b"end_header\n" + bytes(47), "promises 4 rows"),
        ("a.ply", HEADER.replace(b"ply", b"pl"), "not a PLY file"),
        ("a.ply", HEADER.replace(b"float z", b"floaty z"), "line 6.*not a type"),
        ("a.ply", HEADER.replace(b"float z", b"float \xff"), "line 6.*not ASCII"),
        ("a.ply", HEADER.replace(b"float z", b"float w") + b"heat", "end_header"),
        ("a.ply", HEADER.replace(b"float x", b"float w") + b"end_header\n" + bytes(48), "no x, y and z"),
        ("a.ply", HEADER.replace(b"property float z", b"property float y"), "comes twice"),
        ("a.ply", HEADER + b"end_header\n" + np.array([0] * 11 + [np.nan], "<f4").tobytes(), "1 of 4 points.*number 3"),
        ("a.ply", HEADER + b"end_header\n" + np.array([0] * 5 + [np.inf] * 7, "<f4").tobytes(), "3 of 4 .*number 1"),
        ("a.ply", b"ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nproperty float z\nend_header\n1 2 z\n", "line 8: 'z' is not a number"),  # noqa: E501
        ("a.obj", b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 4\n", "line 4.*number 4.*only 3"),
        ("a.obj", b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 0\n", "counted from 1"),
        ("a.obj", b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf -4 1 2\n", "line 4.*number -4"),
        ("a.obj", b"v 0 0 0\nv 1 0\nv 0 1 0\n", "line 2.*2 numbers"),
        ("a.obj", b"v 0 0 0\n\nv 1 0 q\n", "line 3.*'q'"),
        ("a.obj", b"hello", "no line 'v x y z'"),
        ("a.xyz", b"1 2 3\n4 5\n", "columns"),
        ("a.xyz", b"1 2 3\n4 5 six\n", "'six'.*line 2"),
        ("a.xyz", b"1 2 3 4\n", "4 columns and no header"),
        ("a.xyz", b"1 2 nan\n1 2 3\n", "1 of 2 points.*number 0"),
        ("a.csv", b"time,heat\n1,2\n", "neither numbers nor a header"),
        ("a.csv", b"x,y,z\n1,,3\n", "line 2"),
        ("a.csv", b"x,y,z\n1,2\n", "names 3 columns"),
        ("a.txt", b"\xff\xfe\x00\x01", "UTF-8"),
        ("a.txt", b"ply\n", "rename"),
        ("a.pts", b"5\n1 2 3\n", "promises 5"),
        ("a.npz", b"PK\x03\x04nothing", "damaged"),
        ("a.npy", b"\x93NUMPY\x01\x00", "cannot be read"),
        ("a.stl", bytes(80) + (10**9).to_bytes(4, "little"), "promises 1000000000 triangles"),
        ("a.jpg", b"123", r"no reader.*\.ply"),
        ("a.plx", b"123", "Did you mean '.ply'"),
        ("a", b"123", "no reader"),
        ("a.ply", b"", "is empty"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FileError, match=says) as caught:
        read_cloud(tmp_path / name)
    assert name in str(caught.value)


def test_archives_of_nonsense(tmp_path):
    """Python objects are not unpickled; a shape of 8 TB in 128 bytes asks for no memory; no points, wrong normals."""
    path = tmp_path / "a.npz"
    np.savez(path, points=np.array([{}, 1], dtype=object))
    with pytest.raises(FileError, match="Python objects"):
        read_cloud(path)
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (10**12, 3)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("points.npy", head.getvalue())
    with pytest.raises(FileError, match="more than the"):
        read_cloud(path)
    np.savez(path, place=np.zeros((3, 3)))
    with pytest.raises(FileError, match="no array 'points'"):
        read_cloud(path)
    np.savez(path, points=np.zeros((3, 3)), normals=np.zeros((2, 3)))
    with pytest.raises(FileError, match=r"normals have shape \(2, 3\)"):
        read_cloud(path)


def test_folders_and_missing_files(tmp_path):
    (tmp_path / "folder.ply").mkdir()
    for path, says in (
        (tmp_path / "folder.ply", "folder"),
        (tmp_path / "none.ply", "no file"),
        (7, "file name"),
        ("a\0.ply", "cannot be read|no file"),
    ):
        with pytest.raises(FileError, match=says):
            read_cloud(path)


def test_points_are_no_mesh_and_unknown_endings_are_not_written(tmp_path):
    path = write_cloud(PointCloud(sphere(5)[0]), tmp_path / "a.ply")
    with pytest.raises(FileError, match="read_cloud"):
        read_mesh(path)
    with pytest.raises(FileError, match="no writer"):
        write_mesh(cube(), tmp_path / "a.step")
    with pytest.raises(FileError, match="same name"):
        write_mesh(cube().with_attributes(x=np.zeros(8)), tmp_path / "b.ply")
    assert not list(tmp_path.glob("b.*")) and not list(tmp_path.glob(".cnf*"))


def test_faces_beyond_the_points_and_flat_meshes(tmp_path):
    text = b"element face 1\nproperty list uchar int vertex_indices\nend_header\n"
    face = bytes([3]) + np.array([0, 1, 4], "<i4").tobytes()
    (tmp_path / "a.ply").write_bytes(HEADER + text + bytes(48) + face)
    with pytest.raises(FileError, match=r"triangle 0 uses vertices \[0, 1, 4\], but there are only 4"):
        read_mesh(tmp_path / "a.ply")
    flat = Mesh(np.array([[0, 0, 0], [1, 1, 1], [2, 2, 2.0]]), np.array([[0, 1, 2]]))
    with pytest.raises(CnfError, match=r"flat\.ply.*no area"):
        read_cloud(write_mesh(flat, tmp_path / "flat.ply"))
