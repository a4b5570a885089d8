"""The table of an answer: every equation with its residuals, and what was found about the whole, as plain text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cnf.bases import Piecewise
from cnf.pde.problems.check import jump_read_back, read_back, tie_read_back
from cnf.pde.report.course import newton_facts
from cnf.reports.tables import Table

if TYPE_CHECKING:
    from cnf.bases.ties import Tie
    from cnf.constraints import Constraint
    from cnf.pde.problems.answer import Answer
    from cnf.pde.problems.equation import Equation

WIDEST = 40  # characters of a name in the table


@dataclass(frozen=True)
class EquationRow:
    """What is reported about one equation; NaN where a number was not measured."""

    name: str
    where: str
    latex: str  # as written
    read: str  # as understood
    constraint: Constraint
    points: int
    conditions: int
    absolute: float
    relative: float
    held_out: float  # mean between the points
    largest: float  # and the largest there
    fitted: bool = False  # in the sense of least squares, by the unknowns of the problem: no condition of the field

    @property
    def residuals(self) -> tuple[float, float, float, float]:
        """Absolute and relative at the points, mean and largest between them."""
        return self.absolute, self.relative, self.held_out, self.largest


def list_equations(answer: Answer) -> list[EquationRow]:
    """One row per constraint of the field, in its order, then those of conditions on interfaces."""
    problem, ties = answer.problem, tied_conditions(answer)
    jumps = {jump.name(number): (jump, number) for jump in problem.jumps for number in jump.interfaces}
    written = {e.name: e for e in problem.equations} | {name: jump.equation for name, (jump, _) in jumps.items()}
    rows = []
    for constraint in (*answer.field.constraints, *ties):
        equation, residual = written.get(constraint.name), answer.certificate.residuals.get(constraint.name)
        if constraint.name in jumps:
            read = jump_read_back(*jumps[constraint.name])
        else:
            read = tie_read_back(ties[constraint]) if constraint in ties else read_back(constraint)
        rows.append(
            EquationRow(
                name=constraint.name,
                where=find_part(equation) or ("interface" if constraint in ties else "everywhere"),
                latex=equation.latex if equation else read,
                read=read,
                constraint=constraint,
                points=constraint.points.shape[0],
                conditions=constraint.rows,
                absolute=residual.absolute if residual is not None else math.nan,
                relative=residual.relative if residual is not None else math.nan,
                held_out=float(answer.held_out.get(constraint.name, math.nan)),
                largest=float(answer.largest.get(constraint.name, math.nan)),
            )
        )
    return rows


def list_fitted(answer: Answer) -> list[EquationRow]:
    """One row per equation that is fitted: the largest misfit, and that relative to the size of the measurements."""
    if answer.recovered is None:
        return []
    written = {e.name: e for e in answer.problem.fitted}
    rows = []
    for constraint, misfit in zip(answer.problem.sensors, answer.recovered.misfits, strict=True):
        equation = written[constraint.name]
        rows.append(
            EquationRow(
                name=constraint.name,
                where=find_part(equation) or "everywhere",
                latex=equation.latex,
                read=read_back(constraint),
                constraint=constraint,
                points=constraint.points.shape[0],
                conditions=constraint.rows,
                absolute=misfit.largest,
                relative=misfit.largest / misfit.size,
                held_out=math.nan,
                largest=math.nan,
                fitted=True,
            )
        )
    return rows


def tied_conditions(answer: Answer) -> dict[Constraint, Tie]:
    """Conditions on interfaces, and how they tie the patches there."""
    basis = answer.field.basis
    ties = basis.ties if isinstance(basis, Piecewise) else ()
    return {tie.condition: tie for tie in ties if tie.condition.name in answer.held_out}


def find_part(equation: Equation | None) -> str | None:
    """Where an equation holds: the part of the domain or the file of its points; None if it needs no points."""
    if equation is None:
        return None
    return equation.region if equation.on == "interior" and equation.region else equation.on or equation.file


def judge_answer(answer: Answer) -> list[tuple[bool | None, str]]:
    """The verdict in sentences, each good (True), bad (False) or neither (None): conditions, resolution, error."""
    certificate = answer.certificate
    worst, tolerance = f"{certificate.worst:.1e}", f"{certificate.tolerance:.0e}"
    found: list[tuple[bool | None, str]] = []
    if certificate.exact:
        found.append((True, f"Every condition holds: worst relative residual {worst}, tolerance {tolerance}."))
    else:
        found.append((False, f"NOT EXACT: worst relative residual {worst}, tolerance {tolerance}."))
    there = f"relative residual there {answer.worst_held_out:.1e} on average, {_largest(answer):.1e} at most"
    if math.isnan(answer.worst_held_out):
        found.append((None, "Between the points nothing could be measured."))
    elif answer.resolved:
        found.append((True, f"Resolved between the points: {there}."))
    else:
        advice = "" if answer.measured is not None else "; use more points"
        found.append((False, f"NOT RESOLVED between the points: {there}{advice}."))
    if answer.errors:
        errors = ", ".join(f"{name} {value:.1e}" for name, value in answer.errors.items())
        found.append((None, f"Relative error against the exact solution: {errors}."))
    if math.isfinite(answer.estimate):
        found.append((None, f"Estimate of the relative error ({answer.source}): {answer.estimate:.1e}."))
    if answer.recovered is not None:
        found += [(None, f"{name} = {answer.recovered.described(name)}.") for name in answer.recovered.values]
        found += [(None, f"{line[:1].upper()}{line[1:]}.") for line in answer.recovered.fitted()]
    return found


def _largest(answer: Answer) -> float:
    """The largest residual between the points of any equation; not less than a mean that is all that is known."""
    known = [value for value in answer.largest.values() if not math.isnan(value)]
    return max([answer.worst_held_out, *known])


def answer_table(answer: Answer) -> str:
    """What `cnf solve` prints: a line per equation, the system, the errors, the tuning, the time."""
    header = ["equation", "where", "points", "worst |Lf - g|", "relative", "between the points: mean", "max"]
    rows = [
        [
            f"{shorten(row.name)} (fitted)" if row.fitted else shorten(row.name),
            shorten(row.where, 24),
            str(row.points),
            *map(show_number, row.residuals),
        ]
        for row in (*list_equations(answer), *list_fitted(answer))
    ]
    facts = list_facts(answer)
    width = max(map(len, facts)) + 2
    return "\n".join([Table(header, rows, left=2).text(), "", *(f"{k:<{max(width, 12)}}{v}" for k, v in facts.items())])


def list_facts(answer: Answer) -> dict[str, str]:
    """What there is to say about the whole: label -> text."""
    certificate = answer.certificate
    known = not math.isnan(certificate.condition)
    condition = f"condition number {certificate.condition:.1e}, " if known else ""
    several = f" x {certificate.channels} channels" if certificate.channels > 1 else ""
    facts = {
        "system": f"rank {certificate.rank} of {certificate.conditions} conditions, {condition}"
        f"{certificate.functions} functions{several}"
    }
    facts |= unknown_facts(answer)
    if answer.errors:
        facts["error"] = ", ".join(f"{name} {value:.1e}" for name, value in answer.errors.items()) + " (relative L2)"
    facts |= newton_facts(answer)
    estimate = f"{answer.estimate:.1e}" if math.isfinite(answer.estimate) else "none"
    facts["estimate"] = f"{estimate} (of the relative error: {answer.source})"
    trials = answer.tuning.trials
    settings = ", ".join(f"{k} {show_setting(v)}" for k, v in answer.tuning.best.settings.items()) if trials else "-"
    stopped = ", interrupted" if answer.tuning.interrupted else ""
    facts["settings"] = f"{settings} ({answer.tuning.objective}: {answer.attempts}{stopped})"
    facts["time"] = f"{answer.seconds:.1f} s"
    return facts


def unknown_facts(answer: Answer) -> dict[str, str]:
    """The numbers that were looked for: label -> text."""
    found = answer.recovered
    return {} if found is None else {f"unknown {name}": found.described(name) for name in found.values}


def show_number(value: float) -> str:
    """A residual as text; a dash where nothing was measured."""
    return "-" if math.isnan(value) else f"{value:.1e}"


def show_setting(value: object) -> str:
    """A setting as short text: numbers with four digits."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return "(" + ", ".join(show_setting(v) for v in value) + ")"
    return str(value)


def shorten(text: str, width: int = WIDEST) -> str:
    """One line of at most `width` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"
