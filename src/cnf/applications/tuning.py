"""Tuning by scanning: a loss that says how good a field is (`HeldOutResidual`) chooses its bandwidth without gradients.

Over the range that matters such a loss has one broad valley with a floor of rounding noise, where gradients mean
little; a coarse scan on a logarithmic scale followed by a few steps of golden section search needs about ten solves.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from scipy.spatial import cKDTree
from torch import Tensor

import cnf

Loss = Callable[[cnf.Solution], Tensor]
GOLDEN = (math.sqrt(5) - 1) / 2
LARGEST_SCAN = 40


@dataclass(frozen=True)
class Trial:
    """One value tried, and the loss of the field with it (infinite if it could not be solved)."""

    what: str  # "bandwidth", "spread" or "step"
    value: float
    loss: float


Report = Callable[[Trial], object]


def try_loss(field: cnf.ConstrainedField, loss: Loss) -> float:
    """The loss at the present parameters, infinite if the field cannot be solved; warnings wait for the final solve."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore", cnf.errors.CnfWarning)
        try:
            value = float(loss(field.solve()))
        except cnf.errors.CnfError:
            return math.inf
    return value if math.isfinite(value) else math.inf


def tune_bandwidth(
    field: cnf.ConstrainedField,
    loss: Loss,
    start: float | None = None,
    scan: int = 6,
    refine: int = 4,
    factor: float = 2.0,
    report: Report | None = None,
) -> list[Trial]:
    """Set all bandwidths of the field's basis to the best single value; returns what was tried, in order.

    Tries start * factor^k for k = 0 ... scan - 1, goes on if the best lies at an end, then narrows the interval
    around it `refine` times. `start` defaults to the median distance between neighbouring points of the constraints.
    """
    handles = bandwidths(field)
    first = spacing(field) if start is None else float(start)
    if not first > 0 or not factor > 1 or scan < 3 or refine < 0:
        raise cnf.errors.CnfError(
            "tune_bandwidth needs start > 0, factor > 1, scan >= 3 and refine >= 0; "
            f"got {first!r}, {factor!r}, {scan!r}, {refine!r}"
        )
    trials: dict[float, Trial] = {}

    def attempt(logarithm: float) -> float:
        with torch.no_grad():
            for handle in handles:
                handle.fill_(logarithm)
        trial = Trial("bandwidth", math.exp(logarithm), try_loss(field, loss))
        trials[logarithm] = trial
        if report is not None:
            report(trial)
        return trial.loss

    ratio = math.log(factor)
    tried = [math.log(first) + k * ratio for k in range(scan)]
    losses = [attempt(v) for v in tried]
    while (
        len(tried) < LARGEST_SCAN
        and math.isfinite(min(losses))
        and (at := losses.index(min(losses))) in (0, len(tried) - 1)
    ):
        where = tried[0] - ratio if at == 0 else tried[-1] + ratio
        place = 0 if at == 0 else len(tried)
        tried.insert(place, where)
        losses.insert(place, attempt(where))
    best = tried[losses.index(min(losses))]
    narrow(attempt, best - ratio, best + ratio, refine)
    winner = min(trials, key=lambda v: trials[v].loss)
    with torch.no_grad():
        for handle in handles:
            handle.fill_(winner)
    return list(trials.values())


def narrow(attempt: Callable[[float], float], low: float, high: float, steps: int) -> None:
    """Golden section search; the caller keeps what was tried."""
    inner = [high - GOLDEN * (high - low), low + GOLDEN * (high - low)]
    values = [attempt(v) for v in inner[: min(2, steps)]]
    for _ in range(steps - 2):
        if values[0] <= values[1]:
            high, inner[1], values[1] = inner[1], inner[0], values[0]
            inner[0] = high - GOLDEN * (high - low)
            values[0] = attempt(inner[0])
        else:
            low, inner[0], values[0] = inner[0], inner[1], values[1]
            inner[1] = low + GOLDEN * (high - low)
            values[1] = attempt(inner[1])


def bandwidths(field: cnf.ConstrainedField) -> Sequence[Tensor]:
    """The logarithms of the bandwidths among the parameters of the field's basis."""
    found = [
        p for name, p in field.basis.named_parameters() if name.rpartition(".")[2] in ("log_bandwidth", "log_length")
    ]
    if not found:
        raise cnf.errors.CnfError(f"the basis {type(field.basis).__name__} has no bandwidth to tune")
    return found


def spacing(field: cnf.ConstrainedField) -> float:
    """The median distance from a point of the constraints to its nearest neighbour."""
    points = torch.unique(torch.cat([c.points for c in field.constraints]), dim=0).detach().cpu().numpy()
    if len(points) < 2:
        raise cnf.errors.CnfError("there is only one point, so there is no distance to start from; give start=")
    distances = cKDTree(points).query(points, k=2)[0][:, 1]
    return float(sorted(distances)[len(distances) // 2])


def choose(
    field: cnf.ConstrainedField,
    loss: Loss,
    parameter: Tensor,
    candidates: Iterable[tuple[float, Tensor]],
    what: str,
    report: Report | None = None,
) -> list[Trial]:
    """Give `parameter` the best of several values, each with a number to know it by; its present value competes too."""
    best, lowest, trials = parameter.detach().clone(), try_loss(field, loss), []
    for label, value in candidates:
        with torch.no_grad():
            parameter.copy_(value)
        trial = Trial(what, label, try_loss(field, loss))
        trials.append(trial)
        if report is not None:
            report(trial)
        if trial.loss < lowest:
            best, lowest = value, trial.loss
    with torch.no_grad():
        parameter.copy_(best)
    return trials
