"""The `cnf` command: what every slice can do, gathered."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cnf.demo import commands as demo
from cnf.exporting import commands as exporting
from cnf.materials import commands as materials
from cnf.pde import commands as pde
from cnf.reports.terminal import say
from cnf.shapes import commands as shapes

app = typer.Typer(
    name="cnf",
    help="Neural fields that meet linear differential conditions exactly.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for part in (pde, shapes, materials, exporting, demo):
    part.add_to(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        import cnf

        say(f"cnf {cnf.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Neural fields that meet linear differential conditions exactly."""


@app.command()
def version() -> None:
    """Print the version."""
    _print_version(True)


@app.command(
    hidden=True, add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
def study() -> None:
    """Where the studies are now."""
    print("error: the studies are not part of the package; in a checkout: python -m studies NAME", file=sys.stderr)
    raise typer.Exit(2)
