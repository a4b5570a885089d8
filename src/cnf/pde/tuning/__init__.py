"""Tuning: settings of a basis chosen by an objective; a plan comes in, trials and the best field go out."""

from cnf.pde.tuning.objectives import OBJECTIVES, HeldOutEquations, make_objective
from cnf.pde.tuning.trial import Settings, Trial, Tuning
from cnf.pde.tuning.tuner import Plan, tune
from cnf.training.bandwidth import ScanStep, tune_bandwidth

__all__ = [
    "OBJECTIVES",
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
