"""One bandwidth of a field that is there already, chosen by any loss that says how good the field is."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cnf.bases.anchors import measure_spacing
from cnf.errors import CnfError, CnfWarning
from cnf.field import ConstrainedField
from cnf.solution import Solution
from cnf.training.search import search_line

Loss = Callable[[Solution], Tensor]


@dataclass(frozen=True)
class ScanStep:
    """One value tried, and the loss of the field with it (infinite if it could not be solved).

    >>> step = cnf.tuning.ScanStep("bandwidth", 0.2, -3.5)
    >>> step.value, step.loss
    (0.2, -3.5)
    """

    what: str  # "bandwidth", "spread" or "step"
    value: float
    loss: float

    def describe(self) -> str:
        """The value and its loss in a few words; the loss is taken for the logarithm of a squared residual."""
        held = f"held-out residual {math.exp(self.loss / 2):.1e}" if math.isfinite(self.loss) else "cannot be solved"
        return f"{self.what} {self.value:.4g}: {held}"


ScanReport = Callable[[ScanStep], object]


def try_loss(field: ConstrainedField, loss: Loss) -> float:
    """The loss at the present parameters, infinite if the field cannot be solved; warnings wait for the final solve."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore", CnfWarning)
        try:
            value = float(loss(field.solve()))
        except CnfError:
            return math.inf
    return value if math.isfinite(value) else math.inf


def tune_bandwidth(
    field: ConstrainedField,
    loss: Loss,
    start: float | None = None,
    scan: int = 6,
    refine: int = 4,
    factor: float = 2.0,
    report: ScanReport | None = None,
) -> list[ScanStep]:
    r"""Set all bandwidths of the field's basis to the best single value; returns what was tried, in order.

    Tries start * factor^k for k = 0 ... scan - 1, goes on if the best lies at an end, then narrows the interval
    around it `refine` times. `start` defaults to the median distance between neighbouring points of the constraints.

    >>> space = cnf.Space("x", "u")
    >>> condition = space.constraint(r"u = \sin(6 x)", at=cnf.Box(0, 1).grid(12), name="data")
    >>> field = cnf.ConstrainedField(cnf.bases.RandomFourier(space, 40), [condition])
    >>> tried = cnf.tuning.tune_bandwidth(field, cnf.losses.HeldOutResidual(constraint="data"), scan=3, refine=1)
    >>> best = min(tried, key=lambda step: step.loss)
    >>> round(best.value, 12) == round(field.basis.bandwidth.item(), 12)
    True
    """
    handles = bandwidths(field)
    first = spacing(field) if start is None else float(start)
    if not first > 0 or not factor > 1 or scan < 3 or refine < 0:
        raise CnfError(
            "tune_bandwidth needs start > 0, factor > 1, scan >= 3 and refine >= 0; "
            f"got {first!r}, {factor!r}, {scan!r}, {refine!r}"
        )
    trials: dict[float, ScanStep] = {}

    def attempt(logarithm: float) -> float:
        with torch.no_grad():
            for handle in handles:
                handle.fill_(logarithm)
        trial = ScanStep("bandwidth", math.exp(logarithm), try_loss(field, loss))
        trials[logarithm] = trial
        if report is not None:
            report(trial)
        return trial.loss

    search_line(attempt, math.log(first), math.log(factor), scan, refine)
    winner = min(trials, key=lambda v: trials[v].loss)
    with torch.no_grad():
        for handle in handles:
            handle.fill_(winner)
    return list(trials.values())


def bandwidths(field: ConstrainedField) -> Sequence[Tensor]:
    """The logarithms of the bandwidths among the parameters of the field's basis."""
    found = [
        p for name, p in field.basis.named_parameters() if name.rpartition(".")[2] in ("log_bandwidth", "log_length")
    ]
    if not found:
        raise CnfError(f"the basis {type(field.basis).__name__} has no bandwidth to tune")
    return found


def spacing(field: ConstrainedField) -> float:
    """The median distance from a point of the constraints to its nearest neighbour."""
    found = measure_spacing(torch.cat([c.points for c in field.constraints]))
    if found is None:
        raise CnfError("there is only one point, so there is no distance to start from; give start=")
    return found


def choose(
    field: ConstrainedField,
    loss: Loss,
    parameter: Tensor,
    candidates: Iterable[tuple[float, Tensor]],
    what: str,
    report: ScanReport | None = None,
) -> list[ScanStep]:
    """Give `parameter` the best of several values, each with a number to know it by; its present value competes too."""
    best, lowest, trials = parameter.detach().clone(), try_loss(field, loss), []
    for label, value in candidates:
        with torch.no_grad():
            parameter.copy_(value)
        trial = ScanStep(what, label, try_loss(field, loss))
        trials.append(trial)
        if report is not None:
            report(trial)
        if trial.loss < lowest:
            best, lowest = value, trial.loss
    with torch.no_grad():
        parameter.copy_(best)
    return trials
