"""A first field
=============

Advection: `u_t + 0.1 u_x = 0` in the unit square, `u(x, 0) = sin(2 pi x)`; exact: `u = sin(2 pi (x - 0.1 t))`.

1024 conditions at scattered points, met to rounding. It is the first example of the README.
"""

from collections.abc import Callable

import torch

import cnf


def draw(x: torch.Tensor, values: torch.Tensor, error: torch.Tensor, points: torch.Tensor) -> None:
    """The field with its points, and its error."""
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    shown = left.tricontourf(x[:, 0], x[:, 1], values, levels=40, cmap="RdBu_r")
    left.plot(*points.T, ".", color="black", markersize=1.2)
    off = right.tricontourf(x[:, 0], x[:, 1], error.clamp_min(1e-16).log10(), levels=20, cmap="magma")
    figure.colorbar(shown, ax=left)
    figure.colorbar(off, ax=right)
    left.set(title="u and the points of its conditions", xlabel="x", ylabel="t")
    right.set(title="log10 of the error", xlabel="x")
    plt.show()


def main(show: Callable[..., object] = lambda *_: None) -> float:
    """The largest error on a fine grid."""
    space = cnf.Space("x t", "u")  # coordinates, channels
    square = cnf.Box([0, 0], [1, 1])
    start = space.constraint(r"u = \sin(2 \pi x)", at=square.face(axis=1, side=0, counts=32), name="start")
    pde = space.constraint(r"\partial_t u + \beta \partial_x u = 0", at=square.halton(992), beta=0.1, name="pde")

    basis = cnf.bases.RandomFourier(space, size=2048, bandwidth=0.2)
    field = cnf.ConstrainedField(basis, [start, pde])
    solution = field.solve()

    x = square.grid(101)
    exact = torch.sin(2 * torch.pi * (x[:, 0] - 0.1 * x[:, 1]))
    values = solution(x)[:, 0].detach()
    error = (values - exact).abs().max().item()
    print(solution.certificate)
    print(f"largest error: {error:.1e}")
    show(x, values, (values - exact).abs(), pde.points)
    return error


if __name__ == "__main__":
    main(draw)
