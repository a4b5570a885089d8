"""Templates: commented problem files that `cnf new` writes."""

from __future__ import annotations

from importlib import resources

TEMPLATES = {
    "poisson": "Poisson equation on a square with a hole: Dirichlet, Neumann and Robin conditions",
    "ode": "an ordinary differential equation on an interval",
    "heat": "heat equation in one dimension and time",
    "wave": "wave equation, displacement and velocity given at the start",
    "stokes": "Stokes flow: velocity and pressure, zero-mean pressure by an integral",
    "ignition": "a nonlinear equation with a coefficient to sweep: cnf solve --sweep",
    "sensors": "a field that obeys an equation and passes through measurements from a file",
}


DATA = {"sensors": "sensors.csv"}  # files that a template reads


def read_template(name: str) -> str:
    """The text of a template."""
    return read_file(f"{name}.toml")


def read_file(name: str) -> str:
    """The text of any file here."""
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")
