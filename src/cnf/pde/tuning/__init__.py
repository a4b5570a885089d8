"""Tuning: settings of a basis chosen by an objective; a plan comes in, trials and the best field go out."""

from typing import TYPE_CHECKING

from cnf.late import from_modules, late_names

if TYPE_CHECKING:
    from cnf.pde.tuning.choices import OBJECTIVES
    from cnf.pde.tuning.objectives import HeldOutEquations, make_objective
    from cnf.pde.tuning.search import Guiding, Plan
    from cnf.pde.tuning.trial import Settings, Trial, Tuning
    from cnf.pde.tuning.tuner import tune
    from cnf.training.bandwidth import ScanStep, tune_bandwidth

__getattr__, __dir__ = late_names(
    __name__,
    from_modules(
        {
            "cnf.pde.tuning.choices": "OBJECTIVES",
            "cnf.pde.tuning.objectives": "HeldOutEquations make_objective",
            "cnf.pde.tuning.search": "Guiding Plan",
            "cnf.pde.tuning.trial": "Settings Trial Tuning",
            "cnf.pde.tuning.tuner": "tune",
            "cnf.training.bandwidth": "ScanStep tune_bandwidth",
        }
    ),
)

__all__ = [
    "OBJECTIVES",
    "Guiding",
    "HeldOutEquations",
    "Plan",
    "ScanStep",
    "Settings",
    "Trial",
    "Tuning",
    "make_objective",
    "tune",
    "tune_bandwidth",
]
