"""cnf: neural fields that obey hard constraints of any differential order."""

from importlib.metadata import PackageNotFoundError, version

from cnf import bases, constraints, domains, encoders, errors, kernels, losses, moved, operators, solvers, tuning
from cnf.certificate import Certificate
from cnf.constraints import Constraint, Space
from cnf.domains import Box
from cnf.field import ConstrainedField
from cnf.loading import load
from cnf.pde import Answer, Problem
from cnf.solution import Solution
from cnf.training import History, fit, pretrain

try:
    __version__ = version("constrained-neural-fields")
except PackageNotFoundError:  # run from a source tree that was not installed
    __version__ = "0+unknown"

moved.install()

__all__ = [
    "Answer",
    "Box",
    "Certificate",
    "ConstrainedField",
    "Constraint",
    "History",
    "Problem",
    "Solution",
    "Space",
    "bases",
    "constraints",
    "domains",
    "encoders",
    "errors",
    "fit",
    "kernels",
    "load",
    "losses",
    "operators",
    "pretrain",
    "solvers",
    "tuning",
]
