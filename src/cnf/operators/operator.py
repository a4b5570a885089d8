"""Operator: the one normal form of everything that can be asked of a field.

An operator is a tuple of rows; a row is a sum of terms

    coefficient(x) * d^alpha u_c (tau(x)),

with alpha by coordinate name, c a channel, and tau a `Place`. Rows are sorted and merged on construction, so equal
operators compare equal whatever they were built from. Operators without a frame (`cnf.operators.partial("x")`) act on
"the field": their channel is None until they are bound to a space.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import sympy as sp
import torch

from cnf.errors import OperatorError
from cnf.operators.coefficients import Datum, simplest
from cnf.operators.frame import Frame, symbol
from cnf.operators.pairs import narrowed, widened
from cnf.operators.place import HERE, Place, canonical, derivative, inside, replace
from cnf.operators.printing import row_latex

Derivatives = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Term:
    """coefficient(x) * d^derivatives of `channel` at `place`.

    >>> term = cnf.Space("x", "u").operator("3 u_{xx}").rows[0][0]
    >>> term.channel, term.coefficient, term.order
    ('u', 3, 2)
    """

    channel: str | None
    coefficient: sp.Expr = sp.S.One
    derivatives: Derivatives = ()
    place: Place = HERE

    @property
    def order(self) -> int:
        """How often the channel is differentiated, all coordinates together."""
        return sum(order for _, order in self.derivatives)

    @property
    def key(self) -> tuple:
        """What terms share that can be added: channel, derivatives and place."""
        return (self.channel, self.derivatives, self.place)

    @property
    def sort_key(self) -> tuple:
        """The order in which terms are written."""
        return (self.place.sort_key, self.channel or "", -self.order, self.derivatives)

    def replaced(self, **changes: object) -> Term:
        """The same term with other entries."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]

    def raised(self, coordinate: str) -> Term:
        """One more derivative of the field itself, in its own slot `coordinate`."""
        orders = dict(self.derivatives)
        orders[coordinate] = orders.get(coordinate, 0) + 1
        return self.replaced(derivatives=tuple(sorted(orders.items())))

    def differentiated(self, coordinate: str) -> list[Term]:
        """d/dx of the whole term: product rule, chain rule through the place, Leibniz rule for limits."""
        x = symbol(coordinate)
        terms = [self.replaced(coefficient=derivative(self.coefficient, x))]
        touched = {name for name, _ in self.place.substitution} | {coordinate}
        for name in sorted(touched):
            inner = derivative(self.place.at(name), x)
            if inner != 0:
                terms.append(self.raised(name).replaced(coefficient=self.coefficient * inner))
        for k, integral in enumerate(self.place.integrals):
            rest = self.place.integrals[:k] + self.place.integrals[k + 1 :]
            for limit, sign in ((integral.upper, 1), (integral.lower, -1)):
                if limit.diff(x) != 0:
                    fix = {integral.variable: limit}
                    place = Place(self.place.substitution, rest).map(partial(replace, substitution=fix))
                    factor = sign * limit.diff(x) * replace(self.coefficient, fix)
                    terms.append(self.replaced(coefficient=factor, place=place))
        return terms

    def moved(self, outer: Place, factor: sp.Expr, names: tuple[str, ...]) -> Term:
        """The term evaluated at `outer` and multiplied by `factor` (which lives outside)."""
        coefficient, place = inside(outer, self.coefficient, self.place, names)
        return self.replaced(coefficient=factor * coefficient, place=place)


Row = tuple[Term, ...]


def merge(terms: Iterable[Term]) -> Row:
    """Sum terms with the same key, drop zeros, sort: the normal form of a row."""
    sums: dict[tuple, list[sp.Expr]] = {}
    for term in terms:
        if term.coefficient != 0:
            coefficient, place = canonical(term.coefficient, _identity_dropped(term.place))
            sums.setdefault((term.channel, term.derivatives, place), []).append(coefficient)
    rows = []
    for (channel, derivatives, place), parts in sums.items():
        coefficient = simplest(sp.Add(*parts))
        if coefficient != 0:
            rows.append(Term(channel, coefficient, derivatives, place))
    return tuple(sorted(rows, key=lambda term: term.sort_key))


def _identity_dropped(place: Place) -> Place:
    kept = tuple((name, e) for name, e in place.substitution if e != symbol(name))
    return place if len(kept) == len(place.substitution) else Place(kept, place.integrals)


