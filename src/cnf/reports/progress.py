"""Progress: how a run shows that it goes on; a moving bar on a terminal, one line per finished part elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


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


WIDTH = 80  # of a line about a case
NAMED = 30  # characters of its name


class Counted:
    """Cases that come one by one: how many are done, and how long the others may take."""

    def __init__(self, console: Console, total: int, bar: Progress | None):
        self.console, self.total, self.bar = console, total, bar
        self.done = self.repeated = 0
        self._task = None if bar is None else bar.add_task("", total=total, left="", detail="")
        self._started = time.perf_counter()

    def tell(self, name: str, words: str, repeated: bool = False) -> None:
        """A case is done; `repeated`: by an earlier run."""
        self.done += 1
        self.repeated += repeated
        short = name if len(name) <= NAMED else f"{name[: NAMED - 1]}…"
        if self.bar is not None and self._task is not None:
            self.bar.update(self._task, advance=1, left=self.left, detail=f"{short} {words}")
        elif not repeated:
            count = f"{self.done:>{len(str(self.total))}} of {self.total}"
            line = f"  {count}  {short:<{min(NAMED, 20)}}  {words}"
            left = f"{self.left:>14}"
            self.console.print(f"{line[: WIDTH - len(left)]:<{WIDTH - len(left)}}{left}", highlight=False, markup=False)

    @property
    def left(self) -> str:
        """The time left, if the others take as long as those of this run."""
        own = self.done - self.repeated
        if not own or self.done >= self.total:
            return ""
        seconds = (time.perf_counter() - self._started) / own * (self.total - self.done)
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes // 60}:{minutes % 60:02}:{rest:02} left" if minutes >= 60 else f"{minutes}:{rest:02} left"


@contextmanager
def counted(console: Console, total: int) -> Iterator[Counted]:
    """Show how many cases are done: a bar on a terminal, a line for each elsewhere."""
    if not console.is_terminal:
        yield Counted(console, total, None)
        return
    columns = (
        SpinnerColumn(),
        MofNCompleteColumn(separator=" of "),
        BarColumn(bar_width=18),
        TextColumn("{task.fields[left]:<12}"),
        TextColumn("{task.fields[detail]}"),
    )
    with Progress(*columns, console=console, transient=True, refresh_per_second=8) as bar:
        yield Counted(console, total, bar)
