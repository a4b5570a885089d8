"""Advection: u_t + 0.1 u_x = 0 in the unit square, u(x, 0) = sin(2 pi x); exact: u = sin(2 pi (x - 0.1 t)).

The first example of the README: 1024 conditions at scattered points, met to rounding.
"""

import torch

import cnf


def main() -> float:
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
    error = (solution(x)[:, 0] - exact).abs().max().item()
    print(solution.certificate)
    print(f"largest error: {error:.1e}")
    return error


if __name__ == "__main__":
    main()
