"""Clouds, given normals that point the wrong way: patches, and single points, against their surroundings.

In come points (P, D) with unit normals; out go the numbers of those that look flipped. Where points of two sheets are
as close as those of one, signs of neighbours alone cannot tell a patch from a side. So what they suggest must hold
twice: a patch is reported if the winding number, too, fits no worse once it is turned over, a few points if their
surroundings agree among themselves.
"""

from __future__ import annotations

import numpy as np

from cnf.shapes.clouds.links import Links, link_neighbours
from cnf.shapes.clouds.orientation import carry_signs, follow_winding
from cnf.shapes.clouds.sheets import measure_sheets
from cnf.shapes.clouds.spacing import measure_spacing

NEIGHBOURS = 16
CLEAR = 0.5  # how one-sided the votes around a patch must be to call it flipped: 0 is undecided, 1 is unanimous
FEW = 8  # points: fewer add too little to the winding number elsewhere
UNITED = 0.3  # minus their mean normal times the mean of the normals around: 1 if all of those agree, against these
FITTING = 0.2  # how, turned over, they follow the winding number of all others, on average; 1 in a plane, -1 wrong
RARE = 2e-4  # share of the points: no more single ones than that, and one, are tips of true surfaces rather than flips
SOME = 0.25  # of the single ones suspected: if that many are sure, there is no telling the others apart
WORSE = 0.05  # what turning a patch may cost, of its share of the area: what random points leave open


def find_flipped(points: np.ndarray, normals: np.ndarray, neighbours: int = NEIGHBOURS) -> np.ndarray:
    """Numbers of the points, ascending, whose normals point against the rest of their connected part.

    Signs are carried along the surest pairs of neighbours, across the rims of flipped patches, and the minority is
    reported: a patch with all of its points. A patch whose rim agrees with its surroundings after all (an unsure link
    on the way) is left out, and in space what the winding number contradicts. The two sides of a thin sheet are told
    apart down to 3/4 of the mean distance of points. Normals that all point inward are no flips: see `points_outward`.

    >>> points = np.random.default_rng(0).normal(size=(300, 3))
    >>> points /= np.linalg.norm(points, axis=1, keepdims=True)  # on the unit sphere
    >>> normals = points.copy()
    >>> cap = points[:, 2] > 0.7
    >>> normals[cap] *= -1
    >>> cnf.shapes.find_flipped(points, normals).tolist() == np.flatnonzero(cap).tolist()
    True
    """
    every = link_neighbours(points, normals, neighbours)
    links = every.choose(every.sure)
    parts = links.join(np.ones(len(links.first), dtype=bool))
    signs = carry_signs(links.spanning_tree(), links.agreement_of, parts)
    balance = np.bincount(parts, weights=signs)
    minority = signs * np.where(balance >= 0, 1, -1)[parts] < 0
    if not minority.any():
        return np.empty(0, dtype=np.int64)
    # Rim votes: all pairs between a candidate patch and the rest, not only those in the tree.
    across = minority[links.first] != minority[links.second]
    labels = links.join(~across)
    rim = links.choose(across)
    votes, voters = np.zeros((2, labels.max() + 1))
    for ends in (rim.first, rim.second):
        votes += np.bincount(labels[ends], weights=rim.agreement, minlength=len(votes))
        voters += np.bincount(labels[ends], weights=np.abs(rim.agreement), minlength=len(votes))
    suspect = np.where(minority & (votes < -CLEAR * voters)[labels], labels, -1)  # (P,), number of the patch
    if points.shape[1] == 3 and (suspect >= 0).any():
        suspect = _confirm(points, normals, every, suspect)
    return np.flatnonzero(suspect >= 0)


def _confirm(points: np.ndarray, normals: np.ndarray, links: Links, suspect: np.ndarray) -> np.ndarray:
    """The suspected patches (P,), -1 for none, without those that have another reason."""
    spacing = measure_spacing(points, np.where((suspect >= 0)[:, None], -normals, normals))
    names, patch, sizes = np.unique(suspect, return_inverse=True, return_counts=True)
    kept = names >= 0
    few = kept & (sizes < FEW)
    if few.any():
        rows = np.flatnonzero(few[patch])
        # Turned over with all that are suspected, for in a small patch each seems right beside the others.
        turned = np.where((suspect >= 0)[:, None], -normals, normals)
        fits = np.bincount(patch[rows], weights=follow_winding(points, turned, spacing, rows), minlength=len(names))
        sure = few & (_measure_unity(normals, links, patch, len(names)) > UNITED) & (fits > FITTING * sizes)
        if sizes[sure].sum() <= 1 + RARE * len(points):
            kept &= ~few
        elif sizes[sure].sum() < SOME * sizes[few].sum():  # else all are reported
            kept &= ~few | sure
    large = np.flatnonzero(kept & ~few)
    if len(large):
        # All that is on no patch is one more sheet: places are needed there too.
        number = np.full(len(names), len(large))
        number[large] = np.arange(len(large))
        sheets = measure_sheets(points, normals, spacing, number[patch], len(large) + 1)
        now = np.ones(len(sheets.slope))
        inward = -1.0 if sheets.slope.sum() < 0 else 1.0  # all normals the other way round are no flips
        gain = sheets.gains(now * inward)[: len(large)]
        share = np.bincount(number[patch], weights=spacing.areas)[: len(large)] / spacing.areas.sum()
        kept[large[gain > WORSE * share]] = False
    return np.where(kept[patch], suspect, -1)


def _measure_unity(normals: np.ndarray, links: Links, patch: np.ndarray, count: int) -> np.ndarray:
    """How far the normals around each patch agree among themselves, against those of the patch (count,)."""
    around, pairs = np.zeros((count, normals.shape[1])), np.zeros(count)
    for ours, theirs in ((links.first, links.second), (links.second, links.first)):
        rim = patch[ours] != patch[theirs]
        np.add.at(around, patch[ours[rim]], normals[theirs[rim]])
        np.add.at(pairs, patch[ours[rim]], 1)
    own = np.zeros_like(around)
    np.add.at(own, patch, normals)
    return -(own * around).sum(axis=1) / np.maximum(pairs * np.bincount(patch, minlength=count), 1)
