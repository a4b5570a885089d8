"""Multifrontal Cholesky: the numbers of a sparse factorisation, worked out front by front with BLAS and LAPACK.

In come a pattern, whose fronts `cnf.solvers.elimination` has laid out, and the values of a positive definite matrix;
out goes a factor that solves. Each front takes its columns of the matrix and the update matrices of its children,
eliminates its pivots densely, and leaves an update matrix to its parent. Only lower triangles are ever looked at.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dsyrk, dtrsm
from scipy.linalg.lapack import dpotrf

from cnf.errors import SingularSystemError
from cnf.solvers.elimination import Elimination, Front
from cnf.solvers.sparse_matrix import Pattern

STRIP = 96  # columns of an update matrix added at once: half of a square is saved, and the indices stay in cache


class Multifrontal:
    """The factor L L^T of a symmetric positive definite matrix, values (nnz,) on its pattern (n, n)."""

    name = "multifrontal"

    def __init__(self, pattern: Pattern, values: np.ndarray):
        self._plan = pattern.elimination
        self._factor = np.zeros(self._plan.size)
        self._factor[self._plan.targets] = values[self._plan.entries]
        work = np.zeros(self._plan.work)
        for front in self._plan.fronts:
            _eliminate(front, self._plan, self._factor, work)
        self._blocks = [_blocks(front, self._factor) for front in self._plan.fronts]

    def solve(self, b: np.ndarray, transposed: bool = False) -> np.ndarray:
        """(n, k) -> (n, k); the matrix is its own transpose."""
        x = np.ascontiguousarray(b[self._plan.order], dtype=np.float64)
        # Right-hand sides are kept as rows, (k, w) in Fortran order, so that BLAS works on x in place.
        for front, (square, below) in zip(self._plan.fronts, self._blocks, strict=True):
            own = x[front.first : front.last]
            dtrsm(1.0, square, own.T, side=1, lower=1, trans_a=1, overwrite_b=1)
            if front.height:
                x[front.rows] -= below @ own
        for front, (square, below) in zip(reversed(self._plan.fronts), reversed(self._blocks), strict=True):
            own = x[front.first : front.last]
            if front.height:
                own -= below.T @ x[front.rows]
            dtrsm(1.0, square, own.T, side=1, lower=1, overwrite_b=1)
        found = np.empty_like(x)
        found[self._plan.order] = x
        return found


def _blocks(front: Front, factor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The pivot block (w, w) and the block below (r, w), in Fortran order, as views."""
    middle = front.block + front.width * front.width
    square = factor[front.block : middle].reshape(front.width, front.width).T
    below = factor[middle : middle + front.width * front.height].reshape(front.width, front.height).T
    return square, below


def _update(front: Front, work: np.ndarray) -> np.ndarray:
    """The update matrix (r, r), in Fortran order, as a view."""
    return work[front.update : front.update + front.height**2].reshape(front.height, front.height).T


def _eliminate(front: Front, plan: Elimination, factor: np.ndarray, work: np.ndarray) -> None:
    """Complete the front's blocks of the factor and its update matrix, in place."""
    square, below = _blocks(front, factor)
    update = _update(front, work)
    if front.children:
        update.fill(0.0)
    for child in front.children:
        _add(plan.fronts[child], front, factor, work)
    _, failed = dpotrf(square, lower=1, clean=0, overwrite_a=1)
    if failed or not np.isfinite(square.diagonal().sum()):  # some LAPACKs do not notice a pivot that is no number
        raise _indefinite(plan.order.shape[0])
    if front.height:
        dtrsm(1.0, square, below, side=1, lower=1, trans_a=1, overwrite_b=1)
        dsyrk(-1.0, below, beta=1.0 if front.children else 0.0, c=update, lower=1, overwrite_c=1)


def _add(child: Front, parent: Front, factor: np.ndarray, work: np.ndarray) -> None:
    """Add the child's update matrix to the parent's blocks and to its update matrix."""
    update = _update(child, work).T  # [column, row], rows contiguous
    shared, width, height = child.shared, parent.width, parent.height
    inner, outer = child.relative[:shared], child.relative[shared:] - width
    middle = parent.block + width * width
    square = factor[parent.block : middle]
    below = factor[middle : middle + width * height]
    rest = work[parent.update : parent.update + height * height]
    _add_lower(square, width, inner, update[:shared, :shared])
    if outer.shape[0]:
        for start in range(0, shared, STRIP):
            columns = inner[start : start + STRIP]
            places = (columns * height)[:, None] + outer
            np.add.at(below, places.reshape(-1), update[start : start + columns.shape[0], shared:].reshape(-1))
        _add_lower(rest, height, outer, update[shared:, shared:])


def _add_lower(target: np.ndarray, stride: int, index: np.ndarray, source: np.ndarray) -> None:
    """target[index_i + stride index_j] += source[j, i] for i >= j, and for some i < j that nobody looks at."""
    for start in range(0, index.shape[0], STRIP):
        places = (index[start : start + STRIP] * stride)[:, None] + index[start:]
        np.add.at(target, places.reshape(-1), source[start : start + STRIP, start:].reshape(-1))


def _indefinite(n: int) -> SingularSystemError:
    return SingularSystemError(
        f"the sparse symmetric {n} x {n} matrix is not numerically positive definite: conditions are nearly dependent "
        "(duplicate points?), or the kernel is too wide for the spacing of the points. Remove duplicates, reduce the "
        "radius, or choose SparseLU or Auto"
    )
