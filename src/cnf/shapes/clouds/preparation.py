"""Clouds, ready for reconstruction: points checked, cleaned and scaled to [-1, 1]^D, with a note on all that was done.

In comes a `PointCloud` as read; out goes `Prepared`: distinct finite points, one unit normal each, attributes, and the
map between the coordinates of the file and the scaled ones. What cannot be repaired honestly is an error that says why.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

import numpy as np
from scipy.spatial import cKDTree

from cnf.errors import CnfWarning, ConstraintError, NumericalWarning
from cnf.meshes.mesh import unit_rows
from cnf.shapes.clouds.cloud import PointCloud
from cnf.shapes.clouds.cloud_check import check_shape, measure_box, measure_rounding, note_rounding
from cnf.shapes.clouds.estimation import NEIGHBOURS, estimate_normals
from cnf.shapes.clouds.flipped import find_flipped
from cnf.shapes.clouds.links import find_doubtful
from cnf.shapes.clouds.orientation import orient_normals, points_outward
from cnf.shapes.clouds.thinning import group_duplicates, thin

SAME = 1e-9  # of the size: points nearer than this are one
ANGLE = 1.0  # degrees by which the normals of merged points may differ before it is said
CANCELLED = 0.05  # length of the mean of unit normals below which they say nothing
CLOSE = 2e-3  # of the usual distance: points this close cost digits
PAIRED = 0.05  # of it: of points as close as that only one gets an estimated normal, for two would bend the surface
CHECKED = 200_000  # points on which flips and distances are examined


@dataclass(frozen=True, eq=False)
class Prepared:
    """Points in [-1, 1]^D with unit normals; `x_input = centre + scale * x`.

    >>> prepared = cnf.shapes.prepare_cloud(cnf.shapes.sample_knot(200))
    >>> bool(np.abs(prepared.points).max() <= 1), prepared.estimated
    (True, False)
    """

    points: np.ndarray  # (P, D)
    normals: np.ndarray  # (P, D), unit
    attributes: dict[str, np.ndarray]  # name -> (P, k)
    centre: np.ndarray  # (D,), of the box around the input
    scale: float  # half the longest side of that box
    rows: np.ndarray  # (P,): which point of the input each one is (the first, if several were merged)
    spacing: float  # median distance to the nearest other point
    closest: float  # smallest distance between two points (among a sample of them, if there are very many)
    flipped: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # rows whose normals look flipped
    estimated: bool = False  # whether the normals were estimated
    doubtful: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # rows of normals not to build on
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.points)

    @property
    def trusted(self) -> np.ndarray:
        """Which normals are conditions (P,) bool: all given ones, and estimated ones that their surroundings bear."""
        trusted = np.ones(len(self), dtype=bool)
        trusted[self.doubtful] = False
        return trusted

    @property
    def dimension(self) -> int:
        """D."""
        return self.points.shape[1]

    def to_input(self, points: np.ndarray) -> np.ndarray:
        """From scaled coordinates (P, D) to those of the input."""
        return np.asarray(points, dtype=np.float64) * self.scale + self.centre

    def from_input(self, points: np.ndarray) -> np.ndarray:
        """From coordinates of the input (P, D) to scaled ones."""
        return (np.asarray(points, dtype=np.float64) - self.centre) / self.scale


def prepare_cloud(
    cloud: PointCloud | np.ndarray,
    most: int | None = None,
    neighbours: int = NEIGHBOURS,
    seed: int = 0,
    check_flips: bool = True,
    merge: float = SAME,
) -> Prepared:
    """Check, clean and scale a cloud; `most` thins a larger one evenly (seeded), `neighbours` are those of a normal.

    Points nearer to each other than `merge` (times half the longest side) become one.

    >>> points = np.random.default_rng(0).normal(size=(300, 3))
    >>> points /= np.linalg.norm(points, axis=1, keepdims=True)  # on the unit sphere
    >>> prepared = cnf.shapes.prepare_cloud(cnf.shapes.PointCloud(3 * points, normals=2 * points))
    >>> bool(np.allclose(np.linalg.norm(prepared.normals, axis=1), 1)), round(prepared.scale)
    (True, 3)
    """
    check_merge(merge)
    cloud = cloud if isinstance(cloud, PointCloud) else PointCloud(cloud)
    notes = list(cloud.notes)
    centre, scale = measure_box(cloud.points)
    step, single = measure_rounding(cloud.points)
    notes += note_rounding(step, single, scale)
    rows = np.arange(len(cloud))
    if most is not None and len(cloud) > most:
        if most < cloud.dimension + 1:
            raise ConstraintError(f"most={most} leaves too few points; give at least {cloud.dimension + 1}")
        rows = thin(cloud.points, most, seed)
        notes.append(f"{len(rows)} of {len(cloud)} points were kept, evenly spread (at most {most} were asked for)")
        cloud = cloud.take(rows)
    points = (cloud.points - centre) / scale
    normals, weak = direct(cloud.normals, notes)
    for name, values in cloud.attributes.items():
        bad = ~np.isfinite(values).all(axis=1)
        if bad.any():
            where = int(np.flatnonzero(bad)[0])
            raise ConstraintError(
                f"attribute {name!r}: {bad.sum()} of {len(bad)} values are not finite, the first at point {where}; "
                "fill them in, or leave the attribute out"
            )
    groups = group_duplicates(points, 2 * max(merge, SAME))
    attributes = dict(cloud.attributes)
    if groups.max() + 1 < len(points):
        first = np.unique(groups, return_index=True)[1]
        notes.append(f"{len(points) - len(first)} points at the same place as another were merged, attributes averaged")
        attributes = {name: average(value, groups) for name, value in attributes.items()}
        if normals is not None:
            normals, weak = merge_normals(normals, weak, groups, notes)
        points, rows = points[first], rows[first]
    check_shape(points, step / scale)
    spacing, closest = measure_gaps(points, seed, notes)
    estimated = normals is None or bool(weak.all())
    doubtful = np.empty(0, dtype=np.int64)
    if normals is None or weak.all():
        normals = orient_normals(points, estimate_normals(points, neighbours))
        doubtful = np.union1d(find_doubtful(points, normals), find_seconds(points, PAIRED * spacing))
        given = "no normals were given" if not len(weak) else "all normals given are zero"
        left = f"; {len(doubtful)} of {len(points)} are doubtful and left free" if len(doubtful) else ""
        around = min(neighbours, len(points) - 1)
        notes.append(f"{given}: they were estimated from {around} neighbours each and oriented outward{left}")
    elif weak.any():
        normals = fill_normals(points, normals, weak, neighbours, notes)
        doubtful = np.intersect1d(find_doubtful(points, normals), np.flatnonzero(weak))
        if len(doubtful):
            notes.append(f"{len(doubtful)} of these are doubtful and left free")
    flipped = np.empty(0, dtype=np.int64)
    if check_flips and not estimated:
        flipped = examine_signs(points, normals, seed, notes)
    return Prepared(
        *(points, normals, attributes, centre, scale, rows, spacing, closest, flipped, estimated),
        doubtful=doubtful,
        notes=tuple(notes),
    )


def warn(message: str, notes: list[str], kind: type[CnfWarning] = CnfWarning) -> None:
    """Say it now, and keep it among the notes."""
    notes.append(message)
    warnings.warn(message, kind, stacklevel=4)


def direct(normals: np.ndarray | None, notes: list[str]) -> tuple[np.ndarray | None, np.ndarray]:
    """Unit normals, and which of them were zero or not finite (P,) bool; lengths carry no meaning here."""
    if normals is None:
        return None, np.empty(0, dtype=bool)
    weak = ~np.isfinite(normals).all(axis=1)
    usable = np.where(weak[:, None], 0.0, normals) if weak.any() else normals
    units = unit_rows(usable)
    weak |= ~units.any(axis=1)
    lengths = np.sqrt((usable * usable).sum(axis=1))[~weak]
    if len(lengths) and max(lengths.max() - 1, 1 - lengths.min()) > 1e-4:
        notes.append(
            f"normals of lengths {lengths.min():.3g} to {lengths.max():.3g} were scaled to 1: their direction is used"
        )
    return units, weak


def average(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Mean (G, k) of the rows (P, k) of each group."""
    counts = np.bincount(groups)
    return np.stack([np.bincount(groups, weights=column) / counts for column in values.T], axis=1)


