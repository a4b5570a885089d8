"""Problems: equations in LaTeX on a domain, from Python or a file; constraints, checks and answers come out."""

from cnf.pde.problems.answer import Answer, Grid
from cnf.pde.problems.check import Check
from cnf.pde.problems.problem import Problem

__all__ = ["Answer", "Check", "Grid", "Problem"]
