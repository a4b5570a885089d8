"""Bases: every one of cnf.bases with random parameters, for a problem's points and conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

import cnf
from benchmarks.attack.networks import draw_encoder, lively
from benchmarks.attack.setting import Setting
from cnf import encoders, kernels
from cnf.bases import (
    Basis,
    Concat,
    ConstraintLayer,
    Hermite,
    Hybrid,
    Hypernet,
    HypernetKernel,
    Independent,
    Kernel,
    Polynomial,
    RandomFourier,
    SkewedRBF,
)

SMOOTH = (
    *("Polynomial", "Kernel-Gaussian", "Kernel-encoded", "Kernel-DotProduct", "SkewedRBF", "RandomFourier"),
    *("RandomFourier", "RandomFourier", "Hermite", "ConstraintLayer", "Independent", "Hypernet", "HypernetKernel"),
    *("Concat", "Kernel-Matern", "Kernel-Wendland"),
)
LOCAL = ("Kernel-Wendland", "Hermite-Wendland", "Hybrid", "Kernel-Truncated")
EVERY = (*SMOOTH, "Hermite-Matern", "Hybrid", "Kernel-Truncated", "Hermite-Wendland")


@dataclass
class Wishes:
    """How the basis is to be; `width` of its functions relative to the box."""

    width: float = 0.3
    wide: float = 1.5  # functions per condition
    order: int = 0  # of the conditions
    square: bool = False  # anchors on the points of the conditions


def draw_basis(
    rng: np.random.Generator, name: str, setting: Setting, constraints: Sequence[cnf.Constraint], wishes: Wishes
) -> Basis:
    """The basis called `name`; may refuse the conditions, as the library does."""
    return getattr(Draw(rng, setting, constraints, wishes), "_" + name.replace("-", "_").lower())()


class Draw:
    """One method for each name."""

    def __init__(
        self, rng: np.random.Generator, setting: Setting, constraints: Sequence[cnf.Constraint], wishes: Wishes
    ):
        self.rng, self.setting, self.constraints, self.wishes = rng, setting, constraints, wishes
        self.space, self.seed = setting.space, int(rng.integers(2**31))
        self.rows = sum(c.rows for c in constraints)
        self.size = max(2, int(np.ceil(wishes.wide * self.rows)))
        anchors = torch.tensor(setting.random_points(rng, self.size), dtype=setting.dtype)
        self.anchors = list(constraints) if wishes.square else anchors
        self.widths = wishes.width * setting.length

    @property
    def bandwidth(self) -> float | list[float]:
        return self._times(1.0)

    def _times(self, factor: float) -> float | list[float]:
        widths = (factor * self.widths).tolist()
        return widths if len(widths) > 1 else widths[0]

    def _rough(self) -> float:
        """Smoothness of a Matern kernel that has the derivatives asked for, and hardly more."""
        return min(np.ceil(self.wishes.order / 2) + 0.5 + float(self.rng.integers(0, 2)), 7.5)

    def _wendland(self) -> int:
        return min(max(int(np.ceil(self.wishes.order / 2)), 1), 5)

    def _polynomial(self) -> Basis:
        degree = self.wishes.order
        while np.prod([(degree + k + 1) / (k + 1) for k in range(self.setting.dimension)]) < self.size and degree < 24:
            degree += 1
        return Polynomial(self.space, degree, *self._box())

    def _box(self) -> tuple[list[float], list[float]]:
        half = self.setting.length / 2
        return (self.setting.lower + half).tolist(), half.tolist()

    def _kernel_gaussian(self) -> Basis:
        return Kernel(self.space, self.anchors, kernels.Gaussian(self.bandwidth))

    def _kernel_matern(self) -> Basis:
        return Kernel(self.space, self.anchors, kernels.Matern(self._rough(), self._times(2)))

    def _kernel_wendland(self) -> Basis:
        return Kernel(self.space, self.anchors, kernels.Wendland(self._wendland(), self._times(4)))

    def _kernel_truncated(self) -> Basis:
        return Kernel(self.space, self.anchors, kernels.TruncatedGaussian(self.bandwidth))

    def _kernel_encoded(self) -> Basis:
        length = float(self.rng.uniform(0.5, 2))
        made = [kernels.Gaussian(length), kernels.Matern(self._rough(), length), kernels.Wendland(5, 4 * length)]
        encoder = draw_encoder(self.rng, self.setting, 32)
        return Kernel(self.space, self.anchors, made[int(self.rng.choice([0, 0, 1, 1, 2]))], encoder)

    def _kernel_dotproduct(self) -> Basis:
        encoder = draw_encoder(self.rng, self.setting, max(32, 2 * self.rows))
        return Kernel(self.space, self.anchors, kernels.DotProduct(), encoder)

    def _skewedrbf(self) -> Basis:
        isotropic = bool((self.setting.length == self.setting.length[0]).all())
        basis = SkewedRBF(self.space, self.anchors, self.bandwidth, full=isotropic and self.rng.random() < 0.5)
        with torch.no_grad():
            basis.log_bandwidth += 0.3 * torch.randn_like(basis.log_bandwidth)
            if basis.skew is not None:
                basis.skew += 0.3 * torch.randn_like(basis.skew) / float(self.widths[0])
        return basis

    def _randomfourier(self) -> Basis:
        return RandomFourier(self.space, self.size, self.bandwidth, seed=self.seed)

    def _hermite(self) -> Basis:
        return Hermite(self.space, self.constraints, kernels.Gaussian(self.bandwidth))

    def _hermite_matern(self) -> Basis:
        smoothness = min(self.wishes.order + 1.5, 7.5)
        return Hermite(self.space, self.constraints, kernels.Matern(smoothness, self._times(2)))

    def _hermite_wendland(self) -> Basis:
        return Hermite(self.space, self.constraints, kernels.Wendland(min(self.wishes.order + 1, 5), self._times(4)))

    def _constraintlayer(self) -> Basis:
        return ConstraintLayer(self.space, draw_encoder(self.rng, self.setting, self.size))

    def _independent(self) -> Basis:
        outputs = len(self.setting.channels) if self.rng.random() < 0.3 else 1
        make = partial(encoders.SIREN, self.setting.dimension, outputs, (8,), omega=6.0)
        return Independent(self.space, [lively(make(), 1.5) for _ in range(self.size)])

    def _hypernet(self) -> Basis:
        network = lively(encoders.MLP(self.setting.dimension, 1, hidden=(10, 10)), 3.0)
        return Hypernet(self.space, network, self.size, codes=8, seed=self.seed)

    def _hypernetkernel(self) -> Basis:
        encoder = lively(encoders.SIREN(self.setting.dimension, 10, hidden=(12,), omega=4.0), 1.5)
        kernel = [None, kernels.Gaussian(0.8), kernels.DotProduct()][int(self.rng.integers(3))]
        return HypernetKernel(self.space, self.anchors, encoder, kernel, codes=6, seed=self.seed)

    def _hybrid(self) -> Basis:
        inner = self._kernel_gaussian()
        if self.rng.random() < 0.5:
            encoder = draw_encoder(self.rng, self.setting, 32)
            inner = Kernel(self.space, self.anchors, kernels.Gaussian(1.0), encoder)
        return Hybrid(inner, kernels.Wendland(self._wendland(), self._times(5)))

    def _concat(self) -> Basis:
        return Concat([Polynomial(self.space, 2, *self._box()), self._randomfourier()])
