"""RandomFourier: cosines with random frequencies; wide and well behaved, the default for smooth fields."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cnf.bases.basis import Evaluator, SnapshotBasis
from cnf.bases.chain import side_by_side
from cnf.bases.kernels import Bandwidth, positive_lengths
from cnf.bases.properties import Properties
from cnf.constraints import Space
from cnf.errors import BasisError
from cnf.fetching import placed
from cnf.operators.detail import Even
from cnf.operators.expansion import Request
from cnf.operators.forward import MultiIndex


class RandomFourier(SnapshotBasis):
    """Psi_j(x) = sqrt(2/N) cos(omega_j . x / bandwidth + b_j), omega_j standard normal, b_j uniform.

    Their minimum-norm combination behaves like interpolation with a Gaussian kernel of that bandwidth, but is solved in
    feature space, which loses half as many digits. The bandwidth (one, or one per coordinate) is learnable.

    >>> basis = cnf.bases.RandomFourier(cnf.Space("x t", "u"), size=32, bandwidth=[0.2, 0.5])
    >>> basis(cnf.Box([0, 0], [1, 1]).random(7)).shape, basis.bandwidth.tolist()
    (torch.Size([7, 32]), [0.2, 0.5])
    """

    properties = Properties("fair", "good", False, False, True, True, "any order")

    directions: Tensor  # (N, D)
    phases: Tensor  # (N,)

    def __init__(self, space: Space, size: int, bandwidth: Bandwidth = 0.2, seed: int = 0):
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise BasisError(f"size is the number of basis functions, a whole number of at least 1; got {size!r}")
        super().__init__(space, size)
        width = positive_lengths(bandwidth, "bandwidth")
        if tuple(width.shape) not in ((), (self.dimension,)):
            raise BasisError(
                f"bandwidth of shape {tuple(width.shape)} given; expected a number or {self.dimension}, one "
                "per coordinate"
            )
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**63:
            raise BasisError(f"the seed is a whole number from 0 to 2^63 - 1; got {seed!r}")
        generator = torch.Generator().manual_seed(seed)
        self.seed = seed
        self.register_buffer("directions", torch.randn(size, self.dimension, dtype=torch.float64, generator=generator))
        self.register_buffer("phases", 2 * math.pi * torch.rand(size, dtype=torch.float64, generator=generator))
        self.log_bandwidth = nn.Parameter(width.log())

    @property
    def bandwidth(self) -> Tensor:
        """The bandwidth, () or (D,), with its gradient."""
        return self.log_bandwidth.exp()

    def snapshot(self) -> Evaluator:
        return Waves(self.directions / self.bandwidth, self.phases, math.sqrt(2 / self.size))

    def known_detail(self) -> Even:
        return Even((self.directions / self.bandwidth).abs().amax(dim=0).detach().to(torch.float64).cpu().numpy())

    def config(self) -> dict:
        width = self.bandwidth.detach().tolist()
        return {"space": self.space, "size": self.size, "bandwidth": width, "seed": self.seed}


@dataclass(frozen=True)
class Waves:
    """d^alpha cos(z) = omega^alpha cos(z + |alpha| pi/2): two trigonometric matrices serve every operator."""

    omega: Tensor  # (N, D)
    phases: Tensor  # (N,)
    scale: float

    def rows(self, x: Tensor, requests: Sequence[Request]) -> Tensor:
        z = torch.addmm(self.phases, x, self.omega.T)  # (P, N)
        waves: dict[int, Tensor] = {}
        parts = []
        for request in requests:
            row: Tensor | None = None
            for parity in (0, 1):
                factor = self._factor({a: w for a, w in request.weights.items() if sum(a) % 2 == parity})
                if factor is None:
                    continue
                if parity not in waves:
                    waves[parity] = torch.cos(z) if parity == 0 else torch.sin(z)
                part = factor * waves[parity]
                row = part if row is None else row + part
            assert row is not None
            parts.append(row)
        return side_by_side(parts)

    def _factor(self, weights: dict[MultiIndex, Tensor]) -> Tensor | None:
        """sum_alpha w_alpha sign_alpha omega^alpha, (P, N) or (1, N)."""
        if not weights:
            return None
        columns, powers = [], []
        for index, weight in weights.items():
            sign = -1.0 if sum(index) % 4 in (1, 2) else 1.0
            power = torch.full_like(self.phases, sign * self.scale)
            for k, order in enumerate(index):
                if order:
                    power = power * self.omega[:, k] ** order
            powers.append(power)
            columns.append(placed(weight, self.phases).reshape(-1))
        rows = max(c.shape[0] for c in columns)
        stacked = torch.stack([c.expand(rows) for c in columns], dim=1)  # (P, K)
        return stacked @ torch.stack(powers)  # (P, N)
