"""Your own basis
==============

`-u'' = pi^2 sin(pi x)` on (0, 1), `u(0) = u(1) = 0`; exact: `u = sin(pi x)`.

A basis needs one method, `forward`: points (P, D) to the values of N functions (P, N). Derivatives of any order
follow by automatic differentiation, and every parameter can be trained.
"""

from collections.abc import Callable

import torch
from torch import nn

import cnf


class SoftSteps(cnf.bases.Basis):
    """Psi_j(x) = tanh(slope (x - c_j)), steps at evenly spaced places, with one learnable slope."""

    def __init__(self, space: cnf.Space, size: int, slope: float):
        super().__init__(space, size)
        self.register_buffer("centres", torch.linspace(-0.2, 1.2, size, dtype=torch.float64))
        self.slope = nn.Parameter(torch.tensor(slope, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.slope * (x - self.centres))  # (P, 1) - (N,) -> (P, N)


def draw(x: torch.Tensor, functions: torch.Tensor, errors: dict[str, torch.Tensor]) -> None:
    """The trained functions, and the error before and after."""
    from matplotlib import pyplot as plt

    _, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    left.plot(x, functions[:, ::3], color="#1f5fa8", linewidth=1)
    left.set(title="every third function, after the training", xlabel="x")
    for name, error in errors.items():
        right.semilogy(x, error.clamp_min(1e-12), label=name)
    right.set(title="error of the field", xlabel="x")
    right.legend(frameon=False)
    plt.show()


def main(show: Callable[..., object] = lambda *_: None) -> float:
    """The largest error on a fine grid, after the slope was trained."""
    space = cnf.Space("x", "u")
    inside = torch.linspace(0, 1, 30, dtype=torch.float64)[1:-1, None]
    conditions = [
        space.constraint(r"-u'' = \pi^2 \sin(\pi x)", at=inside, name="equation"),
        space.constraint("u = 0", at=[[0.0], [1.0]], name="ends"),
    ]
    field = cnf.ConstrainedField(SoftSteps(space, size=40, slope=8.0), conditions)
    x = torch.linspace(0, 1, 501, dtype=torch.float64)[:, None]
    exact = torch.sin(torch.pi * x)
    before = (field.solve()(x) - exact).abs().detach()
    cnf.fit(field, cnf.losses.HeldOutResidual(constraint="equation"), steps=40, lr=0.1, progress=False)

    after = (field.eval().solution(x) - exact).abs().detach()
    error = after.max().item()
    print(f"slope {field.basis.slope.item():.2f}, largest error {error:.1e}, {field.certificate.summary()}")
    show(x, field.basis(x).detach(), {"before": before, "after": after})
    return error


if __name__ == "__main__":
    main(draw)
