"""Reflectance: small networks fitted to measured materials, many packed into one NPZ archive.

A packed archive holds `names` (N,) and the weights of N networks 6-21-21-3 (any widths): W1 (N, 6, H), b1 (N, H),
W2 (N, H, K), b2 (N, K), W3 (N, K, 3), b3 (N, 3). In come half and difference angles, encoded as the half vector and the
difference vector (6 numbers); a network gives log(1 + f) of linear RGB reflectance f per steradian. ReLU in between:
the reflectance is continuous, its derivatives jump, and swapping light and eye changes it a little.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cnf.errors import ConstraintError, FileError
from cnf.materials.reflectance.angles import above_horizon, check_columns, encode
from cnf.materials.reflectance.material import Material, evaluate_in_chunks, simplify_name

KEYS = ("W1", "b1", "W2", "b2", "W3", "b3")
SOURCES = {"nbrdf_merl100": "MERL", "nbrdf_rgl51": "RGL", "nbrdf_nielsen8": "Nielsen"}  # by the archive's name
WIDEST, MOST = 4096, 100_000  # neurons in a layer, networks in an archive
LARGEST_EXPONENT = 80.0  # exp of it is finite in single precision; measured reflectance stays below exp(12)


@dataclass(frozen=True, eq=False)
class Nbrdf(Material):
    """One network as a material; computes in the precision of the angles it is given."""

    name: str
    label: str
    weights: tuple[Tensor, ...]  # W1 (6, H), b1 (H,), W2 (H, K), b2 (K,), W3 (K, 3), b3 (3,)

    def __post_init__(self) -> None:
        if len(self.weights) != 6 or any(not torch.isfinite(w).all() for w in self.weights):
            raise ConstraintError(f"the network {self.name} needs six finite arrays {', '.join(KEYS)}")
        W1, b1, W2, b2, W3, b3 = (tuple(w.shape) for w in self.weights)
        if len(W1) != 2 or len(W3) != 2 or (W1[0], W3[1]) != (6, 3):
            raise ConstraintError(f"the network {self.name} maps {W1} to {W3}; expected 6 numbers in and 3 out")
        if (b1, W2, b2, b3) != ((W1[1],), (W1[1], W3[0]), (W3[0],), (3,)):
            raise ConstraintError(f"the layers of the network {self.name} do not fit together")

    def __call__(self, angles: Tensor) -> Tensor:
        """Linear RGB reflectance (P, 3); 0 below the horizon."""
        check_columns(angles, 3, "angles")
        W1, b1, W2, b2, W3, b3 = (w.to(angles) for w in self.weights)

        def evaluate(part: Tensor) -> Tensor:
            hidden = torch.relu(torch.addmm(b1, encode(part), W1))
            hidden = torch.relu(torch.addmm(b2, hidden, W2))
            f = torch.addmm(b3, hidden, W3).clamp(0.0, LARGEST_EXPONENT).expm1()  # from 0, so nowhere negative
            return torch.where(above_horizon(part)[:, None], f, 0.0)

        return evaluate_in_chunks(evaluate, angles)


def is_packed(arrays: dict[str, np.ndarray]) -> bool:
    """Whether the arrays of an archive are packed networks."""
    return {"names", *KEYS} <= set(arrays)


def unpack(arrays: dict[str, np.ndarray], source: Path) -> dict[str, Callable[[], Nbrdf]]:
    """How to make each network of an archive, by name; the name of the archive says where the materials are from."""
    names = read_names(arrays["names"], source)
    count = len(names)
    for key in KEYS:
        array, dimension = arrays[key], 3 if key.startswith("W") else 2
        if array.dtype.kind != "f" or array.ndim != dimension or len(array) != count or max(array.shape[1:]) > WIDEST:
            raise FileError(
                f"{source}: its array {key!r} has shape {array.shape} of {array.dtype}; expected {dimension} axes of "
                f"floating-point numbers, the first for its {count} names"
            )
        if not np.isfinite(array).all():
            raise FileError(f"{source}: its array {key!r} has entries that are not finite; it is damaged")
    origin = f"of {SOURCES[source.stem]} " if source.stem in SOURCES else ""

    def make(number: int) -> Nbrdf:
        weights = tuple(torch.from_numpy(arrays[key][number].astype(np.float64)) for key in KEYS)
        try:
            return Nbrdf(names[number], f"NBRDF {origin}{names[number]}", weights)
        except ConstraintError as error:
            raise FileError(f"{source}: {error}") from None

    return {name: partial(make, number) for number, name in enumerate(names)}


def read_names(array: np.ndarray, source: Path) -> list[str]:
    """Names of the networks, without RGL's ending `_rgb`, fit to be file names."""
    if array.dtype.kind != "U" or array.ndim != 1 or not 1 <= len(array) <= MOST:
        raise FileError(f"{source}: its array 'names' has shape {array.shape} of {array.dtype}; expected (N,) strings")
    names = [simplify_name(str(name).removesuffix("_rgb")) for name in array]
    if len(set(names)) != len(names):
        raise FileError(f"{source}: some of its {len(names)} names are the same")
    return names
