"""Reflectance: pairs of directions as half and difference angles, the coordinates of isotropic reflectance.

In come unit directions towards the light, `wi`, and towards the eye, `wo`, (P, 3) each, in a frame whose z axis is the
surface normal; out go `angles` (P, 3) in radians, and back:

    theta_h  between the normal and the half vector h = (wi + wo) / |wi + wo|,
    theta_d  between h and wi,
    phi_d    azimuth of wi around h, in [0, 2 pi), from the side of h that points away from the normal.

The azimuth of h itself is left out: turning both directions about the normal changes nothing in an isotropic material.
Swapping wi and wo turns phi_d by pi. Where an angle is zero the azimuth about it has no meaning; it is then 0.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from cnf.errors import ConstraintError

TURN = 2 * math.pi


def half_difference(wi: Tensor, wo: Tensor) -> Tensor:
    """Angles (P, 3) of pairs of unit directions (P, 3), differentiable where the angles are."""
    check_columns(wi, 3, "directions wi")
    check_columns(wo, 3, "directions wo")
    total = wi + wo
    length = root(total.square().sum(-1))
    up = total.new_tensor([0.0, 0.0, 1.0])
    h = torch.where((length > 0)[:, None], total / torch.where(length > 0, length, 1.0)[:, None], up)  # opposite: any
    across = root(h[:, 0].square() + h[:, 1].square())  # sin theta_h
    safe = torch.where(across > 0, across, 1.0)
    c, s = torch.where(across > 0, h[:, 0] / safe, 1.0), torch.where(across > 0, h[:, 1] / safe, 0.0)  # of phi_h
    x, y, z = c * wi[:, 0] + s * wi[:, 1], c * wi[:, 1] - s * wi[:, 0], wi[:, 2]  # turned about the normal by -phi_h
    difference = torch.stack([h[:, 2] * x - across * z, y, across * x + h[:, 2] * z], -1)  # and by -theta_h about y
    return torch.stack([torch.atan2(across, h[:, 2]), *polar(difference)], -1)


def directions(angles: Tensor) -> tuple[Tensor, Tensor]:
    """Unit directions wi and wo, (P, 3) each, whose half vector has azimuth 0."""
    check_columns(angles, 3, "angles")
    c, s = angles[:, 0].cos(), angles[:, 0].sin()
    x, y, z = spherical(angles[:, 1], angles[:, 2])
    wi = torch.stack([c * x + s * z, y, c * z - s * x], -1)
    wo = torch.stack([s * z - c * x, -y, c * z + s * x], -1)  # the same with the opposite azimuth about h
    return wi, wo


def encode(angles: Tensor) -> Tensor:
    """The half vector at azimuth 0 and the difference vector, (P, 6): smooth where the angles jump.

    >>> angles = torch.tensor([[0.0, 0.0, 0.0], [0.3, 0.5, 1.0]], dtype=torch.float64)  # theta_h, theta_d, phi_d
    >>> cnf.materials.encode(angles).shape
    torch.Size([2, 6])
    """
    check_columns(angles, 3, "angles")
    zero = torch.zeros_like(angles[:, 0])
    return torch.stack(
        [angles[:, 0].sin(), zero, angles[:, 0].cos(), *spherical(angles[:, 1], angles[:, 2])],
        -1,
    )


def decode(encoded: Tensor) -> Tensor:
    """The angles (P, 3) of encoded pairs (P, 6); neither vector needs unit length.

    >>> angles = torch.tensor([[0.0, 0.0, 0.0], [0.3, 0.5, 1.0]], dtype=torch.float64)  # theta_h, theta_d, phi_d
    >>> bool(torch.allclose(cnf.materials.decode(cnf.materials.encode(angles)), angles))
    True
    """
    check_columns(encoded, 6, "encoded pairs")
    theta_h, _ = polar(encoded[:, :3])
    return torch.stack([theta_h, *polar(encoded[:, 3:])], -1)


def cosines(angles: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines between the normal and wi, and between the normal and wo, (P,) each."""
    check_columns(angles, 3, "angles")
    middle = angles[:, 0].cos() * angles[:, 1].cos()
    apart = angles[:, 0].sin() * angles[:, 1].sin() * angles[:, 2].cos()
    return middle - apart, middle + apart


def above_horizon(angles: Tensor, least: float = 0.0) -> Tensor:
    """Whether both directions are on the normal's side, (P,) bool: both cosines above `least`."""
    cos_i, cos_o = cosines(angles)
    return (cos_i > least) & (cos_o > least)


def spherical(theta: Tensor, phi: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """x, y, z of unit vectors."""
    return theta.sin() * phi.cos(), theta.sin() * phi.sin(), theta.cos()


def polar(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Angle from the z axis and azimuth in [0, 2 pi) of vectors (P, 3); azimuth 0 on the axis."""
    x, y, z = vectors.unbind(-1)
    across = root(x.square() + y.square())
    off = across > 0
    phi = torch.atan2(torch.where(off, y, 0.0), torch.where(off, x, 1.0))
    phi = torch.where(phi < 0, phi + TURN, phi)
    return torch.atan2(across, z), torch.where(phi < TURN, phi, 0.0)  # a tiny negative azimuth rounds to a full turn


def root(square: Tensor) -> Tensor:
    """Square root with gradient 0 at 0 instead of infinity."""
    positive = square > 0
    return torch.where(positive, torch.where(positive, square, 1.0).sqrt(), 0.0)


def check_columns(values: object, columns: int, what: str) -> None:
    """Refuse what is not a tensor of (P, columns) floating-point numbers."""
    if not isinstance(values, Tensor):
        raise ConstraintError(f"{what} must be a tensor of shape (P, {columns}), got {type(values).__name__}")
    if values.ndim != 2 or values.shape[1] != columns or not values.is_floating_point():
        raise ConstraintError(
            f"{what} have shape {tuple(values.shape)} of {values.dtype}; expected (P, {columns}) floating-point numbers"
        )
