"""Run: the loop itself, and everything that must be in order when it ends, however it ends."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from cnf.errors import CnfError, FileError, TrainingError, TrainingWarning
from cnf.field import ConstrainedField
from cnf.training.batches import Draw
from cnf.training.checkpoint import (
    Checkpoint,
    Snapshot,
    load_checkpoint,
    restore_snapshot,
    save_checkpoint,
    take_snapshot,
)
from cnf.training.evaluation import Evaluation, LossFunction, WarnOnce, evaluate
from cnf.training.history import History
from cnf.training.progress import Progress
from cnf.training.schedules import Rates
from cnf.training.settings import Callback
from cnf.training.verdict import pronounce

STALLED = 4  # equal losses in a row after which L-BFGS has nothing left to do


class Patience:
    """Counts the steps since the loss last went down by a share `least` of its size."""

    def __init__(self, allowed: int | None, least: float):
        self.allowed, self.least = allowed, least
        self.reference, self.waited = math.inf, 0

    def is_over(self, loss: float) -> bool:
        bar = self.reference if math.isinf(self.reference) else self.reference - self.least * abs(self.reference)
        if loss < bar:
            self.reference, self.waited = loss, 0
        else:
            self.waited += 1
        return self.allowed is not None and self.waited >= self.allowed


@dataclass
class Run:
    """One run of `fit`; `here` and `random_state` describe the start of the current step."""

    model: nn.Module  # a ConstrainedField, or a network without conditions
    terms: dict[str, LossFunction]
    names: list[str]
    trained: list[Tensor]
    optimizer: torch.optim.Optimizer
    rates: Rates
    steps: int
    seed: int
    patience: Patience
    target: float | None
    clip: float | None
    precision: torch.dtype | None
    condition_every: int
    path: Path | None
    checkpoint_every: int
    callbacks: tuple[Callback, ...]
    keep: str
    history: History = field(default_factory=History)
    show: Progress = field(default_factory=Progress)
    step: int = 0
    here: Snapshot | None = None
    best: Snapshot | None = None
    random_state: Tensor = field(default_factory=torch.get_rng_state)
    updating: bool = False
    elapsed: float = 0.0  # seconds of the earlier parts of a resumed run
    started: float = field(default_factory=time.perf_counter)
    once: WarnOnce = field(default_factory=WarnOnce)

    # -- the run -------------------------------------------------------------------------------------------------

    def go(self) -> History:
        """Train; whatever happens, leave the model in its former mode and with parameters that were evaluated."""
        modes = [(module, module.training) for module in self.model.modules()]
        self.model.train()
        try:
            with torch.enable_grad():
                self.history.stopped = self._train()
            self._finish()
        except KeyboardInterrupt:
            self._interrupted()
        except TrainingError as error:
            raise TrainingError(f"step {self.step}: {error}{self._retreat()}") from error
        except BaseException as error:
            error.add_note(f"in step {self.step} of cnf.fit{self._retreat()}")
            raise
        finally:
            self.show.close()
            for module, mode in modes:
                module.training = mode
            for parameter in self.trained:
                parameter.grad = None
        if isinstance(self.model, ConstrainedField) and len(self.history):
            pronounce(self.model, self.history, self.keep, self.once)
        return self.history

    def _train(self) -> str:
        """All steps; returns why it stopped, in a state that is the start of a step."""
        for step in range(self.step, self.steps):
            self._begin(step)
            if step and step % self.checkpoint_every == 0:
                self._save()
            evaluation = self._evaluate(gradient=True)
            if step == 0:
                self._warn_if_stuck()
            self._record(evaluation)
            reason = self._reason_to_stop(evaluation)
            if reason:
                return reason
            self._update(evaluation)
        self._begin(max(self.step, self.steps))
        return "steps"

    def _warn_if_stuck(self) -> None:
        """A gradient that is zero from the start moves nothing, however many steps follow."""
        if all(p.grad is None or not bool(p.grad.any()) for p in self.trained):
            reason = "Is the network saturated, or does the loss not depend on it?"
            if isinstance(self.model, ConstrainedField):
                reason = "If all right-hand sides are zero, so are the smallest weights that meet them: to fit data, "
                reason += "impose it as constraints or give the field a base network"
            text = f"the gradient of the loss is exactly zero, so nothing will be learnt. {reason}"
            warnings.warn(text, TrainingWarning, stacklevel=5)

    def _begin(self, step: int) -> None:
        self.step = step
        self.random_state = torch.get_rng_state()
        self.here = take_snapshot(self.model, self.trained)

    def _evaluate(self, gradient: bool) -> Evaluation:
        """The loss at the present parameters; at one step it always sees the same random numbers."""
        draw, wanted = Draw.of(self.seed, self.step), self.trained if gradient else None
        with self.once():
            return evaluate(self.model, self.terms, draw, wanted, self.clip, self.precision)

    def _record(self, evaluation: Evaluation) -> None:
        due = self.condition_every and self.step % self.condition_every == 0
        condition = evaluation.condition() if due else math.nan
        seconds = self.elapsed + time.perf_counter() - self.started
        loss, residual = evaluation.loss, evaluation.residual
        if self.history.record(loss, evaluation.terms, residual, condition, seconds, evaluation.holds):
            self.best = self.here
        self.show.advance(self.step, loss, residual if isinstance(self.model, ConstrainedField) else None, condition)

    def _reason_to_stop(self, evaluation: Evaluation) -> str:
        asked = [callback(self.step, evaluation.model, self.history) for callback in self.callbacks]
        if any(answer is True for answer in asked):
            return "callback"
        if self.target is not None and evaluation.loss <= self.target:
            with self.once():
                counts = not self.history.best_exact or evaluation.exact  # about to be kept: all conditions count
            if counts:
                return "target"
        if self.patience.is_over(evaluation.loss):
            return "patience"
        recent = self.history.loss[-STALLED:]
        if isinstance(self.optimizer, torch.optim.LBFGS) and len(recent) == STALLED and len(set(recent)) == 1:
            return "converged"
        return ""

    def _update(self, evaluation: Evaluation) -> None:
        known: Evaluation | None = evaluation

        def closure() -> Tensor:
            nonlocal known
            if known is not None:  # the first evaluation is there already, its gradient in place
                value, known = known.value, None
                return value
            torch.set_rng_state(self.random_state)  # a line search needs one and the same function
            if not isinstance(self.optimizer, torch.optim.LBFGS):
                return self._evaluate(gradient=True).value
            try:
                trial = self._evaluate(gradient=True)
            except (CnfError, torch.linalg.LinAlgError):
                return self._rejected(evaluation)
            return self._rejected(evaluation) if evaluation.holds and not trial.holds else trial.value

        self.updating = True
        self.rates.begin(self.step)
        self.optimizer.step(closure)  # type: ignore[arg-type]
        self.rates.end(evaluation.loss)
        self.updating = False

    def _rejected(self, evaluation: Evaluation) -> Tensor:
        """What a line search is told of a trial point without a loss, or where the constraints fail: go back."""
        for parameter in self.trained:
            parameter.grad = torch.zeros_like(parameter)
        return evaluation.value + 100 * (1 + evaluation.value.abs())

    # -- the end -------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Save, look at the result of the last update, and put the parameters in place that are to be kept."""
        self._save()
        if self.history.stopped == "steps":
            with torch.enable_grad():
                evaluation = self._evaluate(gradient=False)
            self.history.final_loss = evaluation.loss
            self.history.final_residual = evaluation.residual
            if self.history.compare(self.step, evaluation.loss, evaluation.holds):
                self.best = self.here
        self._put(self.best if self.keep == "best" else self.here)

    def _interrupted(self) -> None:
        self.history.stopped = "interrupted"
        best = self.keep == "best" and self.best is not None
        self._put(self.best if best else self.here)
        kept = (
            f"the best parameters (step {self.history.best_step}) are kept" if best else "the last parameters are kept"
        )
        if self.path is not None and self.updating:  # the optimiser stopped half-way: its state cannot be saved
            kept += (
                f"; {self.path} holds an earlier step" if self.path.exists() else f"; {self.path} is not written yet"
            )
        elif self.here is not None:
            self._save()
        self.show.say(f"interrupted in step {self.step}; {kept}")

    def _retreat(self) -> str:
        """Back to the best parameters after an error; says so."""
        self._put(self.best if self.best is not None else self.here)
        if self.best is None:
            return ""
        step, loss = self.history.best_step, self.history.best_loss
        return f" (the best parameters so far, of step {step} with loss {loss:.4g}, are restored)"

    def _put(self, snapshot: Snapshot | None) -> None:
        if snapshot is not None:
            restore_snapshot(snapshot, self.model, self.trained)

    # -- checkpoints ---------------------------------------------------------------------------------------------

    def _save(self) -> None:
        """Write the state at the start of the current step."""
        if self.path is None:
            return
        assert self.here is not None
        now = Checkpoint(
            self.step,
            self.here,
            self.best or self.here,
            self.optimizer.state_dict(),
            self.random_state,
            self.history,
            self.rates.name,
            self.rates.state(),
        )
        save_checkpoint(self.path, now, type(self.optimizer).__name__, self.names)

    def resume(self, path: Path, lr: float | None) -> str:
        """Take over the state of a checkpoint; an lr that is given wins over the one in the file."""
        found = load_checkpoint(path, self.model, self.trained, self.names, type(self.optimizer).__name__)
        try:
            self.optimizer.load_state_dict(found.optimizer)
            self.rates.restore(found.schedule_name, found.schedule, lr)
            torch.set_rng_state(found.random_state)
        except FileError:
            raise
        except Exception as error:  # torch checks neither types nor shapes before it uses them
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise FileError(f"checkpoint {path} does not fit this optimizer: {reason}") from None
        self._put(found.now)
        self.step, self.history, self.best = found.step, found.history, found.best
        self.history.final_loss = self.history.final_residual = self.history.kept_residual = math.nan
        for loss in self.history.loss:
            self.patience.is_over(loss)
        self.elapsed = self.history.seconds[-1] if self.history.seconds else 0.0
        if found.step >= self.steps:
            return (
                f"{path} has {found.step} steps already, no fewer than the {self.steps} asked for; nothing is trained"
            )
        return f"going on from step {found.step} of {path}"
