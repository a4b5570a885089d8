"""Diffused jumps: what diffusion makes of data that jump at a moment, which no polynomial follows.

Around (x0, t0) such solutions are sums of tau^m (P_m(xi) erfc(side xi) + Q_m(xi) e^{-xi^2}), with tau = sqrt(t - t0),
xi = (x - x0) / (2 sqrt(kappa) tau) and polynomials P_m, Q_m. Their weights follow from the data alone, so they are no
columns but the known part of a field: its base. Every derivative of such a sum is one of the same kind,

    d/dx tau^e phi(xi) = tau^(e - 1) phi' / (2 sqrt(kappa)),   d/dt tau^e phi(xi) = tau^(e - 2) (e phi - xi phi') / 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.polynomial import polynomial
from torch import Tensor

from cnf.bases.part import Part
from cnf.errors import BasisError
from cnf.operators.jets import MultiIndex

MOST_ORDERS, MOST_POWERS, MOST_PLACES = 40, 100, 1000
EARLIEST = 1e-30  # after a jump, of the unit of time: a limit that is reached by then


class DiffusedJumps(Part):
    """One channel over one coordinate of space and time, the second coordinate.

    `places` (J, 4): x0, t0, kappa and side (1 or -1) of every jump; `powers` (J, 2, M + 1, N): coefficients of
    P_m and Q_m by powers of xi. A jump does nothing before its time.

    >>> places = torch.tensor([[0.0, 0.0, 1.0, 1.0]], dtype=torch.float64)  # x0, t0, kappa, side
    >>> jumps = cnf.bases.DiffusedJumps(places, torch.ones(1, 2, 1, 1, dtype=torch.float64))
    >>> jumps(torch.tensor([[0.5, -1.0]], dtype=torch.float64)).tolist()  # before its time
    [[0.0]]
    """

    def __init__(self, places: Tensor, powers: Tensor):
        super().__init__()
        shapes = places.dim() == 2 and places.shape[1] == 4 and powers.dim() == 4 and powers.shape[1] == 2
        if not shapes or powers.shape[0] != places.shape[0] or not 0 < powers.shape[0] <= MOST_PLACES:
            raise BasisError("diffused jumps have places (J, 4) and coefficients (J, 2, M + 1, N)")
        if not (0 < powers.shape[2] <= MOST_ORDERS and 0 < powers.shape[3] <= MOST_POWERS):
            raise BasisError(f"diffused jumps have up to {MOST_ORDERS} orders and {MOST_POWERS} powers")
        self.places, self.powers = (t.detach().to(torch.float64).cpu().numpy() for t in (places, powers))
        finite = np.isfinite(self.places).all() and np.isfinite(self.powers).all()
        if not finite or not (self.places[:, 2] > 0).all() or not (np.abs(self.places[:, 3]) == 1).all():
            raise BasisError("diffused jumps need finite numbers, positive diffusion, and 1 or -1 for the side")

    def config(self) -> dict:
        return {"places": torch.from_numpy(self.places), "powers": torch.from_numpy(self.powers)}

    def forward(self, x: Tensor) -> Tensor:
        """(P, 2) -> (P, 1)."""
        return self.derivatives(x, [(0, 0)])[0, 0]

    def derivatives(self, x: Tensor, indices: Sequence[MultiIndex]) -> dict[MultiIndex, Tensor]:
        """Derivatives by their multi-indices, each (P, 1)."""
        found = {index: x.new_zeros(x.shape[0]) for index in indices}
        for (x0, t0, kappa, side), powers in zip(self.places.tolist(), self.powers, strict=True):
            since = x[:, 1] - t0
            tau = since.clamp_min(EARLIEST).sqrt()
            xi = (x[:, 0] - x0) / (2 * math.sqrt(kappa) * tau)
            parts = torch.special.erfc(side * xi), torch.exp(-xi.square())
            for index in indices:
                own, lost = differentiated(powers, side, kappa, index)
                total = torch.zeros_like(tau)
                for m in range(own.shape[1]):
                    if own[:, m].any():
                        each = (_horner(c, xi) * part for c, part in zip(own[:, m], parts, strict=True))
                        total = total + tau ** (m - lost) * sum(each)
                found[index] = found[index] + torch.where(since >= 0, total, 0.0)
        return {index: value[:, None] for index, value in found.items()}

    def extra_repr(self) -> str:
        return f"{len(self.places)} jumps"


def differentiated(powers: np.ndarray, side: float, kappa: float, index: MultiIndex) -> tuple[np.ndarray, int]:
    """Coefficients (2, M + 1, N') of a derivative of tau^m phi_m, and how much smaller the exponents of tau are."""
    lost, found = 0, powers
    for _ in range(index[0]):
        found, lost = slopes(found, side) / (2 * math.sqrt(kappa)), lost + 1
    for _ in range(index[1]):
        exponents = np.arange(found.shape[1]) - lost
        slope = slopes(found, side)
        wide = np.zeros((*slope.shape[:2], slope.shape[2] + 1))
        wide[:, :, 1:] = -slope / 2
        wide[:, :, : found.shape[2]] += exponents[:, None] / 2 * found
        found, lost = wide, lost + 2
    return found, lost


def slopes(powers: np.ndarray, side: float) -> np.ndarray:
    """phi' for phi = P erfc(side xi) + Q e^{-xi^2}: P' and Q' - 2 xi Q - 2 side P / sqrt(pi), (2, M + 1, N + 1)."""
    found = np.zeros((*powers.shape[:2], powers.shape[2] + 1))
    inner = polynomial.polyder(powers, axis=2)
    found[:, :, : inner.shape[2]] = inner
    found[1, :, 1:] -= 2 * powers[1]
    found[1, :, :-1] -= 2 * side / math.sqrt(math.pi) * powers[0]
    return found


def _horner(coefficients: np.ndarray, xi: Tensor) -> Tensor:
    total = torch.zeros_like(xi)
    for c in reversed(coefficients.tolist()):
        total = total * xi + c
    return total
