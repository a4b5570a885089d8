"""Clouds, signs of normals: carried between neighbours along a spanning tree, then held against the winding number.

In come points (P, D), D = 2 or 3, with unit normals (P, D) of any sign; out go the same normals, pointing outward.

A tree carries a sign over hundreds of pairs, and one wrong pair, at a crease or a joint, turns over all beyond it. So
in space the signs of the smooth sheets of the surface are then chosen again, such that the winding number on the
surface is 1/2 (`sheets`). Points on no sheet follow the winding number of all others: its gradient at a point is
against the normal there.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order
from scipy.spatial import cKDTree

from cnf.shapes.clouds.links import Links, link_neighbours
from cnf.shapes.clouds.sheets import SOFT, Sheets, measure_sheets
from cnf.shapes.clouds.spacing import Spacing, measure_spacing
from cnf.shapes.clouds.winding import WindingNumber

NEIGHBOURS = 12
FIRM = 0.35  # support of a point that holds a sheet together
SMALLEST, MOST = 20, 300  # points of a sheet; sheets that are looked at, the largest ones
CLEAR = 1e-4  # of the energy, 1/4 if nothing is enclosed: what a turn must gain
TURNS, ROUNDS = 1000, 2


def orient_normals(points: np.ndarray, normals: np.ndarray, neighbours: int = NEIGHBOURS) -> np.ndarray:
    """The same normals (P, D) with consistent signs, outward.

    Signs are carried along the spanning tree of the surest pairs of neighbours. Every connected part is then turned as
    a whole, so that the flow of its normals is outward; parts that enclose nothing turn away from the middle of all. In
    space, what the winding number contradicts is put right.

    >>> points = np.random.default_rng(0).normal(size=(300, 3))
    >>> points /= np.linalg.norm(points, axis=1, keepdims=True)  # on the unit sphere
    >>> mixed = points * np.where(np.arange(300) % 2, 1, -1)[:, None]
    >>> bool(np.allclose(cnf.shapes.orient_normals(points, mixed), points))
    True
    """
    links = link_neighbours(points, normals, neighbours)
    parts = links.join(np.ones(len(links.first), dtype=bool))
    signs = carry_signs(links.spanning_tree(), links.agreement_of, parts)
    signs = signs * outward_signs(points, normals * signs[:, None], parts)
    if points.shape[1] == 3:
        signs = settle_signs(points, normals, signs, links)
    return normals * signs[:, None]


def settle_signs(points: np.ndarray, normals: np.ndarray, signs: np.ndarray, links: Links) -> np.ndarray:
    """The signs (P,) of normals (P, 3), turned over where that fits the winding number better."""
    turned, links = normals * signs[:, None], links.turn(signs)
    firm = links.support >= FIRM
    sheet = links.join(links.smooth & firm[links.first] & firm[links.second])
    sizes = np.bincount(sheet)
    large = np.argsort(-sizes, kind="stable")[:MOST]
    large = large[sizes[large] >= SMALLEST]
    if not len(large):
        return signs
    number = np.full(len(sizes), len(large))
    number[large] = np.arange(len(large))
    sheet = number[sheet]
    spacing = measure_spacing(points, turned)
    chosen = choose_signs(measure_sheets(points, turned, spacing, sheet, len(large)))
    loose, held = np.flatnonzero(sheet == len(large)), np.flatnonzero(sheet < len(large))
    signs = signs * chosen[sheet]
    if not len(loose):
        return signs
    signs[loose] *= chosen[sheet[held[cKDTree(points[held]).query(points[loose])[1]]]]  # as the sheet they hung on
    for _ in range(ROUNDS):
        against = follow_winding(points, normals * signs[:, None], spacing, loose) < 0
        signs[loose[against]] *= -1
    return signs


def choose_signs(sheets: Sheets) -> np.ndarray:
    """Signs (K + 1,) of least energy, from all +1 on by turning one sheet or two at a time, the best first."""
    signs = np.ones(len(sheets.slope))
    for _ in range(TURNS):
        gain = sheets.gains(signs)
        gain[-1] = 0  # what is on no sheet stays
        both = gain[:, None] + gain + 8 * sheets.square * np.outer(signs, signs)
        both[-1], both[:, -1] = gain, gain
        np.fill_diagonal(both, gain)
        k, j = np.unravel_index(np.argmin(both), both.shape)
        if both[k, j] > -CLEAR:
            break
        turned = np.setdiff1d([k, j], [len(signs) - 1])
        signs[turned] *= -1
    return signs


def follow_winding(points: np.ndarray, normals: np.ndarray, spacing: Spacing, rows: np.ndarray) -> np.ndarray:
    """How the normals of some points follow the others' winding number (rows,): 1 in a plane, -1 for a flipped one."""
    width = SOFT * spacing.widths
    slope = -WindingNumber(points, normals, spacing.areas, width).slopes(points[rows])[:, 1:]
    own = spacing.areas[rows] / (4 * np.pi * width[rows] ** 3)  # what a point adds at its own place
    return 2 * width[rows] * ((slope * normals[rows]).sum(axis=1) - own)


