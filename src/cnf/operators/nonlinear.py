"""NonlinearOperator: what is asked of a field if that is not linear in it, and the linear operators next to it.

N[f] = L[f] + B[f]: a linear operator, and beyond it expressions in jets (`cnf.operators.field_functions`). Around a
state s the condition N[f] = g becomes

    L[f] + B'(s)[f] = g - B[s] + B'(s)[s],

an `Operator` whose coefficients are expressions in the jets of s, and values. Everything is worked out once, in
symbols; a state is bound to it as data. B[s] and the correction of the values are operators too, applied to the
function that is 1 everywhere, so that integrals in them are integrals like all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import sympy as sp
import torch
from torch import Tensor

from cnf.errors import OperatorError
from cnf.operators.coefficients import Datum, simplest
from cnf.operators.expansion import Rules, by_place, probe_at
from cnf.operators.field_functions import PREFIX, FieldIntegral, Jet, affine, has_jets, jets_in, outer_integrals, slope
from cnf.operators.field_jets import as_jet, as_term
from cnf.operators.forward import MultiIndex
from cnf.operators.frame import Frame
from cnf.operators.operator import Operator, Row, Term, merge
from cnf.operators.place import Integral, Place
from cnf.operators.printing import expression_latex, row_latex
from cnf.operators.reader.expressions import MAX_MONOMIALS, monomials

OF_INTEGRALS = (
    "a product or function of an integral over the field cannot be used; give the integral a channel of its own, with "
    "an equation of its own"
)
Rows = tuple[Row, ...]


class State(Protocol):
    """A field around which conditions are linearised."""

    def derivatives(self, x: Tensor, indices: Sequence[MultiIndex]) -> dict[MultiIndex, Tensor]:
        """Derivatives of every channel by their multi-indices, each (P, C)."""
        ...


@dataclass(frozen=True, eq=False)
class Remembered:
    """A state that works out all jets of a condition at once, and not again for the points it was asked for last."""

    state: State
    indices: tuple[MultiIndex, ...]
    seen: list[tuple[Tensor, dict[MultiIndex, Tensor]]] = field(default_factory=list)
    most: int = 4  # places that a condition may look at in turn

    def derivatives(self, x: Tensor, indices: Sequence[MultiIndex]) -> dict[MultiIndex, Tensor]:
        for points, found in self.seen:
            if points.shape == x.shape and torch.equal(points, x):
                missing = [index for index in indices if index not in found]
                return found | self.state.derivatives(x, missing) if missing else found
        found = self.state.derivatives(x, tuple(dict.fromkeys((*self.indices, *indices))))
        self.seen[:] = [(x, found), *self.seen[: self.most - 1]]
        return found


@dataclass(frozen=True)
class Constant:
    """The field that has one value in all channels."""

    channels: int
    value: float

    def derivatives(self, x: Tensor, indices: Sequence[MultiIndex]) -> dict[MultiIndex, Tensor]:
        values = {index: 0.0 if any(index) else self.value for index in indices}
        return {index: x.new_full((x.shape[0], self.channels), value) for index, value in values.items()}


@dataclass(frozen=True)
class Alike:
    """No field: every derivative of every channel has the same value, so that all coefficients show."""

    channels: int
    value: float

    def derivatives(self, x: Tensor, indices: Sequence[MultiIndex]) -> dict[MultiIndex, Tensor]:
        return dict.fromkeys(indices, x.new_full((x.shape[0], self.channels), self.value))


@dataclass(frozen=True, eq=False)
class Called:
    """A state with a name, for those who want to know what an iteration began with."""

    state: State
    called: str

    def derivatives(self, x: Tensor, indices: Sequence[MultiIndex]) -> dict[MultiIndex, Tensor]:
        return self.state.derivatives(x, indices)


@dataclass(frozen=True, eq=False)
class StateChannel:
    """One channel of a state, as data of an operator: points (P, D) -> (P,)."""

    state: State
    channel: int

    def __call__(self, x: Tensor) -> Tensor:
        return self.derivative(x, (0,) * x.shape[1])

    def derivative(self, x: Tensor, orders: MultiIndex) -> Tensor:
        return self.state.derivatives(x, [orders])[orders][:, self.channel]


def with_even_states(expression: sp.Expr, data: Mapping[str, Datum]) -> sp.Expr:
    """The expression with numbers for jets of a state that is the same everywhere."""
    new = {}
    for jet in expression.atoms(Jet):
        bound = data.get(jet.data)
        state = getattr(bound, "state", None)
        state = state.state if isinstance(state, Remembered) else state
        if isinstance(state, Alike) or (isinstance(state, Constant) and not any(jet.orders)):
            new[jet] = sp.Float(state.value)
        elif isinstance(state, Constant):
            new[jet] = sp.S.Zero
    return expression.xreplace(new) if new else expression


@dataclass(frozen=True)
class Part:
    """An expression in jets under integrals, from the outside in; one summand of a row."""

    expression: sp.Expr
    spans: tuple[Integral, ...] = ()

    def on_one(self, expression: sp.Expr, channel: str) -> Term:
        """A term that gives the integral of an expression where the field is 1."""
        return Term(channel, expression, (), Place((), self.spans))

    def slopes(self, frame: Frame) -> list[tuple[sp.Expr, Term]]:
        """For every jet: the jet, and the term it has in the linearisation."""
        found = []
        for jet in jets_in(self.expression):
            term = as_term(jet, frame)
            place = Place(term.place.substitution, self.spans)
            found.append((jet, term.replaced(coefficient=slope(self.expression, jet), place=place)))
        return found


@dataclass(frozen=True, eq=False)
class NonlinearOperator:
    """`linear` has the linear terms, `beyond` one expression per row, `data` what is named in these."""

    linear: Operator
    beyond: tuple[sp.Expr, ...]
    data: tuple[tuple[str, Datum], ...] = ()

    @staticmethod
    def of(
        rows: Iterable[tuple[Sequence[Term], sp.Expr]], frame: Frame, data: Mapping[str, Datum]
    ) -> Operator | NonlinearOperator:
        """Of terms and expressions in jets, row by row; an `Operator` if these turn out to be linear all the same."""
        split = [_without_linear(terms, beyond, frame) for terms, beyond in rows]
        linear = Operator.of([terms for terms, _ in split], frame, data)
        beyond = tuple(_named(expression) for _, expression in split)
        if not any(beyond):
            return linear
        made = NonlinearOperator(linear, beyond)
        known = [operator.data for operator in (made.pattern(data), Operator.of(made._values, frame, data))]
        return replace(made, data=tuple(sorted({name: datum for data in known for name, datum in data}.items())))

    # -- what it is ------------------------------------------------------------------------------------------------

    @property
    def frame(self) -> Frame:
        return self.linear._needs_frame()

    @cached_property
    def parts(self) -> tuple[tuple[Part, ...], ...]:
        """The summands beyond the linear terms, row by row."""
        return tuple(tuple(_parts(expression)) for expression in self.beyond)

    @property
    def rows(self) -> Rows:
        """Those of the linearisation: its coefficients are expressions in jets."""
        return self._pattern.rows

    @property
    def order(self) -> int:
        """Highest derivative taken."""
        return self._pattern.order

    @property
    def depends_on_position(self) -> bool:
        """False when the operator looks at the same thing from every point."""
        return self._pattern.depends_on_position

    @property
    def indices(self) -> tuple[MultiIndex, ...]:
        """The derivatives that occur beyond the linear terms."""
        return tuple(sorted({jet.orders for row in self.parts for part in row for jet in jets_in(part.expression)}))

    def to_latex(self) -> str:
        """LaTeX that reads back to the same."""
        rows = []
        for terms, beyond in zip(self.linear.rows, self.beyond, strict=True):
            text = expression_latex(beyond, self.frame) if beyond != 0 else ""
            if terms and text:
                linear = row_latex(terms, self.frame)
                rows.append(f"{linear} - {text[1:].lstrip()}" if text.startswith("-") else f"{linear} + {text}")
            else:
                rows.append(text or row_latex(terms, self.frame))
        return "; ".join(rows)

    def __repr__(self) -> str:
        return f"NonlinearOperator({self.to_latex()})"

    def rewritten(self, change: Callable[[Row], Sequence[Term]], frame: Frame) -> Operator | NonlinearOperator:
        """The same in other channels: `change` says what a row of terms is in those."""
        rows = []
        for terms, beyond in zip(self.linear.rows, self.beyond, strict=True):
            meant = {jet: change((as_term(jet, self.frame),)) for jet in beyond.atoms(Jet)}
            new = {jet: sp.Add(*(as_jet(term, frame) for term in found)) for jet, found in meant.items()}
            rows.append((change(terms), beyond.xreplace(new)))
        return NonlinearOperator.of(rows, frame, dict(self.linear.data) | dict(self.data))

    def with_data(self, change: Callable[[Datum], Datum]) -> NonlinearOperator:
        """The same with other data under the same names; itself if none of them is another."""
        new = [tuple((name, change(datum)) for name, datum in data) for data in (self.linear.data, self.data)]
        pairs = zip((*new[0], *new[1]), (*self.linear.data, *self.data), strict=True)
        if all(one[1] is other[1] for one, other in pairs):
            return self
        found = replace(self, linear=replace(self.linear, data=new[0]), data=new[1])
        worked_out = ("parts", "_pattern", "_values", "_corrections")  # in symbols: data do not matter
        found.__dict__.update({name: self.__dict__[name] for name in worked_out if name in self.__dict__})
        return found

    # -- around a state --------------------------------------------------------------------------------------------

    def around(self, state: State) -> Operator:
        """L + B'(s)."""
        return replace(self._pattern, data=self._bound(state))

    def values_around(self, state: State) -> Operator:
        """B[s] as an operator on the function that is 1 everywhere."""
        return self._on_one(self._values, self._bound(state))

    def correction(self, state: State, points: Tensor, rules: Rules) -> Tensor:
        """B'(s)[s] - B[s] at the points, (P, R)."""
        return summed_on_one(self._on_one(self._corrections, self._bound(state)), points, rules)

    def at_rest(self) -> Operator:
        """The linearisation around the field that is zero."""
        return self.around(Constant(len(self.frame.channels), 0.0))

    def parts_at(self, state: State, points: Tensor, rules: Rules) -> tuple[Tensor, Tensor]:
        """B[s] at the points, and the sizes of its summands together, both (P, R)."""
        bound = self._bound(state)
        total, size = (points.new_zeros(points.shape[0], len(self.beyond)) for _ in range(2))
        for r, row in enumerate(self.parts):
            for part in row:
                term = merge([part.on_one(part.expression, self.frame.channels[0])])
                found = summed_on_one(Operator((term,), self.frame, bound), points, rules)[:, 0]
                total = total.index_add(1, _at(r, points), found[:, None])
                size = size.index_add(1, _at(r, points), found.abs()[:, None])
        return total, size

    def pattern(self, data: Mapping[str, Datum]) -> Operator:
        """The linearisation with no state bound to it yet."""
        rows = []
        for terms, parts in zip(self.linear.rows, self.parts, strict=True):
            rows.append([*terms, *(term for part in parts for _, term in part.slopes(self.frame))])
        return Operator.of(rows, self.frame, dict(self.linear.data) | dict(data))

    @cached_property
    def _pattern(self) -> Operator:
        return self.pattern(dict(self.data))

    @cached_property
    def _values(self) -> Rows:
        channel = self.frame.channels[0]
        return tuple(merge([part.on_one(part.expression, channel) for part in row]) for row in self.parts)

    @cached_property
    def _corrections(self) -> Rows:
        channel = self.frame.channels[0]
        found = []
        for row in self.parts:
            terms = []
            for part in row:
                slopes = [jet * term.coefficient for jet, term in part.slopes(self.frame)]
                terms.append(part.on_one(simplest(sp.Add(*slopes) - part.expression), channel))
            found.append(merge(terms))
        return tuple(found)

    def _on_one(self, rows: Rows, data: Iterable[tuple[str, Datum]] | Mapping[str, Datum]) -> Operator:
        return Operator(rows, self.frame, tuple(dict(data).items()))

    def _bound(self, state: State) -> tuple[tuple[str, Datum], ...]:
        remembered = state if isinstance(state, Constant) else Remembered(state, self.indices)
        own = {PREFIX + name: StateChannel(remembered, k) for k, name in enumerate(self.frame.channels)}
        return tuple((dict(self.linear.data) | dict(self.data) | own).items())


