"""SparseLU and SparseCholesky: sparse square systems, factored once for forward, adjoint and new right-hand sides.

The order of elimination belongs to the pattern and is kept with it (`cnf.solvers.sparse_matrix`); a step gathers the
values, scales them and factors. They do so on the host, wherever the field is, unless a package does it there
(`cnf.solvers.on_device`). Definite matrices go to our multifrontal Cholesky, others to SciPy's SuperLU; MKL
PARDISO is used instead when its runtime is installed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.linalg import splu
from torch import Tensor

from cnf.errors import CnfError, NotFiniteError, SingularSystemError
from cnf.fetching import is_here
from cnf.solvers import pardiso
from cnf.solvers.condition import starting_vector
from cnf.solvers.multifrontal import Multifrontal
from cnf.solvers.on_device import factor_there, package_for
from cnf.solvers.solver import NOT_FINITE, Factor, Solver, SquareFactor, power_of_two_scales
from cnf.solvers.sparse_matrix import Pattern, SparseMatrix

PIVOT = 0.01  # of the largest entry of a column; smaller diagonals are swapped away, at the price of fill
BACKWARD = 1e-8  # error relative to |A| |x| + |b| from which on a factorisation is given up
SINGULAR = 1e15  # growth of a random right-hand side that only a numerically singular matrix gives
BACKENDS = ("auto", "multifrontal", "superlu", "pardiso")


class Backend(Protocol):
    """A factored permuted matrix."""

    name: str

    def solve(self, b: np.ndarray, transposed: bool = False) -> np.ndarray:
        """(n, k) -> (n, k)."""
        ...


@dataclass(frozen=True)
class SparseDirect(Solver):
    """Settings of both; abstract."""

    backend: str = "auto"
    refine: bool = True

    sparse = True

    def __post_init__(self) -> None:
        check_backend(self.backend)


@dataclass(frozen=True)
class SparseLU(SparseDirect):
    """Square systems of compactly supported bases; `backend`: auto, superlu or pardiso.

    >>> space = cnf.Space("x", "u")
    >>> points = cnf.Box(0, 1).grid(30)
    >>> condition = space.constraint("u = x", at=points)
    >>> basis = cnf.bases.Kernel(space, points, cnf.kernels.Wendland(1, 0.4))
    >>> field = cnf.ConstrainedField(basis, [condition], solver=cnf.solvers.SparseLU())
    >>> field.solve().certificate.exact
    True
    """

    def factor(self, matrix: Tensor | SparseMatrix, symmetric: bool = False) -> Factor:
        return _factored(matrix, self.backend, self.refine, definite=False)


@dataclass(frozen=True)
class SparseCholesky(SparseDirect):
    """Symmetric positive definite systems of compactly supported Hermite bases; `backend` also: multifrontal.

    >>> space = cnf.Space("x", "u")
    >>> points = cnf.Box(0, 1).grid(30)
    >>> condition = space.constraint("u = x", at=points)
    >>> basis = cnf.bases.Hermite(space, [condition], cnf.kernels.Wendland(1, 0.2))
    >>> field = cnf.ConstrainedField(basis, [condition], solver=cnf.solvers.SparseCholesky())
    >>> field.solve().certificate.exact
    True
    """

    def factor(self, matrix: Tensor | SparseMatrix, symmetric: bool = False) -> Factor:
        if not symmetric and isinstance(matrix, SparseMatrix):
            off = abs(matrix.plain - matrix.plain.T) if matrix.shape[0] == matrix.shape[1] else None
            if off is None or (off.nnz and off.max() > 1e-8 * abs(matrix.plain).max()):
                raise SingularSystemError(
                    "SparseCholesky needs a symmetric matrix, but this one is not: use it with cnf.bases.Hermite built "
                    "from the same constraints as the field, or choose SparseLU or Auto"
                )
        return _factored(matrix, self.backend, self.refine, definite=True)


def _factored(matrix: Tensor | SparseMatrix, backend: str, refine: bool, definite: bool) -> SquareFactor:
    name = "SparseCholesky" if definite else "SparseLU"
    if isinstance(matrix, SparseMatrix) and not is_here(matrix.values) and backend == "auto":
        package = package_for(matrix.values) if matrix.shape[0] == matrix.shape[1] else None
        if package is not None:
            return factor_there(matrix, package, name, definite, refine)
    pattern, scaled, rows, columns = scale_square(matrix, name, definite)
    factor = SparseFactor(
        notes=solved_here(matrix),
        shape=pattern.shape,
        scale_rows=rows,
        scale_columns=columns,
        matrix=pattern.filled(scaled),
        pattern=pattern,
        backend=_backend(backend, pattern, scaled, definite),
        refine=refine,
        definite=definite,
        label=name,
    )
    _check(factor)
    return factor


def scale_square(
    matrix: Tensor | SparseMatrix, solver: str, definite: bool
) -> tuple[Pattern, np.ndarray, Tensor, Tensor]:
    """Pattern, scaled values (nnz,) and scales of rows and columns (n,) each; refused unless sparse and square."""
    if not isinstance(matrix, SparseMatrix):
        raise CnfError(
            f"{solver} needs a basis with compact support: Kernel or Hermite with cnf.kernels.Wendland, or Hybrid; use "
            "Auto() for this one"
        )
    m, n = matrix.shape
    if m != n:
        raise SingularSystemError(
            f"{solver} needs as many basis functions as conditions, but there are {n} and {m}; put one anchor on every "
            "point with one condition, or use Hermite"
        )
    plain, pattern = matrix.plain, matrix.pattern
    if not np.isfinite(plain.data).all():
        raise NotFiniteError(NOT_FINITE)
    rows, columns = equilibrate(plain, definite)
    scaled = (plain.data * rows[pattern.row_of.numpy()]) * columns[pattern.columns]
    return pattern, scaled, torch.from_numpy(rows), torch.from_numpy(columns)


def solved_here(matrix: Tensor | SparseMatrix) -> tuple[str, ...]:
    """What the certificate says of a matrix that came to the host to be solved."""
    if not isinstance(matrix, SparseMatrix) or is_here(matrix.values):
        return ()
    return (f"solved on the host: no sparse solver takes what is on {matrix.values.device}",)


def equilibrate(plain: sparse.csr_matrix, definite: bool) -> tuple[np.ndarray, np.ndarray]:
    """Powers of two that bring the diagonal, or rows and then columns, to about one."""
    if definite:
        sizes = np.sqrt(np.maximum(plain.diagonal(), 0))
        scale = power_of_two_scales(torch.from_numpy(sizes)).numpy()
        return scale, scale
    rows = power_of_two_scales(torch.from_numpy(_norms(plain, 1))).numpy()
    columns = power_of_two_scales(torch.from_numpy(_norms(sparse.diags_array(rows) @ plain, 0))).numpy()
    return rows, columns


def _norms(matrix: sparse.csr_matrix, axis: int) -> np.ndarray:
    return np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=axis)).reshape(-1))


def check_backend(name: str) -> None:
    if name not in BACKENDS:
        raise CnfError(f"the backend of a sparse solver is one of {', '.join(BACKENDS)}; got {name!r}")


def _backend(wanted: str, pattern: Pattern, scaled: np.ndarray, definite: bool) -> Backend:
    if wanted == "pardiso" or (wanted == "auto" and pardiso.is_installed()):
        return pardiso.Pardiso(pattern, scaled, definite)
    if wanted == "multifrontal" and not definite:
        raise CnfError(
            'the backend "multifrontal" is for symmetric positive definite matrices: choose it with SparseCholesky, '
            'or backend="auto" for SparseLU'
        )
    if definite and wanted != "superlu":
        return Multifrontal(pattern, scaled)
    return SuperLU(pattern, scaled, definite)


class SuperLU:
    """SciPy's SuperLU on the permuted matrix."""

    name = "SuperLU"

    def __init__(self, pattern: Pattern, values: np.ndarray, definite: bool):
        plan = pattern.plan
        permuted = sparse.csc_matrix((values[plan.gather], plan.indices, plan.starts), shape=pattern.shape)
        ordered = "NATURAL" if pattern.order.method != "minimum degree" else "MMD_AT_PLUS_A"
        threshold = 0.0 if definite else PIVOT
        try:
            self._lu = splu(permuted, ordered, diag_pivot_thresh=threshold, options={"SymmetricMode": True})
        except RuntimeError as error:
            raise _singular(pattern.shape) from error
        self._plan = plan

    def solve(self, b: np.ndarray, transposed: bool = False) -> np.ndarray:
        given, taken = (self._plan.columns, self._plan.rows) if transposed else (self._plan.rows, self._plan.columns)
        found = np.empty_like(b)
        found[taken] = self._lu.solve(np.asfortranarray(b[given]), "T" if transposed else "N")
        return found


