"""The surface of a cloud on disk, part by part: what a worker sees of it is its part, a margin, and far moments.

In come the cloud, the balls of all patches and the boxes of the parts; out goes, for one part at a time, the field that
`PartedSurface` has there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from cnf.certificate.certificate import Certificate
from cnf.shapes.clouds.preparation import Prepared
from cnf.shapes.clouds.spacing import Spacing
from cnf.shapes.reconstruction.band import Grid
from cnf.shapes.reconstruction.conditions import BLEND, solve_surface
from cnf.shapes.reconstruction.measuring import attributes_at
from cnf.shapes.reconstruction.parts import NEARBY, NEAREST, Own
from cnf.shapes.reconstruction.surface import REACH, Guide, Surface
from cnf.shapes.tiles.cloud import TiledCloud
from cnf.shapes.tiles.covering import BallIndex
from cnf.shapes.tiles.cutting import Boxes, rows_in_cells
from cnf.threads import one_thread_each


@dataclass(frozen=True, eq=False)
class TiledSurface:
    """Everything here is small, or on disk; `frame`: a cloud without points, in its scale."""

    cloud: TiledCloud
    grid: Grid
    boxes: Boxes
    balls: BallIndex
    closed: float | None
    support: float
    ranges: np.ndarray
    frame: Prepared
    grid_nodes: int  # along the longest side of the cloud
    certificates: dict[int, Certificate] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:  # nothing that was solved is sent
        return {name: value for name, value in self.__dict__.items() if name != "_last"} | {"certificates": {}}

    @cached_property
    def _last(self) -> dict[int, tuple[Surface, Prepared]]:
        return {}

    def corners(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        return self.boxes.lower[number], self.boxes.upper[number]

    def own(self, number: int) -> Own:
        rows, points, normals, _ = rows_in_cells(self.cloud, self.grid, *self.corners(number), "normals")
        return Own(points, normals, np.ones(len(rows), dtype=bool), rows)

    def solve(self, number: int) -> Surface:
        """The surface of one part; that of the part before is forgotten."""
        self._last.clear()
        self.certificates.clear()
        low, high = (self.grid.place(corner) for corner in self.corners(number))
        balls = self.balls.near_box(low, high, REACH * self.support)
        reach = balls.radii[:, None]
        found = self.cloud.region(
            (balls.centres - reach).min(axis=0, initial=np.inf),
            (balls.centres + reach).max(axis=0, initial=-np.inf),
            *("normals", "values"),
        )
        held = np.zeros(len(found[0]), dtype=bool)
        held[balls.meetings(found[1])[1]] = True
        _, points, normals, values = (part[held] for part in found)
        guide, around = self._look_around(low, high)
        means = None
        if self.cloud.names:
            means = self.cloud.local_mean("values", points, NEAREST * float(guide.spacing.widths.max(initial=0.0)))
        cloud = self._prepare(points, normals, values)
        with one_thread_each():
            solution = solve_surface(cloud, "exact", replace(BLEND, balls=balls), self.support, 0.0, means)
        self.certificates[number] = solution.certificate.settled()
        surface = Surface(solution, cloud.points, cloud.normals, self.support, given=guide)
        self._last[number] = surface, around
        return surface

    def _look_around(self, low: np.ndarray, high: np.ndarray) -> tuple[Guide, Prepared]:
        """The guide of a part: it holds the nearest points of all places that the field is asked at there."""
        margin = NEARBY * self.support
        widths = self.cloud.region(low - margin, high + margin, "widths")[2]
        margin += NEAREST * float(widths.max(initial=0.0))  # where points are few, others lie farther away
        names = ("areas", "widths", "means" if self.closed is None else "levels", "normals", "values")
        _, points, areas, widths, levels, normals, values = self.cloud.region(low - margin, high + margin, *names)
        guide = Guide(Spacing(points, areas, widths), self.cloud.open_winding(), levels, self.closed)
        return guide, self._prepare(points, normals, values)

    def _prepare(self, points: np.ndarray, normals: np.ndarray, values: np.ndarray) -> Prepared:
        values, attributes, start = values.reshape(len(points), -1), {}, 0
        for name, width in self.cloud.names:
            attributes[name] = values[:, start : start + width]
            start += width
        return replace(self.frame, points=points, normals=normals, attributes=attributes)

    def attributes_near(self, local: Surface, vertices: np.ndarray) -> dict[str, np.ndarray]:
        ((_, around),) = self._last.values()
        return attributes_at(local, around, vertices, self.ranges)
