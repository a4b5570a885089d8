"""The page of a sweep: one HTML file with everything in it, no scripts, nothing from the network."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import torch

from cnf.operators.printing import latex_name
from cnf.pde.report.asked import list_asked
from cnf.pde.report.page import embed_picture, plain_table, wrap_page
from cnf.pde.sweeps.sweep import Sweep, name_case
from cnf.pde.sweeps.table import list_faults, short_table, tell_end, word_for
from cnf.reports.mathml import typeset
from cnf.reports.results import Run

SHOWN = 40  # rows of the table; of more, all are folded
CAPTIONS = {
    "animation.gif": "The solution as the values go on; one scale for all of it.",
    "numbers.png": "Estimate of the relative error, with the target dashed, and what the solution takes, over the "
    "values; a cross where no field meets the conditions.",
}


def page_markup(sweep: Sweep, pictures: Sequence[Path], run: Run) -> str:
    """The whole page, well formed as XML too."""
    problem = sweep.problem
    shown = {path.name: path for path in pictures}
    parts = [
        f"<h1>{escape(problem.title)}: {escape(', '.join(axis.key for axis in sweep.axes))}</h1>",
        f'<p class="lead">{escape(problem.description)}</p>' if problem.description else "",
        _verdict(sweep),
        embed_picture(shown["strip.png"], _strip_caption(sweep)) if "strip.png" in shown else "",
        *(embed_picture(shown[name], CAPTIONS[name]) for name in ("animation.gif", "numbers.png") if name in shown),
        _asked(sweep),
        _table(sweep),
        _use(sweep),
        _footer(sweep, run),
    ]
    return wrap_page(problem.title, "\n".join(part for part in parts if part))


def _verdict(sweep: Sweep) -> str:
    good = sum(row.good for row in sweep.rows)
    items = [("good" if good == len(sweep.rows) else "bad", f"{tell_end(sweep)}.")]
    items += [("bad", fault) for fault in list_faults(sweep.rows)[:8]]
    more = len(sweep.rows) - good - 8
    items += [("plain", f"{more} more are in the table.")] if more > 0 else []
    residuals = [row.found["worst_relative_residual"] for row in sweep.rows if row.found is not None and row.holds]
    known = [value for value in residuals if value is not None]
    items += [("plain", f"Worst relative residual where the conditions hold: {max(known):.1e}.")] if known else []
    return f'<ul class="verdict">{"".join(f"<li class={chr(34)}{k}{chr(34)}>{escape(t)}</li>" for k, t in items)}</ul>'


def _strip_caption(sweep: Sweep) -> str:
    first = sweep.problem.space.coordinates[0]
    if len(sweep.problem.space.coordinates) == 1:
        return f"The solutions over {first}, one curve for every case."
    return "Some of the solutions, on one scale."


def _asked(sweep: Sweep) -> str:
    problem = sweep.problem
    lines = [
        f"<li>{typeset(latex_name(axis.key)) if '.' not in axis.key else f'<code>{escape(axis.key)}</code>'}: "
        f"{len(axis.values)} values from {min(axis.values):.6g} to {max(axis.values):.6g}</li>"
        for axis in sweep.axes
    ]
    equations = "".join(f"<div>{typeset(equation.latex)}</div>" for equation in problem.equations)
    asked = "".join(f"<dt>{label}</dt><dd>{markup}</dd>" for label, markup in list_asked(problem).items())
    return (
        f"<h2>Problem</h2><dl><dt>Swept</dt><dd><ul>{''.join(lines)}</ul></dd><dt>File</dt>"
        f"<dd><code>{escape(sweep.asked.source.name)}</code>, as follows but for what is swept</dd>"
        f"<dt>Domain</dt><dd>{escape(problem.domain_text)}</dd><dt>Equations</dt><dd>{equations}</dd>{asked}</dl>"
    )


def _table(sweep: Sweep) -> str:
    table = plain_table(short_table(sweep))
    count = len(sweep.rows)
    return "<h2>Cases</h2>" + (
        f"<details><summary>{count} cases</summary>{table}</details>" if count > SHOWN else table
    )


def _use(sweep: Sweep) -> str:
    done = next((row for row in sweep.rows if row.found is not None), None)
    if done is None:
        return ""
    place = done.folder.relative_to(sweep.folder).as_posix()
    lines = ["import cnf", "", f'field = cnf.load("{place}/solution.pt")  # {name_case(done.values)}']
    return f"<h2>Going on with a solution</h2><pre>{escape(chr(10).join(lines))}</pre>"


def _footer(sweep: Sweep, run: Run) -> str:
    from cnf import __version__

    def total(name: str) -> float:
        found: list[Any] = [row.found[name] for row in sweep.rows if row.found is not None]
        return sum(found)

    texts = [
        f"cnf {__version__}",
        f"torch {torch.__version__}",
        f"Python {platform.python_version()}",
        f"{total('processor_seconds'):.0f} s of processors",
        f"{sum(word_for(row) == 'good' for row in sweep.rows)} of {len(sweep.rows)}",
        f"run {run.identifier}",
        run.command,
    ]
    return f"<footer>{escape(' · '.join(texts))}</footer>"
