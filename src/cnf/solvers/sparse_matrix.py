"""Sparse matrices: a pattern that stays while its values change, and the order of elimination that belongs to it.

The pattern comes from points and supports, so in training it is the same at every step: sorting, ordering and the map
from values to the permuted matrix are worked out once and kept with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.csgraph import maximum_bipartite_matching
from torch import Tensor

if TYPE_CHECKING:
    from cnf.solvers.elimination import Elimination

INDEX = np.int32  # what SuperLU works with


@dataclass(frozen=True, eq=False)
class Pattern:
    """Where a matrix (m, n) may differ from zero, in compressed rows; `sites` (n,) tells at which point columns sit."""

    shape: tuple[int, int]
    starts: np.ndarray  # (m + 1,)
    columns: np.ndarray  # (nnz,)
    sites: np.ndarray | None = None

    @property
    def count(self) -> int:
        return int(self.columns.shape[0])

    @cached_property
    def row_of(self) -> Tensor:
        """Row of every entry (nnz,)."""
        return torch.from_numpy(np.repeat(np.arange(self.shape[0]), np.diff(self.starts)))

    @cached_property
    def column_of(self) -> Tensor:
        return torch.from_numpy(self.columns.astype(np.int64))

    def filled(self, values: np.ndarray) -> sparse.csr_matrix:
        """The SciPy matrix with these values."""
        return sparse.csr_matrix((values, self.columns, self.starts), shape=self.shape)

    @cached_property
    def order(self) -> Order:
        """The order of elimination; worked out once per pattern."""
        return _dissected(self)

    @cached_property
    def plan(self) -> Plan:
        """The matrix in that order, for factorisations that want it permuted."""
        return make_plan(self)

    @cached_property
    def elimination(self) -> Elimination:
        """The fronts of a Cholesky factorisation; worked out once per pattern."""
        from cnf.solvers.elimination import eliminate  # which needs the pattern itself

        return eliminate(self)


@dataclass(frozen=True, eq=False)
class Order:
    """The columns in the order in which they are eliminated, and where the order comes from."""

    columns: np.ndarray  # (n,)
    method: str


@dataclass(frozen=True, eq=False)
class Plan:
    """The permuted matrix A[rows][:, columns] in compressed columns; `gather` (nnz,) takes its values from A's."""

    rows: np.ndarray  # (m,)
    columns: np.ndarray  # (n,)
    starts: np.ndarray
    indices: np.ndarray
    gather: np.ndarray


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """Values (nnz,), which carry gradients, on a pattern."""

    pattern: Pattern
    values: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        return self.pattern.shape

    @cached_property
    def plain(self) -> sparse.csr_matrix:
        """For products without gradients, in float64."""
        return self.pattern.filled(self.values.detach().to(torch.float64).cpu().numpy())

    def detach(self) -> SparseMatrix:
        return SparseMatrix(self.pattern, self.values.detach())

    def __matmul__(self, x: Tensor) -> Tensor:
        """(n, k) -> (m, k), without gradients."""
        return torch.from_numpy(self.plain @ x.detach().to(torch.float64).cpu().numpy()).to(x)

    def row_norms(self) -> Tensor:
        """Euclidean norms of the rows (m,); one where a row is zero."""
        squares = np.asarray(self.plain.multiply(self.plain).sum(axis=1)).reshape(-1)
        return torch.from_numpy(np.where(squares > 0, np.sqrt(squares), 1.0)).to(self.values)

    def to_dense(self) -> Tensor:
        """(m, n), differentiable; for small systems."""
        flat = self.values.new_zeros(self.shape[0] * self.shape[1])
        place = self.pattern.row_of * self.shape[1] + self.pattern.column_of
        return flat.index_add(0, place.to(flat.device), self.values).reshape(self.shape)


@dataclass(frozen=True, eq=False)
class Scatter:
    """From computed entries (any order, possibly several for one place) to the values of a pattern."""

    pattern: Pattern
    gather: Tensor | None  # (nnz,) the computed entry of every place, if each has exactly one
    target: Tensor | None  # (entries,) the place each computed entry is added to, otherwise

    def __call__(self, entries: Tensor) -> SparseMatrix:
        if self.gather is not None:
            return SparseMatrix(self.pattern, entries[self.gather.to(entries.device)])
        assert self.target is not None
        zero = entries.new_zeros(self.pattern.count)
        return SparseMatrix(self.pattern, zero.index_add(0, self.target.to(entries.device), entries))


