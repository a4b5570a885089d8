"""From a file to a cloud on disk: read in pieces, scaled, sorted into tiles, doubled points joined.

In come a `Source` and the folder of a run; out go a `TiledCloud` and `Entered`: what `Prepared` knows of a cloud in
memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cnf.errors import CnfError, ConstraintError
from cnf.execution import Executor
from cnf.meshes.decoded import Decoded
from cnf.meshes.mesh import unit_rows
from cnf.shapes.clouds.cloud_check import check_shape, measure_box, note_rounding
from cnf.shapes.clouds.preparation import ANGLE, CANCELLED, CHECKED, SAME, average, direct, examine_signs
from cnf.shapes.clouds.thinning import group_duplicates
from cnf.shapes.clouds.winding import divide, tree_depth
from cnf.shapes.files.pieces import Source
from cnf.shapes.tiles.cloud import TiledCloud
from cnf.shapes.tiles.columns import Column
from cnf.shapes.tiles.folder import Folder, keep
from cnf.shapes.tiles.halving import AT_ONCE, Portion, halve_table
from cnf.shapes.tiles.sizes import Sizes

SAMPLES = (4000, 2000, 1000)  # points that are looked at more closely, as `reconstruct` does in memory
ROUNDED = 100_000  # points that tell single from double precision
WEAK = "of {} normals are zero or not finite, the first at point {}: they are estimated in memory only; fill them in"
Report = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Entered:
    """What was seen on the way: x_input = centre + scale * x."""

    cloud: TiledCloud
    centre: np.ndarray
    scale: float
    ranges: np.ndarray  # (2, k) of the attributes
    notes: tuple[str, ...]


def enter(
    source: Source, folder: Folder, sizes: Sizes, merge: float, flip: bool, executor: Executor, report: Report
) -> Entered:
    """Read the file, unless a run before did so."""
    seen = folder.note("seen") or folder.note("seen", _scan(source, report))
    assert seen is not None
    centre, scale = np.array(seen["centre"]), float(seen["scale"])
    names = tuple((str(name), int(width)) for name, width in seen["names"])
    records = Column(str(folder.path / "records.rows"), source.count, 7 + sum(width for _, width in names))
    notes = list(seen["notes"])
    joined = folder.note("joined")
    if joined is None:
        if folder.note("read") is None:
            report("reading the points")
            _write_records(source, records.make(), centre, scale, -1.0 if flip else 1.0)
            folder.note("read", {"rows": records.count})
        cloud = _sort(records, "sort", folder, sizes, names, executor, report)
        folder.run(
            "same", FindSame(cloud, 2 * max(merge, SAME), str(folder.path)), range(cloud.tiles), executor, report
        )
        joined = folder.note("joined", _join_same(cloud, folder, records))
    assert joined is not None
    if joined["dropped"]:
        notes += joined["notes"]
        records = Column(str(folder.path / "joined.rows"), int(joined["count"]), records.width)
        cloud = _sort(records, "sort again", folder, sizes, names, executor, report)
    else:
        cloud = _sort(records, "sort", folder, sizes, names, executor, report)
    step = "sort again" if joined["dropped"] else "sort"
    numbers = [int(path.stem) for path in sorted((folder.path / step).glob("[0-9]*.npz"))]
    sample = np.concatenate([piece["sample"] for piece in folder.pieces(step, numbers)])
    sample = sample[np.argsort(sample[:, 0])]
    check_shape(sample[:, 1:4], seen["step"] / scale, cloud.count)
    examine_signs(sample[:, 1:4], sample[:, 4:], 0, notes)
    return Entered(cloud, centre, scale, np.array(seen["ranges"]).reshape(2, -1), tuple(notes))


def _scan(source: Source, report: Report) -> dict[str, Any]:
    """The first reading: box, precision, ranges and names of attributes, and what cannot be used."""
    report("looking through the file")
    low, high, shortest, longest = np.full(3, np.inf), np.full(3, -np.inf), np.inf, 0.0
    names: list[tuple[str, int]] | None = None
    ranges, single, count, notes = np.zeros((2, 0)), True, 0, list[str]()
    for piece in source.pieces():
        _check(piece, source, count)
        own = [(name, 1 if values.ndim == 1 else values.shape[1]) for name, values in piece.attributes.items()]
        if names is None:
            names, notes = own, list(piece.notes)
            ranges = np.array([[np.inf], [-np.inf]]).repeat(sum(width for _, width in own), axis=1)
        if own != names:
            raise CnfError(f"{source.path}: what is known of its points changes after point {count}")
        low, high = np.minimum(low, piece.points.min(axis=0)), np.maximum(high, piece.points.max(axis=0))
        stride = max(1, source.count // ROUNDED)
        some = piece.points[-count % stride :: stride]
        single &= bool((some.astype(np.float32) == some).all())
        assert piece.normals is not None
        lengths = np.sqrt((piece.normals**2).sum(axis=1))
        shortest, longest = min(shortest, float(lengths.min())), max(longest, float(lengths.max()))
        columns = _columns(piece)
        if not np.isfinite(columns).all():
            raise ConstraintError(f"{source.path}: attributes are not finite; fill them in, or leave them out")
        ranges = np.stack([np.minimum(ranges[0], columns.min(axis=0)), np.maximum(ranges[1], columns.max(axis=0))])
        count += len(piece.points)
    centre, scale = measure_box(np.stack([low, high]), count)
    largest = float(np.maximum(np.abs(low), np.abs(high)).max())
    single &= largest < 1e30
    step = float(np.spacing(np.float32(largest))) if single else float(np.spacing(largest))
    notes += note_rounding(step, single, scale)
    if max(longest - 1, 1 - shortest) > 1e-4:
        notes.append(f"normals of lengths {shortest:.3g} to {longest:.3g} were scaled to 1: their direction is used")
    return {
        **{"centre": centre.tolist(), "scale": scale, "step": step, "names": names or [], "notes": notes},
        "ranges": ranges.tolist(),
    }


def _check(piece: Decoded, source: Source, before: int) -> None:
    if piece.points.shape[1] != 3:
        raise CnfError(f"{source.path}: surfaces go through points in 3D; its points have {piece.points.shape[1]}")
    if piece.normals is None:
        raise CnfError(
            f"{source.path} has no normals, and these are estimated with all points in memory only: give more memory, "
            "or normals"
        )
    weak = direct(piece.normals, [])[1]
    if weak.any():
        where = before + int(np.flatnonzero(weak)[0])
        raise CnfError(f"{source.path}: {weak.sum()} {WEAK.format(len(weak), where)}, or give more memory")


def _columns(piece: Decoded) -> np.ndarray:
    """All attributes side by side (n, k)."""
    given = [np.asarray(v, dtype=np.float64).reshape(len(piece.points), -1) for v in piece.attributes.values()]
    return np.concatenate([np.empty((len(piece.points), 0)), *given], axis=1)


def _write_records(source: Source, records: Column, centre: np.ndarray, scale: float, sign: float) -> None:
    """The second reading: point, normal, attributes and rank in a row of numbers."""
    count = 0
    for piece in source.pieces():
        points, rank = (piece.points - centre) / scale, np.arange(count, count + len(piece.points))
        normals = direct(piece.normals, [])[0]
        assert normals is not None
        records.write(count, np.concatenate([points, sign * normals, _columns(piece), rank[:, None]], axis=1))
        count += len(points)


# ---- sorting


def _sort(
    records: Column,
    step: str,
    folder: Folder,
    sizes: Sizes,
    names: tuple[tuple[str, int], ...],
    executor: Executor,
    report: Report,
) -> TiledCloud:
    """The cloud in the order of its tree."""
    count = records.count
    kept = folder.note(f"{step} portions")
    if kept is None:
        report("sorting the points into tiles")
        scratch = folder.path / f"{step} rows"
        scratch.mkdir(exist_ok=True)
        portions, _ = halve_table(
            records,
            scratch,
            sizes.rows,
            lambda level, number, start, _: int((2 * number + 1) * count // 2 ** (level + 1)) - start,
        )
        level = max([tree_depth(count, sizes.part), *(portion.level for portion in portions)])
        kept = {"level": level, "portions": []}
        for p in portions:
            kept["portions"].append([p.level, p.number, p.start, folder.shorten(p.rows.path), p.rows.count])
        cloud = TiledCloud(str(folder.path), count, level, names)
        for name in ("points", "normals", "values", "ranks", "areas", "widths", "inside", "means", "levels"):
            cloud.column(name).make()
        folder.note(f"{step} portions", kept)
    cloud = TiledCloud(str(folder.path), count, int(kept["level"]), names)
    portions = [Portion(a, b, c, Column(folder.find(d), n, records.width)) for a, b, c, d, n in kept["portions"]]
    folder.run(
        step, SortPortion(cloud, tuple(portions), str(folder.path / step)), range(len(portions)), executor, report
    )
    boxes = np.concatenate([piece["boxes"] for piece in folder.pieces(step, range(len(portions)))])
    np.save(folder.path / "boxes.npy", boxes, allow_pickle=False)
    return cloud


@dataclass(frozen=True)
class SortPortion:
    """The work: a portion sorted down to the leaves of the tree, into the columns of the cloud."""

    cloud: TiledCloud
    portions: tuple[Portion, ...]
    folder: str

    def __call__(self, number: int) -> None:
        portion, cloud = self.portions[number], self.cloud
        rows = portion.rows.read(0, portion.rows.count)
        levels = levels_within(cloud.count, portion.level, portion.number, cloud.depth)
        rows = rows[divide(rows[:, :3], levels[:-1])]
        columns = {"points": rows[:, :3], "normals": rows[:, 3:6], "values": rows[:, 6:-1], "ranks": rows[:, -1]}
        for name, values in columns.items():
            cloud.column(name).write(portion.start, values)
        bounds = levels[cloud.level - portion.level][:-1]
        boxes = np.stack([f.reduceat(rows[:, :3], bounds) for f in (np.minimum, np.maximum)], axis=1)
        strides = [max(1, cloud.count // wanted) for wanted in SAMPLES] + [-(-cloud.count // CHECKED)]
        chosen = np.any([rows[:, -1] % stride == 0 for stride in strides], axis=0)
        sample = np.concatenate([rows[chosen, -1:], rows[chosen, :6]], axis=1)
        keep(Path(self.folder) / f"{number}.npz", {"boxes": boxes, "sample": sample})


def levels_within(count: int, level: int, number: int, depth: int) -> list[np.ndarray]:
    """Bounds, on every level down to `depth`, of what is in one portion of so many points, from its first row on."""
    found = []
    for lower in range(level, depth + 1):
        within = 2 ** (lower - level)
        portions = np.arange(number * within, (number + 1) * within + 1)
        bounds = portions * count // 2**lower
        found.append(bounds - bounds[0])
    return found


# ---- doubled points


@dataclass(frozen=True)
class FindSame:
    """The work: points of a tile that are at the place of one of a lower rank, and what all there have on average."""

    cloud: TiledCloud
    apart: float
    folder: str

    def __call__(self, tile: int) -> None:
        cloud = self.cloud
        low, high = cloud.boxes[tile]
        rows, points, ranks = cloud.region(low - 4 * self.apart, high + 4 * self.apart, "ranks")
        order = np.argsort(ranks)
        rows, points, ranks = rows[order], points[order], ranks[order]
        groups = group_duplicates(points, self.apart)
        several = np.bincount(groups) > 1
        first = np.full(len(several), len(points))
        np.minimum.at(first, groups, np.arange(len(points)))
        own = (rows >= cloud.bounds[tile]) & (rows < cloud.bounds[tile + 1])
        dropped = ranks[own & several[groups] & (first[groups] != np.arange(len(points)))]
        means = np.zeros((0, 4 + cloud.attribute_columns))
        turned = 0
        if (several & own[np.minimum(first, len(points) - 1)]).any():
            among = np.flatnonzero(several[groups])
            _, _, normals, values = cloud.region(low - 4 * self.apart, high + 4 * self.apart, "normals", "values")
            normals = normals[order][among]
            values = values[order][among].reshape(len(among), -1)[:, : cloud.attribute_columns]
            number = np.unique(groups[among], return_inverse=True)[1]
            merged = average(normals, number)
            if (np.sqrt((merged**2).sum(axis=1)) < CANCELLED).any():
                raise ConstraintError(
                    "several points coincide with opposite normals; no surface has both: remove one side of the sheet, "
                    "or move the sides apart"
                )
            merged = unit_rows(merged)
            off = np.linalg.norm(normals - merged[number], axis=1) > 2 * np.sin(np.radians(ANGLE) / 4)
            heads = first[np.unique(groups[among])]
            mine = own[heads]
            turned = int(np.sum(mine[np.unique(number[off])]))
            columns = average(values, number) if values.shape[1] else np.zeros((len(heads), 0))
            means = np.concatenate([ranks[heads][:, None], merged, columns], axis=1)[mine]
        keep(
            Path(self.folder) / "same" / f"{tile}.npz",
            {"dropped": dropped, "means": means, "turned": np.array([turned])},
        )


def _join_same(cloud: TiledCloud, folder: Folder, records: Column) -> dict[str, Any]:
    """The records without doubled points, if there are any."""
    found = list(folder.pieces("same", range(cloud.tiles)))
    dropped = np.sort(np.concatenate([piece["dropped"] for piece in found]))
    if not len(dropped):
        return {"dropped": 0}
    means = np.concatenate([piece["means"] for piece in found])
    means = means[np.argsort(means[:, 0])]
    joined = Column(str(folder.path / "joined.rows"), records.count - len(dropped), records.width).make()
    filled = 0
    for rows in _blocks(records):
        place = np.minimum(np.searchsorted(means[:, 0], rows[:, -1]), len(means) - 1)
        at = np.flatnonzero(means[place, 0] == rows[:, -1])
        rows[at, 3:-1] = means[place[at], 1:]
        before = np.searchsorted(dropped, rows[:, -1])
        gone = dropped[np.minimum(before, len(dropped) - 1)] == rows[:, -1]
        rows[:, -1] -= before
        joined.write(filled, rows[~gone])
        filled += int(np.sum(~gone))
    notes = [f"{len(dropped)} points at the same place as another were merged, attributes averaged"]
    turned = int(sum(piece["turned"][0] for piece in found))
    if turned:
        notes.append(
            f"at {turned} places points lie on each other with different normals (more than {ANGLE:g} degree apart); "
            "their mean is used, so those normals are not met exactly"
        )
    return {"dropped": len(dropped), "count": joined.count, "notes": notes}


def _blocks(rows: Column) -> Iterator[np.ndarray]:
    for first in range(0, rows.count, AT_ONCE):
        yield rows.read(first, min(first + AT_ONCE, rows.count))
