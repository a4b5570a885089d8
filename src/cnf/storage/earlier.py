"""Files of version 1, brought up to date: operators as LaTeX, layers with lists of sizes, no weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cnf.constraints import Space
from cnf.errors import FileError
from cnf.operators.latex import read_equation, read_operator, used_coefficients
from cnf.operators.printing import latex_name
from cnf.storage.describing import describe_term
from cnf.storage.expressions import describe_expression

ARGUMENTS = {  # of the layers that had sizes
    "Linear": ("in_features", "out_features", "bias"),
    "Softplus": ("beta", "threshold"),
    "Sine": ("omega",),
    "ELU": ("alpha",),
    "GELU": ("approximate",),
}


def renew_field(content: dict) -> dict:
    """The content of a file of version 1 as version 2 has it."""
    what, numbers = content["field"], _Numbers()
    renewed = {
        **what,
        "basis": renew_part(what["basis"], numbers),
        "base": renew_part(what["base"], numbers),
        "constraints": [renew_part(c, numbers) for c in what["constraints"]],
        "numbers": numbers.described,
        "otherwise": [],
        "frozen": [],
    }
    return {"field": renewed, "state": content["state"], "weights": None, "account": None}


class _Numbers:
    """Learnable numbers; one of the same name and value was taken to be the same."""

    def __init__(self) -> None:
        self.described: list[dict] = []
        self._names: list[str] = []

    def index(self, name: str, value: Tensor) -> int:
        for k, (known, entry) in enumerate(zip(self._names, self.described, strict=True)):
            if known == name and torch.equal(entry["value"], value):
                return k
        self._names.append(name)
        self.described.append({"value": value, "parameter": True, "grad": True, "of": None})
        return len(self._names) - 1


def renew_part(saved: object, numbers: _Numbers | None = None) -> object:
    """A description as version 2 has it; one that is so already stays as it is."""
    if isinstance(saved, list):
        return [renew_part(entry, numbers) for entry in saved]
    if not isinstance(saved, dict):
        return saved
    part = saved.get("part")
    if part == "given":
        return {"type": "callable", **saved}
    if part == "Constraint" and "arguments" in saved:
        return _constraint(saved["arguments"], numbers or _Numbers())
    if part == "Sequential" and isinstance(saved["layers"], list):
        return {**saved, "layers": {str(k): renew_part(layer, numbers) for k, layer in enumerate(saved["layers"])}}
    if "sizes" in saved:
        names = ARGUMENTS.get(str(part), ())
        return {"part": part, "arguments": dict(zip(names, saved["sizes"], strict=True))}
    if part != "Space" and isinstance(saved.get("arguments"), dict):
        return {**saved, "arguments": {k: renew_part(v, numbers) for k, v in saved["arguments"].items()}}
    return saved


def _constraint(saved: dict, numbers: _Numbers) -> dict:
    frame = Space(**saved["space"]["arguments"]).frame
    learnable: set[str] = set(saved["learnable"])
    data: dict[str, object] = {}
    standing_in: dict[str, object] = {}
    for name, value in saved["data"].items():
        if name in learnable:
            data[name] = {"part": "Number", "index": numbers.index(name, value)}
            standing_in[name] = nn.Parameter(value)
        elif isinstance(value, Tensor):
            data[name] = standing_in[name] = value
        else:
            data[name], standing_in[name] = renew_part(value), _asked_for
    used = used_coefficients(saved["operator"], frame, standing_in)
    operator = read_operator(saved["operator"], frame, {name: standing_in[name] for name in used})
    side = saved["equals"]
    if isinstance(side, list):
        inside = {name: standing_in[name] for name in saved["in_values"]}
        side = [_side(text, frame, inside) for text in side]
    return {
        "part": "Constraint",
        "name": saved["name"],
        "space": saved["space"],
        "rows": [[describe_term(term) for term in row] for row in operator.rows],
        "data": {name: data[name] for name, _ in operator.data},
        "side": side,
        "side_data": {name: data[name] for name in saved["in_values"]},
        "points": saved["points"],
        "values": saved["values"],
    }


def _side(text: str, frame, data: dict) -> object:
    equation = f"{latex_name(frame.channels[0])} = {text}"
    used = used_coefficients(equation, frame, data)
    _, sides, _ = read_equation(equation, frame, {name: data[name] for name in used})
    if sides is None:
        raise FileError("a right-hand side in the file is damaged")
    return describe_expression(sides[0])


def _asked_for(points: Tensor) -> Tensor:
    """Stands in for a callable while the operator is read."""
    raise NotImplementedError
