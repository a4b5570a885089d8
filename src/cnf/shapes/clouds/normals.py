"""Clouds, normals from points: estimated by principal components, oriented along a spanning tree, checked for flips.

In come points (P, D), D = 2 or 3; out go unit normals (P, D), or the numbers of the points whose normals disagree with
their surroundings. All steps are vectorised over points; neighbours come from a k-d tree in chunks of bounded memory.

Which sign fits between two neighbours? On a circle through both points with normal n_i at the first, the normal at the
second is n_i reflected in the plane halfway between them. So the agreement of a pair is

    a_ij = n_i . n_j - 2 (d . n_i)(d . n_j),     d the unit vector from i to j,

which is +1 on every sphere, near +1 on smooth surfaces and across creases of any angle, and +1 also between the two
opposite sides of a thin sheet (d parallel to both normals), where n_i . n_j = -1 would suggest a flip.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree
from scipy.spatial import cKDTree

from cnf.errors import ConstraintError

CHUNK = 1 << 16  # points whose neighbours are held at once
UNSURE = 0.5  # agreement below which a pair says nothing about signs
CLEAR = 0.5  # how one-sided the votes around a patch must be to call it flipped: 0 is undecided, 1 is unanimous


def estimate_normals(points: np.ndarray, neighbours: int = 12, at: np.ndarray | None = None) -> np.ndarray:
    """Unit normals (P, D) of either sign: the direction in which a point and its `neighbours` spread least.

    `at` are numbers of points, if normals are wanted at some only.
    """
    return fit_planes(points, neighbours, at)[0]


def fit_planes(points: np.ndarray, neighbours: int = 12, at: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The same normals (P, D), and how thick the points are across the plane (P,): 0 in a plane, 1 as much as along it.

    Variance across the plane over the least along it. Where it is not small the points go around an edge or a limb, or
    lie on both sides of a sheet, and the plane says nothing about a normal.
    """
    count, dimension = points.shape
    neighbours = check_neighbours(points, neighbours)
    tree = cKDTree(points)
    rows = np.arange(count) if at is None else np.asarray(at)
    normals, thickness = np.empty((len(rows), dimension)), np.empty(len(rows))
    for start in range(0, len(rows), CHUNK):
        part = slice(start, start + CHUNK)
        _, near = tree.query(points[rows[part]], k=neighbours + 1)
        spread = points[near] - points[near].mean(axis=1, keepdims=True)  # (p, k, D)
        spread /= np.maximum(np.abs(spread).max(axis=(1, 2), keepdims=True), np.finfo(float).tiny)
        variance, axes = np.linalg.eigh(np.einsum("pki,pkj->pij", spread, spread))
        normals[part] = axes[:, :, 0]
        thickness[part] = variance[:, 0].clip(0) / np.maximum(variance[:, 1], np.finfo(float).tiny)
    return normals, thickness


def orient_normals(points: np.ndarray, normals: np.ndarray, neighbours: int = 12) -> np.ndarray:
    """The same normals (P, D) with consistent signs, outward.

    Signs are carried along the spanning tree of the surest pairs of neighbours. Every connected part is then turned as
    a whole, so that the flow of its normals is outward; parts that enclose nothing turn away from the middle of all.
    """
    graph = link_neighbours(points, normals, neighbours)
    _, parts = connected_components(graph.pattern, directed=False)
    signs = carry_signs(graph.spanning_tree(), graph.agreement_of, parts)
    turned = normals * signs[:, None]
    return turned * outward_signs(points, turned, parts)[:, None]


def find_flipped(points: np.ndarray, normals: np.ndarray, neighbours: int = 16) -> np.ndarray:
    """Numbers of the points, ascending, whose normals point against the rest of their connected part.

    Signs are carried along the surest pairs of neighbours, across the rims of flipped patches, and the minority is
    reported: a patch with all of its points. A patch whose rim agrees with its surroundings after all (an unsure link
    on the way) is left out. The two sides of a thin sheet are told apart down to 3/4 of the mean distance of points.
    Normals that all point inward are no flips: see `points_outward`.
    """
    graph = link_neighbours(points, normals, neighbours).without_unsure()
    _, parts = connected_components(graph.pattern, directed=False)
    signs = carry_signs(graph.spanning_tree(), graph.agreement_of, parts)
    balance = np.bincount(parts, weights=signs)
    minority = signs * np.where(balance >= 0, 1, -1)[parts] < 0
    if not minority.any():
        return np.empty(0, dtype=np.int64)
    # Rim votes: all pairs between a candidate patch and the rest, not only those in the tree.
    first, second, agreement = graph.first, graph.second, graph.agreement
    within = minority[first] == minority[second]
    shape = (len(points), len(points))
    inner = coo_matrix((np.ones(within.sum(), bool), (first[within], second[within])), shape=shape)
    patches, labels = connected_components(inner, directed=False)
    votes, voters = np.zeros((2, patches))
    for ends in (first[~within], second[~within]):
        votes += np.bincount(labels[ends], weights=agreement[~within], minlength=patches)
        voters += np.bincount(labels[ends], weights=np.abs(agreement[~within]), minlength=patches)
    return np.flatnonzero(minority & (votes < -CLEAR * voters)[labels])


