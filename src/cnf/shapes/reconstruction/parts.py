"""A large cloud cut into parts that are solved, and meshed, one after the other: memory for one of them at a time.

In come a prepared cloud and the grid that its surface is extracted on; out go `Part`s, boxes of cells with about as
many points in each, and a `PartedSurface`, which is the field of whichever part a place lies in. The balls of all
patches are laid out once, for the whole cloud; a part solves those that its box meets, each for all points in it. So
the field is that of the whole cloud, wherever it was cut; inside from outside is told by all points everywhere
(`Guide`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from cnf.certificate.certificate import Certificate, Residual
from cnf.certificate.findings import Findings
from cnf.errors import CnfError
from cnf.shapes.clouds.preparation import Prepared
from cnf.shapes.clouds.spacing import Spacing
from cnf.shapes.reconstruction.band import Grid
from cnf.shapes.reconstruction.conditions import BLEND, solve_surface
from cnf.shapes.reconstruction.measuring import attributes_at
from cnf.shapes.reconstruction.surface import REACH, Guide, Surface, local_mean, rows_in_box
from cnf.solution import Solution
from cnf.solvers.balls import Balls
from cnf.systems.cover import cover_points
from cnf.threads import one_thread_each

NEARBY = 2.5  # supports around a part, farther than the surface is followed: the points there are all it has to know
NEAREST = 6.0  # spacings, within which the points that are averaged around a point lie
PART, LEAST_PART = 50_000, 1000  # points of a part, about (a cloud of more than twice as many is cut), and at least


@dataclass(frozen=True, eq=False)
class Part:
    """Cells of the grid from `lower` up to, not including, `upper`, both (3,), and the points in them, `rows` (n,)."""

    lower: np.ndarray
    upper: np.ndarray
    rows: np.ndarray


def cut_into_parts(cells: np.ndarray, shape: tuple[int, int, int], most: int, within: Part | None = None) -> list[Part]:
    """Boxes that fill a grid of this shape, with at most `most` of the points in `cells` (P, 3), so far as cells allow.

    Each is halved across the side along which its points reach farthest. `within`: they fill this box alone.
    """
    whole = Part(np.zeros(3, dtype=np.int64), np.array(shape, dtype=np.int64) - 1, np.arange(len(cells)))
    waiting = [within or whole]
    found = []
    while waiting:
        part = waiting.pop()
        own = cells[part.rows]
        cut = _halve(own) if len(own) > most else None
        if cut is None:
            found.append(part)
            continue
        axis, plane = cut
        below = own[:, axis] < plane
        middle = np.arange(3) == axis
        lower, upper = np.where(middle, plane, part.lower), np.where(middle, plane, part.upper)
        waiting += [Part(lower, part.upper, part.rows[~below]), Part(part.lower, upper, part.rows[below])]
    return found


def _halve(cells: np.ndarray) -> tuple[int, int] | None:
    """An axis, and a layer with about half of the cells (n, 3) below it; None if all are one cell."""
    for axis in np.argsort(-np.ptp(cells, axis=0)):
        middle = int(np.median(cells[:, axis]))
        for plane in (middle + 1, middle):
            below = cells[:, axis] < plane
            if below.any() and not below.all():
                return int(axis), plane
    return None


@dataclass(frozen=True, eq=False)
class Own:
    """The points in the cells of a part, with normals, which of these are conditions, and their numbers."""

    points: np.ndarray
    normals: np.ndarray
    trusted: np.ndarray
    rows: np.ndarray


class Divided(Protocol):
    """A surface whose field is solved part by part, wherever its points are."""

    @property
    def grid(self) -> Grid: ...

    @property
    def certificates(self) -> dict[int, Certificate]:
        """Of the parts that were solved."""
        ...

    def corners(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Cells of a part: from the first up to, not including, the second, both (3,)."""
        ...

    def own(self, number: int) -> Own:
        """The points in a part."""
        ...

    def solve(self, number: int) -> Surface:
        """The surface of one part."""
        ...

    def attributes_near(self, local: Surface, vertices: np.ndarray) -> dict[str, np.ndarray]:
        """Attributes at places of the part that was solved last."""
        ...


