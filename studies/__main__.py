"""`python -m studies NAME`: runs a study; without a name it lists them."""

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

    from studies.command import as_command
    from studies.listing import list_studies
    from studies.materials.compare import compare
    from studies.paper.command import paper

    app = typer.Typer(
        help="Rerun the paper's studies.", add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
    )
    for study in list_studies():
        first = (study.__doc__ or "").partition("\n")[0]
        app.command(study.name, short_help=first)(as_command(study))
    app.command("compare-materials")(compare)
    app.command("paper", short_help="All of it in one go, and docs/reproduction.md.")(paper)
    return app


if __name__ == "__main__":
    main()
