"""Outline: the boundary of a planar domain, and of its regions, cut where it passes from one cell to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from cnf.bases.cells import Cells
from cnf.pde.domains import Domain
from cnf.pde.domains.boundary import Arrays, Curve, Inside
from cnf.pde.domains.regions import Regions

STEP = 1e-12  # of the domain, inward from the boundary: which cell a boundary on a cut belongs to
MEETING = 1e-6  # of the domain: how far apart curves may end that meet in a corner of combined shapes
HALVINGS = 60
ALONG = np.linspace(0.0, 1.0, 17)  # where runs are looked at


@dataclass(frozen=True)
class Run:
    """The part of a curve from `start` to `end` (arc lengths) that lies in one cell.

    `interface` is the number of the interface that the curve belongs to, -1 for the outer boundary.
    """

    curve: Curve
    start: float
    end: float
    cell: int
    interface: int = -1

    @property
    def length(self) -> float:
        return self.end - self.start

    def at(self, share: np.ndarray) -> Arrays:
        """Points and normals of the curve at shares (S,) of the run."""
        return self.curve.at(self.start + self.length * share)

    def turning(self) -> float:
        """By how much the normal turns, in radians."""
        _, normals = self.at(0.999 * ALONG + 0.0005)  # not on corners, where there are two
        step = (normals[1:] * normals[:-1]).sum(axis=1)
        return float(np.arccos(np.clip(step, -1, 1)).sum())


def curves_of(domain: Domain) -> list[Curve]:
    """The smooth pieces of the boundary."""
    return [piece for piece in domain._pieces if isinstance(piece, Curve)]


@dataclass(frozen=True)
class Area:
    """What has patches of its own, the domain or a region of it: what is inside, and its outline in runs."""

    inside: Inside
    runs: list[Run]


def areas_of(domain: Domain, cells: Cells, regions: Regions | None = None) -> list[Area]:
    """The domain, or its regions in the order of their numbers, with runs of one cell each, in order along curves."""
    step = STEP * max(b - a for a, b in zip(domain.lower, domain.upper, strict=True))
    if regions is None:
        runs = [run for curve in curves_of(domain) for run in _runs_along(curve, cells.locate, cells, step)]
        return [Area(domain._inside, runs)]
    found: list[list[Run]] = [[] for _ in regions.names]

    def locate(points: np.ndarray) -> np.ndarray:
        """Cell and region in one number: the boundary is cut where it passes from region to region, too."""
        return cells.locate(points) + cells.count * regions.number(points)

    for curve in curves_of(domain):
        for run in _runs_along(curve, locate, cells, step, regions.breaks(curve)):
            found[run.cell // cells.count].append(replace(run, cell=run.cell % cells.count))
    for number, interface in enumerate(regions.interfaces):
        for curve in (piece for piece in interface.pieces if isinstance(piece, Curve)):
            for region, sign in ((interface.first, 1.0), (interface.second, -1.0)):
                runs = _runs_along(curve, cells.locate, cells, sign * step)
                found[region] += [replace(run, interface=number) for run in runs]
    return [Area(partial(regions.inside, k), runs) for k, runs in enumerate(found)]


def _runs_along(
    curve: Curve,
    locate: Callable[[np.ndarray], np.ndarray],
    cells: Cells,
    inward: float,
    breaks: Sequence[float] | np.ndarray = (),
) -> list[Run]:
    """Arcs, cut at `breaks`, are halved until each lies in one cell, by the points a small step `inward` of it."""
    step = abs(inward)
    ends = np.unique(np.concatenate([np.linspace(curve.start, curve.end, 33), breaks]))
    low, high = ends[:-1], ends[1:]
    settled: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for _ in range(HALVINGS):
        arc = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, 5)  # (n, 5)
        points, normals = curve.at(arc.ravel())
        inner = points - inward * normals
        cell = locate(inner).reshape(-1, 5)
        around = points.reshape(-1, 5, 2)
        bulge = np.abs(around[:, 2] - (around[:, 0] + around[:, 4]) / 2)  # beyond the points looked at
        low_box, high_box = around.min(axis=1) - bulge - 2 * step, around.max(axis=1) + bulge + 2 * step
        one = (cell == cell[:, :1]).all(axis=1)
        own = cell[:, 2]
        slack = 4 * step
        low_cell, high_cell = cells.lower[own % cells.count], cells.upper[own % cells.count]
        one &= ((low_box >= low_cell - slack - bulge) & (high_box <= high_cell + slack + bulge)).all(1)
        done = one | (high - low <= step)
        settled.append((low[done], high[done], own[done]))
        low, high = low[~done], high[~done]
        if not len(low):
            break
        middle = (low + high) / 2
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
    start, end, cell = (np.concatenate([part[k] for part in settled]) for k in range(3))
    order = np.argsort(start, kind="stable")
    return _merged(curve, start[order], end[order], cell[order], step)


def _merged(curve: Curve, start: np.ndarray, end: np.ndarray, cell: np.ndarray, step: float) -> list[Run]:
    """Neighbouring arcs of one cell as one; arcs too short to tell go to their neighbours."""
    kept = end - start > 2 * step
    start, end, cell = start[kept], end[kept], cell[kept]
    new = np.flatnonzero(np.concatenate([[True], cell[1:] != cell[:-1]]))
    first = start[new]
    last = np.append(first[1:], curve.end)
    first[0] = curve.start
    runs = [Run(curve, float(a), float(b), int(c)) for a, b, c in zip(first, last, cell[new], strict=True)]
    if curve.closed and len(runs) > 1 and runs[0].cell == runs[-1].cell:  # one run across the origin
        whole = curve.end - curve.start
        runs = [*runs[1:-1], Run(curve, runs[-1].start, runs[0].end + whole, runs[0].cell)]
    return runs


def continued(runs: Sequence[Run]) -> list[Run]:
    """Runs that go on where others of the same curve end, as one."""
    found: list[Run] = []
    order = {id(curve): k for k, curve in reversed(list(enumerate(run.curve for run in runs)))}  # as they come
    for run in sorted(runs, key=lambda r: (order[id(r.curve)], r.start)):
        last = found[-1] if found else None
        if last is not None and last.curve is run.curve and abs(run.start - last.end) <= 1e-9 * run.curve.knots[-1]:
            found[-1] = replace(last, end=run.end)
        else:
            found.append(run)
    return found


def walls(runs: Sequence[Run], inside: Inside, size: float) -> bool:
    """Whether runs of a cell that do not meet have the outside between them, or are too many to tell."""
    points = [run.at(ALONG)[0] for run in runs]
    apart = 0
    for k, a in enumerate(points):
        for b in points[k + 1 :]:
            distance = np.abs(a[:, None] - b).max(axis=2)
            i, j = np.unravel_index(distance.argmin(), distance.shape)
            if distance[i, j] > MEETING * size:
                apart += 1
                if not inside((a[i] + b[j])[None] / 2)[0]:
                    return True
    return apart > 1
