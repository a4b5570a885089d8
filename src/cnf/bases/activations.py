"""Activations of generated networks, written out for gradients that are written out too.

Each gives its value, its value and slope together, and the second derivative from these two, so that nothing else has
to be kept. All of them write into memory that is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from cnf.bases.layers import Sine
from cnf.fetching import is_here

Value = Callable[[Tensor], Tensor]  # z becomes the value
Pair = Callable[[Tensor, Tensor], None]  # z becomes the value, the other the slope
Bend = Callable[[Tensor, Tensor, Tensor], object]  # value, slope, and where the second derivative goes


@dataclass(frozen=True)
class Activation:
    """a of z, a and a' of z, and a'' from these two: backward needs no z."""

    layer: nn.Module
    value: Value
    pair: Pair
    bend: Bend


def activation_of(layer: nn.Module) -> Activation | None:
    """The rule of an activation whose second derivative follows from value and slope; None for any other."""
    if type(layer) is nn.Softplus:
        return _softplus(layer)
    if type(layer) is nn.Tanh:
        return Activation(layer, tanh_in_place, _tanh_pair, _tanh_bend)
    if type(layer) is Sine:
        return _sine(layer)
    return None


def tanh_in_place(z: Tensor) -> Tensor:
    """tanh(z), written over z.

    On the processor numpy takes a third of torch's time per number, and is as accurate (1.1 units in the last place
    against 0.8); but it uses one thread, so with more than two torch is ahead.
    """
    if z.device.type != "cpu" or z.dtype not in (torch.float64, torch.float32) or torch.get_num_threads() > 2:
        return z.tanh_()
    array = z.numpy()
    with np.errstate(all="ignore"):
        np.tanh(array, out=array)
    return z


def _tanh_pair(z: Tensor, slope: Tensor) -> None:
    tanh_in_place(z)
    torch.addcmul(slope.fill_(1.0), z, z, value=-1, out=slope)


def _tanh_bend(value: Tensor, slope: Tensor, out: Tensor) -> None:
    torch.mul(value, slope, out=out).mul_(-2)


def _sine(layer: Sine) -> Activation:
    omega = float(layer.omega)

    def pair(z: Tensor, slope: Tensor) -> None:
        torch.cos(z.mul_(omega), out=slope).mul_(omega)
        z.sin_()

    def bend(value: Tensor, slope: Tensor, out: Tensor) -> None:
        torch.mul(value, -(omega**2), out=out)

    return Activation(layer, lambda z: z.mul_(omega).sin_(), pair, bend)


def _softplus(layer: nn.Softplus) -> Activation:
    beta, threshold = float(layer.beta), float(layer.threshold)

    def value(z: Tensor) -> Tensor:
        return torch.ops.aten.softplus.out(z, beta, threshold, out=z)

    def pair(z: Tensor, slope: Tensor) -> None:
        torch.mul(z, beta, out=slope)
        rounded = math.exp(-threshold) < torch.finfo(z.dtype).eps / 4  # the slope is one there by itself
        inside = rounded or (is_here(slope) and float(slope.max()) <= threshold)
        beyond = None if inside else slope > threshold
        slope.sigmoid_()
        if beyond is not None:  # torch switches to the identity there; so does its derivative
            slope.masked_fill_(beyond, 1.0)
        value(z)

    def bend(value: Tensor, slope: Tensor, out: Tensor) -> None:
        torch.addcmul(slope, slope, slope, value=-1, out=out).mul_(beta)

    return Activation(layer, value, pair, bend)
