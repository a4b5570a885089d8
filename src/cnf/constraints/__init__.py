"""Where and how much: constraints, the space they live in, and points on domains."""

from cnf.constraints.constraint import Constraint
from cnf.constraints.space import Space
from cnf.domains import Box

__all__ = ["Box", "Constraint", "Space"]
