"""Bundles: a value and all the partial derivatives an operator needs, pushed together through a composition.

The chain rule for any order is Faa di Bruno's formula over multi-indices,

    d^alpha k(s(x)) = sum_m k^(m)(s) B_{alpha,m}(s),      B_{alpha,m} = sum of products of m partial derivatives of s,

whose monomials are listed once per (alpha, m) and shared by encoders (through each layer) and kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from math import comb

import torch
from torch import Tensor

MultiIndex = tuple[int, ...]
Bundle = dict[MultiIndex, Tensor | None]  # index -> (P, F) or (1, F) if constant over the points; None means zero
Monomial = tuple[int, tuple[MultiIndex, ...]]


def closure(indices: Iterable[MultiIndex]) -> tuple[MultiIndex, ...]:
    """All multi-indices below the given ones, lowest order first: what a composition has to carry."""
    found: set[MultiIndex] = set()
    stack = list(indices)
    while stack:
        index = stack.pop()
        if index not in found:
            found.add(index)
            stack += [_lowered(index, axis) for axis, order in enumerate(index) if order]
    return tuple(sorted(found, key=lambda a: (sum(a), a)))


def _lowered(index: MultiIndex, axis: int) -> MultiIndex:
    return tuple(order - (k == axis) for k, order in enumerate(index))


def below(index: MultiIndex) -> list[MultiIndex]:
    """Every multi-index that is nowhere above `index`."""
    found: list[MultiIndex] = [()]
    for order in index:
        found = [(*head, k) for head in found for k in range(order + 1)]
    return found


def subtract(a: MultiIndex, b: MultiIndex) -> MultiIndex:
    return tuple(x - y for x, y in zip(a, b, strict=True))


def add(a: MultiIndex, b: MultiIndex) -> MultiIndex:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def binomial(a: MultiIndex, b: MultiIndex) -> int:
    """Product over the coordinates of a_i choose b_i: the weights of the product rule."""
    result = 1
    for x, y in zip(a, b, strict=True):
        result *= comb(x, y)
    return result


@lru_cache(maxsize=4096)
def monomials(alpha: MultiIndex, parts: int) -> tuple[Monomial, ...]:
    """B_{alpha,parts}: (count, the multi-indices multiplied), each way of splitting alpha into `parts` blocks.

    The block that holds one chosen derivative is picked first, so that every split is counted once.
    """
    if sum(alpha) == 0:
        return ((1, ()),) if parts == 0 else ()
    if parts == 0:
        return ()
    axis = next(k for k, order in enumerate(alpha) if order)
    marked = _lowered(alpha, axis)
    counts: dict[tuple[MultiIndex, ...], int] = {}
    for rest in below(marked):
        block = tuple(order + (k == axis) for k, order in enumerate(rest))
        ways = binomial(marked, rest)
        for count, factors in monomials(subtract(alpha, block), parts - 1):
            key = tuple(sorted((block, *factors)))
            counts[key] = counts.get(key, 0) + ways * count
    return tuple((count, factors) for factors, count in sorted(counts.items()))


def at_points(x: Tensor, indices: Sequence[MultiIndex]) -> Bundle:
    """The bundle of the identity: the points, unit vectors for first derivatives, zero above."""
    bundle: Bundle = {}
    for index in indices:
        order = sum(index)
        if order == 0:
            bundle[index] = x
        elif order == 1:
            unit = torch.zeros(1, x.shape[1], dtype=x.dtype, device=x.device)
            unit[0, index.index(1)] = 1
            bundle[index] = unit
        else:
            bundle[index] = None
    return bundle


def linear(bundle: Bundle, weight: Tensor, bias: Tensor | None = None) -> Bundle:
    """x -> x W^T + b."""
    result: Bundle = {}
    for index, value in bundle.items():
        if value is None:
            result[index] = None
        elif sum(index) == 0 and bias is not None:
            result[index] = torch.addmm(bias, value, weight.T)
        else:
            result[index] = value @ weight.T
    return result


def elementwise(bundle: Bundle, function: Callable[[Tensor, int], list[Tensor]]) -> Bundle:
    """x -> g(x) entry by entry; `function(x, n)` returns g and its first n derivatives."""
    order = max(sum(index) for index in bundle)
    zero = next(index for index in bundle if sum(index) == 0)
    value = bundle[zero]
    assert value is not None
    slopes = function(value, order)
    result: Bundle = {zero: slopes[0]}
    for index in bundle:
        if sum(index):
            result[index] = total(
                None if product is None else slopes[m] * product
                for m in range(1, sum(index) + 1)
                for product in [polynomial(index, m, bundle)]
            )
    return result


def polynomial(alpha: MultiIndex, parts: int, bundle: Bundle) -> Tensor | None:
    """B_{alpha,parts} evaluated on the derivatives in `bundle`; None if every monomial vanishes."""
    return total(_product(count, [bundle[f] for f in factors]) for count, factors in monomials(alpha, parts))


def total(parts: Iterable[Tensor | None]) -> Tensor | None:
    """Sum of those that are not zero."""
    result: Tensor | None = None
    for part in parts:
        if part is not None:
            result = part if result is None else result + part
    return result


def _product(count: int, factors: list[Tensor | None]) -> Tensor | None:
    result: Tensor | None = None
    for factor in factors:
        if factor is None:
            return None
        result = factor if result is None else result * factor
    return result if result is None or count == 1 else count * result
