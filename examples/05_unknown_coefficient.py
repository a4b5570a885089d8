"""An unknown coefficient
======================

`u_t = nu u_xx`, `u(x, 0) = sin(pi x)`, `u(0, t) = u(1, t) = 0`, nu learnt from five measurements.

Coefficients of operators can be parameters. The equation holds exactly at every step, for the nu of that step; the loss
compares the field with the measurements. They are of `exp(-nu pi^2 t) sin(pi x)` with nu = 0.05.
"""

from collections.abc import Callable

import torch
from torch import nn

import cnf


def draw(solution: cnf.Solution, sensors: torch.Tensor, course: list[float]) -> None:
    """The field with the sensors, and nu over the steps."""
    from matplotlib import pyplot as plt

    x = cnf.Box([0, 0], [1, 1]).grid(81)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    shown = left.imshow(solution(x).detach().reshape(81, 81).T, origin="lower", extent=(0, 1, 0, 1), cmap="viridis")
    left.plot(*sensors.T, "o", color="white", markeredgecolor="black")
    left.set(title="u and the sensors", xlabel="x", ylabel="t")
    figure.colorbar(shown, ax=left)
    right.semilogy([abs(nu - 0.05) for nu in course], "o-")
    right.set(title="error of nu", xlabel="step")
    plt.show()


def main(show: Callable[..., object] = lambda *_: None) -> float:
    """The nu that was found."""
    nu = nn.Parameter(torch.tensor(0.1, dtype=torch.float64))
    space = cnf.Space("x t", "u")
    square = cnf.Box([0, 0], [1, 1])
    sides = torch.cat([square.face(0, 0, 20), square.face(0, 1, 20)])[1:]  # x = 0 and x = 1
    conditions = [
        space.constraint(r"u_t = \nu u_{xx}", at=square.halton(200), nu=nu, name="heat"),
        space.constraint(r"u = \sin(\pi x)", at=square.face(1, 0, 20), name="start"),
        space.constraint("u = 0", at=sides[sides[:, 1] > 0], name="sides"),
    ]
    field = cnf.ConstrainedField(cnf.bases.RandomFourier(space, size=400, bandwidth=0.4), conditions)

    sensors = torch.tensor([[0.5, 0.2], [0.3, 0.4], [0.7, 0.6], [0.4, 0.8], [0.5, 1.0]], dtype=torch.float64)
    measured = torch.exp(-0.05 * torch.pi**2 * sensors[:, 1]) * torch.sin(torch.pi * sensors[:, 0])
    misfit = cnf.losses.Regression(sensors, measured)
    course: list[float] = []
    watch = lambda *_: course.append(nu.item())  # noqa: E731
    cnf.fit(field, misfit, steps=20, lr=0.1, optimizer="lbfgs", parameters=[nu], callbacks=watch, progress=False)
    print(f"nu = {nu.item():.8f}, {field.certificate.summary()}")
    show(field.eval().solution, sensors, course)
    return nu.item()


if __name__ == "__main__":
    main(draw)
