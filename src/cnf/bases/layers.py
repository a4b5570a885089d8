"""Rules that push a bundle of derivatives through a module, layer by layer.

One rule per layer type; a module made only of layers with rules is differentiated at the cost of one pass per
derivative, any other module by generic forward mode. Types are matched exactly: a subclass may compute something else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np
import torch
from numpy.polynomial import polynomial as poly
from torch import Tensor, nn

from cnf.bases.part import Part
from cnf.operators import jets
from cnf.operators.forward import derivative, derivatives
from cnf.operators.jets import Bundle, MultiIndex

Slopes = Callable[[Tensor, int], list[Tensor]]


class Sine(Part):
    """sin(omega x)."""

    def __init__(self, omega: float = 1.0):
        super().__init__()
        self.omega = omega

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(self.omega * x)

    def config(self) -> dict:
        return {"omega": self.omega}


class FourierMap(Part):
    """x -> (x, sin(B x), cos(B x)) with fixed random frequencies B (K, D)."""

    frequencies: Tensor

    def __init__(self, frequencies: Tensor, include_input: bool = True):
        super().__init__()
        self.register_buffer("frequencies", frequencies)
        self.include_input = include_input

    def forward(self, x: Tensor) -> Tensor:
        phase = x @ self.frequencies.T
        parts = [torch.sin(phase), torch.cos(phase)]
        return torch.cat([x, *parts] if self.include_input else parts, dim=-1)

    def config(self) -> dict:
        return {"frequencies": self.frequencies, "include_input": self.include_input}


def encode(module: nn.Module, x: Tensor, indices: Sequence[MultiIndex]) -> Bundle:
    """Value and derivatives of a module R^D -> R^F at the points, for a downward closed set of indices."""
    if has_rules(module):
        return push(module, jets.at_points(x, indices))
    return dict(derivatives(module, x, indices))


def push(module: nn.Module, bundle: Bundle) -> Bundle:
    return RULES[type(module)](module, bundle)


def has_rules(module: nn.Module) -> bool:
    """True if every layer has a rule, so that bundles can be pushed through."""
    if type(module) not in RULES or is_altered(module):
        return False
    return all(has_rules(child) for child in module.children())


def is_altered(module: nn.Module) -> bool:
    """Whether calling the module does more than its class says: hooks, its own or global, or a forward of its own."""
    every = torch.nn.modules.module
    hooks = (
        module._forward_hooks,
        module._forward_pre_hooks,
        every._global_forward_hooks,
        every._global_forward_pre_hooks,
    )
    return any(hooks) or "forward" in vars(module)


def smoothness(module: nn.Module) -> int | None:
    """Highest derivative a network has: one if it contains a piecewise linear activation, else no known limit."""
    rough = any(isinstance(layer, PIECEWISE_LINEAR) for layer in module.modules())
    return 1 if rough else None


PIECEWISE_LINEAR = (nn.ReLU, nn.LeakyReLU, nn.PReLU, nn.RReLU, nn.ReLU6, nn.Hardtanh, nn.Threshold, nn.Softshrink)


def _sequential(module: nn.Module, bundle: Bundle) -> Bundle:
    for layer in module._modules.values():  # children() would skip a layer that occurs twice
        if layer is not None:
            bundle = push(layer, bundle)
    return bundle


def _linear(module: nn.Linear, bundle: Bundle) -> Bundle:
    return jets.linear(bundle, module.weight, module.bias)


def _fourier(module: FourierMap, bundle: Bundle) -> Bundle:
    phase = jets.linear(bundle, module.frequencies)
    parts = [jets.elementwise(phase, partial(_circular, shift=shift)) for shift in (0.0, math.pi / 2)]
    if module.include_input:
        parts.insert(0, bundle)
    count = next(v for v in bundle.values() if v is not None).shape[0]
    return {index: _joined([p[index] for p in parts], parts, count) for index in bundle}


def _joined(values: list[Tensor | None], parts: list[Bundle], count: int) -> Tensor | None:
    if all(v is None for v in values):
        return None
    widths = [next(v for v in p.values() if v is not None).shape[1] for p in parts]
    like = next(v for v in values if v is not None)
    filled = [like.new_zeros(1, w) if v is None else v for v, w in zip(values, widths, strict=True)]
    rows = max(v.shape[0] for v in filled)
    return torch.cat([v.expand(rows, -1) for v in filled], dim=1)


def _circular(z: Tensor, order: int, shift: float = 0.0) -> list[Tensor]:
    """sin(z + shift) and its derivatives, two evaluations in all."""
    sine, cosine = (torch.sin(z), torch.cos(z)) if shift == 0.0 else (torch.cos(z), -torch.sin(z))
    cycle = [sine, cosine, -sine, -cosine] if order > 1 else [sine, cosine]
    return [cycle[m % 4] for m in range(order + 1)]


def _sine(module: Sine, bundle: Bundle) -> Bundle:
    omega = module.omega
    return jets.elementwise(bundle, lambda z, n: [omega**m * v for m, v in enumerate(_circular(omega * z, n))])


@lru_cache(maxsize=64)
def _in_terms_of_itself(kind: str, order: int) -> tuple[tuple[float, ...], ...]:
    """Derivatives of tanh or sigmoid as polynomials in the function itself (t' = 1 - t^2, s' = s - s^2)."""
    slope = np.array([1.0, 0.0, -1.0]) if kind == "tanh" else np.array([0.0, 1.0, -1.0])
    current = np.array([0.0, 1.0])
    found = [tuple(current)]
    for _ in range(order):
        current = poly.polymul(poly.polyder(current), slope)
        found.append(tuple(current))
    return tuple(found)


def _horner(coefficients: Sequence[float], t: Tensor) -> Tensor:
    result = torch.full_like(t, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = result * t + c
    return result


def _self_slopes(kind: str, function: Callable[[Tensor], Tensor]) -> Slopes:
    def slopes(z: Tensor, order: int) -> list[Tensor]:
        t = function(z)
        return [t] + [_horner(c, t) for c in _in_terms_of_itself(kind, order)[1:]]

    return slopes


TANH = _self_slopes("tanh", torch.tanh)
SIGMOID = _self_slopes("sigmoid", torch.sigmoid)


def _softplus(module: nn.Softplus, bundle: Bundle) -> Bundle:
    beta = float(module.beta)

    def slopes(z: Tensor, order: int) -> list[Tensor]:
        linear = beta * z > module.threshold  # torch switches to the identity there; so do its derivatives
        upper = SIGMOID(beta * z, max(order - 1, 0))
        found = [module(z)]
        for m in range(1, order + 1):
            found.append(torch.where(linear, float(m == 1), beta ** (m - 1) * upper[m - 1]))
        return found

    return jets.elementwise(bundle, slopes)


def _silu(module: nn.SiLU, bundle: Bundle) -> Bundle:
    def slopes(z: Tensor, order: int) -> list[Tensor]:
        s = SIGMOID(z, order)
        return [z * s[0]] + [z * s[m] + m * s[m - 1] for m in range(1, order + 1)]

    return jets.elementwise(bundle, slopes)


def _relu(module: nn.ReLU, bundle: Bundle) -> Bundle:
    def slopes(z: Tensor, order: int) -> list[Tensor]:
        return [torch.relu(z), (z > 0).to(z)] + [torch.zeros_like(z)] * (order - 1)

    return jets.elementwise(bundle, lambda z, n: slopes(z, n)[: n + 1])


def _by_forward_mode(module: nn.Module, bundle: Bundle) -> Bundle:
    """Any other activation: its derivatives entry by entry."""

    def slopes(z: Tensor, order: int) -> list[Tensor]:
        flat = z.reshape(-1, 1)
        return [derivative(module, flat, (m,)).reshape(z.shape) for m in range(order + 1)]

    return jets.elementwise(bundle, slopes)


RULES: dict[type, Callable[..., Bundle]] = {
    nn.Identity: lambda module, bundle: bundle,
    nn.Sequential: _sequential,
    nn.Linear: _linear,
    nn.Tanh: lambda module, bundle: jets.elementwise(bundle, TANH),
    nn.Sigmoid: lambda module, bundle: jets.elementwise(bundle, SIGMOID),
    nn.Softplus: _softplus,
    nn.SiLU: _silu,
    nn.ReLU: _relu,
    nn.GELU: _by_forward_mode,
    nn.ELU: _by_forward_mode,
    nn.Mish: _by_forward_mode,
    Sine: _sine,
    FourierMap: _fourier,
}
