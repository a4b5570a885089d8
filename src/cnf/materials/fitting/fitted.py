"""Materials, fitted: a trained model as a material, and the folder that keeps a fit.

A fitted material decodes the model's log(1 + f): reflectance is never negative. Directions of a condition, and those
next to one, are evaluated in the precision of the conditions, whatever else is asked for in the same query; all others
in float32, which is twice as fast and right to four digits or more. So what is queried is what the certificate states.
"""

from __future__ import annotations

from collections.abc import Callable

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
NEAR = 1e-5  # encoded distance from a condition within which queries are exact: angles may come in float32

Evaluate = Callable[[Tensor], Tensor]  # encoded directions (P, 6) -> log(1 + f) there (P, 3)


class FittedMaterial(Material):
    """A model of log(1 + f) as reflectance; `reference` restricts where it counts as valid.

    `precision` None is the way described above; float32 or float64 is one precision for all directions.
    """

    def __init__(
        self,
        name: str,
        label: str,
        model: Model,
        precision: torch.dtype | None = None,
        reference: Material | None = None,
    ):
        self.name, self.label, self.model, self.precision = name, label, model.eval(), precision
        self.reference = reference
        self._exact, self._quick, self._conditions = self._evaluators()

    def _evaluators(self) -> tuple[Evaluate, Evaluate, Conditions | None]:
        """How directions at conditions are evaluated, how all others, and where the conditions are if that differs."""
        model = self.model
        if not isinstance(model, cnf.ConstrainedField):
            like = next(model.parameters())
            return (plain := lambda points: model(points.to(like.dtype))), plain, None
        wanted = torch.float32 if self.precision is None else self.precision
        with torch.no_grad():
            solution = model.solve()
            quick = solution if wanted == model.dtype else solution.in_precision(wanted)
        if self.precision is not None or quick is solution:
            return quick, quick, None
        return solution, quick, Conditions(torch.cat([given.points for given in model.constraints]))

    def valid(self, angles: Tensor) -> Tensor:
        return super().valid(angles) if self.reference is None else self.reference.valid(angles)

    def logarithm(self, angles: Tensor) -> Tensor:
        """log(1 + f) as the model has it, which may be below 0, (P, 3) -> (P, 3)."""
        with torch.no_grad():
            if self._conditions is None:
                return evaluate_in_chunks(lambda part: self._exact(encode(part)).to(part.dtype), angles, CHUNK)
            found = evaluate_in_chunks(self._quick_part, angles, CHUNK)
            values, near = found[:, :3].contiguous(), found[:, 3].nonzero()[:, 0]
            if len(near):
                values[near] = self._exact(encode(angles[near].double())).to(values)
            return values

    def _quick_part(self, angles: Tensor) -> Tensor:
        """(P, 4): log(1 + f) in float32, and whether a condition is so near that this will not do."""
        assert self._conditions is not None
        points = encode(angles)
        return torch.cat([self._quick(points), self._conditions.near(points)[:, None]], dim=1).to(angles.dtype)

    def reflectance(self, angles: Tensor) -> Tensor:
        """f decoded, not below zero, whether the directions are valid or not, (P, 3) -> (P, 3)."""
        return torch.expm1(self.logarithm(angles).clamp(0, LARGEST_LOG))

    def __call__(self, angles: Tensor) -> Tensor:
        valid = self.valid(angles)
        if bool(valid.all()):
            return self.reflectance(angles)
        result = torch.zeros_like(angles)
        result[valid] = self.reflectance(angles[valid])
        return result


class Conditions:
    """Encoded directions (M, 6), as they are and with light and eye swapped, for finding queries next to one."""

    def __init__(self, points: Tensor):
        swapped = points * points.new_tensor([1.0, 1.0, 1.0, -1.0, -1.0, 1.0])
        both = torch.cat([points, swapped]).double().unique(dim=0)  # sorted by the first column, sin theta_h
        self.points, self.heights = both, both[:, 0].contiguous()

    def near(self, points: Tensor) -> Tensor:
        """Which of the encoded directions (P, 6) are within NEAR of one, (P,) bool."""
        heights = points[:, 0].double().contiguous()
        first = torch.searchsorted(self.heights, heights - NEAR)
        last = torch.searchsorted(self.heights, heights + NEAR)
        found = last > first
        close = found.nonzero()[:, 0]
        if len(close):
            apart = torch.cdist(points[close].double(), self.points, compute_mode="donot_use_mm_for_euclid_dist")
            found[close] = apart.amin(dim=1) <= NEAR
        return found


def as_material(fit: Fit, precision: torch.dtype | None = None, reference: Material | None = None) -> FittedMaterial:
    """The fit as a material: exact at its conditions, as the certificate says, and fast elsewhere.

    `precision`: float32 or float64 for all directions alike.
    """
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
