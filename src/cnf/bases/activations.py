"""Activations of generated networks, written out for gradients that are written out too.

Each gives its value, its value and slope together, and the second derivative from these two, so that nothing else has
to be kept. What they are given belongs to them: they may write into it. Slopes are written into `out` if it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from cnf.bases.layers import Sine

Value = Callable[[Tensor], Tensor]  # z -> value
Bend = Callable[[Tensor, Tensor], Tensor]  # value, slope -> second derivative, in memory of its own


class Pair(Protocol):
    """z -> value and slope."""

    def __call__(self, z: Tensor, out: Tensor | None = None) -> tuple[Tensor, Tensor]: ...


@dataclass(frozen=True)
class Activation:
    """a of z, a and a' of z, and a'' from these two: backward needs no z."""

    value: Value
    pair: Pair
    bend: Bend


def activation_of(layer: nn.Module) -> Activation | None:
    """The rule of an activation whose second derivative follows from value and slope; None for any other."""
    if type(layer) is nn.Softplus:
        return _softplus(layer)
    if type(layer) is nn.Tanh:
        return Activation(tanh_in_place, _tanh_pair, lambda value, slope: (value * slope).mul_(-2))
    if type(layer) is Sine:
        return _sine(float(layer.omega))
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


def _tanh_pair(z: Tensor, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
    value = tanh_in_place(z)
    return value, torch.addcmul(value.new_ones(()), value, value, value=-1, out=out)


def _sine(omega: float) -> Activation:
    def pair(z: Tensor, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
        phase = z.mul_(omega)
        slope = torch.cos(phase, out=out).mul_(omega)
        return phase.sin_(), slope

    return Activation(lambda z: z.mul_(omega).sin_(), pair, lambda value, slope: value * -(omega**2))


def _softplus(layer: nn.Softplus) -> Activation:
    beta, threshold = float(layer.beta), float(layer.threshold)

    def value(z: Tensor) -> Tensor:
        return nn.functional.softplus(z, beta, threshold)

    def pair(z: Tensor, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
        slope = torch.sigmoid(beta * z, out=out)
        if z.numel() and float(z.max()) * beta > threshold:  # torch switches to the identity there; so does its slope
            slope.masked_fill_(beta * z > threshold, 1.0)
        return value(z), slope

    return Activation(value, pair, lambda value, slope: (1 - slope).mul_(slope).mul_(beta))
