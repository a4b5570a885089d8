"""The balls of a cloud on disk: as `cover_points` lays them, some at a time; where they are is found by an index.

In comes a `TiledCloud`; out go columns of centres, radii and stretches in chunks of neighbours, and a `BallIndex`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree

from cnf.execution import Executor
from cnf.shapes.clouds.winding import bounds_at, divide, tree_depth
from cnf.shapes.reconstruction.conditions import BLEND
from cnf.shapes.tiles.cloud import TiledCloud
from cnf.shapes.tiles.columns import Column
from cnf.shapes.tiles.folder import Folder, keep, load
from cnf.shapes.tiles.halving import Portion, halve_table
from cnf.solvers.balls import Balls
from cnf.systems.cover import CROWDED, ROUNDS, choose_radii, cut_at_gap, halve_points, measure_leaves, stretch_of

CHUNK = 1024  # balls that are looked at together
Report = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class BallIndex:
    """Balls on disk, and boxes around the centres of every chunk of them."""

    folder: str
    bounds: np.ndarray  # (chunks + 1,)
    low: np.ndarray  # (chunks, 3)
    high: np.ndarray
    largest: np.ndarray  # (chunks,), radius

    def column(self, name: str) -> Column:
        return Column(f"{self.folder}/{name}.balls", int(self.bounds[-1]), 3 if name == "centres" else 0)

    def near_box(self, lower: np.ndarray, upper: np.ndarray, reach: float) -> Balls:
        """As `Balls.near_box` of all balls."""
        away = np.linalg.norm(np.maximum(np.maximum(lower - self.high, self.low - upper), 0), axis=1)
        meeting = np.flatnonzero(away <= reach + self.largest)
        if not len(meeting):
            return self._read(meeting)
        own = self._read(meeting)
        apart = np.linalg.norm(np.maximum(np.maximum(lower - own.centres, own.centres - upper), 0), axis=1)
        largest = own.radii[apart <= reach + own.radii].max(initial=0.0)
        return self._read(np.flatnonzero(away <= reach + largest)).near_box(lower, upper, reach)

    def _read(self, chunks: np.ndarray) -> Balls:
        parts = [
            [self.column(name).read(int(self.bounds[k]), int(self.bounds[k + 1])) for k in chunks]
            for name in ("centres", "radii", "stretch")
        ]
        none = (np.zeros((0, 3)), np.zeros(0), np.zeros(0))
        return Balls(*(np.concatenate(part) if part else empty for part, empty in zip(parts, none, strict=True)))


def lay_balls(cloud: TiledCloud, most: int, folder: Folder, executor: Executor, report: Report) -> BallIndex:
    """The balls of all patches, unless a run before laid them; at most so many points are sorted at once."""
    path = str(folder.path)
    kept = folder.note("cover portions")
    if kept is None:
        scratch = folder.path / "cover rows"
        scratch.mkdir(exist_ok=True)
        portions, _ = halve_table(cloud.column("points"), scratch, most, lambda *given: given[3] // 2)
        kept = {"portions": [[folder.shorten(p.rows.path), p.rows.count] for p in portions]}
        folder.note("cover portions", kept)
    tables = [Portion(0, 0, 0, Column(folder.find(name), count, 3)) for name, count in kept["portions"]]
    folder.run("cover", CoverPortion(tuple(tables), path), range(len(tables)), executor, report)
    if folder.note("balls") is None:
        _lay(cloud, len(tables), folder, executor, report)
        folder.note("balls", {})
    found = load(folder.path / "balls.npz")
    return BallIndex(path, found["bounds"], found["low"], found["high"], found["largest"])


@dataclass(frozen=True)
class CoverPortion:
    """The work: parts of few points each, of those in a portion."""

    portions: tuple[Portion, ...]
    folder: str

    def __call__(self, number: int) -> None:
        rows = self.portions[number].rows
        points = rows.read(0, rows.count)
        points = points[np.lexsort(points.T[::-1])]  # as the conditions of a cloud in one piece are sorted
        leaves = halve_points(points, [np.arange(len(points))], BLEND.size)
        centres, reach = measure_leaves(points, leaves)
        keep(
            Path(self.folder) / "cover" / f"{number}.npz",
            {
                **{"centres": centres, "reach": reach, "counts": np.array([len(leaf) for leaf in leaves])},
                "points": points[np.concatenate(leaves)],
            },
        )


def _lay(cloud: TiledCloud, portions: int, folder: Folder, executor: Executor, report: Report) -> None:
    parts = [
        {name: found[name] for name in ("centres", "reach", "counts")}
        for found in folder.pieces("cover", range(portions))
    ]
    centres, reach, counts = (np.concatenate([part[name] for part in parts]) for name in ("centres", "reach", "counts"))
    portion = np.repeat(np.arange(portions), [len(part["counts"]) for part in parts])
    starts = np.concatenate([np.cumsum(part["counts"]) - part["counts"] for part in parts])
    del parts
    own: dict[int, np.ndarray] = {}  # points of parts that were cut
    held, measured = np.zeros(len(counts), dtype=np.int64), np.full(len(counts), np.nan)  # the radius of that
    for turn in range(ROUNDS):
        radii = choose_radii(centres, reach, BLEND.overlap, BLEND.follow_density)
        changed = np.flatnonzero(radii != measured)
        held[changed] = _ask(
            CountHeld, f"crowded {turn}", cloud, centres[changed], radii[changed], folder, executor, report
        )
        measured[changed] = radii[changed]
        crowded = np.flatnonzero((held > CROWDED * BLEND.size) & (counts > 1))
        if not len(crowded):
            break
        fresh = []
        for number in np.unique(portion[crowded]):
            table = folder.file_of("cover", int(number))
            points = load(table, "points")["points"]
            for leaf in crowded[portion[crowded] == number]:
                rows = own.pop(int(leaf), None)
                rows = points[starts[leaf] : starts[leaf] + counts[leaf]] if rows is None else rows
                fresh += [(rows[half], number) for half in cut_at_gap(rows, np.arange(len(rows)))]
        kept = np.setdiff1d(np.arange(len(counts)), crowded)
        renumber = {int(old): new for new, old in enumerate(kept) if int(old) in own} if own else {}
        own = {renumber[old]: rows for old, rows in own.items()}
        own |= {len(kept) + k: rows for k, (rows, _) in enumerate(fresh)}
        made = [measure_leaves(rows, [np.arange(len(rows))]) for rows, _ in fresh]
        centres = np.concatenate([centres[kept], *(one[0] for one in made)])
        reach = np.concatenate([reach[kept], *(one[1] for one in made)])
        counts = np.concatenate([counts[kept], [len(rows) for rows, _ in fresh]])
        portion = np.concatenate([portion[kept], [number for _, number in fresh]])
        starts = np.concatenate([starts[kept], np.full(len(fresh), -1)])
        held = np.concatenate([held[kept], np.zeros(len(fresh), dtype=np.int64)])
        measured = np.concatenate([measured[kept], np.full(len(fresh), np.nan)])
    radii = choose_radii(centres, reach, BLEND.overlap, BLEND.follow_density)
    stretch = stretch_of(_ask(MeasureDensity, "density", cloud, centres, radii, folder, executor, report))
    _write(centres, radii, stretch, folder)


def _chunks(centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An order in which neighbours follow each other, and bounds of chunks."""
    depth = tree_depth(len(centres), CHUNK)
    return divide(centres, [bounds_at(len(centres), k) for k in range(depth)]), bounds_at(len(centres), depth)


