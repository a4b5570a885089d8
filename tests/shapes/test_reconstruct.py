"""Reconstruction as a whole, on shapes whose answer is known: the unit sphere and the knot the project makes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from cnf.errors import CnfError
from cnf.shapes.clouds.cloud import PointCloud
from cnf.shapes.clouds.generated import TUBE, knot_curve, sample_knot
from cnf.shapes.clouds.preparation import prepare_cloud
from cnf.shapes.reconstruction.reconstruct import reconstruct


def sphere(count: int = 300) -> np.ndarray:
    """Points of the unit sphere on a golden spiral; each is its own outward normal."""
    k = np.arange(count) + 0.5
    height, angle = 1 - 2 * k / count, np.pi * (1 + 5**0.5) * k
    around = np.sqrt(1 - height**2)
    return np.stack([around * np.cos(angle), around * np.sin(angle), height], axis=1)


@pytest.mark.parametrize(("mode", "solver"), [("exact", "sparse"), ("exact", "blend"), ("pseudo", "sparse")])
def test_sphere(mode: str, solver: str):
    """Area 4 pi, volume 4 pi / 3, Euler number 2; exact normals to 1e-9, by autograd of the field as well."""
    x = sphere()
    made = reconstruct(x, x, resolution=32, normals_mode=mode, solver=solver)
    assert made.certificate.exact and made.value_error <= 1e-9
    assert made.mesh.is_watertight and made.mesh.components == 1 and made.mesh.euler == 2
    assert made.mesh.volume == pytest.approx(4 * np.pi / 3, rel=0.01)
    assert made.mesh.area == pytest.approx(4 * np.pi, rel=0.01)
    if mode == "exact":
        assert made.normal_error <= 1e-9
        at = torch.from_numpy(made.cloud.points).requires_grad_()
        (slopes,) = torch.autograd.grad(made.surface.solution(at)[:, 0].sum(), at)
        assert np.abs(slopes.numpy() - made.cloud.normals).max() <= 1e-9
    else:
        assert made.normal_error > 1e-6  # offsets meet normals only roughly, and the measure must say so


def test_the_paper_s_solve_per_query():
    """Pseudo-normals, one small system per node: closed, of the right volume, values met at the points."""
    x = sphere(200)
    made = reconstruct(x, x, resolution=16, normals_mode="pseudo", solver="local")
    assert made.certificate.exact and made.mesh.is_watertight
    assert made.mesh.volume == pytest.approx(4 * np.pi / 3, rel=0.05)


def test_snapped_points_are_vertices_and_far_coordinates_come_back():
    """A sphere of radius 50 around a point 5e6 away: every point is a vertex to the rounding of its coordinates."""
    unit, centre = sphere(), np.array([5e6, 4e5, 100.0])
    x = centre + 50 * unit
    made = reconstruct(x, unit, resolution=32, snap=True)
    gaps = np.linalg.norm(made.mesh.vertices[:, None] - x[None, ::10], axis=2).min(axis=0)
    assert gaps.max() <= 4e-9
    assert made.mesh.euler == 2


def test_knot():
    """A closed tube: Euler number 0, and every vertex TUBE away from the curve, to the error of 1000 points."""
    cloud = sample_knot(1000)
    made = reconstruct(cloud, resolution=64)
    assert made.mesh.is_watertight and made.mesh.components == 1 and made.mesh.euler == 0
    curve = knot_curve(np.linspace(0, 2 * np.pi, 2000))[0]
    away = np.linalg.norm(made.mesh.vertices[::50, None] - curve[None], axis=2).min(axis=1)
    assert np.abs(away - TUBE).max() <= 0.05 * TUBE
    assert set(made.mesh.attributes) == {"normals", "colours"}


def test_attributes_are_met_at_the_points():
    """Values 95 to 105 given at the points are there on a mesh through the points, to 1e-9."""
    x = sphere()
    heat = 100 + 5 * np.sin(3 * x[:, :1])
    made = reconstruct(PointCloud(x, x, {"heat": heat}), resolution=24, snap=True)
    apart = np.linalg.norm(made.mesh.vertices[:, None] - x[None], axis=2)
    assert np.abs(made.mesh.attributes["heat"][apart.argmin(axis=0)] - heat).max() <= 1e-9


def test_far_from_the_points_the_sign_is_right():
    """Beyond every support: positive outside, negative in the middle of the sphere."""
    x = sphere(2000)
    narrow, default = (reconstruct(x, x, resolution=16, neighbours=count).surface for count in (55, None))
    assert narrow.support < 0.4
    for surface in (narrow, default):
        assert surface.values(np.array([[0.0, 0.0, 3.0], [2.0, -2.0, 0.5]])).min() > 0.5
        assert surface.values(np.zeros((1, 3)))[0] < -0.5


def test_what_does_not_fit_is_told():
    """Uneven spacing and normals that are not the points': a note each; none for the clean sphere."""
    x = sphere(600)
    assert not reconstruct(x, x, resolution=16).notes
    uneven = np.concatenate([x[:250], x[250::40]])
    for solver, told in {"sparse": True, "blend": False}.items():  # patches have a support for every density
        notes = reconstruct(uneven, uneven, resolution=16, solver=solver).notes
        assert any("unevenly spaced" in note for note in notes) is told
    crooked = np.roll(x, 1, axis=1)
    assert any("degrees off the planes" in note for note in reconstruct(x, crooked, resolution=16).notes)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"normals_mode": "soft"}, "exact"),
        ({"solver": "magic"}, "blend"),
        ({"solver": "local"}, "pseudo"),
        ({"resolution": 20.5}, "resolution"),
        ({"resolution": 5000}, "4096"),
        ({"neighbours": 1}, "neighbours"),
        ({"support": -1.0}, "radius"),
        ({"offset": 0.0}, "offset"),
        ({"refinements": 9}, "split"),
        ({"flatness": float("nan")}, "flatness"),
        ({"points": [["a", "b", "c"]]}, "numbers"),
        ({"points": sphere() + 1j}, "complex"),
        ({"points": PointCloud(sphere(), sphere())}, "its own normals"),
    ],
)
def test_refusals(change: dict, words: str):
    """One line that names what is wrong."""
    with pytest.raises(CnfError, match=words) as caught:
        reconstruct(**{"points": sphere(), "normals": sphere(), **change})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("mode", ["exact", "pseudo"])
