"""Tuning, under its public name."""

from cnf.pde.tuning import *  # noqa: F403
from cnf.pde.tuning import __all__ as __all__
