"""Following the surface through a grid: from a field and points on its zero set to the cells that hold the surface.

In come the field as a function of points and seeds on its zero set; out goes a `Band`: the cells in which the field
changes its sign and which hang together with a seed, with the values at their corners. Only nodes of such cells (and
of those around seeds) are evaluated, each once: O(G^2) of the G^3 nodes, in time and in memory. Sheets of the zero set
that hang together with no seed are never seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from cnf.errors import ConstraintError
from cnf.shapes.reconstruction.cubes import CORNERS, FACES
from cnf.shapes.reconstruction.lengths import FINEST

NOTHING = 1e-12  # grid steps: smaller values are zero, for two portions that round in two ways must see one sign
Values = Callable[[np.ndarray], np.ndarray]  # (P, 3) -> (P,)
CHUNK = 1 << 17  # points per call of the field: bounds the memory it may need
AROUND = np.stack(np.meshgrid(*[[-1, 0, 1]] * 3, indexing="ij"), axis=-1).reshape(1, -1, 3)  # a cell and its neighbours
STEPS = np.concatenate([-np.eye(3, dtype=np.int64), np.eye(3, dtype=np.int64)])[[0, 3, 1, 4, 2, 5]]  # across each face


@dataclass(frozen=True)
class Grid:
    """Nodes `origin + step * (i, j, k)`, 0 <= (i, j, k) < shape; a cell is named by its lowest corner."""

    origin: np.ndarray  # (3,)
    step: float
    shape: tuple[int, int, int]

    def place(self, nodes: np.ndarray) -> np.ndarray:
        """Positions (n, 3) of nodes (n, 3), which need not be whole numbers."""
        return self.origin + self.step * nodes

    def number(self, nodes: np.ndarray) -> np.ndarray:
        """Nodes (..., 3) as one number each."""
        return (nodes[..., 0] * self.shape[1] + nodes[..., 1]) * self.shape[2] + nodes[..., 2]

    def split(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers (n,) as nodes (n, 3)."""
        return np.stack(np.unravel_index(numbers, self.shape), axis=-1)


@dataclass(frozen=True, eq=False)
class Portion:
    """A box of cells that is worked on by itself: from `lower` up to, not including, `upper`, both (3,)."""

    lower: np.ndarray
    upper: np.ndarray
    entries: np.ndarray  # numbers of cells in it to which the surface leads from elsewhere
    side_values: Values  # the field at places on its sides, found in the same way by all who look there

    def holds(self, cells: np.ndarray) -> np.ndarray:
        """Whether cells (n, 3) are in it, (n,)."""
        return np.all((cells >= self.lower) & (cells < self.upper), axis=1)

    def touches(self, nodes: np.ndarray) -> np.ndarray:
        """Which coordinates of nodes (n, 3) lie on its sides, (n, 3): there, other portions look at them too."""
        return (nodes == self.lower) | (nodes == self.upper)


@dataclass(frozen=True)
class Band:
    """The cells that hold the surface."""

    grid: Grid
    cells: np.ndarray  # (n, 3)
    values: np.ndarray  # (n, 8) at the corners, in the order of `CORNERS`
    evaluations: int  # points at which the field was asked
    cut: int  # cells the surface leads into but which lie farther than `reach` from every seed, or off the grid
    beyond: np.ndarray  # numbers of cells of other portions into which the surface leads


def lay_grid(lower: np.ndarray, upper: np.ndarray, resolution: int, reach: float) -> Grid:
    """`resolution` nodes along the longest side of the box, the same step on all axes, and room for `reach` around."""
    if not 4 <= resolution <= FINEST:
        raise ConstraintError(f"resolution={resolution}: expected nodes along the longest side, 4 to {FINEST}")
    sides = upper - lower
    if not (np.all(np.isfinite(sides)) and np.all(sides >= 0) and sides.max() > 0):
        raise ConstraintError(f"expected a box lower <= upper with finite corners, got {lower} and {upper}")
    if not reach > 0:
        raise ConstraintError(f"reach={reach}: expected a positive distance")
    step = float(sides.max()) / (resolution - 1)
    room = int(min(np.ceil(reach / step), resolution)) + 2
    counts = np.ceil(sides / step - 1e-9).astype(np.int64) + 1 + 2 * room
    return Grid(lower - room * step, step, (int(counts[0]), int(counts[1]), int(counts[2])))


