"""The table of every basis, how to build it in 1, 2 and 3 dimensions, and the oracles the contract compares it with.

`build(space, anchors)` makes the basis with random parameters; `values(basis, x)` says in NumPy what its functions are;
`order` is the highest derivative it has at all points, anchors included; `order_at_anchors` as far as reverse mode can
follow it there (kernels written in r have derivatives at r = 0 that only a limit finds: see test_kernels).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from types import SimpleNamespace

import numpy as np
import torch
from scipy.special import gamma, kv
from torch import Tensor, nn
from torch.func import functional_call

import cnf
from cnf import encoders, kernels
from cnf.bases import (
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
from cnf.bases.basis import Basis
from cnf.operators import identity, integral, partial

COORDINATES = ("x", "y", "z")
Index = tuple[int, ...]


# -- oracles --------------------------------------------------------------------------------------------------------


def nested_autograd(function: Callable[[Tensor], Tensor], x: Tensor, indices: Sequence[Index]) -> dict[Index, Tensor]:
    """d^index of every output of function (P, D) -> (P, K), by reverse mode applied again and again.

    One pass gives the slopes along all axes, and what several indices begin with is differentiated once.
    """
    points = x.detach().clone().requires_grad_()

    def derivatives(column: Tensor) -> Callable[[Index], Tensor]:
        slopes: dict[Index, tuple[Tensor, ...]] = {}

        def derivative(index: Index) -> Tensor:
            axis = max((k for k, order in enumerate(index) if order), default=None)
            if axis is None:
                return column
            before = tuple(order - (k == axis) for k, order in enumerate(index))
            if before not in slopes:
                value, slope = derivative(before), None
                if value.requires_grad:
                    (slope,) = torch.autograd.grad(value.sum(), points, create_graph=True, allow_unused=True)
                slopes[before] = (torch.zeros_like(points) if slope is None else slope).unbind(dim=1)
            return slopes[before][axis]

        return derivative

    columns = [derivatives(column) for column in function(points).unbind(dim=1)]
    return {index: torch.stack([column(index).detach() for column in columns], dim=1) for index in indices}


def multi_indices(dimension: int, order: int) -> list[Index]:
    """All multi-indices up to an order; in three dimensions only some of orders 3 and 4, every kind of mixture."""
    every = [i for i in product(range(order + 1), repeat=dimension) if sum(i) <= order]
    if dimension < 3 or order < 3:
        return every
    kinds = [(3, 0, 0), (2, 1, 0), (0, 1, 2), (1, 1, 1), (0, 0, 4), (3, 0, 1), (2, 2, 0), (1, 2, 1), (0, 1, 3)]
    return [i for i in every if sum(i) <= 2] + [k for k in kinds if sum(k) <= order]


def distances(a: np.ndarray, b: np.ndarray, length: np.ndarray | float = 1.0) -> np.ndarray:
    """|a_p - b_n| / length, (P, N), by plain differences."""
    return np.sqrt((((a[:, None] - b[None]) / length) ** 2).sum(-1))


# -- what users bring along -----------------------------------------------------------------------------------------


class OwnEncoder(nn.Module):
    """A user's module without rules: a residual connection and a quotient."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.inner = nn.Linear(inputs, outputs, dtype=torch.float64)
        self.outer = nn.Linear(outputs, outputs, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(2 * self.inner(x))
        return hidden + self.outer(hidden) / (1 + hidden.square())


class OwnBasis(Basis):
    """The documented minimum: one method. cos(frequency_j . x + j)."""

    def __init__(self, space: cnf.Space, size: int):
        super().__init__(space, size)
        self.frequencies = nn.Parameter(torch.randn(size, len(space.coordinates), dtype=torch.float64) * 2)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cos(x @ self.frequencies.T + torch.arange(self.size, dtype=x.dtype, device=x.device))


# -- the table ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One basis; see the module's first lines."""

    name: str
    build: Callable[[cnf.Space, Tensor], Basis]
    values: Callable[[Basis, np.ndarray], np.ndarray] | None = None
    order: int = 4
    order_at_anchors: int = 4
    channels: str = "u"
    dimensions: tuple[int, ...] = (1, 2, 3)
    without_gradient: tuple[str, ...] = field(default=())  # parameters that cannot matter, such as a common shift

    def space(self, dimension: int) -> cnf.Space:
        return cnf.Space(" ".join(COORDINATES[:dimension]), self.channels)

    def basis(self, dimension: int, count: int | None = None) -> Basis:
        torch.manual_seed(7)
        return self.build(self.space(dimension), anchors(dimension, count))

    def __repr__(self) -> str:
        return self.name


def box(dimension: int) -> cnf.Box:
    """A domain on which the table's functions are about one length apart, so that their systems are well posed."""
    side = {1: 4.0, 2: 1.8, 3: 1.3}[dimension]
    return cnf.Box([0.0] * dimension, [side] * dimension)


def anchors(dimension: int, count: int | None = None) -> Tensor:
    """Points in the box, no two close."""
    return spread(dimension, count or (7 + 2 * dimension), seed=1)


def spread(dimension: int, count: int, seed: int) -> Tensor:
    """Random points that keep apart: each the candidate farthest from those before it."""
    candidates = box(dimension).random(40 * count, torch.Generator().manual_seed(seed))
    chosen = [candidates[0]]
    for _ in range(count - 1):
        gaps = torch.cdist(candidates, torch.stack(chosen)).min(dim=1).values
        chosen.append(candidates[gaps.argmax()])
    return torch.stack(chosen)


def places(dimension: int) -> Tensor:
    """Where derivatives are compared: points in the box, two outside it, and points AT anchors."""
    inside = box(dimension).halton(4, seed=5)
    outside = torch.tensor([[1.1 * box(dimension).upper[0]] * dimension, [-0.2] * dimension], dtype=torch.float64)
    return torch.cat([inside, outside, anchors(dimension)[[0, 2, 3]]])


def _kernel(kernel: Callable[[int], kernels.KernelProfile], encoder: Callable[[int], nn.Module] | None = None):
    def build(space: cnf.Space, points: Tensor) -> Basis:
        dimension = len(space.coordinates)
        network = encoder(dimension) if encoder is not None else None
        return Kernel(space, points, kernel(dimension), network)

    return build


def _poles(space: cnf.Space, points: Tensor) -> Basis:
    """Poles away from all points, as they are used: outside the domain."""
    return Kernel(space, points + 3.0, kernels.Pole())


def _pole_values(basis: Basis, x: np.ndarray) -> np.ndarray:
    return np.log(distances(x, _np(basis.anchors)))


def _skewed(full: bool):
    def build(space: cnf.Space, points: Tensor) -> Basis:
        basis = SkewedRBF(space, points, bandwidth=0.4, full=full)
        with torch.no_grad():
            for parameter in basis.parameters():
                parameter += 0.3 * torch.randn_like(parameter)
        return basis

    return build


def hermite_constraints(space: cnf.Space, points: Tensor, highest: int = 2) -> list[cnf.Constraint]:
    """Values, slopes and second derivatives, the first two at shared points; and one integral."""
    last = space.coordinates[-1]
    third = max(1, points.shape[0] // 3)
    asked = [
        space.constraint(identity(), at=points[:third], equals=1.0, name="value"),
        space.constraint(partial("x") + 0.5 * partial(last), at=points[:third], equals=0.5, name="slope"),
    ]
    if highest > 1:
        asked.append(space.constraint(partial(last, 2), at=points[third:], equals=-1.0, name="curvature"))
        asked.append(space.constraint(integral("x", 0, 1), at=points[-1:], equals=0.2, name="mean"))
    return asked


def _hermite(kernel: Callable[[int], kernels.KernelProfile], highest: int = 2):
    def build(space: cnf.Space, points: Tensor) -> Basis:
        return Hermite(space, hermite_constraints(space, points, highest), kernel(len(space.coordinates)))

    return build


def coupled_constraints(space: cnf.Space, points: Tensor) -> list[cnf.Constraint]:
    """Conditions on two channels: one mixes them, one concerns each alone."""
    last = space.coordinates[-1]
    half = points.shape[0] // 2
    return [
        space.constraint(
            partial("x", channel="u") + partial(last, channel="v"), at=points[half:], equals=0, name="mix"
        ),
        space.constraint(identity(), at=points[:half], equals=1.0, name="value"),
    ]


def _polynomial(space: cnf.Space, points: Tensor) -> Basis:
    dimension = len(space.coordinates)
    degree = next(d for d in range(50) if math.comb(d + dimension, dimension) >= points.shape[0])
    half = box(dimension).upper[0] / 2
    return Polynomial(space, max(degree, 4), center=half, scale=half)


def _lively(network: nn.Module, factor: float) -> nn.Module:
    """Larger weights: a fresh network is nearly linear, and so are all combinations of its features."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter *= factor
    return network


def _mlp(dimension: int) -> nn.Module:
    return _lively(encoders.MLP(dimension, 24, hidden=(32, 32)), 3.0)


def _siren(dimension: int) -> nn.Module:
    return _lively(encoders.SIREN(dimension, 24, hidden=(32,), omega=3.0), 1.5)


def _fourier(dimension: int) -> nn.Module:
    return _lively(encoders.FourierFeatures(dimension, 24, frequencies=8, bandwidth=0.7, hidden=(32,)), 2.0)


def _own(dimension: int) -> nn.Module:
    return _lively(OwnEncoder(dimension, 24), 2.0)


def _networks(alike: bool, outputs: int = 1):
    def build(space: cnf.Space, points: Tensor) -> Basis:
        dimension, count = len(space.coordinates), points.shape[0] if alike else 7
        networks: list[nn.Module] = []
        for k in range(count):
            if alike or k > 2 or k == 0:
                networks.append(_lively(encoders.SIREN(dimension, outputs, hidden=(12,), omega=4.0), 2.0))
            elif k == 1:  # the same layers and shapes as above, another frequency
                networks.append(_lively(encoders.SIREN(dimension, outputs, hidden=(12,), omega=7.0), 2.0))
            else:
                networks.append(nn.Sequential(_own(dimension), nn.Linear(24, outputs, dtype=torch.float64)))
        return Independent(space, networks)

    return build


def _frequencies(space: cnf.Space, points: Tensor) -> Basis:
    """Networks with the same layers and shapes that differ in a plain number only."""
    dimension = len(space.coordinates)
    networks = [encoders.SIREN(dimension, 1, hidden=(12,), omega=2.0 + k) for k in range(7)]
    return Independent(space, [_lively(network, 2.0) for network in networks])


def _main(outputs: int = 1, size: int | None = None):
    """Hypernet whose main network is an MLP: one function per point, or `size`."""

    def build(space: cnf.Space, points: Tensor) -> Basis:
        network = _lively(encoders.MLP(points.shape[1], outputs, hidden=(12, 12)), 3.0)
        return Hypernet(space, network, size or 2 * points.shape[0], codes=6, seed=3)

    return build


def _own_main(space: cnf.Space, points: Tensor) -> Basis:
    network = nn.Sequential(_lively(OwnEncoder(points.shape[1], 8), 3.0), nn.Linear(8, 1, dtype=torch.float64))
    return Hypernet(space, network, 2 * points.shape[0], codes=6, seed=3)


def _soft(dimension: int) -> nn.Module:
    return _lively(encoders.MLP(dimension, 10, hidden=(16,), activation="softplus"), 6.0)


def _small_siren(dimension: int) -> nn.Module:
    return _lively(encoders.SIREN(dimension, 10, hidden=(16,), omega=3.0), 1.5)


def _small_own(dimension: int) -> nn.Module:
    return _lively(OwnEncoder(dimension, 10), 2.0)


def _generated(kernel: Callable[[], kernels.KernelProfile | None], encoder: Callable[[int], nn.Module]):
    def build(space: cnf.Space, points: Tensor) -> Basis:
        return HypernetKernel(space, points, encoder(points.shape[1]), kernel(), codes=6, seed=4)

    return build


def _hybrid(inner: Callable[[cnf.Space, Tensor], Basis], window: Callable[[], kernels.KernelProfile]):
    return lambda space, points: Hybrid(inner(space, points), window())


def _np(tensor: Tensor) -> np.ndarray:
    return tensor.detach().double().numpy()


def _gaussian_values(basis: Basis, x: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * distances(x, _np(basis.anchors), _np(basis.kernel.bandwidth)) ** 2)


def _encoded_gaussian_values(basis: Basis, x: np.ndarray) -> np.ndarray:
    features, centres = _np(basis.encoder(torch.from_numpy(x))), _np(basis.encoder(basis.anchors))
    return np.exp(-0.5 * distances(features, centres, _np(basis.kernel.bandwidth)) ** 2)


def matern(r: np.ndarray, nu: float) -> np.ndarray:
    """The textbook formula with the modified Bessel function; 1 at r = 0."""
    z = np.sqrt(2 * nu) * np.where(r > 0, r, 1.0)
    return np.where(r > 0, 2 ** (1 - nu) / gamma(nu) * z**nu * kv(nu, z), 1.0)


def _matern_values(basis: Basis, x: np.ndarray) -> np.ndarray:
    return matern(distances(x, _np(basis.anchors), _np(basis.kernel.bandwidth)), basis.kernel.nu)


WENDLAND = {  # for three dimensions, as printed by Wendland (1995)
    0: lambda r: (1 - r) ** 2,
    1: lambda r: (1 - r) ** 4 * (4 * r + 1),
    2: lambda r: (1 - r) ** 6 * (35 * r**2 + 18 * r + 3) / 3,
    3: lambda r: (1 - r) ** 8 * (32 * r**3 + 25 * r**2 + 8 * r + 1),
}


def _wendland_values(basis: Basis, x: np.ndarray) -> np.ndarray:
    r = distances(x, _np(basis.anchors), _np(basis.kernel.radius))
    return np.where(r < 1, WENDLAND[basis.kernel.k](r), 0.0)


def _truncated_values(basis: Basis, x: np.ndarray) -> np.ndarray:
    r = distances(x, _np(basis.anchors), _np(basis.kernel.bandwidth))
    return np.where(r < 3, np.exp(-0.5 * r**2), 0.0)


def _skewed_values(basis: Basis, x: np.ndarray) -> np.ndarray:
    columns = []
    for j, centre in enumerate(_np(basis.anchors)):
        root = np.diag(np.exp(-_np(basis.log_bandwidth)[j]))
        if basis.skew is not None:
            root[np.tril_indices(len(centre), -1)] += _np(basis.skew)[j]
        precision = root @ root.T
        columns.append([math.exp(-0.5 * (p - centre) @ precision @ (p - centre)) for p in x])
    return np.array(columns).T


def _wave_values(basis: Basis, x: np.ndarray) -> np.ndarray:
    phase = x @ (_np(basis.directions) / _np(basis.bandwidth)).T + _np(basis.phases)
    return math.sqrt(2 / basis.size) * np.cos(phase)


def _polynomial_values(basis: Basis, x: np.ndarray) -> np.ndarray:
    z = (x - _np(basis.center)) / _np(basis.scale)
    return np.stack([np.prod(z ** np.array(e), axis=1) for e in basis.exponents], axis=1)


def _dot_values(basis: Basis, x: np.ndarray) -> np.ndarray:
    encode = basis.encoder if basis.encoder is not None else (lambda p: p)
    return _np(encode(torch.from_numpy(x))) @ _np(encode(basis.anchors)).T


def _hermite_gaussian_values(basis: Basis, x: np.ndarray) -> np.ndarray:
    """Every functional applied to y -> k(x, y): derivatives by reverse mode, the integral by 200 Gauss points."""
    fixed, length = torch.from_numpy(x), basis.kernel.bandwidth.detach()

    def kernel(y: Tensor) -> Tensor:  # (Q, D) -> (Q, P)
        return torch.exp(-0.5 * ((y[:, None] - fixed[None]) / length).square().sum(dim=2))

    value, slope, curvature, mean = basis.constraints
    dimension = x.shape[1]
    along_x, along_last = (tuple(int(k == axis) for k in range(dimension)) for axis in (0, dimension - 1))
    twice = tuple(2 * k for k in along_last)
    first = nested_autograd(kernel, slope.points, [along_x, along_last])
    nodes, weights = np.polynomial.legendre.leggauss(200)
    line = mean.points.repeat(200, 1)
    line[:, 0] = torch.from_numpy((nodes + 1) / 2)
    blocks = [
        kernel(value.points),
        first[along_x] + 0.5 * first[along_last],
        nested_autograd(kernel, curvature.points, [twice])[twice],
        torch.from_numpy(weights / 2)[None] @ kernel(line),
    ]
    return torch.cat(blocks).T.numpy()


def _stacked_values(basis: Basis, x: np.ndarray) -> np.ndarray:
    values = np.stack([_np(network(torch.from_numpy(x))) for network in basis.networks], axis=1)  # (P, N, 1 or C)
    return values[..., 0] if values.shape[-1] == 1 else values


def _written(basis: Basis, pattern: nn.Module, j: int) -> dict[str, Tensor]:
    """Parameters of function j as the documentation says: its code times the generator, cut in the network's order."""
    writer, found, start = basis.hypernetwork, {}, 0
    flat = writer.codes[j] @ writer.generator + writer.offset
    for name, parameter in pattern.named_parameters():
        found[name] = flat[start : start + parameter.numel()].reshape(parameter.shape)
        start += parameter.numel()
    assert start == flat.numel()
    return found


def _hypernet_values(basis: Basis, x: np.ndarray) -> np.ndarray:
    """One network after another."""
    point = torch.from_numpy(x)
    every = [functional_call(basis.network, _written(basis, basis.network, j), (point,)) for j in range(basis.size)]
    values = np.stack([_np(v) for v in every], axis=1)
    return values[..., 0] if values.shape[-1] == 1 else values


def _hypernet_kernel_values(basis: Basis, x: np.ndarray) -> np.ndarray:
    """One encoder after another: k(phi_j(anchor_j), phi_j(x))."""
    columns = []
    for j in range(basis.size):
        own = _written(basis, basis.encoder, j)
        features = _np(functional_call(basis.encoder, own, (torch.from_numpy(x),)))
        centre = _np(functional_call(basis.encoder, own, (basis.anchors[j : j + 1],)))
        if basis.kernel.distance:
            columns.append(np.exp(-0.5 * distances(features, centre, _np(basis.kernel.bandwidth))[:, 0] ** 2))
        else:
            columns.append(features @ centre[0])
    return np.stack(columns, axis=1)


def _windowed(inner: Callable[[Basis, np.ndarray], np.ndarray], window: Callable[[Basis, np.ndarray], np.ndarray]):
    def values(basis: Basis, x: np.ndarray) -> np.ndarray:
        stand_in = SimpleNamespace(anchors=basis.inner.anchors, kernel=basis.window)
        return inner(basis.inner, x) * window(stand_in, x)

    return values


# Orders in pairs: networks without rules go to order 4 under a Gaussian, networks alike and one by one to 4 and 3, and
# every way to combine functions goes to order 4 with one kind of network at least.
LAST_BIAS = ("encoder.layers.4.bias",)  # distances do not see a common shift of all features

CASES = [
    Case("Polynomial", _polynomial, _polynomial_values),
    Case("Kernel-Gaussian", _kernel(lambda d: kernels.Gaussian(0.35)), _gaussian_values),
    Case("Kernel-Gaussian-anisotropic", _kernel(lambda d: kernels.Gaussian([0.3, 0.5, 0.4][:d])), _gaussian_values),
    Case("Kernel-Matern-5.5", _kernel(lambda d: kernels.Matern(5.5, 0.6)), _matern_values, 4, 0),
    Case("Kernel-Matern-2.5", _kernel(lambda d: kernels.Matern(2.5, 0.6)), _matern_values, 4, 0),
    Case("Kernel-Matern-1.5", _kernel(lambda d: kernels.Matern(1.5, 0.6)), _matern_values, 2, 0),
    Case("Kernel-Matern-0.5", _kernel(lambda d: kernels.Matern(0.5, 0.6)), _matern_values, 0, 0),
    Case("Kernel-Wendland-3", _kernel(lambda d: kernels.Wendland(3, 1.1)), _wendland_values, 4, 0),
    Case("Kernel-Wendland-2", _kernel(lambda d: kernels.Wendland(2, 0.9)), _wendland_values, 4, 0),
    Case("Kernel-Wendland-1", _kernel(lambda d: kernels.Wendland(1, 0.9)), _wendland_values, 2, 0),
    Case("Kernel-Wendland-0", _kernel(lambda d: kernels.Wendland(0, 0.9)), _wendland_values, 0, 0),
    Case("Kernel-TruncatedGaussian", _kernel(lambda d: kernels.TruncatedGaussian(0.2)), _truncated_values, 0, 0),
    Case("Kernel-Pole", _poles, _pole_values),
    Case(
        "Kernel-Gaussian-MLP",
        _kernel(lambda d: kernels.Gaussian(1.0), _mlp),
        _encoded_gaussian_values,
        without_gradient=LAST_BIAS,
    ),
    Case(
        "Kernel-Gaussian-SIREN",
        _kernel(lambda d: kernels.Gaussian(1.2), _siren),
        _encoded_gaussian_values,
        without_gradient=("encoder.layers.2.bias",),
    ),
    Case(
        "Kernel-Gaussian-FourierFeatures",
        _kernel(lambda d: kernels.Gaussian(1.0), _fourier),
        _encoded_gaussian_values,
        without_gradient=("encoder.layers.1.layers.2.bias",),
    ),
    Case(
        "Kernel-Gaussian-own-encoder",
        _kernel(lambda d: kernels.Gaussian(1.5), _own),
        _encoded_gaussian_values,
    ),
    Case(
        "Kernel-Matern-5.5-MLP",
        _kernel(lambda d: kernels.Matern(5.5, 1.0), _mlp),
        None,
        4,
        0,
        without_gradient=LAST_BIAS,
    ),
    Case("Kernel-DotProduct-MLP", _kernel(lambda d: kernels.DotProduct(), _mlp), _dot_values),
    Case("Kernel-DotProduct-own-encoder", _kernel(lambda d: kernels.DotProduct(), _own), _dot_values, 3),
    Case("SkewedRBF", _skewed(False), _skewed_values),
    Case("SkewedRBF-full", _skewed(True), _skewed_values),
    Case(
        "RandomFourier",
        lambda space, points: RandomFourier(space, 4 * points.shape[0], [0.4, 0.5, 0.6][: points.shape[1]]),
        _wave_values,
    ),
    Case("Hermite-Gaussian", _hermite(lambda d: kernels.Gaussian(0.4)), _hermite_gaussian_values),
    Case("Hermite-Matern-6.5", _hermite(lambda d: kernels.Matern(6.5, 0.8)), None, 4, 0),
    Case("Hermite-Wendland-5", _hermite(lambda d: kernels.Wendland(5, 2.0)), None, 4, 0),
    Case(
        "Hermite-two-channels",
        lambda space, points: Hermite(space, coupled_constraints(space, points), kernels.Gaussian(0.4)),
        channels="u v",
        dimensions=(1, 2),
    ),
    Case("ConstraintLayer", lambda space, points: ConstraintLayer(space, _siren(points.shape[1]))),
    Case("ConstraintLayer-own", lambda space, points: ConstraintLayer(space, _own(points.shape[1])), order=3),
    Case("Independent-alike", _networks(True), _stacked_values),
    Case("Independent-different", _networks(False), _stacked_values, 3, dimensions=(1, 2)),
    Case("Independent-frequencies", _frequencies, _stacked_values, 2, dimensions=(1, 2)),
    Case("Independent-per-channel", _networks(True, 2), _stacked_values, channels="u v", dimensions=(1, 2)),
    Case("Hypernet", _main(), _hypernet_values),
    Case("Hypernet-own-network", _own_main, _hypernet_values, 3, dimensions=(1, 2)),
    Case("Hypernet-shared-by-channels", _main(), _hypernet_values, channels="u v", dimensions=(1, 2)),
    Case("Hypernet-per-channel", _main(2), _hypernet_values, channels="u v", dimensions=(1, 2)),
    Case("HypernetKernel", _generated(lambda: None, _soft), _hypernet_kernel_values),
    Case(
        "HypernetKernel-Gaussian-SIREN",
        _generated(lambda: kernels.Gaussian(0.8), _small_siren),
        _hypernet_kernel_values,
    ),
    Case(
        "HypernetKernel-Gaussian-own-encoder",
        _generated(lambda: kernels.Gaussian(1.2), _small_own),
        _hypernet_kernel_values,
        3,
        dimensions=(1, 2),
    ),
    Case("HypernetKernel-DotProduct", _generated(kernels.DotProduct, _soft), _hypernet_kernel_values),
    Case("HypernetKernel-DotProduct-SIREN", _generated(kernels.DotProduct, _small_siren), _hypernet_kernel_values),
    Case(
        "HypernetKernel-DotProduct-own-encoder",
        _generated(kernels.DotProduct, _small_own),
        _hypernet_kernel_values,
        3,
        dimensions=(1, 2),
    ),
    Case(
        "HypernetKernel-two-channels",
        _generated(lambda: None, _small_siren),
        _hypernet_kernel_values,
        channels="u v",
        dimensions=(1, 2),
    ),
    Case(
        "Hybrid-Kernel-Wendland",
        _hybrid(_kernel(lambda d: kernels.Gaussian(0.5)), lambda: kernels.Wendland(3, 1.3)),
        _windowed(_gaussian_values, _wendland_values),
        4,
        0,
    ),
    Case(
        "Hybrid-HypernetKernel-Wendland",
        _hybrid(_generated(lambda: None, _soft), lambda: kernels.Wendland(3, 1.3)),
        _windowed(_hypernet_kernel_values, _wendland_values),
        4,
        0,
    ),
    Case(
        "Hybrid-encoded-TruncatedGaussian",
        _hybrid(_kernel(lambda d: kernels.Gaussian(1.0), _mlp), lambda: kernels.TruncatedGaussian(0.3)),
        _windowed(_encoded_gaussian_values, _truncated_values),
        0,
        0,
        without_gradient=("inner.encoder.layers.4.bias",),
    ),
    Case(
        "Concat",
        lambda space, points: Concat([Polynomial(space, 2), _skewed(False)(space, points)]),
        lambda basis, x: np.concatenate([_polynomial_values(basis.bases[0], x), _skewed_values(basis.bases[1], x)], 1),
    ),
    Case("own-basis", lambda space, points: OwnBasis(space, 2 * points.shape[0])),
]
BY_NAME = {case.name: case for case in CASES}
