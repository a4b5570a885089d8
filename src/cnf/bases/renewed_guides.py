"""Renewed guides: new conditions reach what a basis brings along, the guides between their points, or are refused.

A field on patches that are cut is also fitted to its equations at more points. New right-hand sides and coefficients
hold there too: they must be known there. What flows across interfaces of regions follows from the old coefficients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import sympy as sp
import torch
from torch import Tensor

from cnf.bases.basis import Basis
from cnf.bases.piecewise import Piecewise
from cnf.constraints import Constraint
from cnf.constraints.constraint import make_constraint
from cnf.errors import ConstraintError
from cnf.operators.coefficients import Datum
from cnf.operators.operator import Operator


def guided_anew(basis: Basis, before: Sequence[Constraint], after: Sequence[Constraint]) -> Basis:
    """The basis with guides for the conditions `after`, in place of those for the conditions `before`."""
    old, new = ({c.name: c for c in given} for given in (before, after))
    _refuse_other_fluxes(basis, old, new)
    for guide in basis.guiding:
        if guide.name not in new:
            raise ConstraintError(
                f"the field is also fitted to {guide.name!r} between the points, and no new condition has that name: "
                "between the points nothing would hold; give the new conditions the names of the old ones"
            )
    if all(new[guide.name] is old.get(guide.name) for guide in basis.guiding):
        return basis
    return basis.guided_by(
        [
            guide if new[guide.name] is old.get(guide.name) else _elsewhere(guide, old.get(guide.name), new[guide.name])
            for guide in basis.guiding
        ]
    )


def _elsewhere(guide: Constraint, old: Constraint | None, new: Constraint) -> Constraint:
    """The new condition at the points of the guide."""
    if not new.right_hand_side.known_everywhere:
        raise ConstraintError(
            f"the field is also fitted to {new.name!r} between its points, where values at the points say nothing; "
            "give the right-hand side as a number, an expression or a callable: points (P, D) -> values (P,)"
        )
    tables = _tables(guide)
    known = {} if old is None else _tables(old)

    def datum(name: str, value: Datum) -> Datum:
        """Per-point data, such as normals, are the guide's own, if they are what they were at the other points."""
        if not isinstance(value, Tensor) or value.numel() == 1:
            return value
        if name in tables and name in known and known[name].shape == value.shape and torch.equal(known[name], value):
            return tables[name]
        raise ConstraintError(
            f"the coefficient {name!r} of {new.name!r} is given at its points; the field is also fitted between them: "
            "give it as a number, an expression or a callable: points (P, D) -> values (P,)"
        )

    operator = replace(new.operator, data=tuple((name, datum(name, value)) for name, value in new.operator.data))
    side = new.right_hand_side
    side = replace(side, data={name: datum(name, value) for name, value in side.data.items()})
    points = guide.points.to(new.points)
    return make_constraint(guide.name, operator, points, side).ruled(guide.rules)


def _tables(condition: Constraint) -> dict[str, Tensor]:
    """The data of a condition that have one value per point."""
    data = (*condition.operator.data, *condition.right_hand_side.data.items())
    return {name: value for name, value in data if isinstance(value, Tensor) and value.numel() > 1}


def _refuse_other_fluxes(basis: Basis, old: Mapping[str, Constraint], new: Mapping[str, Constraint]) -> None:
    """Conditions on interfaces were made with the coefficients of the highest derivatives on either side."""
    if not isinstance(basis, Piecewise) or not any(tie.beyond is not None for tie in basis.ties):
        return
    highest = max(c.operator.order for c in old.values())
    for condition in new.values():
        before = old.get(condition.name)
        if condition is before or condition.operator.order < highest:
            continue
        if before is None or not _same(_leading(before.operator), _leading(condition.operator)):
            raise ConstraintError(
                f"{condition.name!r} has other coefficients than before, but what flows across the interfaces of "
                "regions follows from those; make the coefficient a parameter of the problem (a number, a "
                "torch.nn.Parameter or a callable), and solve that"
            )


def _leading(operator: Operator) -> tuple[tuple, dict[str, Datum]]:
    """The terms of highest order, and the data in their coefficients."""
    rows = tuple(tuple(term for term in row if term.order == operator.order) for row in operator.rows)
    seen = [term.coefficient for row in rows for term in row]
    names = {s.name for e in seen for s in e.free_symbols}
    names |= {f.func.data for e in seen for f in e.atoms(sp.Function) if hasattr(f.func, "data")}
    return rows, {name: value for name, value in operator.data if name in names}


def _same(first: tuple[tuple, dict[str, Datum]], second: tuple[tuple, dict[str, Datum]]) -> bool:
    data, other = first[1], second[1]
    return first[0] == second[0] and data.keys() == other.keys() and all(data[k] is other[k] for k in data)
