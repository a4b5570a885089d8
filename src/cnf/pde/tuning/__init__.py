"""Tuning: settings of a basis chosen by an objective; a plan comes in, trials and the best field go out."""

from cnf.tuning.bandwidth import ScanStep, tune_bandwidth
from cnf.tuning.objectives import OBJECTIVES, HeldOutEquations, make_objective
from cnf.tuning.trial import Settings, Trial, Tuning
from cnf.tuning.tuner import Plan, tune

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
