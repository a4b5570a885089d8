"""One planar shape by one method: solved or trained, and measured before and after.

Normals are measured by reverse-mode differentiation of the field's values, not by the code that imposes them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

import cnf
from cnf.shapes.planar.conditions import SQUARE, exact_conditions, pseudo_conditions
from cnf.shapes.planar.fields import (
    FIXED_POINTS,
    Field,
    Report,
    Size,
    choose_width,
    hermite_field,
    hypernet_field,
    train_hypernet,
)
from cnf.training import History
from studies.normals.shapes import PlanarShape, circle, find_shape
from studies.normals.siren import train_siren
from studies.normals.start import move_hypernet

INFERENCE_POINTS = 1000


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
class Found:
    """One method on one shape: how it looks, and how long it took."""

    before: Look | None  # None: nothing is trained
    after: Look
    course: History  # empty if nothing is trained
    seconds: float  # of training, without measuring and without pre-training
    processor: float  # seconds of the processor, of the same
    inference: float  # seconds for INFERENCE_POINTS points
    pretraining: float = 0.0  # seconds of the circle that was the start
    note: str = ""  # what was chosen on the way


Starts = dict[str, Any]  # "circle of 9 points" -> (field, seconds): circles trained as starts for other shapes


def solve_shape(
    name: str, method: str, size: Size, seed: int, starts: Starts, side: int = 101, report: Report | None = None
) -> Found:
    """One method on one shape; `side` is that of the grid for pictures."""
    shape = find_shape(name)
    if method in ("exact", "pseudo"):
        return _solve_hypernet(shape, method, size, seed, starts, side, report)
    started, worked = time.perf_counter(), time.process_time()
    if method == "siren":
        network, course = train_siren(shape.points, shape.normals, size, seed, report)
        predict: Field = network
        note = f"{size.epochs * size.siren_steps} steps of Adam"
    else:
        model, note = hermite_field(exact_conditions(shape.points, shape.normals))
        predict, course = model.solution, History()
    seconds, processor = time.perf_counter() - started, time.process_time() - worked
    return Found(None, look_at(predict, shape, side), course, seconds, processor, time_inference(predict), note=note)


def find_circle(count: int, size: Size, seed: int, starts: Starts, report: Report | None) -> tuple[Any, float]:
    """The circle with so many points, trained unless it is there already, and how long that took."""
    name = f"circle of {count} points"
    if name not in starts:
        started = time.perf_counter()
        shape = circle(count)
        model = hypernet_field(exact_conditions(shape.points, shape.normals), size, seed)
        choose_width(model, size)
        train_hypernet(model, size, seed, report)
        starts[name] = model, time.perf_counter() - started
    return starts[name]


def _solve_hypernet(
    shape: PlanarShape, method: str, size: Size, seed: int, starts: Starts, side: int, report: Report | None
) -> Found:
    pretraining = 0.0
    conditions = (exact_conditions if method == "exact" else pseudo_conditions)(shape.points, shape.normals)
    if method == "exact" and shape.name != "circle":
        start, pretraining = find_circle(len(shape), size, seed, starts, report)
        model = move_hypernet(start, conditions)
    else:
        model = hypernet_field(conditions, size, seed)
    started, worked = time.perf_counter(), time.process_time()
    width = choose_width(model, size)
    seconds, processor = time.perf_counter() - started, time.process_time() - worked
    before = look_at(model.eval().solution, shape, side, size.precision)
    started, worked = time.perf_counter(), time.process_time()
    course = train_hypernet(model.train(), size, seed, report)
    seconds, processor = seconds + time.perf_counter() - started, processor + time.process_time() - worked
    if method == "exact" and shape.name == "circle":
        starts[f"circle of {len(shape)} points"] = model, seconds
    after = look_at(model.solution, shape, side, size.precision)
    note = f"Gaussian of width {width:.3g} at the start"
    return Found(before, after, course, seconds, processor, time_inference(model.solution), pretraining, note)


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