def follow(
    values: Values,
    seeds: np.ndarray,
    grid: Grid,
    reach: float,
    report: Callable[[str], None] | None = None,
    portion: Portion | None = None,
    tree: cKDTree | None = None,
) -> Band:
    """Start in the cells that hold seeds (n, 3) and go on across every cell face on which the field changes sign.

    `portion`: only in this part of the grid. `tree`: of all seeds, if `seeds` are some of them.
    """
    top = np.array(grid.shape) - 2  # the last cell
    tree = cKDTree(seeds) if tree is None else tree
    known = _KnownNodes(values, grid, portion)
    held = np.floor((seeds - grid.origin) / grid.step).astype(np.int64)
    if np.any(held < 0) or np.any(held > top):
        raise ConstraintError(f"{np.sum(np.any((held < 0) | (held > top), axis=1))} seeds lie outside the given box")
    seeded, cut = np.unique(grid.number(held)), 0
    wave = seeded if portion is None else np.union1d(seeded, portion.entries)
    beyond = [wave[:0]]
    seen = _SortedSet()
    seen.add(wave)
    cells, corners = [], []
    opening = True
    while len(wave):
        following = []
        for some in np.array_split(wave, -(-len(wave) // CHUNK)):
            places = grid.split(some)
            inside = (found := known.look_up(places)) < 0
            mixed = inside.any(axis=1) & ~inside.all(axis=1)
            cells.append(some[mixed])
            corners.append(found[mixed])
            ahead = [
                places[mixed][_changes(inside[mixed], face)] + step for face, step in zip(FACES, STEPS, strict=True)
            ]
            if opening:  # a seed may sit in a corner which the grid does not see: look around it
                lost = ~mixed & _contains(seeded, some)
                ahead.append((places[lost][:, None] + AROUND).reshape(-1, 3))
            nodes = np.concatenate(ahead)
            off = np.any((nodes < 0) | (nodes > top), axis=1)
            cut += len(np.unique(nodes[off], axis=0))
            new = seen.add(grid.number(nodes[~off]))
            middles = grid.place(grid.split(new) + 0.5)
            near = np.isfinite(tree.query(middles, distance_upper_bound=reach)[0]) if len(new) else new > 0
            cut += int(np.sum(~near))
            new = new[near]
            if portion is not None:
                here = portion.holds(grid.split(new))
                beyond.append(new[~here])
                new = new[here]
            following.append(new)
        opening, wave = False, np.sort(np.concatenate(following))
        if report is not None:
            report(f"following the surface: {known.evaluations} values, {len(wave)} cells ahead")
    evaluations = known.evaluations
    del known, seen  # of millions of cells these are most of the memory
    numbers, values_there = np.concatenate([*cells, wave]), np.concatenate([*corners, np.empty((0, 8))])
    return Band(grid, grid.split(numbers), values_there, evaluations, cut, np.concatenate(beyond))


def _changes(inside: np.ndarray, face: np.ndarray) -> np.ndarray:
    """Whether the signs (n, 8) differ on a face, (n,)."""
    here = inside[:, face]
    return np.any(here != here[:, :1], axis=1)


class _SortedSet:
    """Whole numbers seen so far: a large sorted part and a small recent one, merged when the small one has grown."""

    def __init__(self) -> None:
        self.large = np.zeros(0, dtype=np.int64)
        self.recent = np.zeros(0, dtype=np.int64)

    def add(self, numbers: np.ndarray) -> np.ndarray:
        """Take them in; returns those that are new, sorted."""
        new = np.sort(numbers)
        new = new[np.diff(new, prepend=-1) != 0]  # as np.unique, which hashes and is ten times slower
        for part in (self.large, self.recent):
            new = new[~_contains(part, new)]
        self.recent = _join(self.recent, new)
        if 4 * len(self.recent) > len(self.large):
            self.large, self.recent = _join(self.large, self.recent), self.large[:0]
        return new


class _KnownNodes:
    """The values at nodes, asked once each; kept like a `_SortedSet`, with the values beside."""

    def __init__(self, values: Values, grid: Grid, portion: Portion | None) -> None:
        self.values, self.grid, self.portion, self.evaluations = values, grid, portion, 0
        empty = (np.zeros(0, dtype=np.int64), np.zeros(0))
        self.parts = [empty, empty]  # large, recent

    def look_up(self, cells: np.ndarray) -> np.ndarray:
        """Values (n, 8) at the corners of cells (n, 3)."""
        numbers = self.grid.number(cells[:, None] + CORNERS)  # (n, 8)
        asked, back = np.unique(numbers, return_inverse=True)
        answer = np.full(len(asked), np.nan)
        for keys, known in self.parts:
            there = _contains(keys, asked)
            answer[there] = known[np.searchsorted(keys, asked[there])]
        new = np.isnan(answer)
        answer[new] = self._ask(self.grid.split(asked[new]))
        self.evaluations += int(new.sum())
        large, recent = self.parts
        recent = _merge(recent, (asked[new], answer[new]))
        self.parts = [_merge(large, recent), _merge(())] if 4 * len(recent[0]) > len(large[0]) else [large, recent]
        return answer[back].reshape(numbers.shape)

    def _ask(self, nodes: np.ndarray) -> np.ndarray:
        """The field at nodes (n, 3), (n,)."""
        places, found = self.grid.place(nodes), np.empty(len(nodes))
        apart = np.zeros(len(nodes), dtype=bool) if self.portion is None else self.portion.touches(nodes).any(axis=1)
        found[~apart] = evaluate(self.values, places[~apart])
        if self.portion is not None:
            found[apart] = evaluate(self.portion.side_values, places[apart])
        found[np.abs(found) < NOTHING * self.grid.step] = 0.0
        return found


def evaluate(values: Values, points: np.ndarray) -> np.ndarray:
    """The field at points (P, 3) in bounded portions, (P,); refused if it is not one finite number per point."""
    answer = np.empty(len(points))
    for start in range(0, len(points), CHUNK):
        portion = points[start : start + CHUNK]
        found = np.asarray(values(portion), dtype=np.float64)
        if found.shape != (len(portion),):
            raise ConstraintError(f"the field gave values of shape {found.shape} for {len(portion)} points")
        if not np.all(np.isfinite(found)):
            raise ConstraintError(f"the field is not finite at {int(np.sum(~np.isfinite(found)))} points of the grid")
        answer[start : start + CHUNK] = found
    return answer


def _contains(ordered: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Which of `numbers` are in a sorted array, bool."""
    if not len(ordered):
        return np.zeros(len(numbers), dtype=bool)
    return np.equal(ordered[np.minimum(np.searchsorted(ordered, numbers), len(ordered) - 1)], numbers)


def _join(*ordered: np.ndarray) -> np.ndarray:
    """Disjoint sorted arrays as one; a stable sort finds that they are sorted already."""
    return np.sort(np.concatenate(ordered), kind="stable")


def _merge(*parts: tuple[np.ndarray, np.ndarray] | tuple[()]) -> tuple[np.ndarray, np.ndarray]:
    """Disjoint (numbers, values) as one, sorted by number."""
    given = [part for part in parts if part]
    if not given:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    keys = np.concatenate([part[0] for part in given])
    order = np.argsort(keys, kind="stable")
    return keys[order], np.concatenate([part[1] for part in given])[order]
