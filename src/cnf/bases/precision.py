"""Precision: a network evaluated in another precision than its parameters have, for losses and for fast queries.

The gradient reaches the parameters themselves, in their own precision; conditions and weights are not touched.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import functional_call


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
