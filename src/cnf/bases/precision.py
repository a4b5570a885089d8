"""Precision: a network evaluated in another precision than its parameters have, and what precision it really works in.

For losses and fast queries: the gradient reaches the parameters themselves, in their own precision; conditions and
weights are not touched.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Recast(nn.Module):
    """The network with parameters and buffers converted at every call; points in, values out, both in `precision`."""

    def __init__(self, network: nn.Module, precision: torch.dtype):
        super().__init__()
        self.network: nn.Module = network.network if isinstance(network, Recast) else network
        self.precision = precision

    def forward(self, x: Tensor) -> Tensor:
        return functional_call(self.network, self._tables(), (x.to(self.precision),), tie_weights=False)

    def _tables(self) -> dict[str, Tensor]:
        """Every tensor of every module once: torch leaves a module that occurs twice with the converted tensors."""
        found: dict[str, Tensor] = {}
        for name, module in self.network.named_modules():
            for key, tensor in (*module._parameters.items(), *module._buffers.items()):
                if tensor is not None:
                    kept = tensor.to(self.precision) if tensor.is_floating_point() else tensor
                    found[f"{name}.{key}" if name else key] = kept
        return found


def recast(network: nn.Module, precision: torch.dtype) -> nn.Module:
    """The network in another precision; where no gradients are asked for, a copy that is converted once.

    `Recast` puts other tensors into the network while it runs, so two threads must not use it at once; they may a copy.
    """
    network = network.network if isinstance(network, Recast) else network
    if torch.is_grad_enabled():
        return Recast(network, precision)
    memo = {}
    for module in network.modules():
        for tensor in (*module._parameters.values(), *module._buffers.values()):
            if tensor is not None:
                made = tensor.detach().clone()
                memo[id(tensor)] = made.to(precision) if made.is_floating_point() else made
    try:
        return copy.deepcopy(network, memo)
    except Exception:  # anything may be raised by what cannot be copied: a script, a lock
        return Recast(network, precision)


def without_autocast(device: torch.device) -> AbstractContextManager:
    """Conditions are solved for and measured in the precision of the field, whatever region the caller is in."""
    if not torch.amp.is_autocast_available(device.type) or not torch.is_autocast_enabled(device.type):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


def coarsest_precision(function: Callable[[Tensor], Tensor], x: Tensor) -> torch.dtype:
    """The precision of the coarsest number that anything given in a finer one is rounded to on the way from x.

    Seen operation by operation, so it does not matter who converts: the module, a hook, an autocast region, a script.
    """
    watch = _Roundings(x.dtype)
    with torch.no_grad(), watch:
        result = function(x)
    return max((watch.coarsest, result.dtype), key=lambda kind: torch.finfo(kind).eps)


class _Roundings(TorchDispatchMode):
    def __init__(self, precision: torch.dtype):
        super().__init__()
        self.coarsest = precision

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket in NOT_ROUNDED:
            return result
        given = [t.dtype for t in tree_leaves(args) if isinstance(t, Tensor) and t.is_floating_point()]
        found = [t.dtype for t in tree_leaves(result) if isinstance(t, Tensor) and t.is_floating_point()]
        finest = min((torch.finfo(kind).eps for kind in given), default=float("inf"))
        for kind in found:
            if torch.finfo(kind).eps > max(finest, torch.finfo(self.coarsest).eps):
                self.coarsest = kind
        return result


aten = torch.ops.aten
NOT_ROUNDED = {  # they take the shape or the device of what they are given, not its numbers
    *(aten.new_zeros, aten.new_ones, aten.new_full, aten.new_empty, aten.new_empty_strided),
    *(aten.zeros_like, aten.ones_like, aten.full_like, aten.empty_like, aten.rand_like, aten.randn_like),
}
