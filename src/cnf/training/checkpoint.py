"""Checkpoints: everything a run needs to go on as if it had never stopped.

A file holds tensors, numbers and strings only and is read without unpickling anything else. It describes the state at
the start of a step: parameters and buffers, the optimiser, the schedule of its learning rate, torch's random state, the
history up to there and the best parameters so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from cnf.errors import FileError, TrainingError
from cnf.files import read_archive, write_archive
from cnf.training.history import History

KIND = "training checkpoint of cnf"
VERSION = 1
VECTORS = 300  # a checkpoint holds fewer copies of the parameters than this (L-BFGS keeps the most)
SLACK = 2**28


@dataclass(frozen=True)
class Snapshot:
    """Copies of the trained parameters and of the field's buffers (running averages, say)."""

    parameters: list[Tensor]
    buffers: dict[str, Tensor]


@dataclass(frozen=True)
class Checkpoint:
    """The state at the start of step `step`."""

    step: int
    now: Snapshot
    best: Snapshot
    optimizer: dict
    random_state: Tensor
    history: History
    schedule_name: str = ""
    schedule: dict = field(default_factory=dict)


def take_snapshot(model: nn.Module, parameters: Sequence[Tensor]) -> Snapshot:
    buffers = {name: b.detach().clone() for name, b in model.named_buffers()}
    return Snapshot([p.detach().clone() for p in parameters], buffers)


def restore_snapshot(snapshot: Snapshot, model: nn.Module, parameters: Sequence[Tensor]) -> None:
    with torch.no_grad():
        for parameter, value in zip(parameters, snapshot.parameters, strict=True):
            parameter.copy_(value)
        for name, buffer in model.named_buffers():
            buffer.copy_(snapshot.buffers[name])


def save_checkpoint(path: Path, checkpoint: Checkpoint, optimizer_name: str, names: Sequence[str]) -> None:
    """Write the file, or leave the one that is there untouched."""
    contents = {
        "step": checkpoint.step,
        "names": list(names),
        "now": {"parameters": checkpoint.now.parameters, "buffers": checkpoint.now.buffers},
        "best": {"parameters": checkpoint.best.parameters, "buffers": checkpoint.best.buffers},
        "optimizer_name": optimizer_name,
        "optimizer": plain(checkpoint.optimizer),
        "schedule_name": checkpoint.schedule_name,
        "schedule": plain(checkpoint.schedule, "schedule"),
        "random_state": checkpoint.random_state,
        "history": checkpoint.history.state_dict(checkpoint.step),
    }
    write_archive(path, KIND, VERSION, contents)


def load_checkpoint(
    path: Path, model: nn.Module, parameters: Sequence[Tensor], names: Sequence[str], optimizer_name: str
) -> Checkpoint:
    """Read and check a file for this field; nothing is changed yet."""
    contents = _contents(path, sum(t.numel() * t.element_size() for t in (*parameters, *model.buffers())))
    if contents["optimizer_name"] != optimizer_name:
        raise FileError(
            f"checkpoint {path} was written by the optimizer {contents['optimizer_name']}, not {optimizer_name}; "
            "resume with that one"
        )
    shapes = {name: tuple(p.shape) for name, p in zip(names, parameters, strict=True)}
    buffers = {name: tuple(b.shape) for name, b in model.named_buffers()}
    now, best = (_snapshot(path, contents["names"], contents[part], shapes, buffers) for part in ("now", "best"))
    try:
        history = History.from_state_dict(contents["history"])
    except FileError:
        raise FileError(_damaged(path)) from None
    step = contents["step"]
    random_state = contents["random_state"]
    if not isinstance(step, int) or step != len(history) or not isinstance(contents["optimizer"], dict):
        raise FileError(_damaged(path))
    if not isinstance(random_state, Tensor) or random_state.dtype != torch.uint8:
        raise FileError(_damaged(path))
    schedule_name, schedule = contents.get("schedule_name", ""), contents.get("schedule", {})
    if not isinstance(schedule_name, str) or not isinstance(schedule, dict):
        raise FileError(_damaged(path))
    return Checkpoint(step, now, best, contents["optimizer"], random_state, history, schedule_name, schedule)


def _contents(path: Path, expected: int) -> dict:
    """The dictionary in the file, of the right format and version."""
    contents = read_archive(path, KIND, VERSION, SLACK + VECTORS * expected)
    missing = {"step", "names", "now", "best", "optimizer_name", "optimizer", "random_state", "history"} - set(contents)
    if missing or not isinstance(contents["names"], list):
        raise FileError(_damaged(path))
    return contents


def _snapshot(
    path: Path, names: list, part: object, shapes: dict[str, tuple[int, ...]], buffers: dict[str, tuple[int, ...]]
) -> Snapshot:
    """One set of tensors of the file, checked against the shapes of the field's own."""
    parameters = part.get("parameters") if isinstance(part, dict) else None
    found = part.get("buffers") if isinstance(part, dict) else None
    if not isinstance(parameters, list) or not isinstance(found, dict) or len(names) != len(parameters):
        raise FileError(_damaged(path))
    _check_shapes(path, "parameter", dict(zip(names, parameters, strict=True)), shapes)
    _check_shapes(path, "buffer", found, buffers)
    if names != list(shapes):
        raise FileError(f"checkpoint {path} is for another field: its parameters come in another order")
    return Snapshot(parameters, found)


def _check_shapes(path: Path, what: str, found: dict[str, Tensor], expected: dict[str, tuple[int, ...]]) -> None:
    for name in sorted(set(found) ^ set(expected)):
        where = "this field has no such" if name in found else "the checkpoint has no such"
        raise FileError(f"checkpoint {path} is for another field: {what} {name!r}, {where} {what}")
    for name, shape in expected.items():
        value = found[name]
        if not isinstance(value, Tensor) or tuple(value.shape) != shape:
            given = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise FileError(
                f"checkpoint {path} is for another field: {what} {name!r} has shape {given} there, {shape} here"
            )


def _damaged(path: Path) -> str:
    return f"checkpoint {path} is damaged or not a training checkpoint; delete it to start afresh, or restore a copy"


def plain(value: object, what: str = "optimizer") -> object:
    """The same, if it consists of tensors, numbers, strings and containers of these."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, dict):
        return {k: plain(v, what) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(plain(v, what) for v in value)
    raise TrainingError(
        f"the {what} keeps a {type(value).__name__} in its state, which a checkpoint cannot hold; "
        "train without checkpoint="
    )
