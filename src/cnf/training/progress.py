"""Progress: what a run shows while it goes on: a bar on a terminal, a few lines elsewhere, or nothing."""

from __future__ import annotations

import math
import sys
import time
from typing import Any

QUIET = 2.0  # seconds before plain lines begin: short runs need none
LINES = 10


class Progress:
    """Shows nothing; the base of those that do."""

    def advance(self, step: int, loss: float, residual: float | None, condition: float) -> None:
        """Step `step` has been evaluated; a condition of NaN leaves the one shown before, a residual of
        None says that there are no conditions."""

    def say(self, text: str) -> None:
        """One line that the user should see."""

    def close(self) -> None:
        """The run is over."""


class PlainProgress(Progress):
    """At most about ten lines on stderr, none for a run of a second or two; or one every so many steps, if said."""

    def __init__(self, steps: int, done: int, every: int | None = None):
        self.steps, self.started, self.done = steps, time.perf_counter(), done
        self.quiet = QUIET if every is None else 0.0
        self.every = max(1, math.ceil((steps - done) / LINES)) if every is None else every

    def advance(self, step: int, loss: float, residual: float | None, condition: float) -> None:
        elapsed = time.perf_counter() - self.started
        made = step + 1 - self.done
        if elapsed < self.quiet or (made % self.every and step + 1 < self.steps):
            return
        left = elapsed / made * (self.steps - step - 1)
        known = "" if residual is None else f"  residual {residual:.1e}"
        known += "" if math.isnan(condition) else f"  condition {condition:.1e}"
        self.say(f"step {step + 1}/{self.steps}  loss {loss:.4e}{known}  {left:.0f} s left")

    def say(self, text: str) -> None:
        print(f"cnf.fit: {text}", file=sys.stderr, flush=True)


class BarProgress(Progress):
    """A bar of the package rich."""

    def __init__(self, rich: Any, console: Any, steps: int, done: int):
        self.console = console
        self.bar = rich.Progress(
            rich.TextColumn("fit"),
            rich.BarColumn(bar_width=24),
            rich.MofNCompleteColumn(),
            rich.TextColumn("loss {task.fields[loss]}"),
            rich.TextColumn("residual {task.fields[residual]}"),
            rich.TextColumn("condition {task.fields[condition]}"),
            rich.TimeRemainingColumn(),
            console=console,
            refresh_per_second=5,
        )
        self.task = self.bar.add_task("fit", total=steps, completed=done, loss="", residual="", condition="")
        self.bar.start()

    def advance(self, step: int, loss: float, residual: float | None, condition: float) -> None:
        shown = {"loss": f"{loss:.4e}", "residual": "none" if residual is None else f"{residual:.1e}"}
        if not math.isnan(condition):
            shown["condition"] = f"{condition:.1e}"
        self.bar.update(self.task, completed=step + 1, **shown)

    def say(self, text: str) -> None:
        self.console.print(f"cnf.fit: {text}", markup=False, highlight=False)

    def close(self) -> None:
        self.bar.stop()


def show_progress(steps: int, done: int, wanted: bool, every: int | None = None) -> Progress:
    """The display that fits where stderr goes; without rich, or without a terminal, plain lines, `every` n steps."""
    if not wanted:
        return Progress()
    if not getattr(sys.stderr, "isatty", lambda: False)():
        return PlainProgress(steps, done, every)
    try:
        import rich.progress
        from rich.console import Console
    except ImportError:
        return PlainProgress(steps, done, every)
    return BarProgress(rich.progress, Console(stderr=True), steps, done)
