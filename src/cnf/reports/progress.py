"""Progress: how a run shows that it goes on; a moving bar on a terminal, one line per finished part elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class Described(Protocol):
    """Something that was tried and can say in a few words how it went."""

    def describe(self) -> str: ...


class Part:
    """One part of a run: counts trials and says what the last one was."""

    def __init__(self, bar: Progress | None, task: int):
        self.bar, self.task = bar, task
        self.result = self.at = ""

    def tell(self, trial: Described) -> None:
        if self.bar is not None:
            self.bar.update(self.task, advance=1, detail=trial.describe())  # type: ignore[arg-type]

    def note(self, what: str) -> None:
        """What the trial or stage is at, in words."""
        self.at = what
        if self.bar is not None:
            self.bar.update(self.task, detail=what)  # type: ignore[arg-type]

    def step(self, what: str) -> None:
        """The next stage of a run, in words."""
        if self.bar is not None:
            self.bar.update(self.task, advance=1, detail=what)  # type: ignore[arg-type]


@contextmanager
def part(console: Console, name: str, total: int | None) -> Iterator[Part]:
    """Show a part while it runs; set `.result` to what its last line should say."""
    started = time.perf_counter()
    if console.is_terminal:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description:<16}"),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn("{task.fields[detail]}"),
        )
        with Progress(*columns, console=console, transient=True, refresh_per_second=8) as bar:
            shown = Part(bar, bar.add_task(name, total=total, detail=""))
            yield shown
    else:
        shown = Part(None, 0)
        yield shown
    console.print(
        f"  {name:<16} {time.perf_counter() - started:5.1f} s   {shown.result}", highlight=False, markup=False
    )