@dataclass(frozen=True, eq=False)
class Operator:
    r"""A linear operator on fields; `rows` in normal form, `data` the named tensors and callables in coefficients.

    >>> heat = cnf.operators.partial("t") - 0.5 * cnf.operators.laplacian()
    >>> operator = cnf.Space("x t", "u").operator(heat)
    >>> print(operator.to_latex(), "of order", operator.order)
    -0.5 \partial_{x}^{2} u + \partial_{t} u of order 2
    """

    rows: tuple[Row, ...]
    frame: Frame | None = None
    data: tuple[tuple[str, Datum], ...] = ()

    @staticmethod
    def of(
        rows: Iterable[Iterable[Term]], frame: Frame | None = None, data: Mapping[str, Datum] | None = None
    ) -> Operator:
        """Build from any terms, brought into normal form."""
        merged = tuple(merge(row) for row in rows)
        seen = [e for row in merged for t in row for e in (t.coefficient, *t.place.expressions)]
        used = {f.func.data for e in seen for f in e.atoms(sp.Function) if hasattr(f.func, "data")}
        used |= {s.name for e in seen for s in e.free_symbols}
        kept = tuple(sorted((k, v) for k, v in (data or {}).items() if k in used)) if data else ()
        return Operator(merged, frame, kept)

    # -- what it is ---------------------------------------------------------------------------------------------

    @property
    def order(self) -> int:
        """Highest derivative taken."""
        return max((term.order for row in self.rows for term in row), default=0)

    @property
    def is_bound(self) -> bool:
        """Whether it belongs to a space already."""
        return self.frame is not None

    @property
    def depends_on_position(self) -> bool:
        """False when the operator looks at the same thing from every point (an integral over the whole domain)."""
        frame = self._needs_frame()
        coordinates = {symbol(name) for name in frame.coordinates}
        for row in self.rows:
            for term in row:
                seen = set(term.coefficient.free_symbols)
                for name in frame.coordinates:
                    seen |= term.place.at(name).free_symbols
                for integral in term.place.integrals:
                    seen |= integral.lower.free_symbols | integral.upper.free_symbols
                if seen & coordinates:
                    return True
        return False

    def _needs_frame(self) -> Frame:
        if self.frame is None:
            raise OperatorError("this operator is not bound to a space yet; use space.operator(...)")
        return self.frame

    # -- algebra: everything follows from sum, scale and compose ---------------------------------------------------

    def bind(self, frame: Frame) -> Operator:
        """The operator on fields of `frame`; an operator on "the field" gets one row per channel."""
        if self.frame == frame:
            return self
        if self.frame is not None:
            raise OperatorError(
                f"the operator belongs to a space with coordinates {self.frame.coordinates} and channels "
                f"{self.frame.channels}, not to one with {frame.coordinates} and {frame.channels}"
            )
        for row in self.rows:
            for term in row:
                for name in [n for n, _ in term.derivatives] + [n for n, _ in term.place.substitution]:
                    frame.axis(name)
                if term.channel is not None:
                    frame.channel(term.channel)
        if all(term.channel is not None for row in self.rows for term in row):
            return Operator.of(self.rows, frame, dict(self.data))
        rows = [
            [term.replaced(channel=channel) if term.channel is None else term for term in row]
            for channel in frame.channels
            for row in self.rows
        ]
        return Operator.of(rows, frame, dict(self.data))

    def __add__(self, other: Operator) -> Operator:
        if not isinstance(other, Operator):
            return NotImplemented
        a, b = _aligned(self, other)
        if len(a.rows) != len(b.rows):
            raise OperatorError(f"cannot add an operator with {len(a.rows)} rows and one with {len(b.rows)}")
        rows = [first + second for first, second in zip(a.rows, b.rows, strict=True)]
        return Operator.of(rows, a.frame, _joined(a, b))

    def __mul__(self, factor: float | sp.Expr) -> Operator:
        if isinstance(factor, Operator):
            raise OperatorError("operators are composed with @, not multiplied with *")
        if isinstance(factor, torch.Tensor) and factor.numel() == 1 and not factor.requires_grad:
            factor = factor.item()
        if not isinstance(factor, int | float | sp.Expr) or isinstance(factor, bool):
            raise OperatorError(
                f"an operator is scaled by a number or a SymPy expression, not by a {type(factor).__name__}; "
                r"name tensors and callables instead: space.operator(r'a \Delta u', a=values)"
            )
        scale = widened(sp.sympify(factor))
        rows = [[t.replaced(coefficient=scale * t.coefficient) for t in row] for row in self.rows]
        return Operator.of(rows, self.frame, dict(self.data))

    __rmul__ = __mul__

    def __truediv__(self, factor: float) -> Operator:
        return self * (sp.S.One / widened(sp.sympify(factor)))

    def __neg__(self) -> Operator:
        return self * -1

    def __sub__(self, other: Operator) -> Operator:
        if not isinstance(other, Operator):
            return NotImplemented
        return self + (-other)

    def __matmul__(self, inner: Operator) -> Operator:
        """Composition: (A @ B)[f] = A[B[f]], product and chain rule included.

        If A speaks of channels, B must have one row per channel of the space; otherwise A acts on each row of B.
        """
        if not isinstance(inner, Operator):
            return NotImplemented
        frame = self.frame or inner.frame
        b = inner.bind(frame) if frame else inner
        data = _joined(self, b)
        if all(term.channel is None for row in self.rows for term in row):
            rows = [_composed(a_row, dict.fromkeys([None], b_row), frame) for b_row in b.rows for a_row in self.rows]
            return Operator.of(rows, frame, data)
        outer = frame if frame is not None else self._needs_frame()
        if (len(b.rows) == 1 and len(outer.channels) == 1) or len(b.rows) == len(outer.channels):
            by_channel: dict[str | None, Row] = dict(zip(outer.channels, b.rows, strict=True))
        else:
            raise OperatorError(
                f"cannot compose: the outer operator acts on {len(outer.channels)} channels, the inner one "
                f"has {len(b.rows)} rows"
            )
        rows = [_composed(a_row, by_channel, outer) for a_row in self.rows]
        return Operator.of(rows, outer, data)

    def __pow__(self, exponent: int) -> Operator:
        if not isinstance(exponent, int) or exponent < 1:
            raise OperatorError(f"an operator can be raised to a whole power of at least 1, not to {exponent!r}")
        result = self
        for _ in range(exponent - 1):
            result = self @ result
        return result

    def __getitem__(self, index: int | slice) -> Operator:
        """Some of the rows."""
        rows = self.rows[index] if isinstance(index, slice) else (self.rows[index],)
        return Operator.of(rows, self.frame, dict(self.data))

    def __len__(self) -> int:
        return len(self.rows)

    # -- equality and printing -----------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Operator):
            return NotImplemented
        try:
            a, b = _aligned(self, other)
            _joined(a, b)  # refuses one name for two different coefficients
        except OperatorError:
            return False
        if len(a.rows) != len(b.rows):
            return False
        return all(_same_row(first, second) for first, second in zip(a.rows, b.rows, strict=True))

    def __hash__(self) -> int:
        # Bound and unbound operators may be equal, so only what binding keeps can enter.
        return hash(tuple(frozenset((t.derivatives, t.place) for t in row) for row in self.rows[:1]))

    def to_latex(self) -> str:
        """The operator as LaTeX that reads back to the same operator."""
        return "; ".join(row_latex(row, self.frame) for row in self.rows)

    def _repr_latex_(self) -> str:
        return f"${self.to_latex()}$"

    def __repr__(self) -> str:
        return f"Operator({self.to_latex()})"


