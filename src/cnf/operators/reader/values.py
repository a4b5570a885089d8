"""What the parts of a LaTeX string evaluate to: the small algebra between tree and operator.

A `Value` is a scalar, vector or matrix of affine expressions in the field, sum of terms + constant; an expression free
of the field is a value without terms. An `Action` is an operator that still waits for what stands on its right:
\\partial_x, \\nabla\\cdot, or a bracket such as (1 - \\Delta). `Calculus` differentiates, moves and integrates values
in the coordinates of one frame. Errors are `OperatorError`; the reader adds the place in the string.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import sympy as sp

from cnf.errors import OperatorError
from cnf.operators.coefficients import RowFunction, simplest
from cnf.operators.field_functions import FieldIntegral, affine, has_jets
from cnf.operators.field_jets import as_jet
from cnf.operators.frame import Frame, symbol
from cnf.operators.operator import Term, merge
from cnf.operators.place import HERE, Integral, Place, over
from cnf.operators.reader.expressions import checked, monomials, size, supported

MAX_ORDER = 32
MAX_TERMS = 2000
MAX_WORK = 50_000  # what one string may cost to differentiate: a few seconds


@dataclass(frozen=True)
class Affine:
    """terms + constant; `at` is where in the source the constant stands.

    What is linear in the field is in the terms; the constant is free of it, or an expression in its jets.
    """

    terms: tuple[Term, ...] = ()
    constant: sp.Expr = sp.S.Zero
    at: int = 0

    @property
    def has_field(self) -> bool:
        return bool(self.terms) or has_jets(self.constant)

    def in_jets(self, frame: Frame) -> sp.Expr:
        """The whole as one expression, the field in it as jets."""
        return sp.Add(self.constant, *(as_jet(term, frame) for term in self.terms))

    def scaled(self, factor: sp.Expr) -> Affine:
        terms = tuple(t.replaced(coefficient=factor * t.coefficient) for t in self.terms)
        return Affine(terms, factor * self.constant, self.at)


@dataclass(frozen=True)
class Value:
    """Rows of a scalar (shape ()), vector (n,) or matrix (m, n), row by row.

    `kind` says how a bracket behind the value is read: "field" and "callable" are called, an "expression" or "rows" may
    be written with its coordinates, a "number" multiplies. `place` is a point asked for in such a bracket and not yet
    gone to, so that in \\partial_x u(0, t) the derivative comes first.
    """

    rows: tuple[Affine, ...]
    shape: tuple[int, ...] = ()
    at: int = 0
    kind: str = ""
    place: Place = HERE

    @property
    def has_field(self) -> bool:
        return any(row.has_field for row in self.rows)

    @property
    def free_symbols(self) -> set[sp.Symbol]:
        parts = [t.coefficient.free_symbols | t.place.free_symbols for row in self.rows for t in row.terms]
        return set().union(*parts, *(row.constant.free_symbols for row in self.rows))

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def constant(self) -> sp.Expr:
        return self.rows[0].constant


@dataclass(frozen=True)
class Action:
    """An operator waiting for its operand; `rank` is what it adds to the operand's rank, `text` how it was written."""

    apply: Callable[[Value], Value]
    rank: int = 0
    at: int = 0
    text: str = ""


Item = Value | Action


def scalar(expression: sp.Expr, at: int = 0, kind: str = "") -> Value:
    return Value((Affine((), expression, at),), (), at, kind)


def vector(expressions: Iterable[sp.Expr], at: int = 0) -> Value:
    rows = tuple(Affine((), e, at) for e in expressions)
    return Value(rows, (len(rows),), at)


def described(value: Value) -> str:
    if value.rank == 2:
        return f"a matrix of {value.shape[0]} x {value.shape[1]}"
    return f"a vector with {value.shape[0]} component(s)" if value.shape else "a scalar"


