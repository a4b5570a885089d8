"""A study as a command: its fields are options, beside those that all studies have."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from studies.options import check_folder
from studies.running import conduct
from studies.study import Study

Workers = Annotated[
    int, typer.Option("--workers", "--processes", min=1, max=256, help="Cases at the same time, one process each.")
]
Restart = Annotated[bool, typer.Option("--restart", help="Remove results of earlier runs first.")]
Pictures = Annotated[bool, typer.Option("--pictures/--no-pictures", help="Draw pictures.")]
Out = Annotated[Path, typer.Option("--out", help="Folder for finished cases, tables and pictures.")]


def as_command(study: type[Study]) -> Callable[..., None]:
    """A function for typer whose options are those of the study and those that all have."""
    place = Path(f"results/studies/{study.name}")
    hints = {**get_type_hints(study, include_extras=True), "workers": Workers}
    hints |= {"restart": Restart, "pictures": Pictures, "out": Out}
    given = {option.name: option.default for option in fields(study)}  # type: ignore[arg-type]
    given |= {"workers": study.workers, "restart": False, "pictures": True, "out": place}

    def command(workers: int, restart: bool, pictures: bool, out: Path, **options: Any) -> None:
        conduct(study(**options), check_folder(out), workers, restart, pictures)

    def describe(name: str) -> inspect.Parameter:
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=given[name], annotation=hints[name])

    command.__doc__ = f"{study.__doc__}\n\nFinished cases are kept: after Ctrl-C, the same command goes on."
    command.__annotations__ = {name: hints[name] for name in given}
    command.__signature__ = inspect.Signature([describe(name) for name in given])  # type: ignore[attr-defined]
    return command
