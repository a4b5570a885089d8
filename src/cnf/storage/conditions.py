"""Conditions from their descriptions: operators in normal form, right-hand sides, points and values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import sympy as sp
import torch
from torch import Tensor

from cnf.constraints import Constraint, Space
from cnf.constraints.constraint import RightHandSide, make_constraint
from cnf.errors import FileError
from cnf.operators.field_functions import Jet
from cnf.operators.frame import Frame
from cnf.operators.nonlinear import NonlinearOperator
from cnf.operators.operator import Operator, Row, Term
from cnf.operators.place import Integral, Place
from cnf.operators.rules import plain_nodes
from cnf.storage.describing import HIGHEST
from cnf.storage.expressions import build_expression

LARGEST = 2**27  # numbers that looking at a condition may take (1 GB), unless the file is large itself
TIMES = 64  # as many numbers as the condition has in the file
AGREEMENT = {torch.float64: 1e-9, torch.float32: 1e-4}  # of saved values with their right-hand side


class Lookup(Protocol):
    """What conditions need of the builder."""

    def built(self, description: object, path: str): ...

    def datum(self, description: object, path: str): ...


def build_condition(builder: Lookup, saved: dict, path: str) -> Constraint:
    """The constraint, its values and points bit for bit as they were."""
    space = builder.built(saved["space"], "space")
    if not isinstance(space, Space):
        raise FileError("a condition in the file has no space")
    name, frame = saved["name"], space.frame
    if not isinstance(name, str) or not isinstance(saved["points"], Tensor) or not isinstance(saved["values"], Tensor):
        raise FileError("a condition in the file is damaged")
    data = {key: builder.datum(value, key) for key, value in saved["data"].items()}
    rows = build_rows(saved["rows"], frame, "beyond" in saved)
    operator = Operator(rows, frame, tuple(sorted(data.items(), key=lambda kept: kept[0])))
    points, values = saved["points"], saved["values"]
    asked = _with_beyond(operator, saved["beyond"], frame) if "beyond" in saved else operator
    check_work(operator if asked is operator else asked.at_rest(), points)  # type: ignore[union-attr]
    side_data = {key: builder.datum(value, key) for key, value in saved["side_data"].items()}
    side = RightHandSide(_source(builder, saved["side"], values), frame, side_data)
    made = make_constraint(name, asked, points, RightHandSide(values, frame))
    return _with_side(made, side)


def _with_beyond(linear: Operator, trees: object, frame: Frame) -> NonlinearOperator:
    """The nonlinear operator of a file: its expressions may name what the operator has data for."""
    if not isinstance(trees, list) or len(trees) != len(linear.rows):
        raise FileError("a nonlinear condition in the file is damaged")
    beyond = tuple(build_expression(tree) for tree in trees)
    for jet in (jet for expression in beyond for jet in expression.atoms(Jet)):
        frame.channel(jet.channel)
        if len(jet.orders) != len(frame.coordinates) or sum(jet.orders) > HIGHEST:
            raise FileError(f"a nonlinear condition in the file has a derivative of order {jet.orders}")
    return NonlinearOperator(linear, beyond, linear.data)


def _source(builder: Lookup, saved: object, values: Tensor):
    if saved is None:
        return values
    if isinstance(saved, float):
        return saved
    if isinstance(saved, list):
        return tuple(build_expression(tree) for tree in saved)
    return builder.datum(saved, "right_hand_side")


def _with_side(constraint: Constraint, side: RightHandSide) -> Constraint:
    """The constraint with what its values came from, if they did."""
    found = replace(constraint, right_hand_side=side)
    if found.renewed() is not found:  # learnable: they are worked out at every solve
        return found
    values = constraint.values
    again = side.at(constraint.points, values.shape[1], constraint.name)
    off, size = (again - values).abs().max(), values.abs().max().clamp_min(1.0)
    if not bool(off <= AGREEMENT.get(values.dtype, 1e-4) * size):
        raise FileError(
            f"the values of constraint {constraint.name!r} in the file are not those of its right-hand side; were "
            "other functions passed as coefficients?"
        )
    return found


def build_rows(saved: Sequence[Sequence[dict]], frame: Frame, may_be_empty: bool = False) -> tuple[Row, ...]:
    """Rows of terms as they are: they were in normal form, and nothing is worked out again."""
    rows = tuple(tuple(_term(term, frame) for term in row) for row in saved)
    if not rows or not (all(rows) or may_be_empty):
        raise FileError("a condition in the file says nothing about the field")
    return rows


def _term(saved: dict, frame: Frame) -> Term:
    frame.channel(saved["channel"])
    derivatives = tuple((name, _order(order)) for name, order in saved["derivatives"])
    substitution = tuple((name, build_expression(tree)) for name, tree in saved["substitution"])
    for name, _ in (*derivatives, *substitution):
        frame.axis(name)
    integrals = tuple(_integral(*(build_expression(tree) for tree in trees)) for trees in saved["integrals"])
    return Term(saved["channel"], build_expression(saved["coefficient"]), derivatives, Place(substitution, integrals))


def _integral(variable: sp.Expr, lower: sp.Expr, upper: sp.Expr) -> Integral:
    if not isinstance(variable, sp.Symbol):
        raise FileError("an integral in the file is damaged")
    return Integral(variable, lower, upper)


def _order(order: object) -> int:
    if not isinstance(order, int) or not 0 < order <= HIGHEST:
        raise FileError(f"a condition in the file has a derivative of order {order!r:.20}")
    return order


def check_work(operator: Operator, points: Tensor, refuse: Callable[[str], Exception] = FileError) -> None:
    """Refuse a condition whose evaluation takes far more memory than its points and coefficients do."""
    terms = [term for row in operator.rows for term in row]
    nodes = max(plain_nodes(n) ** n if n else 1 for n in (len(t.place.integrals) for t in terms))
    numbers = points.shape[0] * nodes * (points.shape[1] + len(terms))
    if numbers > LARGEST + TIMES * points.numel():
        raise refuse(
            f"a condition with {len(terms)} terms at {points.shape[0]} points, {nodes} nodes each, takes more memory "
            "than a file may ask for; split it into several"
        )
