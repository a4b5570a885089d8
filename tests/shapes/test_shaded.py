"""Shaded pictures: what is seen where, checked against geometry, not against pictures."""

from __future__ import annotations

import numpy as np
import pytest

from cnf.errors import ConstraintError
from cnf.meshes.mesh import Mesh
from cnf.shapes.report.rasteriser import FILLED, aim, cover
from cnf.shapes.report.shaded import PAPER, draw_mesh, save_panels, shade_mesh


def sphere(rings: int = 24) -> Mesh:
    """A closed ball of radius 1 from circles of latitude."""
    polar = np.linspace(0, np.pi, rings + 1)[1:-1]
    turn = np.arange(2 * rings) * np.pi / rings
    middle = np.stack(
        [
            np.sin(polar)[:, None] * np.sin(turn),
            np.cos(polar)[:, None] * np.ones_like(turn),
            np.sin(polar)[:, None] * np.cos(turn),
        ],
        axis=-1,
    )
    vertices = np.concatenate([[[0.0, 1, 0]], middle.reshape(-1, 3), [[0.0, -1, 0]]])
    number = 1 + np.arange(middle[..., 0].size).reshape(middle.shape[:2])
    a, b = number[:-1], number[1:]
    right = np.roll(number, -1, axis=1)
    quads = [np.stack([a, b, right[1:]], axis=-1), np.stack([a, right[1:], right[:-1]], axis=-1)]
    last = len(vertices) - 1
    caps = [
        np.stack([np.zeros_like(number[0]), number[0], right[0]], axis=-1),
        np.stack([np.full_like(number[0], last), right[-1], number[-1]], axis=-1),
    ]
    return Mesh(vertices, np.concatenate([part.reshape(-1, 3) for part in (*quads, *caps)]))


def square(z: float, half: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    corners = half * np.array([[-1.0, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]]) + [0, 0, z]
    return corners, np.array([[0, 1, 2], [0, 2, 3]])


def test_the_ball_is_a_disc_of_the_right_size():
    """A ball fills a disc of FILLED of the side: pi/4 FILLED^2 of all pixels (the polygon's outline lacks a little)."""
    mesh = sphere(40)
    side = 400
    camera = aim(mesh.vertices, 30.0, 20.0, side)
    hits = cover(camera.project(mesh.vertices), mesh.faces, side)
    assert np.mean(hits.face >= 0) == pytest.approx(np.pi / 4 * FILLED**2, rel=0.01)


@pytest.mark.parametrize("rings", [6, 150])
def test_hits_lie_on_their_rays(rings: int):
    """The place that weights and face name projects to the middle of its pixel, and no vertex in front hides it."""
    mesh = sphere(rings)
    side = 120
    camera = aim(mesh.vertices, -70.0, 35.0, side)
    hits = cover(camera.project(mesh.vertices), mesh.faces, side)
    row, column = np.nonzero(hits.face >= 0)
    place = np.einsum("nk,nkd->nd", hits.weights, mesh.vertices[mesh.faces[hits.face[row, column]]])
    spots = camera.project(place)
    assert np.abs(spots[:, 0] - column - 0.5).max() < 1e-6
    assert np.abs(spots[:, 1] - row - 0.5).max() < 1e-6
    assert np.allclose(spots[:, 2], hits.depth[row, column])
    toward = camera.eye - place
    front = np.sum(toward * place, axis=1) / np.linalg.norm(toward, axis=1)
    assert front.min() > -np.sin(0.75 * np.pi / rings)  # the near half of the ball, and the width of a face


def test_no_pixel_is_lost_between_faces():
    """A square of 2 x 40 x 40 small faces covers its box of pixels without gaps."""
    line = np.linspace(-1, 1, 41)
    x, y = np.meshgrid(line, line, indexing="ij")
    vertices = np.stack([x.ravel(), y.ravel(), np.zeros(x.size)], axis=1)
    n = np.arange(x.size).reshape(x.shape)
    a, b, c, d = (part.ravel() for part in (n[:-1, :-1], n[1:, :-1], n[1:, 1:], n[:-1, 1:]))
    faces = np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])
    side = 300
    hits = cover(aim(vertices, 0.0, 0.0, side).project(vertices), faces, side)
    margin = round(side * (1 - FILLED) / 2)
    assert np.all(hits.face[margin + 1 : -margin - 1, margin + 1 : -margin - 1] >= 0)
    assert np.all(hits.face[: margin - 1] < 0)


