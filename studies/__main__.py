"""`python -m studies NAME`: runs a study of the paper; without a name it lists them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cnf.cli.main import run_app

if TYPE_CHECKING:
    from typer import Typer


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    sys.exit(run(sys.argv[1:] if arguments is None else list(arguments)))


def run(arguments: list[str]) -> int:
    """Run the command line; returns the exit code."""
    return run_app("python -m studies", gather, arguments)


def gather() -> Typer:
    """Every study as a command; a function, for typer is an extra."""
    import typer

    from studies.advection.commands import advection
    from studies.conditioning.commands import conditioning
    from studies.materials.commands import materials
    from studies.normals.commands import normals
    from studies.shapes.commands import scaling, shapes
    from studies.transfer.commands import transfer

    app = typer.Typer(
        help="Rerun the paper's studies.", add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
    )
    for study in (conditioning, transfer, advection, normals, shapes, scaling, materials):
        app.command()(study)
    return app


if __name__ == "__main__":
    main()
