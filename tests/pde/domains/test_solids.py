"""Solids: what closed meshes enclose; distances, slices, cavities, names; mended and refused meshes."""

from __future__ import annotations

import itertools
import math
import os
from pathlib import Path

import numpy as np
import pytest

import cnf
from cnf.errors import CnfError, DomainError, FileError, ProblemError
from cnf.pde.domains import Ball, Difference, Polygon, Solid, to_text
from tests.pde.domains.shapes import EIGHT_FACES, OCTAHEDRON

DATA = Path(os.environ.get("CNF_DATA", Path(__file__).parents[3] / "../shared/data"))


def sphere(halvings: int) -> tuple[np.ndarray, np.ndarray]:
    """An octahedron with its faces halved and moved onto the unit sphere, (V, 3) and (F, 3); no vertices are shared."""
    faces = np.array(OCTAHEDRON, dtype=float)[np.array(EIGHT_FACES)]
    for _ in range(halvings):
        a, b, c = faces[:, 0], faces[:, 1], faces[:, 2]
        ab, bc, ca = ((p + q) / 2 for p, q in ((a, b), (b, c), (c, a)))
        parts = [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
        faces = np.concatenate([np.stack(part, axis=1) for part in parts])
        faces /= np.linalg.norm(faces, axis=2, keepdims=True)
    return faces.reshape(-1, 3), np.arange(3 * len(faces)).reshape(-1, 3)


def write_stl(path: Path, vertices: np.ndarray, faces: np.ndarray) -> Path:
    """Binary, in single precision."""
    rows = np.zeros(len(faces), dtype=[("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("colour", "<u2")])
    rows["corners"] = vertices[faces]
    path.write_bytes(bytes(80) + len(faces).to_bytes(4, "little") + rows.tobytes())
    return path


def test_signed_distance_of_a_cube():
    """12 triangles: the distance to a box in closed form, near edges and corners too, inside and outside."""
    corners = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    faces = [triple for a, b, c, d in quads for triple in ((a, b, c), (a, c, d))]
    cube = Solid(corners, faces, name="cube")
    points = np.random.default_rng(0).uniform(-2, 2, (4000, 3))
    away = np.abs(points) - 1
    exact = -np.linalg.norm(np.maximum(away, 0), axis=1) - np.minimum(away.max(axis=1), 0)
    np.testing.assert_allclose(cube._bound(points), exact, atol=1e-14)
    assert cube.boundary_measure("cube") == pytest.approx(24) and cube.volume == pytest.approx(8)
    assert cube._section(0, 0.3) == cube._section(0, 0.3) and cube._section(0, 0.3).volume == pytest.approx(4)
    assert cube.slice_measure(2, 1.0) == pytest.approx(4)  # the flat end
    assert len(cube.slice_points(2, -1.0, 40)) > 30


def test_mended(tmp_path: Path):
    """Triangles without shared vertices, some turned over, as STL: joined, turned, and it says so."""
    vertices, faces = sphere(3)
    faces[::3] = faces[::3, ::-1]
    ball = Solid.read(write_stl(tmp_path / "ball.stl", vertices, faces), scale=2)
    assert ball.volume == pytest.approx(8 * 4 / 3 * math.pi, rel=0.03) and ball.volume > 0
    assert any("joined" in note for note in Solid(vertices, faces).notes)
    assert any("turned over" in note for note in ball.notes)
    sample = ball.boundary_points(200)
    assert (sample.points * sample.normals).sum(dim=1).min() > 1.9
    assert to_text(ball).startswith("mesh of 512 triangles (") and "turned over" in to_text(ball)  # shown in reports


def test_a_cavity():
    """A sphere within a sphere bounds a shell, whatever the faces say; its volume is the difference."""
    vertices, faces = sphere(2)
    both = Solid(np.concatenate([vertices, 0.5 * vertices]), np.concatenate([faces, faces + len(vertices)]))
    assert both.volume == pytest.approx(7 / 8 * Solid(vertices, faces).volume, rel=1e-12)
    assert both.contains([[0, 0, 0], [0.7, 0.0, 0.0]]).tolist() == [False, True]


def test_names_of_faces():
    """Upper and lower half of an octahedron under names, and a hole cut out of it."""
    labels = ["top" if c == 4 else "bottom" for _, _, c in EIGHT_FACES]
    whole = Solid(OCTAHEDRON, EIGHT_FACES, parts_of_faces=labels)
    assert whole.boundary_measure("top") == pytest.approx(2 * math.sqrt(3))
    assert (whole.boundary_points(50, part="top").points[:, 2] > 0).all()
    hollow = Difference(whole, [Ball((0, 0, 0), 0.3, name="hole")])
    assert set(hollow.parts) == {"top", "bottom", "hole"}
    assert hollow.boundary_measure("top") == pytest.approx(2 * math.sqrt(3), rel=1e-9)


TWO = [*OCTAHEDRON, *np.add(OCTAHEDRON, (0.5, 0.3, 0.2))]


@pytest.mark.parametrize(
    ("vertices", "faces", "message"),
    [
        (OCTAHEDRON, EIGHT_FACES[1:], "is open: 3 of its 12 edges"),
        (OCTAHEDRON, [*EIGHT_FACES, (0, 1, 2)], "is open|more than two faces"),
        (TWO, [*EIGHT_FACES, *(np.array(EIGHT_FACES) + 6)], "crosses itself near"),
        (OCTAHEDRON, [], "between 4 and"),
        (OCTAHEDRON, [(0, 1, 2), (0, 1, 2)], "encloses nothing|is open"),
        (OCTAHEDRON, [(0, 1, 99)], "face 0 is"),
        ([(math.nan, 0, 0)] * 6, EIGHT_FACES, "not finite"),
        ("abc", EIGHT_FACES, "could not convert"),
    ],
)  # fmt: skip
def test_bad_meshes(vertices, faces, message: str):
    """Open, crossing, crowded, empty, flat, broken: one line each."""
    with pytest.raises(DomainError, match=message) as caught:
        Solid(vertices, faces)
    assert "\n" not in str(caught.value)


def test_bad_files(tmp_path: Path):
    for name, content, message in [
        ("a.stl", b"", "is empty"),
        ("a.stl", bytes(80) + (2**31).to_bytes(4, "little") + bytes(50), "promises 2147483648 triangles"),
        ("a.obj", b"v 0 0 0\nv 1 0 0\n", "but no faces"),
        ("a.ply", b"ply\nformat ascii 1.0\nelement vertex 99999999999\n", "."),
        ("a.step", b"x", "no reader for files"),
    ]:
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(FileError, match=message):
            Solid.read(path)
    table = {"type": "mesh", "file": "a.obj", "vertices": []}
    with pytest.raises(ProblemError, match="vertices is for meshes without a file"):
        cnf.Problem("x y z", domain=table, equations={"boundary": "u = 0"}, folder=tmp_path)
    with pytest.raises(CnfError, match="a mesh has a file"):
        cnf.domains.domain_from({"type": "mesh", "faces": []})


def poisson(domain: object, **more: object) -> cnf.Problem:
    r"""u = sin(x) e^y z, for which \Delta u = 0; solved by waves."""
    exact = r"\sin(x) e^y z"
    equations = {"interior": r"\Delta u = 0", "boundary": f"u = {exact}"}
    return cnf.Problem(
        "x y z", domain=domain, equations=equations, exact={"u": exact}, solve={"method": "waves"}, **more
    )


@pytest.mark.slow
def test_poisson_in_a_sphere_of_triangles(tmp_path: Path):
    """The file is found beside the problem, the field comes out to 1e-6."""
    write_stl(tmp_path / "ball.stl", *sphere(3))
    answer = poisson({"type": "mesh", "file": "ball.stl"}, folder=tmp_path, points={"count": 600}).solve()
    assert answer.certificate.exact and answer.errors is not None and answer.errors["u"] < 1e-6


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "mesh").is_dir(), reason="needs the shared data, see CNF_DATA")
def test_poisson_in_a_cow():
    """A real mesh of 5856 faces: inside of it, on it, and a slice through it."""
    cow = Solid.read(DATA / "mesh" / "spot.obj")
    assert cow.volume == pytest.approx(0.71826, rel=1e-4)
    middle = cow._section(0, 0.0)
    assert middle is not None and isinstance(middle, cnf.domains.Outline) and not isinstance(middle, Polygon)
    answer = poisson(cow, points={"count": 600}).solve()
    assert answer.certificate.exact and answer.errors is not None and answer.errors["u"] < 1e-6