@dataclass(frozen=True, eq=False)
class PartedSurface:
    """The surface of a cloud whose field is solved part by part: as `Surface`, but no single solution is behind it.

    A query solves the parts that it falls into anew, all but the one that was asked last.
    """

    cloud: Prepared
    grid: Grid
    parts: Sequence[Part]
    guide: Guide
    balls: Balls  # of the patches of the whole cloud
    support: float
    counted: list[int] = field(default_factory=lambda: [0])
    certificates: dict[int, Certificate] = field(default_factory=dict)  # of the parts that were solved

    @property
    def points(self) -> np.ndarray:
        return self.cloud.points

    @property
    def normals(self) -> np.ndarray:
        return self.cloud.normals

    @property
    def spacing(self) -> Spacing:
        return self.guide.spacing

    @property
    def solution(self) -> Solution:
        """There is none."""
        raise CnfError(
            f"the field of {len(self.cloud)} points is solved in {len(self.parts)} parts, and no single solution holds "
            "it: ask surface.values or surface.slopes, or give fewer points, or a larger `part`"
        )

    @cached_property
    def _last(self) -> dict[int, Surface]:
        return {}

    def corners(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        part = self.parts[number]
        return part.lower, part.upper

    def own(self, number: int) -> Own:
        rows = self.parts[number].rows
        return Own(self.points[rows], self.normals[rows], self.cloud.trusted[rows], rows)

    def attributes_near(self, local: Surface, vertices: np.ndarray) -> dict[str, np.ndarray]:
        return attributes_at(local, self.cloud, vertices)

    def solve(self, number: int) -> Surface:
        """The surface of one part."""
        if number not in self._last:
            self._last.clear()  # before the next one is solved: there is room for one
            rows, balls = self._around(self.parts[number])
            cloud = take_points(self.cloud, rows)
            method = replace(BLEND, balls=balls)
            with one_thread_each():
                solution = solve_surface(cloud, "exact", method, self.support, 0.0, self._means(cloud))
            self.certificates[number] = solution.certificate.settled()
            near = self._look_around(self.parts[number])
            self._last[number] = Surface(solution, cloud.points, cloud.normals, self.support, given=near)
        return self._last[number]

    def _look_around(self, part: Part) -> Guide:
        """The guide of a part: it holds the nearest points of all places that the field is asked at there."""
        low, high = (self.grid.place(side) for side in (part.lower, part.upper))
        margin = NEARBY * self.support
        widest = self.spacing.widths[rows_in_box(self.points, low - margin, high + margin)].max(initial=0.0)
        margin += NEAREST * widest  # where points are few, those that are averaged lie farther away
        return self.guide.near(low - margin, high + margin)

    def _around(self, part: Part) -> tuple[np.ndarray, Balls]:
        """The balls that speak in a part, and the numbers of all points in them."""
        low, high = self.grid.place(part.lower), self.grid.place(part.upper)
        balls = self.balls.near_box(low, high, REACH * self.support)
        low = (balls.centres - balls.radii[:, None]).min(axis=0, initial=np.inf)
        high = (balls.centres + balls.radii[:, None]).max(axis=0, initial=-np.inf)
        rows = rows_in_box(self.cloud.points, low, high)
        held = np.zeros(len(rows), dtype=bool)
        held[balls.meetings(self.cloud.points[rows])[1]] = True
        return rows[held], balls

    def _means(self, cloud: Prepared) -> np.ndarray | None:
        """The local means of the attributes at some of the points (n, 3), over all points: (n, k)."""
        if not cloud.attributes:
            return None
        every = np.concatenate([*self.cloud.attributes.values()], axis=1)
        return local_mean(self.spacing.tree, every, cloud.points)

    def values(self, x: np.ndarray) -> np.ndarray:
        """(P, 3) -> (P,): negative inside, positive outside."""
        return self._ask(x, 1, lambda surface, own: surface.values(own)[:, None])[:, 0]

    def slopes(self, x: np.ndarray) -> np.ndarray:
        """(P, 3) -> (P, 4): value and gradient together."""
        return self._ask(x, 4, lambda surface, own: surface.slopes(own))

    def attributes(self, x: np.ndarray) -> np.ndarray:
        """The other channels, (P, C - 1)."""
        width = sum(values.shape[1] for values in self.cloud.attributes.values())
        return self._ask(x, width, lambda surface, own: surface.attributes(own))

    def _ask(self, x: np.ndarray, width: int, look: Callable[[Surface, np.ndarray], np.ndarray]) -> np.ndarray:
        cells = np.floor((x - self.grid.origin) / self.grid.step).clip(0, np.array(self.grid.shape) - 2)
        found = np.empty((len(x), width))
        for number, part in enumerate(self.parts):
            own = np.flatnonzero(np.all((cells >= part.lower) & (cells < part.upper), axis=1))
            if len(own):
                found[own] = look(self.solve(number), x[own])
        return found

    @property
    def certificate(self) -> Certificate:
        """Of all parts that were solved together: the worst of each kind of condition.

        Conditions near a seam are in several parts, and count once.
        """
        parts = [self.certificates[number] for number in sorted(self.certificates)]
        if not parts:
            raise CnfError("no part of this surface was solved yet: ask it for values first")
        each = 1 + sum(values.shape[1] for values in self.cloud.attributes.values()) + 3 * self.cloud.trusted  # (P,)
        once = int(each.sum())
        open_yet = sum(
            int(each[p.rows].sum()) for number, p in enumerate(self.parts) if number not in self.certificates
        )
        lost = sum(part.conditions - part.rank for part in parts)
        unseen = sum(part.conditions - part.measured for part in parts)
        joined = join_certificates(parts)
        return replace(
            joined,
            conditions=once,
            functions=once,
            measured=max(0, once - unseen - open_yet),  # what was not solved was not measured
            findings=Findings(max(0, once - lost), joined.condition, joined.conflicts),
        )


def lay_balls(guide: Guide) -> Balls:
    """Those of the patches of a whole cloud."""
    points = guide.spacing.points
    points = points[np.lexsort(points.T[::-1])]  # as the conditions of a cloud in one piece are sorted
    return cover_points(points, BLEND.size, BLEND.overlap, BLEND.follow_density, guide.spacing.tree)


def take_points(cloud: Prepared, rows: np.ndarray) -> Prepared:
    """The cloud with some of its points, in the same scale."""
    return replace(
        cloud,
        points=cloud.points[rows],
        normals=cloud.normals[rows],
        attributes={name: values[rows] for name, values in cloud.attributes.items()},
        rows=cloud.rows[rows],
        flipped=np.flatnonzero(np.isin(rows, cloud.flipped)),
        doubtful=np.flatnonzero(np.isin(rows, cloud.doubtful)),
    )


def join_certificates(parts: Sequence[Certificate]) -> Certificate:
    """One certificate for fields that each meet their own conditions: none is better than the worst of them."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    names = dict.fromkeys(name for part in parts for name in part.residuals)
    worst = {name: [part.residuals[name] for part in parts if name in part.residuals] for name in names}
    return replace(
        first,
        residuals={
            name: Residual(_largest([r.absolute for r in found]), _largest([r.relative for r in found]))
            for name, found in worst.items()
        },
        tolerance=min(part.tolerance for part in parts),
        conditions=sum(part.conditions for part in parts),
        functions=sum(part.functions for part in parts),
        measured=sum(part.measured for part in parts),
        weight_norm=float(np.sqrt(sum(part.weight_norm**2 for part in parts))),
        data_size=float(np.mean([part.data_size for part in parts])),
        seconds=sum(part.seconds for part in parts),
        solver=f"{len(parts)} parts, each by {first.solver}",
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        unmeasured={name: why for part in parts for name, why in part.unmeasured.items()},
        hint=next((part.hint for part in parts if part.violated and part.hint), first.hint),
        findings=Findings(
            sum(part.rank for part in parts),
            _largest([part.condition for part in parts]),
            tuple(conflict for part in parts for conflict in part.conflicts),
        ),
    )


def _largest(numbers: Sequence[float]) -> float:
    """NaN if any is: what was not measured is not small."""
    return float(np.max(numbers))
