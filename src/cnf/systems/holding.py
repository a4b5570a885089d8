"""Holding: copies of modules and conditions that later changes do not reach, so that a solution is a value.

Tensors are cloned, not detached: gradients still reach the originals, but an optimiser that overwrites those leaves the
copies alone. A module is copied with everything it keeps; a function is made anew if it encloses tensors or modules.
What a function or a class finds outside (globals, objects that it shares with others, such as a list in which a hook
keeps records) cannot be copied: it is watched, and a solution whose surroundings changed refuses to answer.
"""

from __future__ import annotations

import copy
import weakref
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from cnf.bases.basis import Basis
from cnf.bases.ties import Guide, Tie
from cnf.constraints import Constraint
from cnf.operators.operator import Operator
from cnf.systems.fingerprint import (
    COMPILED,
    CONTAINERS,
    PLAIN,
    derived_names,
    fingerprint_of,
    is_installed,
    named_globals,
    slots_of,
    written_in,
)
from cnf.systems.surroundings import Guarded, Surroundings

Part = TypeVar("Part")

AS_IT_IS = (*PLAIN, type, ModuleType)
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


@dataclass(frozen=True, eq=False)
class Parts:
    """What a solution is made of, as it is at one moment: later changes of the field do not reach it."""

    basis: Basis
    base: nn.Module | None
    constraints: tuple[Constraint, ...]
    surroundings: Surroundings
    statistics: tuple[Statistic, ...] = ()
    seconds: float = 0.0  # that planning took

    def return_statistics(self) -> None:
        """Buffers that the networks themselves updated when they were evaluated, as running averages are, go back."""
        for statistic in self.statistics:
            statistic.put_back()


def hold_parts(basis: Basis, base: nn.Module | None, constraints: tuple[Constraint, ...]) -> Parts:
    """Copies of the parts of one field."""
    holder = Holder()
    held = (holder.held(basis), holder.held(base), holder.held(constraints))
    return Parts(*held, holder.surroundings, tuple(holder.statistics))


@dataclass(frozen=True, eq=False)
class Statistic:
    """A buffer of a module in training mode, and the same buffer of its copy."""

    module: nn.Module
    copy: nn.Module
    name: str
    value: Tensor  # of the copy, at first

    def put_back(self) -> None:
        now = self.copy._buffers.get(self.name)
        if now is None or now.is_inference() or (now is self.value and now._version == 0):
            return
        self.module._buffers[self.name] = now.detach().clone()


