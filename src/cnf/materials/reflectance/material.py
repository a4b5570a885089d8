"""Reflectance: the contract of every material, measured, generated or fitted.

In come half and difference angles (P, 3) as in `angles`; out goes reflectance (P, 3): linear RGB of the BRDF per
steradian, without any cosine.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from cnf.errors import ConstraintError
from cnf.materials.reflectance.angles import above_horizon

CHUNK = 1 << 15  # pairs of directions evaluated at once, so that intermediate results stay in the cache


class Material(ABC):
    """Isotropic reflectance as a function of half and difference angles.

    `name` can be part of a file name; `label` is what pictures and tables say, such as "NBRDF of MERL chrome";
    `standing` is what its pictures are to those of its fits.

    >>> angles = torch.tensor([[0.0, 0.0, 0.0], [0.3, 0.5, 1.0]], dtype=torch.float64)  # theta_h, theta_d, phi_d
    >>> gold = cnf.materials.read_material("ggx:gold:0.2")
    >>> isinstance(gold, cnf.materials.Material), gold(angles).shape  # (P, 3) angles -> (P, 3) linear RGB
    (True, torch.Size([2, 3]))
    """

    name: str
    label: str
    standing: ClassVar[str] = "Reference"

    @abstractmethod
    def __call__(self, angles: Tensor) -> Tensor:
        """Linear RGB reflectance (P, 3), nowhere negative, and 0 where the material is not `valid`."""

    def valid(self, angles: Tensor) -> Tensor:
        """Where the material is known, (P,) bool: above the horizon, and whatever else a material needs."""
        return above_horizon(angles)


def evaluate_in_chunks(evaluate: Callable[[Tensor], Tensor], angles: Tensor, chunk: int = CHUNK) -> Tensor:
    """`evaluate` on a few rows at a time, joined: memory for intermediate results does not grow with P."""
    if len(angles) <= chunk:
        return evaluate(angles)
    if torch.is_grad_enabled() and angles.requires_grad:
        return torch.cat([evaluate(part) for part in angles.split(chunk)])
    first = evaluate(angles[:chunk])
    result = first.new_empty((len(angles), *first.shape[1:]))
    result[:chunk] = first
    for start in range(chunk, len(angles), chunk):
        result[start : start + chunk] = evaluate(angles[start : start + chunk])
    return result


def check_name(name: object) -> str:
    """A name that can be part of a file name: letters, digits and . _ + - only."""
    if not isinstance(name, str) or not re.fullmatch(r"[\w.+-]{1,100}", name) or name.startswith("."):
        raise ConstraintError(
            f"a material's name must be 1 to 100 letters, digits or . _ + - and not start with a dot, got {name!r}"
        )
    return name


def simplify_name(text: str) -> str:
    """The text as a name: whatever cannot be part of a file name becomes a hyphen."""
    return re.sub(r"[^\w.+-]+", "-", text).strip("-.")[:100] or "material"
