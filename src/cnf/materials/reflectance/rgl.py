"""Reflectance: `.bsdf` files of the RGL database, measured in Dupuy and Jakob's adaptive parameterisation (2018).

In comes a path, out goes a `Material`. A file describes f_r times the cosine of the light, for an isotropic surface, as

    rgb(warp(u_m; theta); theta) ndf(u_m) / (4 sigma(u)),    u = (sqrt(2 theta / pi), (phi + pi) / (2 pi)),

theta the elevation of the eye, m the half vector with its azimuth counted from that of the eye, `ndf` the distribution
of microfacet normals, `sigma` their projected area, and warp the map that makes the density `vndf` of the normals
visible from the eye uniform: it spreads the highlight over the whole grid of `rgb`. Path tracers start at the eye and
call it the incident direction; hence the file's `theta_i` belongs to our wo. The roles matter: measurements are
reciprocal only up to their noise.

Values are kept where both cosines exceed 0.05: beyond, the cosine divides noise. Negative values, noise or the third
channel of a colour too saturated for RGB, count as 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cnf.errors import FileError
from cnf.files import as_path
from cnf.materials.reflectance.angles import above_horizon, cosines, directions
from cnf.materials.reflectance.material import Material, evaluate_in_chunks, simplify_name
from cnf.materials.reflectance.tensor_file import read_tensor_file
from cnf.materials.reflectance.warps import GridStack, MarginalWarp, Slices

LEAST_COSINE = 0.05
AXES = {"phi_i": 1, "theta_i": 1, "ndf": 2, "sigma": 2, "vndf": 4, "rgb": 5}
LARGEST_GRID = 2**27  # numbers in one field: a gigabyte once they are float64


@dataclass(frozen=True, eq=False)
class RglMeasured(Material):
    """An isotropic measurement of the RGL database, evaluated as its authors define it, in float64."""

    name: str
    label: str
    description: str
    theta_i: Tensor  # (S,) ascending
    ndf: Tensor  # (H, W): rows along the azimuth, columns along sqrt(theta), here and below
    sigma: Tensor  # (H, W)
    vndf: Tensor  # (S, H, W)
    rgb: Tensor  # (S, H, W, 3)
    scaled: bool = True  # whether ndf / (4 sigma) is a factor of the value, or already in `rgb`
    distribution: GridStack = field(init=False, repr=False)
    area: GridStack = field(init=False, repr=False)
    warp: MarginalWarp = field(init=False, repr=False)
    colours: GridStack = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "distribution", GridStack(self.ndf[None]))
        object.__setattr__(self, "area", GridStack(self.sigma[None]))
        object.__setattr__(self, "warp", MarginalWarp(self.vndf))
        object.__setattr__(self, "colours", GridStack(self.rgb))

    def valid(self, angles: Tensor) -> Tensor:
        """Both cosines above 0.05, (P,) bool."""
        return above_horizon(angles, LEAST_COSINE)

    def __call__(self, angles: Tensor) -> Tensor:
        """Linear RGB reflectance (P, 3): 0 where not valid, and where noise made the measurement negative."""

        def evaluate(part: Tensor) -> Tensor:
            f = self.weighted(part) / cosines(part)[0].clamp(min=LEAST_COSINE)[:, None]
            return torch.where(self.valid(part)[:, None], f.clamp(min=0.0), 0.0)

        return evaluate_in_chunks(evaluate, angles.double()).to(angles.dtype)

    def weighted(self, angles: Tensor) -> Tensor:
        """The measured quantity, f_r times the cosine of wi, (P, 3), as it is: negative values, any direction."""
        _, wo = directions(angles)  # the half vector has azimuth 0
        theta = torch.atan2(wo[:, :2].norm(dim=1), wo[:, 2])
        slices, single = Slices.at(theta, self.theta_i), Slices.at(theta, self.theta_i[:1])
        x, y = stretch(angles[:, 0]), turn(-torch.atan2(wo[:, 1], wo[:, 0]))
        value = self.colours(*self.warp(x, y, slices), slices)
        if not self.scaled:
            return value
        # The area of an isotropic surface is the same from every side; azimuth 0 serves for all.
        area = self.area(stretch(theta), torch.full_like(theta, 0.5), single)
        return value * (self.distribution(x, y, single) / (4 * area))[:, None]


def stretch(theta: Tensor) -> Tensor:
    """Elevation in [0, pi / 2] as a coordinate in [0, 1], dense towards the normal."""
    return (theta.clamp(0, math.pi / 2) * (2 / math.pi)).sqrt()


def turn(phi: Tensor) -> Tensor:
    """Azimuth as a coordinate in [0, 1), periodic."""
    u = (phi + math.pi) / (2 * math.pi)
    return u - u.floor()


def read_rgl(path: object) -> RglMeasured:
    """Read an isotropic `.bsdf` file in RGB; spectral and anisotropic ones are refused."""
    source = as_path(path)
    fields = read_tensor_file(source)
    if "spectra" in fields and "rgb" not in fields:
        raise FileError(f"{source} holds spectra; take the file of the same material that ends in _rgb.bsdf")
    grids = {name: check_grid(fields, name, axes, source) for name, axes in AXES.items()}
    phi, theta, rgb, vndf = grids["phi_i"], grids["theta_i"], grids["rgb"], grids["vndf"]
    if len(phi) > 1:
        raise FileError(f"{source} is anisotropic ({len(phi)} azimuths); only isotropic materials are read")
    if theta[0] < 0 or theta[-1] > 1.6 or not (theta[1:] > theta[:-1]).all():
        raise FileError(f"{source} is damaged: its theta_i do not ascend from 0 to pi / 2")
    if vndf.shape[:2] != (1, len(theta)) or rgb.shape[:3] != (1, len(theta), 3):
        raise FileError(
            f"{source} is damaged: vndf {tuple(vndf.shape)} and rgb {tuple(rgb.shape)} do not fit {len(theta)} theta_i"
        )
    if any(min(grids[name].shape[-2:]) < 2 for name in ("ndf", "sigma", "vndf", "rgb")):
        raise FileError(f"{source} is damaged: a grid has fewer than two nodes along an axis")
    if min(grids["ndf"].min(), vndf.min()) < 0 or grids["sigma"].min() <= 0 or not (vndf.amax((0, 2, 3)) > 0).all():
        raise FileError(f"{source} is damaged: ndf and vndf must be at least 0 and sigma above it")
    stem = source.stem.removesuffix("_rgb")
    return RglMeasured(
        name=simplify_name(stem),
        label=f"RGL {simplify_name(stem)}",
        description=read_description(fields),
        theta_i=theta,
        ndf=grids["ndf"],
        sigma=grids["sigma"],
        vndf=vndf[0],
        rgb=rgb[0].permute(0, 2, 3, 1).contiguous(),
        scaled=bool(np.any(fields.get("jacobian", np.ones(1)))),
    )


def check_grid(fields: dict[str, np.ndarray], name: str, axes: int, source: Path) -> Tensor:
    """A field of the file as float64, if it is there, of the right rank and finite."""
    if name not in fields:
        there = ascii(", ".join(fields))[:200]
        raise FileError(f"{source} is no measured BRDF: it has no field {name!r}; its fields are {there}")
    values = fields[name]
    if values.ndim != axes or values.size == 0 or values.dtype.kind != "f":
        raise FileError(f"{source} is damaged: its field {name!r} has shape {values.shape} of {values.dtype}")
    if values.size > LARGEST_GRID:
        raise FileError(f"{source}: its field {name!r} has {values.size} numbers; at most {LARGEST_GRID} are read")
    if not np.isfinite(values).all():
        raise FileError(f"{source} is damaged: its field {name!r} is not finite everywhere")
    return torch.from_numpy(values.astype(np.float64))


def read_description(fields: dict[str, np.ndarray]) -> str:
    """The text that comes with the measurement, on one line; empty if there is none."""
    given = fields.get("description", np.zeros(0, np.uint8))
    if given.dtype != np.uint8:
        return ""
    text = given.tobytes()[:1000].decode("utf-8", errors="replace")
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
