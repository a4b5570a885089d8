"""Sizing: the memory that a mesh in space takes to be solved on, before anything of it is taken.

Most of it goes into the merging of neighbours (`cnf.solvers.null_space`): what a merge keeps is as large as the ties it
finishes times those it leaves and the coordinates it has. These follow from the faces that patches share. During time
there is a factor for every stage of a slab (`cnf.solvers.stages`), real or complex, and slabs that are not alike have
factors of their own, of which the last ones are kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from cnf.pde.patches.mesh import Mesh
from cnf.pde.patches.slabs import Slabs
from cnf.pde.patches.solid import Solid
from cnf.pde.patches.solid_interfaces import met_across
from cnf.pde.patches.solid_layout import GUIDES_ON, ON_INTERFACE
from cnf.solvers.marching import KEPT
from cnf.solvers.merging import merging_order
from cnf.systems.tied import LARGE

NUMBER = 8  # bytes
LOCAL = 4.0  # tables as large as all functions of a patch squared: rows, guides, their factors, and copies of them
LOOSE = 9.0  # rows as long as all functions of a patch for a tie that is fitted: of both sides, what it misses, copies
STAGE = 3.0  # such tables for every stage of a slab: rows, ties, what guides make of weights
SLAB = 20.0  # and for a slab: rows at rest and in motion, guides, its start, and those of the slab it is compared with
POINT = 80  # numbers for every function of all slabs: where its condition holds, and what it asks for
FACTORS = 1.5  # as LOCAL without rows and guides, where those are worked out when they are asked for
COPIES = 4  # of the largest merge, while it is worked out


def memory_needed(mesh: Mesh, channels: int = 1, multipliers: int = 0) -> float:
    """Bytes that a solid takes to be solved on, about; `multipliers` are those of the channels that are not tied."""
    if isinstance(mesh.shaped, Slabs):
        return _during_time(mesh.shaped, mesh.degree, channels)
    assert isinstance(mesh.shaped, Solid)
    tied = channels - multipliers
    tables, loose, merged = _tables_and_merges(mesh.shaped, max(mesh.degree), tied, multipliers)
    p, count = max(mesh.degree), mesh.shaped.cover.count
    used = tied * ((p + 1) ** 3 - 3 * p - 1) + multipliers * (p - 1) ** 3  # no products of two highest degrees
    kept = FACTORS if count * used**2 > LARGE and not loose else LOCAL
    return NUMBER * (kept * tables + loose + merged)


def _during_time(slabs: Slabs, degree: tuple[int, ...], channels: int) -> float:
    """The same for slabs: a stage that is complex takes twice as much and stands for two, so all take as many."""
    sizes = []
    for slab in {id(slab.shaped): slab for slab in slabs.slabs}.values():
        assert isinstance(slab.shaped, Solid)
        tables, _, merged = _tables_and_merges(slab.shaped, max(degree), channels)
        sizes.append((degree[-1] * (STAGE * tables + merged), SLAB * tables))
    factors, rows = (max(own) for own in zip(*sizes, strict=True))
    kinds = {(id(slab.shaped), round(math.log(slab.end - slab.start), 6)) for slab in slabs.slabs}
    functions = channels * slabs.cover.count * math.prod(p + 1 for p in degree)
    return NUMBER * (min(len(kinds), KEPT) * factors + rows + POINT * functions)


def _tables_and_merges(solid: Solid, p: int, channels: int, multipliers: int = 0) -> tuple[float, float, float]:
    """Numbers in tables as large as all functions of a patch squared, in ties that are fitted, and in merges.

    Of so many `channels` that are tied, and `multipliers` beside them.
    """
    functions = channels * (p + 1) ** 3 + multipliers * (p - 1) ** 3
    frame = solid.cover.upper - solid.cover.lower
    inner = [part for part in solid.parts if part.second >= 0]
    pairs = np.array([(part.first, part.second) for part in inner]).reshape(-1, 2)
    ties = np.zeros(len(inner))
    for k, part in enumerate(inner):
        faces = [np.delete(frame[side], part.axis).prod() for side in pairs[k]]
        ties[k] = channels * p**2 * sum(min(1.0, part.area / face) for face in faces)
    across, shares = met_across(solid)
    pairs, ties = np.concatenate([pairs, across]), np.concatenate([ties, channels * ON_INTERFACE * p**2 * shares])
    loose = channels * 2 * GUIDES_ON * p**2 * shares.sum()  # of values and of fluxes
    return float(solid.cover.count * functions**2), LOOSE * loose * functions, _merged(solid, pairs, ties)


def _merged(solid: Solid, pairs: np.ndarray, ties: np.ndarray) -> float:
    """Numbers that merging keeps and works with: patches are tied in `pairs` (F, 2) by so many `ties` (F,)."""
    count = solid.cover.count
    open_faces: list[set[int]] = [set() for _ in range(count)]
    for face, (first, second) in enumerate(pairs.tolist()):
        open_faces[first].add(face)
        open_faces[second].add(face)

    def tied(faces: Iterable[int]) -> float:
        return float(ties[list(faces)].sum())

    coordinates = [tied(own) / 2 * (1.0 if whole else 2.0) for own, whole in zip(open_faces, solid.whole, strict=True)]
    kept = largest = 0.0
    for first, second in merging_order((solid.cover.lower + solid.cover.upper) / 2, pairs, ties):
        done = open_faces[first] & open_faces[second]
        left = open_faces[first] ^ open_faces[second]
        finished, outstanding = tied(done), tied(left)
        width = coordinates[first] + coordinates[second]
        kept += finished * (width + outstanding)
        largest = max(largest, (finished + outstanding) * width)
        open_faces.append(left)
        coordinates.append(min(max(width - finished, 0.0), outstanding))
    return kept + COPIES * largest
