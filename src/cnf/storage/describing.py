"""Describing: every part of a field as plain data (tensors, numbers, strings).

A part is described by the name of its class and its constructor arguments (its `config()`), a condition by its normal
form. What occurs twice (a kernel in two bases, a constraint in basis and field, a learnable number in two operators) is
described once and referred to, so that it is one thing again afterwards. What has no description (your own basis, a
network of your own class, a callable coefficient) is marked as `given` and asked for when the file is read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import replace

import sympy as sp
from torch import Tensor, nn

from cnf.bases.layers import RULES
from cnf.bases.part import Part, find_final
from cnf.constraints import Constraint, Space
from cnf.errors import CnfError
from cnf.operators.operator import Term
from cnf.operators.reader.names import Component
from cnf.solvers import Method
from cnf.storage.expressions import describe_expression

LAYERS: dict[str, type] = {k.__name__: k for k in RULES if k.__module__.startswith("torch.nn.")}
BASIS = "basis."
HIGHEST = 64  # order of a derivative


class Describer:
    """Describes the parts of one field; `owned` are the parameters of its modules, by identity -> name."""

    def __init__(self, owned: Mapping[int, str] | None = None):
        self.numbers: list[dict] = []  # the learnable numbers in conditions
        self._owned = owned or {}
        self._known: dict[int, tuple[object, object]] = {}  # id -> (the object, kept alive; where it was described)
        self._roles: dict[str, object] = {}

    def described(self, value: object, path: str) -> object:
        """Any constructor argument; `path` is where it belongs, such as basis.kernel."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, Tensor):
            return value
        if isinstance(value, list | tuple):
            return [self.described(v, f"{path}.{k}") for k, v in enumerate(value)]
        if isinstance(value, Space):
            return _described_space(value)
        if not isinstance(value, Constraint | nn.Module):
            raise CnfError(f"{path} of type {type(value).__name__} cannot be saved")
        if id(value) in self._known:
            return {"part": "Same", "as": self._known[id(value)][1]}
        self._known[id(value)] = (value, path)
        return self._constraint(value, path) if isinstance(value, Constraint) else self._module(value, path)

    def _module(self, module: nn.Module, path: str) -> dict:
        kind = type(module)
        role = path.removeprefix(BASIS)
        if module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module):
            return self._given(module, role)  # what was hung on it cannot be described
        if find_final(Part).get(kind.__name__) is kind and isinstance(module, Part):
            arguments = {k: self.described(v, f"{path}.{k}") for k, v in module.config().items()}
            return {"part": kind.__name__, "arguments": arguments}
        if LAYERS.get(kind.__name__) is not kind:
            return self._given(module, role)
        if isinstance(module, nn.Sequential):
            layers = {k: self.described(layer, f"{path}.{k}") for k, layer in module._modules.items()}
            return {"part": kind.__name__, "layers": layers}  # children() would skip a layer that occurs twice
        constants = {name: getattr(module, name) for name in getattr(kind, "__constants__", ())}
        if isinstance(module, nn.Linear):
            constants["bias"] = module.bias is not None
        return {"part": kind.__name__, "arguments": constants}

    def _given(self, value: object, name: str) -> dict:
        """Asked for by name when the file is read; another object that goes by that name gets a number behind it."""
        role, count = name, 2
        while self._roles.setdefault(role, value) is not value:
            role, count = f"{name}_{count}", count + 1
        kind = type(value).__name__ if isinstance(value, nn.Module) else "callable"
        return {"part": "given", "role": role, "type": kind}

    # -- conditions ----------------------------------------------------------------------------------------------

    def _constraint(self, constraint: Constraint, path: str) -> dict:
        operator, side, nonlinear = constraint.operator, constraint.right_hand_side, constraint.nonlinear
        beyond = {}
        if nonlinear is not None:
            operator = replace(
                nonlinear.linear, data=tuple((dict(nonlinear.linear.data) | dict(nonlinear.data)).items())
            )
            beyond = {"beyond": [describe_expression(e) for e in nonlinear.beyond]}
        return {
            "part": "Constraint",
            "name": constraint.name,
            "space": _described_space(Space(side.frame.coordinates, side.frame.channels, time=side.frame.time)),
            "rows": [[describe_term(term) for term in row] for row in operator.rows],
            "data": {name: self._datum(name, value, path) for name, value in operator.data},
            "side": self._side(side.source, path),
            "side_data": {name: self._datum(name, value, path) for name, value in side.data.items()},
            "points": constraint.points,
            "values": constraint.values if constraint.asked is None else constraint.asked,
            **beyond,
        }

    def _side(self, source: object, path: str) -> object:
        """A number, expressions, or something learnable; None if only the values at the points are kept."""
        if isinstance(source, float):
            return source
        if isinstance(source, tuple):
            return [describe_expression(e) for e in source]
        if isinstance(source, nn.Module) or (isinstance(source, Tensor) and source.requires_grad):
            return self._datum("right_hand_side", source, path)
        return None

    def _datum(self, name: str, value: object, path: str) -> object:
        """What a name in a condition stands for."""
        if isinstance(value, Tensor):
            return self._number(value) if value.requires_grad or isinstance(value, nn.Parameter) else value
        if isinstance(value, nn.Module):
            return self.described(value, name)
        if isinstance(value, Component):
            function = self._datum(name.rpartition("_")[0], value.function, path)
            return {"part": "Component", "function": function, "index": value.index}
        return self._given(value, name)

    def _number(self, value: Tensor) -> dict:
        if id(value) not in self._known:
            self._known[id(value)] = (value, len(self.numbers))
            trained = isinstance(value, nn.Parameter)
            grad = value.requires_grad and (trained or value.is_leaf)
            owner = self._owned.get(id(value))
            self.numbers.append({"value": value, "parameter": trained, "grad": grad, "of": owner})
        return {"part": "Number", "index": self._known[id(value)][1]}


def describe_term(term: Term) -> dict:
    """coefficient * derivatives of a channel at a place."""
    place = term.place
    if term.order > HIGHEST:
        raise CnfError(f"a condition with derivatives of order {term.order} cannot be saved; at most {HIGHEST}")
    return {
        "channel": term.channel,
        "coefficient": describe_expression(term.coefficient),
        "derivatives": [[name, order] for name, order in term.derivatives],
        "substitution": [[name, describe_expression(e)] for name, e in place.substitution],
        "integrals": [[_tree(i.variable), _tree(i.lower), _tree(i.upper)] for i in place.integrals],
    }


def _tree(expression: sp.Expr) -> object:
    return describe_expression(expression)


def describe_solver(solver: Method) -> dict:
    """A solver by its name and settings."""
    name = type(solver).__name__
    if find_final(Method).get(name) is not type(solver):
        raise CnfError(f"a field with the solver {name} cannot be saved; use one of cnf.solvers")
    if getattr(solver, "balls", None) is not None:
        raise CnfError("a field whose patches have given balls cannot be saved; leave `balls` out")
    settings = {f.name: getattr(solver, f.name) for f in dataclasses.fields(solver) if f.compare}  # type: ignore[arg-type]
    return {"part": name, "arguments": settings}


def _described_space(space: Space) -> dict:
    names = {"coordinates": list(space.coordinates), "channels": list(space.channels), "time": list(space.frame.time)}
    return {"part": "Space", "arguments": {**names, "vectors": {k: list(v) for k, v in space.vectors.items()}}}
