"""Materials, least squares: the coefficients of a spline grid that follow the samples, without training.

In: a grid over coordinates, and samples. Out: the grid's coefficients. What is made small is the sum of squared
differences of log(1 + f) over the samples, plus a little roughness, which decides where a cell has no sample. The
conditions count as many samples each; what they still miss is corrected by the field that the grid is the base of.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse
import torch
from torch import Tensor, nn

from cnf.bases.spline_grid import SplineGrid
from cnf.training import History

ITERATIONS = 150  # of conjugate gradients, at most
ENOUGH = 1e-4  # the residual at the end over that at the start
ROUGHNESS = 0.02  # weight of a second difference of coefficients, beside samples of weight 1
TIMES = 30.0  # samples that a condition counts as
CHUNK = 2**14
EVERY = 10  # iterations between two entries of the course

Report = Callable[[int, int, float], object]  # iteration, iterations at most, loss


@dataclass(frozen=True)
class Normal:
    """The normal equations A^T W A + R^T R, applied and never formed; A (P, N), weights W (P,), roughness R."""

    matrix: scipy.sparse.csr_matrix
    transposed: scipy.sparse.csr_matrix
    weights: np.ndarray
    rough: scipy.sparse.csr_matrix
    rough_transposed: scipy.sparse.csr_matrix

    def __matmul__(self, x: np.ndarray) -> np.ndarray:
        fitted = self.transposed @ (self.weights[:, None] * (self.matrix @ x))
        return fitted + self.rough_transposed @ (self.rough @ x)

    @property
    def diagonal(self) -> np.ndarray:
        squares = self.transposed.power(2) @ self.weights + np.asarray(self.rough_transposed.power(2).sum(1)).ravel()
        return np.maximum(squares, np.finfo(np.float32).tiny)


def fit_grid(
    network: nn.Sequential, points: Tensor, logs: Tensor, conditions: int, report: Report | None = None
) -> History:
    """Set the coefficients of network[1], a grid over the coordinates network[0].

    `points` (P, 6), `logs` (P, 3); the last `conditions` of them count more. In single precision: what the grid
    cannot follow is far above its rounding.
    """
    coordinates, grid = network[0], network[1]
    assert isinstance(grid, SplineGrid)
    started = time.perf_counter()
    matrix, rough = assemble(grid, coordinates, points), roughness(grid)
    weights = np.ones(len(points), np.float32)
    weights[len(points) - conditions :] = TIMES
    system = Normal(matrix, matrix.T.tocsr(), weights, rough, rough.T.tocsr())
    wanted = logs.numpy().astype(np.float32)
    found = start = np.zeros((len(grid.coefficients), wanted.shape[1]), np.float32)
    course, step = History(), -1

    def log(step: int, found: np.ndarray) -> None:
        course.step.append(step)
        course.loss.append(float(np.abs(matrix @ found - wanted).mean()))
        course.seconds.append(time.perf_counter() - started)
        if report is not None:
            report(step, ITERATIONS, course.loss[-1])

    try:
        for step, found in enumerate(conjugate_gradients(system, wanted, start)):  # counted from 0, as in trainings
            if step % EVERY == 0:
                log(step, found)
        course.stopped = "steps" if step + 1 >= ITERATIONS else "converged"
    except KeyboardInterrupt:
        course.stopped = "interrupted"
    if step >= 0 and course.step[-1:] != [step]:
        log(step, found)
    with torch.no_grad():
        grid.coefficients.copy_(torch.from_numpy(found))
    return course


def conjugate_gradients(system: Normal, wanted: np.ndarray, start: np.ndarray) -> Iterator[np.ndarray]:
    """Iterates (N, C) towards the solution of every channel at once, scaled by the diagonal."""
    scale = 1 / system.diagonal[:, None]
    residual = system.transposed @ (system.weights[:, None] * wanted) - system @ start
    x, step = start, scale * residual
    size = first = (residual * step).sum(0)
    for _ in range(ITERATIONS):
        if (size <= ENOUGH**2 * first).all():
            return
        image = system @ step
        along = (step * image).sum(0)
        share = np.divide(size, along, out=np.zeros_like(size), where=along > 0)
        x, residual = x + share * step, residual - share * image
        scaled = scale * residual
        new = (residual * scaled).sum(0)
        step = scaled + np.divide(new, size, out=np.zeros_like(size), where=size > 0) * step
        size = new
        yield x


def assemble(grid: SplineGrid, coordinates: nn.Module, points: Tensor) -> scipy.sparse.csr_matrix:
    """The values of the grid's functions at the points, (P, N)."""
    columns, values = [], []
    with torch.no_grad():
        for part in points.double().split(CHUNK):
            index, weight = grid.places(coordinates(part))
            columns.append(index.int())
            values.append(weight.float())
    each = columns[0].shape[1]
    ends = np.arange(len(points) + 1, dtype=np.int64 if len(points) * each > 2**31 - 1 else np.int32) * each
    shape = (len(points), len(grid.coefficients))
    parts = torch.cat(values).reshape(-1).numpy(), torch.cat(columns).reshape(-1).numpy(), ends
    return scipy.sparse.csr_matrix(parts, shape=shape)


def roughness(grid: SplineGrid) -> scipy.sparse.csr_matrix:
    """Second differences of neighbouring coefficients along every coordinate, (rows, N)."""
    functions, columns = grid.functions, grid.columns.numpy()
    numbers = columns.reshape(functions)
    rows: list[np.ndarray] = []
    for axis, closed in enumerate(grid.periodic):
        if closed:
            near = [np.roll(numbers, shift, axis) for shift in (1, 0, -1)]
        else:
            near = [np.take(numbers, range(k, functions[axis] - 2 + k), axis) for k in range(3)]
        rows.append(np.stack([part.reshape(-1) for part in near], axis=1))
    index = np.concatenate(rows)
    return differences(index, len(grid.coefficients), (1.0, -2.0, 1.0))


def differences(index: np.ndarray, count: int, weights: Sequence[float]) -> scipy.sparse.csr_matrix:
    """One row per row of `index`, with these weights in its columns, times ROUGHNESS."""
    values = np.tile(np.asarray(weights, np.float32) * np.float32(ROUGHNESS), len(index))
    ends = np.arange(len(index) + 1) * index.shape[1]
    return scipy.sparse.csr_matrix((values, index.reshape(-1), ends), shape=(len(index), count))
