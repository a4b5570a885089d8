"""History: what happened in a run, step by step; plain numbers that can be plotted, saved and read back."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from statistics import fmean as mean
from typing import Any

from cnf.errors import FileError, TrainingError
from cnf.files import as_csv, write_text

LISTS = ("step", "loss", "residual", "condition", "seconds")
FOUND: dict[str, type] = {
    **{"best_step": int, "best_loss": float, "best_exact": bool, "stopped": str},
    **{"final_loss": float, "final_residual": float, "kept_residual": float},
}


@dataclass
class History:
    """Entry k of every list describes the field after k updates, before the next.

    `residual` is the worst relative residual found at that step: a sample of the points of every constraint is measured
    on the field, and the solver's word is taken for the others; NaN for a network without conditions. `condition` is
    NaN at steps where it was not worked out; `seconds` counts from the start of the run, earlier parts of a resumed run
    included. `best_step` is the number of updates after which the loss was lowest, steps that miss the field's
    tolerance counting only until the first that meets it (`best_exact`). A run that makes all its steps looks at the
    last update once more: `final_loss` and `final_residual`, NaN otherwise; `best_step` is then len(history) if that
    was the best. When the run is over, every condition is measured on the field that it leaves: `kept_residual`, and
    `best_exact` if that is the best.

    >>> network = cnf.encoders.MLP(1, 1, hidden=4, seed=0)
    >>> history = cnf.fit(network, cnf.losses.Regression([[0.0]], 1.0), steps=4, progress=False)
    >>> history.step, len(history.loss), history.best_loss <= history.loss[0]
    ([0, 1, 2, 3], 4, True)
    """

    step: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    terms: dict[str, list[float]] = field(default_factory=dict)
    residual: list[float] = field(default_factory=list)
    condition: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    best_step: int = 0
    best_loss: float = math.inf
    best_exact: bool = False
    final_loss: float = math.nan
    final_residual: float = math.nan
    kept_residual: float = math.nan
    stopped: str = ""  # "steps", "patience", "target", "callback", "converged" or "interrupted"

    def record(
        self, loss: float, terms: dict[str, float], residual: float, condition: float, seconds: float, exact: bool
    ) -> bool:
        """Add a step; True if it is the best so far."""
        self.step.append(len(self.step))
        self.loss.append(loss)
        for name, value in terms.items():
            self.terms.setdefault(name, []).append(value)
        self.residual.append(residual)
        self.condition.append(condition)
        self.seconds.append(seconds)
        return self.compare(self.step[-1], loss, exact)

    def compare(self, step: int, loss: float, exact: bool) -> bool:
        """Take note of a loss; True if it is the best so far."""
        if exact < self.best_exact or (exact == self.best_exact and not loss < self.best_loss):
            return False
        self.best_step, self.best_loss, self.best_exact = step, loss, exact
        return True

    def every(self, steps: int) -> History:
        """A coarser history: every so many steps and the last; losses are means, residuals and conditions the worst,
        since the entry before. What it says of best, final and kept stays as it is."""
        if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
            raise TrainingError(f"a history is thinned to every n-th step, n a whole number above 0; got {steps!r}")
        ends = sorted({*range(0, len(self), steps), len(self) - 1} - {-1})
        pieces = [slice(a + 1, b + 1) for a, b in zip([-1, *ends], ends, strict=False)]
        return replace(
            self,
            step=[self.step[k] for k in ends],
            seconds=[self.seconds[k] for k in ends],
            loss=[mean(self.loss[p]) for p in pieces],
            terms={name: [mean(values[p]) for p in pieces] for name, values in self.terms.items()},
            residual=[_worst(self.residual[p]) for p in pieces],
            condition=[_worst([c for c in self.condition[p] if not math.isnan(c)] or [math.nan]) for p in pieces],
        )

    @property
    def best_residual(self) -> float:
        """The worst relative residual found at the best step."""
        if not self.residual:
            return math.nan
        return self.residual[self.best_step] if self.best_step < len(self.residual) else self.final_residual

    @property
    def last_residual(self) -> float:
        """The worst relative residual found at the last step."""
        if not self.residual or not math.isnan(self.final_residual):
            return self.final_residual
        return self.residual[-1]

    def state_dict(self, steps: int | None = None) -> dict:
        """Plain numbers, lists and strings; only the first `steps` entries, if said."""
        cut = slice(steps)
        state: dict = {name: list(getattr(self, name)[cut]) for name in LISTS}
        state["terms"] = {name: list(values[cut]) for name, values in self.terms.items()}
        return state | {name: getattr(self, name) for name in FOUND}

    @classmethod
    def from_state_dict(cls, state: object) -> History:
        """The history that `state_dict` was made of; FileError if it was not."""
        try:
            assert isinstance(state, dict)
            lists: dict[str, Any] = {name: [float(v) for v in state[name]] for name in LISTS[1:]}
            lists["terms"] = {str(name): [float(v) for v in values] for name, values in state["terms"].items()}
            given = {"kept_residual": math.nan, **state}  # which files of earlier versions lack
            found: dict[str, Any] = {name: kind(given[name]) for name, kind in FOUND.items()}
            history = cls(step=[int(v) for v in state["step"]], **lists, **found)
        except (AssertionError, KeyError, TypeError, ValueError, AttributeError):
            raise FileError("this is not the history of a run") from None
        lengths = {len(values) for values in (*(getattr(history, n) for n in LISTS), *history.terms.values())}
        if len(lengths) > 1:
            raise FileError("this history is damaged: its lists differ in length")
        return history

    def to_csv(self, path: object) -> None:
        """One line per step: step, loss, each term, residual, condition, seconds."""
        header = ["step", "loss", *(f"loss.{name}" for name in self.terms), "residual", "condition", "seconds"]
        columns = [self.step, self.loss, *self.terms.values(), self.residual, self.condition, self.seconds]
        write_text(path, as_csv(header, zip(*columns, strict=True)))

    def __len__(self) -> int:
        return len(self.step)

    def __repr__(self) -> str:
        if not self.step:
            return "History(no steps)"
        known = not all(map(math.isnan, self.residual))
        residual = f"residual <= {_worst(self.residual):.1e}, " if known else ""
        return (
            f"History({len(self)} steps, loss {self.loss[0]:.4g} -> {self.best_loss:.4g} at step {self.best_step}, "
            f"{residual}{self.seconds[-1]:.1f} s, stopped: {self.stopped or 'not yet'})"
        )


def _worst(values: list[float]) -> float:
    """The largest; NaN if any is."""
    return math.nan if any(map(math.isnan, values)) else max(values)
