"""Interfaces in a solid: the points that patches of regions have where they meet others, and what is tied there.

As in the plane (`shaped_layout`): an interface is the boundary of the patches on either side, and each has points on it
as if it were alone. Fluxes are tied at those of the side with the larger coefficients, values at those of the other
one; where coefficients are alike, values at those of the smaller patch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cnf.bases.cover import OUTSIDE
from cnf.pde.patches.meeting import lattice
from cnf.pde.patches.shaped_layout import ALIKE, Border, joined_borders
from cnf.pde.patches.solid import Solid

ON_PART = 4  # points along both coordinates of a flat face that say what lies beyond


@dataclass(frozen=True)
class Contact:
    """Points (P, 3) of a patch where it meets another region, with outward normals (P, 3)."""

    patch: int
    beyond: int
    points: np.ndarray
    normals: np.ndarray

    def others(self, solid: Solid) -> np.ndarray:
        """The patches on the other side, (P,)."""
        return solid.cover.locate(self.points + solid.step * self.normals, self.beyond)


def contacts_among(solid: Solid, patch: int, points: np.ndarray, normals: np.ndarray) -> list[Contact]:
    """Those of a patch, of points on its boundary."""
    beyond = solid.beyond(points, normals)
    return [
        Contact(patch, int(region), points[beyond == region], normals[beyond == region])
        for region in np.unique(beyond[beyond != OUTSIDE])
    ]


def borders_at(
    solid: Solid, contacts: Sequence[Contact], stiffness: Sequence[float], both: bool = False
) -> dict[tuple[int, str], Border]:
    """Per interface what is tied where, "values" and "fluxes", or `both`; `stiffness` as for `lay_out_solid`."""
    if solid.regions is None or not contacts:
        return {}
    numbers = {(face.first, face.second): k for k, face in enumerate(solid.regions.interfaces)}
    region, size = solid.cover.region, (solid.cover.upper - solid.cover.lower).prod(axis=1)
    parts: dict[tuple[int, str], list[Border]] = {}
    for own in contacts:
        here = int(region[own.patch])
        leads_away = here < own.beyond
        number = numbers[min(here, own.beyond), max(here, own.beyond)]
        there = own.others(solid)
        soft = np.full(len(there), stiffness[here] < stiffness[own.beyond])
        if max(stiffness[here], stiffness[own.beyond]) < ALIKE * min(stiffness[here], stiffness[own.beyond]):
            same = np.isclose(size[own.patch], size[there], rtol=1e-9)
            soft = np.where(same, leads_away, size[own.patch] < size[there])
        ends = np.full(len(there), own.patch), there
        first, second = ends if leads_away else ends[::-1]
        normals = own.normals if leads_away else -own.normals
        for kind, kept in (("values", soft | both), ("fluxes", ~soft | both)):
            parts.setdefault((number, kind), []).append(
                Border(own.points[kept], normals[kept], first[kept], second[kept])
            )
    return {key: joined_borders(own) for key, own in parts.items()}


def met_across(solid: Solid) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of patches (n, 2) that meet across interfaces, and how much, in faces of the first one, (n,)."""
    pairs: list[tuple[int, int]] = []
    shares: list[float] = []
    for patch, surfaces in enumerate(solid.boundary if len(solid.shapes) > 1 else ()):
        total = sum(len(surface.points) for surface in surfaces)
        for surface in surfaces:
            if surface.beyond != OUTSIDE:
                contact = Contact(patch, surface.beyond, surface.points, surface.normals)
                other, count = np.unique(contact.others(solid), return_counts=True)
                pairs += [(patch, int(k)) for k in other]
                shares += (solid.curved_area(patch) * count / total).tolist()
    for part in solid.parts if len(solid.shapes) > 1 else ():
        if part.second == OUTSIDE:
            points = lattice(part.lower[None], part.upper[None], ON_PART)[0]
            points[:, part.axis] = part.position
            normals = np.zeros_like(points)
            normals[:, part.axis] = 2 * part.side - 1
            frame = solid.cover.upper[part.first] - solid.cover.lower[part.first]
            share = min(1.0, part.area / np.delete(frame, part.axis).prod())
            for contact in contacts_among(solid, part.first, points, normals):
                other, count = np.unique(contact.others(solid), return_counts=True)
                pairs += [(part.first, int(k)) for k in other]
                shares += (share * count / len(points)).tolist()
    return np.array(pairs, dtype=np.int64).reshape(-1, 2), np.array(shares)
