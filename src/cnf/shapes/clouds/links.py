"""Clouds, pairs of neighbours: how well the normals of each pair agree, and how well a point is supported by its pairs.

In come points (P, D), D = 2 or 3, with unit normals (P, D); out go `Links`. Neighbours come from a k-d tree in chunks
of bounded memory.

Which sign fits between two neighbours? On a circle through both points with normal n_i at the first, the normal at the
second is n_i reflected in the plane halfway between them. So the agreement of a pair is

    a_ij = n_i . n_j - 2 (d . n_i)(d . n_j),     d the unit vector from i to j,

which is +1 on every sphere, near +1 on smooth surfaces and across creases of any angle, and +1 also between the two
opposite sides of a thin sheet (d parallel to both normals), where n_i . n_j = -1 would suggest a flip.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from scipy.spatial import cKDTree

from cnf.shapes.clouds.estimation import check_neighbours

CHUNK = 1 << 16  # points whose neighbours are held at once
UNSURE = 0.5  # agreement below which a pair says nothing about signs
SMOOTH, LOW = 0.85, 0.3  # cosine of normals, and elevation, of a pair on one smooth sheet
NEIGHBOURS = 12  # of a point whose normal is in question
BORNE = 0.26  # support below which a normal is doubtful
ABOVE = 0.35  # elevation over a point's plane at which a neighbour speaks for it with e^-1


@dataclass(frozen=True, eq=False)
class Links:
    """Pairs of neighbours, each once: numbers `first` < `second` (E,), and how well their normals agree."""

    first: np.ndarray
    second: np.ndarray
    agreement: np.ndarray  # (E,), in [-1, 1]: see above
    cosine: np.ndarray  # (E,), n_i . n_j
    rise: np.ndarray  # (2, E), |d . n_i| and |d . n_j|: how far each is from the tangent plane of the other
    count: int  # P

    def join(self, chosen: np.ndarray) -> np.ndarray:
        """Which part each point is in (P,), if the chosen pairs (E,) bool hold together."""
        pairs = (self.first[chosen], self.second[chosen])
        graph = coo_matrix((np.ones(len(pairs[0]), dtype=bool), pairs), shape=(self.count, self.count))
        return connected_components(graph, directed=False)[1]

    def choose(self, chosen: np.ndarray) -> Links:
        """The chosen pairs (E,) bool."""
        first, second, agreement, cosine = (
            row[chosen] for row in (self.first, self.second, self.agreement, self.cosine)
        )
        return Links(first, second, agreement, cosine, self.rise[:, chosen], self.count)

    @property
    def sure(self) -> np.ndarray:
        """The pairs that say something about signs (E,) bool."""
        return np.abs(self.agreement) >= UNSURE

    @property
    def smooth(self) -> np.ndarray:
        """The pairs on one smooth sheet, with one sign (E,) bool."""
        return (self.cosine > SMOOTH) & (self.rise.max(axis=0, initial=0) < LOW)

    @property
    def support(self) -> np.ndarray:
        """The share of its pairs that speak for the direction of each normal (P,), 0 to 1, whatever the signs.

        They do if they are near its plane and have the normal that follows from it: on a plane or a sphere all do, on
        a thin sheet half, at an edge or where the normal is wrong few.
        """
        agreeing = self.agreement**4
        total, pairs = np.zeros((2, self.count))
        for ends, rise in zip((self.first, self.second), self.rise, strict=True):
            total += np.bincount(ends, weights=agreeing * np.exp(-((rise / ABOVE) ** 2)), minlength=self.count)
            pairs += np.bincount(ends, minlength=self.count)
        return total / np.maximum(pairs, 1)

    def spanning_tree(self) -> csr_matrix:
        """Of the surest pairs, (P, P); entries are small where the pair is sure, never zero."""
        cost = 1 - np.abs(self.agreement) + 1e-9
        return minimum_spanning_tree(coo_matrix((cost, (self.first, self.second)), shape=(self.count, self.count)))

    def agreement_of(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Agreement of given pairs, which must be among these."""
        keys = self.first * self.count + self.second  # ascending
        wanted = np.minimum(first, second) * self.count + np.maximum(first, second)
        return self.agreement[np.searchsorted(keys, wanted)]

    def turn(self, signs: np.ndarray) -> Links:
        """The same pairs after the normals were multiplied by signs (P,)."""
        both = signs[self.first] * signs[self.second]
        return Links(self.first, self.second, both * self.agreement, both * self.cosine, self.rise, self.count)


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
    cosine, rise = np.empty(len(first)), np.empty((2, len(first)))
    for start in range(0, len(first), 16 * CHUNK):
        part = slice(start, start + 16 * CHUNK)
        a, b = normals[first[part]], normals[second[part]]
        step = points[second[part]] - points[first[part]]
        length = np.sqrt((step * step).sum(axis=1))
        step /= np.where(length > 0, length, 1)[:, None]
        cosine[part] = (a * b).sum(axis=1)
        rise[0, part], rise[1, part] = (step * a).sum(axis=1), (step * b).sum(axis=1)
    agreement = np.clip(cosine - 2 * rise[0] * rise[1], -1, 1)
    return Links(first, second, agreement, cosine, np.abs(rise), count)


def find_doubtful(points: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """Numbers of the points, ascending, whose estimated normals their surroundings do not bear.

    At sharp edges and tips, and where sheets are as close as points, a fit may take points of two sides for one. In the
    plane there are none.
    """
    if points.shape[1] == 2:
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(link_neighbours(points, normals, NEIGHBOURS).support < BORNE)
