"""The chain rule of kernels: rows of A from the derivatives of k in s and of s in the coordinates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from cnf.bases.looked_into import is_looked_into
from cnf.fetching import is_here
from cnf.operators import jets
from cnf.operators.expansion import Request
from cnf.operators.jets import Bundle, MultiIndex


def highest(requests: Sequence[Request]) -> int:
    return max(sum(index) for request in requests for index in request.weights)


def weighted(weight: Tensor, value: Tensor | None) -> Tensor | None:
    """weight (P,) or () times a matrix with P rows; a plain 1 costs nothing."""
    if value is None:
        return None
    if weight.dim():
        return value * weight[:, None]
    return value if is_one(weight) else value * weight


def is_one(weight: Tensor) -> bool:
    """A plain 1, as far as nobody has to be asked for it; where numbers must not decide, nothing is known to be one."""
    known = weight.dim() == 0 and is_here(weight) and not weight.requires_grad and not is_looked_into()
    return known and float(weight) == 1.0


def chained(
    requests: Sequence[Request],
    slopes: list[Tensor],
    argument: Bundle,
    first_order: Callable[[Request], Tensor | None] | None = None,
) -> Tensor:
    """sum_alpha w_alpha d^alpha k(s) for every request, (P, K, N).

    `slopes` are k, k', k'', ... (P, N); `argument` the derivatives of s; `first_order(request)`, if given, returns
    sum_alpha w_alpha s_alpha in one go (one matrix product instead of one per derivative).
    """
    parts = []
    for request in requests:
        row = jets.total(
            slopes[m] if factor is None else factor * slopes[m] for m, factor in _powers(request, argument, first_order)
        )
        parts.append(torch.zeros_like(slopes[0]) if row is None else row)
    return side_by_side(parts)


def chained_gaussian(
    requests: Sequence[Request],
    value: Tensor,
    argument: Bundle,
    first_order: Callable[[Request], Tensor | None] | None = None,
) -> Tensor:
    """The same for k = exp(-s/2), whose derivatives are all multiples of k: one product with k at the end."""
    parts = []
    for request in requests:
        inner: Tensor | None = None
        powers = _powers(request, argument, first_order)
        if len(powers) == 1 and powers[0][0] == 0 and powers[0][1] is None:  # plain values
            parts.append(value)
            continue
        for m, factor in powers:
            if factor is None:
                factor = torch.ones((), dtype=value.dtype)
            if inner is None:
                inner = factor if m == 0 else (-0.5) ** m * factor
            else:
                inner = torch.add(inner, factor, alpha=(-0.5) ** m)
        parts.append(torch.zeros_like(value) if inner is None else inner * value)
    return side_by_side(parts)


def gaussian_product(requests: Sequence[Request], value: Tensor, scaled: Sequence[Tensor], inverse: Tensor) -> Tensor:
    """The same for k = exp(-|z|^2 / 2), z the differences over the lengths: Hermite polynomials along every axis.

    `scaled` are D matrices (P, N), `inverse` (D,) the inverse lengths. d^alpha k = k prod_k h_alpha_k(z_k) with
    h_0 = 1, h_1 = -z / l, h_(n+1) = h_1 h_n - n h_(n-1) / l^2: much less work than Faa di Bruno at higher orders.
    """
    orders = [max(index[k] for request in requests for index in request.weights) for k in range(len(scaled))]
    axes = [hermite_factors(z, inverse[k], n) for k, (z, n) in enumerate(zip(scaled, orders, strict=True))]
    parts = []
    for request in requests:
        inner: Tensor | None = None
        for index, weight in request.weights.items():
            product = weighted(weight, gaussian_factor(axes, index))
            if product is None:
                product = weight if weight.dim() == 0 else weight[:, None]
            inner = product if inner is None else inner + product
        parts.append(torch.zeros_like(value) if inner is None else value * inner)
    return side_by_side(parts)


def gaussian_factor(axes: Sequence[Sequence[Tensor]], index: MultiIndex) -> Tensor | None:
    """What the derivative `index` of a Gaussian is to its value, from the factors along every axis; None for one."""
    found: Tensor | None = None
    for factors, order in zip(axes, index, strict=True):
        if order:
            found = factors[order] if found is None else found * factors[order]
    return found


def hermite_factors(z: Tensor, inverse: Tensor, order: int) -> list[Tensor]:
    """What the derivatives of exp(-z^2 / 2) along one axis, up to `order`, are to its value; first 1."""
    found = [torch.ones((), dtype=z.dtype)]
    for n in range(order):
        if n == 0:
            found.append(-inverse * z)
        else:
            found.append(found[1] * found[n] - n * inverse.square() * found[n - 1])
    return found


def _powers(
    request: Request, argument: Bundle, first_order: Callable[[Request], Tensor | None] | None
) -> list[tuple[int, Tensor | None]]:
    """The factor of every derivative k^(m) that occurs; None stands for one."""
    found: list[tuple[int, Tensor | None]] = []
    for index, weight in request.weights.items():
        if sum(index) == 0:
            found.append((0, None if is_one(weight) else weight if weight.dim() == 0 else weight[:, None]))
    if first_order:
        linear = first_order(request)
        if linear is not None:
            found.append((1, linear))
    order = max(sum(index) for index in request.weights)
    for m in range(2 if first_order else 1, order + 1):
        factor = jets.total(
            weighted(weight, jets.polynomial(index, m, argument))
            for index, weight in request.weights.items()
            if sum(index) >= m
        )
        if factor is not None:
            found.append((m, factor))
    return found


def side_by_side(parts: list[Tensor]) -> Tensor:
    """K matrices (P, N) as (P, K, N)."""
    if len(parts) == 1:
        return parts[0].unsqueeze(1)
    # At pairs, N = 1: side by side in memory they would be written and read number by number.
    return torch.stack(parts).transpose(0, 1) if parts[0].shape[1] == 1 else torch.stack(parts, dim=1)


def quadratic_argument(
    slopes: list[Tensor], curvature: dict[tuple[int, int], Tensor], indices: Sequence[MultiIndex]
) -> Bundle:
    """Derivatives of an s that is quadratic in the coordinates: gradient (P, N) per axis, constant Hessian (1, N)."""
    bundle: Bundle = {}
    for index in indices:
        axes = [k for k, order in enumerate(index) for _ in range(order)]
        if len(axes) == 1:
            bundle[index] = slopes[axes[0]]
        elif len(axes) == 2:
            bundle[index] = curvature.get((axes[0], axes[1]))
        else:
            bundle[index] = None
    return bundle
