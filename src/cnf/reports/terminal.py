"""Terminal: what all commands share; how they speak, and where they may write."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

Seed = Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Decides every random choice.")]


def open_console() -> Console:
    return Console(highlight=False, soft_wrap=True)


def say(text: str = "") -> None:
    """Print a text as it is."""
    open_console().print(text, markup=False)


def split_words(given: list[str] | None) -> list[str]:
    """["a,b", "c"] -> ["a", "b", "c"], each once."""
    parts = [word.strip() for text in given or [] for word in text.split(",")]
    return list(dict.fromkeys(word for word in parts if word))
