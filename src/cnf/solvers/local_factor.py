"""Local factors: a QR of the rows of one cell, or of one front, that reveals their rank.

Q stays a product of reflections. Rows may be complex: then what is transposed is conjugated too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

DEPENDENT = 1e-12  # diagonal of R, relative to its first entry, below which rows say nothing new


@dataclass(frozen=True)
class LocalFactor:
    """One cell: Q (n, n) and R (r, r) of the r independent ones of its rows divided by `scale` (m,).

    Q stays a product of reflections, times `turn` (k, k) in the first k directions if rows depend on each other. Its
    first r columns span the rows, the others leave them alone: `null` coordinates are weights of those.
    R is kept where the reflections leave room for it, and apart, as `turned`, if it was factored again.
    """

    reflections: np.ndarray  # (n, k), as LAPACK keeps them
    factors: np.ndarray  # (k,)
    turn: np.ndarray | None
    turned: np.ndarray | None  # (r, r)
    pivot: np.ndarray  # (r,) rows in the order of the triangle
    scale: np.ndarray
    active: np.ndarray | None = None  # (all unknowns,) bool: which of them are the n; None: all

    @staticmethod
    def of(rows: np.ndarray, active: np.ndarray | None = None) -> LocalFactor:
        """`rows` (m, n) in the unknowns that are `active` (n,); the others stay zero.

        Pivoting costs five times as much as reflections alone, so it is left to rows that turn out to be nearly
        dependent: then the triangle is factored again, which is smaller than the rows.
        """
        own = rows if active is None or active.all() else rows[:, active]
        size = np.linalg.norm(own, axis=1)
        scale = np.where(size > 0, size, 1.0)
        m, n = own.shape
        if not m or not n:
            none = np.zeros(0, dtype=int)
            empty = np.zeros((n, 0)), np.zeros(0), None, None, none, scale
            return LocalFactor(*empty, active if own is not rows else None)
        geqrf, geqrf_lwork, trcon = (_lapack(own, name) for name in ("geqrf", "geqrf_lwork", "trcon"))
        work = int(geqrf_lwork(n, m)[0].real)
        found, factors, _, _ = geqrf((own / scale[:, None]).conj().T, lwork=work, overwrite_a=True)
        k = min(m, n)
        pivot, turn, turned = np.arange(m), None, None
        if m > n or trcon(np.asfortranarray(found[:k]))[0] <= m * DEPENDENT:
            turn, triangle, pivot = scipy.linalg.qr(np.triu(found[:k]), pivoting=True, check_finite=False)
            diagonal = np.abs(np.diag(triangle))
            rank = int((diagonal > DEPENDENT * diagonal[0]).sum())
            turned, pivot = np.asfortranarray(triangle[:rank, :rank]), pivot[:rank]
        return LocalFactor(found[:, :k], factors, turn, turned, pivot, scale, active if own is not rows else None)

    @property
    def rank(self) -> int:
        return self.pivot.shape[0]

    @property
    def free(self) -> int:
        """Null coordinates."""
        return self.reflections.shape[0] - self.rank

    def solve(self, right: np.ndarray) -> np.ndarray:
        """The smallest y (n,) with L y = right (m,); rows beyond the rank are left to the others."""
        return self.joined(self.along(right), np.zeros(self.free))

    def solve_transposed(self, z: np.ndarray) -> np.ndarray:
        """The multipliers (m,) of the rows: L^+T z."""
        return self.multipliers(self.in_directions(z[None])[0, : self.rank])

    def along(self, right: np.ndarray) -> np.ndarray:
        """What the smallest y with L y = right (m,) is in the first r directions, (r,)."""
        return self._solve_triangle((right / self.scale)[self.pivot], 2)

    def multipliers(self, along: np.ndarray) -> np.ndarray:
        """`along` transposed: (r,) -> (m,)."""
        found = np.zeros(self.scale.shape[0], along.dtype)
        found[self.pivot] = self._solve_triangle(along, 0)
        return found / self.scale

    def joined(self, along: np.ndarray, c: np.ndarray) -> np.ndarray:
        """What the first r directions (r,) and null coordinates (n - r,) stand for, (n,)."""
        return self._from_directions(np.concatenate([along, c]))

    def on_free(self, rows: np.ndarray) -> np.ndarray:
        """Rows (l, n) as rows over the null coordinates, (l, n - r)."""
        return self.in_directions(rows)[:, self.rank :]

    def _solve_triangle(self, right: np.ndarray, transposed: int) -> np.ndarray:
        if not self.rank:
            return np.zeros(0)
        triangle = np.asfortranarray(self.reflections[: self.rank]) if self.turned is None else self.turned
        return _lapack(triangle, "trtrs")(triangle, right, trans=transposed)[0]

    def in_directions(self, rows: np.ndarray) -> np.ndarray:
        """Rows (l, n) times Q."""
        own = rows if self.active is None else rows[:, self.active]
        found = self._reflected(np.ascontiguousarray(own).conj().T, adjoint=True)
        if self.turn is not None:
            found[: len(self.turn)] = self.turn.conj().T @ found[: len(self.turn)]
        return found.conj().T

    def _from_directions(self, inner: np.ndarray) -> np.ndarray:
        """Q times `inner` (n,)."""
        if self.turn is not None:
            inner = np.concatenate([self.turn @ inner[: len(self.turn)], inner[len(self.turn) :]])
        own = self._reflected(inner[:, None], adjoint=False)[:, 0]
        if self.active is None:
            return own
        found = np.zeros(len(self.active), own.dtype)
        found[self.active] = own
        return found

    def _reflected(self, columns: np.ndarray, adjoint: bool) -> np.ndarray:
        """The reflections, or their adjoint, of columns (n, l)."""
        if not columns.size or not len(self.factors):
            return np.array(columns)
        work = 64 * (columns.shape[1] + 65)  # a block of reflections and its triangle
        if np.iscomplexobj(self.reflections):
            return lapack.zunmqr("L", "C" if adjoint else "N", self.reflections, self.factors, columns, work)[0]
        return lapack.dormqr("L", "T" if adjoint else "N", self.reflections, self.factors, columns, work)[0]


def _lapack(matrix: np.ndarray, name: str) -> Callable:
    """The routine of this name for real or for complex numbers."""
    return getattr(lapack, ("z" if np.iscomplexobj(matrix) else "d") + name)
