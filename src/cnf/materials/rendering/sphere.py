"""A sphere of some material under an environment map, rendered without noise.

In: a reflectance (angles (P, 3) -> linear RGB (P, 3)) and an `Environment`. Out: linear radiance (size, size, 3), row 0
up. The camera is far away; the sphere fills the picture but for a small margin.

Light at a pixel is the integral of reflectance x radiance x cosine over the hemisphere. Each ring of the sphere has one
set of nodes (`quadrature`), spread once over a map with its pole at the camera (`transport`); correlating that with the
environment's map along its columns, by FFT, gives the light of the whole ring at once. Nodes that stand for a wide cone
of directions meet a map blurred as widely, which keeps small bright lights from being missed or hit by chance. The same
nodes serve all materials, so pictures of similar materials differ only by what the materials differ in.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import scipy.fft
import scipy.sparse
import torch
from torch import Tensor

from cnf.errors import ConstraintError
from cnf.materials.rendering.environments import Environment, bilinear_cells, polar_levels, polar_lookup
from cnf.materials.rendering.transport import Transport, sphere_transport

Reflectance = Callable[[Tensor], Tensor]  # angles (P, 3) -> (P, 3)
Validity = Callable[[Tensor], Tensor]  # angles (P, 3) -> (P,) bool
Background = Literal["black", "environment"]

STEPS = 112  # circles of half vectors around the normal
MAP_ROWS, LEVELS = 256, 5
FILL = 0.96  # the sphere's diameter over the picture's width
PARTS = 4  # a pixel is the mean of PARTS x PARTS points
BATCH = 2**17  # angles per call of the reflectance
BACKDROP_LEVEL, BACKDROP_VIEW = 4, 55.0  # how blurred the background is, and how many degrees of it are seen


@dataclass(frozen=True, eq=False)
class Scene:
    """All that does not depend on the material; made by `prepare_scene`, used for any number of materials.

    >>> scene = cnf.materials.prepare_scene(cnf.materials.studio(16), size=8, steps=8)
    >>> picture = scene.render(cnf.materials.Lambert())
    >>> bool((picture[scene.mask] > 0).all())
    True
    """

    size: int
    transport: Transport
    spectrum: np.ndarray  # (3, rows, columns / 2 + 1) of the stacked maps along their columns, conjugate
    pixels: scipy.sparse.csr_matrix  # (size^2, rings * columns) from the light on rings to pixels
    coverage: Tensor  # (size, size) the sphere's share of each pixel
    backdrop: Tensor  # (size, size, 3) the blurred environment behind the sphere

    @property
    def mask(self) -> Tensor:
        """(size, size) bool: pixels that lie wholly on the sphere."""
        return self.coverage == 1

    def reflect(self, reflectance: Reflectance, valid: Validity | None = None) -> Tensor:
        """Reflectance (P, 3) at all nodes; 0 where `valid` says no."""
        angles = self.transport.angles
        out = torch.empty(len(angles), 3, dtype=torch.float64)
        for start in range(0, len(out), BATCH):
            part = angles[start : start + BATCH]
            with torch.no_grad():
                values = reflectance(part)
                if values.shape != part.shape:
                    shapes = f"shape {tuple(values.shape)} for angles {tuple(part.shape)}"
                    raise ConstraintError(f"a reflectance gave {shapes}; expected (P, 3) for (P, 3)")
                out[start : start + BATCH] = values if valid is None else torch.where(valid(part)[:, None], values, 0)
        wrong = int((~torch.isfinite(out)).any(1).sum())
        if wrong:
            raise ConstraintError(
                f"the reflectance is not finite at {wrong} of {len(out)} angles; pass valid= to leave them out"
            )
        return out

    def light_rings(self, values: Tensor) -> Tensor:
        """Light (rings, columns, 3) around each ring, for reflectance (P, 3) at all nodes."""
        transport, channels = self.transport, values.T.contiguous().numpy()
        light = np.empty((transport.rings, 3, transport.columns))
        for ring in range(transport.rings):
            response = np.stack([transport.spread(ring, channel) for channel in channels])
            product = np.einsum("krf,krf->kf", scipy.fft.rfft(response, axis=2), self.spectrum)
            light[ring] = scipy.fft.irfft(product.conj(), n=transport.columns, axis=1)
        return torch.from_numpy(light.transpose(0, 2, 1))

    def render(
        self, reflectance: Reflectance, valid: Validity | None = None, background: Background = "black"
    ) -> Tensor:
        """Linear radiance (size, size, 3); pixels on the edge are blended with the background."""
        light = self.light_rings(self.reflect(reflectance, valid))
        picture = torch.from_numpy(self.pixels @ light.reshape(-1, 3).numpy()).reshape(self.size, self.size, 3)
        if background == "environment":
            picture = picture + (1 - self.coverage[..., None]) * self.backdrop
        return picture


def prepare_scene(environment: Environment, size: int = 256, steps: int = STEPS, rings: int | None = None) -> Scene:
    """A scene for any number of materials; the last few are remembered.

    `steps` sets the nodes per ring (about 0.75 steps^2), `rings` how many rings (by default three for four pixels of
    the picture's width). Reflectance is asked for at 0.75 steps^2 rings angles.

    >>> scene = cnf.materials.prepare_scene(cnf.materials.studio(16), size=8, steps=8)
    >>> picture = scene.render(cnf.materials.Lambert())
    >>> picture.shape, scene.mask.shape
    (torch.Size([8, 8, 3]), torch.Size([8, 8]))
    """
    rings = max(32, 3 * size // 4) if rings is None else rings
    if not (8 <= size <= 2048 and 8 <= steps <= 512 and 4 <= rings <= 2048):
        raise ConstraintError(
            f"a picture of size {size} with {steps} steps and {rings} rings was asked for; expected 8 to 2048 pixels, "
            "8 to 512 steps, 4 to 2048 rings"
        )
    levels, spectrum = prepare_light(environment)
    transport = sphere_transport(rings, steps, tuple(len(level) for level in levels), levels[0].shape[1])
    pixels, coverage = ring_pixels(size, rings, transport.columns)
    return Scene(size, transport, spectrum, pixels, coverage, view_backdrop(levels[BACKDROP_LEVEL], size))


def render_sphere(
    reflectance: Reflectance,
    environment: Environment,
    size: int = 256,
    valid: Validity | None = None,
    exposure: float = 1.0,
    background: Background = "black",
) -> Tensor:
    """Linear radiance (size, size, 3) of a sphere of this reflectance, times `exposure`.

    >>> cnf.materials.render_sphere(cnf.materials.Lambert(), cnf.materials.studio(16), size=8).shape
    torch.Size([8, 8, 3])
    """
    return prepare_scene(environment, size).render(reflectance, valid, background) * exposure


@lru_cache(maxsize=4)
def prepare_light(environment: Environment) -> tuple[list[Tensor], np.ndarray]:
    """The environment's blurred maps, and the conjugate spectra (3, rows, F) of all of them stacked."""
    levels = polar_levels(environment, MAP_ROWS, LEVELS)
    stacked = torch.cat(levels).permute(2, 0, 1).contiguous().numpy()
    return levels, scipy.fft.rfft(stacked, axis=2).conj()


@lru_cache(maxsize=2)
def ring_pixels(size: int, rings: int, columns: int) -> tuple[scipy.sparse.csr_matrix, Tensor]:
    """The matrix from light on rings to pixels, and the sphere's share of each pixel (size, size).

    Column k of a ring is the point at azimuth 2 pi k / columns in the picture, counterclockwise from the right.
    """
    points = ((torch.arange(size * PARTS, dtype=torch.float64) + 0.5) / (size * PARTS) * 2 - 1) / FILL
    x, y = points[None, :].expand(size * PARTS, -1), -points[:, None].expand(-1, size * PARTS)
    radius = torch.hypot(x, y)
    inside = radius < 1
    number = torch.arange(size * PARTS) // PARTS
    pixel = (number[:, None] * size + number[None, :])[inside]
    down = torch.asin(radius[inside]) / math.pi  # the rings are the upper half of a map of 2 rings rows
    around = torch.atan2(y[inside], x[inside]) / (2 * math.pi) + 0.5 / columns  # at k, where maps have k + 1/2
    index, weight = bilinear_cells(2 * rings, columns, down, around % 1.0)
    index = torch.where(index >= rings * columns, index - columns, index)  # beyond the last ring: the last ring
    places = pixel.repeat_interleave(4).numpy(), index.reshape(-1).numpy()
    shape = (size * size, rings * columns)
    matrix = scipy.sparse.csr_matrix(((weight / PARTS**2).reshape(-1).numpy(), places), shape=shape)
    coverage = torch.bincount(pixel, minlength=size * size).double() / PARTS**2
    return matrix, coverage.reshape(size, size)


def view_backdrop(level: Tensor, size: int) -> Tensor:
    """What the camera sees behind the sphere (size, size, 3): straight ahead is -z, the last row of a polar map."""
    reach = math.tan(math.radians(BACKDROP_VIEW / 2))
    points = ((torch.arange(size, dtype=torch.float64) + 0.5) / size * 2 - 1) * reach
    x, y = points[None, :].expand(size, -1), -points[:, None].expand(-1, size)
    directions = torch.nn.functional.normalize(torch.stack([x, y, -torch.ones_like(x)], -1), dim=-1)
    return polar_lookup(level, directions.reshape(-1, 3)).reshape(size, size, 3)
