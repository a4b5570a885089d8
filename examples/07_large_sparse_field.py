"""A large field
=============

20,000 scattered values in the plane, met exactly by functions that vanish beyond a small radius.

Of the 4e8 entries of the system less than half a per cent differ from zero, so it is assembled and factored as a sparse
matrix, without being told. Patches solve a thousand small systems instead. Functions of short reach say little between
the points, so the third field corrects a smooth one through 400 of them: a field can be the base of another.
"""

from collections.abc import Callable

import torch

import cnf


def wanted(x: torch.Tensor) -> torch.Tensor:
    """Waves and a narrow bump, (P, 2) -> (P,)."""
    return torch.sin(6 * x[:, 0]) * torch.cos(9 * x[:, 1]) + torch.exp(-200 * (x - 0.4).square().sum(dim=1))


def draw(between: torch.Tensor, errors: dict[str, torch.Tensor]) -> None:
    """The error of the three fields between their points, on one scale."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained", sharey=True)
    for axis, (name, error) in zip(axes, errors.items(), strict=True):
        shown = axis.scatter(*between.T, c=error.clamp_min(1e-9).log10(), s=3, cmap="magma", vmin=-7, vmax=-1)
        axis.set(title=name, aspect="equal")
    figure.colorbar(shown, ax=axes, label="log10 of the error")
    plt.show()


def main(show: Callable[..., object] = lambda *_: None) -> dict[str, float]:
    """The worst relative residual of the three fields, and the root mean square error of the last at other points."""
    space = cnf.Space("x y", "u")
    square = cnf.Box([0, 0], [1, 1])
    points, between = square.halton(20_000), square.halton(5_000, seed=3)
    values = [space.constraint("u", at=points, equals=wanted(points), name="values")]
    basis = cnf.bases.Kernel(space, points, cnf.kernels.Wendland(1, 0.035, dimension=2))

    few = [space.constraint("u", at=points[:400], equals=wanted(points[:400]), name="few values")]
    wide = cnf.bases.Hermite(space, few, cnf.kernels.Wendland(2, 0.6, dimension=2))
    smooth = cnf.ConstrainedField(wide, few).eval()

    patches = cnf.solvers.Patches(mode="blend")
    fields = {
        "one sparse system": cnf.ConstrainedField(basis, values),  # solver=Auto(), which goes sparse
        "patches": cnf.ConstrainedField(basis, values, solver=patches),
        "patches on a smooth field": cnf.ConstrainedField(basis, values, base=smooth, solver=patches),
    }
    worst, error, errors = 0.0, float("nan"), {}
    for name, field in fields.items():
        solution = field.eval().solution
        with torch.no_grad():
            errors[name] = (solution(between)[:, 0] - wanted(between)).abs()
        error = errors[name].square().mean().sqrt().item()
        print(f"{name}\n{solution.certificate}\n  root mean square error between the points: {error:.1e}\n")
        worst = max(worst, solution.certificate.worst)
    show(between, errors)
    return {"residual": worst, "error": error}


if __name__ == "__main__":
    main(draw)
