"""Curves through points of the plane: exact at the points, closed, and where the true curve is."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from cnf.errors import CnfError
from cnf.shapes.clouds.cloud import PointCloud
from cnf.shapes.clouds.preparation import prepare_cloud
from cnf.shapes.planar import curve as planar_curve
from cnf.shapes.planar.curve import PlanarCurve, fit_curve
from cnf.shapes.planar.fields import Size

CENTRE, AXES = np.array([100.0, 50.0]), np.array([10.0, 6.0])


def ellipse(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and outward normals of an ellipse with half axes 10 and 6 around (100, 50)."""
    t = np.linspace(0, 2 * np.pi, count, endpoint=False)
    unit = np.stack([np.cos(t), np.sin(t)], axis=1)
    normals = unit / AXES
    return CENTRE + AXES * unit, normals / np.linalg.norm(normals, axis=1, keepdims=True)


def off_ellipse(curve: np.ndarray) -> float:
    """Largest |1 - |(x - c) / axes||: 1e-3 is about 0.01 of length here."""
    return float(np.abs(np.linalg.norm((curve - CENTRE) / AXES, axis=1) - 1).max())


@cache
def fitted(count: int) -> PlanarCurve:
    """Through so many points of the ellipse, with exact normals."""
    return fit_curve(prepare_cloud(PointCloud(*ellipse(count))), side=121)


def test_an_ellipse_with_exact_normals():
    """24 points: one closed curve through all of them, within 1e-2 of the ellipse, area 60 pi to 1 %."""
    found = fitted(24)
    assert found.field.certificate.exact
    assert found.value_error <= 1e-10
    assert found.normal_error <= 1e-10
    assert len(found.curves) == found.closed == 1
    (curve,) = found.curves
    assert off_ellipse(curve) <= 1e-2
    x, y = curve[:-1].T
    area = 0.5 * abs(float(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))))
    assert area == pytest.approx(60 * np.pi, rel=1e-2)


def test_vertices_lie_on_the_zero_set():
    """Newton's method: |d| at every vertex is rounding, not the size of a cell."""
    found = fitted(24)
    (curve,) = found.curves
    scaled = found.prepared.from_input(curve)
    value, _ = planar_curve.slopes_at(found.field.solution, planar_curve.torch.as_tensor(scaled))
    assert float(value.abs().max()) <= 1e-9


def test_more_points_come_closer():
    """The curve between the points: four times fewer misses from 12 to 24 points, at least."""
    misses = [off_ellipse(fitted(count).curves[0]) for count in (12, 24)]
    assert misses[1] <= misses[0] / 4


def test_normals_that_are_not_given_are_estimated():
    """60 points without normals: one closed curve, gradients outward to a few degrees."""
    points, normals = ellipse(60)
    found = fit_curve(prepare_cloud(PointCloud(points), neighbours=6), side=81)
    assert found.prepared.estimated
    assert len(found.curves) == found.closed == 1
    directions = found.gradients / np.linalg.norm(found.gradients, axis=1, keepdims=True)
    assert ((directions * normals[found.prepared.rows]).sum(axis=1) > np.cos(np.deg2rad(10))).all()


def test_pseudo_normals_are_less_exact():
    """Values hold, normals only about: worse than 1e-6, where exact ones are below 1e-10."""
    points, normals = ellipse(24)
    found = fit_curve(prepare_cloud(PointCloud(points, normals)), "pseudo", offset=0.5, side=61)
    assert found.value_error <= 1e-10
    assert 1e-6 < found.normal_error < 0.5
    offsets = found.field.constraints[1].points.numpy() - found.prepared.points
    assert np.linalg.norm(offsets, axis=1) == pytest.approx(np.full(24, 0.5 / found.prepared.scale))


def test_many_points_take_the_kernel_of_few(monkeypatch: pytest.MonkeyPatch):
    """Kernel and width chosen with 20 of 70 points: all 210 conditions hold, one closed curve."""
    monkeypatch.setattr(planar_curve, "SCANNED", 20)
    points, normals = ellipse(70)
    found = fit_curve(prepare_cloud(PointCloud(points, normals)), side=61)
    assert found.field.certificate.conditions == 210
    assert found.field.certificate.exact
    assert len(found.curves) == found.closed == 1
    assert off_ellipse(found.curves[0]) <= 1e-3


def test_training():
    """A hypernet kernel trained for a few epochs is as exact as without."""
    points, normals = ellipse(9)
    size = Size(hidden=40, features=24, epochs=3, points=60, rate=1e-4)
    found = fit_curve(prepare_cloud(PointCloud(points, normals)), train=True, size=size, side=41)
    assert found.course is not None
    assert len(found.course.loss) == 3
    assert found.normal_error <= 1e-12


@pytest.mark.parametrize(
    ("options", "part"),
    [({"normals": "soft"}, "'exact' or 'pseudo'"), ({"train": True}, "at most 60 points")],
)
def test_refusals(options: dict, part: str):
    points, normals = ellipse(80)
    with pytest.raises(CnfError, match=part):
        fit_curve(prepare_cloud(PointCloud(points, normals)), **options)


def test_only_the_plane():
    points = np.random.default_rng(0).normal(size=(30, 3))
    prepared = prepare_cloud(PointCloud(points, points / np.linalg.norm(points, axis=1, keepdims=True)))
    with pytest.raises(CnfError, match="3 coordinates"):
        fit_curve(prepared)
