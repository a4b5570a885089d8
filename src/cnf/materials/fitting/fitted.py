"""Materials, fitted: a trained model as a material, and the folder that keeps a fit.

A fitted material decodes the model's log(1 + f): reflectance is never negative. Queries run in float32 unless told
otherwise (a million in seconds); in float64 the conditions hold to the digits that the certificate states.
"""

from __future__ import annotations

import torch
from torch import Tensor

import cnf
from cnf.files import read_archive, write_archive
from cnf.materials.fitting.fit import Fit
from cnf.materials.fitting.methods import Model
from cnf.materials.fitting.sampling import LARGEST_LOG
from cnf.materials.reflectance.angles import encode
from cnf.materials.reflectance.material import Material, evaluate_in_chunks
from cnf.storage import build_network, describe_network

KIND, VERSION, LARGEST = "fitted network", 1, 2**28
CHUNK = 2048  # directions evaluated at once: their hidden values stay in the cache


class FittedMaterial(Material):
    """A model of log(1 + f) as reflectance; `reference` restricts where it counts as valid."""

    def __init__(
        self,
        name: str,
        label: str,
        model: Model,
        precision: torch.dtype = torch.float32,
        reference: Material | None = None,
    ):
        self.name, self.label, self.model, self.precision = name, label, model.eval(), precision
        self.reference = reference
        self._evaluate = self._evaluator()

    def _evaluator(self):
        if not isinstance(self.model, cnf.ConstrainedField):
            return self.model
        solution = self.model.solve()
        return solution if self.precision == self.model.dtype else solution.in_precision(self.precision)

    def valid(self, angles: Tensor) -> Tensor:
        return super().valid(angles) if self.reference is None else self.reference.valid(angles)

    def logarithm(self, angles: Tensor) -> Tensor:
        """log(1 + f) as the model has it, which may be below 0, (P, 3) -> (P, 3)."""
        with torch.no_grad():
            return evaluate_in_chunks(self._logarithm, angles, CHUNK)

    def _logarithm(self, angles: Tensor) -> Tensor:
        points = encode(angles)
        if not isinstance(self.model, cnf.ConstrainedField):
            like = next(self.model.parameters())
            return self._evaluate(points.to(like.dtype)).to(angles.dtype)
        return self._evaluate(points).to(angles.dtype)

    def reflectance(self, angles: Tensor) -> Tensor:
        """f decoded, not below zero, whether the directions are valid or not, (P, 3) -> (P, 3)."""
        return torch.expm1(self.logarithm(angles).clamp(0, LARGEST_LOG))

    def __call__(self, angles: Tensor) -> Tensor:
        return torch.where(self.valid(angles)[:, None], self.reflectance(angles), 0.0)


def as_material(fit: Fit, precision: torch.dtype = torch.float32, reference: Material | None = None) -> FittedMaterial:
    return FittedMaterial(fit.name, f"{fit.method.title} of {fit.label}", fit.model, precision, reference)


def save_model(model: Model, path: object) -> None:
    """A field as `field.save` does; a network with its description."""
    if isinstance(model, cnf.ConstrainedField):
        model.save(path)
        return
    write_archive(path, KIND, VERSION, describe_network(model))


def load_model(path: object, constrained: bool) -> Model:
    """What `save_model` wrote."""
    if constrained:
        return cnf.load(path).eval()
    return build_network(read_archive(path, KIND, VERSION, LARGEST), path).float().eval()
