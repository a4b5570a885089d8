"""A study for tests: it squares numbers, fails at 13, is interrupted at 14, dies at 9, and sleeps at 60."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer

from cnf.cli.main import run_app
from cnf.errors import CnfError
from studies.command import as_command
from studies.options import Names, read_numbers
from studies.study import Case, Desk, Row, Study
from studies.tables import Table


@dataclass(frozen=True)
class Counting(Study):
    """Squares of numbers.

    And nothing else.
    """

    name = "counting"
    key = ("number",)
    columns = ("square", "third")
    curve = ("step", "value")

    numbers: Names = None
    power: int = 2
    timeout: float | None = None

    def settings(self) -> dict[str, Any]:
        return {"power": self.power, "shape": (1, 2)}

    def cases(self) -> list[Case]:
        return [{"number": n, "source": ""} for n in read_numbers(self.numbers, int, "--numbers", "1,2") or [1, 2, 3]]

    def run(self, case: Case, desk: Desk) -> Row:
        number = case["number"]
        desk.folder.mkdir(parents=True, exist_ok=True)
        with (desk.folder / "starts.txt").open("a") as file:
            file.write(f"{number} {os.getpid()}\n")
        if number == 13:
            raise CnfError("thirteen is not counted\nask for others")
        if number == 14:
            raise KeyboardInterrupt
        if number == 9:
            os.kill(os.getpid(), signal.SIGKILL)
        if number == 60:
            time.sleep(60)
        desk.tell("counted")
        desk.keep(values=np.full(number, 1 / 3))
        curve = {"step": [0, 1], "value": [0.0, number / 7]}
        return {"square": number**self.power, "third": number / 3, "curve": curve}

    def describe(self, row: Row) -> str:
        return f"square {row['square']}"

    def tables(self, rows: Sequence[Row]) -> list[Table]:
        return [Table.of(rows, {"number": ("number", "d"), "square": ("square", "d"), "third": ("third", ".1e")})]

    def notes(self, rows: Sequence[Row]) -> str:
        return "A note."

    def plots(self, rows: Sequence[Row], folder: Path) -> list[Path]:
        path = folder / "counting.png"
        path.write_text(f"{len(rows)}")
        return [path]


def run(arguments: list[str]) -> int:
    """The study as a command."""

    def gather() -> typer.Typer:
        app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        app.command()(as_command(Counting))
        return app

    return run_app("counting", gather, arguments)


if __name__ == "__main__":
    from tests.studies.counting import run as run_importable  # workers cannot import a study from `__main__`

    sys.exit(run_importable(sys.argv[1:]))
