"""Differential equations: problems on domains, from Python or a file; answers with their errors, reports, commands."""

from cnf.pde import domains, tuning
from cnf.pde.problems import Answer, Check, Grid, Problem

__all__ = ["Answer", "Check", "Grid", "Problem", "domains", "tuning"]
