"""What knows inside from outside, for a cloud on disk: spacings, the tree of the winding number, what it is at points.

In comes a sorted `TiledCloud`; its columns areas, widths, inside, means and levels, and the files of the tree, are
filled tile by tile, with the numbers that `make_guide` finds for a cloud in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cnf.execution import Executor
from cnf.shapes.clouds.preparation import CLOSE
from cnf.shapes.clouds.spacing import SEARCHED, measure_spacing
from cnf.shapes.clouds.winding import bounds_at, join_pairs, reach_of, sum_up
from cnf.shapes.reconstruction.buried import RARE, WALLS, Around, are_buried, is_closed, level_in_front, note_buried
from cnf.shapes.reconstruction.surface import AVERAGED, PIECE, SOFT
from cnf.shapes.tiles.cloud import NODES, TiledCloud
from cnf.shapes.tiles.columns import Column, quantile_of
from cnf.shapes.tiles.entering import Entered, levels_within
from cnf.shapes.tiles.folder import Folder, keep
from cnf.shapes.tiles.halving import AT_ONCE
from cnf.threads import one_thread_each

EVEN = 1.7  # times the radius expected to hold so many points, within which they are looked for at first
STRAY = 4.0  # times the usual one, from which on a point is looked at by itself
AROUND = 400  # points around one of these
Report = Callable[[str], None]


@dataclass(frozen=True)
class Guided:
    """What concerns all of the cloud."""

    closed: float | None  # see `Guide`
    reach: float  # mean distance of the neighbour that the support holds
    spacing: float  # median distance of the nearest point
    closest: float
    notes: tuple[str, ...]


def guide(entered: Entered, neighbours: int, folder: Folder, executor: Executor, report: Report) -> Guided:
    """Fill the columns, unless a run before did so."""
    cloud, path = entered.cloud, str(folder.path)
    tiles = range(cloud.tiles)
    folder.run("spacing", MeasureSpacing(cloud, neighbours, path), tiles, executor, report)
    known = folder.note("tree")
    if known is None and not (folder.path / "moments").exists():
        for name in NODES:
            cloud.node_column(name).make()
        leaves = Column(f"{path}/leaves.nodes", 2**cloud.depth + 1, kind="<i8").make()
        leaves.write(0, bounds_at(cloud.count, cloud.depth))
    folder.run("moments", SumUp(cloud, path), tiles, executor, report)
    if known is None:
        _sum_roots(cloud, folder)
        folder.note("tree", {})
    folder.run("reach", MeasureReach(cloud, path), tiles, executor, report)
    if cloud.level:
        reached = np.zeros(2**cloud.level - 1)
        for tile, piece in zip(tiles, folder.pieces("reach", tiles), strict=True):
            above = [2**k - 1 + (tile >> (cloud.level - k)) for k in range(cloud.level)]
            reached[above] = np.maximum(reached[above], piece["reach"])
        cloud.node_column("radii").write(0, reached)
    looked = LookInside(cloud, path)
    folder.run("inside", looked, range(looked.pieces), executor, report)
    folder.run("means", TakeMeans(cloud, path), tiles, executor, report)
    half = float(np.copysign(0.5, quantile_of(cloud.column("means"), 0.5, AT_ONCE)))
    folder.run("levels", TakeLevels(cloud, half, path), tiles, executor, report)
    levels = list(folder.pieces("levels", tiles))
    closed = half if sum(float(one["open"][0]) for one in levels) <= RARE * cloud.count else None
    found = list(folder.pieces("spacing", tiles))
    chosen = np.concatenate([piece["reach"] for piece in found])
    chosen = chosen[np.argsort(chosen[:, 0]), 1]  # in the order that they have in memory, for the rounding of the mean
    spacing = float(np.median(np.concatenate([piece["nearest"] for piece in found])))
    closest, near = min(float(piece["closest"][0]) for piece in found), 0
    notes = []
    if closest < CLOSE * spacing:
        near = int(sum(np.sum(piece["nearest"] < CLOSE * spacing) for piece in found))
        notes.append(
            f"points are very close to another ({near} of some thousands looked at), the closest "
            f"{closest / spacing:.1e} of the usual distance: an exact surface bends sharply between them; a larger "
            "merging distance (--merge 1e-5) joins them"
        )
    sure = [one["sure"] for one in levels if closed is not None and one["sure"][0] > 0]
    if sure:
        first = min(sure, key=lambda one: one[1])
        place = entered.centre + entered.scale * first[2:]
        notes += note_buried(int(sum(one[0] for one in sure)), cloud.count, int(first[1]), place)
    return Guided(closed, float(chosen.mean()), spacing, closest, tuple(notes))


@dataclass(frozen=True)
class MeasureSpacing:
    """The work: areas and spacings of the points of a tile, from all points around."""

    cloud: TiledCloud
    neighbours: int  # the distance of this one is taken at some points
    folder: str

    def __call__(self, tile: int) -> None:
        cloud = self.cloud
        low, high = cloud.boxes[tile]
        points, ranks = cloud.read("points", tile), cloud.read("ranks", tile)
        margin = 3 * EVEN * cloud.expected_radius(points, SEARCHED)
        while True:
            rows, around, normals = cloud.region(low - margin, high + margin, "normals")
            spacing = measure_spacing(around, normals)
            own = np.flatnonzero((rows >= cloud.bounds[tile]) & (rows < cloud.bounds[tile + 1]))
            distance = spacing.tree.query(points, k=[2, min(SEARCHED + 1, len(around))])[0]
            # A neighbour of a point is no farther than a third of the margin, and so its own are all there.
            unsure = np.flatnonzero(distance[:, 1] > margin / 3) if len(around) < cloud.count else own[:0]
            wanted = 3.001 * min(distance[:, 1].max(), STRAY * float(np.median(distance[:, 1])))
            if not len(unsure) or wanted <= margin:
                break
            margin = wanted
        areas, widths = spacing.areas[own], spacing.widths[own]
        for row in unsure:  # far from others: what is around these is looked for tile by tile
            far, places, (facing,) = cloud.nearest(points[row : row + 1], AROUND, "normals")
            alone = measure_spacing(places[0], facing[0])
            areas[row], widths[row], distance[row, 0] = alone.areas[0], alone.widths[0], far[0, 1]
        cloud.column("areas").write(int(cloud.bounds[tile]), areas)
        cloud.column("widths").write(int(cloud.bounds[tile]), widths)
        chosen = np.flatnonzero(ranks % max(1, cloud.count // 4000) == 0)
        reach = np.zeros((0, 2))
        if len(chosen):
            count = min(self.neighbours, cloud.count - 1)
            reach = np.stack([ranks[chosen], cloud.nearest(points[chosen], count + 1)[0][:, -1]], axis=1)
        nearest = distance[:, 0]
        keep(
            Path(self.folder) / "spacing" / f"{tile}.npz",
            {"reach": reach, "closest": nearest.min(keepdims=True), "nearest": nearest[chosen]},
        )


@dataclass(frozen=True)
class SumUp:
    """The work: the part of the tree below a tile, with its moments."""

    cloud: TiledCloud
    folder: str

    def __call__(self, tile: int) -> None:
        cloud = self.cloud
        points, normals, areas, widths = (cloud.read(name, tile) for name in ("points", "normals", "areas", "widths"))
        flow, soft = areas[:, None] * normals, (SOFT * widths) ** 2
        levels = sum_up(points, flow, areas, soft, levels_within(cloud.count, cloud.level, tile, cloud.depth))
        for lower, nodes in enumerate(levels):
            write_nodes(cloud, 2 ** (cloud.level + lower) - 1 + tile * 2**lower, nodes)
        first = 2 ** (cloud.depth + 1) - 1 + int(cloud.bounds[tile])
        for name, values in {"centres": points, "flow": flow, "softness": soft}.items():
            cloud.node_column(name).write(first, values)
        names = ("weights", "centres", "flow", "spread", "softness")
        keep(Path(self.folder) / "moments" / f"{tile}.npz", dict(zip(names, levels[0], strict=False)))


def write_nodes(cloud: TiledCloud, first: int, nodes: tuple[np.ndarray, ...]) -> None:
    """Nodes that follow each other; the first of their columns are weights, which nobody needs afterwards."""
    for name, values in zip(("centres", "flow", "spread", "softness", "radii"), nodes[1:], strict=False):
        cloud.node_column(name).write(first, values)


def _sum_roots(cloud: TiledCloud, folder: Folder) -> None:
    """The nodes above the tiles, without their radii."""
    roots = list(folder.pieces("moments", range(cloud.tiles)))
    names = ("weights", "centres", "flow", "spread", "softness")
    nodes = tuple(np.concatenate([root[name] for root in roots]) for name in names)
    for level in range(cloud.level - 1, -1, -1):
        nodes = join_pairs(nodes)
        write_nodes(cloud, 2**level - 1, nodes)


@dataclass(frozen=True)
class MeasureReach:
    """The work: how far the points of a tile are from the centres of all nodes above it."""

    cloud: TiledCloud
    folder: str

    def __call__(self, tile: int) -> None:
        cloud, points = self.cloud, self.cloud.read("points", tile)
        found = np.zeros(cloud.level)
        for level in range(cloud.level):
            node = 2**level - 1 + (tile >> (cloud.level - level))
            centre = cloud.node_column("centres").read(node, node + 1)
            found[level] = reach_of(points, centre, np.array([0, len(points)]))[0]
        keep(Path(self.folder) / "reach" / f"{tile}.npz", {"reach": found})


@dataclass(frozen=True)
class LookInside:
    """The work: the winding number at points, in the pieces in which it is summed in memory."""

    cloud: TiledCloud
    folder: str

    @property
    def pieces(self) -> int:
        return max(1, -(-self.cloud.count // PIECE))

    def __call__(self, piece: int) -> None:
        cloud = self.cloud
        size, larger = divmod(cloud.count, self.pieces)  # as `np.array_split` cuts
        start = piece * size + min(piece, larger)
        points = cloud.column("points").read(start, start + size + (piece < larger))
        with one_thread_each():
            cloud.column("inside").write(start, cloud.open_winding().values(points))
        keep(Path(self.folder) / "inside" / f"{piece}.npz", {})


@dataclass(frozen=True)
class TakeMeans:
    """The work: the winding number averaged around the points of a tile."""

    cloud: TiledCloud
    folder: str

    def __call__(self, tile: int) -> None:
        cloud, points = self.cloud, self.cloud.read("points", tile)
        means = cloud.local_mean("inside", points, 2 * cloud.expected_radius(points, AVERAGED))
        cloud.column("means").write(int(cloud.bounds[tile]), means[:, 0])
        keep(Path(self.folder) / "means" / f"{tile}.npz", {})


@dataclass(frozen=True)
class TakeLevels:
    """The work: what the winding number is taken for at the points of a tile, which counts if the surface is closed.

    Left behind: how many points speak against that, how many surely are buried, number and place of the first.
    """

    cloud: TiledCloud
    half: float
    folder: str

    def __call__(self, tile: int) -> None:
        cloud = self.cloud
        names = ("points", "normals", "widths", "means", "ranks")
        points, normals, widths, means, ranks = (cloud.read(name, tile) for name in names)

        def around(places: np.ndarray) -> Around:
            _, near, (facing,) = cloud.nearest(places, min(WALLS, cloud.count), "normals")
            return near, facing

        with one_thread_each():
            found, sure = are_buried(cloud.open_winding(), around, points, normals, widths, means, self.half)
        said = np.zeros(5)
        if sure.any():
            first = np.flatnonzero(sure)[np.argmin(ranks[sure])]
            said = np.array([sure.sum(), ranks[first], *points[first]])
        cloud.column("levels").write(int(cloud.bounds[tile]), np.where(found, level_in_front(self.half), means))
        keep(
            Path(self.folder) / "levels" / f"{tile}.npz",
            {"open": np.array([np.sum(~is_closed(means, self.half))]), "sure": said},
        )
