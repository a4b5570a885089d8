"""PlainKernel: a kernel of the coordinates themselves, evaluated in closed form at points, at pairs and as sources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cnf.bases.chain import gaussian_factor, gaussian_product, hermite_factors, quadratic_argument
from cnf.bases.kernels import KernelProfile
from cnf.bases.local import Centres, Strengths, at_pairs
from cnf.operators import jets
from cnf.operators.expansion import Request, wanted
from cnf.operators.jets import MultiIndex


@dataclass(frozen=True)
class PlainKernel:
    """A kernel of the coordinates themselves: s is quadratic, so its derivatives are known in closed form."""

    kernel: KernelProfile
    anchors: Tensor  # (N, D)

    def rows(self, x: Tensor, requests: Sequence[Request]) -> Tensor:
        return self._of_differences([x[:, k, None] - self.anchors[None, :, k] for k in range(x.shape[1])], requests)

    @property
    def centres(self) -> Sequence[Centres]:
        return [Centres.of_anchors(self.anchors)]

    @property
    def support(self) -> Tensor | None:
        return self.kernel.support

    def paired(
        self,
        x: Tensor,
        p: Tensor,
        q: Tensor,
        requests: Sequence[Request],
        group: int = 0,
        stretch: Tensor | None = None,
    ) -> Tensor:
        columns = zip(x.unbind(dim=1), self.anchors.unbind(dim=1), strict=True)
        differences = [(a[p] - b[q]).reshape(-1, 1) for a, b in columns]  # by coordinate, in whole columns
        asked = at_pairs(requests, p, q)
        if stretch is not None:  # d^a k(s z) has the factor s^|a|
            differences = [d * stretch[:, None] for d in differences]
            asked = [replace(r, weights={a: w * stretch ** sum(a) for a, w in r.weights.items()}) for r in asked]
        return self._of_differences(differences, asked)

    def strengths(self, weights: Tensor, q: Tensor, functions: Sequence[int], group: int = 0) -> Strengths:
        return {(0,) * self.anchors.shape[1]: weights[:, 0]}

    def derivatives(self, x: Tensor, indices: Sequence[MultiIndex]) -> Iterator[tuple[MultiIndex, Tensor]]:
        """d^alpha k(x - anchor) for every alpha of the indices, one matrix (P, N) after the other."""
        differences = [x[:, k, None] - self.anchors[None, :, k] for k in range(x.shape[1])]
        if self.kernel.gaussian:
            scaled, inverse = self._scaled(differences)
            axes = [hermite_factors(z, inverse[k], max(i[k] for i in indices)) for k, z in enumerate(scaled)]
            value = self.kernel.profile(_squares(scaled), 0)[0]
            for index in indices:
                factor = gaussian_factor(axes, index)
                yield index, value if factor is None else value * factor
            return
        one = torch.ones((), dtype=x.dtype)
        found = self._of_differences(differences, [Request(0, {index: one}) for index in indices])
        yield from zip(indices, found.unbind(dim=1), strict=True)

    def _of_differences(self, differences: Sequence[Tensor], requests: Sequence[Request]) -> Tensor:
        """D differences (P, N), or (E, 1) for pairs -> (P, K, N)."""
        scaled, inverse = self._scaled(differences)
        s = _squares(scaled)
        if self.kernel.gaussian:
            return gaussian_product(requests, self.kernel.profile(s, 0)[0], scaled, inverse)
        dimension, indices = len(differences), jets.closure(wanted(requests))
        active = {k for index in indices for k, n in enumerate(index) if n}
        slopes = [2 * inverse[k] * scaled[k] if k in active else scaled[k] for k in range(dimension)]
        curvature = {(k, k): 2 * (inverse[k] ** 2).reshape(1, 1) for k in range(dimension)}
        return self.kernel.chain(requests, s, quadratic_argument(slopes, curvature, indices))

    def _scaled(self, differences: Sequence[Tensor]) -> tuple[list[Tensor], Tensor]:
        """The differences over the lengths, and the inverse lengths (D,)."""
        like = differences[0]
        inverse = self.kernel.scaled(torch.ones(len(differences), dtype=like.dtype, device=like.device))
        return [d * inverse[k] for k, d in enumerate(differences)], inverse


def _squares(scaled: Sequence[Tensor]) -> Tensor:
    s = scaled[0].square()
    for z in scaled[1:]:
        s = torch.addcmul(s, z, z)
    return s
