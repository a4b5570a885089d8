"""The caption of the picture of the field: which of error and residual is beside it, and which data are on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cnf.pde.report.measured import list_measured
from cnf.pde.report.planes import interior_constraints

if TYPE_CHECKING:
    from cnf.pde.problems.answer import Answer


def field_caption(answer: Answer) -> str:
    """What `field_plots.plot_field` draws of this answer, in a sentence or two."""
    channels, known = answer.problem.space.channels, answer.problem.exact or {}
    if known:
        of = "" if all(name in known for name in channels) else f" ({', '.join(n for n in channels if n in known)})"
        beside = f" and its error against the exact solution{of}"
    else:
        beside = " and the residual of the equations between the points" if interior_constraints(answer) else ""
    data = has_data(answer) and " Measured data, and what the field misses of them: field minus measurement."
    return f"The solution{beside}.{data or ''}"


def has_data(answer: Answer) -> bool:
    """Whether measured data are drawn: on curves and maps, not on planes through what has more coordinates."""
    return len(answer.problem.space.coordinates) <= 2 and bool(list_measured(answer))
