"""SIREN as the study of normals trains it: points and normals in the loss, nothing exact.

What comes in: points and normals of a curve. What goes out: a network (P, 2) -> (P, 1), and how its training went.
"""

from __future__ import annotations

import time

import torch
from torch import Tensor, nn

import cnf
from cnf.shapes.planar.conditions import SQUARE
from cnf.shapes.planar.fields import Report, Size
from cnf.training import History

# The terms of SIREN's authors for signed distances. Frequency, rate, its fall to zero and the weights of the two terms
# on slopes were tuned on the circle (11 settings of 400 steps, three of 2000); the authors' 30, 1e-4, constant, 1e2 and
# 5e1 suit dense scans.
SIREN_HIDDEN, SIREN_OMEGA, SIREN_RATE = (256, 256, 256), 5.0, 3e-4
SURFACE, DIRECTION, SLOPE, ELSEWHERE, SHARPNESS = 3e3, 3e3, 1.5e3, 1e2, 100.0


class Enlarged(nn.Module):
    """scale f(x / scale): a distance field learned on [-1, 1]^2, on a larger box."""

    def __init__(self, network: nn.Module, scale: float):
        super().__init__()
        self.network, self.scale = network, scale

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * self.network(x / self.scale)


def train_siren(
    points: Tensor, normals: Tensor, size: Size, seed: int = 0, report: Report | None = None
) -> tuple[nn.Module, History]:
    """SIREN with points and normals in its loss, beside the eikonal term and a term that keeps zeros to the curve.

    As its authors do: coordinates scaled to [-1, 1], float32, Adam; `size.siren_steps` steps per epoch. The network
    that comes back is in float64 and in the coordinates of the points.
    """
    hidden = SIREN_HIDDEN if size.hidden >= 1200 else (64, 64)
    network = cnf.encoders.SIREN(2, 1, hidden, omega=SIREN_OMEGA, seed=seed).float()
    course, started, steps = History(), time.perf_counter(), size.epochs * size.siren_steps
    scale = SQUARE.high
    loss = SirenLoss(points / scale, normals, size.points)

    def look(step: int, *_: object) -> None:
        if step % size.siren_steps == 0:
            course.step.append(step // size.siren_steps)
            course.loss.append(loss.eikonal)
            course.residual.append(scale * loss.off)
            course.seconds.append(time.perf_counter() - started)
            if report is not None:
                report(course.step[-1], course.loss[-1])

    history = cnf.fit(
        network,
        loss,
        steps,
        SIREN_RATE,
        schedule="cosine",
        seed=seed,
        progress=False,
        callbacks=look,
        keep="last",
    )
    if history.stopped == "interrupted":  # half a training is no result
        raise KeyboardInterrupt
    look(steps)
    return Enlarged(network, scale).double().requires_grad_(False), course


class SirenLoss(cnf.losses.Loss):
    """The four terms at the points of the curve and at others drawn from [-1, 1]^2 at each call.

    Of the latest call it keeps the unweighted eikonal term and the largest value at a point of the curve.
    """

    label = "siren"
    serves_networks = True
    eikonal = off = float("nan")

    def __init__(self, points: Tensor, normals: Tensor, free: int):
        super().__init__()
        self.points, self.normals, self.free = points.float(), normals.float(), free

    def measure(self, solution: nn.Module, generator: torch.Generator | None) -> Tensor:
        free = (SQUARE.random(self.free, generator) / SQUARE.high).float()
        at = torch.cat([self.points, free]).requires_grad_()
        values = solution(at)
        slopes = torch.autograd.grad(values.sum(), at, create_graph=True)[0]
        terms = siren_terms(values[:, 0], slopes, self.normals)
        self.eikonal = float(terms["eikonal"].detach()) / SLOPE
        self.off = float(values[: len(self.points)].detach().abs().max())
        return torch.stack(list(terms.values())).sum()


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
