"""The report of an answer: one HTML file with everything in it, no scripts, nothing from the network.

All text of the user is escaped; formulas are MathML (see `mathml`); pictures are embedded.
"""

from __future__ import annotations

import base64
import math
import platform
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from cnf.files import write_text
from cnf.operators.printing import latex_name
from cnf.pde.report.asked import list_asked
from cnf.pde.report.course import continuation_table, course_table, newton_facts
from cnf.pde.report.field_caption import field_caption
from cnf.pde.report.table import (
    judge_answer,
    list_equations,
    list_facts,
    list_fitted,
    show_number,
    show_setting,
    unknown_facts,
)
from cnf.reports.mathml import is_available, typeset
from cnf.reports.page_style import STYLE
from cnf.reports.tables import Table, show_cell

if TYPE_CHECKING:
    from cnf.pde.problems.answer import Answer
    from cnf.reports.results import Run

CAPTIONS = {
    "animation.gif": "The solution over time.",
    "newton.png": "What the conditions missed before the first and after every step, relative to their terms.",
    "course.png": "The error as time goes on, relative to the size of the field over all of time.",
    "tuning.png": "What every trial of the tuning achieved.",
}
SHOWN_WINDOWS = 16  # more are folded
TYPES = {".png": "image/png", ".gif": "image/gif"}


def write_report(answer: Answer, path: object, pictures: Sequence[Path] = (), run: Run | None = None) -> Path:
    """Write the report with the given pictures in it, and with the run that makes it."""
    return write_text(path, report_markup(answer, pictures, run))


def report_markup(answer: Answer, pictures: Sequence[Path] = (), run: Run | None = None) -> str:
    """The whole page, well formed as XML too."""
    problem = answer.problem
    title = problem.title or "Solved problem"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="lead">{escape(problem.description)}</p>' if problem.description else "",
        _verdict(answer),
        "".join(embed_picture(p, field_caption(answer)) for p in pictures if p.name == "field.png"),
        _problem(answer),
        _equations(answer),
        "".join(embed_picture(p) for p in pictures if p.name == "animation.gif"),
        _unknowns(answer),
        _facts(answer),
        _newton(answer),
        "".join(embed_picture(p) for p in pictures if p.name == "newton.png"),
        _continuation(answer),
        _course(answer),
        "".join(embed_picture(p) for p in pictures if p.name == "course.png"),
        _trials(answer),
        "".join(embed_picture(p) for p in pictures if p.name == "tuning.png"),
        f"<h2>Certificate</h2><pre class='wrapped'>{escape(str(answer.certificate))}</pre>",
        _use(answer),
        _versions(answer, run),
    ]
    return wrap_page(title, "\n".join(part for part in parts if part))


def wrap_page(title: str, body: str) -> str:
    """A page in the house style around its body."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>\n'
        '<meta name="color-scheme" content="light dark"/>\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _verdict(answer: Answer) -> str:
    classes = {True: "good", False: "bad", None: "plain"}
    items = "".join(f'<li class="{classes[good]}">{escape(text)}</li>' for good, text in judge_answer(answer))
    advice = answer.certificate.advice()
    extra = f'<p class="note">{escape(advice[:1].upper() + advice[1:])}.</p>' if advice else ""
    return f'<ul class="verdict">{items}</ul>{extra}'


def _problem(answer: Answer) -> str:
    space, domain = answer.problem.space, answer.problem.domain
    ranges = "".join(
        f"<li>{typeset(latex_name(name))} from {low:g} to {high:g}</li>"
        for name, low, high in zip(space.coordinates, domain.lower, domain.upper, strict=True)
    )
    channels = ", ".join(typeset(latex_name(name)) for name in space.channels)
    kind = escape(answer.problem.domain_text)
    note = "" if is_available() else '<p class="note">Formulas are shown as LaTeX: latex2mathml is not installed.</p>'
    where = f"<dt>Domain</dt><dd>{kind}<ul>{ranges}</ul></dd>"
    asked = "".join(f"<dt>{label}</dt><dd>{lines}</dd>" for label, lines in list_asked(answer.problem).items())
    return f"<h2>Problem</h2><dl><dt>Field</dt><dd>{channels}</dd>{where}{asked}</dl>{note}"


def _equations(answer: Answer) -> str:
    lines = []
    for row in (*list_equations(answer), *list_fitted(answer)):
        mark = " <span class='mark'>fitted</span>" if row.fitted else ""
        read = typeset(row.read)
        cells = [
            f"<th scope='row'>{escape(row.name)}{mark}</th>",
            f"<td class='formula'>{typeset(row.latex)}<details><summary>as read</summary>{read}</details></td>",
            f"<td>{escape(row.where)}</td>",
            f"<td class='number'>{row.points}</td>",
            *(f"<td class='number'>{show_number(v)}</td>" for v in row.residuals),
        ]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return (
        "<h2>Equations</h2><div class='wide'><table><thead><tr><th>name</th><th>equation</th><th>where</th>"
        "<th class='number'>points</th><th class='number'>worst residual</th><th class='number'>relative</th>"
        "<th class='number'>relative, between the points: mean</th><th class='number'>max</th></tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def embed_picture(path: Path, words: str = "") -> str:
    """An embedded picture with its caption: the words, or those that every picture of its name has."""
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    caption = escape(words or CAPTIONS.get(path.name, path.name))
    return (
        f'<figure><img src="data:{TYPES[path.suffix]};base64,{data}" alt="{caption}"/>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _unknowns(answer: Answer) -> str:
    """The numbers that were looked for, by their own names."""
    if answer.recovered is None:
        return ""
    names = answer.recovered.values
    items = "".join(f"<dt>{typeset(latex_name(n))}</dt><dd>{escape(answer.recovered.described(n))}</dd>" for n in names)
    return f"<h2>Unknowns</h2><dl>{items}</dl>"


def _facts(answer: Answer) -> str:
    elsewhere = {**newton_facts(answer), **unknown_facts(answer)}  # these have their sections
    facts = {k: v for k, v in list_facts(answer).items() if k not in elsewhere}
    items = "".join(f"<dt>{escape(k[:1].upper() + k[1:])}</dt><dd>{escape(v)}</dd>" for k, v in facts.items())
    return f"<h2>Solution</h2><dl>{items}</dl>"


def _newton(answer: Answer) -> str:
    """What Newton's iteration did."""
    found = answer.convergence
    if found is None:
        return ""
    facts = {
        "began at": found.start,
        "steps": f"{found.steps}" + (f", {found.shortened} of them cut short" if found.shortened else ""),
        "last change": show_number(found.changes[-1]) if found.changes else "-",
        **({} if math.isnan(found.contraction) else {"contraction": f"{found.contraction:.0e}"}),
        "verdict": answer.certificate.newton[1] + (f": {found.stopped}" if found.stopped else ""),
    }
    items = "".join(f"<dt>{escape(k[:1].upper() + k[1:])}</dt><dd>{escape(v)}</dd>" for k, v in facts.items())
    return f"<h2>Newton’s iteration</h2><dl>{items}</dl>"


