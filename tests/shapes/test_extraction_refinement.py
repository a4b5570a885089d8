"""Vertices onto the zero set, midpoints onto the zero set: distances known in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from cnf.errors import ConstraintError
from cnf.meshes.mesh import Mesh
from cnf.shapes.reconstruction.extraction import extract
from cnf.shapes.reconstruction.refinement import project, refine
from tests.shapes.analytic import ONE, RADIUS, sphere, sphere_slopes, spread, torus, torus_points, torus_slopes

RESOLUTION = 41
STEP = 2 / (RESOLUTION - 1)


@pytest.fixture(scope="module")
def rough() -> Mesh:
    """A torus as marching cubes leaves it."""
    return extract(lambda x: torus_slopes(x)[:, 0], torus_points(500), -ONE, ONE, RESOLUTION, reach=0.3).mesh


def deviation(mesh: Mesh) -> float:
    """Mean distance from random places on the mesh to the torus."""
    return float(np.abs(torus(mesh.sample(20_000, seed=1)[0])).mean())


def test_projected_vertices_lie_on_the_surface(rough: Mesh):
    """To 1e-12 and better, by at most three evaluations each, and no face turns over."""
    result = project(rough, torus_slopes, STEP / 2)
    assert np.abs(torus(rough.vertices)).max() > 1e-4
    assert np.abs(torus(result.mesh.vertices)).max() < 1e-14
    assert (result.left, result.moved) == (0, len(rough.vertices))
    assert result.evaluations <= 3 * len(rough.vertices)
    assert np.all(np.sum(result.mesh.face_normals * rough.face_normals, axis=1) > 0)


def test_prediction_spares_evaluations():
    """On a fine grid two evaluations reach rounding, and no third is made."""
    mesh = extract(sphere, spread(300), -ONE, ONE, 101, reach=0.3).mesh
    result = project(mesh, sphere_slopes, 0.01)
    assert np.abs(np.linalg.norm(result.mesh.vertices, axis=1) - RADIUS).max() < 1e-14
    assert result.evaluations < 2.2 * len(mesh.vertices)


def test_no_convergence_leaves_vertices_in_place(rough: Mesh):
    """Of the cube of the distance Newton's steps shrink by two thirds only: nothing can be trusted, nothing moves."""

    def cubed(x):
        found = torus_slopes(x)
        return np.concatenate([found[:, :1] ** 3, 3 * found[:, :1] ** 2 * found[:, 1:]], axis=1)

    result = project(rough, cubed, STEP / 2)
    assert np.abs(result.mesh.vertices - rough.vertices).max() < 1e-14  # a few lie on the torus already
    assert result.left > 0.99 * len(rough.vertices)


def test_gradient_zero_and_far_surfaces_leave_vertices_in_place(rough: Mesh):
    """A constant field has no direction to go; a torus shifted by ten steps is too far away."""
    still = project(rough, lambda x: np.tile([1.0, 0, 0, 0], (len(x), 1)), STEP / 2)
    far = project(rough, lambda x: torus_slopes(x + np.array([0, 0, 10 * STEP])), STEP / 2)
    assert still.moved == 0
    assert np.linalg.norm(far.mesh.vertices - rough.vertices, axis=1).max() <= STEP / 2


def test_refined_error_is_four_times_smaller(rough: Mesh):
    """Four faces for each, the same Euler number, closed, all vertices on the torus, mean distance a quarter."""
    flat = project(rough, torus_slopes, STEP / 2).mesh
    result = refine(flat, torus_slopes, STEP / 2)
    assert len(result.mesh.faces) == 4 * len(flat.faces)
    assert result.mesh.is_watertight
    assert result.mesh.euler == 0
    assert np.abs(torus(result.mesh.vertices)).max() < 1e-12
    assert 3.7 < deviation(flat) / deviation(result.mesh) < 4.3
    assert result.mesh.areas.min() > 0


def test_adaptive_refinement_splits_only_what_bends():
    """A long ellipsoid bends at its ends: with a tolerance faces are fewer, and no edge left whole is farther off."""
    axes = np.array([1.0, 0.2, 0.2])

    def slopes(x):
        scaled = x / axes
        length = np.linalg.norm(scaled, axis=1, keepdims=True)
        return np.concatenate([length - 1, scaled / axes / length], axis=1)

    mesh = extract(lambda x: slopes(x)[:, 0], spread(500, 1.0) * axes, -ONE, ONE, RESOLUTION, reach=0.3).mesh
    mesh = project(mesh, slopes, STEP / 2).mesh
    tolerance = 5e-4
    result = refine(mesh, slopes, STEP / 2, tolerance=tolerance)
    assert 1.2 * len(mesh.faces) < len(result.mesh.faces) < 3 * len(mesh.faces)
    assert result.mesh.is_watertight
    assert result.mesh.euler == 2
    whole = mesh.edges[
        np.isin(mesh.edges @ [len(mesh.vertices) * 9, 1], result.mesh.edges @ [len(mesh.vertices) * 9, 1])
    ]
    found = slopes(mesh.vertices[whole].mean(axis=1))
    assert len(whole) > 100
    assert np.all(np.abs(found[:, 0]) <= tolerance * np.linalg.norm(found[:, 1:], axis=1) * (1 + 1e-9))


def test_attributes_are_carried_along(rough: Mesh):
    """Midpoints take the mean of the ends."""
    result = refine(rough.with_attributes(height=rough.vertices[:, 2]), torus_slopes, STEP / 2, tolerance=1e-3)
    count = len(rough.vertices)
    assert result.mesh.attributes["height"].shape == (len(result.mesh.vertices), 1)
    assert np.array_equal(result.mesh.attributes["height"][:count, 0], rough.vertices[:, 2])
    moved = np.abs(result.mesh.attributes["height"][count:, 0] - result.mesh.vertices[count:, 2])
    assert moved.max() < STEP / 2


def test_refusals(rough: Mesh):
    with pytest.raises(ConstraintError, match="farthest"):
        project(rough, torus_slopes, 0.0)
    with pytest.raises(ConstraintError, match="value and gradient"):
        project(rough, torus, STEP)
