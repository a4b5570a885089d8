"""Space: the names everything else is written in, and the place where LaTeX becomes operators and constraints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

import torch

from cnf.constraints.constraint import Constraint, RightHandSide, _as_source, make_constraint
from cnf.errors import ConstraintError, OperatorError
from cnf.operators.frame import Frame
from cnf.operators.latex import read_equation, read_operator
from cnf.operators.library import Recipe
from cnf.operators.nonlinear import NonlinearOperator
from cnf.operators.operator import Operator
from cnf.operators.place import Place

Asked = str | Operator | NonlinearOperator | Recipe


class Space:
    """Coordinates and channels by name: `Space("x y t", "u v p")`.

    Coordinates called t are time and left out of nabla; say `time="s"` for other names or `time=""` for none.
    `vectors={"w": ("u", "v")}` names the channels that a bold symbol stands for.

    >>> space = cnf.Space("x y", "u v p")
    >>> space.coordinates, space.channels
    (('x', 'y'), ('u', 'v', 'p'))
    """

    def __init__(
        self,
        coordinates: str | Sequence[str],
        channels: str | Sequence[str] = "u",
        *,
        time: str | Sequence[str] | None = None,
        vectors: Mapping[str, Sequence[str]] | None = None,
    ):
        names = _names(coordinates)
        times = tuple(n for n in names if n == "t") if time is None else _names(time)
        if len(times) == len(names):
            times = () if time is None else times
        self.frame = Frame(names, _names(channels), times)
        self.vectors = {name: tuple(_names(parts)) for name, parts in (vectors or {}).items()}
        for parts in self.vectors.values():
            for part in parts:
                self.frame.channel(part)

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Names of the coordinates."""
        return self.frame.coordinates

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the channels."""
        return self.frame.channels

    @overload
    def operator(self, asked: Operator | Recipe) -> Operator: ...

    @overload
    def operator(self, asked: str | NonlinearOperator, **coefficients: object) -> Any: ...

    def operator(self, asked: Asked, **coefficients: object) -> Operator | NonlinearOperator:
        r"""A LaTeX string, or an operator built in Python, as an operator on the fields of this space.

        >>> cnf.Space("x t", "u").operator(r"u_t - \nu u_{xx}", nu=0.1)
        Operator(-0.1 \partial_{x}^{2} u + \partial_{t} u)
        """
        if isinstance(asked, str):
            return read_operator(asked, self.frame, coefficients, self.vectors)
        if isinstance(asked, NonlinearOperator) and asked.frame == self.frame and not coefficients:
            return asked
        if not isinstance(asked, Operator | Recipe):
            raise OperatorError(f"expected LaTeX or an operator, got a {type(asked).__name__}")
        if coefficients:
            raise OperatorError(
                f"the coefficients {sorted(coefficients)} go with a LaTeX string, not with a ready operator"
            )
        return asked.bind(self.frame)

    def constraint(
        self,
        asked: Asked,
        at: object = None,
        equals: object = None,
        name: str | None = None,
        **coefficients: object,
    ) -> Constraint:
        """A condition on the field at points.

        `asked`: operator or equation; `at`: (P, D), may be left out only if the operator looks at the same thing from
        everywhere (an integral over the whole domain); `equals`: number, tensor (P,) or (P, R), or callable, if
        `asked` is not an equation.

        >>> space = cnf.Space("x", "u")
        >>> wall = space.constraint("u = x^2", at=[[0.0], [2.0]], name="wall")
        >>> wall.points.shape, wall.values.tolist()  # (P, D), (P, R)
        (torch.Size([2, 1]), [[0.0], [4.0]])
        """
        label = name if name is not None else (asked if isinstance(asked, str) else repr(asked))
        if not isinstance(label, str) or not label.strip():
            raise ConstraintError("the name of a constraint must be a string that is not empty")
        if isinstance(asked, str):
            operator, sides, data = read_equation(asked, self.frame, coefficients, self.vectors)
        else:
            operator, sides, data = self.operator(asked, **coefficients), None, {}
        if not any(operator.rows):
            raise ConstraintError(f"constraint {label!r}: the operator is zero, so it says nothing about the field")
        if not all(operator.rows):
            empty = next(k for k, row in enumerate(operator.rows) if not row)
            raise ConstraintError(
                f"constraint {label!r}: row {empty + 1} of the operator is zero, so it says nothing about the field; "
                "leave that row out"
            )
        if sides is not None and equals is not None:
            raise ConstraintError(
                f"constraint {label!r}: the equation has a right-hand side already; leave out `equals`"
            )
        if sides is None and equals is None:
            raise ConstraintError(
                f"constraint {label!r}: say what the operator equals, with `= ...` in the LaTeX or `equals=`"
            )
        side = RightHandSide(sides if sides is not None else _as_source(equals, label), self.frame, data)
        return make_constraint(label, operator, self._default_point(operator, label) if at is None else at, side)

    def _default_point(self, operator: Operator | NonlinearOperator, name: str) -> torch.Tensor:
        if operator.depends_on_position:
            raise ConstraintError(f"constraint {name!r}: give the points where it must hold, at=points")
        place: Place = next(term.place for row in operator.rows for term in row)
        middle = []
        for coordinate in self.coordinates:
            ends = [i for i in place.integrals if i.variable in place.at(coordinate).free_symbols]
            where = (ends[0].lower + ends[0].upper) / 2 if ends else place.at(coordinate)
            middle.append(0.0 if where.free_symbols else float(where))  # a learnable limit: any point will do
        return torch.tensor([middle], dtype=torch.float64)

    def __repr__(self) -> str:
        return f"Space({' '.join(self.coordinates)!r}, {' '.join(self.channels)!r})"


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        return tuple(given.replace(",", " ").split())
    if not isinstance(given, Sequence) or not all(isinstance(name, str) for name in given):
        raise OperatorError(f"names are given as a string such as 'x y', or as a list of strings; got {given!r}")
    return tuple(given)
