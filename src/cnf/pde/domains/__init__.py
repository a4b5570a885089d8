"""Domains: where a problem lives. Shapes, their combinations, time; points inside, on the boundary and on slices."""

from cnf.domains.ball import Ball, Disk
from cnf.domains.box import Box, Interval
from cnf.domains.combinations import Difference, Intersection, Union
from cnf.domains.description import describe, domain_from, to_text
from cnf.domains.domain import Domain, Sample
from cnf.domains.layouts import LAYOUTS
from cnf.domains.polygon import Polygon
from cnf.domains.timed import Timed

__all__ = [
    "LAYOUTS",
    "Ball",
    "Box",
    "Difference",
    "Disk",
    "Domain",
    "Intersection",
    "Interval",
    "Polygon",
    "Sample",
    "Timed",
    "Union",
    "describe",
    "domain_from",
    "to_text",
]
