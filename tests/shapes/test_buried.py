"""Points within what others enclose: the second sheet that they force stays close to them, and they are told."""

from __future__ import annotations

import numpy as np
import pytest

from cnf.shapes.reconstruction.buried import note_buried
from cnf.shapes.reconstruction.reconstruct import Reconstruction, reconstruct
from cnf.shapes.reconstruction.surface import FIRM, make_guide
from tests.shapes.known_clouds import sphere
from tests.shapes.test_doubts import box
from tests.shapes.test_reconstruct import sphere as even_sphere

OUTER, INNER, RADIUS = 1500, 240, 0.4  # points of the unit sphere, and as dense ones of a small sphere in it


def nested() -> tuple[np.ndarray, np.ndarray]:
    """A sphere within a sphere, the normals of both outward: w is 1 between them and 2 in the inner one."""
    outer, inner = even_sphere(OUTER), even_sphere(INNER)
    return np.concatenate([outer, RADIUS * inner]), np.concatenate([outer, inner])


@pytest.fixture(scope="module")
def made() -> Reconstruction:
    return reconstruct(*nested(), resolution=48)


def test_a_sheet_within_a_body_leads_no_other_across_it(made: Reconstruction):
    """Zero sets: r = 1, r = 0.4, and one between: the field is negative within the first, positive around the second.

    That one must not be halfway, 0.3 from either sphere, but within 1.2 spacings (0.09) of the inner one.
    """
    radius = np.linalg.norm(made.mesh.vertices, axis=1)
    apart = np.minimum(np.abs(radius - 1), np.abs(radius - RADIUS))
    assert apart.max() <= 1.2 * (4 * np.pi / OUTER) ** 0.5 < 0.12
    assert made.largest_distance_spacings <= 1.5 and made.certificate.exact
    assert made.mesh.is_watertight and (apart > 0.3 * (4 * np.pi / OUTER) ** 0.5).any()  # it is there


def test_buried_points_are_told_and_no_others(made: Reconstruction):
    """All of the inner sphere, none of the outer one: the answer of the solid angle, 1 + 1/2 against 1/2."""
    assert np.array_equal(made.surface.guide.buried, OUTER + np.arange(INNER))
    levels = made.surface.guide.means
    assert levels[OUTER:].max() < levels[:OUTER].min()  # their sheet closes before it meets that of any other point
    (note,) = [note for note in made.notes if "inside of what the others enclose" in note]
    assert f"{INNER} of {OUTER + INNER} points" in note and f"point {OUTER} at (" in note
    assert not note_buried(3, OUTER + INNER, OUTER, np.zeros(3))


def test_the_same_with_inside_and_outside_exchanged(made: Reconstruction):
    points, normals = nested()
    turned = make_guide(points, -normals)
    given = make_guide(points, normals)
    assert given.closed == 0.5 and turned.closed == -0.5
    assert np.array_equal(turned.buried, given.buried) and np.abs(turned.means + given.means).max() <= 1e-12


@pytest.mark.parametrize("gap", [1.0, 1.5, 3.0])
def test_the_walls_of_a_gap_are_not_buried(gap: float):
    """Two boxes side by side, so many spacings (0.057) apart: in front of their walls is the other box, but outside."""
    width = gap * (10 / 3000) ** 0.5
    points, normals = box((1, 1, 1.5), 3000)
    shift = np.array([(1 + width) / 2, 0.0, 0.0])
    other, more = box((1, 1, 1.5), 3000, seed=1)
    both = np.concatenate([points - shift, other + shift])
    guide = make_guide(both, np.concatenate([normals, more]))
    assert guide.closed == 0.5 and len(guide.buried) <= 6  # what is told begins at ten


def test_bodies_that_nearly_touch_keep_the_gap_between_them():
    """Two unit spheres 0.02 apart, a third of a spacing: a spacing in front is the other one, and none is buried."""
    points, normals = sphere(4000)
    other, more = sphere(4000, seed=1)
    shift = np.array([1.01, 0.0, 0.0])
    guide = make_guide(np.concatenate([points - shift, other + shift]), np.concatenate([normals, more]))
    facing = np.concatenate([points[:, 0] > 0.995, other[:, 0] < -0.995])
    assert facing.sum() > 10 and not len(guide.buried)
    assert guide.means[facing].min() > 0.45  # heard as they are: a level of 1/4 would join the two


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_buried_in_a_solid(seed: int):
    """Points at random on a sphere, on a thin slab, and on a box with edges."""
    for cloud in (sphere(2000, seed), box((2, 1, 0.1), 1500, seed), box((1, 1, 1), 1000, seed)):
        assert not len(make_guide(*cloud).buried)


def test_a_part_that_sticks_out_of_a_body_is_closed_within_it():
    """A rod that reaches into a box, open at its end within: buried are that end and the top of the box in the rod.

    The box is [-1, 1]^3; the rod, of radius 0.3, goes from z = 0 to z = 2 through its top. The mesh stays near points.
    """
    random = np.random.default_rng(0)
    points, normals = box((2, 2, 2), 3000)
    angle, height = random.uniform(0, 2 * np.pi, 600), random.uniform(0, 2, 600)
    round_ = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    lid = np.sqrt(random.random((50, 1))) * 0.3 * round_[:50] + [0, 0, 2]
    rod = np.concatenate([0.3 * round_ + [0, 0, 1] * height[:, None], lid])
    facing = np.concatenate([round_, np.tile([0.0, 0.0, 1.0], (50, 1))])
    made = reconstruct(np.concatenate([points, rod]), np.concatenate([normals, facing]), resolution=64)
    guide = made.surface.guide
    deep = 3000 + np.flatnonzero((height > 0.2) & (height < 0.8))
    assert np.isin(deep, guide.buried).mean() > 0.95
    high = 3000 + np.flatnonzero(height > 1.2)
    top = np.flatnonzero((points[:, 2] == 1) & (np.linalg.norm(points[:, :2], axis=1) < 0.3))
    assert not np.isin(high, guide.buried).any() and np.isin(guide.buried[guide.buried < 3000], top).all()
    vertices = made.mesh.vertices
    within = (np.abs(vertices) < 0.8).all(axis=1) & (np.linalg.norm(vertices[:, :2], axis=1) > 0.31)
    assert np.linalg.norm(vertices[within, :2], axis=1).max() < 0.3 + 2 * FIRM * 0.09  # halfway would be 0.65
