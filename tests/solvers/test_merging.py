"""Merging: cells are divided where few ties cross, so that few ties are outstanding at every merge."""

from __future__ import annotations

import numpy as np

from cnf.solvers.merging import merging_order


def outstanding(order: list[tuple[int, int]], cells: int, pairs: np.ndarray, ties: np.ndarray) -> list[float]:
    """How many ties reach beyond every merge, from the sets of cells that the order makes."""
    parts = [{k} for k in range(cells)]
    for first, second in order:
        assert not parts[first] & parts[second]
        parts.append(parts[first] | parts[second])
    assert parts[-1] == set(range(cells)) and len(order) == cells - 1
    inside = [[(a in part) + (b in part) for a, b in pairs.tolist()] for part in parts[cells:]]
    return [float(ties[np.array(own) == 1].sum()) for own in inside]


def test_divided_where_few_ties_cross():
    """Two rows of cells, 3 and 5 long, joined by one weak tie: the last merge is that of the two rows, 3 : 5.

    By number it would be 4 : 4, with a strong tie across.
    """
    centres = np.arange(8.0)[:, None]
    pairs = np.stack([np.arange(7), np.arange(1, 8)], axis=1)
    ties = np.where(np.arange(7) == 2, 1.0, 10.0)
    order = merging_order(centres, pairs, ties)
    assert outstanding(order, 8, pairs, ties)[-1] == 0
    first, second = order[-1]
    parts = [{k} for k in range(8)]
    for a, b in order:
        parts.append(parts[a] | parts[b])
    assert sorted(map(len, (parts[first], parts[second]))) == [3, 5]


def test_straight_cuts_beside_smaller_cells():
    """A square of 4 x 4 cells, of which the lower left quarter has 4 x 4 itself.

    The inner sides of that quarter have 4 ties each: no merge leaves more than these 8 open.
    """
    corners = [(x, y, 1.0) for x in range(4) for y in range(4) if x >= 2 or y >= 2]
    corners += [(x / 2, y / 2, 0.5) for x in range(4) for y in range(4)]
    low = np.array(corners)[:, :2]
    high = low + np.array(corners)[:, 2:]
    pairs = [
        (i, j)
        for i in range(len(low))
        for j in range(i)
        if (np.minimum(high[i], high[j]) - np.maximum(low[i], low[j]) >= 0).all()
        and (np.minimum(high[i], high[j]) - np.maximum(low[i], low[j])).max() > 0
    ]
    order = merging_order((low + high) / 2, np.array(pairs), np.ones(len(pairs)))
    assert max(outstanding(order, len(low), np.array(pairs), np.ones(len(pairs)))) <= 8


def test_slab_after_slab():
    """Cells at three times: what is merged first is the first slab, then the whole second one joins, then the third."""
    centres = np.array([(x, t) for t in (2.0, 0.0, 1.0) for x in (0.0, 1.0)])
    pairs = np.array([(0, 1), (2, 3), (4, 5), (2, 4), (3, 5), (4, 0), (5, 1)])
    assert merging_order(centres, pairs, np.ones(7), time=1) == [(2, 3), (4, 5), (6, 7), (0, 1), (8, 9)]


def test_parts_that_nothing_ties():
    """Single cells and cells without any ties."""
    none = np.zeros((0, 2), dtype=np.int64)
    assert merging_order(np.zeros((1, 2)), none, np.zeros(0)) == []
    assert len(merging_order(np.random.default_rng(0).random((5, 2)), none, np.zeros(0))) == 4
