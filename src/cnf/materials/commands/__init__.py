"""`cnf material`: measured materials, from the command line."""

from __future__ import annotations

import typer

from cnf.materials.commands.single import material


def add_to(app: typer.Typer) -> None:
    """Put the commands of this slice into `app`."""
    app.add_typer(material, name="material")
