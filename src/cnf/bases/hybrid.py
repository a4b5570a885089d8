"""Hybrid: a kernel basis times a window of the coordinates, so that every function has a support one can choose.

Psi_j(x) = inner_j(x) * window(x, anchor_j). The window lives in physical space: which entries of the system vanish
depends on the points and the radius alone, not on what an encoder learns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cnf.bases.basis import Basis, Evaluator, values_request
from cnf.bases.kernel import PlainKernel
from cnf.bases.kernels import KernelProfile
from cnf.bases.properties import Properties
from cnf.errors import BasisError
from cnf.operators import jets
from cnf.operators.expansion import Request, combine, wanted
from cnf.operators.forward import MultiIndex


class Hybrid(Basis):
    """`inner`: a basis with anchors (Kernel, SkewedRBF, HypernetKernel); `window`: Wendland or TruncatedGaussian."""

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

    def rows(self, x: Tensor, requests: Sequence[Request]) -> Tensor:
        return self.snapshot().rows(x, requests)

    def forward(self, x: Tensor) -> Tensor:
        return self.rows(x, [values_request(self.dimension, x)])[:, 0]

    def config(self) -> dict:
        return {"inner": self.inner, "window": self.window}


@dataclass(frozen=True)
class Windowed:
    """The product rule between the functions and their windows."""

    inner: Evaluator
    window: PlainKernel

    def rows(self, x: Tensor, requests: Sequence[Request]) -> Tensor:
        indices = wanted(requests)
        lower = jets.closure(indices)
        inner, window = (self._derivatives(part, x, lower) for part in (self.inner, self.window))
        products: dict[MultiIndex, Tensor] = {}
        for index in indices:
            total: Tensor | None = None
            for below in jets.below(index):
                part = jets.binomial(index, below) * inner[below] * window[jets.subtract(index, below)]
                total = part if total is None else total + part
            assert total is not None
            products[index] = total
        return combine(products, requests)

    @staticmethod
    def _derivatives(part: Evaluator, x: Tensor, indices: Sequence[MultiIndex]) -> dict[MultiIndex, Tensor]:
        one = torch.ones((), dtype=x.dtype, device=x.device)
        found = part.rows(x, [Request(0, {index: one}) for index in indices])
        return {index: found[:, k] for k, index in enumerate(indices)}
