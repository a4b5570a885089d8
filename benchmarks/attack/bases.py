"""Bases: every one of cnf.bases with random parameters, for a problem's points and conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    rows = sum(c.rows for c in constraints)
    size = max(1, int(np.ceil(wishes.wide * rows)))
    space, seed = setting.space, int(rng.integers(2**31))
    anchors: object = torch.tensor(setting.random_points(rng, size), dtype=setting.dtype)
    if wishes.square:
        anchors = list(constraints)
    widths = wishes.width * setting.length
    per_axis = widths.tolist() if setting.dimension > 1 else float(widths[0])
    nu = max(int(np.ceil(wishes.order / 2)), 0) + 0.5 + float(rng.integers(0, 2))
    derivatives = max(int(np.ceil(wishes.order / 2)), 1)
    if name == "Polynomial":
        return Polynomial(space, _degree(size, setting.dimension, wishes.order), _middle(setting), _half(setting))
    if name == "Kernel-Gaussian":
        return Kernel(space, anchors, kernels.Gaussian(per_axis))
    if name == "Kernel-Matern":
        return Kernel(space, anchors, kernels.Matern(min(nu, 7.5), (2 * widths).tolist()))
    if name == "Kernel-Wendland":
        return Kernel(space, anchors, kernels.Wendland(min(derivatives, 5), (4 * widths).tolist()))
    if name == "Kernel-Truncated":
        return Kernel(space, anchors, kernels.TruncatedGaussian(per_axis))
    if name == "Kernel-encoded":
        length, rough = float(rng.uniform(0.5, 2)), float(rng.choice([nu, 0.5]) if not wishes.order else nu)
        kernel = [kernels.Gaussian(length), kernels.Matern(min(rough, 7.5), length), kernels.Wendland(5, 4 * length)]
        return Kernel(space, anchors, kernel[int(rng.choice([0, 0, 1, 1, 2]))], draw_encoder(rng, setting, 32))
    if name == "Kernel-DotProduct":
        return Kernel(space, anchors, kernels.DotProduct(), draw_encoder(rng, setting, max(32, 2 * rows)))
    if name == "SkewedRBF":
        basis = SkewedRBF(space, anchors, per_axis, full=bool(rng.random() < 0.5) and _isotropic(setting))
        with torch.no_grad():
            basis.log_bandwidth += 0.3 * torch.randn_like(basis.log_bandwidth)
            if basis.skew is not None:
                basis.skew += 0.3 * torch.randn_like(basis.skew) / float(widths[0])
        return basis
    if name == "RandomFourier":
        return RandomFourier(space, max(size, 2), per_axis, seed=seed)
    if name == "Hermite":
        return Hermite(space, constraints, kernels.Gaussian(per_axis))
    if name == "Hermite-Matern":
        return Hermite(space, constraints, kernels.Matern(min(wishes.order + 1.5, 7.5), (2 * widths).tolist()))
    if name == "Hermite-Wendland":
        return Hermite(space, constraints, kernels.Wendland(min(wishes.order + 1, 5), (4 * widths).tolist()))
    if name == "ConstraintLayer":
        return ConstraintLayer(space, draw_encoder(rng, setting, size))
    if name == "Independent":
        outputs = len(setting.channels) if rng.random() < 0.3 else 1
        networks = [lively(encoders.SIREN(setting.dimension, outputs, (8,), omega=6.0), 1.5) for _ in range(size)]
        return Independent(space, networks)
    if name == "Hypernet":
        network = lively(encoders.MLP(setting.dimension, 1, hidden=(10, 10)), 3.0)
        return Hypernet(space, network, size, codes=8, seed=seed)
    if name == "HypernetKernel":
        encoder = lively(encoders.SIREN(setting.dimension, 10, hidden=(12,), omega=4.0), 1.5)
        kernel = [None, kernels.Gaussian(0.8), kernels.DotProduct()][int(rng.integers(3))]
        return HypernetKernel(space, anchors, encoder, kernel, codes=6, seed=seed)
    if name == "Hybrid":
        inner = Kernel(space, anchors, kernels.Gaussian(per_axis))
        if rng.random() < 0.5:
            inner = Kernel(space, anchors, kernels.Gaussian(1.0), draw_encoder(rng, setting, 32))
        return Hybrid(inner, kernels.Wendland(min(derivatives, 5), (5 * widths).tolist()))
    assert name == "Concat"
    waves = RandomFourier(space, max(size, 2), per_axis, seed=seed)
    return Concat([Polynomial(space, 2, _middle(setting), _half(setting)), waves])


def _degree(size: int, dimension: int, order: int) -> int:
    """Enough monomials for the conditions, as far as a polynomial goes."""
    degree = order
    while np.prod([(degree + k + 1) / (k + 1) for k in range(dimension)]) < size and degree < 24:
        degree += 1
    return degree


def _middle(setting: Setting) -> list[float]:
    return (setting.lower + setting.length / 2).tolist()


def _half(setting: Setting) -> list[float]:
    return (setting.length / 2).tolist()


def _isotropic(setting: Setting) -> bool:
    return bool((setting.length == setting.length[0]).all())
