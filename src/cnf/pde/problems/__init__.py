"""Problems: equations in LaTeX on a domain, from Python or a file; constraints, checks and answers come out."""

from typing import TYPE_CHECKING

from cnf.late import from_modules, late_names

if TYPE_CHECKING:
    from cnf.pde.problems.answer import Answer, Grid
    from cnf.pde.problems.check import Check
    from cnf.pde.problems.problem import Problem

__getattr__, __dir__ = late_names(
    __name__,
    from_modules(
        {
            "cnf.pde.problems.answer": "Answer Grid",
            "cnf.pde.problems.check": "Check",
            "cnf.pde.problems.problem": "Problem",
        }
    ),
)

__all__ = ["Answer", "Check", "Grid", "Problem"]
