"""Generated encoders with one hidden layer: squared distance to the anchor and its slopes, for a loss at many points.

A training step spends its time here. What comes in: points (P, D) and the parameters of n generated networks
phi_j(x) = W_j a(V_j x + b_j); what goes out: s_j(x) = |phi_j(x) - phi_j(anchor_j)|^2, scaled by the kernel's lengths,
and its gradient in x. One function at a time, so that its matrices stay in the cache, and a gradient written out, so
that nothing is kept that can do without: six large products per function, forward and backward together.

It is differentiable once, in everything but the points; asking for more is an error, not a wrong number.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cnf.bases.activations import Activation


def distances_and_slopes(
    x: Tensor, weight: Tensor, bias: Tensor, centre: Tensor, last: Tensor, inverse: Tensor, activation: Activation
) -> tuple[Tensor, Tensor]:
    """s (n, P) and its gradient (n, P, D).

    x (P, D); weight (n, H, D), bias (n, H) of the hidden layer; centre (n, H), the hidden layer at the anchors; last
    (n, F, H); inverse (F,), one over the squared length of every feature.
    """
    return _DistancesAndSlopes.apply(x, weight, bias, centre, last, inverse, activation)


class _DistancesAndSlopes(torch.autograd.Function):
    """With a the hidden layer, m = a(x) - a(anchor), f = W m and back = W^T (inverse f), all with points as rows,

        s = f . inverse f,   s_k = 2 (back a') . V_k.

    For the gradient let g and h_k be those of s and s_k, and v = sum_k h_k V_k (P, H). Then

        d back = 2 v a',   d (inverse f) = W d back,   d f = inverse (2 g f + W d back),   d m = W^T d f,
        d W = (inverse f)^T d back + (d f)^T m,   d inverse = sum (g f + W d back) f,
        d z = d m a' + 2 v back a'',   d V = (d z)^T x + 2 (back a')^T h.
    """

    @staticmethod
    def forward(ctx: Any, x, weight, bias, centre, last, inverse, activation):
        count, functions = x.shape[0], weight.shape[0]
        distances, slopes = x.new_empty(functions, count), x.new_empty(functions, count, x.shape[1])
        kept = []
        for j in range(functions):
            moved, slope = activation.pair(torch.addmm(bias[j], x, weight[j].T))  # (P, H)
            moved -= centre[j]
            features = moved @ last[j].T  # (P, F)
            scaled = features * inverse
            torch.linalg.vecdot(features, scaled, out=distances[j])
            back = scaled @ last[j]  # (P, H)
            torch.mm(back * slope, weight[j], out=slopes[j])
            kept += [moved, slope, features, back]
        ctx.activation = activation
        ctx.save_for_backward(x, weight, centre, last, inverse, *kept)
        return distances, slopes.mul_(2)

    @staticmethod
    def backward(ctx: Any, of_distances, of_slopes):
        x, weight, centre, last, inverse, *kept = ctx.saved_tensors
        if ctx.needs_input_grad[0]:
            raise RuntimeError("networks evaluated in a precision of their own are not differentiable in the points")
        if torch.is_grad_enabled():  # create_graph=True; torch's own once_differentiable may drop a part in silence
            raise RuntimeError("networks evaluated in a precision of their own are differentiable only once")
        d_weight, d_bias = torch.empty_like(weight), torch.empty_like(centre)
        d_centre, d_last, d_inverse = torch.empty_like(centre), torch.empty_like(last), torch.zeros_like(inverse)
        for j in range(weight.shape[0]):
            moved, slope, features, back = kept[4 * j : 4 * j + 4]
            g, h = of_distances[j][:, None], 2 * of_slopes[j]  # (P, 1), (P, D)
            along = h @ weight[j].T  # (P, H), 2 v
            of_back = along * slope
            through = of_back @ last[j].T  # (P, F)
            d_inverse += through.addcmul(features, g).mul_(features).sum(dim=0)
            of_features = through.addcmul_(features, g, value=2).mul_(inverse)
            of_moved = of_features @ last[j]  # (P, H)
            torch.mm(of_features.T, moved, out=d_last[j])
            d_last[j].addmm_((features * inverse).T, of_back)
            torch.sum(of_moved, dim=0, out=d_centre[j]).neg_()
            bend = ctx.activation.bend(moved + centre[j], slope)
            of_z = of_moved.mul_(slope).addcmul_(along.mul_(back), bend)
            torch.mm(of_z.T, x, out=d_weight[j])
            d_weight[j].addmm_((back * slope).T, h)
            torch.sum(of_z, dim=0, out=d_bias[j])
        return None, d_weight, d_bias, d_centre, d_last, d_inverse, None
