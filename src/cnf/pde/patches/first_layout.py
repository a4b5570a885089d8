"""Layout of first order on a planar shape: as on boxes where patches are whole, fewer points and guides where not.

Equations of a system differ in how often they differentiate along the coordinates, a + p_x = 0 once and only along x:
each has as many points in a whole patch as its own orders leave of the functions, and `EXACT` of that in one that is
cut. What is tied across a seam is tied as on boxes: of the two conditions of a system one at the points of either side,
what is carried along at those of the patch that it flows into. A seam of a patch that is cut may be short beside its
frame, and polynomials are hardly told apart by few points on it: there, ties are fitted at more points (loose ties).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cnf.pde.patches.layout import Seam, gauss
from cnf.pde.patches.orders import Orders
from cnf.pde.patches.point_choice import chosen_inside
from cnf.pde.patches.shaped import Segment, Shaped
from cnf.pde.patches.shaped_layout import EXACT, Arc, ShapedLayout, guiding_points, long_runs

FITTED = 2  # points of loose ties along a seam, per degree
Parts = dict[tuple[int, str], list[tuple[np.ndarray, Segment]]]


def lay_out_first(shaped: Shaped, degree: tuple[int, ...], orders: Orders) -> ShapedLayout:
    """Points for equations of these orders, none above the first."""
    by_orders: dict[tuple[int, ...], tuple[np.ndarray, np.ndarray]] = {}
    for kind in dict.fromkeys(tuple(orders.counted(equation)) for equation in orders.equations):
        usual = [p + 1 - n for p, n in zip(degree, kind, strict=True)]
        full = usual[0] * usual[1]
        points = chosen_inside(shaped, [full if whole else round(EXACT * full) for whole in shaped.whole], usual)
        by_orders[kind] = np.concatenate(points), np.repeat(np.arange(len(points)), [len(own) for own in points])
    arcs = []
    for patch in range(shaped.cover.count):
        share = 1.0 if shaped.whole[patch] else EXACT
        for run, length in zip(*long_runs(shaped, patch), strict=True):
            count = max(1, round(share * length * max(degree)))
            arcs.append(Arc(run.curve, *run.at((gauss(count) + 1) / 2), patch))
    none, nobody = np.zeros((0, 2)), np.zeros(0, dtype=np.int64)
    return ShapedLayout(
        none,
        none,
        (nobody, nobody),
        tuple(arcs),
        _seams(shaped, degree, orders),
        {},
        None,
        *guiding_points(shaped, degree),
        by_orders=by_orders,
        guiding_seams=_guiding_seams(shaped, degree),
    )


def _seams(shaped: Shaped, degree: tuple[int, ...], orders: Orders) -> dict[tuple[int, str], Seam]:
    """Ties at points of the finer and of the coarser side; of what is carried, at those of the side downstream."""
    parts: Parts = {}
    for segment in shaped.segments:
        sides = [_points_of(shaped, segment, patch, degree) for patch in (segment.first, segment.second)]
        streams = [orders.stream(segment.axis, points) for points in sides]
        if streams[0] is not None and streams[1] is not None:
            points = np.concatenate([sides[1][streams[1] >= 0], sides[0][streams[0] < 0]])
            parts.setdefault((segment.axis, "fine"), []).append((points, segment))
            continue
        along = 1 - segment.axis
        width = [shaped.cover.upper[k, along] - shaped.cover.lower[k, along] for k in (segment.first, segment.second)]
        fine = int(width[1] < width[0] * (1 - 1e-9))
        parts.setdefault((segment.axis, "fine"), []).append((sides[fine], segment))
        parts.setdefault((segment.axis, "coarse"), []).append((sides[1 - fine], segment))
    return _joined(parts)


def _points_of(shaped: Shaped, segment: Segment, patch: int, degree: tuple[int, ...]) -> np.ndarray:
    """Points (P, 2) that a patch has on a segment: of its whole side, or, if it is cut, as many as that is long."""
    along, p = 1 - segment.axis, degree[1 - segment.axis]
    low, high = shaped.cover.lower[patch, along], shaped.cover.upper[patch, along]
    if not shaped.whole[patch]:
        return _on(segment, _spread(segment, max(1, round(p * min(1.0, (segment.high - segment.low) / (high - low))))))
    places = (low + high) / 2 + (high - low) / 2 * gauss(p)
    last = abs(segment.high - high) <= 1e-12 * (high - low)
    return _on(segment, places[(places >= segment.low) & ((places < segment.high) | last)])


def _guiding_seams(shaped: Shaped, degree: tuple[int, ...]) -> dict[tuple[int, str], Seam]:
    """Points along the seams of patches that are cut, denser than polynomials of that degree can vary between them."""
    parts: Parts = {}
    for segment in shaped.segments:
        if not (shaped.whole[segment.first] and shaped.whole[segment.second]):
            points = _on(segment, _spread(segment, FITTED * max(degree)))
            for kind in ("fine", "coarse"):
                parts.setdefault((segment.axis, kind), []).append((points, segment))
    return _joined(parts)


def _spread(segment: Segment, count: int) -> np.ndarray:
    """So many places along a segment."""
    return (segment.low + segment.high) / 2 + (segment.high - segment.low) / 2 * gauss(count)


def _on(segment: Segment, places: np.ndarray) -> np.ndarray:
    points = np.empty((len(places), 2))
    points[:, segment.axis], points[:, 1 - segment.axis] = segment.position, places
    return points


def _joined(parts: Parts) -> dict[tuple[int, str], Seam]:
    def owners(own: Sequence[tuple[np.ndarray, Segment]], name: str) -> np.ndarray:
        return np.concatenate([np.full(len(points), getattr(segment, name)) for points, segment in own])

    return {
        key: Seam(key[0], np.concatenate([points for points, _ in own]), owners(own, "first"), owners(own, "second"))
        for key, own in parts.items()
    }
