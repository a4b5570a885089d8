"""Clouds, checks of a cloud before anything is done to it: enough points, finite, of some size, not all in one plane.

In come points (P, D); out go the box around them and notes, or an error that says what is wrong and what to do.
"""

from __future__ import annotations

import numpy as np

from cnf.errors import ConstraintError

FLAT = 1e-9  # of the size: thickness below which points are in one plane
SHAPES = {2: "curve", 3: "surface"}


def measure_box(points: np.ndarray, total: int | None = None) -> tuple[np.ndarray, float]:
    """Centre (D,) and half the longest side of the box around finite points, or around corners of `total` points.

    The centre is found from one corner and half the sides, so that neither an offset of 5e6 nor a size of 1e-6 costs
    digits; subtracting it from a point of the box is then exact to rounding.
    """
    dimension = points.shape[1]
    count = len(points) if total is None else total
    if count < dimension + 1:
        raise ConstraintError(
            f"{count} points are too few for a closed {SHAPES[dimension]}; at least {dimension + 1} are needed"
        )
    low, high = points.min(axis=0), points.max(axis=0)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        bad = np.flatnonzero(~np.isfinite(points).all(axis=1))
        raise ConstraintError(
            f"{len(bad)} of {count} points are not finite, the first is number {bad[0]} (from 0): "
            f"{points[bad[0]].tolist()}; remove them"
        )
    with np.errstate(over="ignore"):
        sides = high - low
    if not np.isfinite(sides).all() or sides.max() > 1e150:
        raise ConstraintError(
            f"coordinates from {low.min():.3g} to {high.max():.3g} are too far apart; check their units"
        )
    if sides.max() == 0:
        raise ConstraintError(f"all {count} points are at the same place {points[0].tolist()}")
    if sides.max() < 1e-150:
        raise ConstraintError(f"all points lie within {sides.max():.3g} of each other; check their units")
    return low + sides / 2, float(sides.max()) / 2


def measure_rounding(points: np.ndarray) -> tuple[float, bool]:
    """The step between neighbouring numbers at the largest coordinate, and whether all are of single precision."""
    largest = float(max(np.abs(points.min(axis=0)).max(), np.abs(points.max(axis=0)).max()))
    some = points[:: max(1, len(points) // 100_000)]
    single = largest < 1e30 and bool((some.astype(np.float32) == some).all())
    return float(np.spacing(np.float32(largest))) if single else float(np.spacing(largest)), single


def note_rounding(step: float, single: bool, scale: float) -> list[str]:
    """A note if the coordinates are so large beside the shape that their rounding shows."""
    if step < 1e-5 * scale:
        return []
    kind = "single" if single else "double"
    return [
        f"the coordinates are rounded to steps of {step:.1e}, {step / (2 * scale):.1e} of the size of the shape ({kind}"
        " precision far from the origin): subtract an offset before they are written"
    ]


def check_shape(points: np.ndarray, rounding: float = 0.0, total: int | None = None) -> None:
    """Refuse distinct points, scaled to [-1, 1]^D, that no closed surface can pass through: too few, or flat.

    `total`: how many there are if those given are a sample.
    Points that leave a plane by the rounding of their coordinates only are still in it.
    """
    dimension = points.shape[1]
    count = len(points) if total is None else total
    if count < dimension + 1:
        raise ConstraintError(
            f"only {count} different points are among those given; a closed {SHAPES[dimension]} "
            f"needs at least {dimension + 1}"
        )
    centred = points - points.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    # Measured along the axes: the eigenvalues of the covariance have half the digits.
    thickness = [float(np.ptp(centred @ axes[:, i])) for i in range(dimension)]
    least = max(FLAT, 2 * rounding)
    if (dimension == 3 and thickness[1] <= least) or (dimension == 2 and thickness[0] <= least):
        raise ConstraintError(f"all {count} points lie on one line; no closed {SHAPES[dimension]} passes through them")
    if dimension == 3 and thickness[0] <= least:
        raise ConstraintError(
            f"all {count} points lie in one plane, which encloses no volume: give points on all sides of the shape, or "
            "only their two coordinates in the plane for a curve"
        )