def _continuation(answer: Answer) -> str:
    """The values of parameters that were passed through."""
    return f"<h2>Continuation</h2>{plain_table(continuation_table(answer))}" if answer.passed else ""


def _course(answer: Answer) -> str:
    """Windows of time and what of the estimate each of them brings; many are folded."""
    course = answer.course
    if course is None:
        return ""
    text = course.describe()
    table, count = plain_table(course_table(answer)), len(course.windows)
    folded = f"<details><summary>{count} windows</summary>{table}</details>" if count > SHOWN_WINDOWS else table
    return f"<h2>Over time</h2><p>{escape(text[:1].upper() + text[1:])}.</p>{folded}"


def plain_table(table: Table) -> str:
    """A table as markup, numbers flush right."""

    def cells(row: Sequence[object], tag: str) -> str:
        kinds = ("" if words else " class='number'" for words in table.flush)
        return "".join(f"<{tag}{kind}>{escape(show_cell(cell))}</{tag}>" for cell, kind in zip(row, kinds, strict=True))

    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in table.rows)
    head = f"<thead><tr>{cells(table.header, 'th')}</tr></thead>"
    return f"<div class='wide'><table>{head}<tbody>{body}</tbody></table></div>"


def _trials(answer: Answer) -> str:
    trials = answer.tuning.trials
    if len(trials) < 2:
        return ""
    names = list(dict.fromkeys(name for t in trials for name in t.settings))
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    lines = []
    for k, trial in enumerate(trials):
        best = trial is answer.tuning.best or trial == answer.tuning.best
        cells = "".join(f"<td>{escape(show_setting(trial.settings.get(name, '-')))}</td>" for name in names)
        loss = f"{trial.loss:.2f}" if math.isfinite(trial.loss) else "unsolvable"
        lines.append(
            f"<tr class='{'best' if best else 'other'}'><td class='number'>{k + 1}</td>{cells}"
            f"<td class='number'>{trial.conditions}</td>"
            f"<td class='number'>{loss}</td>"
            f"<td class='number'>{show_number(trial.residual)}</td><td class='number'>{trial.seconds:.2f}</td>"
            f"<td>{'chosen' if best else ''}</td></tr>"
        )
    return (
        f"<h2>Tuning</h2><p>Objective: {escape(answer.tuning.objective)}; smaller is better.</p>"
        f"<details><summary>{len(trials)} trials</summary><div class='wide'><table><thead><tr><th>trial</th>{head}"
        "<th class='number'>conditions</th><th class='number'>objective (log10)</th>"
        "<th class='number'>relative held-out residual</th>"
        f"<th class='number'>seconds</th><th></th></tr></thead><tbody>{''.join(lines)}</tbody></table></div></details>"
    )


def _use(answer: Answer) -> str:
    space = answer.problem.space
    point = ", ".join(
        f"{(a + b) / 2:g}" for a, b in zip(answer.problem.domain.lower, answer.problem.domain.upper, strict=True)
    )
    first, channel = space.coordinates[0], space.channels[0]
    lines = [
        "import cnf, torch",
        "",
        'field = cnf.load("solution.pt")',
        f"x = torch.tensor([[{point}]], dtype=torch.float64)  # columns {', '.join(space.coordinates)}",
        f"print(field(x))  # {', '.join(answer.field.basis.space.channels)}",
        f'print(field.solution.apply(r"\\partial_{latex_name(first)} {latex_name(channel)}", x))',
    ]
    return f"<h2>Going on with the solution</h2><pre>{escape(chr(10).join(lines))}</pre>"


def _versions(answer: Answer, run: Run | None) -> str:
    from cnf import __version__

    texts = [
        f"cnf {__version__}",
        f"torch {torch.__version__}",
        f"Python {platform.python_version()}",
        f"seed {answer.problem.seed}",
        f"{answer.seconds:.1f} s",
        *([f"run {run.identifier}", run.command] if run is not None else []),
    ]
    return f"<footer>{escape(' · '.join(texts))}</footer>"
