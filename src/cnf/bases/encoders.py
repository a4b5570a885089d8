"""Encoders: networks from coordinates to features, built of layers that carry derivatives along.

`MLP`, `SIREN` and `FourierFeatures` are ordinary modules in float64; any other module R^D -> R^F serves as an encoder
too, at the price of generic derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import torch
from torch import Tensor, nn

from cnf.bases.layers import RULES, FourierMap, Sine, _sequential
from cnf.bases.monomials import list_exponents
from cnf.bases.part import Part
from cnf.errors import BasisError, nearest

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "softplus": nn.Softplus,
    "silu": nn.SiLU,
    "gelu": nn.GELU,
    "elu": nn.ELU,
    "mish": nn.Mish,
    "relu": nn.ReLU,
    "sine": Sine,
}


class Encoder(Part):
    """Base of all encoders; `arguments` are those they were made with, without the seed."""

    arguments: dict

    def config(self) -> dict:
        return dict(self.arguments)


class LayeredEncoder(Encoder):
    """Base of those that are layers one after the other."""

    layers: nn.Sequential

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class MLP(LayeredEncoder):
    """Fully connected network; `activation` is a name or a module such as nn.Softplus(beta=10).

    >>> cnf.encoders.MLP(2, 8, hidden=(16, 16), activation="softplus", seed=0)(cnf.Box([0, 0], [1, 1]).random(5)).shape
    torch.Size([5, 8])
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        hidden: int | Sequence[int] = (128, 128),
        activation: str | nn.Module = "tanh",
        seed: int | None = None,
    ):
        super().__init__()
        self.arguments = {"inputs": inputs, "outputs": outputs, "hidden": as_widths(hidden), "activation": activation}
        layers: list[nn.Module] = []
        with _seeded(seed):
            for a, b in pairwise([inputs, *as_widths(hidden)]):
                layers += [_layer(a, b), _activation(activation)]
            layers.append(_layer([inputs, *as_widths(hidden)][-1], outputs))
        self.layers = nn.Sequential(*layers)


class SIREN(LayeredEncoder):
    """Network with sine activations; `omega` scales every layer's phase as in the SIREN paper.

    `first_omega` is that of the first layer if it differs: how finely the network sees its coordinates at the start.

    >>> cnf.encoders.SIREN(3, 1, hidden=(32, 32), omega=10, seed=0)(cnf.Box([0, 0, 0], [1, 1, 1]).random(5)).shape
    torch.Size([5, 1])
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        hidden: int | Sequence[int] = (256, 256),
        omega: float = 30.0,
        seed: int | None = None,
        first_omega: float | None = None,
    ):
        super().__init__()
        first = float(omega if first_omega is None else first_omega)
        self.arguments = {
            **{"inputs": inputs, "outputs": outputs, "hidden": as_widths(hidden)},
            **{"omega": float(omega), "first_omega": first},
        }
        layers: list[nn.Module] = []
        with _seeded(seed):
            for k, (a, b) in enumerate(pairwise([inputs, *as_widths(hidden)])):
                bound = 1 / a if k == 0 else math.sqrt(6 / a) / omega
                layers += [_layer(a, b, bound), Sine(omega if k else first)]
            width = [inputs, *as_widths(hidden)][-1]
            layers.append(_layer(width, outputs, math.sqrt(6 / width) / omega))
        self.layers = nn.Sequential(*layers)


class FourierFeatures(LayeredEncoder):
    """Random Fourier features of the coordinates (x, sin Bx, cos Bx), then an MLP if `outputs` is given.

    >>> cnf.encoders.FourierFeatures(2, frequencies=4, seed=0)(cnf.Box([0, 0], [1, 1]).random(5)).shape
    torch.Size([5, 10])
    """

    def __init__(
        self,
        inputs: int,
        outputs: int | None = None,
        frequencies: int = 16,
        bandwidth: float = 1.0,
        hidden: int | Sequence[int] = (),
        activation: str = "tanh",
        include_input: bool = True,
        seed: int | None = None,
    ):
        super().__init__()
        self.arguments = {
            "inputs": inputs,
            "outputs": outputs,
            "frequencies": frequencies,
            "bandwidth": float(bandwidth),
            "hidden": as_widths(hidden),
            "activation": activation,
            "include_input": include_input,
        }
        with _seeded(seed):
            spread = torch.randn(frequencies, inputs, dtype=torch.float64) / bandwidth
        lift = FourierMap(spread, include_input)
        width = 2 * frequencies + (inputs if include_input else 0)
        layers: list[nn.Module] = [lift]
        if outputs is not None:
            layers.append(MLP(width, outputs, hidden, activation, seed))
        self.layers = nn.Sequential(*layers)


class LearnablePolynomial(Encoder):
    """One polynomial per output, all monomials up to a total degree, coefficients learnable.

    >>> cnf.encoders.LearnablePolynomial(1, degree=2, seed=0)(cnf.Box(0, 1).random(5)).shape
    torch.Size([5, 1])
    """

    exponents: Tensor

    def __init__(self, inputs: int, outputs: int = 1, degree: int = 2, seed: int | None = None):
        super().__init__()
        self.arguments = {"inputs": inputs, "outputs": outputs, "degree": degree}
        self.register_buffer("exponents", torch.tensor(list_exponents(inputs, degree)))
        with _seeded(seed):
            self.coefficients = nn.Parameter(torch.randn(len(self.exponents), outputs, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        """(P, D) -> (P, outputs)."""
        powers = [torch.ones_like(x)]
        for _ in range(self.arguments["degree"]):
            powers.append(powers[-1] * x)
        table = torch.stack(powers)  # (degree + 1, P, D)
        columns = [table[self.exponents[:, k], :, k] for k in range(x.shape[1])]  # D x (K, P)
        monomials = columns[0]
        for column in columns[1:]:
            monomials = monomials * column
        return monomials.T @ self.coefficients


for _encoder in (MLP, SIREN, FourierFeatures):
    RULES[_encoder] = _sequential


def _layer(inputs: int, outputs: int, bound: float | None = None) -> nn.Linear:
    if inputs < 1 or outputs < 1:
        raise BasisError(f"a layer needs at least one input and one output, got {inputs} and {outputs}")
    layer = nn.Linear(inputs, outputs, dtype=torch.float64)
    if bound is not None:
        nn.init.uniform_(layer.weight, -bound, bound)
    return layer


def _activation(given: str | nn.Module) -> nn.Module:
    if isinstance(given, nn.Module):
        return given
    name, _, number = given.partition(":")
    if name not in ACTIVATIONS:
        raise BasisError(
            f"there is no activation {given!r}; choose one of {', '.join(ACTIVATIONS)}." + nearest(given, ACTIVATIONS)
        )
    return ACTIVATIONS[name](float(number)) if number else ACTIVATIONS[name]()


def as_widths(hidden: int | Sequence[int]) -> list[int]:
    """Widths of the hidden layers; a single number is one layer."""
    return [hidden] if isinstance(hidden, int) else list(hidden)


@contextmanager
def _seeded(seed: int | None) -> Iterator[None]:
    """Random initial values inside depend on `seed` alone, if there is one."""
    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.manual_seed(seed)
        yield
