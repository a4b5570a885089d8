"""Losses, under their public name."""

from cnf.training.held_out import HeldOutResidual, LeaveOneOut
from cnf.training.losses import Condition, Eikonal, Loss, Regression, Smoothness, TotalVariation

__all__ = [
    "Condition",
    "Eikonal",
    "HeldOutResidual",
    "LeaveOneOut",
    "Loss",
    "Regression",
    "Smoothness",
    "TotalVariation",
]