def test_the_nearer_face_is_seen():
    """A small red square in front of a large blue one, and behind it: red in the middle, or blue everywhere."""
    for z, middle in ((0.5, "red"), (-0.5, "blue")):
        (back, faces), (small, _) = square(0.0), square(z, half=0.4)
        colours = np.array([[0.0, 0, 1]] * 4 + [[1.0, 0, 0]] * 4)
        mesh = Mesh(np.concatenate([back, small]), np.concatenate([faces, faces + 4]))
        picture = shade_mesh(mesh, (0, 0), colours=colours, size=64)
        red, _, blue = picture[32, 32]
        assert (red > 2 * blue) == (middle == "red")
        assert picture[10, 32, 2] > 2 * picture[10, 32, 0]


def test_light_comes_from_above_and_paper_stays_white():
    picture = shade_mesh(sphere(), "front", size=128)
    assert picture.shape == (128, 128, 3)
    assert picture.min() >= 0
    assert picture.max() <= 1
    assert picture[25, 50].sum() > picture[105, 75].sum() + 0.3
    assert np.allclose(picture[0, 0], PAPER)


def test_normals_are_interpolated():
    """A coarse ball is shaded smoothly: neighbouring pixels well inside differ little, though faces are 15 degrees."""
    picture = shade_mesh(sphere(12), (10, 10), size=128)[40:88, 40:88].sum(axis=2)
    assert np.abs(np.diff(picture, axis=0)).max() < 0.08
    assert np.abs(np.diff(picture, axis=1)).max() < 0.08


def test_inside_out_looks_the_same():
    mesh = sphere()
    turned = Mesh(mesh.vertices, mesh.faces[:, ::-1])
    assert mesh.volume > 0 > turned.volume
    assert np.allclose(shade_mesh(mesh, size=64), shade_mesh(turned, size=64), atol=1e-5)


@pytest.mark.parametrize("up", ["x", "-x", "y", "-y", "z", "-z"])
def test_up(up: str):
    """A rod along the given axis stands upright, its red end at the top."""
    axis = "xyz".index(up[-1])
    vertices = sphere().vertices * 0.2
    vertices[:, axis] *= 5
    sign = -1.0 if up[0] == "-" else 1.0
    colours = np.where((sign * vertices[:, axis] > 0)[:, None], [1.0, 0, 0], [0, 0, 1.0])
    mesh = Mesh(vertices, sphere().faces)
    picture = shade_mesh(mesh, "front", colours=colours, up=up, size=96)
    assert picture[20, 48, 0] > 2 * picture[20, 48, 2]
    assert picture[75, 48, 2] > 2 * picture[75, 48, 0]


def test_points_are_marked_where_they_are_seen():
    """Of two points on opposite sides of the ball one shows from the front."""
    mesh = sphere()
    plain = shade_mesh(mesh, (0, 0), size=100)
    front = shade_mesh(mesh, (0, 0), points=np.array([[0.0, 0, 1.0]]), size=100)
    behind = shade_mesh(mesh, (0, 0), points=np.array([[0.0, 0, -1.0]]), size=100)
    assert np.abs(front - plain)[45:55, 45:55].max() > 0.2
    assert np.array_equal(behind, plain)


def test_files(tmp_path):
    """Three views side by side with a title above; rows of panels."""
    image = pytest.importorskip("matplotlib.image")
    path = draw_mesh(sphere(), tmp_path / "ball.png", title="a ball", size=80)
    assert image.imread(path).shape[:2] == (80 + 36, 240)
    panel = shade_mesh(sphere(), size=48)
    grid = image.imread(save_panels([[panel, panel], [panel, panel]], tmp_path / "grid.png"))
    assert grid.shape[:2] == (96, 96)
    assert np.abs(grid[:48, :48, :3] - panel).max() < 0.01  # not resampled


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"view": "frnt"}, "front"),
        ({"up": "w"}, "up='w'"),
        ({"size": 1}, "size=1"),
        ({"colours": np.zeros((2, 3))}, "colours"),
        ({"mesh": Mesh(np.zeros((0, 3)), np.zeros((0, 3), dtype=np.int64))}, "no faces"),
    ],
)
def test_refusals(change: dict, words: str):
    with pytest.raises(ConstraintError, match=words):
        shade_mesh(**{"mesh": sphere(6), **change})
