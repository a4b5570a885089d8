"""The text that `cnf check` prints: what was read, how many conditions there are, what may be missing."""

from __future__ import annotations

from cnf.pde.problems import Check
from cnf.reports.tables import Table


def check_text(check: Check) -> str:
    """A Check in lines."""
    rows = [[r.name, r.where, r.points, r.rows] for r in check.readings]
    elsewhere = (
        ", and as many on interfaces as patches place there" if any(r.points is None for r in check.readings) else ""
    )
    lines = [
        check.title,
        f"domain    {check.domain}",
        "",
        Table(["equation", "holds on", "points", "conditions"], rows, left=2).text(),
        f"{check.conditions} conditions in all{elsewhere}",
        "",
    ]
    if check.unknowns:
        begun = ", ".join(f"{name} (from {value:g} on)" for name, value in check.unknowns.items())
        by = [[r.name, r.where, r.points, r.rows] for r in check.fitted]
        lines += [f"looked for: {begun}", Table(["fitted", "at", "points", "measurements"], by, left=2).text(), ""]
    for reading in (*check.readings, *check.fitted):
        lines += [
            f"{reading.name}{' (nonlinear)' if reading.nonlinear else ''}",
            f"  written  {reading.written}",
            f"  read     {reading.read}",
        ]
    lines += ["", *(f"note: {note}" for note in check.notes)]
    if check.hints:
        lines += [f"hint: {hint}" for hint in check.hints]
    else:
        lines.append("as many conditions as the orders of the equations ask for")
    return "\n".join(lines)
