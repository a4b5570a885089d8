"""Domains, under their public name."""

from cnf.pde.domains import *  # noqa: F403
from cnf.pde.domains import __all__ as __all__
