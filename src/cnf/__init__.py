"""cnf: neural fields that obey hard constraints of any differential order."""

from typing import TYPE_CHECKING

from cnf import errors, moved
from cnf.late import from_modules, late_names

if TYPE_CHECKING:
    from cnf import bases, constraints, domains, encoders, kernels, losses, operators, solvers, tuning
    from cnf.certificate import Certificate
    from cnf.constraints import Constraint, Space
    from cnf.domains import Box
    from cnf.field import ConstrainedField
    from cnf.loading import load
    from cnf.pde import Answer, Problem
    from cnf.pde.sweeps.sweep import sweep
    from cnf.shapes.reconstruction.reconstruct import reconstruct
    from cnf.solution import Solution
    from cnf.training import History, fit, pretrain
    from cnf.version import __version__ as __version__

moved.install()

__getattr__, __dir__ = late_names(
    __name__,
    from_modules(
        {
            "cnf.certificate": "Certificate",
            "cnf.constraints": "Constraint Space",
            "cnf.domains": "Box",
            "cnf.field": "ConstrainedField",
            "cnf.loading": "load",
            "cnf.pde": "Answer Problem",
            "cnf.pde.sweeps.sweep": "sweep",
            "cnf.shapes.reconstruction.reconstruct": "reconstruct",
            "cnf.solution": "Solution",
            "cnf.training": "History fit pretrain",
            "cnf.version": "__version__",
        }
    ),
)

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
    "reconstruct",
    "solvers",
    "sweep",
    "tuning",
]
