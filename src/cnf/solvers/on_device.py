"""Sparse direct solves where the tensors are: a slot for packages that do them, and the one that is known.

A package takes the slot with an entry point of the group "cnf.sparse_solvers": an object with `takes(values)`, whether
it can factor values that are where these are, and `factor(starts, columns, values, definite)`, for a matrix (n, n) in
compressed rows, which returns a `DeviceBackend`. nvmath-python (cuDSS) is known without one. Where there is none, the
matrix goes to the host (`cnf.solvers.sparse_direct`), and the certificate says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Protocol

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from cnf.errors import NotFiniteError, SingularSystemError
from cnf.fetching import numbers, sent
from cnf.solvers.condition import starting_vector
from cnf.solvers.solver import NOT_FINITE, SquareFactor, power_of_two_scales
from cnf.solvers.sparse_matrix import Pattern, SparseMatrix

GROUP = "cnf.sparse_solvers"
BACKWARD = 1e-8  # error relative to |A| |x| + |b| from which on a factorisation is given up


class DeviceBackend(Protocol):
    """A factored matrix, where its values are."""

    name: str

    def solve(self, b: Tensor, transposed: bool = False) -> Tensor:
        """(n, k) -> (n, k), float64."""
        ...


class SparseSolverPackage(Protocol):
    """What takes the slot."""

    def takes(self, values: Tensor) -> bool: ...

    def factor(self, starts: np.ndarray, columns: np.ndarray, values: Tensor, definite: bool) -> DeviceBackend: ...


class CuDSS:
    """cuDSS by the stateful solver of nvmath-python; the transposed matrix is factored when it is first asked for."""

    def takes(self, values: Tensor) -> bool:
        return values.is_cuda and _nvmath() is not None

    def factor(self, starts: np.ndarray, columns: np.ndarray, values: Tensor, definite: bool) -> DeviceBackend:
        return CuDSSFactor(starts, columns, values, definite)


class CuDSSFactor:
    """One matrix, and its transpose unless it is its own."""

    name = "cuDSS"

    def __init__(self, starts: np.ndarray, columns: np.ndarray, values: Tensor, definite: bool):
        self._size = starts.shape[0] - 1
        self._given = starts, columns, values
        self._forward = self._begun(starts, columns, values)
        self._backward: Any = self._forward if definite else None

    def _begun(self, starts: np.ndarray, columns: np.ndarray, values: Tensor) -> Any:
        # Indices of 32 bits are what cuDSS takes.
        begins, places = (sent(part.astype(np.int32), values) for part in (starts, columns))
        matrix = torch.sparse_csr_tensor(begins, places, values, size=(self._size, self._size))
        solver = _nvmath().DirectSolver(matrix, values.new_zeros(self._size))
        solver.plan()
        solver.factorize()
        return solver

    def solve(self, b: Tensor, transposed: bool = False) -> Tensor:
        if transposed and self._backward is None:
            starts, columns, values = self._given
            order = np.arange(columns.shape[0])
            turned = sparse.csr_matrix((order, columns, starts), shape=(self._size, self._size)).T.tocsr()
            self._backward = self._begun(turned.indptr, turned.indices, values[sent(turned.data, values)])
        solver = self._backward if transposed else self._forward
        found = []
        for column in b.unbind(dim=1):  # every right-hand side must look like the one it was planned with
            solver.reset_operands(b=column.contiguous())
            found.append(solver.solve().clone())
        return torch.stack(found, dim=1)


@cache
def _nvmath() -> Any:
    try:
        from nvmath.sparse import advanced
    except ImportError:
        return None
    return advanced


def packages() -> Iterator[SparseSolverPackage]:
    """Those that are installed, then the one that is known."""
    for found in entry_points(group=GROUP):
        yield found.load()
    yield CuDSS()


def package_for(values: Tensor) -> SparseSolverPackage | None:
    """What factors values that are where these are; None: the host has to."""
    return next((package for package in packages() if package.takes(values)), None)


def factor_there(
    matrix: SparseMatrix, package: SparseSolverPackage, label: str, definite: bool, refine: bool
) -> DeviceFactor:
    """The factor of a square sparse matrix, scaled by powers of two, without leaving the device."""
    pattern, values = matrix.pattern, matrix.values.detach().to(torch.float64)
    at_row, at_column = pattern.row_of.to(values.device), pattern.column_of.to(values.device)
    zero = values.new_zeros(pattern.shape[0])
    if definite:
        diagonal = zero.index_add(0, at_row, torch.where(at_row == at_column, values, 0.0))
        rows = columns = power_of_two_scales(diagonal.clamp_min(0).sqrt())
    else:
        rows = power_of_two_scales(zero.index_add(0, at_row, values.square()).sqrt())
        columns = power_of_two_scales(zero.index_add(0, at_column, (values * rows[at_row]).square()).sqrt())
    scaled = values * rows[at_row] * columns[at_column]
    factor = DeviceFactor(
        shape=pattern.shape,
        scale_rows=rows,
        scale_columns=columns,
        matrix=scaled,
        pattern=pattern,
        at=(at_row, at_column),
        backend=package.factor(pattern.starts, pattern.columns, scaled, definite),
        refine=refine,
        definite=definite,
        label=label,
    )
    b = starting_vector(pattern.shape[0], rows)[:, None]
    x = factor.backend.solve(b)
    off = (factor._product(x, False) - b).abs().max()
    allowed = BACKWARD * (zero.index_add(0, at_row, scaled.abs()).max() * x.abs().max() + b.abs().max())
    finite, sound = numbers(torch.isfinite(values).all(), torch.isfinite(x).all() & (off <= allowed))
    if not finite:
        raise NotFiniteError(NOT_FINITE)
    if not sound:
        raise SingularSystemError(
            f"the sparse {pattern.shape[0]} x {pattern.shape[1]} system is singular for {factor.backend.name}: two "
            "conditions or functions are the same, or a condition lies outside all supports. Remove duplicates, "
            "enlarge the radius, or use Hermite for several conditions at one point"
        )
    return factor


@dataclass(frozen=True, kw_only=True)
class DeviceFactor(SquareFactor):
    """The scaled values (nnz,) on their pattern, and the factorisation of a package."""

    matrix: Tensor
    pattern: Pattern
    at: tuple[Tensor, Tensor]  # row and column of every value
    backend: DeviceBackend
    label: str

    steps = 8

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.label} ({self.backend.name})"

    def _inverse(self, b: Tensor, transposed: bool) -> Tensor:
        return self.backend.solve(b, transposed)

    def _product(self, x: Tensor, transposed: bool) -> Tensor:
        to, source = self.at[::-1] if transposed else self.at
        return torch.zeros_like(x).index_add(0, to, self.matrix[:, None] * x[source])
