"""A large field: 20,000 scattered values in the plane, met exactly by functions that vanish beyond a small radius.

Of the 4e8 entries of the system less than half a per cent differ from zero, so it is assembled and factored as a sparse
matrix, without being told. Patches solve a thousand small systems instead. Functions of short reach say little between
the points, so the third field corrects a smooth one through 400 of them: a field can be the base of another.
"""

import torch

import cnf


def wanted(x: torch.Tensor) -> torch.Tensor:
    """Waves and a narrow bump, (P, 2) -> (P,)."""
    return torch.sin(6 * x[:, 0]) * torch.cos(9 * x[:, 1]) + torch.exp(-200 * (x - 0.4).square().sum(dim=1))


def main() -> dict[str, float]:
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
    worst, error = 0.0, float("nan")
    for name, field in fields.items():
        solution = field.eval().solution
        with torch.no_grad():
            error = (solution(between)[:, 0] - wanted(between)).square().mean().sqrt().item()
        print(f"{name}\n{solution.certificate}\n  root mean square error between the points: {error:.1e}\n")
        worst = max(worst, solution.certificate.worst)
    return {"residual": worst, "error": error}


if __name__ == "__main__":
    main()
