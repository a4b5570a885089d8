"""Domains: where a problem lives. Shapes, their combinations, time; points inside, on the boundary and on slices."""

from cnf.pde.domains.ball import Ball, Disk
from cnf.pde.domains.box import Box, Interval
from cnf.pde.domains.combinations import Difference, Intersection, Union
from cnf.pde.domains.description import describe, domain_from, to_text
from cnf.pde.domains.domain import Domain, Sample
from cnf.pde.domains.layouts import LAYOUTS
from cnf.pde.domains.level_set import LevelSet
from cnf.pde.domains.polygon import Polygon
from cnf.pde.domains.timed import Timed

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
    "Polygon",
    "Sample",
    "Timed",
    "Union",
    "describe",
    "domain_from",
    "to_text",
]
