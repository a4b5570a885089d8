"""Correct a network
=================

f = network + correction with `f = g` and `df/dn = h` on a circle; g and h from `x^2 - y^2 + x`.

Any torch module can be the base of a field. Here it is an untrained float32 network that knows nothing of the
conditions; the correction makes values and normal derivatives right, and changes the network as little as its basis
allows.
"""

from collections.abc import Callable

import torch
from torch import nn

import cnf


def draw(network: nn.Module, solution: cnf.Solution, circle: torch.Tensor) -> None:
    """The network, the field, and what was added."""
    from matplotlib import pyplot as plt

    x = cnf.Box([-1.5, -1.5], [1.5, 1.5]).grid(121)
    with torch.no_grad():
        before, after = network(x.float())[:, 0].double(), solution(x)[:, 0]
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.3), layout="constrained", sharey=True)
    for axis, values, title in zip(
        axes, (before, after, after - before), ("network", "field", "correction"), strict=True
    ):
        shown = axis.imshow(values.reshape(121, 121).T, origin="lower", extent=(-1.5, 1.5, -1.5, 1.5), cmap="RdBu_r")
        axis.plot(*circle.T, ".", color="black", markersize=3)
        axis.set_title(title)
        figure.colorbar(shown, ax=axis, shrink=0.8)
    plt.show()


def main(show: Callable[..., object] = lambda *_: None) -> float:
    """The largest miss of a value or normal derivative on the circle."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))

    space = cnf.Space("x y", "u")
    angle = 2 * torch.pi * torch.arange(48, dtype=torch.float64) / 48
    circle = torch.stack([angle.cos(), angle.sin()], dim=1)  # also its outward normals
    conditions = [
        space.constraint("u = x^2 - y^2 + x", at=circle, name="values"),
        space.constraint(
            r"\mathbf{n}\cdot\nabla u = \mathbf{n}\cdot\mathbf{s}",
            at=circle,
            n=circle,
            s=torch.stack([2 * circle[:, 0] + 1, -2 * circle[:, 1]], dim=1),
            name="normal derivatives",
        ),
    ]
    basis = cnf.bases.Hermite(space, conditions, cnf.kernels.Gaussian(0.25))
    field = cnf.ConstrainedField(basis, conditions, base=network)
    solution = field.eval().solution

    misses = [solution.residual(c).abs().max().item() for c in conditions]
    print(f"values off by {misses[0]:.1e}, normal derivatives by {misses[1]:.1e}; {solution.certificate.summary()}")
    show(network, solution, circle)
    return max(misses)


if __name__ == "__main__":
    main(draw)
