"""Materials, fitting: a compact field that reproduces chosen measurements exactly and all others closely.

In: a material and the name of a method. Out: a `Fit`: the trained model, its course, and, for constrained methods, the
certificate that the conditions hold. One loop serves all methods that are trained, so that they differ in nothing but
the model: the same samples, batches, schedule and loss; a method that is solved takes the same samples. Batches are
evaluated in float32; conditions, weights and parameters of constrained models are in float64. The settings may have
them trained in float32; what comes out meets its conditions in float64 all the same.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import fmean

import torch
from torch import Tensor, nn

import cnf
from cnf.certificate.certificate import Certificate
from cnf.errors import CnfError, CnfWarning
from cnf.materials.fitting.conditions import ON_NODES, PLACEMENTS, choose_grid, place_conditions
from cnf.materials.fitting.least_squares import fit_grid
from cnf.materials.fitting.methods import Method, Model, count_parameters, find_method, in_double
from cnf.materials.fitting.sampling import LARGEST_LOG, SAMPLINGS, Samples, draw_samples, swapping_gap
from cnf.materials.reflectance.material import Material
from cnf.materials.reflectance.scattered import Scattered
from cnf.training import History
from cnf.training.batches import Batches
from cnf.training.schedules import cosine

LOSSES = ("plain", "weighted", "cosine")
RECIPROCITIES = ("auto", "yes", "no")
PRECISIONS = {"float64": torch.float64, "float32": torch.float32}
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}  # relative, of every condition
WARM_UP, LAST = 0.05, 0.01  # share of the steps in which the rate rises; share of the rate at the end
CLIP = 1.0  # longest gradient
RECIPROCAL = 0.1  # of the mean of log(1 + f): what swapping light and eye may change in a reciprocal material
HIGHEST_RATE = 10.0

Report = Callable[[int, int, float, float | None], object]  # step, steps, loss, worst residual of the conditions


@dataclass(frozen=True)
class Settings:
    """What all methods are given; the default is the paper's budget with samples towards the highlight.

    >>> cnf.materials.Settings(samples=10_000, epochs=2, batch=1000).steps
    20
    """

    samples: int = 640_000
    epochs: int = 10
    batch: int = 5000
    conditions: int = 100
    parameters: int = 200_000
    placement: str = "paper"
    on_nodes: str = "auto"  # conditions are entries of a table on MERL's grid; "auto": if the material is one
    sampling: str = "highlight"
    loss: str = "plain"
    reciprocity: str = "auto"  # of methods with conditions; "auto": if the material is reciprocal
    rate: float | None = None  # None: the method's own
    precision: str = "float64"  # that constrained models are trained in; at the end, conditions are met in float64
    log_every: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        least = {"samples": 1, "epochs": 1, "batch": 1, "conditions": 1, "parameters": 100, "log_every": 1, "seed": 0}
        for name, bound in least.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < bound:
                raise CnfError(f"{name} is a whole number of at least {bound}; got {value!r}")
        choices = {"placement": PLACEMENTS, "sampling": SAMPLINGS, "loss": LOSSES, "precision": tuple(PRECISIONS)}
        choices |= {"reciprocity": RECIPROCITIES, "on_nodes": ON_NODES}
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise CnfError(f"{name} is one of {', '.join(known)}; got {getattr(self, name)!r}")
        if self.rate is not None and not 0 < self.rate <= HIGHEST_RATE:
            raise CnfError(f"the learning rate is a number above 0, up to {HIGHEST_RATE:g}; got {self.rate!r}")

    @property
    def steps(self) -> int:
        """Updates of a training; the same for a list of measurements that is shorter than `samples`."""
        return self.epochs * max(1, self.samples // self.batch)

    @property
    def dtype(self) -> torch.dtype:
        """The precision that is trained in."""
        return PRECISIONS[self.precision]


QUICK = Settings(samples=160_000, epochs=4, batch=1000)


@dataclass(frozen=True)
class Fit:
    """A trained model of a material; `certificate` is None for a model without conditions.

    >>> small = cnf.materials.Settings(samples=2000, epochs=1, batch=1000, conditions=10, parameters=1500)
    >>> fit = cnf.materials.fit_material(cnf.materials.read_material("ggx:gold:0.3"), "kernel-siren", small)
    >>> fit.name, fit.method.name
    ('ggx-gold-0.3', 'kernel-siren')
    """

    name: str
    label: str
    method: Method
    settings: Settings
    model: Model
    conditions: Samples
    course: History  # one entry per logged step, for all steps since the last entry
    certificate: Certificate | None
    seconds: float
    cpu_seconds: float | None = None  # of the processor; None if it was not measured

    @property
    def parameters(self) -> int:
        """How many parameters the model has."""
        return count_parameters(self.model)


def fit_material(
    material: Material, method: str | None = None, settings: Settings | None = None, report: Report | None = None
) -> Fit:
    """A model of the material; Ctrl-C ends a training in good order with the parameters reached so far.

    Without the name of a method it is a grid of kernels, or Kernel SIREN for a list of measurements, which are too few
    for a grid.

    >>> small = cnf.materials.Settings(samples=2000, epochs=1, batch=1000, conditions=10, parameters=1500)
    >>> fit = cnf.materials.fit_material(cnf.materials.read_material("ggx:gold:0.3"), "kernel-siren", small)
    >>> fit.certificate.exact, fit.conditions.points.shape
    (True, torch.Size([10, 6]))
    """
    settings = Settings() if settings is None else settings
    method = suit_method(material) if method is None else method
    chosen = find_method(method, settings.conditions)
    _refuse_what_is_not_used(chosen, settings)
    samples = draw_samples(material, settings.samples, settings.seed, settings.sampling)
    conditions = _place(material, chosen, settings)
    if len(conditions) != settings.conditions:  # a list of measurements shorter than that
        chosen = find_method(method, len(conditions))
    model = _build(chosen, conditions, settings, _decide_reciprocity(material, chosen, settings))
    torch.optim.Adam([torch.zeros(1, requires_grad=True)]).step()  # the first one loads a part of torch
    started, worked = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)  # the course and the certificate say the same
        course = (solve if chosen.solved else train)(model, samples, chosen, settings, report)
        seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - worked
        model = in_double(model.eval(), conditions)
        certificate = model.solve().certificate if isinstance(model, cnf.ConstrainedField) else None
    return Fit(
        material.name, material.label, chosen, settings, model, conditions, course, certificate, seconds, cpu_seconds
    )


def _refuse_what_is_not_used(method: Method, settings: Settings) -> None:
    """Settings that a method would pass over in silence."""
    if method.solved and settings.rate is not None:
        raise CnfError(f"{method.name} is solved for, not trained: it takes no learning rate; leave it out")
    if method.solved and settings.loss != "plain":
        raise CnfError(
            f"{method.name} is fitted by the squares of log(1 + f); the loss {settings.loss!r} serves methods that are "
            "trained, such as kernel-siren"
        )
    if method.free and settings.reciprocity == "yes":
        raise CnfError(f"{method.name} is never reciprocal by construction; take {method.name.removesuffix('-free')}")


def suit_method(material: Material) -> str:
    """What fits a material best without being told."""
    return "kernel-siren" if isinstance(material, Scattered) else "kernel-grid"


def _place(material: Material, method: Method, settings: Settings) -> Samples:
    def interpolate(conditions: Samples, points: Tensor) -> Tensor:
        with torch.no_grad():
            return method.with_width(conditions, width, settings.seed).eval()(points)

    placement, width = settings.placement if method.constrained else "paper", 0
    if placement == "largest-error":
        trial = place_conditions(material, settings.conditions, settings.seed)
        width = method.width_for(trial, settings.parameters)
    grid = choose_grid(material, settings.on_nodes)
    return place_conditions(material, settings.conditions, settings.seed, placement, interpolate, grid)


def _build(method: Method, conditions: Samples, settings: Settings, reciprocal: bool = False) -> Model:
    dtype = settings.dtype if method.constrained else torch.float32
    tolerance = TOLERANCE[settings.dtype]
    model = method.build(conditions.to(dtype), settings.parameters, settings.seed, tolerance, reciprocal)
    return model.train()


def _decide_reciprocity(material: Material, method: Method, settings: Settings) -> bool:
    """Whether light and eye may be swapped by construction: as told, or as far as the material itself allows it."""
    if not method.constrained or method.free or settings.reciprocity != "auto":
        return settings.reciprocity == "yes" and method.constrained and not method.free
    gap = swapping_gap(material, settings.seed)
    return gap is not None and gap <= RECIPROCAL


def solve(model: Model, samples: Samples, method: Method, settings: Settings, report: Report | None = None) -> History:
    """Fit the grid that is the base of the field to the samples, the conditions among them. Changes the model."""
    assert isinstance(model, cnf.ConstrainedField) and isinstance(model.base, nn.Sequential)
    points = [samples.points, model.constraints[0].points.double()]
    logs = [samples.logs, torch.stack([given.values[:, 0] for given in model.constraints], dim=1).double()]

    def tell(step: int, steps: int, loss: float) -> None:
        if report is not None:
            report(step, steps, loss, None)

    course = fit_grid(model.base, torch.cat(points), torch.cat(logs), len(points[1]), tell)
    course.residual[:] = [model.solve().certificate.worst] * len(course.step)  # solved once: of the field at the end
    return course


def train(model: Model, samples: Samples, method: Method, settings: Settings, report: Report | None = None) -> History:
    """Adam; the rate rises for a twentieth of the steps and then falls as a cosine. Changes the model in place."""
    constrained, steps, every = isinstance(model, cnf.ConstrainedField), settings.steps, settings.log_every

    def tell(step: int, _: object, history: History) -> None:
        if report is not None and (step % every == 0 or step == steps - 1):
            new = slice((step - 1) // every * every + 1, None)  # since the last entry of the course
            worst = max(history.residual[new]) if constrained else None
            report(step, steps, fmean(history.loss[new]), worst)

    history = cnf.fit(
        model,
        Misfit(samples, settings),
        steps,
        method.rate if settings.rate is None else settings.rate,
        schedule=cosine(LAST, WARM_UP),
        clip=CLIP,
        precision=torch.float32 if constrained else None,
        progress=False,
        log_condition_every=None,
        callbacks=tell,
        keep="last",
    )
    return history.every(every)


class Misfit(cnf.losses.Loss):
    """The loss of a batch of the samples, in single precision; all of them in a random order, then again in another."""

    label = "misfit"
    serves_networks = True

    def __init__(self, samples: Samples, settings: Settings):
        super().__init__()
        self.data, self.kind = samples.to(torch.float32), settings.loss
        self.batches = Batches(len(samples), settings.batch, settings.seed + 2)

    def measure(self, solution: Callable[[Tensor], Tensor], generator: torch.Generator | None) -> Tensor:
        which = self.batches.draw(generator)
        batch = Samples(self.data.points[which], self.data.logs[which], self.data.cosines[which])
        return measure_loss(solution(batch.points).to(batch.points.dtype), batch, self.kind)

    def cause(self, solution: object) -> str:
        return "try a smaller learning rate"


def measure_loss(values: Tensor, batch: Samples, kind: str) -> Tensor:
    """L1 of log(1 + f): "weighted" by the cosine of the incident direction, "plain", or "cosine": of log(1 + f cos)."""
    cosine = batch.cosines[:, None]
    if kind == "cosine":
        found, wanted = (torch.expm1(v.clamp(max=LARGEST_LOG)).clamp_min(0) * cosine for v in (values, batch.logs))
        return (torch.log1p(found) - torch.log1p(wanted)).abs().mean()
    error = (values - batch.logs).abs()
    return (error * cosine).mean() if kind == "weighted" else error.mean()


def with_budget(settings: Settings, **changes: object) -> Settings:
    """The settings with those changes that are not None."""
    return replace(settings, **{name: value for name, value in changes.items() if value is not None})  # type: ignore[arg-type]
