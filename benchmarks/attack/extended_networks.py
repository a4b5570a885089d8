"""Networks in many digits: the outputs of a torch module for points of mpf, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mpmath as mp
from torch import Tensor, nn

from benchmarks.attack.networks import Amplified, Rescaled, Waving
from cnf.bases.layers import FourierMap, Sine

Point = Sequence[Any]  # of mpf


class UnknownPartError(Exception):
    """There is no formula for this part of the field."""


def numbers(tensor: Tensor) -> list:
    """Nested lists of mpf."""

    def converted(part):
        return [converted(p) for p in part] if isinstance(part, list) else mp.mpf(part)

    return converted(tensor.detach().double().tolist())


def network(module: nn.Module, x: Point) -> list:
    """The outputs of a network."""
    inner = getattr(module, "network", None) if type(module).__name__ == "Recast" else None
    if inner is not None:
        return network(inner, x)
    if isinstance(module, nn.Sequential):
        for layer in module:
            x = network(layer, x)
        return list(x)
    if isinstance(getattr(module, "layers", None), nn.Sequential):
        return network(module.layers, x)
    if type(module) is nn.Linear:
        bias = numbers(module.bias) if module.bias is not None else [mp.mpf(0)] * module.out_features
        return [mp.fdot(row, x) + b for row, b in zip(numbers(module.weight), bias, strict=True)]
    if type(module) is Rescaled:
        box = zip(x, numbers(module.lower), numbers(module.length), strict=True)
        return [2 * (v - a) / b - 1 for v, a, b in box]
    if type(module) is Amplified:
        return [mp.mpf(module.amplitude) * v for v in x]
    if type(module) is Waving:
        z = [mp.fdot(row, x) for row in numbers(module.directions)]
        return [mp.mpf(module.amplitude) * (mp.sin(2 * v) + mp.exp(-v / 2)) for v in z]
    if type(module) is FourierMap:
        z = [mp.fdot(row, x) for row in numbers(module.frequencies)]
        return [*(x if module.include_input else ()), *map(mp.sin, z), *map(mp.cos, z)]
    simple = {nn.Tanh: mp.tanh, nn.ReLU: lambda v: max(v, mp.mpf(0)), nn.Identity: lambda v: v}
    if type(module) in simple:
        return [simple[type(module)](v) for v in x]
    if type(module) is nn.Softplus and module.beta == 1:
        return [mp.log1p(mp.exp(v)) for v in x]
    if type(module) is Sine:
        return [mp.sin(mp.mpf(float(module.omega)) * v) for v in x]
    raise UnknownPartError(type(module).__name__)
