"""Options that several studies have, and how words from the command line become names and numbers."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from cnf.errors import CnfError, FileError, nearest
from cnf.files import check_writable
from cnf.reports.terminal import Seed, split_words

__all__ = ["Seed"]

Number = TypeVar("Number", int, float)
Names = list[str] | None  # words with commas between them
Steps = Annotated[int, typer.Option(min=1, help="Training steps.")]
Threads = Annotated[int, typer.Option(min=1, help="Of every case.")]
Timeout = Annotated[float, typer.Option(metavar="SECONDS", min=1, help="After which a case is stopped.")]
Perturbation = Annotated[float, typer.Option(metavar="NUMBER", help="Noise of the grid.")]
Side = Annotated[int, typer.Option(min=2, help="Points along a side of the grid (paper: 32).")]


def choose(given: Names, known: Collection[str], what: str, default: Collection[str] | None = None) -> list[str]:
    """The names that were given, each known; all there are, or the default, if there are none."""
    names = split_words(given)
    for name in names:
        if name not in known:
            raise CnfError(f"there is no {what} {name!r}; choose from {', '.join(known)}." + nearest(name, known))
    return names or list(known if default is None else default)


def read_numbers(given: Names, kind: Callable[[str], Number], option: str, such: str) -> list[Number]:
    """The numbers that were given."""
    found = []
    for word in split_words(given):
        try:
            found.append(kind(word.replace("_", "")))
        except ValueError:
            what = "whole numbers" if kind is int else "numbers"
            raise CnfError(f"{option} takes {what}, such as {such}; got {word!r}") from None
    return found


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


def check_deviation(value: float, what: str) -> None:
    """Refuse what is no standard deviation."""
    if not (math.isfinite(value) and value >= 0):
        raise CnfError(f"{what} a standard deviation, a finite number of at least 0; got {value:g}")


def find_data(data: Path | None, wanted: str, advice: str, otherwise: str = "") -> Path:
    """The folder of data, by default that of the environment variable CNF_DATA, if `wanted` is in it."""
    named = "--data" if data is not None else "CNF_DATA"
    given = data if data is not None else Path(os.environ["CNF_DATA"]) if os.environ.get("CNF_DATA") else None
    if given is None:
        raise FileError(f"cnf brings no data: set the environment variable CNF_DATA (or --data) to {advice}{otherwise}")
    if not (given / wanted).exists():
        raise FileError(f"there is no {given / wanted}; set {named} to {advice}")
    return given
