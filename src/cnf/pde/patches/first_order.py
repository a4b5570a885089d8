"""First order: which equations are, how many conditions their boundary takes, and which of them patches cannot do.

One channel is carried along, b_1 u_x + b_2 u_y + c u = f, and takes a value where it flows in and none where it flows
out. Systems without directions along which anything is carried (elliptic ones: fluxes beside a pressure, divergence and
curl) take half as many conditions everywhere as their determinant has derivatives.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from cnf.operators.expansion import expand
from cnf.pde.domains.boundary import Inside
from cnf.pde.patches.orders import Orders

ANGLES, FINER = 64, 2**13  # directions, at which determinants are worked out, and at which they are looked at
STEP, LONGEST = 0.01, 20.0  # of the domain: steps back along what is carried, and how far back it is followed
FLAT = 1e-6  # a determinant that is that small in some direction, beside others: something is carried along there
ALIKE = 1e-6  # determinants, in all directions
GRAZING = 1e-6  # of the speed: what hardly crosses the boundary neither flows in nor out


def is_carried(orders: Orders) -> bool:
    return len(orders.channels) == 1 and len(orders.rows) == 1


def is_elliptic(orders: Orders, points: np.ndarray) -> bool:
    """Whether the determinant of the highest derivatives vanishes in no direction at any of the points (P, 2)."""
    if orders.weights is None or orders.weights.total % 2 or not orders.weights.total:
        return False
    waves = np.fft.rfft(_determinant(orders, points), axis=1)  # a sum of few: known between the directions as well
    found = np.fft.irfft(waves, FINER, axis=1)
    size = np.abs(found)
    one_sign = (found > 0).all(axis=1) | (found < 0).all(axis=1)
    return bool((one_sign & (size.min(axis=1) > FLAT * size.max(axis=1))).all())


def is_isotropic(orders: Orders, points: np.ndarray) -> bool:
    """Whether that determinant is the same in all directions, as for divergence and curl."""
    size = np.abs(_determinant(orders, points))
    return bool((size.min(axis=1) > (1 - ALIKE) * size.max(axis=1)).all())


def _determinant(orders: Orders, points: np.ndarray) -> np.ndarray:
    """Of the highest derivatives at points (P, 2) in all directions, (P, ANGLES)."""
    angles = np.pi * np.arange(ANGLES) / ANGLES
    symbol = _symbol(orders, points, np.stack([np.cos(angles), np.sin(angles)]))
    scale = np.abs(symbol).max(axis=(1, 3), keepdims=True)  # of every row
    return np.linalg.det(symbol / np.where(scale > 0, scale, 1.0))


def _symbol(orders: Orders, points: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """The highest derivatives at points (P, 2) along directions (2, K), (P, K, C, C), by the weights of the system."""
    weights, channels = orders.weights, len(orders.channels)
    assert weights is not None
    symbol = np.zeros((len(points), direction.shape[1], channels, channels))
    start = 0
    for equation in orders.equations:
        for probe in expand(equation.operator, torch.from_numpy(points)):
            for r, request in zip(probe.rows, probe.requests, strict=True):
                for index, weight in request.weights.items():
                    i, j = start + r, request.channel
                    if sum(index) == weights.rows[i] + weights.channels[j]:
                        along = np.prod(direction ** np.array(index)[:, None], axis=0)
                        values = np.broadcast_to(weight.detach().double().numpy(), len(points))
                        symbol[:, :, i, j] += values[:, None] * along
        start += len(equation.operator.rows)
    return symbol


def turns(orders: Orders, points: np.ndarray) -> np.ndarray:
    """1 where two channels turn as those of divergence and curl do, -1 where they turn the other way, (P,)."""
    symbol = _symbol(orders, points, np.eye(2))  # along x, along y
    return np.sign(np.linalg.solve(symbol[:, 0], symbol[:, 1])[:, 0, 1])


def velocity(orders: Orders, points: np.ndarray) -> np.ndarray:
    """(b_1, b_2) at points, (P, 2)."""
    speed = [orders.stream(axis, points) for axis in (0, 1)]
    return np.stack([np.zeros(len(points)) if b is None else b for b in speed], axis=1)


def inflow(orders: Orders, points: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """-1 where it flows in, 1 where it flows out, 0 where it goes along the boundary, (P,), for what is carried."""
    along = velocity(orders, points)
    across = (along * normals).sum(axis=1)
    return np.where(np.abs(across) > GRAZING * np.linalg.norm(along, axis=1), np.sign(across), 0.0)


def comes_from_nowhere(orders: Orders, points: np.ndarray, inside: Inside, size: float) -> np.ndarray:
    """Which of the points (P, 2) inside what is carried along does not reach from the boundary, (P,) bool.

    It goes round for ever, or comes from a place at which it does not move.
    """

    def back(at: np.ndarray) -> np.ndarray:
        speed = velocity(orders, at)
        return -speed / np.maximum(np.linalg.norm(speed, axis=1, keepdims=True), 1e-300)

    left, at = np.arange(len(points)), points.copy()
    step = STEP * size
    for _ in range(math.ceil(LONGEST / STEP)):
        first = back(at)
        at = at + step * back(at + step / 2 * first)
        kept = inside(at)
        left, at = left[kept], at[kept]
        if not len(left):
            break
    return np.isin(np.arange(len(points)), left)


def wanted_on_boundary(orders: Orders, points: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """How many conditions equations of first order take at points (P, 2) of the boundary, (P,)."""
    if is_carried(orders):
        return (inflow(orders, points, normals) < 0).astype(np.int64)
    assert orders.weights is not None
    return np.full(len(points), orders.weights.total // 2)
