"""Losses, under their public name."""

from cnf.training.held_out import HeldOutResidual, LeaveOneOut
from cnf.training.losses import Condition, Eikonal, Independence, Loss, Regression, Smoothness, TotalVariation

__all__ = [
    "Condition",
    "Eikonal",
    "HeldOutResidual",
    "Independence",
    "LeaveOneOut",
    "Loss",
    "Regression",
    "Smoothness",
    "TotalVariation",
]
