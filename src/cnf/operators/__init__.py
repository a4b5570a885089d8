"""What is asked of a field: operators, their algebra, the LaTeX reader, and derivatives."""

from cnf.operators.library import (
    Recipe,
    biharmonic,
    curl,
    directional,
    divergence,
    gradient,
    identity,
    integral,
    laplacian,
    partial,
    value_at,
)
from cnf.operators.operator import Operator, Term, stacked

__all__ = [
    "Operator",
    "Recipe",
    "Term",
    "biharmonic",
    "curl",
    "directional",
    "divergence",
    "gradient",
    "identity",
    "integral",
    "laplacian",
    "partial",
    "stacked",
    "value_at",
]
