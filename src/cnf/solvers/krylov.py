"""Krylov: sparse square systems by iteration, with overlapping patches of unknowns solved exactly as preconditioner.

The matrix is never factored as a whole: memory grows with the number of unknowns, and every step is a sparse product
and a batch of small dense ones. Conjugate gradients with additive Schwarz for definite matrices, restarted GMRES with
restricted additive Schwarz otherwise. Patches are worked out from the pattern once and kept while it stands.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from scipy import sparse
from scipy.linalg import solve_triangular
from torch import Tensor

from cnf.errors import CnfError, NumericalWarning, SingularSystemError
from cnf.solvers.schwarz import Schwarz, cut_up
from cnf.solvers.solver import Factor, Solver, SquareFactor
from cnf.solvers.sparse_direct import scale_square, solved_here
from cnf.solvers.sparse_matrix import SparseMatrix

EPS = float(np.finfo(np.float64).eps)
RESTART = 100  # vectors GMRES keeps
ROUNDS = 5  # the answer and its refinements: the residual is solved for in turn while that makes it smaller
ROUNDING = 4 * EPS  # of |A| |x| + |b|: a residual below cannot be told from zero
USABLE = 1e-10  # a residual that misses its tolerance, but not this, is warned of; a larger one is an error
LOOSE = 1e-7  # of solves for the extreme singular values

Apply = Callable[[np.ndarray], np.ndarray]  # (n, k) -> (n, k)


@dataclass(frozen=True)
class Krylov(Solver):
    """`tolerance`: of the residual relative to the right-hand side, both scaled, at which an iteration ends.

    `size`: unknowns of a patch before it is enlarged; `overlap`: a neighbouring unknown joins a patch if at least this
    share of its own neighbours are in it, so 0 takes all neighbours; `most`: iterations before giving up.

    >>> space = cnf.Space("x", "u")
    >>> points = cnf.Box(0, 1).grid(30)
    >>> condition = space.constraint("u = x", at=points)
    >>> basis = cnf.bases.Kernel(space, points, cnf.kernels.Wendland(1, 0.4))
    >>> field = cnf.ConstrainedField(basis, [condition], solver=cnf.solvers.Krylov())
    >>> field.solve().certificate.exact
    True
    """

    tolerance: float = 1e-13
    overlap: float = 0.15
    size: int = 200
    most: int = 500

    sparse = True

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < 1:
            raise CnfError(f"the tolerance of Krylov is a number between 0 and 1, as 1e-13; got {self.tolerance!r}")
        if not 0 <= self.overlap <= 1:
            raise CnfError(f"the overlap of Krylov is a share between 0 and 1, such as 0.1; got {self.overlap!r}")
        if self.size < 1 or self.most < 1:
            raise CnfError("Krylov needs patches and iterations: size and most are positive whole numbers")

    def factor(self, matrix: Tensor | SparseMatrix, symmetric: bool = False) -> Factor:
        pattern, scaled, rows, columns = scale_square(matrix, "Krylov", symmetric)
        return KrylovFactor(
            notes=solved_here(matrix),
            shape=pattern.shape,
            scale_rows=rows,
            scale_columns=columns,
            matrix=pattern.filled(scaled),
            precondition=Schwarz(cut_up(pattern, self.size, self.overlap), scaled, symmetric),
            definite=symmetric,
            settings=self,
        )


@dataclass(frozen=True, kw_only=True)
class KrylovFactor(SquareFactor):
    """The scaled matrix and its preconditioner; `spent` are the iterations of every solve so far."""

    matrix: sparse.csr_matrix
    precondition: Schwarz
    settings: Krylov
    spent: list[int] = field(default_factory=list)

    steps = 8

    @property
    def name(self) -> str:  # type: ignore[override]
        method = "conjugate gradients" if self.definite else "GMRES"
        most = f", {max(self.spent)} iterations" if self.spent else ""
        return f"Krylov ({method}, {self.precondition.count} patches{most})"

    def _solved(self, b: Tensor, transposed: bool) -> Tensor:
        x, spent = self._refined(b.numpy(), transposed)
        self.spent.append(spent)
        return torch.from_numpy(x)

    def _inverse(self, b: Tensor, transposed: bool) -> Tensor:
        """Loosely: it serves the extreme singular values."""
        loose = np.full(b.shape[1], LOOSE)
        return torch.from_numpy(self._iterated(b.numpy(), loose, transposed, self.settings.most)[0])

    def _refined(self, b: np.ndarray, transposed: bool) -> tuple[np.ndarray, int]:
        """x (n, k) and the iterations taken; solves for the residual again where it is not small enough yet."""
        matrix = self.matrix.T if transposed else self.matrix
        sizes = np.linalg.norm(b, axis=0)
        x, residual, spent = np.zeros_like(b), b, 0
        reached, goal = sizes, self.settings.tolerance * sizes
        for _ in range(ROUNDS):
            wanted = np.divide(0.5 * goal, reached, out=np.ones_like(goal), where=reached > 0).clip(EPS, 0.5)
            step, count = self._iterated(residual, wanted, transposed, self.settings.most - spent)
            spent += count
            proposed = x + step
            left = b - matrix @ proposed
            now = np.linalg.norm(left, axis=0)
            better = now < reached  # column by column; not a number is not better
            x, residual = np.where(better, proposed, x), np.where(better, left, residual)
            stuck = not (now < 0.5 * reached)[reached > goal].any()
            reached = np.where(better, now, reached)
            rounding = ROUNDING * np.linalg.norm(abs(matrix) @ np.abs(x) + np.abs(b), axis=0)
            goal = np.maximum(self.settings.tolerance * sizes, rounding)
            if (reached <= goal).all() or stuck or spent >= self.settings.most:
                break
        self._judge(reached, goal, sizes, spent)
        return x, spent

    def _iterated(self, b: np.ndarray, tolerance: np.ndarray, transposed: bool, most: int) -> tuple[np.ndarray, int]:
        """One run of the iteration for every column of b (n, k), each to its own tolerance (k,)."""
        if self.definite:
            return conjugate_gradients(self.matrix.__matmul__, self.precondition, b, tolerance, most)
        matrix = self.matrix.T.tocsr() if transposed else self.matrix
        answers = [
            gmres(
                matrix.__matmul__,
                lambda r: self.precondition(r[:, None], transposed)[:, 0],
                column,
                float(wanted),
                most,
            )
            for column, wanted in zip(b.T, tolerance, strict=True)
        ]
        return np.stack([x for x, _ in answers], axis=1), max(count for _, count in answers)

    def _judge(self, reached: np.ndarray, goal: np.ndarray, sizes: np.ndarray, spent: int) -> None:
        missed = ~(reached <= 10 * goal)  # what is not a number is missed too
        if not missed.any():
            return
        worst = float(np.max(reached[missed] / sizes[missed]))
        said = (
            f"after {spent} iterations Krylov has a residual of {worst:.1e} of the right-hand side, not "
            f"{self.settings.tolerance:.0e}"
        )
        if worst <= USABLE:
            warnings.warn(
                f"{said}; take larger patches (size=, overlap=) or a direct solver (Auto)",
                NumericalWarning,
                stacklevel=2,
            )
            return
        raise SingularSystemError(
            f"{said}: the system is singular or nearly so (duplicate points?), or the patches are too small for it. "
            "Remove duplicates, take larger patches (size=, overlap=) or more iterations (most=), or use Auto"
        )


def conjugate_gradients(
    apply: Apply, precondition: Apply, b: np.ndarray, tolerance: np.ndarray, most: int
) -> tuple[np.ndarray, int]:
    """x (n, k) with |b - A x| <= tolerance |b| column by column, and the iterations taken; A symmetric."""
    x, residual = np.zeros_like(b), b.copy()
    goal = tolerance * np.linalg.norm(b, axis=0)
    direction, slope = np.zeros_like(b), np.ones(b.shape[1])
    for count in range(most):
        active = np.linalg.norm(residual, axis=0) > goal
        if not active.any():
            return x, count
        corrected = precondition(residual)
        rise = (residual * corrected).sum(axis=0)
        direction = corrected + direction * np.where(active, rise / slope, 0.0)
        image = apply(direction)
        curvature = (direction * image).sum(axis=0)
        if not (curvature[active] > 0).all() or not (rise[active] > 0).all():
            raise SingularSystemError(
                "conjugate gradients met a direction in which the matrix is not positive: it is singular or not "
                "definite (duplicate points?). Remove duplicates, reduce the radius, or use Auto"
            )
        length = np.divide(rise, curvature, out=np.zeros_like(rise), where=active)
        x += length * direction
        residual -= length * image
        slope = np.where(active, rise, 1.0)
    return x, most


def gmres(apply: Apply, precondition: Apply, b: np.ndarray, tolerance: float, most: int) -> tuple[np.ndarray, int]:
    """x (n,) with |b - A x| <= tolerance |b| and the iterations taken; preconditioned from the right, restarted."""
    x, spent = np.zeros_like(b), 0
    goal = tolerance * np.linalg.norm(b)
    while spent < most:
        residual = b - apply(x)
        size = float(np.linalg.norm(residual))
        if not size > goal:
            break
        width = min(RESTART, most - spent)
        known = np.empty((width + 1, b.shape[0]))
        known[0] = residual / size
        triangle, side = np.zeros((width + 1, width)), np.zeros(width + 1)
        turns: list[tuple[float, float]] = []  # the rotations that made the triangle
        side[0], used = size, 0
        for k in range(width):
            fresh = apply(precondition(known[k]))
            share = known[: k + 1] @ fresh  # twice is enough: classical Gram-Schmidt
            fresh = fresh - share @ known[: k + 1]
            again = known[: k + 1] @ fresh
            fresh = fresh - again @ known[: k + 1]
            column = np.append(share + again, np.linalg.norm(fresh))
            rest = column[-1]
            for j, (c, s) in enumerate(turns):
                column[j], column[j + 1] = c * column[j] + s * column[j + 1], c * column[j + 1] - s * column[j]
            length = np.hypot(column[k], column[k + 1])
            if not np.isfinite(length) or length == 0:
                break
            turns.append((column[k] / length, column[k + 1] / length))
            column[k], column[k + 1] = length, 0.0
            triangle[: k + 2, k] = column
            side[k], side[k + 1] = turns[k][0] * side[k], -turns[k][1] * side[k]
            used = k + 1
            if abs(side[k + 1]) <= goal or rest <= EPS * length:
                break
            known[k + 1] = fresh / rest
        if not used:
            break
        spent += used
        x = x + precondition(solve_triangular(triangle[:used, :used], side[:used]) @ known[:used])
        if spent < most and used < width and abs(side[used]) <= goal:
            break  # what is left is the rounding of this run: the caller refines
    return x, spent
