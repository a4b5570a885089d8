"""ConstrainedField: basis + constraints (+ a base network) -> a field that meets its conditions at every step."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from cnf.bases import Recommendation, recommend
from cnf.bases.basis import Basis, Evaluator, check_smoothness
from cnf.bases.determinism import refuse_unsteady
from cnf.bases.hermite import Hermite
from cnf.bases.layers import smoothness as network_smoothness
from cnf.constraints import Constraint
from cnf.description import described, described_solver
from cnf.errors import (
    BasisError,
    CnfError,
    CnfWarning,
    ConstraintError,
    OverdeterminedError,
    SmoothnessWarning,
    nearest,
)
from cnf.files import write_archive
from cnf.operators.jets import MultiIndex
from cnf.patched import solve_in_patches
from cnf.solution import BaseFunction, Solution
from cnf.solvers import Auto, Patches, Solver
from cnf.solvers.adjoint import solve
from cnf.solvers.solver import Factor
from cnf.systems.assembly import Block, assemble_targets, joint_columns
from cnf.systems.certificate import Certificate
from cnf.systems.fingerprint import fingerprint, plain_attributes
from cnf.systems.form import KnownStructure, assemble, find_structure, is_finite
from cnf.systems.judgement import certify, judge
from cnf.systems.layout import lay_out
from cnf.systems.quadrature import quadrature_errors, resolve
from cnf.systems.sparse import SparseMatrix

KIND, VERSION = "cnf field", 1
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}


@dataclass(frozen=True)
class Factored:
    """The part of a solve that does not depend on the right-hand sides."""

    evaluator: Evaluator
    matrices: tuple[Tensor | SparseMatrix, ...]
    factors: tuple[Factor, ...]
    seconds: float


class ConstrainedField(nn.Module):
    """f = base + sum_j beta_j Psi_j with beta solved so that every constraint holds.

    In training mode every call solves anew and is differentiable; in eval mode the weights are solved once and reused
    until anything they depend on changes. `tolerance` bounds the relative residual (default 1e-9 in float64, 1e-4 in
    float32); `on_violation` says whether missing it raises or warns. `basis="auto"` takes what `cnf.bases.recommend`
    says, with the longest lengths for which all conditions hold; `field.recommendation` gives the reason.
    """

    def __init__(
        self,
        basis: Basis | str,
        constraints: Sequence[Constraint] | Constraint,
        base: nn.Module | None = None,
        solver: Solver | None = None,
        tolerance: float | None = None,
        on_violation: str = "warn",
    ):
        super().__init__()
        self.recommendation = None
        if isinstance(basis, str) and basis == "auto":
            self.recommendation = _recommended(constraints, base, solver, tolerance)
            basis = self.recommendation.basis
        if not isinstance(basis, Basis):
            raise BasisError(
                "the first argument is a basis from cnf.bases (or your own subclass of Basis), or 'auto'; got a "
                f"{type(basis).__name__}"
            )
        if on_violation not in ("raise", "warn"):
            raise CnfError(f"on_violation is 'raise' or 'warn', not {on_violation!r}")
        if tolerance is not None and not (isinstance(tolerance, int | float) and tolerance > 0):
            raise CnfError(f"the tolerance is a positive number; got {tolerance!r}")
        if base is not None and not isinstance(base, nn.Module):
            raise CnfError(f"base must be a torch module R^D -> R^C; got a {type(base).__name__}")
        self.solver = solver if solver is not None else Auto()
        if not isinstance(self.solver, Solver):
            raise CnfError(f"solver must be one of cnf.solvers, such as Auto(); got a {type(solver).__name__}")
        self.basis, self.base, self.on_violation = basis, base, on_violation
        self.constraints = _checked(basis, constraints)
        self.dtype = self.constraints[0].points.dtype
        self.basis.to(self.dtype)
        self.tolerance = tolerance if tolerance is not None else TOLERANCE.get(self.dtype, 1e-4)
        self.layout = lay_out(basis, self.constraints)
        self._check_size()
        self.constraints = resolve(basis, self.constraints)
        self.coefficients = nn.ParameterDict()
        self.coefficient_networks = nn.ModuleDict()
        self._adopt_coefficients()
        self._cache: tuple[tuple, Factored | None, Solution] | None = None  # nothing is factored for patches
        self._structure: KnownStructure | None = None  # of a sparse system: kept while points and supports stay

    # -- solving -------------------------------------------------------------------------------------------------

    def solve(self) -> Solution:
        """Assemble, factor, solve, measure; differentiable in everything learnable."""
        if isinstance(self.solver, Patches):
            return self._patched()
        return self._solved(self._factored())

    def _patched(self) -> Solution:
        assert isinstance(self.solver, Patches)
        self._check_parts()
        base = self._base_function()
        constraints = tuple(c.renewed() for c in self.constraints)
        given = (self.basis, constraints, self.layout, self.solver, self.base, base)
        return solve_in_patches(*given, self._is_symmetric(), self.tolerance, self.on_violation)

    def forward(self, x: Tensor) -> Tensor:
        """(P, D) -> (P, C)."""
        return (self.solve() if self.training else self.solution)(x)

    @property
    def solution(self) -> Solution:
        """The solution for the present parameters, solved only if anything changed.

        It is differentiable in the points only: its weights were solved for once, so gradients to parameters would
        lack their share.
        """
        key = self._key()
        if self._cache is None or self._cache[0] != key:
            with torch.no_grad():
                factored = None if isinstance(self.solver, Patches) else self._factored()
                self._cache = (key, factored, self._constant(factored))
        return self._cache[2]

    def _constant(self, factored: Factored | None) -> Solution:
        solved = self._patched() if factored is None else self._solved(factored)
        return replace(solved, constants=tuple(self.parameters()))

    @property
    def certificate(self) -> Certificate:
        return self.solution.certificate

    def update(self, values: Mapping[str, object] | object) -> Solution:
        """New right-hand sides, {name: number, tensor or callable}, solved with the factorisation that is there.

        A single value is enough for a field with one constraint. The other constraints keep their values.
        """
        changes = values if isinstance(values, Mapping) else {self._only_name(): values}
        names = [c.name for c in self.constraints]
        for name in changes:
            if name not in names:
                raise ConstraintError(
                    f"there is no constraint {name!r}; the field has {', '.join(names)}." + nearest(str(name), names)
                )
        before = self._key()
        renewed = tuple(c.with_values(changes[c.name]) if c.name in changes else c for c in self.constraints)
        self.constraints = tuple(c.to(self.dtype) for c in renewed)
        if self._cache is not None and self._cache[0] == before:
            with torch.no_grad():
                self._cache = (self._key(), self._cache[1], self._constant(self._cache[1]))
        return self.solution

    def transfer(self, constraints: Sequence[Constraint] | Constraint, **changes: object) -> ConstrainedField:
        """A field for other conditions with the same trained basis and base: solved at once, nothing trained.

        The conditions may be other equations at the same points, or at new points, as long as there are no more of them
        than functions. Both fields share their parameters; `changes` replace solver, tolerance or on_violation.
        """
        kept = {"solver": self.solver, "tolerance": self.tolerance, "on_violation": self.on_violation}
        given = [constraints] if isinstance(constraints, Constraint) else constraints
        if isinstance(given, Sequence) and all(isinstance(c, Constraint) for c in given):
            given = [c.to(self.dtype) for c in given]  # the shared basis keeps its precision
        field = ConstrainedField(self.basis, given, base=self.base, **{**kept, **changes})  # type: ignore[arg-type]
        return field.train(self.training)

    def _only_name(self) -> str:
        if len(self.constraints) > 1:
            raise ConstraintError(
                "say which constraint gets the new values: update(values={name: values}), with one of "
                + ", ".join(repr(c.name) for c in self.constraints)
            )
        return self.constraints[0].name

    def _factored(self) -> Factored:
        started = time.perf_counter()
        self._check_parts()
        evaluator = self.basis.snapshot()
        self._structure = find_structure(
            evaluator, self.basis, self.constraints, self.layout, self.solver, self._structure
        )
        matrices = assemble(evaluator, self.basis, self.constraints, self.layout, self._structure)
        for matrix in matrices:
            if not is_finite(matrix):
                raise BasisError(
                    "the basis gives values or derivatives that are not finite at the points of the constraints; look "
                    "at its parameters (a bandwidth that ran to zero?) and at functions such as sqrt or norm at zero"
                )
        symmetric = self._is_symmetric()
        factors = tuple(self.solver.factor(m, symmetric) for m in matrices)
        return Factored(evaluator, matrices, factors, time.perf_counter() - started)

    def _check_parts(self) -> None:
        types = {t.dtype for t in (*self.basis.parameters(), *self.basis.buffers()) if t.is_floating_point()}
        if types - {self.dtype}:
            raise BasisError(
                f"the basis is in {', '.join(map(str, types))} now, the field in {self.dtype}: was it given to another "
                "field since? Build one basis for each, or convert this field: field.to(dtype)"
            )
        refuse_unsteady(self.basis, "the basis")
        if self.base is not None:
            refuse_unsteady(self.base, "the base network")

    def _solved(self, factored: Factored) -> Solution:
        started = time.perf_counter()
        base = self._base_function()
        constraints = tuple(c.renewed() for c in self.constraints)
        targets = assemble_targets(constraints, self.layout, base)
        parts = [solve(m, b, f) for m, b, f in zip(factored.matrices, targets, factored.factors, strict=True)]
        blocks = tuple(Block(*triple) for triple in zip(self.layout, factored.matrices, targets, strict=True))
        seconds = factored.seconds + time.perf_counter() - started
        certificate: Certificate = None  # type: ignore[assignment]  # measured below, on the solution itself
        solution = Solution(
            self.basis.space,
            self.basis,
            factored.evaluator,
            self._scattered(parts),
            self.base,
            certificate,
            constraints,
            blocks,
        )
        integrals = quadrature_errors(solution._applied, constraints)
        certificate = certify(
            blocks, parts, factored.factors, constraints, self.basis, self.tolerance, seconds, integrals
        )
        judge(certificate, self.on_violation)
        return replace(solution, certificate=certificate)

    def derivatives(self, x: Tensor, indices: Sequence[MultiIndex]) -> dict[MultiIndex, Tensor]:
        """Derivatives of every channel by their multi-indices, each (P, C); asked of a field that is another's base."""
        return (self.solve() if self.training else self.solution).derivatives(x, indices)

    def _base_function(self) -> BaseFunction | None:
        return None if self.base is None else BaseFunction(self.base, len(self.basis.space.channels))

    def _scattered(self, parts: Sequence[Tensor]) -> Tensor:
        """Block solutions (n, k) -> weights (N, C), or (N,) for joint bases."""
        size, channels = self.basis.size, len(self.basis.space.channels)
        if not self.basis.joint:
            columns: dict[int, Tensor] = {}
            for block, part in zip(self.layout, parts, strict=True):
                for k, copy in enumerate(block.copies):
                    for j, c in enumerate(copy.channels):
                        columns[c] = part[j * size : (j + 1) * size, k]
            zero = parts[0].new_zeros(size)
            return torch.stack([columns.get(c, zero) for c in range(channels)], dim=1)
        weights = parts[0].new_zeros(size)
        for block, part in zip(self.layout, parts, strict=True):
            for k, copy in enumerate(block.copies):
                columns_of = joint_columns(self.basis, copy).to(part.device)
                weights = weights.index_put((columns_of,), part[:, k])
        return weights

    # -- bookkeeping ---------------------------------------------------------------------------------------------

    def _check_size(self) -> None:
        for block in self.layout:
            rows = sum(self.constraints[i].points.shape[0] for i, _ in block.first.rows)
            if self.basis.joint:
                columns = len(joint_columns(self.basis, block.first))
            else:
                columns = self.basis.size * len(block.first.channels)
            if rows > columns and not self.solver.least_squares:
                raise OverdeterminedError(
                    f"{rows} conditions but only {columns} basis functions: they cannot all hold. Give the basis at "
                    f"least {rows} functions, drop conditions, or ask for a least-squares fit with "
                    "solver=cnf.solvers.Auto(least_squares=True)"
                )

    def _is_symmetric(self) -> bool:
        basis = self.basis
        if not isinstance(basis, Hermite) or not basis.kernel.positive_definite:
            return False
        if len(basis.constraints) != len(self.constraints):
            return False
        return all(
            (a.operator is b.operator or a.operator == b.operator)
            and a.level == b.level
            and (a.points is b.points or torch.equal(a.points.to(b.points), b.points))
            for a, b in zip(basis.constraints, self.constraints, strict=True)
        )

    def _adopt_coefficients(self) -> None:
        """Learnable numbers and networks inside operators become part of the field, so that optimisers find them."""
        for constraint in self.constraints:
            side = constraint.right_hand_side
            for name, value in (*constraint.operator.data, *side.data.items(), ("right_hand_side", side.source)):
                if isinstance(value, nn.Parameter):
                    self.coefficients[_free_name(self.coefficients, name, value)] = value
                elif isinstance(value, nn.Module):
                    self.coefficient_networks[_free_name(self.coefficient_networks, name, value)] = value

    def _key(self) -> tuple:
        tensors = [*self.parameters(), *self.buffers()]
        for c in self.constraints:
            with torch.no_grad():
                values = c.renewed().values
            tensors += [c.points, values, *(v for _, v in c.operator.data if isinstance(v, Tensor))]
        settings = tuple((m.training, plain_attributes(m)) for m in self.modules())
        return (self.solver, self.tolerance, self.on_violation, settings, fingerprint(tensors))

    def _apply(self, fn, recurse: bool = True):
        """Constraints move along with the parameters, to another precision or device."""
        super()._apply(fn, recurse)
        points = fn(self.constraints[0].points)
        self.constraints = tuple(c.to(points.dtype, points.device) for c in self.constraints)
        if self.tolerance == TOLERANCE.get(self.dtype):
            self.tolerance = TOLERANCE.get(points.dtype, 1e-4)
        self.dtype, self._cache = points.dtype, None
        return self

    def save(self, path: object) -> None:
        """Write the field to a file that `cnf.load` reads back; no pickle."""
        description = {
            "basis": described(self.basis, "basis"),
            "base": described(self.base, "base"),
            "constraints": [described(c, "constraint") for c in self.constraints],
            "solver": described_solver(self.solver),
            "tolerance": self.tolerance,
            "on_violation": self.on_violation,
            "training": self.training,
        }
        state = {name: value.detach().cpu() for name, value in self.state_dict().items()}
        write_archive(path, KIND, VERSION, {"field": description, "state": state})

    def extra_repr(self) -> str:
        return "\n".join(repr(c) for c in self.constraints)


