"""Description: every part of a field as plain data (tensors, numbers, strings), and back.

A part is described by its constructor arguments (its `config()`), an operator by its LaTeX. What has no such
description
(your own basis, a network of your own class, a callable coefficient) is marked as `given` and asked for when read.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor, nn

from cnf import solvers
from cnf.bases import (
    Concat,
    ConstraintLayer,
    Hermite,
    Hybrid,
    Hypernet,
    HypernetKernel,
    Independent,
    Kernel,
    Polynomial,
    RandomFourier,
    SkewedRBF,
)
from cnf.bases.basis import Basis
from cnf.bases.encoders import MLP, SIREN, FourierFeatures, LearnablePolynomial
from cnf.bases.kernels import DotProduct, Gaussian, Matern, TruncatedGaussian, Wendland
from cnf.bases.layers import Sine
from cnf.constraints import Constraint, Space
from cnf.constraints.constraint import RightHandSide
from cnf.errors import CnfError, FileError
from cnf.operators.latex import read_equation, read_operator
from cnf.operators.operator import Operator
from cnf.operators.printing import CoefficientPrinter, latex_name
from cnf.solvers import Solver

PARTS: dict[str, type] = {
    part.__name__: part
    for part in (
        *(Concat, ConstraintLayer, Hermite, Independent, Kernel, Polynomial, RandomFourier, SkewedRBF),
        *(Hybrid, Hypernet, HypernetKernel),
        *(DotProduct, Gaussian, Matern, TruncatedGaussian, Wendland),
        *(MLP, SIREN, FourierFeatures, LearnablePolynomial),
    )
}
SOLVERS: dict[str, type[Solver]] = {
    s.__name__: s for s in (solvers.Auto, solvers.LU, solvers.Cholesky, solvers.MinimumNorm)
}
PLAIN_LAYERS: dict[str, type[nn.Module]] = {
    layer.__name__: layer for layer in (nn.Tanh, nn.Sigmoid, nn.SiLU, nn.GELU, nn.ELU, nn.Mish, nn.ReLU, nn.Identity)
}


def described_solver(solver: Solver) -> dict:
    """A solver by its name and settings."""
    name = type(solver).__name__
    if SOLVERS.get(name) is not type(solver):
        raise CnfError(f"a field with the solver {name} cannot be saved; use one of cnf.solvers")
    return {"part": name, "arguments": dataclasses.asdict(solver)}  # type: ignore[call-overload]


def built_solver(description: dict) -> Solver:
    return SOLVERS[description["part"]](**description["arguments"])


def described(value: object, role: str) -> object:
    """Any constructor argument as tensors, numbers, strings and dictionaries."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, list | tuple):
        return [described(v, role) for v in value]
    if isinstance(value, dict):
        return {k: described(v, k) for k, v in value.items()}
    if isinstance(value, Space):
        time = " ".join(value.frame.time)
        names = {"coordinates": list(value.coordinates), "channels": list(value.channels), "time": time}
        return {"part": "Space", "arguments": {**names, "vectors": {k: list(v) for k, v in value.vectors.items()}}}
    if isinstance(value, Constraint):
        return {"part": "Constraint", "arguments": _described_constraint(value)}
    if type(value).__name__ in PARTS and type(value) is PARTS[type(value).__name__]:
        arguments = {k: described(v, k) for k, v in value.config().items()}  # type: ignore[attr-defined]
        return {"part": type(value).__name__, "arguments": arguments}
    if isinstance(value, nn.Module):
        return _described_module(value, role)
    raise CnfError(f"{role} of type {type(value).__name__} cannot be saved")


def _described_module(module: nn.Module, role: str) -> dict:
    kind = type(module)
    dtype = str(next((p.dtype for p in module.parameters()), torch.float64)).removeprefix("torch.")
    if kind is nn.Sequential:
        layers = [layer for layer in module._modules.values() if layer is not None]  # children() skips repeats
        return {"part": "Sequential", "layers": [described(layer, role) for layer in layers]}
    if kind is nn.Linear:
        sizes = [module.in_features, module.out_features, module.bias is not None]
        return {"part": "Linear", "sizes": sizes, "dtype": dtype}
    if kind is nn.Softplus:
        return {"part": "Softplus", "sizes": [float(module.beta), float(module.threshold)]}  # type: ignore[arg-type]
    if kind is Sine:
        return {"part": "Sine", "sizes": [module.omega]}
    if PLAIN_LAYERS.get(kind.__name__) is kind:
        return {"part": kind.__name__, "sizes": []}
    return {"part": "given", "role": role, "type": kind.__name__}


