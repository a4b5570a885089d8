"""Derivatives that losses look at: all of one order, and norms of rows of them."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import combinations_with_replacement

import torch
from torch import Tensor

from cnf.errors import CnfError
from cnf.operators.frame import Frame
from cnf.operators.operator import Operator, Term


def safe_norm(rows: Tensor) -> Tensor:
    """Euclidean norm of every row, (P, K) -> (P,), whose gradient is zero, not NaN, where the row is zero."""
    squares = rows.square().sum(dim=1)
    positive = squares > 0
    return torch.where(positive, torch.where(positive, squares, 1.0).sqrt(), 0.0)


@lru_cache(maxsize=128)
def all_derivatives(frame: Frame, order: int, coordinates: tuple[str, ...]) -> tuple[Operator, tuple[int, ...]]:
    """One row per derivative of that order and channel (channels fastest), and the multinomial count of each row."""
    if not coordinates:
        raise CnfError("the space has no coordinates to differentiate in")
    rows, counts = [], []
    for names in combinations_with_replacement(coordinates, order):
        orders = {name: names.count(name) for name in dict.fromkeys(names)}
        count = math.factorial(order)
        for n in orders.values():
            count //= math.factorial(n)
        for channel in frame.channels:
            rows.append([Term(channel, derivatives=tuple(sorted(orders.items())))])
            counts.append(count)
    return Operator.of(rows, frame), tuple(counts)
