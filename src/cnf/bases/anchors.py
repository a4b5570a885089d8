"""Anchors: the points that kernel bases are centred on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from cnf.bases.basis import check_space
from cnf.constraints import Constraint, Space
from cnf.constraints.constraint import as_points
from cnf.errors import BasisError, RepeatedAnchorError

Anchors = Tensor | Sequence[Constraint]
COINCIDENT = 1e-12  # relative to the extent of the anchors


def anchor_points(space: Space, anchors: Anchors, distinct: bool = True) -> Tensor:
    """Anchors as (N, D): given points, or the points of constraints, one per condition that a channel sees.

    With `distinct`, coincident anchors are refused: functions centred on them would be equal.
    """
    check_space(space)
    if isinstance(anchors, Constraint):
        anchors = [anchors]
    owners: list[str] = []
    if _are_constraints(anchors):
        parts = []
        for constraint in anchors:
            repeats = _conditions_per_point(constraint)
            parts.append(constraint.points.repeat_interleave(repeats, dim=0))
            owners += [constraint.name] * parts[-1].shape[0]
        dtype = torch.float64 if any(p.dtype == torch.float64 for p in parts) else parts[0].dtype
        points = torch.cat([p.to(dtype) for p in parts])
    else:
        points = as_points(anchors, len(space.coordinates), "anchors")
        points = points.clone()
    if distinct:
        _refuse_repeated(points, owners)
    return points


def _are_constraints(anchors: object) -> bool:
    if isinstance(anchors, Tensor) or not isinstance(anchors, Sequence) or not len(anchors):
        return False
    kinds = {isinstance(a, Constraint) for a in anchors}
    if kinds == {True, False}:
        raise BasisError("anchors are either a tensor of points (N, D) or a list of constraints, not a mixture")
    return kinds == {True}


def _conditions_per_point(constraint: Constraint) -> int:
    """The largest number of rows of the operator that any one channel takes part in."""
    counts: dict[str | None, int] = {}
    for row in constraint.operator.rows:
        for channel in {term.channel for term in row}:
            counts[channel] = counts.get(channel, 0) + 1
    return max(counts.values())


def coincident(points: Tensor) -> np.ndarray:
    """Pairs (K, 2) of points that are the same up to rounding: each with one other, however many there are."""
    array = points.detach().cpu().numpy()
    extent = float((array.max(axis=0) - array.min(axis=0)).max()) or 1.0
    different, first, which = np.unique(array, axis=0, return_index=True, return_inverse=True)
    every = np.arange(array.shape[0])
    partner = first[which.reshape(-1)]
    same = np.stack([partner, every], axis=1)[partner != every]
    if different.shape[0] == 1:
        return same
    apart, nearest = cKDTree(different).query(different, k=2)
    near = apart[:, 1] <= COINCIDENT * extent
    close = np.sort(np.stack([first[near], first[nearest[near, 1]]], axis=1), axis=1)
    return np.unique(np.concatenate([same, close]), axis=0)


def measure_spacing(points: Tensor) -> float | None:
    """Median distance between neighbouring distinct points; None if there is only one."""
    distinct = torch.unique(points, dim=0).detach().cpu().numpy()
    if len(distinct) < 2:
        return None
    distances = cKDTree(distinct).query(distinct, k=2)[0][:, 1]
    return float(sorted(distances)[len(distinct) // 2])


def _refuse_repeated(points: Tensor, owners: list[str]) -> None:
    pairs = coincident(points)
    if not len(pairs):
        return
    first, second = int(pairs[0][0]), int(pairs[0][1])
    where = ", ".join(f"{v:.6g}" for v in points[first].tolist())
    who = ""
    if owners:
        same = owners[first] == owners[second]
        who = f" (rows of {owners[first]!r})" if same else f" (constraints {owners[first]!r} and {owners[second]!r})"
    raise RepeatedAnchorError(
        f"{len(pairs)} pairs of anchors coincide, the first at ({where}){who}: one shared kernel gives them equal "
        "columns, so the system would be singular. For several conditions at one point use "
        "cnf.bases.Hermite(space, constraints, kernel) or HypernetKernel; for points given twice, remove the "
        "copies; or pass distinct anchors of your own"
    )
