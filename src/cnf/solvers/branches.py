"""Branches: tied cells that one worker factors and solves, all but the ties that reach beyond them.

In comes a `Branch`, rows that are worked out there and ties by their numbers; its factor goes to a file, from which any
worker goes on. What is outstanding goes to another file, for the merge with the next part, which any worker does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from cnf.execution import Shared, map_arrays, write_arrays
from cnf.solvers.clock import GuideTable
from cnf.solvers.fronts import Front, Outstanding, as_seen, merged
from cnf.solvers.local_factor import LocalFactor
from cnf.solvers.metric import Metric
from cnf.solvers.null_space import Halfway, TiedFactor, Ties, times_weights
from cnf.solvers.separation import Table


@dataclass(frozen=True)
class Branch:
    """Cells (c,) with their rows, as `TiedFactor` takes them; `numbers` (u,) are those of its ties among all.

    `total` (u,) says how many entries these have, there and elsewhere. Without `guides`, weights are measured by
    `column` (n,). If rows are to be `kept`, they are in the file of the factor; else they are worked out again.
    """

    table: Table
    starts: np.ndarray
    ties: Ties
    numbers: np.ndarray
    total: np.ndarray
    centres: np.ndarray
    active: np.ndarray
    column: np.ndarray
    guides: GuideTable | None
    kept: bool

    def metric(self) -> Metric:
        return Metric(self.column, self.active) if self.guides is None else self.guides.metric(self.active)


class _Watched:
    """A table that takes down the sum of squares (M,) of every row that it is asked for."""

    def __init__(self, table: Table):
        self.table, self.squares = table, np.zeros(table.shape[0])

    @property
    def shape(self) -> tuple[int, ...]:
        return self.table.shape

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        found = self.table[rows]
        self.squares[rows] = np.einsum("kn,kn->k", found, found)
        return found


@dataclass(frozen=True)
class Factored:
    """What is told of a branch: sums of squares of its rows (m,), and of what it has of its ties (u,)."""

    rank: int
    squares: np.ndarray
    tied: np.ndarray


@dataclass(frozen=True)
class FactorBranch:
    """Factor it into `into`, and leave in `left` what is outstanding."""

    branch: Shared[Branch]
    into: Path
    left: Path

    def do(self) -> Factored:
        given = self.branch.open()
        table, vectors, arrays = given.table, given.ties.vectors, dict[str, np.ndarray]()
        if given.kept:
            arrays["table"], arrays["vectors"] = (t[np.arange(t.shape[0])] for t in (table, vectors))
            table, vectors = arrays["table"], arrays["vectors"]
        watched, across = _Watched(table), _Watched(vectors)
        ties = Ties(given.ties.count, given.ties.rows, given.ties.cells, across)  # type: ignore[arg-type]
        metric = given.metric()
        factor = TiedFactor(
            watched,  # type: ignore[arg-type]  # cells ask for their rows one by one
            given.starts,
            ties,
            given.centres,
            active=given.active,
            metric=metric,
            total=given.total,
        )
        assert factor.outstanding is not None
        leave(self.left, factor.outstanding, given.numbers)
        arrays |= {f"metric.{cell}": triangle for cell, triangle in metric.triangles.items()}
        write_arrays(self.into, arrays | arrays_of(factor))
        squares = np.bincount(ties.rows, across.squares, minlength=ties.count)
        return Factored(factor.rank, watched.squares, squares)


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

    def open(self) -> tuple[Branch, TiedFactor, Table, Ties]:
        """The branch, its factor, and its rows and ties."""
        given, arrays = self.branch.open(), map_arrays(self.path)
        table, vectors = arrays.get("table", given.table), arrays.get("vectors", given.ties.vectors)
        triangles = {int(name[7:]): array for name, array in arrays.items() if name.startswith("metric.")}
        column = given.column if given.guides is None else given.guides.column / given.guides.faint
        metric = Metric(column, given.active, triangles)
        ties = Ties(given.ties.count, given.ties.rows, given.ties.cells, vectors)
        return given, factor_of(arrays, given.starts, ties, metric), table, ties


@dataclass(frozen=True)
class Reached:
    """Weights (c, n), and what rows (m,) and ties (u,) make of them, as far as the branch has these."""

    weights: np.ndarray
    rows: np.ndarray
    ties: np.ndarray


@dataclass(frozen=True)
class Begin:
    """The weights that fit the guides best, which should give `wanted`."""

    factors: Factors
    wanted: np.ndarray

    def do(self) -> Reached:
        given, factor, table, ties = self.factors.open()
        assert given.guides is not None
        metric = factor.metric
        return _reached(given, table, ties, metric.weights(metric.transposed(given.guides.pull(self.wanted))))


@dataclass(frozen=True)
class Ascend:
    """What the rows of a branch fix, and the ties (u,) that it finishes."""

    factors: Factors
    right: np.ndarray
    tied: np.ndarray

    def do(self) -> Halfway:
        return self.factors.open()[1].ascend(self.right, self.tied)


@dataclass(frozen=True)
class Descend:
    """The weights, `so_far` and what is added to them, where `beyond` is what other parts fixed."""

    factors: Factors
    halfway: Halfway
    beyond: np.ndarray | None
    so_far: np.ndarray

    def do(self) -> Reached:
        given, factor, table, ties = self.factors.open()
        step = factor.descend(self.halfway, self.beyond)
        return _reached(given, table, ties, self.so_far + factor.metric.weights(step))


Piece = FactorBranch | Merge | Begin | Ascend | Descend


def do(piece: Piece) -> object:
    """What workers do."""
    with threadpool_limits(1, "blas"):  # as in one process: threads get in each other's way on matrices this small
        return piece.do()


def _reached(given: Branch, table: Table, ties: Ties, weights: np.ndarray) -> Reached:
    owner = np.repeat(np.arange(len(given.starts) - 1), np.diff(given.starts))
    return Reached(weights, times_weights(table, owner, weights), ties.applied(weights))  # type: ignore[arg-type]


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
