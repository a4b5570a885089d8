"""`cnf material`: measured materials, from the command line."""

from __future__ import annotations

import typer

from cnf.materials.commands import exchanging, showing  # their commands join those of `single`
from cnf.materials.commands.single import material

__all__ = ["add_to", "exchanging", "material", "showing"]


def add_to(app: typer.Typer) -> None:
    """Put the commands of this slice into `app`."""
    app.add_typer(material, name="material")
