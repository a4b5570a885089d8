"""Lobes: angles of the plane of incidence from geometry, slices of materials that are known in closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from cnf.errors import ConstraintError
from cnf.materials.reflectance import GGX, Lambert
from cnf.materials.report.lobes import draw_lobes, plane_angles, slice_curves

pytest.importorskip("matplotlib")


@pytest.mark.parametrize("incidence", [0.0, 15.0, 70.0])
def test_angles_in_the_plane(incidence):
    """In a plane the half vector is half way: theta_h = |eye - incidence| / 2, theta_d = |eye + incidence| / 2."""
    eye = np.linspace(-88, 88, 45)
    found = np.degrees(plane_angles(incidence, eye).numpy())
    np.testing.assert_allclose(found[:, 0], np.abs(eye - incidence) / 2, atol=1e-6)
    np.testing.assert_allclose(found[:, 1], np.abs(eye + incidence) / 2, atol=1e-6)


def test_a_diffuse_material_is_flat():
    """Lambert of albedo 0.6 has luminance 0.6 / pi in every direction."""
    part = slice_curves([("Lambert", Lambert((0.6, 0.6, 0.6)))], 45.0)
    np.testing.assert_allclose(part.values[0], 0.6 / math.pi, rtol=1e-4)  # the weights of luminance sum to 1


@pytest.mark.parametrize("incidence", [0.0, 15.0, 45.0, 70.0])
def test_the_enlarged_part_holds_the_peak(incidence):
    """A narrow highlight has its maximum at the mirror direction: sampled exactly, and inside the enlarged part."""
    part = slice_curves([("GGX", GGX("gold", 0.02))], incidence)
    assert part.eye[np.argmax(part.values[0])] == pytest.approx(incidence, abs=0.2)
    assert incidence in part.eye
    assert part.near[0] < incidence < part.near[1]
    assert part.near[1] - part.near[0] < 20


def test_pictures_are_written(tmp_path):
    """A reference alone; with fits, of which one is NaN, one zero and one far too bright; and other angles."""
    gold = GGX("gold", 0.1)
    fits = [
        ("NBRDF", lambda a: gold(a) * math.nan),
        ("siren", lambda a: gold(a) * 0),
        ("mine", lambda a: gold(a) * 1e9),
    ]
    for name, curves, incidence in (("one", [], (45.0,)), ("all", fits, (0.0, 80.0))):
        path = draw_lobes([("GGX gold", gold), *curves], tmp_path / f"{name}.png", "gold", incidence)
        assert path.read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_drawn_is_refused(tmp_path):
    """No curves, a dark or NaN reference, a wrong shape, light from below: one clear line each."""
    gold = GGX("gold", 0.1)
    cases = [
        ([], (45.0,), "at least one curve"),
        ([("dark", lambda a: torch.zeros_like(a))], (45.0,), "'dark' is dark or not finite"),
        ([("lost", lambda a: torch.full_like(a, math.nan))], (45.0,), "'lost' is dark or not finite"),
        ([("gold", gold), ("grey", lambda a: a[:, 0])], (45.0,), "'grey' gave"),
        ([("gold", gold)], (), "angles of incidence"),
        ([("gold", gold)], (95.0,), "angles of incidence"),
    ]
    for curves, incidence, message in cases:
        with pytest.raises(ConstraintError, match=message):
            draw_lobes(curves, tmp_path / "x.png", "", incidence)
    assert not list(tmp_path.iterdir())
