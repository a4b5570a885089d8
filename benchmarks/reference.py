"""The naive pairwise scheme: the encoder at every pair of point and anchor, derivatives by nested autograd.

This is how the method is usually written down first, and what the fast assembly is measured and tested against.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


def pairwise_values(encoder: nn.Module, bandwidth: float, x: Tensor, anchors: Tensor) -> Tensor:
    """exp(-|phi(x) - phi(c)|^2 / (2 bandwidth^2)) for rows of x and anchors taken together, (pairs,)."""
    difference = (encoder(x) - encoder(anchors)) / bandwidth
    return torch.exp(-0.5 * (difference * difference).sum(dim=1))


def laplacian(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Sum of second derivatives by nested reverse mode, one value per row of x."""
    x = x.detach().requires_grad_(True)
    (first,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
    total = torch.zeros_like(x[:, 0])
    for k in range(x.shape[1]):
        (second,) = torch.autograd.grad(first[:, k].sum(), x, create_graph=True)
        total = total + second[:, k]
    return total


def assemble_laplacian(encoder: nn.Module, bandwidth: float, x: Tensor, anchors: Tensor, columns: int = 4) -> Tensor:
    """The matrix of Laplacian rows (P, N), some columns at a time so that it fits in memory."""
    found = []
    for start in range(0, anchors.shape[0], columns):
        part = anchors[start : start + columns]
        pairs_x = x.repeat_interleave(part.shape[0], dim=0)
        pairs_c = part.repeat(x.shape[0], 1)
        values = laplacian(lambda z, c=pairs_c: pairwise_values(encoder, bandwidth, z, c), pairs_x)
        found.append(values.detach().reshape(x.shape[0], part.shape[0]))
    return torch.cat(found, dim=1)
