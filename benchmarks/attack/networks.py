"""Networks of a user's own: encoders and bases that nobody wrote rules for, and bases (f = base + ...) of any size."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

import cnf
from benchmarks.attack.setting import Setting


class Rescaled(nn.Module):
    """The box brought to [-1, 1], as users do before a network."""

    def __init__(self, setting: Setting):
        super().__init__()
        self.register_buffer("lower", torch.tensor(setting.lower, dtype=torch.float64))
        self.register_buffer("length", torch.tensor(setting.length, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return 2 * (x - self.lower) / self.length - 1


class Waving(nn.Module):
    """A callable module: amplitude * (sin + exp) of a projection, one per channel."""

    def __init__(self, inputs: int, channels: int, amplitude: float):
        super().__init__()
        self.directions = nn.Parameter(torch.randn(channels, inputs, dtype=torch.float64))
        self.amplitude = amplitude

    def forward(self, x: Tensor) -> Tensor:
        z = x @ self.directions.to(x.dtype).T
        return self.amplitude * (torch.sin(2 * z) + torch.exp(-z / 2))


class Amplified(nn.Module):
    def __init__(self, amplitude: float):
        super().__init__()
        self.amplitude = amplitude

    def forward(self, x: Tensor) -> Tensor:
        return self.amplitude * x


class Stubborn(nn.Module):
    """Insists on float32 inside, as networks under mixed precision do."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network.float()

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x.float()).to(x.dtype)


def lively(network: nn.Module, factor: float) -> nn.Module:
    """Larger weights: a fresh network is nearly linear."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter *= factor
    return network


def draw_encoder(rng: np.random.Generator, setting: Setting, outputs: int) -> nn.Module:
    """MLP, SIREN or Fourier features in the coordinates of the unit box."""
    dimension, kind = setting.dimension, int(rng.integers(4))
    encoder: nn.Module
    if kind == 0:
        encoder = lively(cnf.encoders.MLP(dimension, outputs, hidden=(24, 24), activation="tanh"), 3.0)
    elif kind == 1:
        encoder = lively(cnf.encoders.SIREN(dimension, outputs, hidden=(24,), omega=float(rng.uniform(3, 10))), 1.5)
    elif kind == 2:
        encoder = cnf.encoders.FourierFeatures(dimension, outputs, frequencies=8, bandwidth=0.4, hidden=(24,))
    else:
        encoder = lively(cnf.encoders.MLP(dimension, outputs, hidden=(24,), activation="softplus"), 5.0)
    plain = bool((setting.lower == 0).all() and (setting.length == 1).all())
    return encoder if plain and rng.random() < 0.8 else nn.Sequential(Rescaled(setting), encoder)


def draw_base(rng: np.random.Generator, setting: Setting, amplitude: float) -> tuple[nn.Module, str]:
    """A network of that amplitude, and its name."""
    dimension, channels = setting.dimension, len(setting.channels)
    kinds = ["tanh", "relu", "waving", "single", "stubborn"]
    kind = str(rng.choice(kinds))
    if kind == "waving":
        base: nn.Module = nn.Sequential(Rescaled(setting), Waving(dimension, channels, amplitude))
    else:
        middle: nn.Module = nn.ReLU() if kind == "relu" else nn.Tanh()
        layers = [nn.Linear(dimension, 16), middle, nn.Linear(16, channels), Amplified(amplitude)]
        base = nn.Sequential(Rescaled(setting), *layers)
        base = base.double() if kind in ("tanh", "relu") else base.float()
        if kind == "stubborn":
            base = Stubborn(base)
    if setting.dtype == torch.float32 and rng.random() < 0.5:
        base = base.float()
    return base, f"{kind} x {amplitude:.0e}"
