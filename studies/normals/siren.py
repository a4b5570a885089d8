"""SIREN as the study of normals trains it: points and normals in the loss, nothing exact.

What comes in: points and normals of a curve. What goes out: a network (P, 2) -> (P, 1), and how its training went.
"""

from __future__ import annotations

import time

import torch
from torch import Tensor, nn

import cnf
from cnf.shapes.planar.conditions import SQUARE
from cnf.shapes.planar.fields import Course, Report, Size

# SIREN: the terms and weights of its authors' signed distances, and about the time that a hypernet kernel needs.
SIREN_HIDDEN, SIREN_OMEGA, SIREN_RATE = (256, 256, 256), 30.0, 1e-4


SURFACE, DIRECTION, SLOPE, ELSEWHERE, SHARPNESS = 3e3, 1e2, 5e1, 1e2, 100.0


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
    scale = SQUARE.high
    on, wanted = (points / scale).float(), normals.float()
    steps = size.epochs * size.siren_steps
    for step in range(steps + 1):
        free = (SQUARE.random(size.points, generator) / scale).float()
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
