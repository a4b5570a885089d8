"""Materials, conditions: the measurements that a fitted field must reproduce exactly.

In: a material and how to place conditions. Out: `Samples` at which log(1 + f) is imposed. The paper's way is half
uniform angles, half around the highlight; "largest-error" puts them one after the other where the field that meets
those placed so far is farthest from the material. Either may lie on the nodes of MERL's grid: of a table these are its
measurements, and a table that is made of the field has them as entries.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from cnf.errors import ConstraintError
from cnf.materials.fitting.sampling import (
    Draw,
    Samples,
    as_samples,
    draw_valid,
    highlight_angles,
    look_up,
    take_measurements,
    uniform_angles,
)
from cnf.materials.reflectance.angles import encode
from cnf.materials.reflectance.material import Material
from cnf.materials.reflectance.merl import Table, node_numbers, snap_to_nodes
from cnf.materials.reflectance.scattered import Scattered

PLACEMENTS = ("paper", "largest-error")
ON_NODES = ("auto", "yes", "no")  # "auto": if the material is a table, which knows nothing else
ROUNDS = 20  # of looking for further nodes before a material counts as known at too few
CANDIDATES = 20_000
PER_ROUND = 10  # conditions placed between two solves
CLOSE = 1e-6  # encoded distance below which two measurements are of one direction
APART = 0.15  # encoded distance within which one condition makes the next less urgent

Interpolate = Callable[[Samples, Tensor], Tensor]  # conditions, encoded points (P, 6) -> log(1 + f) there (P, 3)


def place_conditions(
    material: Material,
    count: int,
    seed: int = 0,
    placement: str = "paper",
    interpolate: Interpolate | None = None,
    grid: str | None = None,
) -> Samples:
    """`count` conditions; "largest-error" needs `interpolate`, the field that meets given conditions.

    `grid`: the convention of MERL's nodes that they lie on, see `choose_grid`; None: they lie anywhere.
    """
    if placement not in PLACEMENTS:
        raise ConstraintError(f"placement is one of {', '.join(PLACEMENTS)}; got {placement!r}")
    if count < 1:
        raise ConstraintError(f"a fit needs at least one condition; got {count}")
    generator = torch.Generator().manual_seed(seed + 1)
    if placement == "largest-error" and interpolate is None:
        raise ConstraintError("placement by the largest error needs a field to measure it with")
    pool = candidates(material, count if placement == "paper" else max(CANDIDATES, count), generator, grid)
    if grid is not None and len(pool) < count:
        raise ConstraintError(
            f"{material.label} is known at too few nodes of MERL's grid: {len(pool)} of {count} found; ask for fewer "
            "conditions, or let them lie between nodes (--on-nodes no)"
        )
    return pool if interpolate is None or placement == "paper" else largest_errors(pool, count, interpolate)


def choose_grid(material: Material, on_nodes: str = "auto") -> str | None:
    """The convention of the nodes that conditions lie on, a table's own; None if they lie anywhere."""
    if isinstance(material, Scattered):
        if on_nodes == "yes":
            raise ConstraintError(
                f"conditions of {material.label} are its measurements, which lie where they were measured; leave "
                "--on-nodes out"
            )
        return None
    if isinstance(material, Table):
        return None if on_nodes == "no" else material.convention
    return "nodes" if on_nodes == "yes" else None


def candidates(material: Material, count: int, generator: torch.Generator, grid: str | None = None) -> Samples:
    """Half around the highlight, half anywhere; of measurements, half those nearest the highlight, half any others.

    On the nodes of a grid there may be fewer than `count`.
    """
    near = count // 2
    if grid is not None:
        around = draw_nodes(material, near, highlight_angles, generator, grid)
        return look_up_nodes(material, draw_nodes(material, count, uniform_angles, generator, grid, around), grid)
    if not isinstance(material, Scattered):
        around = draw_valid(material, near, highlight_angles, generator)
        return look_up(material, torch.cat([around, draw_valid(material, count - near, uniform_angles, generator)]))
    single = distinct(material)
    known = len(single)
    if known < count:
        count = near = known
    by_highlight = single[material.angles[single, 0].argsort()]
    others = by_highlight[near:][torch.randperm(known - near, generator=generator)[: count - near]]
    return take_measurements(material, torch.cat([by_highlight[:near], others]))


def draw_nodes(
    material: Material, count: int, draw: Draw, generator: torch.Generator, grid: str, found: Tensor | None = None
) -> Tensor:
    """Angles as of `draw_valid`, moved to distinct nodes, after those already `found`: `count` in all, or fewer."""
    found = torch.empty(0, 3, dtype=torch.float64) if found is None else found
    for _ in range(ROUNDS):
        drawn = draw_valid(material, count - len(found), draw, generator)
        found = snap_to_nodes(torch.cat([found, drawn]), grid, material)  # nodes stay where they are
        if len(found) == count:
            break
    return found


def look_up_nodes(material: Material, angles: Tensor, grid: str) -> Samples:
    """The material at nodes: entries of a table as they are, not to the rounding of an interpolation."""
    if isinstance(material, Table) and material.convention == grid:
        return as_samples(material, angles, material.values.reshape(-1, 3)[node_numbers(angles, grid)])
    return look_up(material, angles)


def distinct(material: Scattered) -> Tensor:
    """Numbers of the measurements that can be exact together: of equal copies the first, of contradictory ones none."""
    places = encode(material.angles).div(CLOSE).round().numpy()
    _, first, group = np.unique(places, axis=0, return_index=True, return_inverse=True)
    values = material.values.numpy()
    spread = np.zeros((len(first), values.shape[1]))
    np.maximum.at(spread, group.reshape(-1), np.abs(values - values[first][group.reshape(-1)]))
    agree = (spread <= CLOSE * (1 + values[first])).all(axis=1)
    kept = torch.from_numpy(np.sort(first[agree]))
    if not len(kept):
        raise ConstraintError(
            f"{material.label}: every direction is measured more than once, with different values, which cannot all be "
            "exact; average them first"
        )
    return kept


def largest_errors(pool: Samples, count: int, interpolate: Interpolate) -> Samples:
    """Greedy choice from the pool: the worst first, and no two close together in one round."""
    chosen: list[int] = []
    count = min(count, len(pool))
    errors = pool.logs.abs().sum(dim=1)
    while len(chosen) < count:
        urgent = errors.clone()
        urgent[chosen] = -1.0
        for _ in range(min(PER_ROUND, count - len(chosen))):
            worst = int(urgent.argmax())
            chosen.append(worst)
            distance = (pool.points - pool.points[worst]).square().sum(dim=1)
            urgent = urgent * (1 - torch.exp(-distance / APART**2))
            urgent[worst] = -1.0
        picked = select(pool, torch.tensor(chosen))
        if len(chosen) < count:
            errors = (interpolate(picked, pool.points) - pool.logs).abs().sum(dim=1)
    return picked


def select(samples: Samples, which: Tensor) -> Samples:
    return Samples(samples.points[which], samples.logs[which], samples.cosines[which])