def points_outward(points: np.ndarray, normals: np.ndarray) -> bool | None:
    """Whether normals point out of the shape as a whole; None if the points enclose too little to tell.

    >>> points = np.random.default_rng(0).normal(size=(300, 3))
    >>> points /= np.linalg.norm(points, axis=1, keepdims=True)  # on the unit sphere
    >>> cnf.shapes.points_outward(points, points), cnf.shapes.points_outward(points, -points)
    (True, False)
    """
    flow = flows(points, normals, np.zeros(len(points), dtype=np.int64))[0]
    return None if abs(flow) < 0.05 else bool(flow > 0)


def carry_signs(tree: csr_matrix, agreement_of, parts: np.ndarray) -> np.ndarray:
    """Signs (P,) relative to one point of each part, multiplied along the paths of a spanning tree.

    Paths are long (hundreds of links), so signs are doubled up instead of walked: each round, a point takes the sign of
    the point it hangs on and hangs on that one's support, which halves every path.
    """
    count = len(parts)
    roots = np.unique(parts, return_index=True)[1]
    above = np.arange(count)
    # One extra node above all roots makes the forest a tree that a single search can walk.
    links = tree.tocoo()
    rows = np.concatenate([links.row, np.full(len(roots), count)])
    columns = np.concatenate([links.col, roots])
    joined = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(count + 1, count + 1))
    before = breadth_first_order(joined, count, directed=False)[1][:count]
    hanging = np.flatnonzero(before != count)
    above[hanging] = before[hanging]
    signs = np.ones(count)
    signs[hanging] = np.where(agreement_of(hanging, above[hanging]) >= 0, 1.0, -1.0)
    while True:
        higher = above[above]
        if (higher == above).all():
            return signs
        signs = signs * np.where(above == np.arange(count), 1.0, signs[above])
        above = higher


def flows(points: np.ndarray, normals: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """Flow of x - centre through each part, relative to the most there could be, (parts,) in [-1, 1].

    By the divergence theorem it is D times the enclosed volume, whatever the shape; the area of a point is taken from
    the distance to its neighbours.
    """
    dimension = points.shape[1]
    distance, _ = cKDTree(points).query(points, k=min(7, len(points)))
    weights = distance[:, -1] ** (dimension - 1)
    total = np.maximum(np.bincount(parts, weights=weights), np.finfo(float).tiny)
    centres = np.stack([np.bincount(parts, weights=weights * x) / total for x in points.T], axis=1)
    arms = points - centres[parts]
    flow = np.bincount(parts, weights=weights * (arms * normals).sum(axis=1))
    most = np.bincount(parts, weights=weights * np.sqrt((arms * arms).sum(axis=1)))
    return np.divide(flow, most, out=np.zeros_like(flow), where=most > 0)


def outward_signs(points: np.ndarray, normals: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """The sign (P,), one per part, that turns its normals outward."""
    flow = flows(points, normals, parts)
    arms = points - points.mean(axis=0)
    leaning = np.bincount(parts, weights=(arms * normals).sum(axis=1))
    chosen = np.where(np.abs(flow) >= 0.05, flow, leaning)
    return np.where(chosen >= 0, 1.0, -1.0)[parts]
