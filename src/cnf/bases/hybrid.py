"""Hybrid: a kernel basis times a window of the coordinates, so that every function has a support one can choose.

Psi_j(x) = inner_j(x) * window(x, anchor_j). The window lives in physical space: which entries of the system vanish
depends on the points and the radius alone, not on what an encoder learns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cnf.bases.basis import Basis, Evaluator, SnapshotBasis
from cnf.bases.kernels import KernelProfile
from cnf.bases.local import Centres, at_pairs, gathered
from cnf.bases.plain_kernel import PlainKernel
from cnf.bases.properties import Properties
from cnf.errors import BasisError
from cnf.operators import jets
from cnf.operators.detail import Windowed as WindowedDetail
from cnf.operators.expansion import Request, combine, wanted
from cnf.operators.forward import MultiIndex


class Hybrid(SnapshotBasis):
    """`inner`: a basis with anchors (Kernel, SkewedRBF, HypernetKernel); `window`: Wendland or TruncatedGaussian.

    >>> points = cnf.Box([0], [1]).grid(5)
    >>> inner = cnf.bases.Kernel(cnf.Space("x", "u"), points, cnf.kernels.Gaussian(0.5))
    >>> basis = cnf.bases.Hybrid(inner, cnf.kernels.Wendland(1, radius=0.3))
    >>> basis(torch.zeros(1, 1))[0, -1].item()  # of the anchor at 1, seen from 0
    0.0
    """

    properties = Properties("good", "good", True, True, True, False, "as the inner basis and the window")

    def __init__(self, inner: Basis, window: KernelProfile):
        if not isinstance(inner, Basis) or not isinstance(getattr(inner, "anchors", None), Tensor):
            raise BasisError("the inner basis of a Hybrid needs anchors: Kernel, SkewedRBF or HypernetKernel")
        if not isinstance(window, KernelProfile) or window.support is None:
            raise BasisError(
                "the window of a Hybrid is zero beyond a radius: cnf.kernels.Wendland or TruncatedGaussian"
            )
        super().__init__(inner.space, inner.size)
        self.inner, self.window = inner, window
        known = [s for s in (inner.smoothness, window.smoothness) if s is not None]
        self.smoothness = min(known) if known else None
        if inner.properties is not None:  # these two are the inner basis' own
            own = inner.properties
            self.properties = replace(
                self.properties,
                parameters_independent=own.parameters_independent,
                repeated_anchors=own.repeated_anchors,
            )

    @property
    def anchors(self) -> Tensor:
        """Those of the inner basis."""
        return self.inner.anchors  # type: ignore[return-value]

    @property
    def support(self) -> Tensor:
        """Radius beyond which every function vanishes (one per coordinate if the window has several)."""
        assert self.window.support is not None
        return self.window.support

    @property
    def shared(self) -> bool:
        return self.inner.shared

    def snapshot(self) -> Evaluator:
        return Windowed(self.inner.snapshot(), PlainKernel(self.window, self.anchors))

    def known_detail(self) -> WindowedDetail:
        return WindowedDetail(self.inner.detail(), self.window.detail(self.anchors, self.dimension))

    def config(self) -> dict:
        return {"inner": self.inner, "window": self.window}


@dataclass(frozen=True)
class Windowed:
    """The product rule between the functions and their windows."""

    inner: Evaluator
    window: PlainKernel

    @property
    def centres(self) -> Sequence[Centres]:
        return self.window.centres

    @property
    def support(self) -> Tensor | None:
        return self.window.support

    def rows(self, x: Tensor, requests: Sequence[Request]) -> Tensor:
        lower = _each(jets.closure(wanted(requests)), x)
        return _product(requests, lower, self.inner.rows(x, lower), self.window.rows(x, lower))

    def paired(self, x: Tensor, p: Tensor, q: Tensor, requests: Sequence[Request], group: int = 0) -> Tensor:
        lower = _each(jets.closure(wanted(requests)), x)
        if hasattr(self.inner, "paired"):  # a local evaluator, said in a way that compilers follow
            inner = self.inner.paired(x, p, q, lower)
        else:
            inner = gathered(self.inner, x, p, q, lower)
        return _product(at_pairs(requests, p, q), lower, inner, self.window.paired(x, p, q, lower))


def _each(indices: Sequence[MultiIndex], like: Tensor) -> list[Request]:
    """One request per derivative."""
    one = torch.ones((), dtype=like.dtype)
    return [Request(0, {index: one}) for index in indices]


def _product(requests: Sequence[Request], lower: Sequence[Request], inner: Tensor, window: Tensor) -> Tensor:
    """The product rule; `inner` and `window` (P, |lower|, N) hold the derivatives that `lower` names."""
    place = {index: k for k, request in enumerate(lower) for index in request.weights}
    products: dict[MultiIndex, Tensor] = {}
    for index in wanted(requests):
        total: Tensor | None = None
        for below in jets.below(index):
            factors = inner[:, place[below]] * window[:, place[jets.subtract(index, below)]]
            part = jets.binomial(index, below) * factors
            total = part if total is None else total + part
        assert total is not None
        products[index] = total
    return combine(products, requests)
