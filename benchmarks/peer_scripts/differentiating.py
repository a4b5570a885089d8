"""Derivatives of a torch network by nested autograd, for the peers that are networks."""

from __future__ import annotations

from collections.abc import Callable

import torch

from benchmarks.peer_scripts.problems import Array, Index


def derive(u: torch.Tensor, x: torch.Tensor, index: Index) -> torch.Tensor:
    """d^alpha of u (P, 1), computed from x (P, D) in this graph, (P, 1)."""
    for axis, order in enumerate(index):
        for _ in range(order):
            u = torch.autograd.grad(u.sum(), x, create_graph=True)[0][:, axis : axis + 1]
    return u


def differentiate(net: Callable[[torch.Tensor], torch.Tensor], points: Array, index: Index, dtype) -> Array:
    """d^alpha of the network at points, (P,)."""
    x = torch.tensor(points, dtype=dtype, requires_grad=True)
    return derive(net(x), x, index)[:, 0].detach().to(torch.float64).numpy()