def make_scatter(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int], sites: np.ndarray | None) -> Scatter:
    """The pattern of entries at (rows, columns), each (entries,), and the way of the entries into it."""
    entries = rows.shape[0]
    # Conversion to compressed rows sorts in linear time; the entries' own numbers travel along as data.
    numbered = sparse.coo_matrix((np.arange(1, entries + 1, dtype=np.float64), (rows, columns)), shape=shape)
    csr = sparse.csr_matrix(numbered)
    if csr.nnz == entries:
        csr.sort_indices()
        pattern = Pattern(shape, csr.indptr.astype(INDEX), csr.indices.astype(INDEX), sites)
        return Scatter(pattern, torch.from_numpy(csr.data.astype(np.int64) - 1), None)
    keys, target = np.unique(rows.astype(np.int64) * shape[1] + columns, return_inverse=True)
    starts = np.searchsorted(keys, np.arange(shape[0] + 1, dtype=np.int64) * shape[1])
    pattern = Pattern(shape, starts.astype(INDEX), (keys % shape[1]).astype(INDEX), sites)
    return Scatter(pattern, None, torch.from_numpy(target))


@dataclass(frozen=True)
class Family:
    """Entries that repeat one set of pairs (p ascending, q): K rows at every point, R columns at every centre.

    Row k of point p is `rows[k]` + p, column r of centre q is `columns[r][q]`; entries come as (k, r, pair).
    """

    rows: list[int]
    columns: list[np.ndarray]
    p: np.ndarray
    q: np.ndarray


def repeat_pattern(family: Family, shape: tuple[int, int], sites: np.ndarray | None) -> Scatter | None:
    """As `make_scatter` for all entries of a family, without sorting them; None if their order is not that simple."""
    pairs, sets = family.p.shape[0], len(family.columns)
    counts = np.bincount(family.p, minlength=shape[0] // max(1, len(family.rows)))
    points = counts.shape[0]
    ends = [(int(c.min()), int(c.max())) for c in family.columns]
    ordered = all((np.diff(c) > 0).all() for c in family.columns) and all(a[1] < b[0] for a, b in pairwise(ends))
    if not ordered or points * len(family.rows) != shape[0] or family.rows != list(range(0, shape[0], points)):
        return None
    by_pair = np.lexsort((family.q, family.p))
    q = family.q[by_pair]
    starts = np.cumsum(counts) - counts
    # In a row the columns of set 0 come first, then those of set 1, each with ascending centres.
    within = np.arange(pairs) - np.repeat(starts, counts)
    slot = np.repeat(starts * sets, counts) + within  # of set 0 in the rows of one k
    columns, numbers = np.empty(pairs * sets, dtype=INDEX), np.empty(pairs * sets, dtype=np.int64)
    for r, own in enumerate(family.columns):
        place = slot + r * np.repeat(counts, counts)
        columns[place], numbers[place] = own[q], r * pairs + by_pair
    row_starts = np.concatenate([[0], np.cumsum(np.tile(counts * sets, len(family.rows)))])
    gather = np.concatenate([numbers + k * sets * pairs for k in range(len(family.rows))])
    pattern = Pattern(shape, row_starts.astype(INDEX), np.tile(columns, len(family.rows)), sites)
    return Scatter(pattern, torch.from_numpy(gather), None)


def make_plan(pattern: Pattern) -> Plan:
    """The permuted pattern; rows are matched to columns first if the diagonal has gaps."""
    order = pattern.order.columns
    rows = order
    numbered = pattern.filled(np.arange(1, pattern.count + 1, dtype=np.float64))
    if np.count_nonzero(numbered.diagonal()) < pattern.shape[0]:
        # Conditions and functions are not listed in the same order: match them, so that the diagonal is not empty.
        match = maximum_bipartite_matching(numbered, perm_type="row")  # row of every column
        if (match >= 0).all():
            rows = match[order]
    permuted = sparse.csc_matrix(numbered[rows][:, order])
    permuted.sort_indices()
    return Plan(
        rows,
        order,
        permuted.indptr.astype(INDEX),
        permuted.indices.astype(INDEX),
        permuted.data.astype(np.int64) - 1,
    )


def _dissected(pattern: Pattern) -> Order:
    """METIS nested dissection where pymetis is installed, minimum degree by SuperLU itself where not."""
    n = pattern.shape[1]
    try:
        import pymetis
    except ImportError:
        return Order(np.arange(n), "minimum degree")
    structure = pattern.filled(np.ones(pattern.count))
    members = None
    if pattern.sites is not None:  # columns of one site have the same neighbours: order the sites
        by_site = np.argsort(pattern.sites, kind="stable")
        first = np.unique(pattern.sites[by_site], return_index=True)[1]
        members = np.split(by_site, first[1:])
        chosen = by_site[first]
        structure = structure[chosen][:, chosen]
    graph = sparse.csr_matrix(structure + structure.T)
    graph.setdiag(0)
    graph.eliminate_zeros()
    if not graph.nnz:
        return Order(np.arange(n), "diagonal")
    order = np.asarray(pymetis.nested_dissection(pymetis.CSRAdjacency(graph.indptr, graph.indices))[0])
    if members is not None:
        order = np.concatenate([members[k] for k in order])
    return Order(order, "METIS")
