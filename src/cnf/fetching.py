"""Fetching: numbers that the host needs of tensors, wherever these are, all in one transfer.

A device works on while the host goes ahead, until the host asks for a number: then it waits for all that came before.
So what decides on the next line is asked for together. Tensors on the host are taken as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import torch
from torch import Tensor

from cnf.errors import CnfError


def is_here(tensor: Tensor) -> bool:
    """True on the host, where to look at a number costs nothing."""
    return tensor.device.type == "cpu"


def placed(number: Tensor, like: Tensor) -> Tensor:
    """A number () of the host where other tensors are: written there, which nobody has to wait for."""
    return number if is_here(like) or not is_here(number) else like.new_full((), number.item(), dtype=number.dtype)


def fetched(*tensors: Tensor) -> list[Tensor]:
    """The tensors on the host, without graph; those of one device come in one transfer.

    They travel in float64, which holds numbers of float32, truth values and indices as they are.
    """
    found = [t.detach() for t in tensors]
    away = [k for k, t in enumerate(found) if not is_here(t)]
    if not away:
        return found
    packed = torch.cat([found[k].to(torch.float64).reshape(-1) for k in away]).cpu()
    for k, part in zip(away, packed.split([found[k].numel() for k in away]), strict=True):
        found[k] = part.reshape(found[k].shape).to(found[k].dtype)
    return found


def numbers(*tensors: Tensor) -> list[float]:
    """Tensors of one element each as numbers."""
    return [float(t) for t in fetched(*tensors)]


def fetched_together(groups: Sequence[Sequence[Tensor]]) -> list[list[Tensor]]:
    """Groups of tensors on the host, in the same order; all of them in one transfer."""
    flat = iter(fetched(*(tensor for group in groups for tensor in group)))
    return [[next(flat) for _ in group] for group in groups]


def array_of(tensor: Tensor) -> np.ndarray:
    """The numbers as an array of float64 on the host: for searches of neighbours, which are made there."""
    return tensor.detach().to(torch.float64).cpu().numpy()


def sent(array: np.ndarray, like: Tensor) -> Tensor:
    """An array of the host as a tensor of its own precision where other tensors are: indices, most of the time."""
    return torch.from_numpy(array).to(like.device)


def as_device(given: object) -> torch.device | None:
    """A device by its name, refused if tensors cannot be put there; None stays None."""
    if given is None:
        return None
    with suppress(RuntimeError, AssertionError, NotImplementedError):
        device = torch.device(given) if isinstance(given, str | torch.device) else None
        if device is not None and torch.zeros((), device=device).cpu() == 0:  # "meta" has no numbers
            return device
    raise CnfError(f"there is no device {given!r} here; there is {', '.join(devices())}")


def devices() -> list[str]:
    """The devices on which tensors can be made here."""
    other = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    count = torch.accelerator.device_count() if other is not None else 0
    return ["cpu", *(f"{other.type}:{k}" for k in range(count) if other is not None)]
