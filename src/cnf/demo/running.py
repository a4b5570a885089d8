"""What the commands run: several advection problems with a display, and the reading of a LaTeX string."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from torch import Tensor

import cnf
from cnf.applications import Advection, LightPath, solve_advection
from cnf.cli.display import part
from cnf.errors import CnfError, CnfWarning
from cnf.files import write_atomically
from cnf.operators.latex import read_equation
from cnf.operators.printing import CoefficientPrinter

SCAN, SPREADS = 10, 5  # trials to expect


def run_advection(
    console: Console, levels: Sequence[float], seeds: Sequence[int], methods: Sequence[str], steps: int = 10
) -> list[Advection]:
    """Every combination; skewed-rbf starts from the bandwidth that rbf found, if rbf ran before it."""
    found = []
    for level in levels:
        for seed in seeds:
            bandwidth: float | None = None
            for method in methods:
                start = bandwidth if method == "skewed-rbf" else None
                total = (SCAN if start is None else 0) + (SPREADS + steps if method == "skewed-rbf" else 0)
                with part(console, method, total) as shown, warnings.catch_warnings():
                    warnings.simplefilter("ignore", CnfWarning)  # the certificates say the same, and are printed
                    result = solve_advection(level, method, seed, steps=steps, bandwidth=start, report=shown.tell)
                    shown.result = f"RMSE {result.rmse:.1e}, worst relative residual {result.residual:.1e}"
                bandwidth = result.bandwidth if method == "rbf" else bandwidth
                found.append(result)
    return found


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


def describe_ends(result: LightPath) -> str:
    return f"end points off by at most {result.end_error:.1e} at any of {len(result.history)} steps"


def write_text(path: Path, text: str) -> None:
    def write(file: Path) -> None:
        file.write_text(text)

    write_atomically(path, write)
