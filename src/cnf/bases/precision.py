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
        self.network, self.precision = network, precision

    def forward(self, x: Tensor) -> Tensor:
        tables = {**dict(self.network.named_parameters()), **dict(self.network.named_buffers())}
        converted = {n: t.to(self.precision) if t.is_floating_point() else t for n, t in tables.items()}
        return functional_call(self.network, converted, (x.to(self.precision),))
