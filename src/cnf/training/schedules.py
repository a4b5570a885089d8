"""Schedules: how the learning rate changes over a run.

In: what `fit(schedule=...)` was given. Out: `Rates`, which sets the learning rates of an optimizer step by step and
keeps a state for checkpoints. `cosine`, `linear` and `constant` make schedules with a warm-up; any callable from the
fraction of the run (0 at its first step, below 1 at its last) to a factor of the rate serves too, and any callable from
an optimizer to one of torch's schedulers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from cnf.errors import FileError, TrainingError, nearest

EXPECTED = (
    "a schedule is 'constant', 'cosine', 'linear', one of cnf.training.schedules such as cosine(warm_up=0.05), a "
    "callable from the fraction of the run to a factor of the learning rate, or a callable from an optimizer to a "
    "torch scheduler"
)


@dataclass(frozen=True)
class Schedule:
    """factor = rise x shape(step / steps); the rise goes from near 0 to 1 within a share `warm_up` of the steps."""

    shape: Callable[[float], float]
    warm_up: float = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.warm_up, bool) or not isinstance(self.warm_up, int | float) or not 0 <= self.warm_up <= 1:
            raise TrainingError(f"warm_up is a share of the steps, from 0 to 1; got {self.warm_up!r}")

    def factor(self, step: int, steps: int) -> float:
        """What the learning rate is multiplied by at a step."""
        rise = min(1.0, (step + 1) / max(1.0, self.warm_up * steps))  # never 0: no step is spent on nothing
        found = rise * self.shape(step / steps)
        if not math.isfinite(found) or found < 0:
            raise TrainingError(f"the schedule gives the factor {found!r} at step {step}; expected a number >= 0")
        return found


def constant(warm_up: float = 0.0) -> Schedule:
    """The rate as it is."""
    return Schedule(lambda fraction: 1.0, warm_up)


def cosine(last: float = 0.0, warm_up: float = 0.0) -> Schedule:
    """From 1 down to `last` along half a cosine."""
    _check_last(last)
    return Schedule(lambda fraction: last + (1 - last) * 0.5 * (1 + math.cos(math.pi * fraction)), warm_up)


def linear(last: float = 0.0, warm_up: float = 0.0) -> Schedule:
    """From 1 down to `last` along a line."""
    _check_last(last)
    return Schedule(lambda fraction: 1 - (1 - last) * fraction, warm_up)


def _check_last(last: object) -> None:
    if isinstance(last, bool) or not isinstance(last, int | float) or not 0 <= last <= 1:
        raise TrainingError(f"last is a factor of the learning rate, from 0 to 1; got {last!r}")


NAMED: dict[str, Callable[[], Schedule]] = {"constant": constant, "cosine": cosine, "linear": linear}


class Rates:
    """The learning rates of an optimizer; this one leaves them alone. `name` and the state go into checkpoints."""

    name = ""

    def __init__(self, optimizer: torch.optim.Optimizer):
        self.optimizer = optimizer

    def begin(self, step: int) -> None:
        """Before the update of a step."""

    def end(self, loss: float) -> None:
        """After it."""

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, name: str, state: dict[str, Any], lr: float | None) -> None:
        """Go on from a checkpoint whose optimizer is restored already; an `lr` that is given wins."""
        for group in self.optimizer.param_groups:
            group["lr"] = lr if lr is not None else group.pop("initial_lr", group["lr"])


class FactorRates(Rates):
    """Rates that depend on the step alone."""

    name = "factor"

    def __init__(self, optimizer: torch.optim.Optimizer, schedule: Schedule, steps: int):
        super().__init__(optimizer)
        self.schedule, self.steps = schedule, steps
        schedule.factor(0, steps)
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])

    def begin(self, step: int) -> None:
        factor = self.schedule.factor(step, self.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"] * factor

    def restore(self, name: str, state: dict[str, Any], lr: float | None) -> None:
        for group in self.optimizer.param_groups:
            group["initial_lr"] = lr if lr is not None else group.get("initial_lr", group["lr"])


class TorchRates(Rates):
    """Rates that a scheduler of torch decides."""

    def __init__(self, optimizer: torch.optim.Optimizer, scheduler: LRScheduler):
        super().__init__(optimizer)
        self.scheduler = scheduler

    @property
    def name(self) -> str:  # type: ignore[override]
        return type(self.scheduler).__name__

    def end(self, loss: float) -> None:
        if isinstance(self.scheduler, ReduceLROnPlateau):
            self.scheduler.step(loss)
        else:
            self.scheduler.step()

    def state(self) -> dict[str, Any]:
        return self.scheduler.state_dict()

    def restore(self, name: str, state: dict[str, Any], lr: float | None) -> None:
        if name != self.name:
            was = f"with the schedule {name}" if name else "without a schedule"
            raise FileError(f"the checkpoint was written {was}, not with {self.name}; resume with the same")
        self.scheduler.load_state_dict(state)
        for k, group in enumerate(self.optimizer.param_groups):
            times = 1.0 if lr is None else lr / group.get("initial_lr", lr)
            if times != 1.0:  # the same schedule, so many times as fast
                group["lr"], group["initial_lr"] = group["lr"] * times, lr
                self.scheduler.base_lrs[k] *= times


def make_rates(schedule: Any, optimizer: torch.optim.Optimizer, steps: int) -> Rates:
    """Whatever `fit(schedule=...)` was given -> what sets the rates."""
    if schedule is None:
        return Rates(optimizer)
    if isinstance(schedule, str):
        if schedule not in NAMED:
            raise TrainingError(f"there is no schedule {schedule!r}; {EXPECTED}." + nearest(schedule, NAMED))
        return FactorRates(optimizer, NAMED[schedule](), steps)
    if isinstance(schedule, Schedule):
        return FactorRates(optimizer, schedule, steps)
    if schedule in NAMED.values():
        raise TrainingError(
            f"{EXPECTED}; got cnf.training.schedules.{getattr(schedule, '__name__', '')}: call it first"
        )
    if not callable(schedule) or isinstance(schedule, LRScheduler):
        raise TrainingError(f"{EXPECTED}; got a {type(schedule).__name__}")
    try:
        factor = schedule(0.0)
    except Exception as error:  # not a function of a number: perhaps one of an optimizer
        return TorchRates(optimizer, _scheduler(schedule, optimizer, error))
    if isinstance(factor, int | float) and not isinstance(factor, bool):
        return FactorRates(optimizer, Schedule(schedule), steps)
    return TorchRates(optimizer, _scheduler(schedule, optimizer, None))


def _scheduler(schedule: Callable, optimizer: torch.optim.Optimizer, first: Exception | None) -> LRScheduler:
    try:
        made = schedule(optimizer)
    except Exception as error:
        raise TrainingError(
            f"the schedule fails, both for a fraction of the run ({first}) and for an optimizer ({error}); {EXPECTED}"
        ) from error
    if not isinstance(made, LRScheduler):
        raise TrainingError(f"the schedule returned a {type(made).__name__}; {EXPECTED}")
    return made
