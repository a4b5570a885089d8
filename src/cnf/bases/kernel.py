"""Kernel: functions Psi_j(x) = k(phi(x), phi(anchor_j)) of one kernel, with an encoder phi or without.

With an encoder, phi runs at P + N points, never at P x N pairs: s and its derivatives are matrix products of the
encoder's bundle with the anchors' features,

    s = |phi|^2 + |c|^2 - 2 phi.c,      s_alpha = d^alpha |phi|^2 - 2 phi_alpha.c,

and the part of an operator that is linear in s_alpha collapses into a single product with sum_alpha w_alpha phi_alpha.
Plain values skip the encoder's last layer (`metric`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from cnf.bases.anchors import Anchors, anchor_points
from cnf.bases.basis import Basis, Evaluator, values_request
from cnf.bases.chain import (
    highest,
    side_by_side,
    weighted,
)
from cnf.bases.kernels import Gaussian, KernelProfile
from cnf.bases.layers import encode, smoothness
from cnf.bases.local import Centres, at_pairs, flat_pairs
from cnf.bases.looked_into import is_looked_into
from cnf.bases.metric import HiddenMetric, split_encoder
from cnf.bases.network_detail import kernel_of_network, network_detail
from cnf.bases.plain_kernel import PlainKernel
from cnf.bases.precision import recast
from cnf.bases.properties import Properties
from cnf.constraints import Space
from cnf.errors import BasisError
from cnf.fetching import is_here
from cnf.operators import jets
from cnf.operators.detail import Detail
from cnf.operators.expansion import Request, wanted
from cnf.operators.jets import Bundle, MultiIndex

TOGETHER = 8  # centres that may all but coincide with one point, away from the host
CLOSE = 1e-6  # squared distance of features, over their squares, below which too many digits of it cancel


class Kernel(Basis):
    """One kernel centred on every anchor; `encoder` is any module R^D -> R^F, or None for the coordinates.

    >>> points = cnf.Box([0, 0], [1, 1]).grid(3)
    >>> basis = cnf.bases.Kernel(cnf.Space("x y", "u"), points, cnf.kernels.Gaussian(0.4))
    >>> basis(points).diagonal().tolist() == [1.0] * 9  # (P, N): one function per anchor
    True
    """

    properties = Properties("good", "good", True, False, True, False, "as the kernel and the encoder")

    anchors: Tensor  # (N, D)

    def __init__(
        self,
        space: Space,
        anchors: Anchors,
        kernel: KernelProfile | None = None,
        encoder: nn.Module | None = None,
    ):
        points = anchor_points(space, anchors)
        super().__init__(space, points.shape[0])
        self.register_buffer("anchors", points)
        self.kernel = kernel if kernel is not None else Gaussian(0.1)
        if not isinstance(self.kernel, KernelProfile):
            raise BasisError(f"kernel must be one of cnf.kernels, such as Gaussian(0.1); got a {type(kernel).__name__}")
        if encoder is not None and not isinstance(encoder, nn.Module):
            raise BasisError(
                f"encoder must be a torch module R^D -> R^F, such as cnf.encoders.MLP; got a {type(encoder).__name__}"
            )
        if not self.kernel.distance:  # not local, and of no more rank than there are features
            self.properties = replace(self.properties, capacity="fair", independence="poor", sparse=False)
        self.encoder = encoder.to(points.dtype) if encoder is not None else None
        if self.encoder is not None:
            try:
                self.encoder(points[:1])
            except RuntimeError as error:
                raise BasisError(f"the encoder cannot take points of {self.dimension} coordinates ({error})") from error
        limits = [self.kernel.smoothness, smoothness(encoder) if encoder is not None else None]
        known = [limit for limit in limits if limit is not None]
        self.smoothness = min(known) if known else None

    @property
    def shared(self) -> bool:
        return True

    def snapshot(self) -> Evaluator:
        if self.encoder is None:
            if not self.kernel.distance:
                return EncodedKernel(nn.Identity(), self.kernel, self.anchors, None, self.anchors)
            return PlainKernel(self.kernel, self.anchors)
        features = self.kernel.scaled(self.encoder(self.anchors))  # (N, F)
        # Distances do not see a common shift; taking it out keeps |phi|^2 small, and with it the rounding of s.
        shift = features.detach().mean(dim=0) if self.kernel.distance else None
        return EncodedKernel(self.encoder, self.kernel, features, shift, self.anchors, self._metric())

    def _metric(self) -> HiddenMetric | None:
        """The short way to plain values, if the encoder ends in a linear layer that is not narrow."""
        length = getattr(self.kernel, "length", None)
        if self.encoder is None or not self.kernel.distance or _is_rough(self.kernel):
            return None
        if not isinstance(length, Tensor) or length.dim():
            return None
        parts = split_encoder(self.encoder)
        return None if parts is None else HiddenMetric.of(*parts, length, self.anchors)

    def known_detail(self) -> Detail:
        if self.encoder is None:
            return self.kernel.detail(self.anchors, self.dimension)
        return network_detail(self.encoder, self.dimension, kernel_of_network(self.kernel))

    def rows(self, x: Tensor, requests: Sequence[Request]) -> Tensor:
        return self.snapshot().rows(x, requests)

    def forward(self, x: Tensor) -> Tensor:
        return self.rows(x, [values_request(self.dimension, x)])[:, 0]

    def config(self) -> dict:
        return {"space": self.space, "anchors": self.anchors, "kernel": self.kernel, "encoder": self.encoder}


@dataclass(frozen=True)
class EncodedKernel:
    """A kernel of encoded points; `features` (N, F) are the anchors', scaled, and `shift` is taken from both sides."""

    encoder: nn.Module
    kernel: KernelProfile
    features: Tensor
    shift: Tensor | None
    anchors: Tensor
    metric: HiddenMetric | None = None
    precision: torch.dtype | None = None  # None: that of the points

    def in_precision(self, precision: torch.dtype) -> EncodedKernel:
        """The same functions with encoder and distances evaluated in another precision; rows keep that of the points.

        If gradients are asked for, the encoder is then a module without rules of its own, so derivatives of it cost
        more.
        """
        return replace(
            self,
            encoder=recast(self.encoder, precision),
            features=self.features.to(precision),
            shift=None if self.shift is None else self.shift.to(precision),
            metric=None if self.metric is None else self.metric.in_precision(precision),
            precision=precision,
        )

    @property
    def centres(self) -> Sequence[Centres]:
        return [Centres.of_anchors(self.anchors)]

    @property
    def support(self) -> Tensor | None:
        return None  # not in the coordinates

    def paired(self, x: Tensor, p: Tensor, q: Tensor, requests: Sequence[Request], group: int = 0) -> Tensor:
        """The encoder runs at the points; only sums over features are taken pair by pair."""
        p, q = flat_pairs(p, q)
        requests, indices = at_pairs(requests, p, q), jets.closure(wanted(requests))
        phi: Bundle = {
            index: None if value is None else self.kernel.scaled(value)
            for index, value in encode(self.encoder, x, indices).items()
        }
        phi = {index: None if v is None else v.expand(x.shape[0], -1)[p] for index, v in phi.items()}  # (E, F)
        centres = self.features[q]
        if not self.kernel.distance:
            products = [_collapsed(phi, r) * centres for r in requests]
            return side_by_side([product.sum(dim=1, keepdim=True) for product in products])
        return self._of_pairs(phi, centres, indices, requests)

    def _of_pairs(
        self, phi: Bundle, centres: Tensor, indices: Sequence[MultiIndex], requests: Sequence[Request]
    ) -> Tensor:
        """Encoded points and centres (E, F), each with its partner -> (E, K, 1), from their differences."""
        value = phi[indices[0]]
        assert value is not None
        apart = {**phi, indices[0]: value - centres}
        argument = {index: _square(apart, index) for index in indices}  # (E, 1)
        s = argument.pop(indices[0])
        assert s is not None
        return self.kernel.chain(requests, s, argument)

    def rows(self, x: Tensor, requests: Sequence[Request]) -> Tensor:
        if self.precision is None:
            return self._rows(x, requests)
        converted = [replace(r, weights={i: w.to(self.precision) for i, w in r.weights.items()}) for r in requests]
        return self._rows(x.to(self.precision), converted).to(x.dtype)

    def _rows(self, x: Tensor, requests: Sequence[Request]) -> Tensor:
        indices = jets.closure(wanted(requests))
        if self.metric is not None and len(indices) == 1:
            return self.kernel.chain(requests, self.metric.distances(x), {})
        phi: Bundle = {
            index: None if value is None else self.kernel.scaled(value).to(x.dtype)
            for index, value in encode(self.encoder, x, indices).items()
        }
        centres = self.features
        if self.shift is not None:
            zero = indices[0]
            phi[zero] = phi[zero] - self.shift  # type: ignore[operator]
            centres = centres - self.shift
        if not self.kernel.distance:
            return side_by_side([_collapsed(phi, r) @ centres.T for r in requests])
        return self._distance_rows(phi, centres, indices, requests)

    def _distance_rows(
        self, phi: Bundle, centres: Tensor, indices: Sequence[MultiIndex], requests: Sequence[Request]
    ) -> Tensor:
        order = highest(requests)
        squares = {index: _square(phi, index) for index in indices if sum(index)}  # d^alpha |phi|^2, (P, 1)
        zero = indices[0]
        value = phi[zero]
        assert value is not None
        # One product for s; |phi|^2 and |c|^2 enter as two extra columns, so that no further pass over (P, N)
        # is needed.
        square = value.square().sum(dim=1, keepdim=True)
        left = torch.cat([-2 * value, square, torch.ones_like(square)], dim=1)
        ones = torch.ones_like(centres[:, :1])
        right = torch.cat([centres, ones, centres.square().sum(dim=1, keepdim=True)], dim=1)
        s = left @ right.T
        argument: Bundle = {}
        for index in indices:
            if 0 < sum(index) < order:
                argument[index] = self._derivative(phi[index], squares[index], centres, value.shape[0])
            elif sum(index):
                argument[index] = None  # enters only linearly: collapsed below

        def first_order(request: Request) -> Tensor | None:
            known = {i: w for i, w in request.weights.items() if sum(i)}
            if not known:
                return None
            if len(known) == 1:
                index, weight = next(iter(known.items()))
                if argument[index] is not None:
                    return weighted(weight, argument[index])
            slope = jets.total(weighted(w, phi[i]) for i, w in known.items())
            square = jets.total(weighted(w, squares[i]) for i, w in known.items())
            return self._derivative(slope, square, centres, value.shape[0])

        found = self.kernel.chain(requests, s, argument, first_order)
        if self.kernel.smoothness is None:
            return found
        # At its centre a kernel with few derivatives goes like a power of r: what cancels in |phi|^2 + |c|^2 - 2 phi.c
        # makes 1e-8 of r where it should be zero, so pairs that all but coincide are taken from their differences.
        if is_looked_into():  # which pairs are close must not decide: all of them, where it matters to values
            if not _is_rough(self.kernel):
                return found
            near = s <= CLOSE * (square + right[:, -1])
            return torch.where(near[:, None], self._of_all_pairs(phi, centres, indices, requests), found)
        with torch.no_grad():
            near = s <= CLOSE * (square + right[:, -1])
            p, q = torch.nonzero(near, as_tuple=True) if is_here(s) else _nearest(s)
        if not p.numel():
            return found
        own: Bundle = {i: None if v is None else v.expand(value.shape[0], -1)[p] for i, v in phi.items()}
        pairs = self._of_pairs(own, centres[q], indices, at_pairs(requests, p, q))[:, :, 0]  # (E, K)
        if not is_here(s):  # more pairs than are that near
            pairs = torch.where(near[p, q][:, None], pairs, found[p, :, q])
        return found.transpose(1, 2).index_put((p, q), pairs).transpose(1, 2)

    def _of_all_pairs(
        self, phi: Bundle, centres: Tensor, indices: Sequence[MultiIndex], requests: Sequence[Request]
    ) -> Tensor:
        """`_of_pairs` of every point with every centre, (P, K, N)."""
        value = phi[indices[0]]
        assert value is not None
        shape = value.shape[0], centres.shape[0]
        p, q = (torch.arange(n, device=value.device) for n in shape)
        p, q = p[:, None].expand(shape).flatten(), q.expand(shape).flatten()
        own: Bundle = {i: None if v is None else v.expand(shape[0], -1)[p] for i, v in phi.items()}
        pairs = self._of_pairs(own, centres[q], indices, at_pairs(requests, p, q))  # (P N, K, 1)
        return pairs[:, :, 0].unflatten(0, shape).transpose(1, 2)

    def _derivative(self, slope: Tensor | None, square: Tensor | None, centres: Tensor, count: int) -> Tensor | None:
        """square - 2 slope.c as one product."""
        if slope is None and square is None:
            return None
        like = slope if slope is not None else square
        assert like is not None
        rows = max(t.shape[0] for t in (slope, square) if t is not None)
        if slope is None:
            return square
        column = like.new_zeros(1, 1) if square is None else square
        left = torch.cat([(-2 * slope).expand(rows, -1), column.expand(rows, -1)], dim=1)
        right = torch.cat([centres, torch.ones_like(centres[:, :1])], dim=1)
        return left @ right.T


