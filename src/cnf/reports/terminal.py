"""Terminal: what all commands share; how they speak, and where their work is done."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

Seed = Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Decides every random choice.")]
Workers = Annotated[int, typer.Option(min=1, max=256, help="Processes that do what can be done apart.")]
Scheduler = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Of a Dask cluster that does it, such as tcp://host:8786.")
]


def open_console() -> Console:
    return Console(highlight=False, soft_wrap=True)


def say(text: str = "") -> None:
    """Print a text as it is."""
    open_console().print(text, markup=False)


def split_words(given: list[str] | None) -> list[str]:
    """["a,b", "c"] -> ["a", "b", "c"], each once."""
    parts = [word.strip() for text in given or [] for word in text.split(",")]
    return list(dict.fromkeys(word for word in parts if word))


def choose_workers(workers: int, scheduler: str | None) -> int | str:
    """What `cnf.execution.open_executor` takes, from the two options above."""
    return workers if scheduler is None else scheduler
