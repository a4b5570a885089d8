"""Planes: what the pictures of an answer show: values, errors and residuals on lines and planes through the domain."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from cnf.errors import CnfError
from cnf.pde.domains import Timed
from cnf.training.held_out import holds_elsewhere

if TYPE_CHECKING:
    from cnf.constraints import Constraint
    from cnf.pde.domains import Domain
    from cnf.pde.problems.answer import Answer

MASK = 900  # pixels per side of the mask that cuts the domain out of a picture
BLOCK = 6  # pixels per side of what is asked for at once


@dataclass(frozen=True)
class Line:
    """Channels along one coordinate; everything else as in `Plane`."""

    at: np.ndarray  # (n,)
    values: np.ndarray  # (C, n)
    errors: np.ndarray | None  # (C, n)
    exact: np.ndarray | None  # (C, n)
    residual: np.ndarray | None  # (n,)


@dataclass(frozen=True)
class Plane:
    """The answer on a plane along two coordinates, the others fixed; arrays have rows along the second coordinate.

    Outside the domain the arrays repeat the nearest value inside, and `mask` (finer) says what to hide.
    """

    axes: tuple[int, int]
    fixed: Mapping[int, float]
    extent: tuple[float, float, float, float]
    inside: np.ndarray  # (n, n)
    mask: np.ndarray | None  # (MASK, MASK) True outside; None if everything is inside
    values: np.ndarray  # (C, n, n)
    errors: np.ndarray | None  # (C, n, n), NaN for channels without exact solution
    residual: np.ndarray | None  # (n, n), the worst |L f - g| of the equations that hold inside


def sample_line(answer: Answer, count: int = 1001) -> Line:
    """The only coordinate of a problem in one dimension."""
    domain = answer.problem.domain
    low, high = domain.lower[0], domain.upper[0]
    at = torch.linspace(low, high, count, dtype=torch.float64)
    points = at[:, None]
    inside = domain.contains(points, margin=-1e-9 * (high - low)).cpu().numpy()
    values, exact = evaluate(answer, points), evaluate_exact(answer, points)
    values[:, ~inside] = np.nan
    errors = None if exact is None else np.abs(values - exact)
    residual = measure_residual(answer, points)
    if residual is not None:
        residual[~inside] = np.nan
    return Line(at.numpy(), values, errors, exact, residual)


def sample_plane(
    answer: Answer, axes: tuple[int, int], fixed: Mapping[int, float], count: int, with_residual: bool = True
) -> Plane:
    """Values at the centres of `count` x `count` pixels; the residual only if no exact solution is known."""
    domain = answer.problem.domain
    i, j = axes
    extent = (domain.lower[i], domain.upper[i], domain.lower[j], domain.upper[j])
    dimension = len(domain.lower)
    points = pixel_centres(extent, count, axes, fixed, dimension)
    inside = domain.contains(points)
    values = np.full((len(answer.problem.space.channels), count * count), np.nan)
    errors = residual = None
    if bool(inside.any()):
        there, chosen = points[inside], inside.cpu().numpy()
        values[:, chosen] = evaluate(answer, there)
        exact = evaluate_exact(answer, there)
        if exact is not None:
            errors = np.full_like(values, np.nan)
            errors[:, chosen] = np.abs(values[:, chosen] - exact)
        elif with_residual and (found := measure_residual(answer, there)) is not None:
            residual = np.full(count * count, np.nan)
            residual[chosen] = found
    shown = inside.cpu().numpy().reshape(count, count)
    mask = None
    if not shown.all():
        mask = find_outside(domain, extent, axes, fixed)
    square = (-1, count, count)
    return Plane(
        axes,
        dict(fixed),
        extent,
        shown,
        mask,
        filled(values.reshape(square), shown),
        None if errors is None else filled(errors.reshape(square), shown),
        None if residual is None else filled(residual.reshape(square), shown)[0],
    )


def find_outside(
    domain: Domain, extent: Sequence[float], axes: tuple[int, int], fixed: Mapping[int, float]
) -> np.ndarray:
    """Which of MASK x MASK pixels lie outside a domain, (MASK, MASK) bool.

    Blocks of pixels whose middle is farther from the boundary than their corners are all inside or all outside: for
    meshes and smooth curves, which take long to ask, that leaves one pixel in ten.
    """
    blocks, dimension = MASK // BLOCK, len(domain.lower)
    # The first moment is on the edge of time, which is no edge of the picture.
    space = domain.space if isinstance(domain, Timed) and dimension - 1 not in axes else domain
    middles = pixel_centres(extent, blocks, axes, fixed, dimension)[:, : len(space.lower)]
    reach = math.hypot(extent[1] - extent[0], extent[3] - extent[2]) / (2 * blocks)
    inner, outer = (space.contains(middles, margin).cpu().numpy() for margin in (reach, -reach))
    found, near = (np.kron(a.reshape(blocks, blocks), np.ones((BLOCK, BLOCK))) > 0 for a in (~outer, outer & ~inner))
    pixels = pixel_centres(extent, MASK, axes, fixed, dimension)[torch.from_numpy(near.ravel())]
    if len(pixels):
        found[near] = ~domain.contains(pixels).cpu().numpy()
    return found


def pixel_centres(
    extent: Sequence[float], count: int, axes: tuple[int, int], fixed: Mapping[int, float], dimension: int
) -> Tensor:
    """Points (count * count, D), the first of the two coordinates running fastest."""
    steps = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    first = extent[0] + (extent[1] - extent[0]) * steps
    second = extent[2] + (extent[3] - extent[2]) * steps
    points = torch.zeros(count * count, dimension, dtype=torch.float64)
    for axis, value in fixed.items():
        points[:, axis] = value
    points[:, axes[0]] = first.repeat(count)
    points[:, axes[1]] = second.repeat_interleave(count)
    return points


def filled(arrays: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Arrays (K, n, n) with the value of the nearest pixel inside at every pixel outside: no seams along the edge."""
    if inside.all() or not inside.any():
        return arrays
    from scipy.ndimage import distance_transform_edt

    rows, columns = distance_transform_edt(~inside, return_distances=False, return_indices=True)
    return arrays[:, rows, columns]


