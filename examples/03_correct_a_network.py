"""Correct a network: f = network + correction with f = g and df/dn = h on a circle; g and h from x^2 - y^2 + x.

Any torch module can be the base of a field. Here it is an untrained float32 network that knows nothing of the
conditions; the correction makes values and normal derivatives right, and changes the network as little as its basis
allows.
"""

import torch
from torch import nn

import cnf


def main() -> float:
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
    return max(misses)


if __name__ == "__main__":
    main()
