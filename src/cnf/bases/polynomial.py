"""Polynomial: all monomials up to a total degree, in coordinates moved to a centre and scaled."""

from __future__ import annotations

from collections.abc import Sequence
from math import perm

import torch
from torch import Tensor

from cnf.bases.basis import Basis, check_space, values_request
from cnf.bases.monomials import list_exponents
from cnf.bases.properties import Properties
from cnf.constraints import Space
from cnf.errors import BasisError
from cnf.operators.detail import Even
from cnf.operators.expansion import Request, combine, wanted
from cnf.operators.forward import MultiIndex


class Polynomial(Basis):
    """prod_k ((x_k - center_k) / scale_k)^n_k with n_1 + ... + n_D <= degree.

    Choose `center` and `scale` so that the domain becomes about [-1, 1]: high powers of large numbers lose digits.

    >>> basis = cnf.bases.Polynomial(cnf.Space("x y", "u"), degree=2)
    >>> basis.size, basis(cnf.Box([0, 0], [1, 1]).random(7)).shape
    (6, torch.Size([7, 6]))
    """

    properties = Properties("none", "poor", False, False, True, True, "any order")

    center: Tensor  # (D,)
    scale: Tensor  # (D,)

    def __init__(
        self,
        space: Space,
        degree: int,
        center: float | Sequence[float] = 0.0,
        scale: float | Sequence[float] = 1.0,
    ):
        check_space(space)
        dimension = len(space.coordinates)
        exponents = sorted(list_exponents(dimension, degree), key=lambda e: (sum(e), e))
        super().__init__(space, len(exponents))
        self.degree, self.exponents = degree, exponents
        self.register_buffer("center", torch.as_tensor(center, dtype=torch.float64).expand(dimension).clone())
        self.register_buffer("scale", torch.as_tensor(scale, dtype=torch.float64).expand(dimension).clone())
        if not bool((self.scale > 0).all()):
            raise BasisError(f"the scale of a polynomial basis is positive; got {scale!r}")

    @property
    def shared(self) -> bool:
        return True

    def known_detail(self) -> Even:
        """As a Chebyshev polynomial of that degree: cos(degree arccos z)."""
        return Even((self.degree / self.scale).to(torch.float64).cpu().numpy())

    def rows(self, x: Tensor, requests: Sequence[Request]) -> Tensor:
        return combine({index: self._derivative(x, index) for index in wanted(requests)}, requests)

    def _derivative(self, x: Tensor, index: MultiIndex) -> Tensor:
        z = (x - self.center) / self.scale
        factors = []
        for k, order in enumerate(index):
            columns = []
            for n in range(self.degree + 1):
                falling = perm(n, order) if n >= order else 0
                columns.append(falling * z[:, k] ** max(n - order, 0) / self.scale[k] ** order)
            factors.append(torch.stack([columns[e[k]] for e in self.exponents], dim=1))  # (P, N)
        value = factors[0]
        for factor in factors[1:]:
            value = value * factor
        return value

    def forward(self, x: Tensor) -> Tensor:
        return self.rows(x, [values_request(self.dimension, x)])[:, 0]

    def config(self) -> dict:
        return {
            "space": self.space,
            "degree": self.degree,
            "center": self.center.tolist(),
            "scale": self.scale.tolist(),
        }
