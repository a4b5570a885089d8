"""Settings of a run, checked before anything is trained."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from cnf.errors import TrainingError, nearest
from cnf.field import ConstrainedField
from cnf.training.history import History
from cnf.training.precision import check_precision

MakeOptimizer = Callable[[Sequence[Tensor]], torch.optim.Optimizer]
Callback = Callable[[int, Any, History], Any]  # step; solution, or the network if it has no conditions; history
OPTIMIZERS = {"adam": 1e-2, "lbfgs": 1.0}  # and their learning rates
LINE_SEARCH = 25  # evaluations allowed per L-BFGS step


def check_settings(
    *,
    field: object,
    optimizer: object,
    seed: object,
    checkpoint: object,
    resume: bool,
    keep: str,
    schedule: object,
    precision: object,
    **numbers: float | int | None,
) -> None:
    """Refuse what cannot be meant."""
    if not isinstance(field, nn.Module):
        raise TrainingError(
            f"fit trains a cnf.ConstrainedField, or a torch module without conditions; got a {type(field).__name__}"
        )
    if check_precision(precision) is not None and not isinstance(field, ConstrainedField):
        raise TrainingError(
            "precision is that of a field inside its losses, while its conditions keep their own; a plain network is "
            "converted as a whole, network.to(torch.float32)"
        )
    if isinstance(optimizer, str) and optimizer not in OPTIMIZERS:
        raise TrainingError(
            f"there is no optimizer {optimizer!r}; use 'adam', 'lbfgs' or a callable such as "
            "lambda p: torch.optim.SGD(p, 0.1)." + nearest(optimizer, OPTIMIZERS)
        )
    if not isinstance(optimizer, str) and (not callable(optimizer) or isinstance(optimizer, torch.optim.Optimizer)):
        raise TrainingError(
            "optimizer is 'adam', 'lbfgs' or a callable from parameters to an optimizer, not an optimizer"
        )
    if keep not in ("best", "last"):
        raise TrainingError(f"keep is 'best' or 'last', not {keep!r}")
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise TrainingError(f"the seed is a whole number; got {seed!r}")
    if resume and checkpoint is None:
        raise TrainingError("resume=True needs checkpoint=, the file to go on from")
    _check_numbers(numbers)
    if numbers["clip"] is not None and optimizer == "lbfgs":
        raise TrainingError(
            "clip changes the gradient that the line search of L-BFGS relies on; leave it out, or use 'adam'"
        )
    if schedule is not None and optimizer == "lbfgs":
        raise TrainingError("L-BFGS finds the length of its steps by a line search; leave schedule out, or use 'adam'")


def _check_numbers(numbers: Mapping[str, float | int | None]) -> None:
    wholes = {"steps": 1, "patience": 1, "checkpoint_every": 1, "log_condition_every": 0, "log_every": 1}
    for name, least in wholes.items():
        value = numbers[name]
        optional = value is None and name in ("patience", "log_condition_every", "log_every")
        if not optional and (not isinstance(value, int) or isinstance(value, bool) or value < least):
            raise TrainingError(f"{name} is a whole number of at least {least}; got {value!r}")
    for name in ("lr", "clip"):
        value = numbers[name]
        if value is not None and not (_is_number(value) and value > 0):
            raise TrainingError(f"{name} is a positive number; got {value!r}")
    if not _is_number(numbers["min_improvement"]) or numbers["min_improvement"] < 0:  # type: ignore[operator]
        raise TrainingError(f"min_improvement is a number of at least 0; got {numbers['min_improvement']!r}")
    if numbers["target"] is not None and not _is_number(numbers["target"]):
        raise TrainingError(f"target is a number; got {numbers['target']!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def choose_parameters(field: nn.Module, given: Iterable[Tensor] | None) -> tuple[list[str], list[Tensor]]:
    """What is trained, and how each is called: everything learnable in the field or network, or what is given."""
    known = {id(p): name for name, p in field.named_parameters()}
    if given is None:
        trained: list[Tensor] = [p for p in field.parameters() if p.requires_grad]
        if not trained:
            frozen = " (all of its parameters have requires_grad=False)" if known else ""
            if not isinstance(field, ConstrainedField):
                raise TrainingError(f"there is nothing to train in this {type(field).__name__}: no parameters{frozen}")
            raise TrainingError(
                f"there is nothing to train in this field: {type(field.basis).__name__} has no learnable parameter"
                f"{frozen}. field.solve() is all it needs; to train, choose a basis with a bandwidth or a network, or "
                "give a base"
            )
    else:
        trained = [given] if isinstance(given, Tensor) else list(given)
        trained = list({id(p): p for p in trained}.values())
        if not trained or not all(isinstance(p, Tensor) and p.is_leaf and p.requires_grad for p in trained):
            raise TrainingError(
                "parameters is a list, not empty, of tensors with requires_grad=True, such as field.base.parameters()"
            )
    return [known.get(id(p), f"parameter {k}") for k, p in enumerate(trained)], trained


def make_optimizer(
    optimizer: str | MakeOptimizer, parameters: Sequence[Tensor], lr: float | None
) -> torch.optim.Optimizer:
    if isinstance(optimizer, str):
        rate = OPTIMIZERS[optimizer] if lr is None else lr
        if optimizer == "adam":
            return torch.optim.Adam(parameters, lr=rate)
        return torch.optim.LBFGS(
            parameters,
            lr=rate,
            max_iter=1,
            max_eval=LINE_SEARCH + 1,
            history_size=20,
            tolerance_grad=1e-14,
            tolerance_change=1e-20,
            line_search_fn="strong_wolfe",
        )
    made = optimizer(parameters)
    if not isinstance(made, torch.optim.Optimizer):
        raise TrainingError(
            f"the optimizer callable returned a {type(made).__name__}; expected a torch.optim.Optimizer"
        )
    return made
