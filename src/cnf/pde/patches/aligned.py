"""Aligned: regions whose interfaces run along faces of cells, so that every cell belongs to one of them.

In any number of coordinates, with time or without it, in boxes and solids. Patches are laid out as if there were no
regions; what ties two patches of different regions is not what ties two of the same: seams become borders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cnf.bases.cells import Cells
from cnf.bases.cover import OUTSIDE, Cover
from cnf.pde.domains import Domain
from cnf.pde.domains.regions import Interface, Regions
from cnf.pde.patches.layout import Seam
from cnf.pde.patches.shaped_layout import Border

KINDS = {"fine": "values", "coarse": "fluxes"}  # of seams, and of borders


@dataclass(frozen=True)
class Aligned:
    """A box with regions: its cells, each a patch of one region."""

    domain: Domain
    cover: Cover

    @staticmethod
    def of(domain: Domain, cells: Cells, regions: Regions) -> Aligned:
        region = regions.number((cells.lower + cells.upper) / 2)
        patch = by_region(np.arange(cells.count), region, regions)
        return Aligned(domain, Cover(cells, patch, cells.lower, cells.upper, regions.partition))

    def inside(self, points: np.ndarray) -> np.ndarray:
        return self.domain._inside(points)


def by_region(patch: np.ndarray, region: np.ndarray, regions: Regions) -> np.ndarray:
    """The patch of every cell (n,) in the column of its region (n,), (n, regions): what a `Cover` takes."""
    found = np.full((len(patch), regions.partition.count), OUTSIDE)
    found[np.arange(len(patch)), region] = patch
    return found


def borders_of(
    regions: Regions, seams: Mapping[tuple[int, str], Seam], region: np.ndarray
) -> dict[tuple[int, str], list[Border]]:
    """What seams between patches of different regions (patches,) are, per interface and kind: "values" and "fluxes"."""
    found: dict[tuple[int, str], list[Border]] = {}
    for (axis, kind), seam in seams.items():
        ends = region[seam.first], region[seam.second]
        for number, face in enumerate(regions.interfaces):
            for border in _across(face, axis, seam, *ends, regions.space.dimension):
                found.setdefault((number, KINDS[kind]), []).append(border)
    return found


def _across(
    face: Interface, axis: int, seam: Seam, below: np.ndarray, above: np.ndarray, dimension: int
) -> list[Border]:
    """The parts of a seam that belong to an interface, with the normal upwards and downwards."""
    found = []
    for sign, (low, high) in ((1.0, (face.first, face.second)), (-1.0, (face.second, face.first))):
        own = seam.where((below == low) & (above == high))
        if len(own.points):
            normals = np.zeros((len(own.points), dimension))
            normals[:, axis] = sign
            sides = (own.first, own.second) if sign > 0 else (own.second, own.first)
            found.append(Border(own.points, normals, *sides))
    return found


def meets_faces(face: Interface, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Which boxes with corners (n, D) may have a part of an interface of flat faces in them, or on their own faces."""
    found = np.zeros(len(lower), dtype=bool)
    for axis, position in face.flat_at or ():
        found |= (lower[:, axis] <= position) & (position <= upper[:, axis])
    return found