def added(values: Sequence[Value]) -> Value:
    """The sum; all must have one shape."""
    first = values[0]
    for value in values[1:]:
        if value.shape != first.shape:
            raise OperatorError(f"cannot add {described(first)} and {described(value)}")
    rows = []
    for parts in zip(*(v.rows for v in values), strict=True):
        at = next((p.at for p in parts if p.constant != 0), first.at)
        rows.append(Affine(tuple(t for p in parts for t in p.terms), sp.Add(*(p.constant for p in parts)), at))
    if sum(len(r.terms) for r in rows) > 10 * MAX_TERMS:
        raise OperatorError("the operator has too many terms")
    return Value(tuple(rows), first.shape, first.at)


def multiplied(a: Value, b: Value, frame: Frame) -> Value:
    """The product; at most one factor is not a scalar. If both have the field, an expression in its jets."""
    if a.shape and b.shape:
        raise OperatorError(r"two vectors stand side by side; write \cdot or \times between them")
    if a.has_field and b.has_field:
        one, other = (a, b) if b.shape == () else (b, a)
        factor = other.rows[0].in_jets(frame)
        rows = tuple(Affine((), checked(factor * row.in_jets(frame)), a.at) for row in one.rows)
        sum(monomials(row.constant) for row in rows)  # refused here, before factor after factor makes it dear
        return Value(rows, one.shape, a.at)
    field, factor = (a, b) if a.has_field or (b.shape == () and not b.has_field) else (b, a)
    if factor.shape == ():
        rows = tuple(row.scaled(factor.constant) for row in field.rows)
    else:
        rows = tuple(field.rows[0].scaled(row.constant) for row in factor.rows)
    return Value(rows, a.shape or b.shape, a.at)


def entry(value: Value, *rows: int) -> Value:
    """One component as a scalar."""
    index = rows[0] if len(rows) == 1 else rows[0] * value.shape[1] + rows[1]
    return Value((value.rows[index],), (), value.at)


def stacked(values: Sequence[Value], shape: tuple[int, ...]) -> Value:
    return Value(tuple(row for v in values for row in v.rows), shape, values[0].at)


def dotted(a: Value, b: Value, frame: Frame) -> Value:
    """a . b: two vectors, or a matrix [i][j] = d_j u_i and a vector contracted over j."""
    if a.rank == 1 and b.rank == 2:
        a, b = b, a
    if a.shape[-1:] != b.shape or a.rank > 2:
        raise OperatorError(f"cannot take the dot product of {described(a)} and {described(b)}")
    n = b.shape[0]
    if a.rank == 1:
        return added([multiplied(entry(a, j), entry(b, j), frame) for j in range(n)])
    rows = [added([multiplied(entry(a, i, j), entry(b, j), frame) for j in range(n)]) for i in range(a.shape[0])]
    return stacked(rows, (a.shape[0],))


def crossed(a: Value, b: Value, frame: Frame) -> Value:
    """a x b in three dimensions (a vector) or in two (a scalar)."""
    if a.shape != b.shape or a.shape not in ((2,), (3,)):
        raise OperatorError(f"cannot take the cross product of {described(a)} and {described(b)}")

    def minor(i: int, j: int) -> Value:
        return added(
            [multiplied(entry(a, i), entry(b, j), frame), negated(multiplied(entry(a, j), entry(b, i), frame))]
        )

    return minor(0, 1) if a.shape == (2,) else stacked([minor(1, 2), minor(2, 0), minor(0, 1)], (3,))


def negated(value: Value) -> Value:
    return replace(value, rows=tuple(row.scaled(sp.S.NegativeOne) for row in value.rows), kind="")


def transposed(value: Value) -> Value:
    m, n = value.shape
    return replace(value, rows=tuple(value.rows[i * n + j] for j in range(n) for i in range(m)), shape=(n, m))