def _nearest(s: Tensor) -> tuple[Tensor, Tensor]:
    """Pairs (p, q), each (E,), of every point and the centres next to it: how many are near nobody needs to know."""
    q = s.topk(min(TOGETHER, s.shape[1]), dim=1, largest=False).indices
    return torch.arange(s.shape[0], device=s.device).repeat_interleave(q.shape[1]), q.reshape(-1)


def _is_rough(kernel: KernelProfile) -> bool:
    """A kernel that goes like 1 - r at its centre: an s that is 1e-16 off there is a value that is 1e-8 off."""
    return kernel.smoothness is not None and kernel.smoothness < 2


def _collapsed(phi: Bundle, request: Request) -> Tensor:
    """sum_alpha w_alpha phi_alpha, (P, F)."""
    combined = jets.total(weighted(w, phi[i]) for i, w in request.weights.items())
    value = next(v for v in phi.values() if v is not None)
    if combined is None:
        return torch.zeros_like(value)
    return combined.expand(value.shape[0], -1)


def _square(phi: Bundle, index: MultiIndex) -> Tensor | None:
    """d^index |phi|^2 by the product rule, (P, 1) or (1, 1)."""
    found = None
    for lower in jets.below(index):
        upper = jets.subtract(index, lower)
        if lower > upper:
            continue  # counted with its mirror image
        a, b = phi[lower], phi[upper]
        if a is None or b is None:
            continue
        count = jets.binomial(index, lower) * (1 if lower == upper else 2)
        part = count * (a * b).sum(dim=1, keepdim=True)
        found = part if found is None else found + part
    return found
