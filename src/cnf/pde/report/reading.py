"""The text that `cnf read` prints: how an equation in LaTeX is understood."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

import cnf
from cnf.errors import CnfError
from cnf.operators.latex import read_equation
from cnf.operators.printing import CoefficientPrinter


def read_coefficients(given: Sequence[str]) -> dict[str, object]:
    """["beta=0.1", "n=1,0", "f="] -> a number, a vector, and a function of the coordinates that is not known yet."""
    found: dict[str, object] = {}
    for text in given:
        name, equals, written = text.partition("=")
        parts = [_number(part) for part in written.split(",")] if written.strip() else []
        if not equals or not name.strip() or not all(math.isfinite(part) for part in parts):
            raise CnfError(
                "--set takes NAME=NUMBER (beta=0.1), NAME=NUMBER,NUMBER (a vector, n=1,0) or NAME= (a function of the "
                f"coordinates); got {text!r}"
            )
        found[name.strip()] = _unknown if not parts else parts[0] if len(parts) == 1 else parts
    return found


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _unknown(points: Tensor) -> Tensor:
    """Stands for a function that is named but not given."""
    return points[:, 0] * math.nan


def describe_reading(latex: str, coordinates: str, channels: str, coefficients: dict[str, object]) -> str:
    """The normal form of an operator or equation, in lines."""
    space = cnf.Space(coordinates, channels)
    operator, sides, _ = read_equation(latex, space.frame, coefficients, space.vectors)
    printer = CoefficientPrinter(space.frame, {})
    lines = [f"field     {', '.join(space.channels)} of {', '.join(space.coordinates)}"]
    for k in range(len(operator.rows)):
        row = cnf.operators.Operator.of([operator.rows[k]], operator.frame, dict(operator.data)).to_latex()
        right = "" if sides is None else f" = {printer.doprint(sides[k])}"
        lines.append(f"{'row ' + str(k + 1) if len(operator.rows) > 1 else 'reads':<9} {row}{right}")
    terms = [term for row in operator.rows for term in row]
    used = [c for c in space.channels if any(t.channel == c for t in terms)]
    kind = "operator; say what it equals with = or equals=" if sides is None else "equation"
    lines.append(f"kind      {kind}")
    rows = "1 row" if len(operator.rows) == 1 else f"{len(operator.rows)} rows"
    count = "1 term" if len(terms) == 1 else f"{len(terms)} terms"
    lines.append(f"order     {operator.order}, {rows} per point, {count}")
    lines.append(f"uses      {', '.join(used) or 'no channel'}")
    return "\n".join(lines)
