"""The study of exact normals: four planar shapes by every method, measured before and after training.

One case is one method on one shape. Its result depends on shape, method, seed and size only; circles that serve as a
start for other shapes are trained once and handed on. Normals are measured by reverse-mode differentiation of the
field's values, not by the code that imposes them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

import cnf
from cnf.errors import CnfError, nearest
from cnf.shapes.planar.conditions import SQUARE, exact_conditions, pseudo_conditions
from cnf.shapes.planar.fields import (
    FIXED_POINTS,
    Course,
    Field,
    Report,
    Size,
    choose_width,
    hermite_field,
    hypernet_field,
    train_hypernet,
)
from studies.normals.shapes import SHAPES, PlanarShape, circle, find_shape
from studies.normals.siren import train_siren
from studies.normals.start import move_hypernet

METHODS = ("exact", "pseudo", "siren", "hermite")
INFERENCE_POINTS = 1000
# shape: mean normal error of the paper: SIREN trained; pseudo-normals, exact normals before and after training.
PAPER: dict[str, dict[str, tuple[float | None, float]]] = {
    "circle": {"siren": (None, 1.71e-2), "pseudo": (0.776, 0.499), "exact": (4.516e-6, 1.083e-6)},
    "line": {"siren": (None, 1.02e-3), "pseudo": (3.817, 1.589e-2), "exact": (2.737e-6, 6.963e-6)},
    "triangle": {"siren": (None, 3.21e-1), "pseudo": (0.466, 0.238), "exact": (7.371e-5, 6.292e-6)},
    "diamond": {"siren": (None, 1.05e-1), "pseudo": (1.588, 0.277), "exact": (1.450e-5, 3.368e-6)},
}
# (training, inference) in seconds, averages of the paper, on hardware and numbers of points that it does not name.
PAPER_SECONDS = {"exact": (242.0, 0.0663), "siren": (148.4, 0.1437)}


@dataclass(frozen=True, eq=False)
class Look:
    """What a field is like at one moment."""

    normal_error: float  # mean of |grad d - n| over the points
    worst_normal_error: float
    value_error: float  # largest |d| at the points
    eikonal: float  # mean of (|grad d| - 1)^2 at FIXED_POINTS points of the box
    distance_error: float  # root mean square of d - exact distance, at the same points
    normals: np.ndarray  # (n, 2), gradients of the field at the points
    grid: np.ndarray  # (side, side) values on the box, rows y, columns x


@dataclass(frozen=True, eq=False)
class Case:
    """One method on one shape."""

    shape: PlanarShape
    method: str
    before: Look | None  # None: nothing is trained
    after: Look
    course: Course  # empty if nothing is trained
    epochs: int
    training_seconds: float  # without measuring and without pre-training
    pretraining_seconds: float  # of the circle that was the start, 0 without
    inference_seconds: float  # for INFERENCE_POINTS points
    note: str = ""  # what was chosen on the way

    @property
    def paper(self) -> tuple[float | None, float] | None:
        """Normal error before and after training in the paper, if it has the method."""
        return PAPER[self.shape.name].get(self.method)

    @property
    def worst_residual(self) -> float:
        """Largest relative residual of a condition at any step of the training; NaN if there was none."""
        return max(self.course.residual) if self.course.residual else float("nan")


@dataclass
class Starts:
    """Circles trained as starts for other shapes, by number of points: field and seconds."""

    trained: dict[int, tuple[cnf.ConstrainedField, float]] = field(default_factory=dict)

    def find(self, count: int, size: Size, seed: int, report: Report | None) -> tuple[cnf.ConstrainedField, float]:
        """The circle with so many points, trained unless it is there already."""
        if count not in self.trained:
            started = time.perf_counter()
            shape = circle(count)
            model = hypernet_field(exact_conditions(shape.points, shape.normals), size, seed)
            choose_width(model, size)
            train_hypernet(model, size, seed, report)
            self.trained[count] = (model, time.perf_counter() - started)
        return self.trained[count]


def study_case(
    shape: str,
    method: str,
    size: Size | None = None,
    seed: int = 0,
    *,
    starts: Starts | None = None,
    side: int = 101,
    report: Report | None = None,
) -> Case:
    """One case; `starts` keeps the circles of earlier cases, `side` is that of the grid for pictures."""
    check_study([shape], [method])
    given, sizes = find_shape(shape), size if size is not None else Size()
    if method == "siren":
        return _siren(given, sizes, seed, side, report)
    if method == "hermite":
        started = time.perf_counter()
        model, chosen = hermite_field(exact_conditions(given.points, given.normals))
        seconds = time.perf_counter() - started
        after = look_at(model.solution, given, side)
        return Case(given, method, None, after, Course(), 0, seconds, 0.0, time_inference(model.solution), chosen)
    return _hypernet(given, method, sizes, seed, starts if starts is not None else Starts(), side, report)


def check_study(shapes: Sequence[str], methods: Sequence[str]) -> None:
    """Refuse what cannot be run, before anything is."""
    for name in shapes:
        if name not in SHAPES:
            raise CnfError(f"there is no shape {name!r}; choose from {', '.join(SHAPES)}." + nearest(name, SHAPES))
    for name in methods:
        if name not in METHODS:
            raise CnfError(f"there is no method {name!r}; choose from {', '.join(METHODS)}." + nearest(name, METHODS))
    if not shapes or not methods:
        raise CnfError("a study needs at least one shape and one method")


def _hypernet(
    shape: PlanarShape, method: str, size: Size, seed: int, starts: Starts, side: int, report: Report | None
) -> Case:
    pretraining = 0.0
    conditions = (exact_conditions if method == "exact" else pseudo_conditions)(shape.points, shape.normals)
    if method == "exact" and shape.name != "circle":
        start, pretraining = starts.find(len(shape), size, seed, report)
        model = move_hypernet(start, conditions)
    else:
        model = hypernet_field(conditions, size, seed)
    started = time.perf_counter()
    width = choose_width(model, size)
    seconds = time.perf_counter() - started
    before = look_at(model.eval().solution, shape, side, size.precision)
    started = time.perf_counter()
    course = train_hypernet(model.train(), size, seed, report)
    seconds += time.perf_counter() - started
    if method == "exact" and shape.name == "circle":
        starts.trained[len(shape)] = (model, seconds)
    after = look_at(model.solution, shape, side, size.precision)
    inference = time_inference(model.solution)
    note = f"Gaussian of width {width:.3g} at the start"
    return Case(shape, method, before, after, course, size.epochs, seconds, pretraining, inference, note)


def _siren(shape: PlanarShape, size: Size, seed: int, side: int, report: Report | None) -> Case:
    started = time.perf_counter()
    network, course = train_siren(shape.points, shape.normals, size, seed, report)
    seconds = time.perf_counter() - started
    after = look_at(network, shape, side)
    note = f"{size.epochs * size.siren_steps} steps of Adam"
    return Case(shape, "siren", None, after, course, size.epochs, seconds, 0.0, time_inference(network), note)


def look_at(predict: Field, shape: PlanarShape, side: int = 101, precision: torch.dtype | None = None) -> Look:
    """Measure a field; `precision` serves the grid for pictures only, where basis and time allow no better."""
    slopes = differentiate(predict, shape.points)  # (n, 2)
    errors = torch.linalg.vector_norm(slopes - shape.normals, dim=1)
    fixed = SQUARE.halton(FIXED_POINTS, seed=1)
    lengths = torch.linalg.vector_norm(differentiate(predict, fixed), dim=1)
    with torch.no_grad():
        value_error = float(predict(shape.points).abs().max())
        misfit = predict(fixed)[:, 0] - shape.distance(fixed)
        grid = in_precision(predict, precision)(SQUARE.grid(side))[:, 0].reshape(side, side).T  # x slow, y fast
    return Look(
        normal_error=float(errors.mean()),
        worst_normal_error=float(errors.max()),
        value_error=value_error,
        eikonal=float((lengths - 1).square().mean()),
        distance_error=float(misfit.square().mean().sqrt()),
        normals=slopes.numpy(),
        grid=grid.numpy(),
    )


def differentiate(predict: Field, points: Tensor) -> Tensor:
    """The gradient of the field's values at the points by reverse mode, (P, 2)."""
    at = points.detach().clone().requires_grad_()
    with torch.enable_grad():
        (slopes,) = torch.autograd.grad(predict(at).sum(), at)
    return slopes


def in_precision(predict: Field, precision: torch.dtype | None) -> Field:
    """The field with generated networks evaluated in another precision, if it has any."""
    if precision is None or not isinstance(predict, cnf.Solution):
        return predict
    return predict.in_precision(precision)


def time_inference(predict: Field, repeats: int = 3) -> float:
    """Seconds to evaluate the field at INFERENCE_POINTS points of the box: the shortest of a few runs."""
    points, best = SQUARE.halton(INFERENCE_POINTS, seed=2), float("inf")
    with torch.no_grad():
        for _ in range(repeats):
            started = time.perf_counter()
            predict(points)
            best = min(best, time.perf_counter() - started)
    return best
