"""ConstrainedField: basis + constraints (+ a base network) -> a field that meets its conditions at every step."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from cnf.bases.basis import Basis
from cnf.bases.precision import without_autocast
from cnf.bases.recommend import recommend_tried
from cnf.bases.suitability import PRECISIONS, check_arguments, check_parts, suited
from cnf.certificate import Certificate, certify, judge
from cnf.constraints import Constraint
from cnf.constraints.learnable import adopt_learnable
from cnf.description import described, described_solver
from cnf.errors import CnfError, CnfWarning, ConstraintError, nearest
from cnf.files import write_archive
from cnf.operators.jets import MultiIndex
from cnf.solution import Solution
from cnf.solvers import Auto, Method
from cnf.systems.assembly import applied
from cnf.systems.base_function import BaseFunction
from cnf.systems.choosing import formulate
from cnf.systems.fingerprint import GLOBAL_HOOKS, fingerprint_of, refuse_transforms
from cnf.systems.formulation import Formulation, Plan
from cnf.systems.holding import Parts, hold_parts
from cnf.systems.quadrature import resolve

KIND, VERSION = "cnf field", 1
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}
SAMPLE = 32  # points of each constraint measured on the field at a step of training


class ConstrainedField(nn.Module):
    """f = base + sum_j beta_j Psi_j with beta solved so that every constraint holds.

    In training mode every call solves anew and is differentiable; in eval mode the weights are solved once and reused
    until anything they depend on changes. `tolerance` bounds the relative residual (default 1e-9 in float64, 1e-4 in
    float32); `on_violation` says whether missing it raises or warns. `basis="auto"` takes what `cnf.bases.recommend`
    says, with the longest lengths for which all conditions hold; `field.recommendation` gives the reason.
    """

    _derived = ("_cache", "_formulation")  # attributes that follow from the others

    def __init__(
        self,
        basis: Basis | str,
        constraints: Sequence[Constraint] | Constraint,
        base: nn.Module | None = None,
        solver: Method | None = None,
        tolerance: float | None = None,
        on_violation: str = "warn",
    ):
        super().__init__()
        self.recommendation = None
        if isinstance(basis, str) and basis == "auto":
            self.recommendation = recommend_tried(
                constraints, lambda b: _holds(b, constraints, base, solver, tolerance)
            )
            basis = self.recommendation.basis
        basis = check_arguments(basis, base, tolerance, on_violation)
        self.solver = Auto() if solver is None else solver
        self.basis, self.base, self.on_violation = basis, base, on_violation
        self.constraints = suited(basis, base, constraints)
        self.dtype = self.constraints[0].points.dtype
        self.basis.to(self.dtype)
        self.tolerance = tolerance if tolerance is not None else TOLERANCE[self.dtype]
        self._formulation: tuple[tuple[object, ...], Formulation] | None = None
        self._formulated()
        self.constraints = resolve(basis, self.constraints)
        self.coefficients = nn.ParameterDict()
        self.coefficient_networks = nn.ModuleDict()
        adopt_learnable(self.constraints, self.coefficients, self.coefficient_networks)
        self._cache: tuple[object, Plan | None, Solution] | None = None

    # -- solving -------------------------------------------------------------------------------------------------

    def solve(self) -> Solution:
        """Assemble, factor, solve, measure; differentiable in everything learnable."""
        return self._solved(*self._planned())

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
            with torch.inference_mode(False), torch.no_grad():  # inference tensors could never be differentiated later
                held, plan = self._planned()
                self._cache = (key, plan, replace(self._solved(held, plan), constant=True))
        return self._cache[2]

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
        if self._cache is not None and self._cache[0] == before and self._cache[1] is not None:
            with torch.inference_mode(False), torch.no_grad():
                held, plan = self._held(), self._cache[1]
                self._cache = (self._key(), plan, replace(self._solved(held, plan), constant=True))
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

    def _held(self) -> Parts:
        for part in self.base.modules() if self.base is not None else ():
            if isinstance(part, ConstrainedField) and not part.training:
                part.solution  # noqa: B018  # solved here: inside a derivative of the base it would be too late
        return hold_parts(self.basis, self.base, self.constraints)

    def _formulated(self) -> tuple[tuple[object, ...], Formulation]:
        """The formulation, and what it was made for: made anew if any of that is another object now."""
        given = (self.solver, self.basis, *(part for c in self.constraints for part in (c.operator, c.points)))
        if self._formulation is None or [*map(id, self._formulation[0])] != [*map(id, given)]:
            self._formulation = (given, formulate(self.solver, self.basis, self.constraints))
        return self._formulation

    def _planned(self) -> tuple[Parts, Plan]:
        check_parts(self.basis, self.base, self.dtype)
        refuse_transforms()
        started = time.perf_counter()
        held = self._held()
        given, formulation = self._formulated()
        with without_autocast(held.constraints[0].points.device):
            plan = formulation.plan(held.basis, held.constraints)
        self._formulation = (given, plan.formulation)  # it learns the structure of its systems
        return replace(held, seconds=time.perf_counter() - started), plan

    def _solved(self, held: Parts, plan: Plan) -> Solution:
        started = time.perf_counter()
        with without_autocast(held.constraints[0].points.device):
            constraints = tuple(c.renewed() for c in held.constraints)
            base, made_up = None, [c.values for c in constraints]
            if held.base is not None:
                base = BaseFunction(held.base, len(held.basis.space.channels), constraints[0].points[:1])
                made_up = [g - applied(base, c.expanded(), g.shape) for g, c in zip(made_up, constraints, strict=True)]
            expansion = plan.solve(made_up)
            training = self.training and expansion.like.requires_grad and torch.is_grad_enabled()
            solution = Solution(
                held.basis.space,
                held.basis,
                expansion,
                base,
                constraints,
                self.tolerance,
                self.on_violation,
                held.seconds + time.perf_counter() - started,
                tuple(g.detach() for g in made_up),
                surroundings=held.surroundings,
            )
            found = certify(solution, self.tolerance, solution.seconds, made_up, SAMPLE if training else None)
        held.return_statistics()
        judge(found, self.on_violation)
        return replace(solution, spot_check=found)

    def derivatives(self, x: Tensor, indices: Sequence[MultiIndex]) -> dict[MultiIndex, Tensor]:
        """Derivatives of every channel by their multi-indices, each (P, C); asked of a field that is another's base."""
        return (self.solve() if self.training else self.solution).derivatives(x, indices)

    # -- bookkeeping ---------------------------------------------------------------------------------------------

    def _key(self) -> object:
        settings = (self.solver, self.tolerance, self.on_violation, self.training)
        return fingerprint_of((self.basis, self.base, self.constraints, *settings, *GLOBAL_HOOKS))

    def _apply(self, fn, recurse: bool = True):
        """Constraints move along with the parameters, to another precision or device."""
        points = fn(self.constraints[0].points)
        if points.dtype not in PRECISIONS:
            raise CnfError(
                f"conditions cannot be met, or measured, in {points.dtype}; keep the field in torch.float32 or "
                "torch.float64, and convert what it returns"
            )
        super()._apply(fn, recurse)
        self.constraints = tuple(c.to(points.dtype, points.device) for c in self.constraints)
        if self.tolerance == TOLERANCE.get(self.dtype):
            self.tolerance = TOLERANCE[points.dtype]
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


def _holds(basis: Basis, *given: object) -> bool:
    """Whether all conditions hold with this basis."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)
        return ConstrainedField(basis, *given).certificate.exact  # type: ignore[arg-type]
