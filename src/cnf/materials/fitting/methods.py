"""Materials, methods: the networks that a material is fitted with, all of about the same number of parameters.

A method builds its model for given conditions: a `ConstrainedField` that meets them whatever its parameters are, or a
plain network that knows them only through its loss. All map encoded directions (P, 6) to log(1 + f), (P, 3).

`kernel-grid` has no layers: its base is a grid of splines, compact kernels that are many and local where the others'
are few and learnt, fitted by least squares; Gaussians as wide as a cell correct it at the conditions.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import nn

import cnf
from cnf.errors import CnfError, nearest
from cnf.materials.fitting.coordinates import CellDistances, HighlightCoordinates, SwapInvariant
from cnf.materials.fitting.sampling import Samples

SPACE = cnf.Space("hx hy hz dx dy dz", "r g b")
INPUTS, OUTPUTS = 6, 3
FREQUENCIES, SCALE = 16, 0.159155  # Fourier features of sin(2 pi B x) with B standard normal: bandwidth 1 / (2 pi)
OMEGA, FIRST_OMEGA = 15.0, 20.0
WIDTH = 0.25  # of the Gaussian, over the typical distance between encoded conditions of the untrained encoder
CODES = 100  # of a hypernetwork
FEATURES = 48  # of an encoder that a hypernetwork writes; other encoders have twice their width
REACH = 1.0  # of the Gaussians that correct a grid, in cells
POLES = ((0, 2), (1, 2))  # where theta_h or theta_d is zero, phi_d has no meaning

Model = cnf.ConstrainedField | nn.Module


@dataclass(frozen=True)
class Method:
    """`rate`: the learning rate that served best here; `paper_rate`: the one of the paper.

    Soft methods exist with both: a name that ends in -paper takes the paper's. A method that is `solved` is not
    trained: its network is the base of the field, fitted by least squares, and its basis corrects it.
    """

    name: str
    title: str
    constrained: bool
    rate: float
    paper_rate: float
    network: Callable[[int, int], nn.Module]  # width, seed
    basis: Callable[[torch.Tensor, nn.Module, int], cnf.bases.Basis] | None = None  # anchors, network, seed
    solved: bool = False
    free: bool = False  # never reciprocal by construction, whatever the material is

    def build(
        self,
        conditions: Samples,
        parameters: int,
        seed: int,
        tolerance: float | None = None,
        reciprocal: bool = False,
    ) -> Model:
        """The untrained model with about that many parameters, in the precision of the conditions.

        `reciprocal`: light and eye may be swapped, by construction; for methods with conditions only.
        """
        return self.with_width(conditions, self.width_for(conditions, parameters), seed, tolerance, reciprocal)

    def with_width(
        self,
        conditions: Samples,
        width: int,
        seed: int,
        tolerance: float | None = None,
        reciprocal: bool = False,
    ) -> Model:
        network = self.network(width, seed).to(conditions.points.dtype)
        if self.basis is None:
            return network
        if self.solved:
            network = nn.Sequential(HighlightCoordinates(reciprocal), network)
        elif reciprocal:
            network = nn.Sequential(SwapInvariant(), network)
        basis = self.basis(conditions.points, network, seed)
        base = network if self.solved else None
        return cnf.ConstrainedField(basis, impose(conditions), base=base, tolerance=tolerance)

    def width_for(self, conditions: Samples, parameters: int) -> int:
        """The width whose model comes nearest to a number of parameters; a multiple of 8 if that is within a percent.

        Products of matrices are up to twice as fast if rows start at round addresses: 256 instead of 257.
        """
        low, high = 1, 2
        while self.size(conditions, high) < parameters:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.size(conditions, middle) <= parameters else (low, middle)
        round_ones = [width for width in (low // 8 * 8, low // 8 * 8 + 8) if width]
        found = [w for w in round_ones if abs(self.size(conditions, w) - parameters) <= 0.01 * parameters]
        return min(found or (low, high), key=lambda width: abs(self.size(conditions, width) - parameters))

    def size(self, conditions: Samples, width: int) -> int:
        """Parameters of the model: those of its network, or what its hypernetwork takes to write them."""
        own = count_parameters(self.network(width, 0))
        bandwidth = 1 if self.basis in (gaussian_kernel, cell_kernel, hypernet_kernel) else 0
        if self.basis not in (hypernet, hypernet_kernel):
            return own + bandwidth
        return len(conditions) * CODES + (CODES + 1) * own + bandwidth


def impose(conditions: Samples) -> list[cnf.Constraint]:
    """log(1 + f) of every channel at the conditions."""
    return [
        SPACE.constraint(channel, at=conditions.points, equals=conditions.logs[:, k], name=channel)
        for k, channel in enumerate(SPACE.channels)
    ]


def in_double(model: Model, conditions: Samples) -> Model:
    """The field with the parameters of `model` that meets the conditions in float64; the model if it is in float64.

    A trained field of a sharp material has weights of some hundred times its values. What its kernels are rounded by in
    float32, times these, is up to 1e-3 of the values, and differs from query to query: no weights make up for it. In
    float64 the same sum is right to ten digits.
    """
    if not isinstance(model, cnf.ConstrainedField) or model.dtype == torch.float64:
        return model
    return copy.deepcopy(model).double().transfer(impose(conditions.to(torch.float64)))


def count_parameters(model: nn.Module) -> int:
    """Learnable numbers."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def siren(outputs: int) -> Callable[[int, int], nn.Module]:
    return lambda width, seed: cnf.encoders.SIREN(INPUTS, outputs, [width, width], OMEGA, seed, FIRST_OMEGA)


