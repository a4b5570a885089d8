"""LaTeX -> operators: the public face of the reader.

    reader/: tokens.py -> grammar.py -> semantics.py (factors.py, reach.py, names.py, values.py) -> Operator

A string is data from a stranger: its length, depth, derivative orders and the work it may cause are bounded, nothing is
evaluated as code, and whatever is wrong with it is a `LatexError` that shows the place.

    read_operator(r"\\partial_t u + \\beta \\partial_x u", frame, {"beta": 0.1})
    read_equation(r"u_t = \\nu u_{xx} + f(x)", frame, {"nu": 0.01, "f": source_term})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import sympy as sp
from lark import Token, Tree

from cnf.errors import LatexError, OperatorError
from cnf.operators.coefficients import Datum, simplest
from cnf.operators.field_functions import affine, has_jets
from cnf.operators.frame import Frame
from cnf.operators.nonlinear import NonlinearOperator
from cnf.operators.operator import Operator
from cnf.operators.reader.expressions import MAX_MONOMIALS, monomials, supported
from cnf.operators.reader.grammar import parse
from cnf.operators.reader.laws import refuse_mixed_widths
from cnf.operators.reader.names import Names
from cnf.operators.reader.notation import start
from cnf.operators.reader.semantics import Reader
from cnf.operators.reader.values import Affine, Value, added, described, negated

NO_FIELD = "there is no field in this equation"
Result = TypeVar("Result")
AnyOperator = Operator | NonlinearOperator
Equation = tuple[AnyOperator, tuple[sp.Expr, ...] | None, dict[str, Datum]]


def read_operator(
    source: str,
    frame: Frame,
    coefficients: Mapping[str, object] | None = None,
    vectors: Mapping[str, Sequence[str]] | None = None,
) -> AnyOperator:
    """The operator that `source` writes; rows are separated by ; or \\\\ and vectors give one row per component."""

    def read(reader: Reader, tree: Tree) -> AnyOperator:
        rows: list[Affine] = []
        for row in tree.children:
            sides = row.children
            if len(sides) > 1:
                message = "this is an equation; an operator has no '=', so use space.constraint for it"
                raise reader.error(message, _equals(reader, sides))
            value = reader.value(reader.sum(sides[0]))
            rows += [_linear(reader, value, part) for part in value.rows]
        _check_laws(rows)
        return _operator(reader, rows, frame)

    frame = _frame_of(frame)
    return _read(source, frame, coefficients or {}, vectors or {}, read)


def read_equation(
    source: str,
    frame: Frame,
    coefficients: Mapping[str, object] | None = None,
    vectors: Mapping[str, Sequence[str]] | None = None,
) -> Equation:
    """(operator, right-hand side, its data): all that has the field is in the operator, all else on the right.

    The right-hand side has one expression per row; it is None if there is no "=". The data are the tensors and
    callables named in it.
    """

    def read(reader: Reader, tree: Tree) -> Equation:
        equations = [len(row.children) > 1 for row in tree.children]
        if not any(equations):
            return _plain(reader, tree, frame)
        rows: list[Affine] = []
        for row, is_equation in zip(tree.children, equations, strict=True):
            if not is_equation:
                raise reader.error("this row has no '=', but others have; write = 0 if that is meant", start(row))
            rows += _balanced(reader, row).rows
        _check_laws(rows)
        split = [_parted(reader, row) for row in rows]
        right = tuple(_supported(reader, -free, row.at) for row, (_, free) in zip(rows, split, strict=True))
        beyond = [Affine(row.terms, part, row.at) for row, (part, _) in zip(rows, split, strict=True)]
        return _operator(reader, beyond, frame), right, _data_in(right, reader.names.data)

    frame = _frame_of(frame)
    return _read(source, frame, coefficients or {}, vectors or {}, read)


def read_expression(
    source: str, frame: Frame, coefficients: Mapping[str, object] | None = None, with_field: bool = False
) -> sp.Expr:
    """An expression in the coordinates and coefficients, such as a right-hand side or a number.

    Free of the field unless it may be there: then it is in jets, and given as a coefficient it is a law.
    """

    def read(reader: Reader, tree: Tree) -> sp.Expr:
        rows = tree.children
        if len(rows) > 1 or len(rows[0].children) > 1:
            raise reader.error("one expression was expected here, without '=' and without ;", start(rows[-1]))
        value = reader.value(reader.sum(rows[0].children[0]))
        if value.shape:
            raise reader.error("a number or scalar expression was expected here, not a vector", value.at)
        if value.has_field and with_field:
            return _supported(reader, reader.scalar(value, "an expression"), value.at)
        if value.has_field:
            channels = ", ".join(reader.names.frame.channels)
            raise reader.error(f"this must not contain the field ({channels})", value.at)
        return _supported(reader, value.rows[0].constant, value.at)

    return _read(source, _frame_of(frame), coefficients or {}, {}, read, all_used=False)


def used_coefficients(
    source: str,
    frame: Frame,
    coefficients: Mapping[str, object],
    vectors: Mapping[str, Sequence[str]] | None = None,
) -> set[str]:
    """The names of those of the coefficients that an operator or equation makes use of."""

    def read(reader: Reader, tree: Tree) -> set[str]:
        for row in tree.children:
            for side in row.children:
                reader.value(reader.sum(side))
        return reader.names.used

    return _read(source, _frame_of(frame), coefficients, vectors or {}, read, all_used=False)


def _read(
    source: str,
    frame: Frame,
    coefficients: Mapping[str, object],
    vectors: Mapping[str, Sequence[str]],
    read: Callable[[Reader, Tree], Result],
    all_used: bool = True,
) -> Result:
    if not isinstance(source, str):
        raise LatexError(f"expected a LaTeX string, not a {type(source).__name__}")
    names = Names(frame, coefficients, vectors)
    reader = Reader(source, names)
    try:
        tree = parse(source, names.words, frame.coordinates)
        result = read(reader, tree)
        if all_used:
            written = tree.scan_values(lambda v: isinstance(v, Token) and v.type in ("NAME", "BOLD"))
            names.refuse_unused([str(name) for name in written])
    except LatexError:
        raise
    except OperatorError as error:
        raise LatexError(f"{error} in {source!r}" if len(source) < 200 else str(error), source) from None
    except RecursionError:
        raise LatexError("this is nested too deeply to be worked out", source, 0) from None
    except (ArithmeticError, ValueError, TypeError, NotImplementedError, sp.SympifyError) as error:
        raise LatexError(f"this cannot be worked out: {error}", source, 0) from error
    return result


def _plain(reader: Reader, tree: Tree, frame: Frame) -> Equation:
    rows: list[Affine] = []
    for row in tree.children:
        value = reader.value(reader.sum(row.children[0]))
        rows += [_linear(reader, value, part) for part in value.rows]
    _check_laws(rows)
    return _operator(reader, rows, frame), None, {}


def _check_laws(rows: Sequence[Affine]) -> None:
    if any(has_jets(row.constant) for row in rows):
        refuse_mixed_widths([e for row in rows for e in (row.constant, *(t.coefficient for t in row.terms))])


def _linear(reader: Reader, value: Value, row: Affine) -> Affine:
    """The row itself, if it has the field and nothing besides; a plain 0 is the zero operator."""
    beyond = sp.S.Zero
    if has_jets(row.constant):
        beyond, constant = _parted(reader, row)
        if affine(beyond) is None:
            return row
    else:
        constant = _expanded(reader, row)
    if constant != 0 and not row.terms and beyond == 0:
        channels = ", ".join(reader.names.frame.channels)
        raise reader.error(f"there is no field in this; expected one of {channels} somewhere", value.at)
    if constant != 0:
        message = "this part has no field in it, so the whole is not linear; move it to the right of an equation"
        raise reader.error(message, row.at)
    return replace(row, constant=beyond)


def _parted(reader: Reader, row: Affine) -> tuple[sp.Expr, sp.Expr]:
    """What has jets of the field in it, and what has not."""
    if not has_jets(row.constant):
        return sp.S.Zero, row.constant
    with reader.located(row.at):
        monomials(row.constant)
        found = affine(supported(row.constant))
        if found is not None:
            return found
        parts = sp.Add.make_args(simplest(row.constant))
    return tuple(sp.Add(*(p for p in parts if has_jets(p) == wanted)) for wanted in (True, False))


def _expanded(reader: Reader, row: Affine) -> sp.Expr:
    with reader.located(row.at):
        monomials(row.constant)
        return sp.expand(row.constant)


def _balanced(reader: Reader, row: Tree) -> Value:
    """left - right, a scalar free of the field serving all rows of a vector."""
    sides = row.children
    if len(sides) > 2:
        raise reader.error("an equation has one '='; separate equations with ;", _equals(reader, sides[1:]))
    left, right = (reader.value(reader.sum(side)) for side in sides)
    if not left.has_field:
        left, right = right, left  # 0 = u - x is u = x, not -u = -x
    if left.shape and not right.shape and not right.has_field:
        right = Value(right.rows * len(left.rows), left.shape, right.at)
    elif right.shape and not left.shape and not left.has_field:
        left = Value(left.rows * len(right.rows), right.shape, left.at)
    if left.shape != right.shape:
        raise reader.error(f"the sides do not fit: {described(left)} = {described(right)}", start(sides[1]))
    with reader.located(start(sides[0])):
        value = added([left, negated(right)])
    for part in value.rows:
        if not part.has_field:
            raise reader.error(NO_FIELD, start(sides[0]))
    return value


def _operator(reader: Reader, rows: Sequence[Affine], frame: Frame) -> AnyOperator:
    """The normal form; multiplying out is bounded before it is done."""
    total = 0
    for row in rows:
        with reader.located(row.at):
            total += sum(monomials(supported(term.coefficient)) for term in row.terms)
            if total > 10 * MAX_MONOMIALS:
                raise OperatorError(f"multiplied out, the operator has more than {10 * MAX_MONOMIALS} terms")
            for term in row.terms:
                for expression in term.place.expressions:
                    supported(expression)
            supported(row.constant)
    if not any(has_jets(row.constant) for row in rows):
        return Operator.of([row.terms for row in rows], frame, reader.names.data)
    with reader.located(next(row.at for row in rows if has_jets(row.constant))):
        return NonlinearOperator.of([(row.terms, row.constant) for row in rows], frame, reader.names.data)


def _supported(reader: Reader, expression: sp.Expr, at: int) -> sp.Expr:
    with reader.located(at):
        return supported(expression)


def _data_in(expressions: Sequence[sp.Expr], data: Mapping[str, Datum]) -> dict[str, Datum]:
    used = {f.func.data for e in expressions for f in e.atoms(sp.Function) if hasattr(f.func, "data")}
    used |= {s.name for e in expressions for s in e.free_symbols}
    return {name: datum for name, datum in data.items() if name in used}


def _equals(reader: Reader, sides: Sequence[Tree]) -> int:
    """Where the '=' between the first two sides stands."""
    return reader.source.rfind("=", 0, start(sides[1]))


def _frame_of(frame: Frame) -> Frame:
    return getattr(frame, "frame", frame)  # a Space serves as well
