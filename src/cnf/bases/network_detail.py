"""How fast networks vary: bounds of every neuron's argument over whole boxes, layer by layer.

For a box of points, values and slopes of all neurons are enclosed by intervals (middle and radius), which become sharp
as boxes shrink. The pace of a network is the steepest argument of any of its activations: between two points where no
argument moves by more than a unit there is nothing narrow in a smooth network, whatever its last layer makes of it.
Networks of known layers (those of `cnf.encoders` and their building blocks) are bounded so; any other may say of
itself over which distance at least it varies, `network.shortest_length = 0.1`, or is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from cnf.bases.encoders import LearnablePolynomial
from cnf.bases.kernels import KernelProfile
from cnf.bases.layers import RULES, FourierMap, Sine, _sequential, is_altered
from cnf.operators.detail import Detail, Even, of_lengths, unknown
from cnf.operators.ranges import declared_lengths

PIECE = 2**22  # numbers of a layer's slopes kept at once
ROUGH = (nn.ReLU, nn.ELU)  # not smooth at zero: narrow shapes may hide there


@dataclass(frozen=True)
class Curve:
    """An activation: bounds of its slope and its curvature, natural units of its argument, where it is straight."""

    slopes: tuple[float, float]
    curvature: float
    units: float = 1.0
    straight: float = np.inf  # beyond this argument, to either side


CURVES: dict[type, Callable[..., Curve]] = {
    nn.Tanh: lambda module: Curve((0.0, 1.0), 0.77, straight=20.0),
    nn.Sigmoid: lambda module: Curve((0.0, 0.25), 0.1, straight=40.0),
    nn.SiLU: lambda module: Curve((-0.1, 1.1), 0.5, straight=40.0),
    nn.GELU: lambda module: Curve((-0.13, 1.13), 0.8, straight=9.0),
    nn.Mish: lambda module: Curve((-0.12, 1.1), 0.65, straight=40.0),
    nn.Softplus: lambda module: _softplus(float(module.beta)),
    Sine: lambda module: _sine(abs(float(module.omega))),
}
WAVE = Curve((-1.0, 1.0), 1.0)


def _softplus(beta: float) -> Curve:
    return Curve((0.0, 1.0), beta / 4, beta, 40.0 / beta)


def _sine(omega: float) -> Curve:
    return Curve((-omega, omega), omega**2, omega)


@dataclass(frozen=True)
class Box:
    """Values (..., B, F) and slopes (..., B, D, F), each with a radius, and the pace so far (B, D)."""

    value: Tensor
    spread: Tensor
    slope: Tensor
    slope_spread: Tensor
    pace: Tensor
    half: Tensor  # (B, D), of the box itself

    @property
    def steepest(self) -> Tensor:
        return self.slope.abs() + self.slope_spread


@dataclass(frozen=True)
class Network:
    """`finish` adds what is done with the outputs: a box of them -> the pace, (B, D). `parameters` as for `Layers`."""

    module: nn.Module
    parameters: Mapping[str, Tensor] | None = None
    finish: Callable[[Box], Tensor] = lambda box: box.pace
    doubt: str = ""

    def pace(self, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        layers = Layers(self.module, self.parameters)
        step = max(1, PIECE // max(1, layers.width * (lower.shape[1] + 1)))
        found = []
        with torch.no_grad():
            for start in range(0, lower.shape[0], step):
                low, high = (torch.as_tensor(edge[start : start + step].copy()) for edge in (lower, upper))
                box = layers(_started((low + high) / 2, (high - low) / 2))
                found.append(torch.nan_to_num(self.finish(box), nan=np.inf, posinf=np.inf).numpy())
        return np.concatenate(found)

    def kinks(self, axis: int, lines: np.ndarray) -> np.ndarray:
        return np.empty(0)


def network_detail(
    module: nn.Module,
    dimension: int,
    finish: Callable[[Box], Tensor] | None = None,
    parameters: Mapping[str, Tensor] | None = None,
) -> Detail:
    """What is known of a network R^D -> R^F, or of what is made of its outputs."""
    own = getattr(module, "detail", None)
    if callable(own):
        return own()
    lengths = declared_lengths(module, dimension)
    if lengths is not None and finish is None:
        return of_lengths(lengths)
    if type(module) is LearnablePolynomial and finish is None:
        return Even(np.full(dimension, float(module.arguments["degree"])))
    if not is_known(module):
        owner = "network" if finish is None else "basis"
        return unknown(
            dimension,
            f"{type(module).__name__} may vary anywhere; use one of cnf.encoders, or say over which distance at least "
            f"it varies: {owner}.shortest_length = 0.1",
        )
    return Network(module, parameters) if finish is None else Network(module, parameters, finish)


def is_known(module: nn.Module) -> bool:
    """True if every layer is one that can be bounded."""
    kind = type(module)
    plain = kind in CURVES or kind in ROUGH or kind in (nn.Identity, nn.Linear, FourierMap)
    if not (plain or RULES.get(kind) is _sequential) or is_altered(module):
        return False
    return all(is_known(child) for child in module.children())


def _started(middle: Tensor, half: Tensor) -> Box:
    unit = torch.eye(middle.shape[1], dtype=middle.dtype).expand(middle.shape[0], -1, -1)
    return Box(middle, half, unit, torch.zeros_like(unit), torch.zeros_like(middle), half)


@dataclass(frozen=True)
class Layers:
    """A network applied to boxes. `parameters` stand in for its own, by name, with one more dimension in front each:
    many networks of one architecture, bounded together."""

    module: nn.Module
    parameters: Mapping[str, Tensor] | None = None

    @property
    def width(self) -> int:
        widest = max((p.shape[0] for p in self.module.parameters() if p.dim() == 2), default=1)
        return widest * (1 if self.parameters is None else next(iter(self.parameters.values())).shape[0])

    def __call__(self, box: Box) -> Box:
        return self._applied(self.module, "", box)

    def _applied(self, module: nn.Module, prefix: str, box: Box) -> Box:
        kind = type(module)
        if kind is nn.Linear:
            return _linear(box, self._tensor(module, prefix, "weight"), self._tensor(module, prefix, "bias"))
        if kind is FourierMap:
            phase = _linear(box, self._tensor(module, prefix, "frequencies"), None)
            waves = [_activated(phase, function, WAVE) for function in (torch.sin, torch.cos)]
            return _joined([box, *waves] if module.include_input else waves)
        if kind in CURVES:
            return _activated(box, module, CURVES[kind](module))
        if kind in ROUGH:
            return _kinked(box, module)
        for name, child in module._modules.items():
            if child is not None:
                box = self._applied(child, f"{prefix}{name}.", box)
        return box

    def _tensor(self, module: nn.Module, prefix: str, name: str) -> Tensor | None:
        own = getattr(module, name)
        if own is None:
            return None
        given = None if self.parameters is None else self.parameters.get(prefix + name)
        found = (own if given is None else given).detach().to(torch.float64).cpu()
        return found[:, None] if given is not None and name == "bias" else found  # (N, 1, F) beside (N, B, F)


def _linear(box: Box, weight: Tensor | None, bias: Tensor | None) -> Box:
    assert weight is not None
    turned = weight.transpose(-1, -2)
    sizes = turned.abs()
    deeper = (turned[..., None, :, :], sizes[..., None, :, :])  # slopes have the coordinates before the features
    value = box.value @ turned
    slope, slope_spread = box.slope @ deeper[0], box.slope_spread @ deeper[1]
    spread = torch.minimum(box.spread @ sizes, _mean_value(slope, slope_spread, box.half))
    return Box(value if bias is None else value + bias, spread, slope, slope_spread, box.pace, box.half)


def _mean_value(slope: Tensor, slope_spread: Tensor, half: Tensor) -> Tensor:
    """How far values are from that in the middle of the box at most, by the slopes in it."""
    return ((slope.abs() + slope_spread) * half[:, :, None]).sum(dim=-2)


def _activated(box: Box, function: Callable[[Tensor], Tensor], curve: Curve) -> Box:
    with torch.enable_grad():
        given = box.value.clone().requires_grad_()
        value = function(given)
        (at_middle,) = torch.autograd.grad(value.sum(), given)
    least = (at_middle - curve.curvature * box.spread).clamp_min(curve.slopes[0])
    most = (at_middle + curve.curvature * box.spread).clamp_max(curve.slopes[1])
    active = box.value.abs() - box.spread < curve.straight
    units = torch.where(active, curve.units, 0.0)
    return _through(box, value.detach(), least, most, units)


def _kinked(box: Box, module: nn.Module) -> Box:
    """ReLU and ELU: a kink wherever the argument may change sign."""
    low, high = box.value - box.spread, box.value + box.spread
    alpha = float(getattr(module, "alpha", 0.0))
    least = torch.where(low >= 0, 1.0, 0.0)
    most = torch.where(high <= 0, alpha * torch.exp(high), max(1.0, alpha))
    units = torch.where((low < 0) & (high > 0), np.inf, torch.where(high <= 0, min(alpha, 1.0), 0.0))
    return _through(box, module(box.value), least, most, units)


def _through(box: Box, value: Tensor, least: Tensor, most: Tensor, units: Tensor) -> Box:
    """Behind an activation whose slopes lie between `least` and `most` and that has `units` per unit of argument."""
    steepest = box.steepest
    pace = torch.where((steepest == 0) | (units[..., None, :] == 0), 0.0, steepest * units[..., None, :])
    middle, radius = ((most + least) / 2)[..., None, :], ((most - least) / 2)[..., None, :]
    slope = middle * box.slope
    slope_spread = middle.abs() * box.slope_spread + radius * steepest
    spread = _mean_value(slope, slope_spread, box.half)
    return Box(value, spread, slope, slope_spread, torch.maximum(box.pace, _largest(pace)), box.half)


def _largest(steepest: Tensor) -> Tensor:
    """(..., B, D, F) -> (B, D)."""
    found = steepest.amax(dim=-1)
    return found if found.dim() == 2 else found.flatten(0, -3).amax(dim=0)


def _joined(boxes: list[Box]) -> Box:
    def together(parts: list[Tensor]) -> Tensor:
        return torch.cat(parts, dim=-1)

    pace = torch.stack([b.pace for b in boxes]).amax(dim=0)
    return Box(
        together([b.value for b in boxes]),
        together([b.spread for b in boxes]),
        together([b.slope for b in boxes]),
        together([b.slope_spread for b in boxes]),
        pace,
        boxes[0].half,
    )


def kernel_of_network(kernel: KernelProfile) -> Callable[[Box], Tensor]:
    """The pace of kernels of the outputs: that of the network, and the lengths of the kernel that the outputs cross."""

    def finish(box: Box) -> Tensor:
        if kernel.units is None:
            return torch.full_like(box.pace, np.inf)
        steepest = kernel.scaled(box.steepest).to(torch.float64)
        crossed = kernel.units * _largest(steepest.square().sum(dim=-1, keepdim=True).sqrt())
        return torch.maximum(box.pace, crossed)

    return finish
