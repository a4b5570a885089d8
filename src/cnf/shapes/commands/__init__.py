"""`cnf reconstruct` and `cnf shape`: surfaces and curves through points, from the command line."""

from __future__ import annotations

import typer

from cnf.shapes.commands.planar import shape
from cnf.shapes.commands.surfaces import reconstruct


def add_to(app: typer.Typer) -> None:
    """Put the commands of this slice into `app`."""
    app.command()(reconstruct)
    app.add_typer(shape, name="shape")
