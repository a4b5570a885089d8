"""Layouts: how points are laid out inside a domain: on a grid, evenly irregular, at random; never on its boundary."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cnf.errors import DomainError, nearest

if TYPE_CHECKING:
    from cnf.pde.domains.domain import Domain

MARGIN = 0.1  # of the spacing: conditions inside stay that far away from those on the boundary
MOST_PROPOSALS = 2**22
MOST_CELLS = 100  # of a grid, for each point asked for


def fill(domain: Domain, count: int, layout: str, seed: int) -> np.ndarray:
    """Points (P, D) strictly inside `domain` in one of `LAYOUTS`."""
    if layout not in LAYOUTS:
        known = ", ".join(LAYOUTS)
        raise DomainError(f"no layout {layout!r}: choose one of {known}.{nearest(str(layout), LAYOUTS)}")
    return LAYOUTS[layout](domain, count, seed)


def shift(random: np.random.Generator, seed: int, axes: int) -> np.ndarray:
    """Where in its cell a point of a grid lies (axes,): the middle for seed 0, clearly beside it for any other."""
    if seed == 0:
        return np.full(axes, 0.5)
    beside = random.uniform(0.15, 0.35, axes)
    return np.where(random.random(axes) < 0.5, beside, 1 - beside)


def cells(lengths: Sequence[float] | np.ndarray, count: int, tolerance: float = 0.05) -> np.ndarray:
    """Numbers of nearly cubic cells along sides of the given lengths, about `count` together."""
    sides = np.asarray(lengths, dtype=np.float64)
    low, high = math.log(sides.min() / count) - 1, math.log(sides.max()) + 1
    best = np.ones(len(sides), dtype=int)
    for _ in range(50):  # the number of cells falls as they grow
        middle = (low + high) / 2
        found = _cells_of(sides, math.exp(middle))
        total = float(np.prod(found, dtype=np.float64))
        if abs(total - count) < abs(float(np.prod(best, dtype=np.float64)) - count):
            best = found
        low, high = (middle, high) if total > count else (low, middle)
    return best if abs(np.prod(best, dtype=np.float64) - count) <= tolerance * count else _refined(sides, best, count)


def _refined(sides: np.ndarray, counts: np.ndarray, count: int) -> np.ndarray:
    """One cell more along one side, then the next: in many dimensions equal numbers cannot come near `count`."""
    if np.prod(counts, dtype=np.float64) > count:
        counts = np.maximum(counts - 1, 1)
    while True:
        longest = np.argmax(sides / counts)
        more = counts + (np.arange(len(sides)) == longest)
        now, then = np.prod(counts, dtype=np.float64), np.prod(more, dtype=np.float64)
        if abs(then - count) >= abs(now - count):
            return counts
        counts = more


def lattice(
    lower: Sequence[float] | np.ndarray, upper: Sequence[float] | np.ndarray, counts: np.ndarray, offset: np.ndarray
) -> np.ndarray:
    """One point in each cell of a box, at `offset` (D,) of the cell's sides."""
    axes = [a + (b - a) * (np.arange(n) + o) / n for a, b, n, o in zip(lower, upper, counts, offset, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def halton(dimension: int, seed: int | Sequence[int]) -> Callable[[int], np.ndarray]:
    """A source of scrambled Halton points of the unit cube, going on where it stopped."""
    from scipy.stats import qmc

    return qmc.Halton(dimension, scramble=True, rng=np.random.default_rng(seed)).random


def propose_until(
    count: int, draw: Callable[[int], np.ndarray], accept: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """The first `count` of the points that `draw` proposes and `accept` takes."""
    kept: list[np.ndarray] = []
    have = tried = 0
    while have < count:
        rate = max(have, 1) / tried if tried else 1.0
        number = min(int(1.1 * (count - have) / rate) + 16, 2**18)
        if tried + number > MOST_PROPOSALS:
            raise DomainError(
                f"{have} of {count} points found after {tried} proposals: the domain is a tiny part of its bounding "
                "box; describe it by smaller shapes"
            )
        points = draw(number)
        tried += number
        kept.append(points[accept(points)])
        have += len(kept[-1])
    return np.concatenate(kept)[:count]


def _cells_of(sides: np.ndarray, spacing: float) -> np.ndarray:
    return np.maximum(1, np.rint(np.minimum(sides / spacing, 1e9))).astype(int)


def _spacing(domain: Domain, count: int) -> float:
    return (domain.volume / count) ** (1 / domain.dimension)


def _is_deep(domain: Domain, points: np.ndarray, margin: float) -> np.ndarray:
    """Which points lie inside by at least `margin`, strictly in any case."""
    deep = domain._inside(points)
    (candidates,) = np.nonzero(deep)
    if len(candidates):
        depth = domain._depth(points[candidates])
        deep[candidates] = (depth >= margin) & (depth > 0)
    return deep


def _margin(domain: Domain, count: int) -> float:
    """The distance that points keep from the boundary: `MARGIN` spacings, less where that would leave too little."""
    draw = halton(domain._unit_dimension, 0)
    points = domain._propose(draw(2048))
    points = points[domain._inside(points)]
    depth = domain._depth(points)
    asked = MARGIN * _spacing(domain, count)
    for factor in (1.0, 0.5, 0.2, 0.1, 0.01, 1e-3):
        if len(depth) and (depth >= factor * asked).mean() >= 0.5:
            return factor * asked
    return 0.0


def _fill_from(domain: Domain, count: int, draw: Callable[[int], np.ndarray], margin: float) -> np.ndarray:
    return propose_until(count, lambda n: domain._propose(draw(n)), lambda points: _is_deep(domain, points, margin))


def _fill_halton(domain: Domain, count: int, seed: int) -> np.ndarray:
    return _fill_from(domain, count, halton(domain._unit_dimension, seed), _margin(domain, count))


def _fill_random(domain: Domain, count: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return _fill_from(domain, count, lambda n: random.random((n, domain._unit_dimension)), _margin(domain, count))


def _fill_grid(domain: Domain, count: int, seed: int) -> np.ndarray:
    return _place_grid(domain, count, shift(np.random.default_rng(seed), seed, domain.dimension))[0]


def _place_grid(domain: Domain, count: int, offset: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Centres of the cells of the bounding box that lie in the domain, about `count`, and the sides of a cell (D,)."""
    sides = np.subtract(domain.upper, domain.lower)
    if domain._is_box:
        counts = cells(sides, count)
        return lattice(domain.lower, domain.upper, counts, offset), sides / counts
    margin = 2.5 * _margin(domain, count)  # a quarter of the spacing: a grid has room to spare
    asked = count * float(np.prod(sides)) / domain.volume  # cells of the bounding box
    best: tuple[np.ndarray, np.ndarray] | None = None
    for _ in range(12):  # what falls inside depends on the cells in no smooth way: look around, keep the nearest
        if not asked <= MOST_CELLS * (count + 100):
            break
        counts = cells(sides, max(1, round(asked)), 0.02)
        points = lattice(domain.lower, domain.upper, counts, offset)
        points = points[_is_deep(domain, points, margin)]
        if len(points) and (best is None or abs(len(points) - count) < abs(len(best[0]) - count)):
            best = points, sides / counts
        if best is not None and abs(len(best[0]) - count) <= 0.02 * count:
            break
        asked *= min(max(count / (len(points) + 0.3), 0.2), 5.0)
    if best is None or not 0.5 * count <= len(best[0]) <= 2 * count:  # thinner than the cells: no grid fits
        return _fill_halton(domain, count, 0), np.zeros(domain.dimension)
    return best


def _fill_jittered(domain: Domain, count: int, seed: int) -> np.ndarray:
    points, sides = _place_grid(domain, count, np.full(domain.dimension, 0.5))
    margin = _margin(domain, count)
    moves = np.random.default_rng(seed).uniform(-0.4, 0.4, points.shape) * sides
    result = points + moves
    for _ in range(6):  # what jumped out jumps half as far
        out = ~_is_deep(domain, result, margin)
        if not out.any():
            break
        moves[out] /= 2
        result[out] = points[out] + moves[out]
    else:
        out = ~_is_deep(domain, result, margin)
        result[out] = points[out]
    return result


def _fill_poisson(domain: Domain, count: int, seed: int) -> np.ndarray:
    """Dart throwing with a radius that shrinks until `count` candidates have found room.

    The boundary repels as a mirror image would: a point keeps half the radius away from it, for there are other points.
    """
    number = 5 * count + 32
    draw = halton(domain._unit_dimension, seed)
    candidates = propose_until(number, lambda n: domain._propose(draw(n)), domain._inside)
    depth = domain._depth(candidates)
    deep = (depth >= _margin(domain, count)) & (depth > 0)
    if deep.sum() < count:
        return _fill_halton(domain, count, seed)
    candidates = candidates[deep]
    return candidates[spread_out(candidates, count, _spacing(domain, count), 2 * depth[deep])]


def spread_out(candidates: np.ndarray, count: int, spacing: float, room: np.ndarray | None = None) -> np.ndarray:
    """Which `count` of candidates (P, D) are as far from each other as they go, (P,) bool; `room` (P,) limits it.

    `spacing` is what neighbours have if the points are even.
    """
    from scipy.spatial import cKDTree

    room = np.full(len(candidates), np.inf) if room is None else room
    chosen = np.zeros(len(candidates), dtype=bool)
    radius = 1.1 * spacing
    for _ in range(80):
        (free,) = np.nonzero((room >= radius) & ~chosen)
        taken = _throw_darts(candidates[free], radius)[: count - int(chosen.sum())]
        chosen[free[taken]] = True
        if chosen.sum() == count:
            return chosen
        if len(taken):
            distance, _ = cKDTree(candidates[free[taken]]).query(candidates, distance_upper_bound=1.2 * radius)
            room = np.minimum(room, distance)
        radius *= 0.95
    order = np.argsort(np.where(chosen, np.inf, -room), kind="stable")  # too thin for radii: whoever has most room
    chosen[order[: count - int(chosen.sum())]] = True
    return chosen


def _throw_darts(points: np.ndarray, radius: float) -> np.ndarray:
    """Indices of points taken in their order, each unless it is closer than `radius` to one taken before."""
    from scipy.spatial import cKDTree

    if len(points) < 2:
        return np.arange(len(points))
    pairs = cKDTree(points).query_pairs(radius, output_type="ndarray")
    pairs = np.concatenate([pairs, pairs[:, ::-1]])
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    begin = np.searchsorted(pairs[:, 0], np.arange(len(points) + 1))
    blocked = np.zeros(len(points), dtype=bool)
    taken = []
    for index in range(len(points)):
        if not blocked[index]:
            taken.append(index)
            blocked[pairs[begin[index] : begin[index + 1], 1]] = True
    return np.array(taken, dtype=int)


LAYOUTS: dict[str, Callable[[Domain, int, int], np.ndarray]] = {
    "grid": _fill_grid,
    "jittered": _fill_jittered,
    "halton": _fill_halton,
    "poisson": _fill_poisson,
    "random": _fill_random,
}
