"""Half and difference angles: against explicit rotations, round trips, and places where angles degenerate."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from cnf.errors import ConstraintError
from cnf.materials.reflectance import above_horizon, cosines, decode, directions, encode, half_difference


def hemisphere(count: int, seed: int) -> np.ndarray:
    """Unit vectors with positive z, uniform over the hemisphere."""
    vectors = np.random.default_rng(seed).normal(size=(count, 3))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[:, 2] = np.abs(vectors[:, 2])
    return vectors


def turn_about_normal(vectors: torch.Tensor, angle: float) -> torch.Tensor:
    """The vectors turned about z."""
    return torch.from_numpy(Rotation.from_euler("z", angle).apply(vectors.numpy()))


def test_angles_are_those_of_the_rotated_light():
    """theta_h from arccos of h, and d = Ry(-theta_h) Rz(-phi_h) wi with SciPy's rotations, give the same angles."""
    wi, wo = hemisphere(500, 0), hemisphere(500, 1)
    found = half_difference(torch.from_numpy(wi), torch.from_numpy(wo)).numpy()
    for i, o, (theta_h, theta_d, phi_d) in zip(wi, wo, found, strict=True):
        h = (i + o) / np.linalg.norm(i + o)
        polar, azimuth = math.acos(h[2]), math.atan2(h[1], h[0])
        d = (Rotation.from_euler("y", -polar) * Rotation.from_euler("z", -azimuth)).apply(i)
        assert abs(theta_h - polar) < 1e-12
        assert abs(theta_d - math.acos(d @ [0, 0, 1])) < 1e-7  # arccos near 1 loses half of the digits
        assert np.allclose(
            [math.sin(theta_d) * math.cos(phi_d), math.sin(theta_d) * math.sin(phi_d)], d[:2], atol=1e-14
        )
        assert 0 <= phi_d < 2 * math.pi


def test_directions_come_back_up_to_a_turn(pairs):
    """Angles -> directions -> a turn about the normal by 1 radian -> the same angles, since none sees the turn."""
    wi, wo = directions(pairs)
    assert torch.allclose(wi.norm(dim=1), torch.ones(len(pairs), dtype=torch.float64), atol=1e-14)
    back = half_difference(turn_about_normal(wi, 1.0), turn_about_normal(wo, 1.0))
    assert torch.allclose(encode(back), encode(pairs), atol=1e-12)


def test_half_vectors_of_directions_lie_at_azimuth_zero():
    """Directions -> angles -> directions, then turned by the azimuth of the first half vector: the first directions."""
    wi, wo = torch.from_numpy(hemisphere(300, 2)), torch.from_numpy(hemisphere(300, 3))
    back_i, back_o = directions(half_difference(wi, wo))
    h = (wi + wo).numpy()
    turn = Rotation.from_euler("z", np.arctan2(h[:, 1:2], h[:, 0:1]))
    assert np.allclose(turn.apply(back_i.numpy()), wi.numpy(), atol=1e-13)
    assert np.allclose(turn.apply(back_o.numpy()), wo.numpy(), atol=1e-13)
    assert np.allclose((back_i + back_o)[:, 1].numpy(), 0, atol=1e-15)


def test_encoding_and_back(pairs):
    """The code is the half vector in the xz plane and the difference vector, two unit vectors; decoding undoes it."""
    code = encode(pairs)
    wi, wo = directions(pairs)
    half = torch.nn.functional.normalize(wi + wo, dim=1)
    assert torch.allclose(code[:, :3], half, atol=1e-13)
    assert torch.allclose(code[:, 3:].norm(dim=1), torch.ones(len(code), dtype=torch.float64), atol=1e-14)
    assert torch.allclose(decode(code), pairs, atol=1e-12)
    assert torch.allclose(decode(3 * code), pairs, atol=1e-12)  # lengths do not matter