def points_outward(points: np.ndarray, normals: np.ndarray) -> bool | None:
    """Whether normals point out of the shape as a whole; None if the points enclose too little to tell."""
    flow = flows(points, normals, np.zeros(len(points), dtype=np.int64))[0]
    return None if abs(flow) < 0.05 else bool(flow > 0)


def check_neighbours(points: np.ndarray, neighbours: int) -> int:
    """How many neighbours there can be."""
    if points.ndim != 2 or points.shape[1] not in (2, 3):
        raise ConstraintError(f"points are one row each, (P, 3) or (P, 2), got shape {points.shape}")
    if neighbours < points.shape[1]:
        raise ConstraintError(f"normals need at least {points.shape[1]} neighbours, got {neighbours}")
    if len(points) <= points.shape[1]:
        raise ConstraintError(f"normals need more than {points.shape[1]} points, got {len(points)}")
    return min(neighbours, len(points) - 1)


class Links:
    """Pairs of neighbours, each once: numbers `first` < `second` (E,), and how well their normals agree, in [-1, 1]."""

    def __init__(self, first: np.ndarray, second: np.ndarray, agreement: np.ndarray, count: int):
        self.first, self.second, self.agreement, self.count = first, second, agreement, count

    @property
    def pattern(self) -> coo_matrix:
        """(P, P), an entry per pair."""
        entries = np.ones(len(self.first), dtype=bool)
        return coo_matrix((entries, (self.first, self.second)), shape=(self.count, self.count))

    def without_unsure(self) -> Links:
        """The pairs that say something about signs."""
        sure = np.abs(self.agreement) >= UNSURE
        return Links(self.first[sure], self.second[sure], self.agreement[sure], self.count)

    def spanning_tree(self) -> csr_matrix:
        """Of the surest pairs, (P, P); entries are small where the pair is sure, never zero."""
        cost = 1 - np.abs(self.agreement) + 1e-9
        return minimum_spanning_tree(coo_matrix((cost, (self.first, self.second)), shape=(self.count, self.count)))

    def agreement_of(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Agreement of given pairs, which must be among these."""
        keys = self.first * self.count + self.second  # ascending
        wanted = np.minimum(first, second) * self.count + np.maximum(first, second)
        return self.agreement[np.searchsorted(keys, wanted)]


def link_neighbours(points: np.ndarray, normals: np.ndarray, neighbours: int) -> Links:
    """Every point linked with its nearest `neighbours`."""
    neighbours = check_neighbours(points, neighbours)
    tree = cKDTree(points)
    count = len(points)
    keys = []
    for start in range(0, count, CHUNK):
        rows = np.arange(start, min(start + CHUNK, count))
        _, near = tree.query(points[rows], k=neighbours + 1)
        first, second = np.repeat(rows, neighbours + 1), near.ravel()
        keys.append(np.minimum(first, second) * count + np.maximum(first, second))
    pairs = np.sort(np.concatenate(keys))
    pairs = pairs[np.diff(pairs, prepend=-1) != 0]  # what np.unique does, which hashes and is ten times slower
    first, second = pairs // count, pairs % count
    first, second = first[first != second], second[first != second]
    agreement = np.empty(len(first))
    for start in range(0, len(first), 16 * CHUNK):
        part = slice(start, start + 16 * CHUNK)
        a, b = normals[first[part]], normals[second[part]]
        step = points[second[part]] - points[first[part]]
        length = (step * step).sum(axis=1)
        crossed = (step * a).sum(axis=1) * (step * b).sum(axis=1)
        agreement[part] = (a * b).sum(axis=1) - 2 * np.divide(
            crossed, length, out=np.zeros_like(length), where=length > 0
        )
    return Links(first, second, np.clip(agreement, -1, 1), count)


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
