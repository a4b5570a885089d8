"""Differential equations: problems on domains, from Python or a file; answers with their errors, reports, commands."""

from typing import TYPE_CHECKING

from cnf.late import from_modules, late_names

if TYPE_CHECKING:
    from cnf.pde import domains, tuning
    from cnf.pde.problems import Answer, Check, Grid, Problem

__getattr__, __dir__ = late_names(__name__, from_modules({"cnf.pde.problems": "Answer Check Grid Problem"}))

__all__ = ["Answer", "Check", "Grid", "Problem", "domains", "tuning"]