def summed_on_one(operator: Operator, points: Tensor, rules: Rules) -> Tensor:
    """What an operator without derivatives makes of the function that is 1 everywhere, (P, R)."""
    total = points.new_zeros(points.shape[0], len(operator.rows))
    known = {place.integrals: rule for place, rule in rules.items()}
    for place, terms in by_place(operator).items():
        probe = probe_at(operator, place, terms, points, known.get(place.integrals))
        for r, request in zip(probe.rows, probe.requests, strict=True):
            for weight in request.weights.values():
                found = weight.expand(points.shape[0] * probe.nodes).reshape(-1, probe.nodes).sum(dim=1)
                total = total.index_add(1, _at(r, points), found[:, None])
    return total


def _at(row: int, like: Tensor) -> Tensor:
    return torch.tensor([row], device=like.device)


def _parts(expression: sp.Expr) -> list[Part]:
    found = []
    for summand in sp.Add.make_args(expression):
        integrals = outer_integrals(summand)
        if not integrals:
            found += [Part(summand)] if summand != 0 else []
            continue
        factor = summand / integrals[0]
        if len(integrals) > 1 or has_jets(factor) or factor.has(FieldIntegral):
            raise OperatorError(OF_INTEGRALS)
        for inner in _parts(integrals[0].args[0]):
            found.append(Part(factor * inner.expression, (integrals[0].span, *inner.spans)))
    return found


