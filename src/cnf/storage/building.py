"""Building: parts from their descriptions, which come from strangers.

Names are looked up among the classes of this package and nowhere else. Sizes are believed only as far as the tensors of
the file bear them out: whatever a part asks memory for is compared with those before it gets any.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from cnf.bases.basis import Basis
from cnf.bases.part import Part, find_final
from cnf.constraints import Constraint, Space
from cnf.errors import CnfError, FileError, nearest
from cnf.operators.reader.names import Component
from cnf.solvers import Method
from cnf.storage.conditions import build_condition
from cnf.storage.describing import BASIS, LAYERS

SLACK = 2**16  # numbers a part may have without a word of them in the file


class Allowance(TorchDispatchMode):
    """No tensor made inside may have more numbers than `most`; refused before memory is asked for."""

    def __init__(self, most: int):
        super().__init__()
        self.most = most

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        schema = getattr(func, "_schema", None)
        names = [argument.name for argument in schema.arguments] if schema is not None else []
        asked = {**dict(zip(names, args, strict=False)), **kwargs}.get("size")
        if isinstance(asked, list | tuple) and math.prod(asked) > self.most:
            raise FileError("the file asks for a part far larger than what it holds of it; it is not read")
        return func(*args, **kwargs)


@dataclass
class Builder:
    """Builds parts; `state` are the tensors of the file, `given` and `coefficients` what the caller passed."""

    state: Mapping[str, Tensor]
    given: Mapping[str, nn.Module] = field(default_factory=dict)
    coefficients: Mapping[str, object] = field(default_factory=dict)
    basis: Basis | None = None
    numbers: Sequence[dict] = ()  # descriptions of the learnable numbers in conditions
    asked: bool = False  # whether anything was taken from the caller
    _known: dict[str, object] = field(default_factory=dict)  # path -> part
    _made: dict[int, Tensor] = field(default_factory=dict)  # index -> learnable number
    _total: int = 0

    def __post_init__(self) -> None:
        self._held = SLACK + sum(t.numel() for t in self.state.values())

    def built(self, description: object, path: str):
        """The value of a constructor argument."""
        if path + "." == BASIS and self.basis is not None:
            self.asked = True
            return self.basis
        if isinstance(description, list):
            return [self.built(d, f"{path}.{k}") for k, d in enumerate(description)]
        if not isinstance(description, dict):
            return description
        part = description.get("part")
        if part == "Space":
            return Space(**description["arguments"])
        if part == "Same":
            return self._known[description["as"]]
        if part == "given":
            return self._given(description["role"])
        made = build_condition(self, description, path) if part == "Constraint" else self._module(description, path)
        self._known[path] = made
        return made

    def _module(self, description: dict, path: str) -> nn.Module:
        part = description["part"]
        if part == "Sequential":
            layers = [(name, self.built(d, f"{path}.{name}")) for name, d in description["layers"].items()]
            return nn.Sequential(OrderedDict(layers))
        parts = find_final(Part) | LAYERS
        if part not in parts:
            raise FileError(
                f"the file has a part {part!r:.60}, which this version of cnf does not know."
                + nearest(str(part), parts)
            )
        arguments = {k: self.built(v, f"{path}.{k}") for k, v in description["arguments"].items()}
        if part == "Linear":
            arguments["dtype"] = torch.float64
        with Allowance(self._held):
            module = parts[part](**arguments)
        own = (*module.parameters(recurse=False), *module.buffers(recurse=False))
        self._total += sum(t.numel() for t in own)
        if self._total > 4 * self._held:
            raise FileError("the file asks for parts far larger than what it holds of them; it is not read")
        return module

    def _given(self, role: str):
        self.asked = True
        return self.given[role] if role in self.given else self.coefficients[role]

    def ask_for_missing(self, descriptions: object) -> None:
        """Say everything at once that the file does not hold and the caller has not passed."""
        missing: dict[str, str] = {}
        waiting = [descriptions]
        while waiting:
            part = waiting.pop()
            if isinstance(part, dict) and part.get("part") == "given":
                missing[str(part["role"])] = str(part["type"])
            elif isinstance(part, dict | list):
                waiting += part.values() if isinstance(part, dict) else part
        missing = {r: k for r, k in missing.items() if r not in self.given and r not in self.coefficients}
        if not missing:
            return
        direct = {"basis": "basis=basis", "base": "base=network"}
        how = [text for role, text in direct.items() if role in missing]
        for keyword, word in (("networks", "network"), ("coefficients", "function")):
            own = [r for r in sorted(missing) if r not in direct and (missing[r] == "callable") == (word == "function")]
            how += [f"{keyword}={{{', '.join(f'{role!r}: {word}' for role in own)}}}"] if own else []
        what = ", ".join(f"{role} (a {kind} of your own)" for role, kind in sorted(missing.items()))
        raise FileError(f"the file does not hold {what}; pass it again: cnf.load(path, {', '.join(how)})")

    # -- what the names in conditions stand for ------------------------------------------------------------------

    def datum(self, description: object, path: str):
        """A table, a learnable number, a network or a callable."""
        if isinstance(description, dict) and description.get("part") == "Number":
            return self._number(description["index"])
        if isinstance(description, dict) and description.get("part") == "Component":
            return Component(self.datum(description["function"], path), int(description["index"]))
        return self.built(description, path)

    def _number(self, index: int) -> Tensor:
        """One for all conditions that share it, and the parameter of the basis or the base if it is theirs."""
        if index not in self._made:
            saved = self.numbers[index]
            owner, _, name = str(saved["of"]).partition(".")
            module = self._known.get(owner)
            found = dict(module.named_parameters()).get(name) if isinstance(module, nn.Module) else None
            if found is None and saved["parameter"]:
                found = nn.Parameter(saved["value"], requires_grad=bool(saved["grad"]))
            self._made[index] = saved["value"].requires_grad_(bool(saved["grad"])) if found is None else found
        return self._made[index]


def build_solver(description: dict) -> Method:
    """A solver from its name and settings."""
    methods = find_final(Method)
    name, settings = description["part"], description["arguments"]
    if name not in methods:
        raise FileError(f"the file has a solver {name!r:.60}, which this version of cnf does not know")
    if not all(isinstance(v, bool | int | float | str | None) for v in settings.values()):
        raise FileError("the settings of the solver in the file are damaged")
    return methods[name](**settings)


def check_constraints(built: Sequence[object]) -> list[Constraint]:
    """The constraints of a field, if that is what they are."""
    found = [c for c in built if isinstance(c, Constraint)]
    if len(found) != len(built):
        raise CnfError("the file is damaged: one of its conditions is something else")
    return found
