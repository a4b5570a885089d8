"""Worked problems, built on the public API only: a light path (Fermat's principle) and the advection equation."""

from typing import TYPE_CHECKING

from cnf.late import from_modules, late_names

if TYPE_CHECKING:
    from cnf.demo.advection import Advection, solve_advection
    from cnf.demo.light_path import LightPath, Medium, solve_light_path

__getattr__, __dir__ = late_names(
    __name__,
    from_modules(
        {
            "cnf.demo.advection": "Advection solve_advection",
            "cnf.demo.light_path": "LightPath Medium solve_light_path",
        }
    ),
)

__all__ = [
    "Advection",
    "LightPath",
    "Medium",
    "solve_advection",
    "solve_light_path",
]
