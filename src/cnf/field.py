"""ConstrainedField: basis + constraints (+ a base network) -> a field that meets its conditions at every step."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from cnf.bases.basis import Basis
from cnf.bases.precision import without_autocast
from cnf.bases.recommend import recommend_for
from cnf.bases.renewed_guides import guided_anew
from cnf.bases.suitability import PRECISIONS, check_arguments, check_parts, suited
from cnf.certificate import Certificate
from cnf.constraints import Constraint
from cnf.constraints.learnable import adopt_coefficients
from cnf.errors import CnfError, ConstraintError, NumericalWarning, nearest
from cnf.nonlinear import response, solve_nonlinear
from cnf.operators.detail import Detail, Together
from cnf.operators.jets import MultiIndex
from cnf.operators.nonlinear import Called, State
from cnf.solution import Solution
from cnf.solvers import Auto, Method
from cnf.solving import base_function, solve_and_measure, with_rules
from cnf.storage import write_field
from cnf.systems.choosing import formulate
from cnf.systems.fingerprint import GLOBAL_HOOKS, fingerprint_of, refuse_transforms
from cnf.systems.formulation import Expansion, Formulation, Plan, SavedWeights
from cnf.systems.holding import Parts, hold_parts
from cnf.systems.states import start_of

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}


class ConstrainedField(nn.Module):
    """f = base + sum_j beta_j Psi_j with beta solved so that every constraint holds.

    In training mode every call solves anew and is differentiable; in eval mode the weights are solved once and reused
    until anything they depend on changes. `tolerance` bounds the relative residual (default 1e-9 in float64, 1e-4 in
    float32); `on_violation` says whether missing it raises or warns. `basis="auto"` takes what `cnf.bases.recommend`
    says, with the longest lengths for which all conditions hold; `field.recommendation` gives the reason.
    Conditions that are not linear in the field are met by Newton's iteration, which begins at `start` (a field, or any
    function of points), at the base or at zero.

    >>> space = cnf.Space("x", "u")
    >>> ends = space.constraint("u = 1 - x", at=[[0.0], [1.0]], name="ends")
    >>> field = cnf.ConstrainedField(cnf.bases.RandomFourier(space, 16, bandwidth=0.5), [ends])
    >>> solution = field.solve()
    >>> solution.certificate.exact
    True
    >>> field(torch.tensor([[0.0], [1.0]])).shape  # (P, D) -> (P, C)
    torch.Size([2, 1])
    """

    _derived = ("_cache", "_formulation", "_saved", "_iterate")  # attributes that follow from the others

    def __init__(
        self,
        basis: Basis | str,
        constraints: Sequence[Constraint] | Constraint,
        base: nn.Module | None = None,
        solver: Method | None = None,
        tolerance: float | None = None,
        on_violation: str = "warn",
        start: object = None,
    ):
        super().__init__()
        self.recommendation = None
        if isinstance(basis, str) and basis == "auto":
            made = partial(ConstrainedField, constraints=constraints, base=base, solver=solver, tolerance=tolerance)
            self.recommendation = recommend_for(constraints, lambda tried: made(tried).certificate.exact)
            basis = self.recommendation.basis
        basis = check_arguments(basis, base, tolerance, on_violation)
        self.solver = Auto() if solver is None else solver
        self.basis, self.base, self.on_violation = basis, base, on_violation
        self.constraints = suited(basis, base, constraints)
        self.dtype = self.constraints[0].points.dtype
        before = self.basis.sources
        self.basis.to(device=self.constraints[0].points.device, dtype=self.dtype)
        self.constraints = self._shared(before)
        self.tolerance = tolerance if tolerance is not None else TOLERANCE[self.dtype]
        self._formulation: tuple[tuple[object, ...], Formulation] | None = None
        self._formulated()
        self.constraints = with_rules(basis, base, self.constraints, self.detail)
        self.coefficients = nn.ParameterDict()
        self.coefficient_networks = nn.ModuleDict()
        learnt = (*self.constraints, *self.basis.brought)
        adopt_coefficients(learnt, self.coefficients, self.coefficient_networks)
        self.start = start_of(start)
        self._iterate: State | None = None  # where the next iteration begins
        self._cache: tuple[object, Plan | None, Solution] | None = None
        self._saved: tuple[tuple[object, SavedWeights], ...] = ()  # weights from a file, and what they are valid for

    # -- solving -------------------------------------------------------------------------------------------------

    def solve(self, measure: bool = True) -> Solution:
        """Assemble, factor, solve, measure; differentiable in everything learnable.

        Without `measure` the conditions are measured when somebody asks for the certificate: searches compare many
        fields and keep one.
        """
        return self._run(self._ready(measure)[0])

    def _ready(self, measure: bool) -> tuple[Callable[[], Solution], Plan | None]:
        """The solve for the present parameters, ready to go, and its plan if that serves other values as well."""
        settings = (self.tolerance, self.on_violation, self.training, measure)
        if all(c.nonlinear is None for c in (*self.constraints, *self.basis.brought)):
            held, plan = self._planned()
            return partial(solve_and_measure, held, plan.solve, *settings), plan
        held, formulation = self._prepared()
        solve = partial(_planned_anew, formulation)

        def keep(iterate: State | None) -> None:
            self._iterate = Called(iterate, "the solve before") if self.training and iterate is not None else None

        start = self.start if self._iterate is None else self._iterate
        return partial(solve_nonlinear, held, solve, *settings, start, keep), None

    def response(self) -> float:
        """How far the solution moves, over its size, with small random changes of all conditions, over their terms.

        Far above one, conditions hardly determine it: what rounding, or anything between the points, leaves of them is
        enough to move it.
        """
        held, formulation = self._prepared()
        return response(held, partial(_planned_anew, formulation), self.solution)

    def _run(self, work: Callable[[], Solution]) -> Solution:
        return work()  # from here: warnings name who asked for the solve

    def forward(self, x: Tensor) -> Tensor:
        """(P, D) -> (P, C), or (..., D) -> (..., C)."""
        return (self.solve() if self.training else self.solution)(x)

    @property
    def solution(self) -> Solution:
        """The solution for the present parameters, solved only if anything changed.

        It is differentiable in the points only: its weights were solved for once, so gradients to parameters would
        lack their share.
        """
        return self.settle()

    def settle(self, measure: bool = True) -> Solution:
        """The `solution`; without `measure`, one that is solved now is measured when its certificate is asked for."""
        fresh = self._cache is None and not self._saved  # nothing to compare with
        key = None if fresh else self._key()
        if self._cache is None or self._cache[0] != key:
            saved = next((weights for known, weights in self._saved if known == key), None)
            with torch.inference_mode(False), torch.no_grad():  # inference tensors could never be differentiated later
                plan: Plan | None = None
                if saved is None:
                    work, plan = self._ready(measure)  # may renew the rules of integrals, and with them the key
                else:
                    held = self._held()
                    settings = (self.tolerance, self.on_violation, self.training, measure)
                    work = partial(solve_and_measure, held, partial(self._restored, saved, held), *settings)
                found = work()  # from here: warnings name who asked for `solution`
                key = self._key() if saved is None else key
                self._cache = (key, plan, replace(found, constant=True))
        return self._cache[2]

    def restore(self, weights: SavedWeights) -> None:
        """Use these weights for the field as it is now, instead of solving, until anything they depend on changes.

        Its integrals are measured by rules that follow it, as those of a field that is solved.
        """
        self.constraints = with_rules(self.basis, self.base, self.constraints, self.detail)
        self._saved = (*self._saved, (self._key(), weights))

    def release(self) -> None:
        """Keep the solution and let go of its factorisation, which is what takes memory."""
        if self._cache is not None:
            self._cache = (self._cache[0], None, self._cache[2])

    @property
    def certificate(self) -> Certificate:
        """That of `solution`."""
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
        renewed = (c.with_values(changes[c.name]) if c.name in changes else c for c in self.constraints)
        constraints = tuple(c.to(self.dtype) for c in renewed)
        self.basis, self.constraints = guided_anew(self.basis, self.constraints, constraints), constraints
        if self._cache is not None and self._cache[0] == before and self._cache[1] is not None:
            with torch.inference_mode(False), torch.no_grad():
                held, plan = self._held(), self._cache[1]
                self._cache = (self._key(), plan, replace(self._solved(held, plan.solve), constant=True))
        return self.solution

    def transfer(self, constraints: Sequence[Constraint] | Constraint, **changes: object) -> ConstrainedField:
        """A field for other conditions with the same trained basis and base: solved at once, nothing trained.

        The conditions may be other equations at the same points, or at new points, as long as there are no more of them
        than functions. Both fields share their parameters; `changes` replace solver, tolerance or on_violation.
        """
        self._warn_of_loss()
        kept = {"solver": self.solver, "tolerance": self.tolerance, "on_violation": self.on_violation}
        given = [constraints] if isinstance(constraints, Constraint) else constraints
        basis = self.basis
        if isinstance(given, Sequence) and all(isinstance(c, Constraint) for c in given):
            given = [c.to(self.dtype) for c in given]  # the shared basis keeps its precision
            basis = guided_anew(basis, self.constraints, given)
        field = ConstrainedField(basis, given, base=self.base, **{**kept, **changes})  # type: ignore[arg-type]
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
        started = time.perf_counter()
        held, formulation = self._prepared()
        given, _ = self._formulated()
        with without_autocast(held.constraints[0].points.device):
            plan = formulation.plan(held.basis, held.constraints)
        self._formulation = (given, plan.formulation)  # it learns the structure of its systems
        return replace(held, seconds=time.perf_counter() - started), plan

    def _prepared(self) -> tuple[Parts, Formulation]:
        check_parts(self.basis, self.base, self.constraints[0].points)
        refuse_transforms()
        self._warn_of_loss()
        self.constraints = with_rules(self.basis, self.base, self.constraints, self.detail)
        return self._held(), self._formulated()[1]

    def _warn_of_loss(self) -> None:
        """Weights that more than the conditions decided on are not found again by solving."""
        for reason in {weights.beyond for _, weights in self._saved if weights.beyond}:
            warnings.warn(
                f"the field is solved anew, by its conditions alone: {reason}, which is lost now; solve the problem "
                "again to have it back",
                NumericalWarning,
                stacklevel=4,
            )

    def _restored(self, saved: SavedWeights, held: Parts, made_up: Sequence[Tensor]) -> Expansion:
        return saved.expansion(self._formulated()[1], held.basis, held.constraints)

    def _solved(self, held: Parts, solve: Callable[[Sequence[Tensor]], Expansion], measure: bool = True) -> Solution:
        return solve_and_measure(held, solve, self.tolerance, self.on_violation, self.training, measure)

    def detail(self) -> Detail:
        """How fast the field may vary, which integrals must follow; also asked of a field that is another's base."""
        own = self.basis.detail()
        if self.base is None:
            return own
        return Together([own, base_function(self.basis, self.base, self.constraints).detail()])

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
        before = self.basis.sources
        super()._apply(fn, recurse)
        self.constraints = tuple(c.to(points.dtype, points.device) for c in self._shared(before))
        if self.tolerance == TOLERANCE.get(self.dtype):
            self.tolerance = TOLERANCE[points.dtype]
        self.dtype, self._cache = points.dtype, None
        return self

    def _shared(self, before: Sequence[Constraint]) -> tuple[Constraint, ...]:
        """What functions were made from `before` they moved is still what they are used with: the same objects."""
        moved = {id(old): new for old, new in zip(before, self.basis.sources, strict=True)}
        return tuple(moved.get(id(c), c) for c in self.constraints)

    def save(self, path: object) -> None:
        """Write the field with its weights to a file that `cnf.load` reads back, without pickle; solves if need be.

        A field that misses its tolerance is saved as well, with a warning even if `on_violation` is "raise".
        """
        write_field(self, path)

    def __getstate__(self) -> dict:
        """For pickle and copies: the solution goes along if it is current, factorisations do not."""
        current = self._cache is not None and self._cache[0] == self._key()
        kept = self._cache[2] if current and self._cache is not None else None
        return {**self.__dict__, "_cache": kept, "_saved": (), "_formulation": None}

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        self._cache = None if state["_cache"] is None else (self._key(), None, state["_cache"])

    def extra_repr(self) -> str:
        return "\n".join(repr(c) for c in self.constraints)


def _planned_anew(
    formulation: Formulation, basis: Basis, constraints: Sequence[Constraint], made_up: Sequence[Tensor]
) -> Expansion:
    return formulation.plan(basis, constraints).solve(made_up)
