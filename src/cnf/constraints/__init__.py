"""Where and how much: constraints, and the space they live in."""

from cnf.constraints.constraint import Constraint
from cnf.constraints.space import Space

__all__ = ["Constraint", "Space"]
