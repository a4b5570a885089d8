"""What is asked of a planar distance field: conditions at points of a curve.

What goes out: a few points of a curve with their outward normals, the exact signed distance (negative inside), and the
conditions: value and gradient at the points, or values at the points and a little off them along the normals.
"""

from __future__ import annotations

import math

from torch import Tensor

import cnf
from cnf.errors import CnfError
from cnf.shapes.planar.square import Square

SPACE = cnf.Space("x y", "d")
SQUARE = Square(-2.0, 2.0)  # where the field lives
OFFSET = 0.1  # of pseudo-normal points from the curve


def exact_conditions(points: Tensor, normals: Tensor) -> list[cnf.Constraint]:
    """d = 0 and grad d = n at every point: 3 n conditions."""
    return [
        SPACE.constraint("d = 0", at=points, name="surface"),
        SPACE.constraint(r"\nabla d", at=points, equals=normals, name="normals"),
    ]


def pseudo_conditions(points: Tensor, normals: Tensor, offset: float = OFFSET) -> list[cnf.Constraint]:
    """d = 0 at every point, d = offset and -offset on either side of it: 3 n conditions, none on a derivative."""
    if not (math.isfinite(offset) and offset > 0):
        raise CnfError(f"the offset of pseudo-normals is a positive length; got {offset!r}")
    return [
        SPACE.constraint("d = 0", at=points, name="surface"),
        SPACE.constraint("d", at=points + offset * normals, equals=offset, name="outside"),
        SPACE.constraint("d", at=points - offset * normals, equals=-offset, name="inside"),
    ]