def _singular(shape: tuple[int, int]) -> SingularSystemError:
    return SingularSystemError(
        f"the sparse {shape[0]} x {shape[1]} system is singular: two conditions or two basis functions are the same "
        "(duplicate points?), or a condition lies outside the support of every function. Remove duplicates, enlarge "
        "the radius, or use Hermite for several conditions at one point"
    )


def _check(factor: SparseFactor) -> None:
    """One solve whose backward error tells whether the pivots were good enough."""
    b = starting_vector(factor.shape[0], factor.scale_rows)[:, None].numpy()
    x = factor.backend.solve(b)
    grown = np.abs(factor.matrix).sum(axis=1).max() * np.abs(x).max()  # at most the condition number times |b|
    size = np.abs(b).max()
    missed = np.abs(factor.matrix @ x - b).max()
    if not np.isfinite(x).all() or missed > BACKWARD * (grown + size) or grown > SINGULAR * size:
        raise _singular(factor.shape)


@dataclass(frozen=True, kw_only=True)
class SparseFactor(SquareFactor):
    """The scaled matrix and its factored permutation."""

    pattern: Pattern
    backend: Backend
    label: str = "SparseLU"

    steps = 8

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.label} ({self.backend.name}, {self.pattern.order.method})"

    def _inverse(self, b: Tensor, transposed: bool) -> Tensor:
        return torch.from_numpy(self.backend.solve(b.numpy(), transposed))
