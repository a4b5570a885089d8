"""Ways to a planar distance field: trained hypernet kernels with exact or pseudo normals, and Hermite functions.

What comes in: points and normals of a curve. What goes out: a field (P, 2) -> (P, 1), and how its training went. The
sizes are the paper's; its Gaussian of width 50 stands in a feature space of unknown scale, so the width here is that of
`cnf.bases.HypernetKernel`, the typical distance between encoded points.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

import cnf
from cnf.errors import CnfError, CnfWarning
from cnf.shapes.planar.conditions import SPACE, SQUARE
from cnf.shapes.planar.square import Square
from cnf.training import History
from cnf.training.bandwidth import tune_bandwidth

Field = Callable[[Tensor], Tensor]  # (P, 2) -> (P, 1)
Report = Callable[[int, float], object]  # step, loss

TOLERANCE = 1e-12  # of every condition, relative
FIXED_POINTS = 1000  # where the eikonal loss is measured, the same for all methods
SCAN_POINTS = 500  # where it is measured to choose a width
CLIP = 0.1  # longest gradient: a step close to a singular system must not spoil Adam's averages for all that follow


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


def hypernet_field(conditions: list[cnf.Constraint], size: Size, seed: int = 0) -> cnf.ConstrainedField:
    """One generated encoder 2 -> hidden -> features (softplus, beta 10) per condition, Gaussian kernel; not trained."""
    encoder = cnf.encoders.MLP(2, size.features, hidden=[size.hidden], activation="softplus:10.0", seed=seed)
    basis = cnf.bases.HypernetKernel(SPACE, conditions, encoder, seed=seed)
    return cnf.ConstrainedField(basis, conditions, tolerance=TOLERANCE)


def choose_width(model: cnf.ConstrainedField, size: Size) -> float:
    """Set the kernel's width to the one near the present whose field has the smallest eikonal loss; returns it.

    Only fields that meet their conditions to TOLERANCE compete. Between good widths lie some where the system of
    generated functions is almost singular and the field swings wildly; this keeps a training from starting there.
    """
    eikonal = cnf.losses.Eikonal(SQUARE.halton(min(size.points, SCAN_POINTS), seed=1), precision=size.precision)
    assert isinstance(model.basis, cnf.bases.HypernetKernel)
    present = float(model.basis.kernel.bandwidth.detach())  # type: ignore[operator]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)
        tried = tune_bandwidth(model, _among_exact(eikonal), start=present / 2, scan=6, refine=0, factor=2**0.5)
    return min(tried, key=lambda t: t.loss).value


def _among_exact(loss: cnf.losses.Loss) -> Callable[[cnf.Solution], Tensor]:
    """The loss of a field that meets its conditions, infinite for others."""
    return lambda solution: loss(solution) if solution.certificate.exact else torch.tensor(math.inf)


def train_hypernet(model: cnf.ConstrainedField, size: Size, seed: int = 0, report: Report | None = None) -> History:
    """Adam on the eikonal loss at fresh random points, the conditions met at every step; changes the field in place."""
    loss = cnf.losses.Eikonal(SQUARE, size.points, precision=size.precision)

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
    if history.stopped == "interrupted":  # `fit` ends in good order on Ctrl-C; half a training is no result
        raise KeyboardInterrupt
    return history


def hermite_field(
    conditions: list[cnf.Constraint], tolerance: float = TOLERANCE, domain: Square = SQUARE
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