class Calculus:
    """Derivatives, moves and integrals of values on one frame, with a bound on the work one string may cause."""

    def __init__(self, frame: Frame):
        self.frame, self.work = frame, 0

    def differentiated(self, value: Value, coordinate: str) -> Value:
        rows = tuple(self._differentiated_row(row, coordinate) for row in value.rows)
        return replace(value, rows=rows, kind="")

    def _differentiated_row(self, row: Affine, coordinate: str) -> Affine:
        terms = [d for t in self._merged(row.terms) for d in t.differentiated(coordinate)]
        constant = row.constant.diff(symbol(coordinate))
        monomials(constant)
        self._spend(10 + (8 if has_jets(constant) else 4) * size(constant))
        merged = self._merged(terms)
        if any(t.order > MAX_ORDER for t in merged):
            raise OperatorError(f"derivatives of order above {MAX_ORDER} cannot be used")
        if len(merged) > MAX_TERMS:
            raise OperatorError(f"the operator has more than {MAX_TERMS} terms")
        return Affine(merged, simplest(constant), row.at)

    def _merged(self, terms: Sequence[Term]) -> tuple[Term, ...]:
        """Like terms put together, once it is clear that multiplying out stays small."""
        for term in terms:
            self._spend(1 if term.coefficient.is_Number else 4 * size(term.coefficient))  # as measured
            monomials(term.coefficient)
        return merge(terms)

    def _spend(self, work: int) -> None:
        self.work += work
        if self.work > MAX_WORK:
            raise OperatorError("the derivatives in this operator take too much work; split or simplify it")

    def repeated(self, value: Value, orders: Sequence[tuple[str, int]]) -> Value:
        for coordinate, order in orders:
            for _ in range(order):
                value = self.differentiated(value, coordinate)
        return value

    def along(self, value: Value, direction: Value, order: int) -> Value:
        """The order-th derivative along a direction that is held fixed: sum of b_i b_j ... d_i d_j ...."""
        # Symbols stand for the direction until all derivatives are taken, so that it is never differentiated itself.
        symbols = [sp.Dummy(f"b_{c}", real=True) for c in self.spatial]
        for _ in range(order):
            parts = [self.differentiated(value, c) for c in self.spatial]
            value = added([multiplied(scalar(b), part, self.frame) for b, part in zip(symbols, parts, strict=True)])
        return _substituted(value, dict(zip(symbols, (row.constant for row in direction.rows), strict=True)))

    @property
    def spatial(self) -> tuple[str, ...]:
        if not self.frame.spatial:
            raise OperatorError(r"\nabla and \Delta run over the spatial coordinates, and this space has none but time")
        return self.frame.spatial

    def gradient(self, value: Value) -> Value:
        if value.rank > 1:
            raise OperatorError(r"\nabla of a matrix cannot be used")
        rows = [self.differentiated(entry(value, i), c) for i in range(len(value.rows)) for c in self.spatial]
        return stacked(rows, (*value.shape, len(self.spatial)))

    def divergence(self, value: Value) -> Value:
        n = len(self.spatial)
        if value.rank == 0 or value.shape[-1] != n:
            need = f"a vector with {n} component(s), one per {', '.join(self.spatial)}"
            hint = r"; write \mathbf{u} for the vector" if not value.shape else ""
            raise OperatorError(f"the divergence needs {need}; got {described(value)}{hint}")
        if value.rank == 1:
            return added([self.differentiated(entry(value, i), c) for i, c in enumerate(self.spatial)])
        rows = []
        for i in range(value.shape[0]):
            rows.append(added([self.differentiated(entry(value, i, j), c) for j, c in enumerate(self.spatial)]))
        return stacked(rows, (value.shape[0],))

    def curl(self, value: Value) -> Value:
        x, n = self.spatial, len(self.spatial)
        if value.shape != (n,) or n not in (2, 3):
            need = "one component per spatial coordinate, two or three"
            raise OperatorError(f"the curl needs a vector with {need}; got {described(value)}")

        def minor(i: int, j: int) -> Value:
            first, second = self.differentiated(entry(value, j), x[i]), self.differentiated(entry(value, i), x[j])
            return added([first, negated(second)])

        return minor(0, 1) if n == 2 else stacked([minor(1, 2), minor(2, 0), minor(0, 1)], (3,))

    def laplacian(self, value: Value) -> Value:
        return replace(added([self.repeated(value, [(c, 2)]) for c in self.spatial]), at=value.at)

    def settled(self, value: Value) -> Value:
        """The value at its place: what \\partial_x u(0, t) is once nothing more acts on it from the left."""
        if value.place.is_here:
            return value
        return self.moved(replace(value, place=HERE, kind=""), value.place)

    def moved(self, value: Value, place: Place) -> Value:
        """The value at another point of the coordinates."""
        change = {symbol(name): expression for name, expression in place.substitution}
        rows = []
        for row in value.rows:
            _refuse_moved_rows([row.constant, *(t.coefficient for t in row.terms)], set(change))
            terms = tuple(t.moved(place, sp.S.One, self.frame.coordinates) for t in row.terms)
            rows.append(Affine(terms, row.constant.xreplace(change), row.at))
        return replace(value, rows=tuple(rows), kind="")

    def integrated(self, value: Value, variable: str | sp.Symbol, lower: sp.Expr, upper: sp.Expr) -> Value:
        """The integral over a coordinate, or over a variable that already stands in the value."""
        if isinstance(variable, str):
            place = over(variable, lower, upper)
            value = self.moved(value, Place(place.substitution))
            variable = place.integrals[0].variable
        span = Integral(variable, lower, upper)
        rows = []
        for row in value.rows:
            terms = tuple(_enclosed(t, span) for t in row.terms)
            found = affine(supported(row.constant)) if has_jets(row.constant) and monomials(row.constant) else None
            parts = sp.Add.make_args(row.constant if found is None else sp.Add(*found))
            free = _antiderivative(sp.Add(*(part for part in parts if not has_jets(part))), span)
            beyond = [FieldIntegral(part, span.variable, lower, upper) for part in parts if has_jets(part)]
            rows.append(Affine(terms, sp.Add(free, *beyond), row.at))
        return replace(value, rows=tuple(rows), kind="")


