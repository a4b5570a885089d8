"""The contract of the engineering problems: what is asked, and what the answer is. NumPy and SciPy only.

A problem is stated once, as the plain entries of a `cnf.Problem`, so that every package can be started in an
environment of its own. Its answer is known in closed form, or computed here to many more digits than are compared, by
methods that neither cnf nor the other packages use (series, images, analytic functions fitted to the boundary). Every
package is measured at the same points.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray
Function = Callable[[Array], Array]  # points (P, D) -> values (P, C)
COUNT = 2000


@dataclass(frozen=True, eq=False)
class Problem:
    """An engineering problem with its answer at the points where all are measured."""

    name: str
    title: str
    entries: Mapping[str, Any]  # of cnf.Problem, without `solve`
    points: Array  # (P, D)
    reference: Function  # (P, D) -> (P, C) of the compared channels, which come first
    asked: float = 1e-6  # relative error that is asked for
    seconds: float = np.inf  # processor seconds that are asked for
    digits: float = 1e-10  # how far the reference itself can be trusted, relative
    note: str = ""
    trained_by: tuple[str, ...] = ()  # packages that train networks are slow: the problems they are given

    @property
    def channels(self) -> tuple[str, ...]:
        return tuple(str(self.entries.get("channels", "u")).split())


def relative_errors(found: Array, wanted: Array) -> list[float]:
    """Relative L2 error of every compared channel, over the points."""
    found = found[:, : wanted.shape[1]]
    return [float(e) for e in np.linalg.norm(found - wanted, axis=0) / np.linalg.norm(wanted, axis=0)]


def draw_points(
    lower: tuple[float, ...], upper: tuple[float, ...], inside: Callable[[Array], Array] | None = None
) -> Array:
    """Uniform random points of a box, or of what is inside of it, (COUNT, D): the same wherever they are drawn."""
    generator = np.random.default_rng(20240)
    low, high, kept = np.array(lower, float), np.array(upper, float), np.zeros((0, len(lower)))
    while len(kept) < COUNT:
        tried = low + (high - low) * generator.random((4 * COUNT, len(lower)))
        kept = np.concatenate([kept, tried if inside is None else tried[inside(tried)]])
    return kept[:COUNT]


def box(lower: tuple[float, ...], upper: tuple[float, ...], **more: object) -> dict[str, object]:
    """The entry of a box."""
    return {"type": "box", "lower": list(lower), "upper": list(upper), **more}


def column(function: Callable[..., Array]) -> Function:
    """A function of the coordinates as one of points (P, D) -> (P, 1)."""
    return lambda points: function(*points.T)[:, None]
