"""Holding: copies of modules and conditions that later changes do not reach, so that a solution is a value.

Parameters are cloned, not detached: gradients still reach the originals, but an optimiser that overwrites those leaves
the copies alone. Modules are copied with everything they keep; constraints only where something learnable is in them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import MethodType
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from cnf.bases.basis import Basis
from cnf.bases.part import is_ours
from cnf.constraints import Constraint
from cnf.errors import CnfError
from cnf.operators.operator import Operator

Part = TypeVar("Part")


class Holder:
    """Copies parts of one field; what they share (a parameter in basis and operator) is shared by the copies too."""

    def __init__(self, detach: bool = False) -> None:
        """`detach`: copies of everything, objects of this package included, that no graph leads away from."""
        self._detach = detach
        self._known: dict[int, tuple[object, object]] = {}  # id -> (original, kept alive; copy)

    def held(self, part: Part) -> Part:
        """The copy of a module, tensor, constraint, operator or container; anything else is returned as it is."""
        if id(part) in self._known:
            return self._known[id(part)][1]  # type: ignore[return-value]
        make = self._maker(part)
        return part if make is None else make(part)  # type: ignore[return-value]

    def _maker(self, part: object) -> Callable[[Any], object] | None:
        if self._detach and not isinstance(part, Tensor | nn.Module | type) and is_ours(type(part)):
            return self._object
        for kind, make in (
            (Tensor, self._tensor),
            (nn.Module, self._module),
            (Constraint, self._constraint),
            (Operator, self._operator),
            (list | tuple | dict | set, self._container),
            (MethodType, self._method),
            (np.ndarray, self._array),
        ):
            if isinstance(part, kind):
                return make
        return None

    def _keep(self, part: object, made: object) -> object:
        self._known[id(part)] = (part, made)
        return made

    def _tensor(self, tensor: Tensor) -> object:
        return self._keep(tensor, tensor.detach().clone() if self._detach else tensor.clone())

    def _object(self, part: object) -> object:
        """A value of this package with copies of all it keeps."""
        if isinstance(part, tuple | float) or not hasattr(part, "__dict__"):
            return part
        made = self._keep(part, copy.copy(part))
        for name, value in vars(part).items():
            made.__dict__[name] = self.held(value)
        return made

    def _array(self, array: np.ndarray) -> object:
        return self._keep(array, array.copy())

    def _module(self, module: nn.Module) -> object:
        if isinstance(module, torch.jit.ScriptModule):
            return self._keep(module, self._scripted(module))
        plain = getattr(module, "_orig_mod", None)
        if isinstance(plain, nn.Module):  # compiled code is tied to the original's tensors
            return self._keep(module, self.held(plain))
        made = type(module).__new__(type(module))
        self._keep(module, made)
        made.__dict__.update({name: self.held(value) for name, value in module.__dict__.items()})
        return made

    def _scripted(self, module: torch.jit.ScriptModule) -> nn.Module:
        """Attributes of compiled modules live outside Python: a copy cannot stay in the graph of the original."""
        if torch.is_grad_enabled() and any(p.requires_grad for p in module.parameters()):
            return Guarded(module)
        return copy.deepcopy(module)

    def _constraint(self, constraint: Constraint) -> object:
        operator, side = self._operator(constraint.operator), constraint.right_hand_side
        source, data = self._learnable(side.source), {k: self._learnable(v) for k, v in side.data.items()}
        if (
            operator is constraint.operator
            and source is side.source
            and all(data[k] is v for k, v in side.data.items())
        ):
            return constraint
        side = replace(side, source=source, data=data)  # type: ignore[arg-type]
        return self._keep(constraint, replace(constraint, operator=operator, right_hand_side=side))  # type: ignore[arg-type]

    def _operator(self, operator: Operator) -> object:
        if id(operator) in self._known:
            return self._known[id(operator)][1]
        data = tuple((name, self._learnable(value)) for name, value in operator.data)
        if all(new is old for (_, new), (_, old) in zip(data, operator.data, strict=True)):
            return operator
        return self._keep(operator, replace(operator, data=data))  # type: ignore[arg-type]

    def _learnable(self, value: object) -> object:
        """Tables of coefficients belong to their constraint; numbers and networks that training moves are copied."""
        moves = isinstance(value, nn.Module) or (isinstance(value, Tensor) and value.requires_grad)
        return self.held(value) if moves else value

    def _container(self, container: Any) -> object:
        if isinstance(container, dict):
            entries = {key: self.held(value) for key, value in container.items()}
            same = type(container) is dict or not hasattr(container, "copy")
            return self._keep(container, entries if same else _refilled(container, entries))
        items = [self.held(value) for value in container]
        if isinstance(container, tuple) and all(a is b for a, b in zip(items, container, strict=True)):
            return container
        if hasattr(container, "_fields"):
            return self._keep(container, type(container)(*items))
        return self._keep(container, type(container)(items))

    def _method(self, method: MethodType) -> object:
        owner = self.held(method.__self__)
        return method if owner is method.__self__ else MethodType(method.__func__, owner)


@dataclass(frozen=True, eq=False)
class Parts:
    """What a solution is made of, as it is at one moment: later changes of the field do not reach it."""

    basis: Basis
    base: nn.Module | None
    constraints: tuple[Constraint, ...]
    seconds: float = 0.0  # that planning took

    @staticmethod
    def held(field: Any) -> Parts:
        """The basis, base and constraints of a field."""
        holder = Holder()
        return Parts(*(holder.held(part) for part in (field.basis, field.base, field.constraints)))


class Guarded(nn.Module):
    """A module that cannot be copied with its graph: it refuses to be evaluated once its tensors were overwritten."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module
        self._versions = self._now()

    def _now(self) -> tuple[int, ...]:
        return tuple(t._version for t in (*self.module.parameters(), *self.module.buffers()))

    def forward(self, x: Tensor) -> Tensor:
        if self._now() != self._versions:
            raise CnfError(
                "this solution is out of date: the scripted network in it was changed after the solve. Solve again: "
                "field.solve()"
            )
        return self.module(x)


def _refilled(container: dict, items: dict) -> dict:
    """A dictionary of the same kind (ordered, with a default) with other values."""
    made = container.copy()
    made.update(items)
    return made