def _enclosed(term: Term, span: Integral) -> Term:
    """The integral of one term; over something that does not vary it is the length of the interval."""
    if span.variable not in term.coefficient.free_symbols | term.place.free_symbols:
        return term.replaced(coefficient=(span.upper - span.lower) * term.coefficient)
    return term.replaced(place=Place(term.place.substitution, (span, *term.place.integrals)))


def _antiderivative(constant: sp.Expr, span: Integral) -> sp.Expr:
    """Exact for polynomials; anything else could take SymPy forever."""
    if constant == 0:
        return constant
    monomials(constant)
    poly = sp.expand(constant).as_poly(span.variable)
    if poly is None:
        raise OperatorError("without the field only polynomials are integrated; work it out and write its value")
    primitive = poly.integrate().as_expr()
    return primitive.xreplace({span.variable: span.upper}) - primitive.xreplace({span.variable: span.lower})


def _substituted(value: Value, change: dict[sp.Symbol, sp.Expr]) -> Value:
    rows = []
    for row in value.rows:
        terms = tuple(t.replaced(coefficient=t.coefficient.xreplace(change)) for t in row.terms)
        rows.append(Affine(terms, row.constant.xreplace(change), row.at))
    return replace(value, rows=tuple(rows))


def _refuse_moved_rows(expressions: Iterable[sp.Expr], moved: set[sp.Symbol]) -> None:
    for expression in expressions:
        for function in expression.atoms(RowFunction):
            if function.free_symbols & moved:
                raise OperatorError(
                    f"the coefficient {function.data!r} is known only at the points, so it cannot be used inside an "
                    "integral or at another point; give it as an expression or as a callable"
                )
