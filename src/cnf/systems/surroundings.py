"""Surroundings: what a solution cannot have copies of, watched, so that it refuses to answer once that changed."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from types import FunctionType

import numpy as np
import torch
from torch import Tensor, nn

from cnf.errors import CnfError
from cnf.systems.fingerprint import PLAIN, fingerprint_of, is_installed, tensors_in

SIMPLE = (*PLAIN, Tensor, np.ndarray)
OUT_OF_DATE = "this solution is out of date: {} changed after the solve. Solve again: field.solve()"


class Surroundings:
    """What copies share with others: tensors by their content, names by what they stand for."""

    def __init__(self) -> None:
        self._tensors: dict[int, tuple[object, object]] = {}
        self._names: dict[tuple[int, str], tuple[Mapping, str, object]] = {}
        self._versions: list[tuple[Tensor, int]] = []

    def watch(self, part: object) -> None:
        """Every tensor and array in reach of `part` now, not what it records later; of a library's object its own."""
        foreign = is_installed(type(part)) and not isinstance(part, dict | list | set | tuple | nn.Module)
        near = [v for v in getattr(part, "__dict__", {}).values() if isinstance(v, Tensor | np.ndarray)]
        for tensor in near if foreign else tensors_in(part):
            self._tensors.setdefault(id(tensor), (tensor, fingerprint_of(tensor)))

    def watch_name(self, space: Mapping, name: str) -> bool:
        """A global, or an entry of a class, by what it stands for; True if that is new."""
        value = space[name]
        if (id(space), name) in self._names or (isinstance(value, type) and is_installed(value)):
            return False
        self._names[id(space), name] = (space, name, _meaning(value))
        if not isinstance(value, (*SIMPLE, FunctionType, type)):
            self.watch(value)
        return True

    def watch_versions(self, tensors: Iterable[Tensor]) -> None:
        """Tensors that nobody should change: in-place operations are noticed, at no cost."""
        self._versions += [(t, t._version) for t in tensors if not t.is_inference()]

    def __deepcopy__(self, memo: dict) -> Surroundings:
        """Functions and classes are not copied by that, so what they find outside stays the same; constraints are."""
        made = Surroundings()
        made._tensors, made._names = dict(self._tensors), dict(self._names)
        if all(t._version == version for t, version in self._versions):
            made.watch_versions(copy.deepcopy(t, memo) for t, _ in self._versions)
        else:
            made._versions = list(self._versions)
        return made

    def __reduce__(self) -> tuple:
        """Elsewhere there is nothing to watch."""
        return Surroundings, ()

    def check(self) -> None:
        """Refuse if anything changed."""
        for space, name, meaning in self._names.values():
            if _meaning(space.get(name)) != meaning:
                raise CnfError(OUT_OF_DATE.format(f"{name!r}, which a network or function in it uses,"))
        if any(fingerprint_of(tensor) != known for tensor, known in self._tensors.values()):
            raise CnfError(OUT_OF_DATE.format("a tensor that a hook, a function or a global of it uses"))
        if any(tensor._version != version for tensor, version in self._versions):
            raise CnfError(OUT_OF_DATE.format("the points, values or coefficients of a constraint"))


def _meaning(value: object) -> object:
    if isinstance(value, SIMPLE):
        return fingerprint_of(value)
    return getattr(value, "__code__", None) or id(value)


class Guarded(nn.Module):
    """A script, which cannot be copied with its graph: the original (`known`) refuses once it was changed.

    It refuses to be differentiated as well: from its second run on, the tangents of forward mode get lost in a script
    (torch 2.13), and every derivative is zero without a word.
    """

    def __init__(self, module: torch.jit.ScriptModule, known: object = None):
        super().__init__()
        self.module, self._known = module, known

    def forward(self, x: Tensor) -> Tensor:
        if torch._C._are_functorch_transforms_active():
            raise CnfError(
                "a network made by torch.jit has no derivatives that can be relied on; for conditions on derivatives "
                "give the field the network itself, before torch.jit.script or torch.jit.trace"
            )
        if self._known is not None and fingerprint_of(self.module) != self._known:
            raise CnfError(OUT_OF_DATE.format("the scripted network in it"))
        return self.module(x)
