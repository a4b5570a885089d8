"""Spread: tied cells factored and solved by workers, branch by branch of the tree in which they are merged.

The last merges are pieces of their own, done as soon as both their parts are there. So nobody holds more at a time
than one branch or one front: factors stay in files, which workers map. Here, where it all comes together, there are
right-hand sides, weights and what is known of every row, and one front after the other on the way up and down.
Numbers come out as in one process: the tree is the same, and so is what is done at each of its nodes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cnf.execution import Executor, Failed
from cnf.execution.arrays import map_arrays
from cnf.execution.executor import LATER
from cnf.execution.sharing import file_arrays
from cnf.solvers.branches import (
    Ascend,
    Asked,
    Branch,
    Descend,
    FactorBranch,
    Factored,
    Factors,
    Merge,
    Piece,
    Reached,
    Start,
    Started,
    do,
    front_of,
)
from cnf.solvers.clock import GuideTable
from cnf.solvers.merging import branches
from cnf.solvers.null_space import Halfway, Ties
from cnf.solvers.refining import Tried, refined
from cnf.solvers.tables import part_of

LEAST = 0.5  # seconds that a branch should take
PACE = 4e9  # operations a second, roughly
EACH = 4  # branches for every worker: one that is slow, or lost, does not keep the others waiting for long


def most_branches(cells: int, unknowns: int) -> int:
    """How many branches of cells with so many unknowns each are worth a piece; below 2: sooner done in one process."""
    return int(5.0 * cells * unknowns**3 / PACE // LEAST)


@dataclass(frozen=True)
class _Spread:
    """A branch: the numbers of its cells and rows, of its ties, and of its guides among all."""

    cells: np.ndarray
    rows: np.ndarray
    ties: np.ndarray
    guides: np.ndarray
    factors: Factors


class SpreadFactor:
    """As `TiedFactor`, in about `count` branches; `guides` are as of `MarchedFactor`. Factored when first solved."""

    at_once = 1.0  # the share of the cells that are tied by one system

    def __init__(
        self,
        table: Any,
        starts: np.ndarray,
        ties: Ties,
        centres: np.ndarray,
        active: np.ndarray,
        column: np.ndarray,
        guides: GuideTable | None,
        executor: Executor,
        count: int,
    ):
        self.starts, self.ties, self.executor = starts, ties, executor
        shared = executor.make_folder()
        self.folder = shared.path
        weakref.finalize(self, shared.remove)
        across = np.bincount(ties.cells, minlength=len(centres))
        work = (active.sum(axis=1) * np.diff(starts) * (np.diff(starts) + across)).astype(np.float64)  # of every cell
        found, self._merges = branches(centres, *ties.pairs(), work, 1.5 * work.sum() / count)
        total = np.bincount(ties.rows, minlength=ties.count)
        by_cell = np.argsort(ties.cells, kind="stable")
        bounds = np.searchsorted(ties.cells[by_cell], np.arange(len(starts)))
        self._branches: list[_Spread] = []
        for number, cells in enumerate(map(np.sort, found)):
            rows = np.concatenate([np.arange(starts[k], starts[k + 1]) for k in cells])
            entries = np.sort(np.concatenate([by_cell[bounds[k] : bounds[k + 1]] for k in cells]))
            numbers, local = np.unique(ties.rows[entries], return_inverse=True)
            own = Ties(
                len(numbers),
                local,
                np.searchsorted(cells, ties.cells[entries]),
                part_of(ties.vectors, entries, cells),  # type: ignore[arg-type]
            )
            asked = np.zeros(0, dtype=np.int64) if guides is None else guides.numbers(cells)[0]
            branch = Branch(
                part_of(table, rows, cells),
                np.concatenate([[0], np.cumsum(np.diff(starts)[cells])]),
                own,
                numbers,
                total[numbers],
                centres[cells],
                active[cells],
                column,
                None if guides is None else guides.of(cells),
            )
            folder = self.folder / f"branch-{number}"
            folder.mkdir()
            factors = Factors(file_arrays(branch, folder), self.folder / f"factor-{number}")
            self._branches.append(_Spread(cells, rows, numbers, asked, factors))
        self._shape = active.shape
        self.ranks: dict[int, int] = {}
        self._squares = np.zeros(starts[-1])
        self._tied = np.zeros(ties.count)

    @property
    def rank(self) -> int:
        return sum(self.ranks.values())

    # -- factoring -----------------------------------------------------------------------------------------------

    def _left(self, part: int) -> Path:
        return self.folder / f"left-{part}"

    def _front(self, k: int) -> Path:
        return self.folder / f"front-{k}"

    def _factor(self, asked: Sequence[Asked]) -> list[Started]:
        """Branches, and merges as soon as both parts are there."""
        count, given, done = len(self._branches), list[int](), set[int]()
        waiting, started = list(range(len(self._merges))), dict[int, Started]()

        def pieces() -> Iterator[Any]:
            for number, branch in enumerate(self._branches):
                given.append(number)
                factors = branch.factors
                yield FactorBranch(factors.branch, factors.path, self._left(number), asked[number])
            while waiting:
                ready = next((k for k in waiting if done.issuperset(self._merges[k])), None)
                if ready is None:
                    yield LATER
                    continue
                waiting.remove(ready)
                given.append(count + ready)
                first, second = self._merges[ready]
                parts = self._left(first), self._left(second)
                yield Merge(parts, (first, second), self._front(ready), self._left(count + ready))

        def take(number: int, found: Any) -> None:
            part = given[number]
            done.add(part)
            if isinstance(found, Factored):
                self.ranks[part] = found.rank
                branch = self._branches[part]
                self._squares[branch.rows] = found.squares
                self._tied[branch.ties] += found.tied
                started[part] = found.started
                return
            self.ranks[part] = found
            for merged in self._merges[part - count]:
                self._left(merged).unlink()

        self.ranks.clear()
        self._tied[:] = 0
        self._run(pieces(), take)
        return [started[number] for number in range(count)]

    def _run(self, pieces: Iterator[Any], take: Callable[[int, Any], None]) -> None:
        with closing(self.executor.run(do, pieces)) as running:
            for number, found in running:
                if isinstance(found, Failed):
                    found.raise_error()
                take(number, found)

    def _each(self, pieces: Sequence[Piece]) -> list[Any]:
        """One piece for every branch, results in their order."""
        found: list[Any] = [None] * len(pieces)
        self._run(iter(pieces), found.__setitem__)
        return found

    # -- solving -------------------------------------------------------------------------------------------------

    def weights(self, right: np.ndarray, tied: np.ndarray, wanted: np.ndarray | None = None) -> np.ndarray:
        """The smallest weights (cells, n) that meet rows (M,) and ties, nearest to what guides `wanted` (G,)."""
        asked = [
            Asked(right[b.rows], tied[b.ties], None if wanted is None or not len(b.guides) else wanted[b.guides])
            for b in self._branches
        ]
        if len(self.ranks) < len(self._branches) + len(self._merges):
            started = self._factor(asked)
        else:
            started = self._each([Start(b.factors, a) for b, a in zip(self._branches, asked, strict=True)])
        begun = [part.begun for part in started]
        none = [np.zeros((len(b.cells), self._shape[1])) for b in self._branches]
        known = [p or Reached(w, 0 * a.rows, 0 * a.ties) for p, w, a in zip(begun, none, asked, strict=True)]
        up: list[Halfway] | None = [part.halfway for part in started]

        def step(found: Tried) -> Tried:
            nonlocal up
            last = up is not None and found.steps > 0  # as a rule: a third step finds nothing to mend
            below = self._each_off(found) if up is None else up
            pieces = self._pieces_down(found, below, None if last else asked)
            both = self._each(pieces)
            up = None if last else [halfway for _, halfway in both]
            return self._together([reached for reached, _ in both], right, tied, found.steps + 1)

        return refined(step, self._together(known, right, tied, 0), (self._squares, self._tied)).weights

    def _together(self, found: Sequence[Reached], right: np.ndarray, tied: np.ndarray, steps: int) -> Tried:
        weights, off, tied_off = np.zeros(self._shape), right.copy(), tied.copy()
        for branch, part in zip(self._branches, found, strict=True):
            weights[branch.cells] = part.weights
            off[branch.rows] -= part.rows
            tied_off[branch.ties] -= part.ties
        return Tried(weights, (off, tied_off), steps=steps)

    def _each_off(self, found: Tried) -> list[Halfway]:
        """Up with what is missed."""
        right, tied = found.off
        return self._each([Ascend(b.factors, Asked(right[b.rows], tied[b.ties])) for b in self._branches])

    def _pieces_down(self, found: Tried, up: Sequence[Halfway], asked: Sequence[Asked] | None) -> list[Piece]:
        reached = np.zeros(self.ties.count)
        for branch, part in zip(self._branches, up, strict=True):
            reached[branch.ties] += part.reached
        beyond = self._across(found.off[1], reached)
        return [
            Descend(b.factors, part, beyond.get(k), found.weights[b.cells], None if asked is None else asked[k])
            for k, (b, part) in enumerate(zip(self._branches, up, strict=True))
        ]

    def _across(self, tied: np.ndarray, reached: np.ndarray) -> dict[int, np.ndarray]:
        """What the last merges fix of every branch, from what branches make of ties."""
        fixed = []
        for k in range(len(self._merges)):
            front = front_of(map_arrays(self._front(k)))
            fixed.append(front.factor.along(tied[front.finished] - reached[front.finished]))
            reached[front.outstanding] += front.held @ fixed[-1]
        free: dict[int, np.ndarray] = {}
        for k in reversed(range(len(self._merges))):
            arrays, number = map_arrays(self._front(k)), len(self._branches) + k
            front = front_of(arrays)
            c = free.pop(number, np.zeros(front.factor.free))
            if len(c) < front.factor.free:
                c = arrays["seen"] @ c
            c = front.factor.joined(fixed[k], c)
            free[front.parts[0]], free[front.parts[1]] = c[: front.width], c[front.width :]
        return free
