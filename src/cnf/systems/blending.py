"""Blending: smooth weights of overlapping balls that sum to one, with their derivatives.

w_t(x) = phi(|x - c_t| / r_t) / sum_s phi(|x - c_s| / r_s) with Wendland's C^4 function phi. From w S = phi, S the sum,
the product rule gives every derivative of w from those of phi and S and the lower ones of w.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cnf.bases.kernels import Wendland
from cnf.bases.plain_kernel import PlainKernel
from cnf.operators import jets
from cnf.operators.expansion import Request
from cnf.operators.jets import MultiIndex

SMOOTHNESS = 4  # derivatives the weights have


def blend_weights(
    offsets: Tensor, radii: Tensor, owner: Tensor, count: int, indices: Sequence[MultiIndex]
) -> dict[MultiIndex, Tensor]:
    """Derivatives of the weights at pairs of a point and a ball that holds it, each (E,).

    `offsets` (E, D) from the ball's centre, `radii` (E,), `owner` (E,) the point of each pair, out of `count`;
    `indices` hold every lower index of each of theirs, in ascending order.
    """
    bump = Wendland(SMOOTHNESS // 2, 1.0, dimension=max(3, offsets.shape[1])).to(offsets.dtype)
    bump.requires_grad_(False)
    one = torch.ones((), dtype=offsets.dtype)
    plain = PlainKernel(bump, offsets[:0])
    scaled = [d[:, None] for d in (offsets / radii[:, None]).unbind(dim=1)]
    found = plain._of_differences(scaled, [Request(0, {index: one}) for index in indices])[:, :, 0]  # (E, J)
    raw = {index: found[:, k] / radii ** sum(index) for k, index in enumerate(indices)}
    sums = {index: value.new_zeros(count).index_add(0, owner, value)[owner] for index, value in raw.items()}
    zero = indices[0]
    weights: dict[MultiIndex, Tensor] = {}
    for index in indices:
        rest = raw[index]
        for lower in jets.below(index):
            if lower != index:
                rest = rest - jets.binomial(index, lower) * weights[lower] * sums[jets.subtract(index, lower)]
        weights[index] = rest / sums[zero]
    return weights
