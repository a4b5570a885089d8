"""Worked problems, built on the public API only: a light path (Fermat's principle) and the advection equation."""

from cnf.applications.advection import Advection, solve_advection
from cnf.applications.light_path import LightPath, Medium, solve_light_path
from cnf.applications.tuning import Trial, tune_bandwidth

__all__ = [
    "Advection",
    "LightPath",
    "Medium",
    "Trial",
    "solve_advection",
    "solve_light_path",
    "tune_bandwidth",
]