def evaluate(answer: Answer, points: Tensor) -> np.ndarray:
    """The solution at points, (C, P)."""
    with torch.no_grad():
        return answer(points).to(torch.float64).cpu().numpy().T.copy()


def evaluate_exact(answer: Answer, points: Tensor) -> np.ndarray | None:
    """The exact solution at points, (C, P), NaN for channels without one; None if there is none at all."""
    known = answer.problem.exact
    if not known:
        return None
    found = np.full((len(answer.problem.space.channels), points.shape[0]), np.nan)
    with torch.no_grad():
        for k, name in enumerate(answer.problem.space.channels):
            if name in known:
                found[k] = torch.as_tensor(known[name](points)).to(torch.float64).reshape(-1).cpu().numpy()
    return found


def interior_constraints(answer: Answer) -> list[Constraint]:
    """The constraints that hold everywhere inside and can be checked at any point."""
    inside = {equation.name for equation in answer.problem.equations if equation.on == "interior"}
    return [c for c in answer.field.constraints if c.name in inside and holds_elsewhere(c)]


def measure_residual(answer: Answer, points: Tensor) -> np.ndarray | None:
    """The worst |L f - g| over the interior equations and their rows, (P,); None if it cannot be measured."""
    parts = []
    regions, region = answer.problem.regions, {e.name: e.region for e in answer.problem.equations}
    for constraint in interior_constraints(answer):
        try:
            with torch.no_grad():
                off = answer.solution.residual(constraint.at(points)).abs().amax(dim=1)
            if regions is not None:  # every equation where it holds
                here = regions.number(points.numpy()) == regions.names.index(region[constraint.name] or "")
                off = torch.where(torch.from_numpy(here), off, 0.0)
            parts.append(off)
        except CnfError:  # a coefficient that is infinite or not known here
            continue
    return torch.stack(parts).amax(dim=0).cpu().numpy() if parts else None
