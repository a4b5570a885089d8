"""Constraint: an operator, the points where it must hold, and the values it must take there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import sympy as sp
import torch
from torch import Tensor, nn

from cnf.errors import ConstraintError, OperatorError
from cnf.fetching import placed
from cnf.operators.coefficients import Datum
from cnf.operators.evaluation import called, evaluate_all
from cnf.operators.expansion import Probe, Rules, expand
from cnf.operators.frame import Frame, symbol
from cnf.operators.nonlinear import NonlinearOperator, State
from cnf.operators.operator import Operator
from cnf.operators.rules import Rule

WIDER = "give the points in torch.float64, or multiply the equation by a number"

Values = float | Tensor | Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class RightHandSide:
    """What the operator must equal at any points: a number, a callable, or expressions.

    A tensor with one value per point is known at its own points only.
    """

    source: Values | tuple[sp.Expr, ...]
    frame: Frame
    data: dict[str, Datum] = field(default_factory=dict)
    learnable: bool = False  # whether training may move it; copies that were made without a graph still know

    def __post_init__(self) -> None:
        parts = (self.source, *self.data.values())
        moved = any(isinstance(part, nn.Module) or getattr(part, "requires_grad", False) for part in parts)
        object.__setattr__(self, "learnable", self.learnable or moved)

    @property
    def known_everywhere(self) -> bool:
        return not isinstance(self.source, Tensor) or self.source.dim() == 0

    def at(self, points: Tensor, rows: int, name: str) -> Tensor:
        """Values (P, rows) at the points."""
        count = points.shape[0]
        if isinstance(self.source, tuple):
            coordinates = {symbol(c): points[:, k] for k, c in enumerate(self.frame.coordinates)}
            columns = [v.expand(count) for v in evaluate_all(self.source, coordinates, self.data, points[:, 0])]
            return torch.stack(columns, dim=1)
        if isinstance(self.source, Tensor):
            return shaped(self.source, count, rows, name).to(points)
        if callable(self.source):
            return shaped(_as_tensor(called(self.source, points), name), count, rows, name).to(points)
        return points.new_full((count, rows), float(self.source))


@dataclass(frozen=True, eq=False)
class Constraint:
    """L[f](x_p) = values[p] for every point; `points` (P, D), `values` (P, R) with R the rows of the operator.

    One that is `nonlinear` in the field stands for its linearisation around a state, first around zero: what it asks
    for itself is N[f](x_p) = asked[p].
    """

    name: str
    operator: Operator
    points: Tensor
    values: Tensor
    right_hand_side: RightHandSide
    rules: Rules = field(default_factory=dict)  # for its integrals; plain ones where there is none
    nonlinear: NonlinearOperator | None = None
    asked: Tensor | None = None  # (P, R), if that is not the values: of a nonlinear condition

    @property
    def rows(self) -> int:
        """Number of conditions: points times operator rows."""
        return self.values.numel()

    def expanded(self) -> list[Probe]:
        """Where the field is looked at; evaluated anew, so that learnable coefficients keep their gradients."""
        return expand(self.operator, self.points, self.rules)

    def around(self, state: State) -> Constraint:
        """The condition linearised around a state; a linear one is what it is."""
        if self.nonlinear is None:
            return self
        asked = self.values if self.asked is None else self.asked
        values = asked + self.nonlinear.correction(state, self.points, self.rules)
        return replace(self, operator=self.nonlinear.around(state), values=values, asked=asked)

    def linearised(self, state: State) -> Constraint:
        """The linear condition that this one is near a state."""
        return replace(self.around(state), nonlinear=None, asked=None) if self.nonlinear is not None else self

    def beyond(self, state: State) -> tuple[Tensor, Tensor]:
        """What the nonlinear part of the condition is at a state, and the sizes of its summands together, (P, R)."""
        if self.nonlinear is None:
            return torch.zeros_like(self.values), torch.zeros_like(self.values)
        return self.nonlinear.parts_at(state, self.points, self.rules)

    @property
    def linear_part(self) -> list[Probe]:
        """Where the linear terms look at the field."""
        return self.expanded() if self.nonlinear is None else expand(self.nonlinear.linear, self.points, self.rules)

    def ruled(self, rules: Rules) -> Constraint:
        """The same conditions with their integrals worked out by other rules."""
        return replace(self, rules=dict(rules))

    def to(self, dtype: torch.dtype, device: torch.device | None = None) -> Constraint:
        if self.points.dtype == dtype and (device is None or self.points.device == device):
            return self
        points, values = self.points.to(dtype=dtype, device=device), self.values.to(dtype=dtype, device=device)
        if torch.finfo(dtype).eps < torch.finfo(self.points.dtype).eps:  # what was given may have had more digits
            values = self.right_hand_side.at(points, values.shape[1], self.name)
        elif self.asked is not None:
            values = self.asked.to(values)
        return replace(self, points=points, values=values, asked=None)

    def renewed(self) -> Constraint:
        """The constraint with its values evaluated anew if anything learnable is in them, as training moves it."""
        side = self.right_hand_side
        if not (side.learnable or self.values.requires_grad):
            return self
        values = side.at(self.points, self.values.shape[1], self.name)
        return replace(self, values=values, asked=None)

    def with_values(self, values: object) -> Constraint:
        """The same conditions with other right-hand sides."""
        side = RightHandSide(_as_source(values, self.name), self.right_hand_side.frame)
        return make_constraint(self.name, self.nonlinear or self.operator, self.points, side).ruled(self.rules)

    def at(self, points: Tensor, name: str | None = None) -> Constraint:
        """The same equation at other points; needs a right-hand side that is known everywhere."""
        if not self.right_hand_side.known_everywhere:
            raise ConstraintError(
                f"constraint {self.name!r} has its values only at its own points; give `equals` as a number, "
                "a callable or the right-hand side of the equation to use it elsewhere"
            )
        operator = self.nonlinear or self.operator
        return make_constraint(name or self.name, operator, points.to(self.points), self.right_hand_side)

    def to_latex(self) -> str:
        """The left-hand side as LaTeX."""
        return (self.nonlinear or self.operator).to_latex()

    def __getstate__(self) -> dict[str, object]:
        """For pickle and copies: values without the graph they were worked out in; `renewed` makes it again."""
        return {**self.__dict__, "values": self.values.detach().requires_grad_(self.values.requires_grad)}

    def __repr__(self) -> str:
        return f"Constraint({self.name!r}: {self.to_latex()} at {self.points.shape[0]} points)"


def make_constraint(
    name: str, operator: Operator | NonlinearOperator, points: object, side: RightHandSide
) -> Constraint:
    """Check everything once, at the edge; messages name the constraint."""
    nonlinear = operator if isinstance(operator, NonlinearOperator) else None
    frame = operator.frame if isinstance(operator, NonlinearOperator) else operator._needs_frame()
    x = as_points(points, len(frame.coordinates), name)
    with torch.enable_grad():  # to see whether a callable leads to anything that is learnt
        values = side.at(x, len(operator.rows), name)
    if values.requires_grad:
        side = replace(side, learnable=True)
        values = values if torch.is_grad_enabled() else values.detach()
    narrow = x.dtype != torch.float64
    wide = side.at(x.to(torch.float64), len(operator.rows), name).detach() if narrow else values
    if not torch.isfinite(values).all():
        bad = int((~torch.isfinite(values)).sum())
        advice = WIDER if torch.isfinite(wide).all() else "remove or repair them"
        raise ConstraintError(f"constraint {name!r}: {bad} of {values.numel()} values are NaN or infinite; {advice}")
    if narrow and bool((values == 0).all()) and bool((wide != 0).any()):
        raise ConstraintError(f"constraint {name!r}: all values are too small for {x.dtype}; {WIDER}")
    if nonlinear is not None:  # its coefficients are known once there is a field
        return Constraint(name, nonlinear.at_rest(), x, values.clone(), side, nonlinear=nonlinear)
    assert isinstance(operator, Operator)
    try:
        sizes = _row_sizes(operator, x)
        exact = _row_sizes(operator, x.to(torch.float64)) if narrow else sizes
    except OperatorError as error:
        raise ConstraintError(f"constraint {name!r}: {error}") from error
    if not torch.isfinite(sizes).all():
        advice = WIDER if torch.isfinite(exact).all() else "move those points or change the coefficient"
        raise ConstraintError(
            f"constraint {name!r}: a coefficient of {operator.to_latex()} is NaN or infinite at some points "
            f"(a division by zero, an overflow?); {advice}"
        )
    if bool(((sizes < torch.finfo(x.dtype).tiny).all(dim=0) & (exact > 0).any(dim=0)).any()):
        raise ConstraintError(
            f"constraint {name!r}: the coefficients of {operator.to_latex()} are too small for {x.dtype}, so that "
            f"nothing is left of the condition; {WIDER}"
        )
    return Constraint(name, operator, x, values.clone(), side)


def _row_sizes(operator: Operator, points: Tensor) -> Tensor:
    """The largest coefficient of every condition, (P, R), at a few nodes of integrals; NaN if any is."""
    largest = points.new_zeros(points.shape[0], len(operator.rows))
    places = [term.place for row in operator.rows for term in row if term.place.integrals]
    with torch.no_grad():
        for probe in expand(operator, points, {place: Rule.coarse(len(place.integrals)) for place in places}):
            for r, request in zip(probe.rows, probe.requests, strict=True):
                for weight in request.weights.values():
                    seen = (
                        placed(weight.abs(), largest)
                        .expand(points.shape[0] * probe.nodes)
                        .reshape(-1, probe.nodes)
                        .amax(dim=1)
                    )
                    largest[:, r] = torch.maximum(largest[:, r], seen)
    return largest


def as_points(points: object, width: int, name: str) -> Tensor:
    """Any array of points -> floating tensor (P, D), checked."""
    try:
        x = points if isinstance(points, Tensor) else torch.as_tensor(points, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConstraintError(
            f"constraint {name!r}: the points cannot be read as an array of numbers ({error})"
        ) from None
    if x.is_complex():
        raise ConstraintError(f"constraint {name!r}: the points are complex; expected real coordinates")
    if not x.is_floating_point():
        x = x.to(torch.float64)
    if x.dtype in (torch.float16, torch.bfloat16):
        x = x.to(torch.float32)
    if x.dim() == 1 and width == 1:
        x = x[:, None]
    if x.dim() == 1 and x.shape[0] == width:
        x = x[None, :]
    if x.dim() != 2 or x.shape[1] != width:
        raise ConstraintError(
            f"constraint {name!r}: points of shape {tuple(x.shape)} given; expected (number of points, "
            f"{width}), one column per coordinate"
        )
    if x.shape[0] == 0:
        raise ConstraintError(f"constraint {name!r}: no points given; a constraint needs at least one")
    if not torch.isfinite(x).all():
        rows = int((~torch.isfinite(x)).any(dim=1).sum())
        raise ConstraintError(
            f"constraint {name!r}: {rows} of {x.shape[0]} points are NaN or infinite; remove or repair them"
        )
    return x.detach().clone()  # the caller may change theirs


def shaped(values: Tensor, count: int, rows: int, name: str) -> Tensor:
    """Values in any of the accepted shapes -> (count, rows)."""
    if not values.is_floating_point():
        if values.is_complex():
            raise ConstraintError(f"constraint {name!r}: the values are complex; expected real numbers")
        values = values.to(torch.float64)
    if values.dim() == 0:
        return values.expand(count, rows)
    if values.shape == (count, rows):
        return values
    if values.shape == (count,) and rows == 1:
        return values[:, None]
    if values.shape == (count,) and rows > 1 and count != rows:
        raise ConstraintError(
            f"constraint {name!r}: one value per point given for an operator with {rows} rows; expected "
            f"({count}, {rows})"
        )
    if values.shape == (1, rows) or (values.shape == (rows,) and count != rows):
        return values.reshape(1, rows).expand(count, rows)
    raise ConstraintError(
        f"constraint {name!r}: values of shape {tuple(values.shape)} given; expected a number, ({count}, {rows}) "
        f"- {count} points and {rows} rows of the operator - or a callable that returns that"
    )


def _as_source(values: object, name: str) -> Values:
    if isinstance(values, Tensor) or callable(values):
        return values
    if isinstance(values, int | float) and not isinstance(values, bool):
        try:
            return float(values)
        except OverflowError:
            raise ConstraintError(f"constraint {name!r}: the value is too large for a floating-point number") from None
    return _as_tensor(values, name)


def _as_tensor(values: object, name: str) -> Tensor:
    try:
        return values if isinstance(values, Tensor) else torch.as_tensor(values, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConstraintError(
            f"constraint {name!r}: values of type {type(values).__name__} cannot be read as numbers ({error})"
        ) from None
