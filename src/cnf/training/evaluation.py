"""One evaluation: solve the field (a plain network is as it is), add up the terms of the loss, take the gradient."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from cnf.errors import CnfWarning, TrainingError
from cnf.fetching import numbers
from cnf.field import ConstrainedField
from cnf.solution import Solution
from cnf.training.losses import Loss
from cnf.training.points import Model, like_of
from cnf.training.precision import seen_in

LossFunction = Callable[[Any], Tensor]  # of a solution or, where there are no conditions, of the network
NOTHING_TRAINED = "the loss does not depend on anything that is trained"
WRONG_SOLUTION = ": does it use .item(), .detach() or field.solution instead of the solution it is given?"
OTHERS = "; train other parameters, or change the loss"
Losses = LossFunction | Loss | Sequence[LossFunction | Loss] | Mapping[str, LossFunction | Loss]


@dataclass(frozen=True)
class Evaluation:
    """The loss at one step, in total and by term, and the solution, or the plain network, it was taken of."""

    value: Tensor
    loss: float  # the value on the host
    terms: dict[str, float]
    model: Model

    @property
    def residual(self) -> float:
        """The worst relative residual that was measured while solving; NaN without conditions."""
        check = self.model.spot_check if isinstance(self.model, Solution) else None
        return math.nan if check is None else check.worst

    @property
    def holds(self) -> bool:
        """True if no condition that was measured while solving, a sample of all, misses the tolerance."""
        check = self.model.spot_check if isinstance(self.model, Solution) else None
        return check is not None and not check.violated and not check.unmeasured

    @property
    def exact(self) -> bool:
        """True if every condition holds: all of them are measured now."""
        return isinstance(self.model, Solution) and self.model.certificate.exact

    def condition(self) -> float:
        """The condition number of the system that was solved; NaN if there is none."""
        check = self.model.spot_check if isinstance(self.model, Solution) else None
        return math.nan if check is None else check.condition


def name_terms(loss: object) -> dict[str, LossFunction]:
    """One callable, several, or several by name -> terms by name, every name once."""
    if isinstance(loss, Mapping):
        named = [(str(name), term) for name, term in loss.items()]
    else:
        terms = list(loss) if isinstance(loss, Sequence) and not isinstance(loss, str) else [loss]
        named = [(str(getattr(t, "name", None) or getattr(t, "__name__", None) or type(t).__name__), t) for t in terms]
    if not named:
        raise TrainingError("the list of losses is empty; give at least one term, such as cnf.losses.Condition()")
    found: dict[str, LossFunction] = {}
    for name, term in named:
        if isinstance(term, type) or not callable(term):
            given = (
                f"the class {term.__name__}, not one made of it"
                if isinstance(term, type)
                else f"a {type(term).__name__}"
            )
            raise TrainingError(f"a loss is a callable loss(solution) -> scalar, or one of cnf.losses; got {given}")
        label, k = name, 2
        while label in found:
            label, k = f"{name} {k}", k + 1
        found[label] = term
    return found


def evaluate(
    trained: nn.Module,
    terms: Mapping[str, LossFunction],
    generator: torch.Generator,
    parameters: Sequence[Tensor] | None = None,
    clip: float | None = None,
    precision: torch.dtype | None = None,
) -> Evaluation:
    """Solve once, add up the terms; with `parameters`, put the gradient, no longer than `clip`, into their `.grad`.

    `precision`: that in which the terms see the networks of the basis.
    """
    model: Model = trained.solve() if isinstance(trained, ConstrainedField) else trained
    seen = seen_in(precision, model) if isinstance(model, Solution) else model
    values = {name: _value(name, term, seen, generator) for name, term in terms.items()}
    total = next(iter(values.values()))
    if len(values) > 1:
        like = like_of(model)
        total = torch.stack([v.to(total if like is None else like) for v in values.values()]).sum()
    gradients = _gradients(total, parameters) if parameters is not None and total.requires_grad else []
    known = [g for g in gradients if g is not None]
    length = [torch.nn.utils.get_total_norm(known)] if known else []
    loss, *parts = numbers(total, *values.values(), *length)  # all there is to know, in one transfer
    found = Evaluation(total.detach(), loss, dict(zip(values, parts, strict=False)), model)
    if not math.isfinite(loss):
        raise _not_finite(found, terms)
    if parameters is not None:
        if not known:
            raise TrainingError(NOTHING_TRAINED + (WRONG_SOLUTION if not total.requires_grad else OTHERS))
        _place(gradients, parameters, _checked_length(known, parts[-1]), clip)
    return found


def _not_finite(found: Evaluation, terms: Mapping[str, LossFunction]) -> TrainingError:
    worst = next((name for name, v in found.terms.items() if not math.isfinite(v)), "total")
    value, term = found.terms.get(worst, found.loss), terms.get(worst)
    if isinstance(term, Loss):
        return term.refusal(value, found.model)
    return TrainingError(
        f"the loss {worst!r} is {value}; a smaller lr, or clip=1.0, often helps; look for sqrt, log or a division at "
        "zero in the loss"
    )


def _value(name: str, term: LossFunction, model: Model, generator: torch.Generator) -> Tensor:
    value = term(model, generator) if isinstance(term, Loss) else term(model)
    if not isinstance(value, Tensor) or value.numel() != 1:
        given = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
        raise TrainingError(
            f"the loss {name!r} returned {given}; expected a tensor with one element, such as errors.square().mean()"
        )
    return value.reshape(())


def _gradients(total: Tensor, parameters: Sequence[Tensor]) -> Sequence[Tensor | None]:
    """Not backward(): parameters that are not trained need no gradient, and keep the one they have."""
    return torch.autograd.grad(total, parameters, allow_unused=True)


def _place(gradients: Sequence[Tensor | None], parameters: Sequence[Tensor], length: float, clip: float | None) -> None:
    """Put gradients, together so long, where the optimiser looks for them."""
    if not math.isfinite(length):
        raise TrainingError(
            "the gradient is NaN or infinite although the loss is finite; look for sqrt or norm at zero in the loss or "
            "the network (use squares, or clamp_min)"
        )
    if clip is not None and length > clip:
        factor = clip / length
        gradients = [None if g is None else g * factor for g in gradients]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient


def _checked_length(gradients: Sequence[Tensor], length: float) -> float:
    """The Euclidean length of all gradients together, worked out anew if it overflowed; finite if they are."""
    if math.isfinite(length):
        return length
    largest = max((float(g.abs().max()) for g in gradients if g.numel()), default=0.0)  # NaN stays NaN below
    parts = [torch.linalg.vector_norm(g.to(torch.float64) / largest) for g in gradients]
    return largest * math.hypot(*map(float, parts))


class WarnOnce:
    """Lets every kind of warning of cnf, and every other warning from one place, through once."""

    def __init__(self) -> None:
        self.seen: set[tuple] = set()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        caught: list[warnings.WarningMessage] = []
        try:
            with warnings.catch_warnings(record=True) as caught:  # the user's filters stay: errors are still raised
                yield
        finally:
            for w in caught:
                key = (w.category,) if issubclass(w.category, CnfWarning) else (w.category, w.filename, w.lineno)
                if key not in self.seen:
                    self.seen.add(key)
                    warnings.warn_explicit(w.message, w.category, w.filename, w.lineno, source=w.source)