def test_cosines_are_the_heights_of_the_directions(pairs):
    """cos_i and cos_o are z of wi and wo, and the horizon is where either is `least`."""
    wi, wo = directions(pairs)
    cos_i, cos_o = cosines(pairs)
    assert torch.allclose(cos_i, wi[:, 2], atol=1e-15)
    assert torch.allclose(cos_o, wo[:, 2], atol=1e-15)
    for least in (0.0, 0.3):
        assert torch.equal(above_horizon(pairs, least), (cos_i > least) & (cos_o > least))
    assert 0.1 < above_horizon(pairs).double().mean() < 0.9  # both kinds are among them


def test_swapping_light_and_eye_turns_phi_by_pi(pairs):
    """Light and eye swapped: theta_h, theta_d stay, phi_d moves by half a turn."""
    wi, wo = directions(pairs)
    assert torch.allclose(
        encode(half_difference(wo, wi)),
        encode(pairs + torch.tensor([0, 0, math.pi], dtype=torch.float64)),
        atol=1e-12,
    )


@pytest.mark.parametrize(
    ("wi", "wo", "angles"),
    [
        ((0, 0, 1), (0, 0, 1), (0, 0, 0)),  # both along the normal
        ((0.6, 0, 0.8), (-0.6, 0, 0.8), (0, math.asin(0.6), 0)),  # mirrored in the normal: theta_h = 0
        ((0, -0.6, 0.8), (0, 0.6, 0.8), (0, math.asin(0.6), 3 * math.pi / 2)),
        ((0, 0.6, 0.8), (0, 0.6, 0.8), (math.asin(0.6), 0, 0)),  # light behind the eye: theta_d = 0
        ((1, 0, 0), (-1, 0, 0), (0, math.pi / 2, 0)),  # both grazing, opposite: no half vector, the normal stands in
        ((1, 0, 0), (1, 0, 0), (math.pi / 2, 0, 0)),
        ((1, 0, 0), (0, 0, 1), (math.pi / 4, math.pi / 4, 0)),
        ((0, 0, 1), (1, 0, 0), (math.pi / 4, math.pi / 4, math.pi)),
    ],
)
def test_special_places(wi, wo, angles):
    """Where a half vector or an azimuth degenerates the angles are finite and as worked out by hand, and so are
    gradients.
    """
    first = torch.tensor([wi], dtype=torch.float64, requires_grad=True)
    second = torch.tensor([wo], dtype=torch.float64, requires_grad=True)
    found = half_difference(first, second)
    assert torch.allclose(found, torch.tensor([angles], dtype=torch.float64), atol=1e-12)
    encode(found).sum().backward()
    assert torch.isfinite(first.grad).all() and torch.isfinite(second.grad).all()


def test_phi_never_reaches_a_full_turn():
    """An azimuth of -1e-20 is 0, not 2 pi, whose index in a table would be one too far."""
    code = torch.tensor([[0.0, 0.0, 1.0, 0.5, -1e-20, 0.5]], dtype=torch.float64)
    assert decode(code)[0, 2] == 0


def test_gradients():
    """Derivatives of angles with respect to directions agree with finite differences (torch.autograd.gradcheck)."""
    wi = torch.from_numpy(hemisphere(5, 4)).requires_grad_()
    wo = torch.from_numpy(hemisphere(5, 5)).requires_grad_()
    assert torch.autograd.gradcheck(half_difference, (wi, wo))
    angles = half_difference(wi, wo).detach().requires_grad_()
    assert torch.autograd.gradcheck(lambda a: decode(encode(a)), (angles,))
    assert torch.autograd.gradcheck(cosines, (angles,))


def test_single_precision_stays_single(pairs):
    """float32 in, float32 out, within its rounding of the float64 answer."""
    single = encode(half_difference(*directions(pairs.float())))
    assert single.dtype == torch.float32
    assert torch.allclose(single.double(), encode(pairs), atol=2e-5)


@pytest.mark.parametrize("bad", [torch.zeros(3), torch.zeros(2, 4), torch.zeros(2, 3, dtype=torch.long), [[0, 0, 0]]])
def test_refuses_what_are_no_angles(bad):
    """A wrong shape, whole numbers or a list are refused with the expected shape."""
    with pytest.raises(ConstraintError, match=r"\(P, 3\)"):
        cosines(bad)
