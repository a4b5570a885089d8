"""Found again: do patches give a known field back from what equations and boundary make of it?

Fields are linear in their data. One that begins with a known field as its base and makes up for the rest differs from
one that begins with nothing by what is lost of the known field when it is found again from its conditions: next to
nothing if these determine a field, as much as guides and rounding leave open if they do so barely, most of it if they
leave something free. Conditions of first order leave more than constants free: around a hole, what flows round it is
open where normal components are given all along the boundary, and no count of conditions tells.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from scipy import ndimage
from torch import Tensor, nn

from cnf.pde.domains import Domain
from cnf.pde.patches.building import build_field
from cnf.pde.patches.orders import Orders
from cnf.pde.patches.probes import Probes
from cnf.pde.patches.question import Question
from cnf.pde.patches.rounds import Round, field_difference, solved
from cnf.pde.patches.shaped import Shaped

WAVES = 8  # in every channel
PACE = 0.7  # radians over half the domain
LATTICE = 256  # points along a coordinate: smaller holes are not seen


class KnownField(nn.Module):
    """Smooth waves, and z -> 1 / (z - c) around places c (H, 2) outside the domain; as large as `sizes` (C,) say."""

    def __init__(self, domain: Domain, sizes: Tensor, places: np.ndarray, seed: int):
        super().__init__()
        draw = torch.Generator().manual_seed(seed)
        channels, half = len(sizes), float(np.subtract(domain.upper, domain.lower).max()) / 2

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=draw, dtype=torch.float64)

        self.sizes, self.reach, self.places = sizes, half, torch.from_numpy(places)
        self.paces, self.phases = PACE / half * normal(2, channels, WAVES), math.pi * normal(channels, WAVES)
        self.around = normal(2, channels, len(places))

    def forward(self, x: Tensor) -> Tensor:
        """(P, 2) -> (P, C)."""
        waves = torch.sin(torch.einsum("pd,dcw->pcw", x, self.paces) + self.phases).sum(dim=2) / math.sqrt(WAVES / 2)
        if not len(self.places):
            return self.sizes * waves
        apart = x[:, None] - self.places  # (P, H, 2)
        turned = apart / apart.square().sum(dim=2, keepdim=True)
        return self.sizes * (waves + self.reach * torch.einsum("phd,dch->pc", turned, self.around))


def lost_share(
    found: Round, question: Question, orders: Orders, probes: Probes, places: np.ndarray | None = None
) -> float:
    """How much of a known field, as large as the one that was found, patches lose; with poles at `places` (H, 2).

    Of equations of first order on planar shapes; others have other ways to tell, and lose nothing here.
    """
    if not (orders.first and isinstance(found.mesh.shaped, Shaped)):
        return 0.0
    with torch.no_grad():
        sizes = probes.size(found.solution(probes.points)).clamp_min(1e-300)
    known = KnownField(question.domain, sizes, np.zeros((0, 2)) if places is None else places, question.seed)
    other = solved(build_field(question, orders, replace(found.mesh, base=known)))
    return field_difference(found.solution, other, probes, question.asked)


def holes_of(domain: Domain) -> np.ndarray:
    """The place deepest inside every hole of a planar domain, (H, 2)."""
    axes = [np.linspace(a, b, LATTICE) for a, b in zip(domain.lower, domain.upper, strict=True)]
    lattice = np.stack(np.meshgrid(*axes, indexing="ij"), axis=2)
    outside = np.pad(~domain._inside(lattice.reshape(-1, 2)).reshape(LATTICE, LATTICE), 1, constant_values=True)
    labels, count = ndimage.label(outside)
    depth = ndimage.distance_transform_edt(outside)
    inner = [k for k in range(1, count + 1) if k != labels[0, 0]]
    deepest = np.array(ndimage.maximum_position(depth, labels, inner), dtype=np.int64).reshape(-1, 2)
    return lattice[tuple((deepest - 1).T)]
