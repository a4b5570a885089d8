"""Terminal: what all commands share; how they speak, and where they may write."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cnf.errors import CnfError
from cnf.files import check_writable

Seed = Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Decides every random choice.")]


def open_console() -> Console:
    return Console(highlight=False, soft_wrap=True)


def say(text: str = "") -> None:
    """Print a text as it is."""
    open_console().print(text, markup=False)


def check_folder(out: Path) -> Path:
    """The folder, if files can be written there; asked before the work, not after."""
    if not out.name:
        raise CnfError("--out is empty; give the name of a folder")
    try:
        is_file = out.exists() and not out.is_dir()
    except OSError as error:
        raise CnfError(f"--out cannot be used: {error.strerror or error}") from None
    if is_file:
        raise CnfError(f"--out {out} is a file; give a folder")
    check_writable(out / "report.txt")
    return out


def split_words(given: list[str] | None) -> list[str]:
    """["a,b", "c"] -> ["a", "b", "c"], each once."""
    parts = [word.strip() for text in given or [] for word in text.split(",")]
    return list(dict.fromkeys(word for word in parts if word))
