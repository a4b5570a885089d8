"""Reflectance: any material as a `.bsdf` file that renderers read, such as Mitsuba's `measured` or powitacq.

A `Material` comes in, a file as described in `rgl.py` goes out. The warp of that format fits the grid to a highlight
that is being measured; a known material needs no such help. So `vndf` and `ndf` are constant, the warp does nothing,
and `rgb` is the reflectance times the cosine of the light on a grid in the elevation of the eye, and in sqrt(theta_h)
and the azimuth of the half vector. Along theta_h its nodes are those of MERL's table and the points half way between
them, so that the highlight of a `Table` is kept as it is; the azimuth has a node every two degrees, the elevation every
three above the surface and ever more towards it. Highlights grow as one over the cosine of the eye: most of that factor
goes into `sigma`, whose grid is fine. Importance sampling stays exact: `luminance` holds the density of the reflected
light on the same grid.

Below the horizon the grid continues f cos with the sign of the cosine: renderers never show those nodes, but they
interpolate between them and the last ones above it, and so see no step.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cnf.errors import ConstraintError
from cnf.materials.reflectance.angles import cosines
from cnf.materials.reflectance.material import Material
from cnf.materials.reflectance.tensor_file import write_tensor_file

ELEVATIONS, RESOLUTION = 61, 181
FINE, SOFTENED = 1024, 0.1  # nodes of sigma, and what keeps it above 0
LEAST_COSINES = (1e-3, 0.02, 0.051, 0.1)  # how far an unknown pair is lifted above the horizon, in this order
DEEPEST = -0.2  # cosine below the horizon beyond which the continuation stays constant
SPARE = 1e-3  # share of samples that goes everywhere, so that no light is missed between nodes
LUMINANCE = (0.2126, 0.7152, 0.0722)


def write_rgl(path: object, material: Material, elevations: int = ELEVATIONS, resolution: int = RESOLUTION) -> Path:
    """Write an isotropic `.bsdf` file in RGB; its size is 16 `elevations` `resolution`^2 bytes, 32 MB by default.

    A `resolution` of 90 n + 1 keeps the nodes of MERL's table along theta_h.
    """
    if not 2 <= elevations <= 512 or not 2 <= resolution <= 1024:
        raise ConstraintError(
            f"{elevations} elevations and a resolution of {resolution}; expected 2 to 512 and 2 to 1024"
        )
    theta = (1 - torch.linspace(1, 0, elevations, dtype=torch.float64).square()) * (math.pi / 2)  # dense at grazing
    rgb = np.empty((1, elevations, 3, resolution, resolution), np.float32)
    luminance = np.empty((1, elevations, resolution, resolution), np.float32)
    weights = torch.tensor(LUMINANCE, dtype=torch.float64)
    with torch.no_grad():
        for number, elevation in enumerate(theta.tolist()):
            angles, spread = half_vectors(elevation, resolution)
            value = continued(material, angles)
            if not torch.isfinite(value).all():
                raise ConstraintError(f"{material.label} is not finite everywhere; nothing was written")
            scale = math.cos(elevation) + SOFTENED
            rgb[0, number] = (value.T * scale).reshape(3, resolution, resolution).numpy()
            density = (value.clamp(min=0.0) @ weights) * spread
            density = density + SPARE * density.mean() + 1e-6
            luminance[0, number] = density.reshape(resolution, resolution).numpy()
    text = f"{material.label}, resampled".encode()
    area = np.cos(np.linspace(0, 1, FINE) ** 2 * (math.pi / 2)) + SOFTENED
    return write_tensor_file(
        path,
        {
            "description": np.frombuffer(text, np.uint8),
            "phi_i": np.zeros(1, np.float32),
            "theta_i": theta.numpy().astype(np.float32),
            "sigma": np.stack([area, area]).astype(np.float32) / 4,
            "ndf": np.ones((2, 2), np.float32),
            "vndf": np.ones((1, elevations, 2, 2), np.float32),
            "luminance": luminance,
            "rgb": rgb,
            "jacobian": np.ones(1, np.uint8),
        },
    )


def half_vectors(elevation: float, resolution: int) -> tuple[Tensor, Tensor]:
    """Angles (R R, 3) of the eye at one elevation with every half vector of the grid, and the light each stands for.

    The latter (R R,) is the solid angle of light per area of the unit square, 0 for half vectors seen from below.
    """
    place = torch.linspace(0, 1, resolution, dtype=torch.float64)
    y, x = (axis.flatten() for axis in torch.meshgrid(place, place, indexing="ij"))
    theta, phi = x.square() * (math.pi / 2), (2 * y - 1) * math.pi  # of the half vector; the eye has azimuth 0
    sine, cosine = theta.sin(), theta.cos()
    # The eye in the frame of the half vector: turned by -phi about the normal, then by -theta about y.
    across, aside = math.sin(elevation) * phi.cos(), -math.sin(elevation) * phi.sin()
    along = sine * across + cosine * math.cos(elevation)  # cosine of theta_d
    tilted = cosine * across - sine * math.cos(elevation)
    theta_d = torch.atan2(torch.hypot(tilted, aside), along)
    phi_d = torch.atan2(-aside, -tilted).remainder(2 * math.pi)  # of the light, opposite to the eye
    spread = 2 * math.pi**2 * x * sine * 4 * along.clamp(min=0.0)
    return torch.stack([theta, theta_d, phi_d], -1), spread


def continued(material: Material, angles: Tensor) -> Tensor:
    """Reflectance times the cosine of the light (P, 3), continued below the horizon and where nothing is known.

    There the reflectance is that of the nearest known pair with the same half vector: highlights keep their place.
    """
    f, unknown = material(angles), ~material.valid(angles)
    for least in LEAST_COSINES:
        rows = unknown.nonzero()[:, 0]
        if len(rows) == 0:
            break
        lifted = lift(angles[rows], least)
        f[rows] = material(lifted)
        unknown[rows] = ~material.valid(lifted)
    return f * cosines(angles)[0].clamp(min=DEEPEST)[:, None]


def lift(angles: Tensor, least: float) -> Tensor:
    """Pairs with both cosines at `least` or more, theta_d as near to the given one as that allows, phi_d kept."""
    theta_h = angles[:, 0].clamp(max=math.acos(least) * (1 - 1e-9))
    middle, apart = theta_h.cos(), theta_h.sin() * angles[:, 2].cos().abs()
    # The lower cosine, middle cos(theta_d) - apart sin(theta_d), is one cosine of theta_d + atan2(apart, middle).
    most = torch.acos((least / torch.hypot(middle, apart)).clamp(max=1.0)) - torch.atan2(apart, middle)
    theta_d = torch.minimum(angles[:, 1], (most * (1 - 1e-9)).clamp(min=0.0))
    return torch.stack([theta_h, theta_d, angles[:, 2]], -1)
