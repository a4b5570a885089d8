"""Domains: where a problem lives. Shapes, their combinations, time; points inside, on the boundary and on slices."""

from typing import TYPE_CHECKING

from cnf.late import from_modules, late_names

if TYPE_CHECKING:
    from cnf.pde.domains.ball import Ball, Disk
    from cnf.pde.domains.box import Box, Interval
    from cnf.pde.domains.combinations import Difference, Intersection, Union
    from cnf.pde.domains.description import describe, domain_from, to_text
    from cnf.pde.domains.domain import Domain, Sample
    from cnf.pde.domains.groups import read_mesh_domain, region_names
    from cnf.pde.domains.layouts import LAYOUTS
    from cnf.pde.domains.level_set import LevelSet
    from cnf.pde.domains.outline import Outline
    from cnf.pde.domains.polygon import Polygon
    from cnf.pde.domains.solid import Solid
    from cnf.pde.domains.timed import Timed

__getattr__, __dir__ = late_names(
    __name__,
    from_modules(
        {
            "cnf.pde.domains.ball": "Ball Disk",
            "cnf.pde.domains.box": "Box Interval",
            "cnf.pde.domains.combinations": "Difference Intersection Union",
            "cnf.pde.domains.description": "describe domain_from to_text",
            "cnf.pde.domains.domain": "Domain Sample",
            "cnf.pde.domains.groups": "read_mesh_domain region_names",
            "cnf.pde.domains.layouts": "LAYOUTS",
            "cnf.pde.domains.level_set": "LevelSet",
            "cnf.pde.domains.outline": "Outline",
            "cnf.pde.domains.polygon": "Polygon",
            "cnf.pde.domains.solid": "Solid",
            "cnf.pde.domains.timed": "Timed",
        }
    ),
)

__all__ = [
    "LAYOUTS",
    "Ball",
    "Box",
    "Difference",
    "Disk",
    "Domain",
    "Intersection",
    "Interval",
    "LevelSet",
    "Outline",
    "Polygon",
    "Sample",
    "Solid",
    "Timed",
    "Union",
    "describe",
    "domain_from",
    "read_mesh_domain",
    "region_names",
    "to_text",
]
