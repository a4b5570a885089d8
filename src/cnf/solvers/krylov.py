"""Krylov: sparse square systems by iteration, with overlapping patches of unknowns solved exactly as preconditioner.

The matrix is never factored as a whole: memory grows with the number of unknowns, and every step is a sparse product
and a batch of small dense ones. Conjugate gradients with additive Schwarz for definite matrices, restarted GMRES with
restricted additive Schwarz otherwise. Patches are worked out from the pattern once and kept while it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.csgraph import maximum_bipartite_matching
from torch import Tensor

from cnf.errors import CnfError, SingularSystemError
from cnf.solvers.solver import Factor, Solver
from cnf.solvers.sparse_direct import _scales
from cnf.systems.condition import Triplet, largest_triplet, smallest_triplet, starting_vector
from cnf.systems.sparse import Pattern, SparseMatrix

EPS = float(np.finfo(np.float64).eps)
RESTART = 100  # vectors GMRES keeps
ROUNDS = 4  # of refinement: the residual of the answer is solved for in turn while that makes it smaller
ROUNDING = 8 * EPS  # of |A| |x|: a residual below cannot be told from zero
ENTRIES = 2**23  # of small matrices inverted at once
LOOSE, STEPS = 1e-7, 8  # solves, and their number, for the extreme singular values

Apply = Callable[[np.ndarray], np.ndarray]  # (n, k) -> (n, k)


@dataclass(frozen=True)
class Krylov(Solver):
    """`tolerance`: of the residual relative to the right-hand side, both scaled, at which an iteration ends.

    `size`: unknowns of a patch before it is enlarged; `overlap`: a neighbouring unknown joins a patch if at least this
    share of its own neighbours are in it, so 0 takes all neighbours; `most`: iterations before giving up.
    """

    tolerance: float = 1e-13
    overlap: float = 0.1
    size: int = 100
    most: int = 500

    sparse = True

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < 1:
            raise CnfError(f"the tolerance of Krylov is a number between 0 and 1, such as 1e-13; got {self.tolerance!r}")
        if not 0 <= self.overlap <= 1:
            raise CnfError(f"the overlap of Krylov is a share between 0 and 1, such as 0.1; got {self.overlap!r}")
        if self.size < 1 or self.most < 1:
            raise CnfError("Krylov needs patches and iterations: size and most are positive whole numbers")

    def factor(self, matrix: Tensor | SparseMatrix, symmetric: bool = False) -> Factor:
        if not isinstance(matrix, SparseMatrix):
            raise CnfError(
                "Krylov needs a basis with compact support: Kernel or Hermite with cnf.kernels.Wendland, or Hybrid; use "
                "Auto() for this one"
            )
        m, n = matrix.shape
        if m != n:
            raise SingularSystemError(
                f"Krylov needs as many basis functions as conditions, but there are {n} and {m}; put one anchor on "
                "every point with one condition, or use Hermite"
            )
        rows, columns = _scales(matrix.plain, symmetric)
        scaled = (matrix.plain.data * rows[matrix.pattern.row_of.numpy()]) * columns[matrix.pattern.columns]
        return KrylovFactor(
            shape=(m, n),
            scale_rows=torch.from_numpy(rows),
            scale_columns=torch.from_numpy(columns),
            matrix=matrix.pattern.filled(scaled),
            precondition=Schwarz(cut_up(matrix.pattern, self.size, self.overlap), scaled, symmetric),
            definite=symmetric,
            settings=self,
        )


# -- patches of unknowns -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Batch:
    """B patches of up to w unknowns, those of the patch itself first, then its neighbours; n stands for none.

    `entries` of the matrix go to `places` of the flat (B, w, w) array; `rows` are matched with `columns` one to one.
    """

    rows: Tensor  # (B, w)
    columns: Tensor  # (B, w)
    own: Tensor  # (B, c) unknowns of the patches themselves, n for none
    entries: np.ndarray
    places: np.ndarray


@dataclass(frozen=True, eq=False)
class Patchwork:
    """All patches of a pattern."""

    count: int
    batches: tuple[Batch, ...]


_KNOWN: WeakKeyDictionary[Pattern, dict[tuple[int, float], Patchwork]] = WeakKeyDictionary()


def cut_up(pattern: Pattern, size: int, overlap: float) -> Patchwork:
    """The patches of a pattern; worked out once."""
    known = _KNOWN.setdefault(pattern, {})
    if (size, overlap) not in known:
        known[size, overlap] = _cut_up(pattern, size, overlap)
    return known[size, overlap]


def _cut_up(pattern: Pattern, size: int, overlap: float) -> Patchwork:
    n = pattern.shape[1]
    match = _matched_rows(pattern)
    structure = pattern.filled(np.ones(pattern.count))[match]
    site = np.arange(n) if pattern.sites is None else np.unique(pattern.sites, return_inverse=True)[1]
    counts = np.bincount(site)
    at = sparse.csr_matrix((np.ones(n), (site, np.arange(n))), shape=(counts.shape[0], n))  # unknowns of every site
    graph = sparse.csr_matrix(at @ (structure + structure.T) @ at.T)
    graph.data[:] = 1.0
    part = _partition(graph, counts, size)
    inside = sparse.csr_matrix((np.ones(part.shape[0]), (np.arange(part.shape[0]), part)))
    shares = sparse.csc_matrix(sparse.diags_array(1 / np.diff(graph.indptr)) @ graph @ inside)  # (sites, patches)
    cores, halos = [], []
    for t in range(shares.shape[1]):
        stretch = slice(shares.indptr[t], shares.indptr[t + 1])
        near = shares.indices[stretch][shares.data[stretch] >= overlap]
        cores.append(at[np.flatnonzero(part == t)].indices)
        halos.append(at[near[part[near] != t]].indices)
    widths = np.array([a.shape[0] + b.shape[0] for a, b in zip(cores, halos, strict=True)])
    batches = [
        _batch(pattern, match, [cores[t] for t in chosen], [halos[t] for t in chosen])
        for chosen in _of_similar_width(widths)
    ]
    return Patchwork(len(cores), tuple(batches))


def _matched_rows(pattern: Pattern) -> np.ndarray:
    """A row for every column (n,), with an entry where they meet."""
    structure = pattern.filled(np.ones(pattern.count))
    if np.count_nonzero(structure.diagonal()) == pattern.shape[1]:
        return np.arange(pattern.shape[1])
    match = maximum_bipartite_matching(structure, perm_type="row")
    if (match < 0).any():
        raise SingularSystemError(
            f"the sparse system of {pattern.shape[0]} conditions is singular: {int((match < 0).sum())} functions have "
            "no condition within their support to themselves. Enlarge the radius, or put the anchors on the points"
        )
    return match


def _partition(graph: sparse.csr_matrix, counts: np.ndarray, size: int) -> np.ndarray:
    """A patch for every site (sites,), of about `size` unknowns each; numbered without gaps."""
    wanted = -(-int(counts.sum()) // size)
    if wanted <= 1:
        return np.zeros(counts.shape[0], dtype=np.int64)
    try:
        import pymetis
    except ImportError:
        return _grown(graph, counts, size)
    bare = graph.copy()
    bare.setdiag(0)
    bare.eliminate_zeros()
    if not bare.nnz:
        return np.arange(counts.shape[0])
    found = pymetis.part_graph(wanted, xadj=bare.indptr, adjncy=bare.indices, vweights=counts.tolist())[1]
    return np.unique(np.asarray(found), return_inverse=True)[1]


def _grown(graph: sparse.csr_matrix, counts: np.ndarray, size: int) -> np.ndarray:
    """Without METIS: from any free site, neighbours and their neighbours are taken in until a patch is full."""
    part, number = np.full(counts.shape[0], -1), 0
    for seed in range(counts.shape[0]):
        if part[seed] >= 0:
            continue
        reached = np.array([seed])
        while True:
            ring = np.setdiff1d(graph[reached].indices, reached)
            ring = ring[part[ring] < 0]
            room = np.searchsorted(np.cumsum(counts[ring]), size - counts[reached].sum(), side="right")
            reached = np.concatenate([reached, ring[:room]])
            if not room or room < ring.shape[0]:
                break
        part[reached] = number
        number += 1
    return part


def _of_similar_width(widths: np.ndarray) -> list[np.ndarray]:
    """Patches whose matrices go into one array without much padding, and without it growing too large."""
    order, found, start = np.argsort(widths, kind="stable"), [], 0
    for stop in range(1, order.shape[0] + 1):
        width = widths[order[stop]] if stop < order.shape[0] else np.inf
        if width > 1.15 * widths[order[start]] + 4 or (stop + 1 - start) * width**2 > ENTRIES:
            found.append(order[start:stop])
            start = stop
    return found


def _batch(pattern: Pattern, match: np.ndarray, cores: list[np.ndarray], halos: list[np.ndarray]) -> Batch:
    n = pattern.shape[1]
    width = max(a.shape[0] + b.shape[0] for a, b in zip(cores, halos, strict=True))
    columns, own = np.full((len(cores), width), n), np.full((len(cores), max(a.shape[0] for a in cores)), n)
    local = np.full(n, -1)
    entries, places = [], []
    for b, (core, halo) in enumerate(zip(cores, halos, strict=True)):
        together = np.concatenate([core, halo])
        columns[b, : together.shape[0]] = together
        own[b, : core.shape[0]] = core
        local[together] = np.arange(together.shape[0])
        first = pattern.starts[match[together]].astype(np.int64)
        counts = pattern.starts[match[together] + 1] - first
        row = np.repeat(np.arange(together.shape[0]), counts)
        entry = np.arange(counts.sum()) + np.repeat(first - np.cumsum(counts) + counts, counts)
        column = local[pattern.columns[entry]]
        within = column >= 0
        entries.append(entry[within])
        places.append((b * width + row[within]) * width + column[within])
        local[together] = -1
    rows = np.append(match, n)[columns]
    gathered = (torch.from_numpy(a) for a in (rows, columns, own))
    return Batch(*gathered, np.concatenate(entries), np.concatenate(places))


class Schwarz:
    """The inverses of all patches: an approximate inverse of the whole, and of its transpose.

    For definite matrices every patch corrects all of its unknowns, which keeps the sum symmetric; otherwise only those
    of its own, which converges faster.
    """

    def __init__(self, patchwork: Patchwork, values: np.ndarray, definite: bool):
        self.count = patchwork.count
        self._parts = [
            (batch.rows, batch.columns if definite else batch.own, _inverses(batch, values, definite))
            for batch in patchwork.batches
        ]

    def __call__(self, r: np.ndarray, transposed: bool = False) -> np.ndarray:
        """(n, k) -> (n, k)."""
        given = torch.from_numpy(np.concatenate([r, np.zeros((1, r.shape[1]))]))  # nothing comes from unknown n,
        total = torch.zeros_like(given)
        for rows, columns, inverse in self._parts:  # (B, w), (B, c), (B, c, w)
            source, target = (columns, rows) if transposed else (rows, columns)
            found = torch.bmm(inverse.transpose(1, 2) if transposed else inverse, given[source])
            total.index_add_(0, target.reshape(-1), found.flatten(0, 1))
        return total[:-1].numpy()  # and what goes there is dropped


def _inverses(batch: Batch, values: np.ndarray, definite: bool) -> Tensor:
    """(B, w, w), or the rows (B, c, w) of a patch's own unknowns."""
    size, width = batch.columns.shape
    flat = np.zeros(size * width * width)
    flat[batch.places] = values[batch.entries]
    small = torch.from_numpy(flat).reshape(size, width, width)
    missing = batch.columns == values_end(batch)
    small.diagonal(dim1=1, dim2=2)[missing] = 1.0
    if definite:
        root, info = torch.linalg.cholesky_ex(small)
        if bool((info > 0).any()):
            raise _indefinite(int((info > 0).sum()))
        return torch.cholesky_inverse(root)
    inverse, info = torch.linalg.inv_ex(small)
    bad = (info > 0) | ~torch.isfinite(inverse).all(dim=2).all(dim=1)
    if bool(bad.any()):  # a singular patch is no reason to give up: the matrix may be regular
        inverse[bad] = torch.linalg.pinv(small[bad])
    return inverse[:, : batch.own.shape[1]].contiguous()
