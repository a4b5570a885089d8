"""Ways to a planar distance field: trained hypernet kernels with exact or pseudo normals, SIREN, and Hermite functions.

What comes in: points and normals of a curve. What goes out: a field (P, 2) -> (P, 1), and how its training went. The
sizes are the paper's; its Gaussian of width 50 stands in a feature space of unknown scale, so the width here is that of
`cnf.bases.HypernetKernel`, the typical distance between encoded points.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

import cnf
from cnf.applications.shapes.planar_shapes import BOX, SPACE
from cnf.errors import CnfError, CnfWarning
from cnf.training import History
from cnf.tuning.bandwidth import tune_bandwidth

Field = Callable[[Tensor], Tensor]  # (P, 2) -> (P, 1)
Report = Callable[[int, float], object]  # step, loss

TOLERANCE = 1e-12  # of every condition, relative
FIXED_POINTS = 1000  # where the eikonal loss is measured, the same for all methods
SCAN_POINTS = 500  # where it is measured to choose a width
CLIP = 0.1  # longest gradient: a step close to a singular system must not spoil Adam's averages for all that follow
# SIREN: the terms and weights of its authors' signed distances, and about the time that a hypernet kernel needs.
SIREN_HIDDEN, SIREN_OMEGA, SIREN_RATE = (256, 256, 256), 30.0, 1e-4
SURFACE, DIRECTION, SLOPE, ELSEWHERE, SHARPNESS = 3e3, 1e2, 5e1, 1e2, 100.0


@dataclass(frozen=True)
class Size:
    """Sizes of networks and of a training; the default is the paper's."""

    hidden: int = 1200
    features: int = 800
    epochs: int = 50
    points: int = 1000  # drawn at random from the box, anew at every epoch
    rate: float = 1e-5
    siren_steps: int = 40  # per epoch
    precision: torch.dtype | None = torch.float32  # of the networks in the loss only


QUICK = Size(hidden=120, features=80, epochs=20, points=300, rate=1e-4, siren_steps=5)


@dataclass
class Course:
    """A training as it went: entry k describes the field after k steps."""

    step: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    residual: list[float] = field(default_factory=list)  # worst relative residual of the conditions
    seconds: list[float] = field(default_factory=list)

    @staticmethod
    def of(history: History) -> Course:
        if history.stopped == "interrupted":  # `fit` ends in good order on Ctrl-C; half a training is no result
            raise KeyboardInterrupt
        return Course(list(history.step), list(history.loss), list(history.residual), list(history.seconds))


def hypernet_field(conditions: list[cnf.Constraint], size: Size, seed: int = 0) -> cnf.ConstrainedField:
    """One generated encoder 2 -> hidden -> features (softplus, beta 10) per condition, Gaussian kernel; not trained."""
    encoder = cnf.encoders.MLP(2, size.features, hidden=[size.hidden], activation="softplus:10.0", seed=seed)
    basis = cnf.bases.HypernetKernel(SPACE, conditions, encoder, seed=seed)
    return cnf.ConstrainedField(basis, conditions, tolerance=TOLERANCE)


def move_hypernet(trained: cnf.ConstrainedField, conditions: list[cnf.Constraint]) -> cnf.ConstrainedField:
    """The same generated encoders and kernel with other points: a field that starts where `trained` ended.

    Unlike `field.transfer`, functions sit at the new points, and the two share no parameters.
    """
    basis = trained.basis
    assert isinstance(basis, cnf.bases.HypernetKernel)
    kernel = cnf.kernels.Gaussian(float(basis.kernel.bandwidth.detach()))  # type: ignore[operator]
    moved = cnf.bases.HypernetKernel(SPACE, conditions, basis.encoder, kernel, codes=basis.codes, seed=basis.seed)
    if moved.size != basis.size:
        raise CnfError(f"pre-trained for {basis.size} conditions, asked for {moved.size}; both must have as many")
    moved.hypernetwork.load_state_dict(basis.hypernetwork.state_dict())
    return cnf.ConstrainedField(moved, conditions, tolerance=TOLERANCE)


def choose_width(model: cnf.ConstrainedField, size: Size) -> float:
    """Set the kernel's width to the one near the present whose field has the smallest eikonal loss; returns it.

    Only fields that meet their conditions to TOLERANCE compete. Between good widths lie some where the system of
    generated functions is almost singular and the field swings wildly; this keeps a training from starting there.
    """
    eikonal = cnf.losses.Eikonal(BOX.halton(min(size.points, SCAN_POINTS), seed=1), precision=size.precision)
    assert isinstance(model.basis, cnf.bases.HypernetKernel)
    present = float(model.basis.kernel.bandwidth.detach())  # type: ignore[operator]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)
        tried = tune_bandwidth(model, _among_exact(eikonal), start=present / 2, scan=6, refine=0, factor=2**0.5)
    return min(tried, key=lambda t: t.loss).value


def _among_exact(loss: cnf.losses.Loss) -> Callable[[cnf.Solution], Tensor]:
    """The loss of a field that meets its conditions, infinite for others."""
    return lambda solution: loss(solution) if solution.certificate.exact else torch.tensor(math.inf)