def stacked(operators: Iterable[Operator]) -> Operator:
    r"""One operator with the rows of all of them.

    >>> space = cnf.Space("x y", "u v")
    >>> both = cnf.operators.stacked([cnf.operators.identity("u"), cnf.operators.partial("x", channel="v")])
    >>> print(space.operator(both).to_latex())
    u; \partial_{x} v
    """
    parts = list(operators)
    if not parts:
        raise OperatorError("nothing to stack: give at least one operator")
    frame = next((p.frame for p in parts if p.frame is not None), None)
    parts = [p.bind(frame) if frame is not None else p for p in parts]
    data: dict[str, Datum] = {}
    for part in parts:
        data = _merged_data(data, dict(part.data))
    return Operator.of([row for part in parts for row in part.rows], frame, data)


def _composed(outer: Row, inner: Mapping[str | None, Row], frame: Frame | None) -> list[Term]:
    terms: list[Term] = []
    for term in outer:
        reached = list(inner[term.channel])
        for coordinate, order in term.derivatives:
            for _ in range(order):
                reached = [d for t in reached for d in t.differentiated(coordinate)]
        names = (
            frame.coordinates
            if frame
            else tuple(sorted({n for t in [term, *reached] for n, _ in t.place.substitution}))
        )
        terms += [t.moved(term.place, term.coefficient, names) for t in reached]
    return terms


def _aligned(a: Operator, b: Operator) -> tuple[Operator, Operator]:
    frame = a.frame or b.frame
    return (a, b) if frame is None else (a.bind(frame), b.bind(frame))


def _joined(a: Operator, b: Operator) -> dict[str, Datum]:
    return _merged_data(dict(a.data), dict(b.data))


def _merged_data(first: dict[str, Datum], second: dict[str, Datum]) -> dict[str, Datum]:
    for name in first.keys() & second.keys():
        x, y = first[name], second[name]
        tensors = isinstance(x, torch.Tensor), isinstance(y, torch.Tensor)
        same = x is y or (torch.equal(x, y) if all(tensors) else not any(tensors) and x == y)  # type: ignore[arg-type]
        if not same:
            raise OperatorError(f"the name {name!r} stands for two different coefficients; rename one of them")
    return first | second


def _same_row(a: Row, b: Row) -> bool:
    first, second = {t.key: t.coefficient for t in a}, {t.key: t.coefficient for t in b}
    if first.keys() != second.keys():
        return False
    return all(first[k] == second[k] or sp.simplify(narrowed(first[k]) - narrowed(second[k])) == 0 for k in first)