@pytest.mark.parametrize("solver", ["blend", "sparse"])
def test_doubtful_normals_are_left_free(mode: str, solver: str):
    """A sphere whose cloud has twelve wrong normals that are marked doubtful, beside a colour x at all points.

    The field is zero at those twelve points too; its gradient there is near the true normal, not the wrong one, and
    they are no part of what is measured. The colour, linear, holds at all points.
    """
    x = sphere()
    cloud = prepare_cloud(PointCloud(x, x, {"red": x[:, :1]}))
    rows = np.arange(5, 300, 25)
    wrong = cloud.normals.copy()
    wrong[rows] = wrong[rows][:, [1, 2, 0]]
    made = reconstruct(
        replace(cloud, normals=wrong, doubtful=rows, estimated=True), resolution=32, normals_mode=mode, solver=solver
    )
    assert made.certificate.exact and made.value_error <= 1e-9
    assert "points without normals" in made.certificate.residuals
    found = made.surface.slopes(made.cloud.points)[rows]
    assert np.abs(found[:, 0]).max() <= 1e-9
    slopes = found[:, 1:] / np.linalg.norm(found[:, 1:], axis=1, keepdims=True)
    assert (slopes * cloud.normals[rows]).sum(axis=1).min() > 0.95
    assert made.mesh.components == 1 and made.mesh.euler == 2
    if mode == "exact":
        assert made.normal_error <= 1e-9
