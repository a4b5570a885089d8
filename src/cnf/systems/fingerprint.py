"""Fingerprint: tells whether anything that a field depends on changed, however it was changed.

Version counters miss writes through `.data`, and a module depends on more than its tensors: on its type, its hooks, the
numbers, lists and arrays it keeps, the functions it was given and what those enclose. All of that is looked at. What
cannot be looked into is compared by identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

import numpy as np
import sympy as sp
import torch
from torch import Tensor, nn

WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, sp.Basic)


def fingerprint(tensors: Sequence[Tensor]) -> tuple:
    """One entry per tensor: shape, dtype, device and a checksum of the bits."""
    return tuple((tuple(t.shape), t.dtype, str(t.device), _checksum(t.detach())) for t in tensors)


def fingerprint_of(part: object) -> object:
    """A hashable value that changes with anything that `part` depends on."""
    return _Reader().read(part)


class _Same:
    """Compared by identity; keeps its object alive, so that the identity stays its own."""

    def __init__(self, kept: object):
        self.kept = kept

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.kept is self.kept

    def __hash__(self) -> int:
        return id(self.kept)


class _Reader:
    def __init__(self) -> None:
        self._seen: dict[int, int] = {}  # what was read already: objects may refer to each other in circles
        self._alive: list[object] = []  # so that no identity is given twice meanwhile

    def read(self, part: object) -> object:
        if isinstance(part, PLAIN):
            return (type(part), repr(part) if isinstance(part, float | complex) else part)
        if id(part) in self._seen:
            return ("seen", self._seen[id(part)])
        self._seen[id(part)] = len(self._seen)
        self._alive.append(part)
        if isinstance(part, Tensor):
            return fingerprint([part])
        if isinstance(part, np.ndarray):
            content = self.read(part.tolist()) if part.dtype.hasobject else part.tobytes()
            return (part.shape, str(part.dtype), content)
        if isinstance(part, dict):
            return (type(part), tuple((self.read(k), self.read(v)) for k, v in part.items()))
        if isinstance(part, list | tuple):
            return (type(part), tuple(self.read(v) for v in part))
        if isinstance(part, set | frozenset):
            return (type(part), frozenset(self.read(v) for v in part))
        return self._read_object(part)

    def _read_object(self, part: object) -> object:
        if isinstance(part, MethodType):
            return (self.read(part.__func__), self.read(part.__self__))
        if isinstance(part, FunctionType):
            enclosed = [self._cell(cell) for cell in part.__closure__ or ()]
            return (part.__code__, self.read(part.__defaults__), self.read(part.__kwdefaults__), tuple(enclosed))
        if isinstance(part, partial):
            return (self.read(part.func), self.read(part.args), self.read(part.keywords))
        if isinstance(part, type | ModuleType | BuiltinFunctionType | torch.jit.ScriptFunction):
            return _Same(part)
        if isinstance(part, torch.jit.ScriptModule):
            tensors = fingerprint([*part.parameters(), *part.buffers()])
            return (_Same(part), tensors, tuple(m.training for m in part.modules()))
        kept = getattr(part, "__dict__", None)
        if kept is None:
            return _Same(part)
        forward = self.read(getattr(type(part), "forward", None)) if isinstance(part, nn.Module) else None
        return (_Same(type(part)), forward, tuple((name, self.read(value)) for name, value in kept.items()))

    def _cell(self, cell) -> object:
        try:
            return self.read(cell.cell_contents)
        except ValueError:  # not filled yet
            return None


def _checksum(tensor: Tensor) -> int:
    if not tensor.numel():
        return 0
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    words = tensor.contiguous().reshape(-1).view(WORDS[tensor.element_size()]).to(torch.int64)
    # Odd multipliers that depend on the position: wrap-around sums of these notice swaps as well as changes.
    ramp = torch.arange(words.numel(), device=words.device, dtype=torch.int64) * 0x5851F42D4C957F2D + 1
    mixed = (words ^ (words >> 29)) * (ramp | 1)
    return int((mixed ^ (mixed >> 32)).sum())