def _without_linear(terms: Sequence[Term], beyond: sp.Expr, frame: Frame) -> tuple[list[Term], sp.Expr]:
    """The row with the summands that are linear after all, as u^2 / u is, moved to its terms."""
    linear: list[Term] = []
    kept: list[sp.Expr] = []
    for part in _parts(beyond):
        summands = [a for _, term in part.slopes(frame) for a in sp.Add.make_args(term.coefficient)]
        if sum(map(monomials, summands)) > 4 * MAX_MONOMIALS:
            raise OperatorError(f"multiplied out, slopes in the field have more than {4 * MAX_MONOMIALS} terms")
        found = affine(part.expression)
        if found is None or found[1] != 0:
            kept.append(_enclosed(part))
        else:
            linear += [term for _, term in replace(part, expression=found[0]).slopes(frame)]
    return [*terms, *linear], sp.Add(*kept)


def _named(expression: sp.Expr, depth: int = 0) -> sp.Expr:
    """With standard names for the variables of integrals, by how deep they are nested."""
    new = {}
    for node in outer_integrals(expression):
        integrand, variable, *limits = node.args
        name = sp.Symbol(f"_{depth}", real=True)
        new[node] = FieldIntegral(_named(integrand.xreplace({variable: name}), depth + 1), name, *limits)
    return expression.xreplace(new)


def _enclosed(part: Part) -> sp.Expr:
    found = part.expression
    for span in reversed(part.spans):
        found = FieldIntegral(found, span.variable, span.lower, span.upper)
    return found
