"""Mesh: cells, the degree on them, and the patches that they are of a domain that is no box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from torch import nn

from cnf.bases.cells import Cells, Face
from cnf.bases.corner_functions import CornerFunctions
from cnf.bases.cover import Cover
from cnf.bases.edge_functions import Edge, EdgeFunctions
from cnf.pde.domains import Domain, Timed
from cnf.pde.domains.regions import Regions
from cnf.pde.patches.aligned import Aligned
from cnf.pde.patches.first_layout import lay_out_first
from cnf.pde.patches.orders import Orders
from cnf.pde.patches.shaped import Shaped
from cnf.pde.patches.shaped_layout import ShapedLayout, lay_out
from cnf.pde.patches.slabs import Slabs, lay_out_slabs
from cnf.pde.patches.solid import Solid
from cnf.pde.patches.solid_layout import lay_out_solid


@dataclass(frozen=True)
class Mesh:
    """Cells, the degree on them, and their faces; `shaped` says what of them lies inside a domain that is no box.

    `base` is what is known of the field in advance.
    """

    cells: Cells
    degree: tuple[int, ...]
    faces: tuple[Face, ...]
    shaped: Shaped | Slabs | Solid | Aligned | None = None
    corners: tuple[CornerFunctions | EdgeFunctions, ...] = ()
    base: nn.Module | None = None
    stiffness: tuple[float, ...] = ()  # of the regions
    amplitudes: tuple[float, ...] = ()  # by how much the field varies in each of them, if that is known
    strength: float = 1.0  # of guides
    first: Orders | None = None  # of equations of first order on a planar shape; None: of second order, or on a box
    waves: bool = False  # travel through patches that the boundary cuts

    @staticmethod
    def of(
        cells: Cells,
        degree: Sequence[int],
        domain: Domain | None = None,
        corners: Sequence[CornerFunctions] = (),
        base: nn.Module | None = None,
        regions: Regions | None = None,
        stiffness: Sequence[float] = (),
        edges: Sequence[Edge] = (),
    ) -> Mesh:
        """`corners` are those of a planar domain, `edges` those of a solid."""
        shaped: Shaped | Slabs | Solid | Aligned | None = None
        functions: tuple[CornerFunctions | EdgeFunctions, ...] = tuple(corners)
        if domain is not None and is_aligned(domain, regions):
            assert regions is not None
            shaped = Aligned.of(domain, cells, regions)
        elif domain is not None and not (domain._is_box and not corners and regions is None):
            if isinstance(domain, Timed):
                shaped = Slabs.of(domain, cells, regions)
            elif domain.dimension == 3:
                shaped = Solid.of(domain, cells, regions)
                functions = tuple(dict.fromkeys(EdgeFunctions(own) for own in shaped.edges_of(edges) if own))
            else:
                shaped = Shaped.of(domain, cells, regions)
        return Mesh(cells, tuple(degree), tuple(cells.faces()), shaped, functions, base, tuple(stiffness))

    def raised(self, by: int) -> Mesh:
        """The same with a higher degree, along edges too."""
        corners = tuple(c.raised(by) if isinstance(c, EdgeFunctions) else c for c in self.corners)
        return replace(self, degree=tuple(p + by for p in self.degree), corners=corners)

    @property
    def patches(self) -> Cells | Cover:
        """What has functions of its own: the cells, or the patches that cover the domain."""
        return self.cells if self.shaped is None else self.shaped.cover

    @cached_property
    def shaped_layout(self) -> ShapedLayout | None:
        if isinstance(self.shaped, Slabs):
            return lay_out_slabs(self.shaped, self.degree, self.stiffness, self.waves)
        if isinstance(self.shaped, Solid):
            return lay_out_solid(self.shaped, self.degree, self.stiffness)
        if isinstance(self.shaped, Shaped) and self.first is not None:
            return lay_out_first(self.shaped, self.degree, self.first)
        if isinstance(self.shaped, Shaped):
            return lay_out(self.shaped, self.degree, self.stiffness)
        return None

    @cached_property
    def at_corner(self) -> np.ndarray:
        """The corner that every patch touches, (patches,); -1 for none."""
        found = np.full(self.patches.count, -1)
        if isinstance(self.shaped, Shaped):
            for k, corner in enumerate(self.corners):
                assert isinstance(corner, CornerFunctions)
                found[self.shaped.patches_at(corner.centre, corner.start, corner.end)] = k
        if isinstance(self.shaped, Solid) and self.corners:
            groups = [c.edges for c in self.corners if isinstance(c, EdgeFunctions)]
            edges = list({edge.place: edge for own in groups for edge in own}.values())
            number = {frozenset(edge.place for edge in own): k for k, own in enumerate(groups)}
            found[:] = [number.get(frozenset(e.place for e in own), -1) for own in self.shaped.edges_of(edges)]
        return found

    @cached_property
    def patches_of_cells(self) -> np.ndarray:
        """The patch of every cell in every region, (cells, regions); -1 outside."""
        return np.arange(self.cells.count)[:, None] if self.shaped is None else self.shaped.cover.patch

    @cached_property
    def region(self) -> np.ndarray:
        """The region of every patch, (patches,)."""
        return np.zeros(self.cells.count, dtype=np.int64) if self.shaped is None else self.shaped.cover.region


def is_aligned(domain: Domain, regions: Regions | None) -> bool:
    """Whether there are regions that cells of a box can be cut along; those of the plane may be cut anyhow."""
    plane = domain.dimension == 2 and not isinstance(domain, Timed)
    return regions is not None and domain._is_box and not plane and regions.flat_at is not None
