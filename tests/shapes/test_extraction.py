"""From fields whose zero sets are known to meshes: closed, of the right genus, at second order, at few evaluations."""

from __future__ import annotations

import numpy as np
import pytest

from cnf.errors import ConstraintError
from cnf.shapes.reconstruction.cubes import MARGIN
from cnf.shapes.reconstruction.doubts import note_missed
from cnf.shapes.reconstruction.extraction import extract
from tests.shapes.analytic import ONE, RADIUS, RING, TUBE, sphere, spread, torus, torus_points

SPHERE_AREA, SPHERE_VOLUME = 4 * np.pi * RADIUS**2, 4 / 3 * np.pi * RADIUS**3


def test_sphere_converges_at_second_order():
    """Area 4 pi r^2 and volume 4/3 pi r^3; halving the step divides both errors by four. Positive volume: outward."""
    errors = []
    for resolution in (25, 49, 97):
        found = extract(sphere, spread(300), -ONE, ONE, resolution, reach=0.3)
        assert found.mesh.is_watertight
        assert (found.mesh.euler, found.mesh.components, found.notes) == (2, 1, ())
        assert found.mesh.areas.min() > 0
        errors.append((SPHERE_AREA - found.mesh.area, SPHERE_VOLUME - found.mesh.volume))
    rates = np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
    assert np.all(np.abs(rates - 2) < 0.15)
    assert errors[-1][0] < 2e-3 * SPHERE_AREA


def test_normals_point_to_positive_values():
    """Every single face of a sphere's mesh looks away from the centre."""
    mesh = extract(sphere, spread(300), -ONE, ONE, 40, reach=0.3).mesh
    assert np.all(np.sum(mesh.face_normals * mesh.vertices[mesh.faces].mean(axis=1), axis=1) > 0)


def test_vertices_are_not_rounded_to_single_precision():
    """For a linear field, interpolation along an edge is exact: the plane's vertices satisfy it to double rounding."""
    slope = np.array([0.3, 0.5, 0.81])

    def ball_cut_by_plane(x):
        return np.maximum(x @ slope - 0.1, np.linalg.norm(x, axis=1) - 0.8)

    seeds = np.array([[0.0, 0.0, 0.1 / 0.81]])
    mesh = extract(ball_cut_by_plane, seeds, -ONE, ONE, 64, reach=np.inf).mesh
    flat = np.abs(mesh.vertices @ slope - 0.1)
    assert np.sum(flat < 1e-15) > 500  # float32 would leave 1e-8


def test_torus_has_a_handle():
    """Euler number 0, volume 2 pi^2 R r^2."""
    mesh = extract(torus, torus_points(500), -ONE, ONE, 65, reach=0.3).mesh
    assert mesh.is_watertight
    assert mesh.euler == 0
    assert mesh.volume == pytest.approx(2 * np.pi**2 * RING * TUBE**2, rel=0.01)


def test_two_spheres_are_two_components():
    centre = np.array([0.5, 0.0, 0.0])

    def values(x):
        return np.minimum(np.linalg.norm(x - centre, axis=1), np.linalg.norm(x + centre, axis=1)) - 0.4

    seeds = np.concatenate([spread(100, 0.4) + centre, spread(100, 0.4) - centre])
    mesh = extract(values, seeds, -ONE, ONE, 48, reach=0.3).mesh
    assert mesh.is_watertight
    assert (mesh.components, mesh.euler) == (2, 4)
    alone = extract(values, seeds[:100], -ONE, ONE, 48, reach=0.3).mesh  # the other one holds no seed
    assert alone.components == 1
    assert alone.vertices[:, 0].min() > 0


def test_spurious_sheets_are_not_followed():
    """(r - 0.7)(1.2 - r) has a second zero sheet at r = 1.2, far from the seeds: nothing of it appears."""

    def values(x):
        r = np.linalg.norm(x, axis=1)
        return (r - RADIUS) * (1.2 - r)

    found = extract(values, spread(300), -2 * ONE, 2 * ONE, 80, reach=2.0)
    assert found.mesh.is_watertight
    assert (found.mesh.components, found.mesh.euler) == (1, 2)
    assert np.abs(np.linalg.norm(found.mesh.vertices, axis=1) - RADIUS).max() < found.step


def test_sheets_beside_the_seeds_are_dropped():
    """Two concentric shells a step apart: cells next to seeds may see both, only the one through the seeds stays."""

    def values(x):
        r = np.linalg.norm(x, axis=1)
        return (r - RADIUS) * np.where(r > RADIUS, 0.78 - r, 1.0)

    found = extract(values, spread(2000), -ONE, ONE, 41, reach=0.5)
    assert found.mesh.components == 1
    assert np.linalg.norm(found.mesh.vertices, axis=1).max() < 0.75


def test_each_node_once_and_order_of_the_surface():
    """Evaluations grow like G^2 (four times for half the step), and no node is asked twice."""
    counts = []
    for resolution in (49, 97):
        asked: list[np.ndarray] = []

        def values(x, asked=asked):
            asked.append(x.copy())
            return sphere(x)

        found = extract(values, spread(300), -ONE, ONE, resolution, reach=0.3)
        points = np.concatenate(asked)
        assert len(np.unique(points, axis=0)) == len(points) == found.evaluations
        counts.append(found.evaluations)
    assert 3.5 < counts[1] / counts[0] < 4.5
    assert counts[1] < 6 * 97**2


