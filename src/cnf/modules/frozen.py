"""Frozen: any object of this library that is made of tensors, as a torch module that holds them.

In comes an evaluator, say, with its kernel, its points and its numbers; the module keeps every tensor as a buffer and
every module as a part of its own, without gradients, and `thing()` puts them together to the same object again. So
whatever moves a module (`.to`, `state_dict`, compiling, tracing) moves the object with it.
"""

from __future__ import annotations

import copy
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from cnf.bases.part import is_ours
from cnf.errors import CnfError

PLAIN = (int, float, complex, str, bool, type(None), torch.dtype)
Pattern = tuple[Any, ...]
Module = TypeVar("Module", bound=nn.Module)


class Frozen(nn.Module):
    """The tensors of an object; see the module's first lines."""

    def __init__(self, thing: object):
        super().__init__()
        self.parts = nn.ModuleList()
        self._count = 0
        self._pattern = self._taken(thing, {})

    def thing(self) -> Any:
        """The object, made of what the module holds now."""
        return self._made(self._pattern)

    def _taken(self, part: Any, known: dict[int, Pattern]) -> Pattern:
        if isinstance(part, PLAIN):
            return ("plain", part)
        if id(part) not in known:
            known[id(part)] = self._pattern_of(part, known)
        return known[id(part)]

    def _pattern_of(self, part: Any, known: dict[int, Pattern]) -> Pattern:
        if isinstance(part, Tensor):
            name, self._count = f"tensor_{self._count}", self._count + 1
            self.register_buffer(name, part.detach().clone())
            return ("tensor", name)
        if isinstance(part, np.ndarray):
            return ("array", self._pattern_of(torch.from_numpy(part), known)[1])
        if isinstance(part, nn.Module):
            self.parts.append(copy_of(part))
            return ("module", len(self.parts) - 1)
        if type(part) in (list, tuple):
            return (type(part).__name__, [self._taken(item, known) for item in part])
        if type(part) is dict:
            return ("dict", list(part), [self._taken(item, known) for item in part.values()])
        if is_dataclass(part) and is_ours(type(part)):
            names = [entry.name for entry in fields(part) if entry.init]
            return ("object", type(part), names, [self._taken(getattr(part, name), known) for name in names])
        raise CnfError(f"a {type(part).__name__} cannot leave as a torch module: only tensors, modules and numbers can")

    def _made(self, pattern: Pattern) -> Any:
        kind, given = pattern[0], pattern[1]
        if kind == "plain":
            return given
        if kind == "tensor":
            return getattr(self, given)
        if kind == "array":
            return getattr(self, given).cpu().numpy()
        if kind == "module":
            return self.parts[given]
        if kind == "list":
            return [self._made(item) for item in given]
        if kind == "tuple":
            return tuple([self._made(item) for item in given])
        if kind == "dict":
            return {key: self._made(item) for key, item in zip(given, pattern[2], strict=True)}
        return given(**{name: self._made(item) for name, item in zip(pattern[2], pattern[3], strict=True)})


def copy_of(module: Module) -> Module:
    """A copy without gradients, whatever graph its tensors are part of."""
    memo: dict[int, Any] = {}
    for part in module.modules():
        for name, tensor in (*part._parameters.items(), *part._buffers.items()):
            if tensor is not None and id(tensor) not in memo:
                made = tensor.detach().clone()
                is_parameter = name in part._parameters
                memo[id(tensor)] = nn.Parameter(made, requires_grad=False) if is_parameter else made
    try:
        return copy.deepcopy(module, memo)
    except Exception as error:  # anything may be raised by what cannot be copied: a lock, a file
        raise CnfError(
            f"a {type(module).__name__} cannot leave with the field, for it cannot be copied ({error}); use networks "
            "that copy.deepcopy can copy"
        ) from None
