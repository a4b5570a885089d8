"""The table of a sweep: a line for every case, for the terminal, CSV and JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from cnf.pde.report.table import shorten
from cnf.pde.sweeps.sweep import Row, Sweep, name_case
from cnf.reports.results import Run
from cnf.reports.tables import Table

ROUNDING = 1e-12
WIDEST = 60  # characters of a case that is listed with what is wrong


def list_rows(sweep: Sweep) -> list[dict[str, Any]]:
    """Plain numbers of every case under the headings of the CSV file; None where there is none."""
    known = [row.found for row in sweep.rows if row.found is not None]
    channels = sweep.problem.space.channels
    errors = [c for c in channels if any(c in (found["errors"] or {}) for found in known)]
    unknowns = sorted({name for found in known for name in found["unknowns"] or {}})
    listed = []
    for row in sweep.rows:
        found = row.found or {}
        line: dict[str, Any] = dict(row.values)
        line["answer"] = word_for(row)
        line |= {"exact": found.get("exact"), "worst relative residual": found.get("worst_relative_residual")}
        line["estimate of error"] = found.get("estimate")
        line |= {f"error of {name}": (found.get("errors") or {}).get(name) for name in errors}
        line |= {f"found {name}": (found.get("unknowns") or {}).get(name) for name in unknowns}
        for channel in channels:
            low, high = (found.get("ranges") or {}).get(channel) or (None, None)
            line |= {f"smallest {channel}": low, f"largest {channel}": high}
        line |= {"conditions": found.get("conditions"), "seconds": found.get("seconds")}
        line |= {"processor seconds": found.get("processor_seconds"), "reason": row.reason or None}
        listed.append(line)
    return listed


def word_for(row: Row) -> str:
    """How a case ended, in a word."""
    if row.lost:
        return "lost"
    if row.found is None:
        return "failed"
    return "good" if row.good else "off target" if row.found["exact"] else "NOT EXACT"


def full_table(sweep: Sweep) -> Table:
    """All of it, with all digits."""
    rows = list_rows(sweep)
    return Table(list(rows[0]), [list(row.values()) for row in rows], left=("answer", "reason"))


def short_table(sweep: Sweep) -> Table:
    """What fits a terminal, rounded; the reasons are listed apart."""
    rows = list_rows(sweep)
    left_out = {"exact", "conditions", "processor seconds", "reason"}
    shorter = {"worst relative residual": "residual", "estimate of error": "estimate"}
    header = [name for name in rows[0] if name not in left_out]
    values = {axis.key for axis in sweep.axes}
    cells = [[_shown(name, row[name], name in values) for name in header] for row in map(_without_rounding, rows)]
    return Table([shorter.get(name, name) for name in header], cells, left=("answer",))


def _without_rounding(row: dict[str, Any]) -> dict[str, Any]:
    """Ends of a range that are zero but for rounding are zero: a wall at -3e-17 is a wall at 0."""
    sizes = {name.partition(" ")[2]: abs(row[name] or 0.0) for name in row if name.startswith("largest ")}
    ends = {name: row[name] for name in row if name.startswith(("smallest ", "largest ")) and row[name] is not None}
    tiny = {n for n, value in ends.items() if abs(value) < ROUNDING * sizes[n.partition(" ")[2]]}
    return {name: 0.0 if name in tiny else value for name, value in row.items()}


def _shown(name: str, value: object, given: bool) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if given or name.startswith("found "):
        return f"{value:.6g}"
    if name == "seconds":
        return f"{value:.1f}"
    return f"{value:.3g}" if name.startswith(("smallest", "largest")) else f"{value:.1e}"


def list_faults(rows: Sequence[Row]) -> list[str]:
    """A line for every case that has no good answer: which, and why, in the first sentence of the reason."""
    bad = [row for row in rows if not row.good]
    return [f"{shorten(name_case(row.values), WIDEST)}: {row.reason.partition('. ')[0]}" for row in bad]


def json_text(sweep: Sweep, run: Run) -> str:
    """The table as JSON, with what was swept and the run that wrote it."""
    content = {
        "run": asdict(run),
        "title": sweep.problem.title,
        "file": sweep.asked.source.name,
        "swept": {axis.key: list(axis.values) for axis in sweep.axes},
        "rows": [
            {**line, "folder": row.folder.relative_to(sweep.folder).as_posix() if row.found is not None else None}
            for line, row in zip(list_rows(sweep), sweep.rows, strict=True)
        ],
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def tell_end(sweep: Sweep) -> str:
    """How it all ended, in a line."""
    good = sum(row.good for row in sweep.rows)
    return f"{good} of {len(sweep.rows)} problems solved: every condition holds, and the target is reached"
