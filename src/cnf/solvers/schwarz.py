"""Overlapping patches of unknowns, each inverted exactly: an approximate inverse of a sparse matrix.

In come a pattern and values on it; out goes a map close to the inverse, made of batched products of small dense
matrices. Patches come from the graph of the pattern, are worked out once and kept while it stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.csgraph import maximum_bipartite_matching
from torch import Tensor

from cnf.errors import SingularSystemError
from cnf.solvers.sparse_matrix import Pattern

ENTRIES = 2**23  # of small matrices inverted at once
HOPELESS = 1e15  # condition from which on a patch counts as singular


@dataclass(frozen=True, eq=False)
class Batch:
    """B patches of up to w unknowns, those of the patch itself first, then its neighbours; n stands for none.

    `entries` of the matrix go to `places` of the flat (B, w, w) array; `rows` are matched with `columns` one to one.
    """

    unknowns: int  # n
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
    adjacency = pymetis.CSRAdjacency(bare.indptr, bare.indices)
    found = pymetis.part_graph(wanted, adjacency, vweights=counts.tolist())[1]
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
    rows_of, columns_of, owned = (torch.from_numpy(a) for a in (rows, columns, own))
    return Batch(n, rows_of, columns_of, owned, np.concatenate(entries), np.concatenate(places))


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
    missing = batch.columns == batch.unknowns
    small.diagonal(dim1=1, dim2=2)[missing] = 1.0
    if definite:
        root, info = torch.linalg.cholesky_ex(small)
    else:
        inverse, info = torch.linalg.inv_ex(small)
    if bool((info > 0).any()):
        raise _singular(int((info > 0).sum()), definite)
    if definite:
        inverse = torch.cholesky_inverse(root)
    conditions = small.abs().sum(dim=1).amax(dim=1) * inverse.abs().sum(dim=1).amax(dim=1)
    if not bool((conditions < HOPELESS).all()):
        raise _singular(int((~(conditions < HOPELESS)).sum()), definite)
    return inverse if definite else inverse[:, : batch.own.shape[1]].contiguous()


def _singular(count: int, definite: bool) -> SingularSystemError:
    what = "not numerically positive definite" if definite else "numerically singular"
    return SingularSystemError(
        f"{count} patches of the matrix are {what}: conditions are nearly dependent (duplicate points?), or the kernel "
        "is too wide for the spacing of the points. Remove duplicates, reduce the radius, or choose Auto"
    )