@pytest.mark.parametrize("sign", [1, -1])
def test_nodes_exactly_on_the_surface(sign: int):
    """A cube of side 1 whose faces lie on grid nodes (step h = 1/16): values are exactly 0 there, which is outside.

    Cells at an edge of the cube hold half their volume, those at a corner a sixth: 1 - 6 h^2 + 16/3 h^3 in all. The
    complement's outside is the cube itself with its surface, so there nothing is cut off.
    """

    def values(x):
        return sign * (np.abs(x).max(axis=1) - 0.5)

    seeds = np.array([[0.5, 0.0, 0.0], [0.0, -0.5, 0.25], [0.5, 0.5, 0.5]])
    mesh = extract(values, seeds, -ONE, ONE, 33, reach=np.inf).mesh
    assert mesh.is_watertight
    assert mesh.euler == 2
    assert mesh.areas.min() > 0
    step = 1 / 16
    exact = 1 - 6 * step**2 + 16 / 3 * step**3 if sign > 0 else 1.0
    assert sign * mesh.volume == pytest.approx(exact, abs=1.1 * 6 * MARGIN * step)  # the margin moves six faces


def test_thin_slab():
    """A disc of thickness 0.04 between two layers of nodes: unseen at step 0.05, of the right volume at step 0.01."""
    middle, half, radius = 0.026, 0.02, 0.6

    def values(x):
        return np.maximum(np.abs(x[:, 2] - middle) - half, np.hypot(x[:, 0], x[:, 1]) - radius)

    angle = np.linspace(0, 6, 60)
    rim = np.stack([0.5 * np.cos(angle), 0.5 * np.sin(angle), np.full(60, middle + half)], axis=1)
    with pytest.raises(ConstraintError, match="Raise the resolution"):
        extract(values, rim, -ONE, ONE, 41, reach=0.5)
    mesh = extract(values, rim, -ONE, ONE, 201, reach=2.0).mesh
    assert mesh.is_watertight
    assert mesh.euler == 2
    assert mesh.volume == pytest.approx(np.pi * radius**2 * 2 * half, rel=0.02)


def test_points_in_parts_thinner_than_the_grid_are_counted():
    """A sphere with a needle of radius 0.005 along x: three seeds on its far end are missed, and a note says so."""

    def values(x):
        needle = np.maximum(np.hypot(x[:, 1] - 0.03, x[:, 2] - 0.03) - 0.005, np.abs(x[:, 0]) - 0.95)
        return np.minimum(np.linalg.norm(x, axis=1) - 0.5, needle)

    far = np.array([[0.8, 0.035, 0.03], [0.85, 0.03, 0.035], [0.9, 0.025, 0.03]])
    found = extract(values, np.concatenate([spread(300, 0.5), far]), -ONE, ONE, 41, reach=0.5)
    (note,) = note_missed(np.concatenate([spread(300, 0.5), far]), found.mesh, found.step)
    assert "3 of 303 points are not on the mesh, but up to 0.4 from it" in note
    assert not note_missed(spread(300, 0.5), found.mesh, found.step)
    assert found.mesh.euler == 2


def test_half_a_cloud():
    """Seeds on the upper half of a sphere: the mesh ends within reach of them, closed by a cap or left open on request.

    The lowest seeds are at z = 0, so the rim lies between z = -reach - step and 0, and the volume between that of the
    half ball and the segment above the rim.
    """
    seeds = spread(2000)
    seeds = seeds[seeds[:, 2] > 0]
    reach = 0.2
    closed = extract(sphere, seeds, -ONE, ONE, 61, reach=reach)
    assert closed.mesh.is_watertight
    assert (closed.mesh.euler, closed.mesh.components, closed.holes) == (2, 1, 1)
    depth = reach + closed.step
    assert SPHERE_VOLUME / 2 < closed.mesh.volume < SPHERE_VOLUME / 2 + np.pi * RADIUS**2 * depth
    assert closed.mesh.vertices[:, 2].min() > -depth
    assert "closed by caps" in closed.notes[0]

    opened = extract(sphere, seeds, -ONE, ONE, 61, reach=reach, close=False)
    assert not opened.mesh.is_watertight
    assert opened.mesh.euler == 1  # a disc
    assert opened.mesh.boundary_edges > 50
    assert opened.cut == closed.cut > 0
    assert "left open" in opened.notes[0]


def test_progress_is_reported():
    lines: list[str] = []
    found = extract(sphere, spread(50), -ONE, ONE, 30, reach=0.5, report=lines.append)
    assert str(found.evaluations) in lines[-1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"resolution": 3}, "resolution=3"),
        ({"resolution": 10**6}, "resolution=1000000"),
        ({"reach": 0.0}, "reach=0.0"),
        ({"seeds": np.zeros((0, 3))}, "seeds"),
        ({"seeds": np.full((2, 3), np.nan)}, "seeds"),
        ({"seeds": np.array([[9.0, 0.0, 0.0]])}, "outside"),
        ({"lower": ONE, "upper": -ONE}, "box"),
        ({"values": lambda x: np.full(len(x), np.nan)}, "not finite"),
        ({"values": lambda x: x}, "shape"),
        ({"values": lambda x: np.ones(len(x))}, "no surface is seen"),
    ],
)
def test_refusals(change: dict, words: str):
    """Each bad argument is named in the error."""
    given = {"values": sphere, "seeds": spread(20), "lower": -ONE, "upper": ONE, "resolution": 20, "reach": 0.3}
    with pytest.raises(ConstraintError, match=words):
        extract(**{**given, **change})
