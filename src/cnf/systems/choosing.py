"""Choosing: which formulation a field gets, from what was given as its solver."""

from __future__ import annotations

from collections.abc import Sequence

from cnf.bases.basis import Basis
from cnf.bases.piecewise import Piecewise
from cnf.constraints import Constraint
from cnf.errors import CnfError
from cnf.solvers import Auto, Patches, Solver
from cnf.systems.dense import refuse_overdetermined
from cnf.systems.formulation import Formulation
from cnf.systems.layout import lay_out
from cnf.systems.patched import Patched
from cnf.systems.sparse import Matrices
from cnf.systems.tied import Tied


def formulate(method: object, basis: Basis, constraints: Sequence[Constraint]) -> Formulation:
    """The formulation of these conditions under a solver (None: Auto) or Patches."""
    method = Auto() if method is None else method
    if not isinstance(method, Solver | Patches):
        raise CnfError(f"solver must be one of cnf.solvers, such as Auto(); got a {type(method).__name__}")
    layout = lay_out(basis, constraints)
    refuse_overdetermined(method, basis, constraints, layout)
    if isinstance(basis, Piecewise):
        return Tied(layout, workers=method.workers if isinstance(method, Patches) else None)
    return Patched(layout, method) if isinstance(method, Patches) else Matrices(layout, method)
