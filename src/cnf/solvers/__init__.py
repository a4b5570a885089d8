"""The weights: one algorithm per file, differentiated by the adjoint solve."""

from cnf.solvers.auto import Auto
from cnf.solvers.cholesky import Cholesky
from cnf.solvers.krylov import Krylov
from cnf.solvers.lu import LU
from cnf.solvers.minimum_norm import MinimumNorm
from cnf.solvers.patches import Patches
from cnf.solvers.qr import QR
from cnf.solvers.solver import Factor, Method, Solver
from cnf.solvers.sparse_direct import SparseCholesky, SparseLU

__all__ = [
    "LU",
    "QR",
    "Auto",
    "Cholesky",
    "Factor",
    "Krylov",
    "Method",
    "MinimumNorm",
    "Patches",
    "Solver",
    "SparseCholesky",
    "SparseLU",
]
