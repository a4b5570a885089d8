"""Recommend: a basis for given constraints, chosen by the declared properties, with the reason in a sentence."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from cnf.bases.anchors import anchor_points, coincident, measure_spacing
from cnf.bases.basis import Basis
from cnf.bases.fourier import RandomFourier
from cnf.bases.hermite import Hermite
from cnf.bases.hybrid import Hybrid
from cnf.bases.kernel import Kernel
from cnf.bases.kernels import Gaussian, Wendland
from cnf.bases.properties import Properties
from cnf.constraints import Constraint, Space
from cnf.errors import BasisError, CnfWarning

MANY = 3000  # conditions beyond which a dense system takes minutes
WIDE = 2  # functions per condition of a wide basis
REACH = 8.0  # bandwidth over spacing for waves; wide systems bear such smooth functions
NEAR = 2.0  # the same for one kernel per condition, whose system must stay invertible
REACHES = (1.0, 0.5, 0.25, 0.125)  # tried one after the other
SUPPORT = 8.0  # radius over spacing of compactly supported functions


@dataclass(frozen=True)
class Recommendation:
    """A basis ready to use, and why this one.

    >>> space = cnf.Space("x", "u")
    >>> found = cnf.bases.recommend(space.constraint("u = 0", at=[[0.0], [1.0]]))
    >>> isinstance(found.basis, cnf.bases.Basis), bool(found.reason)
    (True, True)
    """

    basis: Basis
    reason: str

    def __str__(self) -> str:
        return f"{type(self.basis).__name__}: {self.reason}"


def recommend(constraints: Sequence[Constraint] | Constraint, reach: float = 1.0) -> Recommendation:
    """The basis that suits the constraints best: by their number, order, and whether points repeat.

    Lengths follow the spacing of the points; `reach` multiplies them (smaller for data that vary from point to point).

    >>> space = cnf.Space("x", "u")
    >>> type(cnf.bases.recommend(space.constraint("u'' = 1", at=cnf.Box(0, 1).grid(20))).basis).__name__
    'RandomFourier'
    """
    if not isinstance(reach, int | float) or not reach > 0:
        raise BasisError(f"reach is a positive number; got {reach!r}")
    given = [constraints] if isinstance(constraints, Constraint) else constraints
    given = list(given) if isinstance(given, Sequence) else []
    if not given or not all(isinstance(c, Constraint) for c in given):
        raise BasisError("recommend takes the list of constraints the field must meet")
    frame = given[0].operator._needs_frame()
    space = Space(frame.coordinates, frame.channels, time=frame.time)
    anchors = anchor_points(space, given, distinct=False)
    count, order = anchors.shape[0], max(c.operator.order for c in given)
    repeated = bool(len(coincident(anchors)))
    preferred = (Hermite, RandomFourier) if repeated and order <= 1 else (RandomFourier, Hybrid, Hermite)
    for kind in preferred if count <= MANY else (Hybrid, Hermite):
        properties = kind.properties
        assert properties is not None
        if _serves(properties, count, repeated):
            return _built(kind, space, given, anchors, order, count, reach)
    raise AssertionError("Hermite serves everything")


def recommend_for(constraints: Sequence[Constraint] | Constraint, meets: Callable[[Basis], bool]) -> Recommendation:
    """The recommended basis with lengths halved until it meets every condition; the first if none does."""
    tried = []
    for reach in REACHES:
        tried.append(recommend(constraints, reach))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CnfWarning)
            if meets(tried[-1].basis):
                return tried[-1]
    return tried[0]


def _serves(properties: Properties, count: int, repeated: bool) -> bool:
    if count > MANY and not properties.controllable_sparsity:
        return False
    return properties.repeated_anchors or not repeated


def _built(
    kind: type[Basis],
    space: Space,
    constraints: list[Constraint],
    anchors: Tensor,
    order: int,
    count: int,
    reach: float,
) -> Recommendation:
    step = reach * (measure_spacing(anchors) or 1.0)
    if kind is RandomFourier:
        basis: Basis = RandomFourier(space, WIDE * count, bandwidth=REACH * step)
        reason = (
            f"{count} conditions per channel fit a dense system, and a wide basis ({WIDE} functions per "
            f"condition, bandwidth {REACH * step:.2g}) solved for the smallest weights loses the fewest digits"
        )
        return Recommendation(basis, reason)
    smooth = min(5, order + 1)
    if kind is Hybrid:
        inner = Kernel(space, anchors, Gaussian(NEAR * SUPPORT / 2 * step))
        basis = Hybrid(inner, Wendland(smooth, SUPPORT * step, dimension=max(3, len(space.coordinates))))
        reason = (
            f"{count} conditions per channel are many for a dense system; functions that vanish beyond "
            f"{SUPPORT * step:.2g} make it sparse"
        )
        return Recommendation(basis, reason)
    if count <= MANY:
        reason = (
            "several conditions share a point, and Hermite functions, made from the conditions themselves, "
            f"are distinct for each; {count} of them fit a dense system"
        )
        return Recommendation(Hermite(space, constraints, Gaussian(NEAR * step)), reason)
    kernel = Wendland(smooth, SUPPORT * step, dimension=max(3, len(space.coordinates)))
    reason = (
        f"{count} conditions per channel are many for a dense system and several share a point; Hermite "
        f"functions with support {SUPPORT * step:.2g} are sparse and distinct for every condition"
    )
    return Recommendation(Hermite(space, constraints, kernel), reason)
