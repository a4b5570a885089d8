"""What is asked of a field: operators, their algebra, the LaTeX reader, and derivatives."""

from typing import TYPE_CHECKING

from cnf.late import from_modules, late_names

if TYPE_CHECKING:
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

__getattr__, __dir__ = late_names(
    __name__,
    from_modules(
        {
            "cnf.operators.library": "Recipe biharmonic curl directional divergence gradient "
            "identity integral laplacian partial value_at",
            "cnf.operators.operator": "Operator Term stacked",
        }
    ),
)

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
