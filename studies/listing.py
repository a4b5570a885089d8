"""Listing: the studies there are, in the order of the help; a new one is a line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from studies.study import Study


def list_studies() -> list[type[Study]]:
    """All there are."""
    from studies.advection.study import Advection
    from studies.conditioning.study import Conditioning
    from studies.hard_surfaces.study import HardSurfaces
    from studies.light_path import LightPath
    from studies.materials.study import Materials
    from studies.normals.study import Normals
    from studies.shapes.scaling import Scaling
    from studies.shapes.study import Shapes
    from studies.transfer.study import Transfer

    return [Conditioning, Transfer, Advection, LightPath, Normals, Shapes, HardSurfaces, Scaling, Materials]
