"""Probes: points at which fields are compared, and what share of the domain every one of them stands for.

Uniform points miss a field that is large, or off, in a small part of the domain only: nothing can be said of it then.
Cells are small where much happens, so each of them gets points of its own, on top of uniform ones; a point counts the
less the denser others are around it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from cnf.bases.cells import Cells
from cnf.pde.domains import Domain

UNIFORM = 2000
PER_CELL = 16
ELSEWHERE = 104729  # added to the seed, so that no condition has these points


@dataclass(frozen=True)
class Probes:
    """`points` (P, D) inside a domain and their `shares` (P,) of it, which add up to one; drawn by a seed."""

    points: Tensor
    shares: Tensor
    seed: int = 0
    _known: dict[int, tuple[Cells, Domain, Probes]] = field(default_factory=dict, repr=False, compare=False)

    @staticmethod
    def of(domain: Domain, seed: int, count: int = UNIFORM) -> Probes:
        """Uniform points, `count` of them."""
        return Probes.all_alike(domain.fill(count, "halton", seed + ELSEWHERE), seed)

    @staticmethod
    def all_alike(points: Tensor, seed: int = 0) -> Probes:
        """Points (P, D) that all stand for as much."""
        return Probes(points, torch.full((len(points),), 1 / len(points), dtype=torch.float64), seed)

    def within(self, cells: Cells, domain: Domain) -> Probes:
        """These, which are uniform, and more in every one of the cells that lies in the domain.

        They are kept: what lies inside is dear to know where a mesh has to be asked.
        """
        known = self._known.get(id(cells))
        if known is None or known[0] is not cells or known[1] is not domain:
            known = self._known[id(cells)] = cells, domain, self._drawn(cells, domain)
        return known[2]

    def _drawn(self, cells: Cells, domain: Domain) -> Probes:
        low, width = cells.lower[:, None], (cells.upper - cells.lower)[:, None]
        unit = np.random.default_rng(self.seed + ELSEWHERE).uniform(size=(cells.count, PER_CELL, cells.dimension))
        drawn = (low + width * unit).reshape(-1, cells.dimension)
        points = np.concatenate([self.points.numpy(), drawn[domain._inside(drawn)]])
        # How many points there are per volume: so many in the domain, and in every cell so many more.
        dense = len(self.points) / domain.volume + PER_CELL / np.prod(cells.upper - cells.lower, axis=1)  # (cells,)
        shares = 1 / dense[cells.locate(points)]
        return Probes(torch.from_numpy(points), torch.from_numpy(shares / shares.sum()), self.seed)

    def mean(self, values: Tensor) -> Tensor:
        """Over the domain, of values (P, C) at the points, (C,)."""
        return (self.shares[:, None] * values).sum(dim=0)

    def size(self, values: Tensor) -> Tensor:
        """The root of the mean square of values (P, C), (C,)."""
        return self.mean(values.square()).sqrt()
