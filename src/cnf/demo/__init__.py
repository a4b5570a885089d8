"""Worked problems, built on the public API only: a light path (Fermat's principle) and the advection equation."""

from cnf.demo.advection import Advection, solve_advection
from cnf.demo.light_path import LightPath, Medium, solve_light_path

__all__ = [
    "Advection",
    "LightPath",
    "Medium",
    "solve_advection",
    "solve_light_path",
]
