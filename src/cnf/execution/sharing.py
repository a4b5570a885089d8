"""Sharing: a value whose large arrays are in files that every process on this machine maps into its memory.

However many processes look at them, the system holds them once, and gives them up where memory is short. The value
itself, with paths in place of its arrays, is small and can be sent. Tensors go as arrays, and are tensors again there.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

LARGE = 1 << 16  # bytes from which on an array is put into a file


@dataclass(frozen=True)
class _Filed:
    """Stands for an array."""

    path: str


@dataclass(frozen=True)
class _AsTensor:
    """Stands for a tensor: its numbers, or the file they are in."""

    array: Any


@dataclass
class Mapped:
    """A value with `_Filed` for its arrays; each process opens it once."""

    value: Any
    opened: list[Any] = field(default_factory=list)

    def open(self) -> Any:
        if not self.opened:
            self.opened.append(_replace(self.value, _Filed | _AsTensor, _opened))
        return self.opened[0]

    def __getstate__(self) -> dict[str, Any]:
        return {"value": self.value, "opened": []}


def _opened(kept: _Filed | _AsTensor) -> Any:
    if isinstance(kept, _Filed):
        return np.load(kept.path, mmap_mode="r")
    import torch

    array = kept.array if isinstance(kept.array, np.ndarray) else np.load(kept.array.path)
    return torch.from_numpy(array)  # not of a mapped one, into which it could be written


def file_arrays(value: Any, folder: Path) -> Mapped:
    """Write the large arrays of a value (dataclasses, dictionaries, lists, tuples) to a folder."""
    import torch

    known: dict[int, tuple[_Filed, np.ndarray]] = {}  # an array that is in two places goes to one file

    def put(array: np.ndarray) -> Any:
        if array.nbytes < LARGE:
            return array
        if id(array) not in known:
            path = folder / f"{len(list(folder.iterdir()))}.npy"
            np.save(path, array, allow_pickle=False)
            known[id(array)] = _Filed(str(path)), array  # kept, so that nothing else gets its identity
        return known[id(array)][0]

    def put_any(given: Any) -> Any:
        return put(given) if isinstance(given, np.ndarray) else _AsTensor(put(given.detach().cpu().numpy()))

    return Mapped(_replace(value, np.ndarray | torch.Tensor, put_any))


def _replace(value: Any, kind: Any, change: Any) -> Any:
    """The value with everything of a kind changed, inside what holds it."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, dict):
        return {name: _replace(one, kind, change) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_replace(one, kind, change) for one in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type | _Filed | _AsTensor):
        own = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
        return dataclasses.replace(value, **{name: _replace(one, kind, change) for name, one in own.items()})
    return value
