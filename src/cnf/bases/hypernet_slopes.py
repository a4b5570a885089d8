"""Generated encoders with one hidden layer: squared distance to the anchor and its slopes, for a loss at many points.

A training step spends its time here. What comes in: points (P, D) and the parameters of n generated networks
phi_j(x) = W_j a(V_j x + b_j); what goes out: s_j(x) = |phi_j(x) - phi_j(anchor_j)|^2, scaled by the kernel's lengths,
and its gradient in x. One function at a time, so that its matrices stay in the cache, and a gradient written out, so
that nothing is kept that can do without: six large products per function, forward and backward together. Whatever is
as large as the hidden layer lies in memory that all functions use in turn: fresh memory costs more than the arithmetic.

Gradients of gradients and gradients in the points are there too, by plain operations and less fast.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from cnf.bases.activations import Activation
from cnf.bases.layers import push
from cnf.bases.looked_into import is_looked_into


def distances_and_slopes(
    x: Tensor, weight: Tensor, bias: Tensor, centre: Tensor, last: Tensor, inverse: Tensor, activation: Activation
) -> tuple[Tensor, Tensor]:
    """s (n, P) and its gradient (n, P, D).

    x (P, D); weight (n, H, D), bias (n, H) of the hidden layer; centre (n, H), the hidden layer at the anchors; last
    (n, F, H); inverse (F,), one over the squared length of every feature. All in the precision of the points, but for
    `last`, of which one function at a time is converted: it is most of what there is.
    """
    return _DistancesAndSlopes.apply(x, weight, bias, centre, last, inverse, activation)


def may_fuse() -> bool:
    """False where torch looks into operations (transforms, forward mode, compilers), which needs plain ones."""
    return not is_looked_into()


class _DistancesAndSlopes(torch.autograd.Function):
    """With a the hidden layer, m = a(x) - a(anchor), f = W m and back = W^T (inverse f), all with points as rows,

        s = f . inverse f,   s_k = 2 (back a') . V_k.

    For the gradient let g and h_k be those of s and s_k, and v = sum_k h_k V_k (P, H). Then

        d back = 2 v a',   d (inverse f) = W d back,   d f = inverse (2 g f + W d back),   d m = W^T d f,
        d W = (inverse f)^T d back + (d f)^T m,   d inverse = sum (g f + W d back) f,
        d z = d m a' + 2 v back a'',   d V = (d z)^T x + 2 (back a')^T h.

    Kept are f and back; m and a' are cheaper to find again than to keep. The two products of d W are one, their factors
    on top of each other.
    """

    @staticmethod
    def forward(ctx: Any, x, weight, bias, centre, last, inverse, activation):
        (count, dimension), (functions, outputs, width) = x.shape, last.shape
        distances, slopes = x.new_empty(functions, count), x.new_empty(functions, count, dimension)
        features, back = x.new_empty(functions, count, outputs), x.new_empty(functions, count, width)
        moved, slope = x.new_empty(count, width), x.new_empty(count, width)
        scaled, converted = x.new_empty(count, outputs), x.new_empty(last.shape[1:])
        for j in range(functions):
            linear = last[j] if last.dtype == x.dtype else converted.copy_(last[j])
            activation.pair(torch.addmm(bias[j], x, weight[j].T, out=moved), slope)
            moved -= centre[j]
            torch.mm(moved, linear.T, out=features[j])
            torch.mul(features[j], inverse, out=scaled)
            torch.linalg.vecdot(features[j], scaled, out=distances[j])
            torch.mm(scaled, linear, out=back[j])
            torch.mm(torch.mul(back[j], slope, out=moved), weight[j], out=slopes[j])
        ctx.activation = activation
        ctx.save_for_backward(x, weight, bias, centre, last, inverse, features, back)
        return distances, slopes.mul_(2)

    @staticmethod
    def backward(ctx: Any, of_distances, of_slopes):
        x, weight, bias, centre, last, inverse, features, back = ctx.saved_tensors
        if torch.is_grad_enabled() or ctx.needs_input_grad[0]:  # create_graph=True, or in the points
            inputs = (x, weight, bias, centre, last, inverse)
            return *_differentiated(ctx, inputs, of_distances, of_slopes), None
        (count, dimension), (functions, outputs, width) = x.shape, last.shape
        d_first = x.new_empty(functions, width, dimension + 1)  # of weight and bias
        d_centre, d_last, d_inverse = torch.empty_like(centre), torch.empty_like(last), torch.zeros_like(inverse)
        slope, along, bend = (x.new_empty(count, width) for _ in range(3))
        upper, lower = x.new_empty(2, count, outputs), x.new_empty(2, count, width)  # d W = upper^T lower
        (of_features, scaled), (moved, of_back) = upper, lower
        of_moved, converted = x.new_empty(count, width), x.new_empty(last.shape[1:])
        placed = torch.cat([x, x.new_ones(count, 1)], dim=1)
        for j in range(functions):
            linear = last[j] if last.dtype == x.dtype else converted.copy_(last[j])
            g, h = of_distances[j][:, None], 2 * of_slopes[j]  # (P, 1), (P, D)
            ctx.activation.pair(torch.addmm(bias[j], x, weight[j].T, out=moved), slope)
            ctx.activation.bend(moved, slope, bend)
            moved -= centre[j]
            torch.mm(h, weight[j].T, out=along)  # 2 v
            torch.mul(along, slope, out=of_back)
            torch.mm(of_back, linear.T, out=of_features)
            torch.mul(features[j], g, out=scaled)
            d_inverse += torch.linalg.vecdot(of_features.add_(scaled), features[j], dim=0)
            of_features.add_(scaled).mul_(inverse)
            torch.mul(features[j], inverse, out=scaled)
            torch.mm(of_features, linear, out=of_moved)
            if last.dtype == x.dtype:
                torch.mm(upper.view(2 * count, outputs).T, lower.view(2 * count, width), out=d_last[j])
            else:
                d_last[j] = torch.mm(upper.view(2 * count, outputs).T, lower.view(2 * count, width), out=converted)
            torch.sum(of_moved, dim=0, out=d_centre[j]).neg_()
            of_moved.mul_(slope).addcmul_(along.mul_(back[j]), bend)  # d z
            torch.mm(of_moved.T, placed, out=d_first[j])
            d_first[j, :, :-1].addmm_(slope.mul_(back[j]).T, h)
        return None, d_first[..., :-1], d_first[..., -1], d_centre, d_last, d_inverse, None


def _differentiated(ctx: Any, inputs: tuple[Tensor, ...], *gradients: Tensor) -> list[Tensor | None]:
    """The gradients of the inputs by plain operations: they can be differentiated again."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        if not again:
            inputs = tuple(t.detach().requires_grad_(n) for t, n in zip(inputs, ctx.needs_input_grad, strict=False))
        wanted = [t for t, needed in zip(inputs, ctx.needs_input_grad, strict=False) if needed]
        outputs = _by_plain_operations(ctx.activation.layer, *inputs)
        found = iter(torch.autograd.grad(outputs, wanted, gradients, create_graph=again))
    return [next(found) if needed else None for needed in ctx.needs_input_grad[: len(inputs)]]


def _by_plain_operations(
    layer: nn.Module, x: Tensor, weight: Tensor, bias: Tensor, centre: Tensor, last: Tensor, inverse: Tensor
) -> tuple[Tensor, Tensor]:
    hidden, last = x @ weight.mT + bias[:, None], last.to(x.dtype)  # (n, P, H)
    bundle = push(layer, {(0,): hidden, (1,): hidden.new_ones(1, 1, 1)})
    value, slope = bundle[0,], bundle[1,]
    assert value is not None and slope is not None
    features = (value - centre[:, None]) @ last.mT
    scaled = features * inverse
    return (features * scaled).sum(dim=-1), 2 * ((scaled @ last) * slope) @ weight
