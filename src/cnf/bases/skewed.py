"""SkewedRBF: Gaussians with a covariance of their own each, the paper's basis for irregular grids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cnf.bases.anchors import Anchors, anchor_points
from cnf.bases.basis import Evaluator, SnapshotBasis
from cnf.bases.chain import chained_gaussian, quadratic_argument
from cnf.bases.kernels import Bandwidth, positive_lengths
from cnf.bases.local import Centres, at_pairs, flat_pairs
from cnf.bases.properties import Properties
from cnf.constraints import Space
from cnf.errors import BasisError
from cnf.operators import jets
from cnf.operators.detail import Peaks
from cnf.operators.expansion import Request, wanted


class SkewedRBF(SnapshotBasis):
    """Psi_j(x) = exp(-(x - c_j)^T S_j^{-1} (x - c_j) / 2), S_j learnable: diagonal, or full with `full=True`.

    All functions start with S_j = diag(bandwidth^2), `bandwidth` one number or one per coordinate.

    >>> points = cnf.Box([0, 0], [1, 1]).grid(3)
    >>> basis = cnf.bases.SkewedRBF(cnf.Space("x y", "u"), points, bandwidth=0.4)
    >>> basis(cnf.Box([0, 0], [1, 1]).random(5)).shape
    torch.Size([5, 9])
    """

    properties = Properties("good", "good", True, False, False, False, "any order")

    anchors: Tensor  # (N, D)

    def __init__(self, space: Space, anchors: Anchors, bandwidth: Bandwidth = 0.1, full: bool = False):
        points = anchor_points(space, anchors)
        super().__init__(space, points.shape[0])
        width = positive_lengths(bandwidth, "bandwidth", points.dtype)
        given = tuple(width.shape)
        if given not in ((), (self.dimension,), tuple(points.shape)):
            raise BasisError(
                f"bandwidth of shape {given} given; expected a number or {self.dimension}, one per coordinate"
            )
        self.full = bool(full)
        self.register_buffer("anchors", points)
        self.log_bandwidth = nn.Parameter(width.log().expand(points.shape).clone())  # (N, D)
        corner = points.new_zeros(points.shape[0], self.dimension * (self.dimension - 1) // 2)
        self.skew = nn.Parameter(corner) if self.full and corner.shape[1] else None

    def snapshot(self) -> Evaluator:
        precision = torch.diag_embed((-self.log_bandwidth).exp())  # (N, D, D), lower triangular square root of S^-1
        if self.skew is not None:
            row, column = torch.tril_indices(self.dimension, self.dimension, -1, device=self.skew.device)
            lower = torch.zeros_like(precision)
            lower[:, row, column] = self.skew
            precision = precision + lower
        return SkewedEvaluator(self.anchors, precision, diagonal=self.skew is None)

    def known_detail(self) -> Peaks:
        with torch.no_grad():
            root = self.snapshot().root.to(torch.float64).cpu()  # type: ignore[attr-defined]  # (N, D, D)
            covariance = torch.linalg.inv(root @ root.transpose(1, 2))
        lengths = covariance.diagonal(dim1=1, dim2=2).sqrt().numpy()
        reach = 9.0 * self.dimension**0.5 if self.full else 9.0  # the box around a skewed function is larger than it
        at = self.anchors.to(torch.float64).cpu().numpy()
        return Peaks(at, lengths, 2.0, reach, paces=root.square().sum(dim=2).sqrt().numpy())

    def config(self) -> dict:
        bandwidth = self.log_bandwidth.detach().exp()
        return {"space": self.space, "anchors": self.anchors, "bandwidth": bandwidth, "full": self.full}


@dataclass(frozen=True)
class SkewedEvaluator:
    """z = root^T (x - c) per function, s = |z|^2."""

    anchors: Tensor  # (N, D)
    root: Tensor  # (N, D, D) lower triangular
    diagonal: bool

    @property
    def centres(self) -> Sequence[Centres]:
        return [Centres.of_anchors(self.anchors)]

    @property
    def support(self) -> Tensor | None:
        return None

    def rows(self, x: Tensor, requests: Sequence[Request]) -> Tensor:
        difference = [x[:, k, None] - self.anchors[None, :, k] for k in range(x.shape[1])]  # D x (P, N)
        return self._of_differences(difference, self.root[None], requests)

    def paired(self, x: Tensor, p: Tensor, q: Tensor, requests: Sequence[Request], group: int = 0) -> Tensor:
        p, q = flat_pairs(p, q)
        difference = (x[p] - self.anchors[q]).unbind(dim=1)
        return self._of_differences([d[:, None] for d in difference], self.root[q][:, None], at_pairs(requests, p, q))

    def _of_differences(self, difference: Sequence[Tensor], root: Tensor, requests: Sequence[Request]) -> Tensor:
        """D differences (P, N) with roots (1, N, D, D), or (E, 1) with (E, 1, D, D) -> (P, K, N)."""
        reach = range(len(difference))
        axes = {(a, k): root[..., a, k] for a in reach for k in reach if a == k or (a > k and not self.diagonal)}
        z = [_sum(difference[a] * axes[a, k] for a in reach if (a, k) in axes) for k in reach]
        s = _sum(part * part for part in z)
        indices = jets.closure(wanted(requests))
        active = {a for index in indices for a, n in enumerate(index) if n}
        slopes = [2 * _sum(z[k] * axes[a, k] for k in reach if (a, k) in axes) if a in active else z[a] for a in reach]
        curvature = {
            (a, b): 2 * _sum(axes[a, k] * axes[b, k] for k in reach if (a, k) in axes and (b, k) in axes)
            for a in reach
            for b in reach
            if a == b or (a < b and not self.diagonal)
        }
        return chained_gaussian(requests, torch.exp(-0.5 * s), quadratic_argument(slopes, curvature, indices))


def _sum(parts: Iterable[Tensor]) -> Tensor:
    first, *rest = parts
    return sum(rest, first)
