"""Matrices: dense, or in compressed form where that pays, whose structure is kept from one solve to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from cnf.bases.basis import Basis, Evaluator
from cnf.bases.local import LocalEvaluator, reach_of
from cnf.constraints import Constraint
from cnf.errors import BasisError
from cnf.solvers.solver import Solver
from cnf.systems.assembly import assemble_matrices
from cnf.systems.dense import factor_matrices, restore_weights
from cnf.systems.fingerprint import fingerprint
from cnf.systems.formulation import Expansion, Formulation, Plan
from cnf.systems.layout import BlockLayout
from cnf.systems.sparse_assembly import Structure, assemble_sparse, density, plan_structure

LARGE = 1000**2  # entries from which on a sparse form is considered at all
SPARSE = 0.15  # share of stored entries up to which it pays


@dataclass(frozen=True, eq=False)
class KnownStructure:
    """A structure and what it was made for; `structure` is None if dense is the better form."""

    key: tuple
    structure: Structure | None


def find_structure(
    evaluator: Evaluator,
    basis: Basis,
    constraints: Sequence[Constraint],
    layout: Sequence[BlockLayout],
    solver: Solver,
    known: KnownStructure | None,
) -> KnownStructure | None:
    """The sparse structure, the one known if it still serves; None: the system is dense."""
    if solver.sparse is False:
        return None
    if not isinstance(evaluator, LocalEvaluator) or evaluator.support is None:
        if solver.sparse:
            raise BasisError(
                f"{type(solver).__name__} needs a basis whose functions vanish beyond a radius: Kernel or Hermite with "
                "cnf.kernels.Wendland, or Hybrid(inner, window); use solver=cnf.solvers.Auto() for this one"
            )
        return None
    if not solver.sparse and sum(c.rows for c in constraints) * basis.size < LARGE:
        return None
    support = reach_of(evaluator)
    assert support is not None
    places = [p.points for c in constraints for p in c.expanded()] + [g.points for g in evaluator.centres]
    key = (solver.sparse, support.requires_grad, fingerprint(places))
    if known is not None and known.key == key and (known.structure is None or known.structure.serves(support)):
        return known
    structure = plan_structure(evaluator, basis, constraints, layout)
    if not solver.sparse and max(density(s.pattern) for s in structure.scatters) > SPARSE:
        return KnownStructure(key, None)
    return KnownStructure(key, structure)


@dataclass(frozen=True)
class Matrices(Formulation):
    """Compressed for functions that vanish beyond a radius, if the solver takes that and it pays; else written out."""

    solver: Solver
    known: KnownStructure | None = None

    def plan(self, basis: Basis, constraints: Sequence[Constraint]) -> Plan:
        evaluator = basis.snapshot()
        known = find_structure(evaluator, basis, constraints, self.layout, self.solver, self.known)
        if known is None or known.structure is None:
            matrices: Sequence = assemble_matrices(evaluator, basis, constraints, self.layout)
        else:
            assert isinstance(evaluator, LocalEvaluator)
            matrices = assemble_sparse(evaluator, basis, constraints, self.layout, known.structure)
        return factor_matrices(replace(self, known=known), self.solver, basis, constraints, evaluator, matrices)

    def restored(self, basis: Basis, constraints: Sequence[Constraint], state: Mapping[str, Tensor]) -> Expansion:
        return restore_weights(basis, state)
