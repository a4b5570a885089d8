"""Branches: tied cells that one worker factors and solves, all but the ties that reach beyond them.

In comes a `Branch`, rows that are worked out there and ties by their numbers; its factor goes to a file, from which any
worker goes on. What is outstanding goes to another file, for the merge with the next part, which any worker does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from cnf.execution import Shared
from cnf.execution.arrays import map_arrays, write_arrays
from cnf.solvers.clock import GuideTable
from cnf.solvers.fronts import Front, Outstanding, as_seen, merged
from cnf.solvers.local_factor import LocalFactor
from cnf.solvers.metric import Metric
from cnf.solvers.null_space import Halfway, TiedFactor, Ties, times_weights
from cnf.solvers.tables import Table


@dataclass(frozen=True)
class Branch:
    """Cells (c,) with their rows, as `TiedFactor` takes them; `numbers` (u,) are those of its ties among all.

    `total` (u,) says how many entries these have, there and elsewhere. Without `guides`, weights are measured by
    `column` (n,).
    """

    table: Any  # rows that are worked out pass for an array: they are asked for cell by cell
    starts: np.ndarray
    ties: Ties
    numbers: np.ndarray
    total: np.ndarray
    centres: np.ndarray
    active: np.ndarray
    column: np.ndarray
    guides: GuideTable | None

    def metric(self) -> Metric:
        return Metric(self.column, self.active) if self.guides is None else self.guides.metric(self.active)


AT_ONCE = 2**25  # numbers in rows that are worked out together; of more, those of one cell at a time


class _Watched:
    """A table that takes down the sum of squares (M,) of every row that it is asked for."""

    def __init__(self, table: Table):
        whole = not isinstance(table, np.ndarray) and math.prod(table.shape) <= AT_ONCE
        self.table, self.squares = table[np.arange(table.shape[0])] if whole else table, np.zeros(table.shape[0])

    @property
    def shape(self) -> tuple[int, ...]:
        return self.table.shape

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        found = self.table[rows]
        self.squares[rows] = np.einsum("kn,kn->k", found, found)
        return found


@dataclass(frozen=True)
class Reached:
    """Weights (c, n), and what rows (m,) and ties (u,) make of them, as far as the branch has these."""

    weights: np.ndarray
    rows: np.ndarray
    ties: np.ndarray


@dataclass(frozen=True)
class Asked:
    """What rows (m,), ties (u,) and guides should give; `guides` None: nobody asks."""

    rows: np.ndarray
    ties: np.ndarray
    guides: np.ndarray | None = None


@dataclass(frozen=True)
class Opened:
    """A branch with its factor, wherever it is worked on."""

    branch: Branch
    factor: TiedFactor

    def start(self, asked: Asked) -> Started:
        """On the way up for the first time."""
        if asked.guides is None:
            return Started(None, self.factor.ascend(asked.rows, asked.ties))
        assert self.branch.guides is not None
        metric = self.factor.metric
        begun = self.reached(metric.weights(metric.transposed(self.branch.guides.pull(asked.guides))))
        return Started(begun, self.again(asked, begun))

    def again(self, asked: Asked, so_far: Reached) -> Halfway:
        """On the way up with what weights leave; of ties that are finished here, all is known here."""
        return self.factor.ascend(asked.rows - so_far.rows, asked.ties - so_far.ties)

    def reached(self, weights: np.ndarray) -> Reached:
        branch = self.branch
        owner = np.repeat(np.arange(len(branch.starts) - 1), np.diff(branch.starts))
        return Reached(weights, times_weights(branch.table, owner, weights), branch.ties.applied(weights))


@dataclass(frozen=True)
class Started:
    """The weights that fit the guides best, if there are any, and what is fixed on the way up from there."""

    begun: Reached | None
    halfway: Halfway


@dataclass(frozen=True)
class Factored:
    """What is told of a branch: sums of squares of its rows (m,), and of what it has of its ties (u,)."""

    rank: int
    squares: np.ndarray
    tied: np.ndarray
    started: Started


@dataclass(frozen=True)
class FactorBranch:
    """Factor it into `into`, leave in `left` what is outstanding, and start to solve."""

    branch: Shared[Branch]
    into: Path
    left: Path
    asked: Asked

    def do(self) -> Factored:
        given = self.branch.open()
        table, metric = _Watched(given.table), given.metric()
        vectors = _Watched(given.ties.vectors)
        rows: Any = table  # they pass for arrays: cells ask for their rows one by one
        across: Any = vectors
        ties = replace(given.ties, vectors=across)
        factor = TiedFactor(
            rows, given.starts, ties, given.centres, active=given.active, metric=metric, total=given.total
        )
        assert factor.outstanding is not None
        leave(self.left, factor.outstanding, given.numbers)
        factor.outstanding, factor.ties = None, given.ties
        table.table = vectors.table = np.zeros((0, 0))  # they are large
        triangles = {f"metric.{cell}": triangle for cell, triangle in metric.triangles.items()}
        write_arrays(self.into, triangles | arrays_of(factor))
        tied = np.bincount(ties.rows, vectors.squares, minlength=ties.count)
        return Factored(factor.rank, table.squares, tied, Opened(given, factor).start(self.asked))


@dataclass(frozen=True)
class Merge:
    """Merge two parts, whose files are these, into a front, and leave what is outstanding of it in `left`."""

    parts: tuple[Path, Path]
    numbers: tuple[int, int]
    into: Path
    left: Path

    def do(self) -> int:
        """The rank of the front."""
        front, rest = merged(self.numbers, [outstanding(path) for path in self.parts])
        seen, basis = as_seen(rest)
        leave(self.left, seen)
        write_arrays(self.into, front_arrays("", front) | ({} if basis is None else {"seen": basis}))
        return front.factor.rank


@dataclass(frozen=True)
class Factors:
    """A branch and the file of its factor."""

    branch: Shared[Branch]
    path: Path

    def open(self) -> Opened:
        given, arrays = self.branch.open(), map_arrays(self.path)
        triangles = {int(name[7:]): array for name, array in arrays.items() if name.startswith("metric.")}
        column = given.column if given.guides is None else given.guides.column / given.guides.faint
        metric = Metric(column, given.active, triangles)
        return Opened(given, factor_of(arrays, given.starts, given.ties, metric))


@dataclass(frozen=True)
class Start:
    """With a factor that is there, for other right-hand sides."""

    factors: Factors
    asked: Asked

    def do(self) -> Started:
        return self.factors.open().start(self.asked)


@dataclass(frozen=True)
class Ascend:
    """With what the whole still misses of rows and ties."""

    factors: Factors
    off: Asked

    def do(self) -> Halfway:
        return self.factors.open().factor.ascend(self.off.rows, self.off.ties)


@dataclass(frozen=True)
class Descend:
    """The weights, `so_far` and what is added to them, where `beyond` is what other parts fixed.

    With what is `asked`, up again at once.
    """

    factors: Factors
    halfway: Halfway
    beyond: np.ndarray | None
    so_far: np.ndarray
    asked: Asked | None

    def do(self) -> tuple[Reached, Halfway | None]:
        opened = self.factors.open()
        step = opened.factor.descend(self.halfway, self.beyond)
        found = opened.reached(self.so_far + opened.factor.metric.weights(step))
        return found, None if self.asked is None else opened.again(self.asked, found)


Piece = FactorBranch | Merge | Start | Ascend | Descend


def do(piece: Piece) -> object:
    """What workers do."""
    with threadpool_limits(1, "blas"):  # as in one process: threads get in each other's way on matrices this small
        return piece.do()


def leave(path: Path, part: Outstanding, numbers: np.ndarray | None = None) -> None:
    """For a merge, elsewhere; ties by their `numbers` among all."""
    ties = part.ties if numbers is None else numbers[part.ties]
    write_arrays(path, {"ties": ties, "met": part.met, "total": part.total, "rows": part.rows})


def outstanding(path: Path) -> Outstanding:
    return Outstanding(**map_arrays(path))


def arrays_of(factor: TiedFactor) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for cell, local in enumerate(factor.local):
        found |= _local_arrays(f"cell.{cell}.", local)
    for k, front in enumerate(factor.fronts):
        found |= front_arrays(f"front.{k}.", front)
    return found | {f"seen.{part}": basis for part, basis in factor.seen.items()}


def factor_of(arrays: Mapping[str, np.ndarray], starts: np.ndarray, ties: Ties, metric: Metric) -> TiedFactor:
    cells = len(starts) - 1
    local = [_local_factor(arrays, f"cell.{cell}.") for cell in range(cells)]
    fronts = [front_of(arrays, f"front.{k}.") for k in range(cells - 1)]
    seen = {int(name[5:]): array for name, array in arrays.items() if name.startswith("seen.")}
    return TiedFactor.kept(starts, ties, metric, local, fronts, seen)


def front_arrays(name: str, front: Front) -> dict[str, np.ndarray]:
    numbers = np.array([*front.parts, front.width])
    own = {"numbers": numbers, "finished": front.finished, "outstanding": front.outstanding, "held": front.held}
    return {name + key: array for key, array in own.items()} | _local_arrays(name, front.factor)


def front_of(arrays: Mapping[str, np.ndarray], name: str = "") -> Front:
    first, second, width = map(int, arrays[f"{name}numbers"])
    finished, outstanding, held = (arrays[name + key] for key in ("finished", "outstanding", "held"))
    return Front((first, second), width, finished, outstanding, _local_factor(arrays, name), held)


def _local_arrays(name: str, factor: LocalFactor) -> dict[str, np.ndarray]:
    given = {f.name: getattr(factor, f.name) for f in fields(factor)}
    return {name + key: array for key, array in given.items() if array is not None}


def _local_factor(arrays: Mapping[str, np.ndarray], name: str) -> LocalFactor:
    return LocalFactor(**{f.name: arrays.get(name + f.name) for f in fields(LocalFactor)})  # type: ignore[arg-type]
