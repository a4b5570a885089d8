"""Forward-mode derivatives of any function of points: the generic path, right at any order.

The function must treat its points independently, f(x)[p] depends on x[p] only; then one tangent along a coordinate
differentiates every point and every output at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.func import jvp

MultiIndex = tuple[int, ...]


def derivative(function: Callable[[Tensor], Tensor], x: Tensor, orders: MultiIndex) -> Tensor:
    """One partial derivative of `function` at every point of x (P, D)."""
    for axis, order in enumerate(orders):
        for _ in range(order):
            function = _along(function, axis)
    return function(x)


def derivatives(
    function: Callable[[Tensor], Tensor], x: Tensor, indices: Iterable[MultiIndex]
) -> dict[MultiIndex, Tensor]:
    """Several partial derivatives; each pass along a path of the index tree also yields the lower ones on it."""
    wanted = sorted(set(indices), key=lambda a: (-sum(a), a))
    found: dict[MultiIndex, Tensor] = {}
    for index in wanted:
        if index not in found:
            path = [axis for axis, order in enumerate(index) for _ in range(order)]
            found.update(_path(function, x, path))
    return {index: found[index] for index in wanted}


def _along(function: Callable[[Tensor], Tensor], axis: int) -> Callable[[Tensor], Tensor]:
    def pushed(x: Tensor) -> Tensor:
        return jvp(function, (x,), (_unit(x, axis),))[1]

    return pushed


def _path(function: Callable[[Tensor], Tensor], x: Tensor, path: list[int]) -> dict[MultiIndex, Tensor]:
    """Derivatives along every prefix of `path`, from one nested forward pass."""

    def nest(level: int) -> Callable[[Tensor], tuple[Tensor, ...]]:
        if level == 0:
            return lambda y: (function(y),)
        lower = nest(level - 1)

        def pushed(y: Tensor) -> tuple[Tensor, ...]:
            pushed_along = jvp(lower, (y,), (_unit(y, path[level - 1]),))
            values, tangents = pushed_along[0], pushed_along[1]
            return (*values, tangents[-1])

        return pushed

    results = nest(len(path))(x)
    index = [0] * x.shape[1]
    found = {tuple(index): results[0]}
    for axis, result in zip(path, results[1:], strict=True):
        index[axis] += 1
        found[tuple(index)] = result
    return found


def _unit(x: Tensor, axis: int) -> Tensor:
    direction = torch.zeros_like(x)
    direction[:, axis] = 1
    return direction
