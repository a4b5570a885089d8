"""Materials, fitted: a trained model as a material, and the folder that keeps a fit.

A fitted material decodes the model's log(1 + f): reflectance is never negative. Directions of a condition, and those
next to one, are evaluated in float64, whatever else is asked for in the same query; all others in float32 from end to
end, which is twice as fast and right to four digits or more. So what is queried is what the certificate states.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

import cnf
from cnf.files import read_archive, write_archive
from cnf.materials.fitting.fit import Fit
from cnf.materials.fitting.methods import Model
from cnf.materials.fitting.pieces import evaluate_in_pieces
from cnf.materials.fitting.sampling import LARGEST_LOG
from cnf.materials.reflectance.angles import encode
from cnf.materials.reflectance.material import Material
from cnf.storage import build_network, describe_network
from cnf.threads import one_thread

KIND, VERSION, LARGEST = "fitted network", 1, 2**28
CHUNK = 2048  # directions evaluated at once: their hidden values stay in the cache
GRID_CHUNK = 8192  # the same for a grid, which has none, and takes many small steps
NEAR = 1e-5  # encoded distance from a condition within which queries are exact: angles may come in float32

Evaluate = Callable[[Tensor], Tensor]  # encoded directions (P, 6) -> log(1 + f) there (P, 3), or one of these steps


class FittedMaterial(Material):
    """A model of log(1 + f) as reflectance; `reference` restricts where it counts as valid.

    `precision` None is the way described above; float32 or float64 is one precision for all directions.

    >>> small = cnf.materials.Settings(samples=2000, epochs=1, batch=1000, conditions=10, parameters=1500)
    >>> fit = cnf.materials.fit_material(cnf.materials.read_material("ggx:gold:0.3"), "kernel-siren", small)
    >>> angles = torch.tensor([[0.0, 0.0, 0.0], [0.3, 0.5, 1.0]], dtype=torch.float64)  # theta_h, theta_d, phi_d
    >>> fitted = cnf.materials.as_material(fit)
    >>> isinstance(fitted, cnf.materials.FittedMaterial), fitted(angles).shape
    (True, torch.Size([2, 3]))
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
        self._rows = GRID_CHUNK if isinstance(model, cnf.ConstrainedField) and model.base is not None else CHUNK
        self._several = is_shareable(model)

    def _evaluators(self) -> tuple[Evaluate, Evaluate, Conditions | None]:
        """How directions at conditions are evaluated, how all others, and where the conditions are if that differs."""
        model = self.model
        if not isinstance(model, cnf.ConstrainedField):
            like = next(model.parameters())
            return (plain := lambda points: model(points.to(like.dtype))), plain, None
        wanted = torch.float32 if self.precision is None else self.precision
        with torch.no_grad():
            solution = model.solve()
            quick = solution if wanted == model.dtype else solution.in_precision(wanted, throughout=True)
        if self.precision is not None or quick is solution:
            return quick, quick, None
        return solution, quick, Conditions(torch.cat([given.points for given in model.constraints]))

    def valid(self, angles: Tensor) -> Tensor:
        if self.reference is not None:
            return self.reference.valid(angles)
        with one_thread():  # a few short steps, between which others would wait
            return super().valid(angles)

    def logarithm(self, angles: Tensor) -> Tensor:
        """log(1 + f) as the model has it, which may be below 0, (P, 3) -> (P, 3)."""
        return self._values(angles, lambda logs: logs)

    def reflectance(self, angles: Tensor) -> Tensor:
        """f decoded, not below zero, whether the directions are valid or not, (P, 3) -> (P, 3)."""
        return self._values(angles, lambda logs: torch.expm1(logs.clamp(0, LARGEST_LOG)))

    def _values(self, angles: Tensor, decode: Evaluate) -> Tensor:
        """What `decode` makes of log(1 + f), (P, 3) -> (P, 3)."""
        if self._conditions is None:
            return self._evaluate(lambda part: decode(self._exact(encode(part)).to(part.dtype)), angles)
        found = self._evaluate(partial(self._quick_part, decode=decode), angles)
        with one_thread():
            values, near = found[:, :3].contiguous(), found[:, 3].nonzero()[:, 0]
        if len(near):
            exact = self._evaluate(self._exact, encode(angles[near].detach().double()))
            values[near] = decode(exact).to(values)
        return values

    def _evaluate(self, evaluate: Evaluate, points: Tensor) -> Tensor:
        return evaluate_in_pieces(evaluate, points, self._rows, self._several)

    def _quick_part(self, angles: Tensor, decode: Evaluate) -> Tensor:
        """(P, 4): what `decode` makes of log(1 + f) in float32, and whether a condition is too near for that."""
        assert self._conditions is not None
        points = encode(angles)
        values = decode(self._quick(points).to(angles.dtype))
        return torch.cat([values, self._conditions.near(points)[:, None].to(values)], dim=1)

    def __call__(self, angles: Tensor) -> Tensor:
        valid = self.valid(angles)
        if bool(valid.all()):
            return self.reflectance(angles)
        result = torch.zeros_like(angles)
        result[valid] = self.reflectance(angles[valid])
        return result


def is_shareable(model: Model) -> bool:
    """Whether several threads may evaluate it at once; the others put tensors into a network while it runs, or may."""
    known = {type(part).__module__.partition(".")[0] for part in model.modules()} <= {"cnf", "torch"}
    return known and (not isinstance(model, cnf.ConstrainedField) or isinstance(model.basis, cnf.bases.Kernel))


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

    `precision`: float32 or float64 for all directions alike. A long query takes as many threads as torch may use.

    >>> small = cnf.materials.Settings(samples=2000, epochs=1, batch=1000, conditions=10, parameters=1500)
    >>> fit = cnf.materials.fit_material(cnf.materials.read_material("ggx:gold:0.3"), "kernel-siren", small)
    >>> there = cnf.materials.decode(fit.conditions.points)
    >>> gold = cnf.materials.read_material("ggx:gold:0.3")
    >>> bool(((cnf.materials.as_material(fit)(there) - gold(there)).abs() < 1e-8 * (1 + gold(there))).all())
    True
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
