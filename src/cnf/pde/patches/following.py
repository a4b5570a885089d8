"""Following: conditions inside that follow from all the others, found so that one of them can be left out.

If equations and boundary leave something free (the constant of a pressure, that of a field whose slopes are given, the
motions of a body that nothing holds), their right-hand sides are not free: as many relations hold between them, such as
that what flows through the boundary is what has its sources inside. Points meet these relations only as well as they
resolve the field: with all of them there would be one condition too many for every relation. So as many points inside
are left out; what the equations miss there is looked at like everywhere else between the points.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from threadpoolctl import threadpool_limits

from cnf.bases.cells import Cells
from cnf.bases.cover import Cover
from cnf.constraints import Constraint
from cnf.pde.patches.orders import Orders

NOTHING = 1e-9  # what a condition makes of a free motion, relative to what it makes of others


@threadpool_limits.wrap(limits=1, user_api="blas")  # rows of many points, of few columns
def free_motions(conditions: Sequence[Constraint], lower: Sequence[float], upper: Sequence[float]) -> np.ndarray:
    """Fields of first degree that all conditions map to zero, (K, C, 1 + D): constants, slopes in the unit box."""
    values, vectors = _motions(conditions, lower, upper)
    frame = conditions[0].operator._needs_frame()
    return vectors[:, values <= NOTHING**2].T.reshape(-1, len(frame.channels), 1 + len(frame.coordinates))


def least_restrained(conditions: Sequence[Constraint], lower: Sequence[float], upper: Sequence[float]) -> float:
    """What conditions make of the motion that they restrain least, relative to others; of those that are not free."""
    values, _ = _motions(conditions, lower, upper)
    restrained = values[values > NOTHING**2]
    return float(np.sqrt(restrained.min())) if len(restrained) else 1.0


def _motions(
    conditions: Sequence[Constraint], lower: Sequence[float], upper: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    """How strongly conditions restrain fields of first degree, squared, (N,), and these fields, (N, N) in columns."""
    centre, half = (np.add(upper, lower) / 2), float(np.subtract(upper, lower).max()) / 2
    frame = conditions[0].operator._needs_frame()
    size = len(frame.channels) * (1 + len(frame.coordinates))
    parts = []
    for condition in conditions:
        scale = np.zeros(tuple(condition.values.shape)[::-1])  # (R, P)
        rows = np.zeros((*scale.shape, len(frame.channels), size // len(frame.channels)))
        for probe in condition.expanded():
            z = (probe.points.detach().numpy() - centre) / half
            for r, request in zip(probe.rows, probe.requests, strict=True):
                for index, weight in request.weights.items():
                    factor = np.broadcast_to(weight.detach().numpy(), len(z)) / half ** sum(index)
                    values = _of_first_degree(z, index) * factor[:, None]  # (P nodes, 1 + D)
                    rows[r, :, request.channel] += values.reshape(-1, probe.nodes, values.shape[1]).sum(axis=1)
                    scale[r] += np.abs(factor).reshape(-1, probe.nodes).sum(axis=1)
        flat = (rows / np.where(scale > 0, scale, 1.0)[:, :, None, None]).reshape(-1, size)
        parts.append(np.linalg.qr(flat / np.sqrt(max(1, len(flat))), mode="r"))
    # Of the rows, not of their products: rounding of these would pass for what conditions make of a free motion.
    triangle = np.linalg.qr(np.concatenate([*parts, np.zeros((size, size))]), mode="r")
    _, values, vectors = np.linalg.svd(triangle)
    return values[::-1] ** 2, vectors[::-1].T


def _of_first_degree(z: np.ndarray, index: tuple[int, ...]) -> np.ndarray:
    """The derivative `index` of 1, z_1, .., z_D at points (P, D): (P, 1 + D)."""
    found = np.zeros((z.shape[0], 1 + z.shape[1]))
    if sum(index) == 0:
        found[:, 0], found[:, 1:] = 1.0, z
    elif sum(index) == 1:
        found[:, 1 + index.index(1)] = 1.0
    return found


def following(
    motions: np.ndarray, orders: Orders, patches: Cells | Cover, points: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Which points (P, D) of every equation inside to leave out, (P,) bool each: as many as there are free motions.

    The weights of a relation are those of the motion itself, with the row that restrains others in the place of its
    multiplier: so it is for equations that are their own adjoints in their highest order. Points are left out where
    these weights are largest and furthest apart, in the largest of the patches.
    """
    found = [np.zeros(len(p), dtype=bool) for p in points]
    rows = _row_of_channel(orders)
    if rows is None:
        return found
    number = int((patches.upper - patches.lower).prod(axis=1).argmax())
    centre, half = (patches.upper + patches.lower)[number] / 2, (patches.upper - patches.lower)[number] / 2
    candidates: list[tuple[int, int]] = []
    blocks: list[np.ndarray] = []  # (K, R) each
    for equation, own in enumerate(points):
        count = len(orders.equations[equation].operator.rows)
        channels = [rows.index((equation, r)) for r in range(count)]
        for k in np.flatnonzero(patches.locate(own) == number):
            z = (own[k] - centre) / half
            middle = np.sqrt(np.clip(1 - z**2, 0, None)).prod()
            blocks.append(middle * np.einsum("kcd,d->kc", motions[:, channels], np.concatenate([[1.0], z])))
            candidates.append((equation, int(k)))
    left = len(motions)
    while left:
        sizes = [np.linalg.svd(b, compute_uv=False)[-1] if b.shape[1] <= left else 0.0 for b in blocks]
        best = int(np.argmax(sizes)) if sizes else -1
        if best < 0 or sizes[best] < 1e-8:
            break
        equation, point = candidates[best]
        found[equation][point] = True
        left -= blocks[best].shape[1]
        q = np.linalg.qr(blocks[best])[0]
        blocks = [b - q @ (q.T @ b) for b in blocks]
    return found


def _row_of_channel(orders: Orders) -> list[tuple[int, int]] | None:
    """For every channel, an equation and its row: for multipliers those that restrain, in the order of the file."""
    plain: list[tuple[int, int]] = []
    restraining: list[tuple[int, int]] = []
    for k, equation in enumerate(orders.equations):
        for r, restrains in enumerate(orders.restrains(equation)):
            (restraining if restrains else plain).append((k, r))
    if len(plain) + len(restraining) != len(orders.channels) or len(restraining) != sum(orders.multipliers):
        return None
    turns = iter(plain), iter(restraining)
    return [next(turns[multiplier]) for multiplier in orders.multipliers]
