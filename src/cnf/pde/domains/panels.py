"""Panels: a smooth path by arc length, as polynomials that follow it to rounding.

In comes a path by any parameter, with its velocity; out go panels, short enough for Chebyshev polynomials of points and
normals to be right to rounding, each by arc length. Formulas (arcs, Bezier curves) and zero sets alike end here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev

from cnf.errors import DomainError
from cnf.pde.domains.boundary import Arrays

# Numbers of segments (n,) and parameters (n,) from 0 to 1 -> points (n, 2) and velocities (n, 2), counterclockwise.
Path = Callable[[np.ndarray, np.ndarray], Arrays]

NODES = 16
DEEPEST = 48  # halvings of a segment
MOST = 50_000  # panels of a path
CLOSE = 4e-15, 1e-12  # what the last coefficients of points (over the size) and of normals may be
SHORTEST = 1e-13  # of the size: panels that hold a kink end here
AT = np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)[::-1]
FROM_NODES = np.linalg.inv(chebyshev.chebvander(AT, NODES - 1))
CHUNK = 2**16


@dataclass(frozen=True, eq=False)
class Panels:
    """`knots` (K + 1,) arc lengths; `table` (K, 4, n): Chebyshev coefficients of points and normals in between."""

    knots: np.ndarray
    table: np.ndarray

    def trace(self, arc: np.ndarray) -> Arrays:
        """Points (S, 2) and unit normals (S, 2) to the right of the path at arc lengths (S,)."""
        if len(arc) > CHUNK:
            parts = [self.trace(arc[k : k + CHUNK]) for k in range(0, len(arc), CHUNK)]
            return np.concatenate([p for p, _ in parts]), np.concatenate([n for _, n in parts])
        panel = np.clip(np.searchsorted(self.knots, arc, side="right") - 1, 0, len(self.table) - 1)
        low, high = self.knots[panel], self.knots[panel + 1]
        values = _clenshaw(self.table[panel], (2 * (arc - low) / (high - low) - 1)[:, None])
        normals = values[:, 2:]
        return values[:, :2], normals / np.linalg.norm(normals, axis=1, keepdims=True)

    @staticmethod
    def joined(parts: list[Panels]) -> Panels:
        """One path after the other; tables are filled up to the same width."""
        width = max(part.table.shape[2] for part in parts)
        tables = [np.pad(p.table, ((0, 0), (0, 0), (0, width - p.table.shape[2]))) for p in parts]
        lengths = np.concatenate([np.diff(part.knots) for part in parts])
        return Panels(np.concatenate([[0.0], np.cumsum(lengths)]), np.concatenate(tables))


def straight(corners: np.ndarray) -> Panels:
    """The chain of edges through corners (V, 2), from the first to the last."""
    edges = np.diff(corners, axis=0)
    lengths = np.linalg.norm(edges, axis=1)
    along = edges / lengths[:, None]
    table = np.zeros((len(edges), 4, 2))
    table[:, :2, 0], table[:, :2, 1] = (corners[1:] + corners[:-1]) / 2, edges / 2
    table[:, 2, 0], table[:, 3, 0] = along[:, 1], -along[:, 0]
    return Panels(np.concatenate([[0.0], np.cumsum(lengths)]), table)


def by_arc_length(path: Path, count: int, size: float) -> tuple[Panels, np.ndarray]:
    """Panels of `count` segments, one after the other, and where each segment begins and the last ends (count + 1,).

    `size` is that of the whole figure: what is much smaller does not matter.
    """
    number, low, high = np.arange(count), np.zeros(count), np.ones(count)
    found: list[tuple[np.ndarray, ...]] = []  # segment, where it begins there, length, table
    total = 0
    for depth in range(DEEPEST + 1):
        lengths, table, good = _fitted(path, number, low, high, size)
        good |= (lengths <= SHORTEST * size) | (depth == DEEPEST)
        found.append((number[good], low[good], lengths[good], table[good]))
        total += int(good.sum())
        number, low, high = number[~good], low[~good], high[~good]
        if not len(number):
            break
        if total + 2 * len(number) > MOST:
            raise DomainError("a curve of the boundary is too rough to be followed: it has kinks or noise everywhere")
        middle = (low + high) / 2
        number = np.concatenate([number, number])
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
    number, low, lengths, table = (np.concatenate([part[k] for part in found]) for k in range(4))
    order = np.lexsort([low, number])
    knots = np.concatenate([[0.0], np.cumsum(lengths[order])])
    begins = np.searchsorted(number[order], np.arange(count + 1))
    return Panels(knots, table[order]), knots[begins]


def _fitted(
    path: Path, number: np.ndarray, low: np.ndarray, high: np.ndarray, size: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lengths (n,) and tables (n, 4, NODES) of panels between parameters, and which are good, (n,) bool."""

    def along(unit: np.ndarray) -> Arrays:
        t = low[:, None] + (high - low)[:, None] * (unit + 1) / 2
        points, velocity = path(np.repeat(number, NODES), t.ravel())
        return points.reshape(-1, NODES, 2), velocity.reshape(-1, NODES, 2) * ((high - low) / 2)[:, None, None]

    _, velocity = along(np.broadcast_to(AT, (len(number), NODES)))
    speed = np.linalg.norm(velocity, axis=2) @ FROM_NODES.T  # (n, NODES) coefficients
    travelled = chebyshev.chebint(speed, lbnd=-1, axis=1)
    lengths = travelled.sum(axis=1)
    unit = np.broadcast_to(AT, (len(number), NODES)).copy()
    wanted = lengths[:, None] * (AT + 1) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(8):
            step = (_clenshaw(travelled[:, None], unit) - wanted) / _clenshaw(speed[:, None], unit)
            unit = np.clip(unit - np.nan_to_num(step), -1, 1)
            if np.abs(np.nan_to_num(step)).max(initial=0.0) < 1e-15:
                break
    points, velocity = along(unit)
    steepness = np.linalg.norm(velocity, axis=2, keepdims=True)
    along_path = np.divide(velocity, steepness, out=np.zeros_like(velocity), where=steepness > 0)
    normals = np.stack([along_path[..., 1], -along_path[..., 0]], axis=2)
    table = np.einsum("kn,pnd->pdk", FROM_NODES, np.concatenate([points, normals], axis=2))
    tails = np.abs(table[:, :, -2:]).max(axis=2)
    rough = np.abs(speed[:, -2:]).max(axis=1) > 1e-12 * lengths
    good = ~rough & (tails[:, :2].max(axis=1) <= CLOSE[0] * size) & (tails[:, 2:].max(axis=1) <= CLOSE[1])
    return lengths, table, good


def _clenshaw(table: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Sums of Chebyshev polynomials: table (n, k, c), places (n, m) with m = k or either 1 -> (n, max(k, m))."""
    one = two = np.zeros(np.broadcast_shapes(table.shape[:2], unit.shape))
    for k in range(table.shape[2] - 1, 0, -1):
        one, two = table[:, :, k] + 2 * unit * one - two, one
    return table[:, :, 0] + unit * one - two