def train_hypernet(model: cnf.ConstrainedField, size: Size, seed: int = 0, report: Report | None = None) -> Course:
    """Adam on the eikonal loss at fresh random points, the conditions met at every step; changes the field in place."""
    loss = cnf.losses.Eikonal(BOX, size.points, precision=size.precision)

    def tell(step: int, solution: cnf.Solution, history: History) -> None:
        if report is not None:
            report(step, history.loss[-1])

    history = cnf.fit(
        model,
        loss,
        steps=size.epochs,
        lr=size.rate,
        clip=CLIP,
        seed=seed,
        progress=False,
        log_condition_every=None,
        callbacks=tell,
        keep="last",
    )
    model.eval()
    return Course.of(history)


class Enlarged(nn.Module):
    """scale f(x / scale): a distance field learned on [-1, 1]^2, on a larger box."""

    def __init__(self, network: nn.Module, scale: float):
        super().__init__()
        self.network, self.scale = network, scale

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * self.network(x / self.scale)


def train_siren(
    points: Tensor, normals: Tensor, size: Size, seed: int = 0, report: Report | None = None
) -> tuple[nn.Module, Course]:
    """SIREN with points and normals in its loss, beside the eikonal term and a term that keeps zeros to the curve.

    As its authors do: coordinates scaled to [-1, 1], float32, Adam; `size.siren_steps` steps per epoch. The network
    that comes back is in float64 and in the coordinates of the points.
    """
    hidden = SIREN_HIDDEN if size.hidden >= 1200 else (64, 64)
    network = cnf.encoders.SIREN(2, 1, hidden, omega=SIREN_OMEGA, seed=seed).float()
    optimizer = torch.optim.Adam(network.parameters(), lr=SIREN_RATE)
    generator = torch.Generator().manual_seed(seed)
    course, started = Course(), time.perf_counter()
    scale = max(map(abs, (*BOX.lower, *BOX.upper)))
    on, wanted = (points / scale).float(), normals.float()
    steps = size.epochs * size.siren_steps
    for step in range(steps + 1):
        free = (BOX.random(size.points, generator) / scale).float()
        at = torch.cat([on, free]).requires_grad_()
        values = network(at)
        slopes = torch.autograd.grad(values.sum(), at, create_graph=True)[0]
        terms = siren_terms(values[:, 0], slopes, wanted)
        if step % size.siren_steps == 0:
            course.step.append(step // size.siren_steps)
            course.loss.append(float(terms["eikonal"].detach()) / SLOPE)
            course.residual.append(scale * float(values[: len(on)].detach().abs().max()))
            course.seconds.append(time.perf_counter() - started)
            if report is not None:
                report(course.step[-1], course.loss[-1])
        if step < steps:
            optimizer.zero_grad()
            torch.stack(list(terms.values())).sum().backward()
            optimizer.step()
    return Enlarged(network, scale).double().requires_grad_(False), course


def siren_terms(values: Tensor, slopes: Tensor, normals: Tensor) -> dict[str, Tensor]:
    """The four terms, weighted; values (n + P,), slopes (n + P, 2), the first n at the points of the curve."""
    count = normals.shape[0]
    on, off = values[:count], values[count:]
    direction = 1 - nn.functional.cosine_similarity(slopes[:count], normals, dim=1)
    return {
        "surface": SURFACE * on.abs().mean(),
        "direction": DIRECTION * direction.mean(),
        "eikonal": SLOPE * (torch.linalg.vector_norm(slopes, dim=1) - 1).square().mean(),
        "elsewhere": ELSEWHERE * torch.exp(-SHARPNESS * off.abs()).mean(),
    }


def hermite_field(
    conditions: list[cnf.Constraint], tolerance: float = TOLERANCE, domain: cnf.Box = BOX
) -> tuple[cnf.ConstrainedField, str]:
    """Hermite functions, nothing trained: of three kernels and a scan of widths the smallest eikonal loss.

    Only fields that meet their conditions to the tolerance compete. The loss is measured at fixed points of the domain,
    unknown to the conditions. Returns the field and what was chosen.
    """
    judge = _among_exact(cnf.losses.Eikonal(domain.halton(FIXED_POINTS, seed=1)))
    kernels = {
        "Gaussian": cnf.kernels.Gaussian(1.0),
        "Matern 7/2": cnf.kernels.Matern(3.5, 1.0),
        "Wendland C6": cnf.kernels.Wendland(3, 1.0, dimension=2),
    }
    found: list[tuple[float, str, cnf.ConstrainedField]] = []
    for name, kernel in kernels.items():
        model = cnf.ConstrainedField(cnf.bases.Hermite(SPACE, conditions, kernel), conditions, tolerance=tolerance)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CnfWarning)
            trials = tune_bandwidth(model, judge)
        best = min(trials, key=lambda t: t.loss)
        found.append((best.loss, f"{name} of width {best.value:.3g}", model))
    loss, chosen, model = min(found, key=lambda f: f[0])
    if not math.isfinite(loss):
        raise CnfError(
            f"no kernel met the conditions to {tolerance:g}; are there points that lie very close to each other, with "
            "normals that contradict?"
        )
    return model.eval(), chosen