def wide_siren(width: int, seed: int) -> nn.Module:
    return cnf.encoders.SIREN(INPUTS, 2 * width, [width, width], OMEGA, seed, FIRST_OMEGA)


def wide_fourier(width: int, seed: int) -> nn.Module:
    return fourier(2 * width)(width, seed)


def fourier(outputs: int) -> Callable[[int, int], nn.Module]:
    return lambda width, seed: cnf.encoders.FourierFeatures(
        INPUTS, outputs, FREQUENCIES, SCALE, [width, width], "relu", seed=seed
    )


def relu(width: int, seed: int) -> nn.Module:
    return cnf.encoders.MLP(INPUTS, OUTPUTS, [width, width], "relu", seed=seed)


def gaussian_kernel(anchors: torch.Tensor, encoder: nn.Module, seed: int) -> cnf.bases.Basis:
    with torch.no_grad():
        apart = torch.pdist(encoder(anchors)).median() if len(anchors) > 1 else torch.zeros(())
    return cnf.bases.Kernel(SPACE, anchors, cnf.kernels.Gaussian(WIDTH * (float(apart) or 1.0)), encoder)


def dot_kernel(anchors: torch.Tensor, encoder: nn.Module, seed: int) -> cnf.bases.Basis:
    return cnf.bases.Kernel(SPACE, anchors, cnf.kernels.DotProduct(), encoder)


def hypernet(anchors: torch.Tensor, network: nn.Module, seed: int) -> cnf.bases.Basis:
    return cnf.bases.Hypernet(SPACE, network, len(anchors), codes=CODES, seed=seed)


def hypernet_kernel(anchors: torch.Tensor, encoder: nn.Module, seed: int) -> cnf.bases.Basis:
    """A Gaussian around every condition, each behind an encoder of its own that a hypernetwork writes."""
    return cnf.bases.HypernetKernel(SPACE, anchors, encoder, codes=CODES, seed=seed)


def layer(anchors: torch.Tensor, network: nn.Module, seed: int) -> cnf.bases.Basis:
    """One output of a SIREN per condition, shared by the channels."""
    return cnf.bases.ConstraintLayer(SPACE, network)


def spline_grid(width: int, seed: int) -> nn.Module:
    """`width` cells in theta_h, where the highlight asks for them, two thirds as many in theta_d and phi_d."""
    others = 2 * width // 3
    return cnf.encoders.SplineGrid(
        [width, max(1, others), max(4, others)], OUTPUTS, [False, False, True], [list(pole) for pole in POLES]
    )


def cell_kernel(anchors: torch.Tensor, network: nn.Module, seed: int) -> cnf.bases.Basis:
    """Gaussians around the conditions, as wide as a cell of the grid that they correct."""
    assert isinstance(network, nn.Sequential)
    coordinates, grid = network[0], network[1]
    assert isinstance(coordinates, HighlightCoordinates) and isinstance(grid, cnf.encoders.SplineGrid)
    encoder = CellDistances(grid.cells, coordinates.reciprocal, coordinates.highlight)
    return cnf.bases.Kernel(SPACE, anchors, cnf.kernels.Gaussian(REACH), encoder)


def _methods(conditions: int = 100) -> dict[str, Method]:
    known = (
        Method("kernel-grid", "Kernel grid", True, 0.0, 0.0, spline_grid, cell_kernel, solved=True),
        Method(
            "kernel-grid-free", "Kernel grid, free", True, 0.0, 0.0, spline_grid, cell_kernel, solved=True, free=True
        ),
        Method("kernel-siren", "Kernel SIREN", True, 1e-3, 1e-4, wide_siren, gaussian_kernel),
        Method("kernel-ffn", "Kernel FFN", True, 1e-3, 5e-4, wide_fourier, gaussian_kernel),
        Method("nbrdf", "NBRDF", False, 6e-3, 5e-4, relu),
        Method("ffn", "FFN", False, 6e-3, 5e-4, fourier(OUTPUTS)),
        Method("siren", "SIREN", False, 5e-4, 1e-4, siren(OUTPUTS)),
        Method("dot-siren", "Dot-product kernel", True, 1e-3, 1e-4, wide_siren, dot_kernel),
        Method("hypernet", "Hypernet basis", True, 1e-3, 1e-4, siren(1), hypernet),
        Method("hypernet-kernel", "Hypernet kernel", True, 1e-3, 1e-4, siren(FEATURES), hypernet_kernel),
        Method("layer", "Constraint layer", True, 1e-3, 1e-4, siren(conditions), layer),
    )
    slower = [
        replace(method, name=f"{method.name}-paper", title=f"{method.title}, paper's rate", rate=method.paper_rate)
        for method in known
        if not method.constrained
    ]
    return {method.name: method for method in (*known, *slower)}


METHODS = _methods()
SOFT = tuple(name for name, method in METHODS.items() if not method.constrained)


def find_method(name: str, conditions: int = 100) -> Method:
    """A method by its name, with as many functions as there are conditions."""
    known = _methods(conditions)
    if name not in known:
        raise CnfError(f"there is no method {name!r}; choose one of {', '.join(known)}." + nearest(name, known))
    return known[name]
