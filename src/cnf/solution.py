"""Solution: one solved field; evaluates itself and any operator on itself, anywhere."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import final

import torch
from torch import Tensor

from cnf.bases.basis import Basis, check_smoothness
from cnf.bases.precision import without_autocast
from cnf.certificate import Certificate, Convergence, certify, estimate_worst, judge
from cnf.constraints import Constraint, Space
from cnf.constraints.constraint import RightHandSide, make_constraint
from cnf.constraints.space import Asked
from cnf.errors import ConstraintError, NumericalWarning
from cnf.modules import FieldModule, check_module, judge_difference, measure_difference, module_of
from cnf.operators.cells import divided
from cnf.operators.detail import Detail, Together
from cnf.operators.expansion import Probe, Request, Rules, expand, has_integrals
from cnf.operators.jets import MultiIndex
from cnf.operators.nonlinear import NonlinearOperator
from cnf.operators.operator import Operator
from cnf.solvers.solver import Factor
from cnf.systems.assembly import Block, applied
from cnf.systems.base_function import BaseFunction
from cnf.systems.detaching import Detacher
from cnf.systems.formulation import Expansion
from cnf.systems.holding import Surroundings
from cnf.systems.quadrature import Judge, find_rules, function_judge, resolve_around


@final
@dataclass(frozen=True, eq=False)
class Solution:
    """f(x) = base(x) + sum_j weights_j Psi_j(x), with the certificate of its conditions.

    A value: basis, base and conditions are as they were when it was solved for, whatever happens to the field later.
    The weights carry the gradient to everything learnable.

    >>> space = cnf.Space("x", "u")
    >>> ends = space.constraint("u = x", at=[[0.0], [1.0]])
    >>> solution = cnf.ConstrainedField(cnf.bases.Polynomial(space, 1), [ends]).solve()
    >>> x = torch.tensor([[0.25]], dtype=torch.float64)
    >>> round(solution(x).item(), 9), round(solution.apply("u_x", x).item(), 9)
    (0.25, 1.0)
    """

    space: Space
    basis: Basis
    expansion: Expansion
    base: BaseFunction | None = None
    constraints: tuple[Constraint, ...] = ()
    tolerance: float = 0.0
    on_violation: str = "warn"
    seconds: float = 0.0
    made_up: tuple[Tensor, ...] | None = None  # g - L[base] of every constraint
    spot_check: Certificate | None = None  # measured while solving; of a sample of the conditions while training
    surroundings: Surroundings = field(default_factory=Surroundings)  # what it shares with others
    convergence: Convergence | None = None  # of the iteration that found it, if conditions are not linear
    constant: bool = False  # solved without gradients: those to parameters would lack their share

    def __getstate__(self) -> dict[str, object]:
        """For pickle and deep copies: all it needs to be evaluated, without graph, systems and factorisations."""
        kept = replace(
            self,
            expansion=self.expansion.settled(),
            spot_check=self._measured(),
            surroundings=Surroundings(),
            constant=True,
        )
        detacher = Detacher()
        return {entry.name: detacher.held(getattr(kept, entry.name)) for entry in fields(kept)}

    def __copy__(self) -> Solution:
        return self

    def __repr__(self) -> str:
        names = f"{', '.join(self.space.channels)} of {', '.join(self.space.coordinates)}"
        functions = f"{type(self.basis).__name__} with {self.basis.size} functions"
        known = "" if self.spot_check is None else f"; {self.spot_check.summary()}"
        return f"Solution({names}; {functions}{known})"

    def __call__(self, x: Tensor) -> Tensor:
        """(P, D) -> (P, C); points of any more dimensions, (..., D) -> (..., C)."""
        if isinstance(x, Tensor) and x.dim() > 2:
            return self._each(self, x)
        points = self._points(x)
        if not points.shape[0]:
            return points.new_zeros(0, len(self.space.channels))
        with without_autocast(points.device):
            total = self.expansion.values(points)
            return total if self.base is None else total + self.base(points)

    def as_module(self, dtype: torch.dtype | None = None) -> FieldModule:
        """The field as a plain torch module of tensors, (..., D) -> (..., C), for `torch.compile`, `torch.export`,
        `torch.jit.trace`, pickle, `torch.func` and ONNX.

        It needs nothing of the solution, nothing in it is learnt, and it is compared with the solution before it is
        handed out. `dtype`: another precision to evaluate in, and of the values; a warning says so if that takes the
        module far off the solution.
        """
        points = [c.points for c in self.constraints]
        with torch.no_grad(), without_autocast(self.expansion.like.device):
            made = module_of(self.space, self.expansion, self.base)
            check_module(made, self.expansion, self, points)
            if dtype is not None and dtype != made.like.dtype:
                made = made.to(dtype)
                judge_difference(measure_difference(made, self.expansion, self, points), self.expansion, dtype)
        return made

    @cached_property
    def certificate(self) -> Certificate:
        """Every condition measured on this field; worked out now if only a sample was looked at while solving."""
        known, found = self.spot_check, self._measured()
        if found is not known and (known is None or not known.violated):
            judge(found, self.on_violation)
        return found

    def _measured(self) -> Certificate:
        """The certificate of all conditions, without a word about it."""
        known = self.spot_check
        if known is not None and known.measured == known.conditions:
            return known
        self.surroundings.check()
        with without_autocast(self.expansion.like.device):
            return certify(self, self.tolerance, self.seconds, self.made_up)

    def roughly_missed(self) -> float:
        """The worst relative residual as the systems say, without evaluating the field: to compare many fields."""
        found = estimate_worst(self)
        return self.certificate.worst if math.isnan(found) else found

    @property
    def reason(self) -> str:
        """What is known of the base that explains a missed condition."""
        return "" if self.base is None else self.base.reason

    @property
    def weights(self) -> Tensor:
        """(N, C), or (N,) for a basis with joint weights."""
        return self.expansion.weights

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The systems it was solved from; empty if none was kept (patches)."""
        return self.expansion.blocks

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The factorisations of these systems."""
        return self.expansion.factors

    def in_precision(self, precision: torch.dtype, throughout: bool = False) -> Solution:
        """The same solution, its basis functions evaluated in torch.float32, say; points and values stay as they are.

        About three times as fast for networks, right to about six digits: its certificate says how far the conditions
        are missed then. `throughout`: points, base, weights, sums and values are in that precision too.
        """
        expansion = self.expansion.in_precision(precision, type(self.basis).__name__, throughout)
        if not throughout:
            return replace(self, expansion=expansion, spot_check=None)
        base = None if self.base is None else self.base.in_precision(precision)
        constraints = tuple(constraint.to(precision) for constraint in self.constraints)
        made_up = None if self.made_up is None else tuple(part.to(precision) for part in self.made_up)
        return replace(self, expansion=expansion, base=base, constraints=constraints, made_up=made_up, spot_check=None)

    def apply(self, asked: Asked, x: Tensor, **coefficients: object) -> Tensor:
        """Any operator (LaTeX or built in Python) on the field at any points: (P, D) -> (P, rows), or (..., D)."""
        operator = self.space.operator(asked, **coefficients)
        if isinstance(x, Tensor) and x.dim() > 2:
            return self._each(lambda points: self.apply(operator, points), x)
        if isinstance(operator, NonlinearOperator):
            points = self._points(x)
            with without_autocast(points.device):
                condition = make_constraint("asked", operator, points, RightHandSide(0.0, operator.frame))
                return self._residual(self._resolved(condition))
        check_smoothness(self.basis, operator, f"the operator {operator.to_latex()}")
        points = self._points(x)
        if not points.shape[0]:
            return points.new_zeros(0, len(operator.rows))
        with without_autocast(points.device):
            probes = expand(operator, points, self._rules(operator, points))
            return self.applied(probes, (points.shape[0], len(operator.rows)))

    def _each(self, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """A function of points (P, D) for points (..., D)."""
        if x.shape[-1] != len(self.space.coordinates):
            self._points(x)  # refuses them
        return function(x.flatten(0, -2)).unflatten(0, x.shape[:-1])

    def _rules(self, operator: Operator, points: Tensor) -> Rules:
        """Rules for integrals over this field."""
        if not has_integrals(operator):
            return {}
        found = find_rules(operator, points, self.detail(), self._judges)
        _warn_of_doubt(found, operator.to_latex())
        return found

    def _resolved(self, constraint: Constraint) -> Constraint:
        """A nonlinear condition with rules for its integrals over this field."""
        if not has_integrals(constraint.operator):
            return constraint
        found = resolve_around(constraint, self, self.detail(), self._judges)
        _warn_of_doubt(found.rules, constraint.to_latex())
        return found

    @property
    def _judges(self) -> list[tuple[Judge, int]]:
        return [(function_judge(self), len(self.space.channels))]

    def detail(self) -> Detail:
        """How fast the field may vary, which integrals over it must follow."""
        own = self.basis.detail()
        return own if self.base is None else Together([own, self.base.detail()])

    def residual(self, constraint: Constraint) -> Tensor:
        """L f - g of a constraint, which need not be one of the field's own, (P, R)."""
        self.surroundings.check()
        grad = torch.is_grad_enabled() and not self.constant
        with torch.set_grad_enabled(grad), without_autocast(self.expansion.like.device):
            return self._residual(constraint.renewed())

    def _residual(self, constraint: Constraint) -> Tensor:
        if has_integrals(constraint.operator) and not constraint.rules and constraint.nonlinear is not None:
            constraint = resolve_around(constraint, self, self.detail(), self._judges)
        elif has_integrals(constraint.operator) and not constraint.rules:
            constraint = constraint.ruled(divided(constraint.operator, constraint.points, self.detail()))
        count, rows = constraint.values.shape
        if constraint.nonlinear is None:
            return self.applied(constraint.expanded(), (count, rows)) - constraint.values
        found, _ = constraint.beyond(self)
        linear = constraint.linear_part
        found = found + self.applied(linear, (count, rows)) if linear else found
        return found - (constraint.values if constraint.asked is None else constraint.asked)

    def applied(self, probes: Sequence[Probe], shape: tuple[int, int]) -> Tensor:
        """L f of the operator that the probes stand for, (P, R) = `shape`."""
        total = self.expansion.applied(probes, shape)
        return total if self.base is None else total + applied(self.base, probes, shape)

    def measured(self, probes: Sequence[Probe], shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """L f as `applied` gives it, and the part of it that is rounding, both (P, R)."""
        total, rounding = self.expansion.measured(probes, shape)
        if self.base is None:
            return total, rounding
        own, own_rounding = self.base.measured(probes, shape)
        return total + own, rounding + own_rounding

    def derivatives(self, x: Tensor, indices: Sequence[MultiIndex]) -> dict[MultiIndex, Tensor]:
        """Derivatives of every channel by their multi-indices, each (P, C)."""
        points = self._points(x)
        one, width = torch.ones((), dtype=points.dtype), len(self.space.channels)
        requests = tuple(Request(c, {index: one}) for index in indices for c in range(width))
        probe = Probe(points, 1, tuple(range(len(requests))), requests)
        with without_autocast(points.device):
            found = self.applied([probe], (points.shape[0], len(requests)))
        return {index: found[:, k * width : (k + 1) * width] for k, index in enumerate(indices)}

    def _points(self, x: Tensor) -> Tensor:
        width = len(self.space.coordinates)
        try:
            points = x if isinstance(x, Tensor) else torch.as_tensor(x)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ConstraintError(f"the points cannot be read as an array of numbers ({error})") from None
        if points.is_complex():
            raise ConstraintError("the points are complex; expected real coordinates")
        if points.dim() == 1 and width == 1:
            points = points[:, None]
        if points.dim() != 2 or points.shape[1] != width:
            raise ConstraintError(
                f"points of shape {tuple(points.shape)} given; expected (number of points, {width}), columns "
                f"{', '.join(self.space.coordinates)}"
            )
        self.surroundings.check()
        like = self.expansion.like
        return points.to(dtype=like.dtype, device=like.device)


def _warn_of_doubt(rules: Rules, asked: str) -> None:
    doubt = "; ".join(dict.fromkeys(rule.doubt for rule in rules.values() if rule.doubt))
    if doubt:
        warnings.warn(f"{asked} may be off: {doubt}", NumericalWarning, stacklevel=4)
