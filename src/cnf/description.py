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
from cnf.bases.kernels import DotProduct, Gaussian, Matern, Pole, TruncatedGaussian, Wendland
from cnf.bases.layers import Sine
from cnf.constraints import Constraint, Space
from cnf.constraints.constraint import RightHandSide, make_constraint
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
        *(DotProduct, Gaussian, Matern, Pole, TruncatedGaussian, Wendland),
        *(MLP, SIREN, FourierFeatures, LearnablePolynomial),
    )
}
SOLVERS: dict[str, type[Solver]] = {
    s.__name__: s
    for s in (
        *(solvers.Auto, solvers.LU, solvers.Cholesky, solvers.MinimumNorm),
        *(solvers.SparseLU, solvers.SparseCholesky, solvers.Patches, solvers.Krylov),
    )
}
PLAIN_LAYERS: dict[str, type[nn.Module]] = {
    layer.__name__: layer for layer in (nn.Tanh, nn.Sigmoid, nn.SiLU, nn.GELU, nn.ELU, nn.Mish, nn.ReLU, nn.Identity)
}

SETTINGS = {"ELU": ("alpha",), "GELU": ("approximate",)}  # constructor arguments of plain layers that have any
LARGEST = 2**24  # whole number a file may ask for (sizes, degrees)


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
        return {"part": "Sequential", "layers": [described(layer, f"{role}.{k}") for k, layer in enumerate(layers)]}
    if kind is nn.Linear:
        sizes = [module.in_features, module.out_features, module.bias is not None]
        return {"part": "Linear", "sizes": sizes, "dtype": dtype}
    if kind is nn.Softplus:
        return {"part": "Softplus", "sizes": [float(module.beta), float(module.threshold)]}  # type: ignore[arg-type]
    if kind is Sine:
        return {"part": "Sine", "sizes": [module.omega]}
    if PLAIN_LAYERS.get(kind.__name__) is kind:
        return {"part": kind.__name__, "sizes": [getattr(module, name) for name in SETTINGS.get(kind.__name__, ())]}
    return {"part": "given", "role": role, "type": kind.__name__}


def _described_constraint(constraint: Constraint) -> dict:
    operator, side = constraint.operator, constraint.right_hand_side
    if isinstance(side.source, nn.Module | nn.Parameter):
        raise CnfError(
            f"constraint {constraint.name!r}: learnable values given by equals= cannot be saved; name them "
            "in the equation, as in space.constraint('u = k', k=parameter)"
        )
    data: dict[str, object] = {}
    for name, value in (*operator.data, *side.data.items()):
        data[name] = value.detach().cpu().clone() if isinstance(value, Tensor) else {"part": "given", "role": name}
    known: object = side.source if isinstance(side.source, float) else None
    if isinstance(side.source, tuple):
        printer = CoefficientPrinter(side.frame, {})
        known = [printer.doprint(e) for e in side.source]
    return {
        "name": constraint.name,
        "space": described(Space(side.frame.coordinates, side.frame.channels, time=side.frame.time), "space"),
        "operator": operator.to_latex(),
        "data": data,
        "learnable": [n for n, v in (*operator.data, *side.data.items()) if isinstance(v, nn.Parameter)],
        "in_values": sorted(side.data),
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
    parameters: dict[str, list[nn.Parameter]] = dataclasses.field(default_factory=dict)

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
            arguments = description["arguments"]
            if any(isinstance(v, int) and abs(v) > LARGEST for k, v in arguments.items() if k != "seed"):
                raise FileError(f"the file asks for a {part} of a size beyond reason; it is not read")
            return PARTS[part](**{k: self.built(v, k) for k, v in arguments.items()})
        return self._layer(description, role)

    def _layer(self, description: dict, role: str) -> nn.Module:
        part = description["part"]
        if part == "Sequential":
            layers = enumerate(description["layers"])
            return nn.Sequential(*[self.built(layer, f"{role}.{k}") for k, layer in layers])
        sizes = description["sizes"]
        if part == "Linear":
            dtype = {"float32": torch.float32, "float64": torch.float64}[description["dtype"]]
            return nn.Linear(int(sizes[0]), int(sizes[1]), bias=bool(sizes[2]), dtype=dtype)
        if part in ("Softplus", "Sine"):
            return {"Softplus": nn.Softplus, "Sine": Sine}[part](*sizes)
        return PLAIN_LAYERS[part](**dict(zip(SETTINGS.get(part, ()), sizes, strict=True)))

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
            name: self._parameter(name, value) if name in saved["learnable"] else self.built(value, name)
            for name, value in saved["data"].items()
        }
        in_values = {name: data[name] for name in saved["in_values"]}
        operator = read_operator(saved["operator"], frame, _mentioned(data, saved["operator"]))
        operator = Operator.of(operator.rows, frame, data)
        source: object = saved["values"]
        if isinstance(saved["equals"], list):
            unknown = latex_name(frame.channels[0])
            sides = [
                read_equation(f"{unknown} = {text}", frame, _mentioned(in_values, text)) for text in saved["equals"]
            ]
            source = tuple(side[0] for _, side, _ in sides if side is not None)
        elif isinstance(saved["equals"], float):
            source = saved["equals"]
        side = RightHandSide(source, frame, in_values)  # type: ignore[arg-type]
        return make_constraint(saved["name"], operator, saved["points"], side)

    def _parameter(self, name: str, value: Tensor) -> nn.Parameter:
        """One parameter for all constraints that share it."""
        for known in self.parameters.get(name, []):
            if torch.equal(known, value):
                return known
        made = nn.Parameter(value)
        self.parameters.setdefault(name, []).append(made)
        return made


def _mentioned(data: dict, text: str) -> dict:
    """The coefficients whose name occurs in a LaTeX text."""
    return {name: value for name, value in data.items() if latex_name(name) in text}