def _described_constraint(constraint: Constraint) -> dict:
    operator, side = constraint.operator, constraint.right_hand_side
    data: dict[str, object] = {}
    for name, value in operator.data:
        data[name] = value.detach().cpu().clone() if isinstance(value, Tensor) else {"part": "given", "role": name}
    known: object = None
    if isinstance(side.source, tuple) and not side.data:
        printer = CoefficientPrinter(side.frame, {})
        known = [printer.doprint(e) for e in side.source]
    elif isinstance(side.source, float):
        known = side.source
    return {
        "name": constraint.name,
        "space": described(Space(side.frame.coordinates, side.frame.channels, time=side.frame.time), "space"),
        "operator": operator.to_latex(),
        "data": data,
        "learnable": [n for n, v in operator.data if isinstance(v, nn.Parameter)],
        "points": constraint.points.detach().cpu(),
        "values": constraint.values.detach().cpu().clone(),
        "equals": known,
    }


@dataclasses.dataclass(frozen=True)
class Reader:
    """Builds parts from their descriptions; `given` are the modules the caller passed."""

    given: dict[str, nn.Module]
    coefficients: dict[str, object]
    basis: Basis | None

    def built(self, description: object, role: str):
        if role == "basis" and self.basis is not None:
            return self.basis
        if isinstance(description, list):
            return [self.built(d, role) for d in description]
        if not isinstance(description, dict) or "part" not in description:
            return description
        part = description["part"]
        if part == "given":
            return self._given(description.get("role", role), description.get("type", "callable"))
        if part == "Space":
            return Space(**description["arguments"])
        if part == "Constraint":
            return self._constraint(description["arguments"])
        if part in PARTS:
            return PARTS[part](**{k: self.built(v, k) for k, v in description["arguments"].items()})
        return self._layer(description, role)

    def _layer(self, description: dict, role: str) -> nn.Module:
        part = description["part"]
        if part == "Sequential":
            return nn.Sequential(*[self.built(layer, role) for layer in description["layers"]])
        sizes = description["sizes"]
        if part == "Linear":
            dtype = {"float32": torch.float32, "float64": torch.float64}[description["dtype"]]
            return nn.Linear(int(sizes[0]), int(sizes[1]), bias=bool(sizes[2]), dtype=dtype)
        if part in ("Softplus", "Sine"):
            return {"Softplus": nn.Softplus, "Sine": Sine}[part](*sizes)
        return PLAIN_LAYERS[part]()

    def _given(self, role: str, kind: str):
        if role in self.given:
            return self.given[role]
        if role in self.coefficients:
            return self.coefficients[role]
        how = {"base": "base=network", "basis": "basis=basis"}.get(role)
        how = how or (
            f"networks={{{role!r}: network}}" if kind != "callable" else f"coefficients={{{role!r}: function}}"
        )
        raise FileError(
            f"the file does not hold the {role} (a {kind} of your own); pass it again: cnf.load(path, {how})"
        )

    def _constraint(self, saved: dict) -> Constraint:
        space = self.built(saved["space"], "space")
        frame = space.frame
        data = {
            name: nn.Parameter(value) if name in saved["learnable"] else self.built(value, name)
            for name, value in saved["data"].items()
        }
        operator = read_operator(saved["operator"], frame, data)
        operator = Operator.of(operator.rows, frame, data)
        equals, source = saved["equals"], saved["values"]
        if isinstance(equals, list):
            unknown = latex_name(frame.channels[0])
            source = tuple(read_equation(f"{unknown} = {text}", frame, {})[1][0] for text in equals)  # type: ignore[index]
        elif isinstance(equals, float):
            source = equals
        side = RightHandSide(source, frame)
        return Constraint(saved["name"], operator, saved["points"], saved["values"], side)