class Holder:
    """Copies parts of one field; what they share (a parameter in basis and operator) is shared by the copies too."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, object]] = {}  # id -> (original, kept alive; copy)
        self._classes: set[type] = set()
        self.surroundings = Surroundings()
        self.statistics: list[Statistic] = []

    def held(self, part: Part) -> Part:
        """The copy of anything that a module keeps; numbers, names and the library's own values stay as they are."""
        if isinstance(part, AS_IT_IS):
            return part
        if type(part) in CONTAINERS and not part:
            return type(part)()
        if id(part) in self._known:
            return self._known[id(part)][1]  # type: ignore[return-value]
        return self._maker(part)(part)

    def _maker(self, part: object) -> Callable[[Any], Any]:
        for kind, make in (
            (Tensor, self._tensor),
            (nn.Module, self._module),
            (dict | list | tuple | set | frozenset, self._container),
            (np.ndarray, self._array),
            (Constraint, self._constraint),
            (Tie | Guide, self._brought),
            (Operator, self._operator),
            (FunctionType | MethodType | partial, self._callable),
        ):
            if isinstance(part, kind):
                return make
        return self._object

    def _keep(self, part: object, made: Any) -> Any:
        self._known[id(part)] = (part, made)
        return made

    def _tensor(self, tensor: Tensor) -> object:
        return self._keep(tensor, tensor.clone())

    def _array(self, array: np.ndarray) -> object:
        return self._keep(array, array.copy())

    # -- modules and objects -------------------------------------------------------------------------------------

    def _module(self, module: nn.Module) -> object:
        if isinstance(module, torch.jit.ScriptModule):
            return self._keep(module, self._scripted(module))
        plain = getattr(module, "_orig_mod", None)
        if isinstance(plain, nn.Module):  # compiled code is tied to the original's tensors
            return self._keep(module, self.held(plain))
        made = self._filled(module)
        for name in HOOKS:
            hooks = vars(module).get(name)
            if hooks:
                vars(made)[name] = OrderedDict((key, self._shared(hook)) for key, hook in hooks.items())
        if vars(module).get(COMPILED) is not None:
            vars(made)[COMPILED] = None
        if module.training:
            self.statistics += [Statistic(module, made, n, b) for n, b in made._buffers.items() if b is not None]
        return made

    def _filled(self, part: object) -> Any:
        """An object of the same class with copies of all attributes; its own methods take no part in it."""
        made = self._keep(part, _blank(type(part)))
        kept = getattr(part, "__dict__", None)
        if kept:
            left = (*HOOKS, COMPILED, *derived_names(part))
            made.__dict__.update({n: value if n in left else self.held(value) for n, value in kept.items()})
        for name, value in slots_of(part):
            object.__setattr__(made, name, self.held(value))
        self._watch_class(type(part))
        return made

    def _watch_class(self, kind: type) -> None:
        if kind in self._classes:
            return
        self._classes.add(kind)
        for k in kind.__mro__:
            for name, value in () if is_installed(k) else written_in(k):
                self.surroundings.watch_name(vars(k), name)
                for function in (value, getattr(value, "fget", None), getattr(value, "__func__", None)):
                    if isinstance(function, FunctionType):
                        self._watch_function(function)

    def _watch_function(self, function: FunctionType) -> None:
        for space, name in named_globals(function):
            value = space[name]
            if not self.surroundings.watch_name(space, name):
                continue
            if isinstance(value, FunctionType):
                self._watch_function(value)
            elif isinstance(value, type):
                self._watch_class(value)

    def _scripted(self, module: torch.jit.ScriptModule) -> nn.Module:
        """Attributes of scripts live outside Python: a copy cannot stay in the graph of the original."""
        learnt = torch.is_grad_enabled() and any(p.requires_grad for p in module.parameters())
        return Guarded(module, fingerprint_of(module)) if learnt else Guarded(copy.deepcopy(module))

    def _object(self, part: object) -> object:
        """Objects of Python classes attribute by attribute, others as they say they are rebuilt, if they do."""
        if type(part).__module__.partition(".")[0] == "cnf":  # frozen values
            return part
        if isinstance(part, weakref.ref):
            target = part()
            return part if target is None else self._keep(part, weakref.ref(self.held(target)))
        if not hasattr(part, "__dict__") and not any(True for _ in slots_of(part)):
            return self._rebuilt(part)
        if is_installed(type(part)):  # it may hold on to half a program: a logger, a trainer
            self.surroundings.watch(part)
            return part
        return self._rebuilt(part) if _blank(type(part)) is None else self._filled(part)

    def _rebuilt(self, part: Any) -> object:
        try:
            rebuilt = part.__reduce_ex__(4)
            if isinstance(rebuilt, str):
                return part
            make, given, state, items, entries = (*rebuilt, None, None, None)[:5]
            made = self._keep(part, make(*(self.held(argument) for argument in given)))
        except Exception:  # anything may be raised by what cannot be taken apart: a lock, a file
            return part
        if hasattr(made, "__setstate__") and state is not None:
            made.__setstate__(self.held(state))
        elif isinstance(state, dict):
            vars(made).update(self.held(state))
        for item in items or ():
            made.append(self.held(item))
        for key, value in entries or ():
            made[self.held(key)] = self.held(value)
        return made

    def _container(self, container: Any) -> object:
        kind = type(container)
        if kind is dict or kind is OrderedDict:
            made = self._keep(container, kind())
            for key, value in container.items():
                made[self.held(key)] = self.held(value)
            return made
        if kind is list:
            made = self._keep(container, [])
            made.extend(self.held(value) for value in container)
            return made
        if kind not in (tuple, set, frozenset) and not hasattr(kind, "_fields"):
            return self._rebuilt(container)
        items = [self.held(value) for value in container]
        if kind is not set and all(a is b for a, b in zip(items, container, strict=True)):
            return container
        return self._keep(container, kind(*items) if hasattr(kind, "_fields") else kind(items))

    # -- functions -----------------------------------------------------------------------------------------------

    def _shared(self, part: Any) -> Any:
        """The copy of something that a function encloses: others may look at it too, so objects stay as they are."""
        if isinstance(part, Tensor | nn.Module | np.ndarray | FunctionType | partial):
            return self.held(part)
        if isinstance(part, MethodType) and isinstance(part.__self__, nn.Module):
            return self.held(part)
        if isinstance(part, tuple):
            items = [self._shared(value) for value in part]
            return part if all(a is b for a, b in zip(items, part, strict=True)) else tuple(items)
        if not isinstance(part, AS_IT_IS):
            self.surroundings.watch(part)
        return part

    def _callable(self, part: Any) -> object:
        if isinstance(part, MethodType):
            owner = self.held(part.__self__)
            return part if owner is part.__self__ else MethodType(self.held(part.__func__), owner)
        if isinstance(part, partial):
            func, args = self._shared(part.func), tuple(self._shared(a) for a in part.args)
            return self._keep(part, partial(func, *args, **{k: self._shared(v) for k, v in part.keywords.items()}))
        plain = getattr(part, "_torchdynamo_orig_callable", None)
        if plain is not None:  # compiled code is tied to the original's tensors
            return self._keep(part, self.held(plain))
        return self._function(part)

    def _function(self, function: FunctionType) -> object:
        self._watch_function(function)
        cells = [cell for cell in function.__closure__ or () if _is_filled(cell)]
        self._keep(function, function)  # if it encloses itself
        contents = [self._shared(cell.cell_contents) for cell in cells]
        defaults = self._shared(function.__defaults__)
        named = {name: self._shared(value) for name, value in (function.__kwdefaults__ or {}).items()}
        same = all(new is cell.cell_contents for new, cell in zip(contents, cells, strict=True))
        same = same and all(value is function.__kwdefaults__[name] for name, value in named.items())  # type: ignore[index]
        if same and defaults is function.__defaults__:
            return function
        new = {id(cell): CellType(value) for cell, value in zip(cells, contents, strict=True)}
        closure = tuple(new.get(id(cell), cell) for cell in function.__closure__ or ())
        made = FunctionType(function.__code__, function.__globals__, function.__name__, defaults, closure)
        made.__kwdefaults__ = named or None
        vars(made).update(vars(function))
        for cell in closure:
            if _is_filled(cell) and cell.cell_contents is function:
                cell.cell_contents = made
        return self._keep(function, made)

    # -- conditions ----------------------------------------------------------------------------------------------

    def _constraint(self, constraint: Constraint) -> object:
        """Made anew only if anything in it can be learnt: losses know their constraints by identity."""
        operator, side = self._operator(constraint.operator), constraint.right_hand_side
        source, data = self._learnable(side.source), {k: self._learnable(v) for k, v in side.data.items()}
        points = self._learnable(constraint.points)  # values follow from the right-hand side
        nonlinear = None if constraint.nonlinear is None else constraint.nonlinear.with_data(self._learnable)
        tables = (side.source, *side.data.values(), *(v for _, v in constraint.operator.data))
        self.surroundings.watch_versions(t for t in (points, constraint.values, *tables) if _is_table(t))
        if (
            operator is constraint.operator
            and nonlinear is constraint.nonlinear
            and source is side.source
            and points is constraint.points
            and all(data[k] is v for k, v in side.data.items())
        ):
            return constraint
        side = replace(side, source=source, data=data)
        made = replace(constraint, operator=operator, right_hand_side=side, points=points, nonlinear=nonlinear)
        return self._keep(constraint, made)

    def _brought(self, part: Tie | Guide) -> object:
        """What functions bring along holds conditions, with what can be learnt in them."""
        names = [f.name for f in fields(part) if isinstance(getattr(part, f.name), Constraint)]
        made = {name: self.held(getattr(part, name)) for name in names}
        return part if all(made[name] is getattr(part, name) for name in names) else replace(part, **made)

    def _operator(self, operator: Operator) -> Any:
        if id(operator) in self._known:
            return self._known[id(operator)][1]
        data = tuple((name, self._learnable(value)) for name, value in operator.data)
        if all(new is old for (_, new), (_, old) in zip(data, operator.data, strict=True)):
            return operator
        return self._keep(operator, replace(operator, data=data))

    def _learnable(self, value: Any) -> Any:
        """Tables of coefficients belong to their constraint; what training may move is copied."""
        return value if _is_table(value) else self._shared(value)


def _blank(kind: type) -> Any:
    """A new object of a class of Python without attributes; None if the class derives from another kind."""
    try:
        return object.__new__(kind)
    except TypeError:
        return None


def _is_filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _is_table(value: object) -> bool:
    return isinstance(value, Tensor) and not value.requires_grad