def check_merge(merge: float) -> None:
    """Refuse what is no merging distance."""
    if not (np.isfinite(merge) and 0 <= merge < 1):
        raise ConstraintError(f"the merging distance is a part of half the longest side, 0 to 1; got {merge}")


def merge_normals(
    normals: np.ndarray, weak: np.ndarray, groups: np.ndarray, notes: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """One unit normal (G, D) per group, the mean of the usable ones, and the groups that have none (G,)."""
    counts = np.bincount(groups)
    usable = counts - np.bincount(groups, weights=weak)
    mean = average(normals, groups) * (counts / np.maximum(usable, 1))[:, None]
    length = np.sqrt((mean * mean).sum(axis=1))
    merged = unit_rows(mean)
    cancelled = (usable > 0) & (length < CANCELLED)
    if cancelled.any():
        row = int(np.flatnonzero(groups == np.flatnonzero(cancelled)[0])[0])
        raise ConstraintError(
            f"at {cancelled.sum()} places several points coincide with opposite normals (the first is point {row});"
            " no surface has both: remove one side of the sheet, or move the sides apart"
        )
    apart = np.linalg.norm(normals - merged[groups], axis=1) > 2 * np.sin(np.radians(ANGLE) / 4)
    apart &= ~weak & (counts[groups] > 1)  # half the angle from the mean: the whole between two
    if apart.any():
        places = len(np.unique(groups[apart]))
        warn(
            f"at {places} places points lie on each other with different normals (more than {ANGLE:g} degree apart); "
            "their mean is used, so those normals are not met exactly",
            notes,
            NumericalWarning,
        )
    return merged, usable == 0


def measure_gaps(points: np.ndarray, seed: int, notes: list[str]) -> tuple[float, float]:
    """Median and smallest distance to the nearest other point; on a sample of a very large cloud."""
    tree = cKDTree(points, balanced_tree=False, compact_nodes=False)
    sample = points
    if len(points) > CHECKED:
        sample = points[np.random.default_rng(seed).choice(len(points), CHECKED // 2, replace=False)]
    nearest = tree.query(sample, k=2)[0][:, 1]
    spacing, closest = float(np.median(nearest)), float(nearest.min())
    if closest < CLOSE * spacing:
        near = int((nearest < CLOSE * spacing).sum())
        notes.append(
            f"{near} points are very close to another, the closest {closest / spacing:.1e} of the usual distance: an "
            "exact surface bends sharply between them, and fewer digits are exact; a larger merging distance (--merge "
            "1e-5) joins them"
        )
    return spacing, closest


def find_seconds(points: np.ndarray, reach: float) -> np.ndarray:
    """Numbers of the points that have one of a lower number within `reach`."""
    pairs = cKDTree(points).query_pairs(reach, output_type="ndarray")  # (E, 2), the lower number first
    return np.unique(pairs[:, 1])


def fill_normals(
    points: np.ndarray, normals: np.ndarray, weak: np.ndarray, neighbours: int, notes: list[str]
) -> np.ndarray:
    """Normals where some were zero: estimated from the points around, with the sign of the good normals around.

    Scanners write zeros where their own estimate failed at single points; refusing the file for those helps nobody.
    """
    bad, good = np.flatnonzero(weak), np.flatnonzero(~weak)
    found = estimate_normals(points, neighbours, at=bad)
    near = cKDTree(points[good]).query(points[bad], k=min(neighbours, len(good)))[1].reshape(len(bad), -1)
    step = unit_rows((points[good][near] - points[bad][:, None]).reshape(-1, points.shape[1])).reshape(*near.shape, -1)
    ours, theirs = found[:, None, :], normals[good][near]
    agreement = (ours * theirs).sum(2) - 2 * (step * ours).sum(2) * (step * theirs).sum(
        2
    )  # see cnf.shapes.clouds.links
    filled = normals.copy()
    filled[bad] = found * np.where(agreement.sum(axis=1) >= 0, 1.0, -1.0)[:, None]
    warn(
        f"{len(bad)} of {len(points)} normals were zero or not finite (the first at point {bad[0]}): they were "
        f"estimated from {neighbours} neighbours each",
        notes,
        NumericalWarning,
    )
    return filled


def examine_signs(points: np.ndarray, normals: np.ndarray, seed: int, notes: list[str]) -> np.ndarray:
    """Numbers of the points whose normals look flipped (among an even sample of a very large cloud); warns of them."""
    some = thin(points, CHECKED, seed) if len(points) > CHECKED else np.arange(len(points))
    flipped = some[find_flipped(points[some], normals[some])]
    sampled = "" if len(some) == len(points) else f" (of an even sample of {len(some)})"
    if len(flipped):
        warn(
            f"{len(flipped)} of {len(points)} normals point against their neighbours{sampled}, the first at point "
            f"{flipped[0]}; the surface will fold there: flip them, or leave the normals out to have them estimated",
            notes,
        )
    if points_outward(points[some], normals[some]) is False:
        warn(
            f"the normals{sampled} point into the shape; if it is a solid and not a hollow, flip them all, or inside "
            "and outside are exchanged",
            notes,
        )
    return flipped