def _ask(
    kind: type[CountHeld] | type[MeasureDensity],
    step: str,
    cloud: TiledCloud,
    centres: np.ndarray,
    radii: np.ndarray,
    folder: Folder,
    executor: Executor,
    report: Report,
) -> np.ndarray:
    """What a kind of work finds at balls, (T,)."""
    answer = np.empty(len(centres))
    if not len(centres):
        return answer
    order, bounds = _chunks(centres)
    asked = Column(f"{folder.path}/{step}.asked", len(centres), 4).make()
    asked.write(0, np.concatenate([centres, radii[:, None]], axis=1)[order])
    folder.run(step, kind(cloud, asked, bounds, str(folder.path / step)), range(len(bounds) - 1), executor, report)
    answer[order] = np.concatenate([piece["found"] for piece in folder.pieces(step, range(len(bounds) - 1))])
    return answer


@dataclass(frozen=True, eq=False)
class CountHeld:
    """The work: how many points are in each of a chunk of balls."""

    cloud: TiledCloud
    asked: Column
    bounds: np.ndarray
    folder: str

    def __call__(self, chunk: int) -> None:
        balls = self.asked.read(int(self.bounds[chunk]), int(self.bounds[chunk + 1]))
        centres, radii = balls[:, :3], balls[:, 3]
        low, high = (centres - radii[:, None]).min(axis=0), (centres + radii[:, None]).max(axis=0)
        points = self.cloud.region(low, high)[1]
        found = cKDTree(points).query_ball_point(centres, radii, return_length=True)
        keep(Path(self.folder) / f"{chunk}.npz", {"found": found})


@dataclass(frozen=True, eq=False)
class MeasureDensity:
    """The work: how far the points around each of a chunk of balls lie."""

    cloud: TiledCloud
    asked: Column
    bounds: np.ndarray
    folder: str

    def __call__(self, chunk: int) -> None:
        centres = self.asked.read(int(self.bounds[chunk]), int(self.bounds[chunk + 1]))[:, :3]
        found = self.cloud.nearest(centres, 2 * BLEND.size)[0][:, -1]
        keep(Path(self.folder) / f"{chunk}.npz", {"found": found})


def _write(centres: np.ndarray, radii: np.ndarray, stretch: np.ndarray, folder: Folder) -> None:
    order, bounds = _chunks(centres)
    centres, radii, stretch = centres[order], radii[order], stretch[order]
    index = BallIndex(
        str(folder.path),
        bounds,
        np.minimum.reduceat(centres, bounds[:-1]),
        np.maximum.reduceat(centres, bounds[:-1]),
        np.maximum.reduceat(radii, bounds[:-1]),
    )
    for name, values in {"centres": centres, "radii": radii, "stretch": stretch}.items():
        index.column(name).make().write(0, values)
    keep(
        folder.path / "balls.npz",
        {"bounds": bounds, "low": index.low, "high": index.high, "largest": index.largest},
    )
