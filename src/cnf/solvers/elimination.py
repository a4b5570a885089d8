"""Symbolic elimination: what a sparse Cholesky factorisation needs to know before it sees a number.

In comes a `Pattern` of a symmetric matrix (its order of elimination is `Pattern.order`), out go its fronts: groups of
columns with the same rows below them, each to be factored as one dense block. Columns that sit at one point have the
same neighbours, so everything is worked out on the graph of points and spread over their columns at the end. Done once
per pattern; the numbers are the business of `cnf.solvers.multifrontal`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import spilu

from cnf.solvers.sparse_matrix import Pattern

# What a front costs, in seconds on one core of 2020s hardware. Only the ratios matter: they decide which fronts merge.
OVERHEAD = 7e-5  # for the calls of factorising and solving
PER_UPDATE = 2e-9  # for an entry of the update matrix, cleared and added to the parent
PER_STORED = 5e-9  # for an entry of the factor: room for it, and two reads in every solve
PER_FLOP = 1 / 25e9
EMPTY = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Front:
    """Pivots first:last (positions in the order of elimination) and the sorted positions `rows` (r,) below them."""

    first: int
    last: int
    rows: np.ndarray  # (r,)
    relative: np.ndarray  # (r,) where the rows sit in the parent's front, its pivots counted first
    shared: int  # how many of the rows are pivots of the parent
    children: tuple[int, ...]
    block: int  # where its (w, w) pivot block starts in the factor; the (r, w) block below follows it
    update: int  # where its (r, r) update matrix starts in the work space

    @property
    def width(self) -> int:
        return self.last - self.first

    @property
    def height(self) -> int:
        return int(self.rows.shape[0])


@dataclass(frozen=True, eq=False)
class Elimination:
    """Fronts, children before parents; the factor begins as zeros with factor[targets] = values[entries]."""

    order: np.ndarray  # (n,) the unknown at every position
    fronts: tuple[Front, ...]
    entries: np.ndarray  # (lower,) among the values of the pattern
    targets: np.ndarray  # (lower,) places in the factor
    size: int  # of the factor
    work: int  # size of the space for update matrices


@dataclass(frozen=True, eq=False)
class _Tree:
    """Groups of points that are eliminated together, children before parents; points by rank in the order."""

    pivots: list[np.ndarray]  # sorted ranks
    rows: list[np.ndarray]  # sorted ranks below
    parents: list[int]  # -1 for roots


def eliminate(pattern: Pattern) -> Elimination:
    """The fronts of a symmetric pattern (n, n)."""
    found = None if pattern.sites is None else _eliminated(pattern, pattern.sites)
    # Columns of a site may differ after all (functions with supports of their own): then each stands for itself.
    found = found or _eliminated(pattern, np.arange(pattern.shape[1]))
    assert found is not None
    return found


def _eliminated(pattern: Pattern, sites: np.ndarray) -> Elimination | None:
    """As `eliminate`; none if columns of one site have different neighbours."""
    order = pattern.order.columns
    if pattern.order.method == "minimum degree":
        order = _minimum_degree(pattern, sites)
    _, leaders, labels, sizes = np.unique(sites[order], return_index=True, return_inverse=True, return_counts=True)
    by_rank = np.argsort(leaders)  # sites in the order in which their first column is eliminated
    rank = np.empty_like(by_rank)
    rank[by_rank] = np.arange(by_rank.shape[0])
    members = order[np.argsort(rank[labels], kind="stable")]  # unknowns, site after site in that order
    weights = sizes[by_rank].astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(weights)])
    tree = _merged(_supernodes(_neighbours(pattern, members[starts[:-1]])), weights)
    return _laid_out(pattern, _postordered(tree, weights), members, starts)


def _minimum_degree(pattern: Pattern, sites: np.ndarray) -> np.ndarray:
    """Unknowns (n,) in an order for want of METIS: that of SuperLU, which has no call for it alone.

    An incomplete factorisation that keeps next to nothing tells its order at little cost.
    """
    _, leaders, labels = np.unique(sites, return_index=True, return_inverse=True)
    if not leaders.shape[0]:
        return leaders
    graph = pattern.filled(np.ones(pattern.count))[leaders][:, leaders]
    heavy = sparse.csc_matrix(graph + 2.0 * pattern.count * sparse.eye_array(leaders.shape[0]))
    place = spilu(heavy, drop_tol=1.0, fill_factor=1.0, permc_spec="MMD_AT_PLUS_A").perm_c
    return np.argsort(place[labels], kind="stable")


def _neighbours(pattern: Pattern, chosen: np.ndarray) -> sparse.csr_matrix:
    """Later neighbours of every site; row and column numbers are ranks. `chosen`: one column of every site."""
    graph = pattern.filled(np.ones(pattern.count, dtype=np.int8))[chosen][:, chosen]
    later = sparse.csr_matrix(sparse.triu(graph + graph.T, 1))
    later.sort_indices()
    return later


def _supernodes(later: sparse.csr_matrix) -> _Tree:
    """Points whose rows below are those of their predecessor without itself share a group."""
    n = later.shape[0]
    starts, columns = later.indptr.tolist(), later.indices.astype(np.int64)
    below: list[np.ndarray] = []  # of every point, as long as needed
    children: list[list[int]] = [[] for _ in range(n)]
    group = [0] * n
    tops: list[int] = []  # the last point of every group
    mark = np.full(n, -1, dtype=np.int64)
    for j in range(n):
        own = columns[starts[j] : starts[j + 1]]
        rows = own
        joined = False
        if children[j]:
            largest = max(children[j], key=lambda k: len(below[k]))
            rows = below[largest][1:]
            mark[rows] = j
            more = []
            for other in [own] + [below[k][1:] for k in children[j] if k != largest]:
                fresh = other[mark[other] != j]
                if fresh.shape[0]:
                    mark[fresh] = j
                    more.append(fresh)
            if more:
                rows = np.sort(np.concatenate([rows, *more]))
            else:
                joined = True
                group[j] = group[largest]
                tops[group[j]] = j
                below[largest] = rows[:0]
        if not joined:
            group[j] = len(tops)
            tops.append(j)
        below.append(rows)
        if rows.shape[0]:
            children[int(rows[0])].append(j)
    # Groups are numbered by their first points, but a parent must come after its children: number by the last.
    by_top = np.argsort(tops)
    number = np.empty_like(by_top)
    number[by_top] = np.arange(by_top.shape[0])
    label = number[np.asarray(group, dtype=np.int64)]
    pivots = np.split(np.argsort(label, kind="stable"), np.cumsum(np.bincount(label))[:-1]) if n else []
    rows_of = [below[tops[k]] for k in by_top]
    return _Tree(pivots, rows_of, [int(label[rows[0]]) if rows.shape[0] else -1 for rows in rows_of])


def _cost(width: float, height: float) -> float:
    """Seconds for factoring a front and solving with it."""
    flops = width**3 / 3 + width**2 * height + width * height**2
    return OVERHEAD + PER_FLOP * flops + PER_UPDATE * height**2 + PER_STORED * width * (width + height)


def _merged(tree: _Tree, weights: np.ndarray) -> _Tree:
    """Children joined to their parents where the zeros this stores cost less than another front."""
    count = len(tree.pivots)
    widths = [int(weights[p].sum()) for p in tree.pivots]
    heights = [int(weights[r].sum()) for r in tree.rows]
    children: list[list[int]] = [[] for _ in range(count)]
    parts = [[k] for k in range(count)]
    gone = [False] * count
    for k in range(count):  # its children are what they will be; now it may swallow them
        waiting = sorted(children[k], key=lambda c: widths[k] + heights[k] - heights[c])
        for child in waiting:
            together = _cost(widths[k] + widths[child], heights[k])
            if together < _cost(widths[k], heights[k]) + _cost(widths[child], heights[child]):
                widths[k] += widths[child]
                parts[k] += parts[child]
                gone[child] = True
        if tree.parents[k] >= 0:
            children[tree.parents[k]].append(k)
    kept = [k for k in range(count) if not gone[k]]
    owner = np.zeros(count, dtype=np.int64)
    for number, k in enumerate(kept):
        owner[parts[k]] = number
    return _Tree(
        [np.sort(np.concatenate([tree.pivots[part] for part in parts[k]])) for k in kept],
        [tree.rows[k] for k in kept],
        [int(owner[tree.parents[k]]) if tree.parents[k] >= 0 else -1 for k in kept],
    )


def _postordered(tree: _Tree, weights: np.ndarray) -> _Tree:
    """Every subtree in one piece, the one that needs most room first, so that few update matrices wait at a time."""
    count = len(tree.pivots)
    updates = [int(weights[rows].sum()) ** 2 for rows in tree.rows]
    children: list[list[int]] = [[] for _ in range(count)]
    room = [0] * count
    for k in range(count):
        children[k].sort(key=lambda c: updates[c] - room[c])
        waiting = 0
        for child in children[k]:
            room[k] = max(room[k], waiting + room[child])
            waiting += updates[child]
        room[k] = max(room[k], waiting + updates[k])
        if tree.parents[k] >= 0:
            children[tree.parents[k]].append(k)
    order: list[int] = []
    stack = [k for k in range(count) if tree.parents[k] < 0]
    while stack:  # parents before children, then reversed
        k = stack.pop()
        order.append(k)
        stack += children[k]
    order.reverse()
    number = {k: place for place, k in enumerate(order)}
    number[-1] = -1
    return _Tree(
        [tree.pivots[k] for k in order], [tree.rows[k] for k in order], [number[tree.parents[k]] for k in order]
    )


def _laid_out(pattern: Pattern, tree: _Tree, members: np.ndarray, starts: np.ndarray) -> Elimination | None:
    """Fronts of unknowns. `members` (n,) lists the unknowns of rank 0, 1, ..., which begin at `starts`."""
    n = members.shape[0]
    weights = np.diff(starts)
    ranks = np.concatenate([EMPTY, *tree.pivots])
    order = members[_spread(ranks, starts[:-1], weights)]
    begins = np.empty_like(weights)  # position of the first unknown of every rank
    begins[ranks] = np.cumsum(weights[ranks]) - weights[ranks]
    # Rows below are ancestors in the tree, whose ranks and positions ascend together: sorted they are already.
    rows = [_spread(below, begins, weights) for below in tree.rows]
    widths = [int(weights[pivots].sum()) for pivots in tree.pivots]
    lasts = np.cumsum(widths, dtype=np.int64).tolist()

    children: list[list[int]] = [[] for _ in widths]
    for k, parent in enumerate(tree.parents):
        if parent >= 0:
            children[parent].append(k)
    places, work = _placed([r.shape[0] ** 2 for r in rows], children)

    position = np.empty(n, dtype=np.int64)
    position[order] = np.arange(n)
    local = np.full(n, -1, dtype=np.int64)  # place of a position in the front at hand
    relative = [EMPTY] * len(widths)
    blocks, entries, targets = [], [], []
    size = 0
    for k, (width, last) in enumerate(zip(widths, lasts, strict=True)):
        height = rows[k].shape[0]
        local[last - width : last] = np.arange(width)
        local[rows[k]] = np.arange(width, width + height)
        for child in children[k]:
            relative[child] = local[rows[child]]
        entry, column, row = _lower_entries(pattern, order[last - width : last], position, last - width)
        row = local[row]
        if (row < 0).any():
            return None
        inside = row < width
        target = np.where(inside, column * width + row, width * width + column * height + row - width)
        entries.append(entry)
        targets.append(target + size)
        blocks.append(size)
        size += width * (width + height)
        local[last - width : last] = -1
        local[rows[k]] = -1
    fronts = tuple(
        Front(
            lasts[k] - widths[k],
            lasts[k],
            rows[k],
            relative[k],
            int(np.searchsorted(relative[k], widths[parent])) if parent >= 0 else 0,
            tuple(children[k]),
            blocks[k],
            places[k],
        )
        for k, parent in enumerate(tree.parents)
    )
    return Elimination(order, fronts, _packed(entries, pattern.count), _packed(targets, size), size, work)


def _packed(parts: list[np.ndarray], bound: int) -> np.ndarray:
    """The parts one after the other, in 32 bits where numbers below the bound allow."""
    return np.concatenate(
        [EMPTY, *parts], dtype=np.int32 if bound <= np.iinfo(np.int32).max else np.int64, casting="same_kind"
    )


def _spread(ranks: np.ndarray, begins: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """begins[rank], begins[rank] + 1, ..., as many as the rank weighs, for one rank after the other."""
    sizes = weights[ranks]
    ends = np.cumsum(sizes)
    return np.repeat(begins[ranks] - (ends - sizes), sizes) + np.arange(ends[-1] if ends.shape[0] else 0)


def _lower_entries(
    pattern: Pattern, unknowns: np.ndarray, position: np.ndarray, first: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers of the entries on and below the diagonal in the columns of `unknowns`, with column (from 0) and row.

    The matrix is symmetric, so a column is read from the row of the same unknown, where its entries are in one piece.
    """
    begins = pattern.starts[unknowns].astype(np.int64)
    sizes = pattern.starts[unknowns + 1].astype(np.int64) - begins
    ends = np.cumsum(sizes)
    entry = np.repeat(begins - (ends - sizes), sizes) + np.arange(ends[-1])
    column = np.repeat(np.arange(unknowns.shape[0], dtype=np.int64), sizes)
    row = position[pattern.columns[entry]]
    kept = row >= column + first
    return entry[kept], column[kept], row[kept]


def _placed(sizes: list[int], children: list[list[int]]) -> tuple[list[int], int]:
    """Places in one work space, such that a front's children are there until its own update matrix is complete."""
    free: list[tuple[int, int]] = []  # gaps (begin, end), sorted
    places, end = [], 0
    for k, size in enumerate(sizes):
        for index, (begin, stop) in enumerate(free):
            if stop - begin >= size:
                free[index] = (begin + size, stop)
                places.append(begin)
                break
        else:
            if free and free[-1][1] == end:
                end = free.pop()[0]
            places.append(end)
            end += size
        gaps = sorted(free + [(places[c], places[c] + sizes[c]) for c in children[k]])
        free = []
        for begin, stop in gaps:
            if free and free[-1][1] == begin:
                free[-1] = (free[-1][0], stop)
            elif stop > begin:
                free.append((begin, stop))
    return places, end