def _recommended(
    constraints: Sequence[Constraint] | Constraint,
    base: nn.Module | None,
    solver: Solver | None,
    tolerance: float | None,
) -> Recommendation:
    """The recommended basis with lengths halved until every condition holds; the first if none does."""
    tried = []
    for reach in (1.0, 0.5, 0.25, 0.125):
        tried.append(recommend(constraints, reach))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CnfWarning)
            if ConstrainedField(tried[-1].basis, constraints, base, solver, tolerance).certificate.exact:
                return tried[-1]
    return tried[0]


def _free_name(table: nn.ParameterDict | nn.ModuleDict, name: str, value: object) -> str:
    """`name`, or with a number behind it if another coefficient, or the table itself (`keys`), has it already."""
    free, count = name, 2
    while (free in table and table[free] is not value) or (free not in table and hasattr(table, free)):
        free, count = f"{name}_{count}", count + 1
    return free


def _checked(basis: Basis, given: Sequence[Constraint] | Constraint) -> tuple[Constraint, ...]:
    constraints = [given] if isinstance(given, Constraint) else list(given) if isinstance(given, Sequence) else []
    if not constraints or not all(isinstance(c, Constraint) for c in constraints):
        raise ConstraintError("a field needs at least one constraint, made with space.constraint(...)")
    seen: set[str] = set()
    for c in constraints:
        if c.operator.frame != basis.space.frame:
            raise ConstraintError(f"constraint {c.name!r} belongs to another space than the basis")
        if c.name in seen:
            raise ConstraintError(f"two constraints are called {c.name!r}; give each its own name=")
        seen.add(c.name)
        check_smoothness(basis, c.operator, f"constraint {c.name!r}")
    networks = [m for m in basis.modules() if network_smoothness(m) == 1]
    if networks and any(c.operator.order >= 1 for c in constraints):
        warnings.warn(
            "the encoder is piecewise linear (ReLU): its first derivative jumps and its second is zero; "
            "tanh, softplus or sine are better for conditions on derivatives",
            SmoothnessWarning,
            stacklevel=3,
        )
    dtype = torch.float64 if any(c.points.dtype == torch.float64 for c in constraints) else constraints[0].points.dtype
    return tuple(c.to(dtype) for c in constraints)
