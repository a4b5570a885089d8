"""Patches in space: boxes and solids with curved boundaries, on problems with known solutions."""

from __future__ import annotations

import numpy as np
import torch

import cnf
from cnf.bases import Cells
from cnf.pde.patches.building import Mesh, build_field, orders_of
from cnf.pde.problems.on_patches import question_of
from cnf.systems.tied import Tied

CUBE = cnf.Box((0, 0, 0), (1, 1, 1))
SMOOTH = r"\sin(2x + 1)\cos(2y) e^{z}"


def smooth(x: torch.Tensor) -> torch.Tensor:
    return (torch.sin(2 * x[:, 0] + 1) * torch.cos(2 * x[:, 1]) * torch.exp(x[:, 2]))[:, None]


def points(count: int = 300) -> torch.Tensor:
    return torch.rand(count, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def on_cells(cells: Cells, degree: int) -> cnf.ConstrainedField:
    """-Laplace u = 7 u with the values of sin(2x + 1) cos(2y) e^z on the boundary, and that as the solution."""
    equations = {"interior": rf"-\Delta u = 7 {SMOOTH}", "boundary": f"u = {SMOOTH}"}
    question = question_of(cnf.Problem("x y z", domain=CUBE, equations=equations))
    return build_field(question, orders_of(question), Mesh.of(cells, (degree,) * 3))


def hanging() -> Cells:
    """A cell beside two that are cut across y beside two that are cut across z, and one of these once more."""
    cells = Cells([0, 0, 0], [1, 1, 1]).cut([0], 0)
    cells = cells.cut([1], 0)  # 0: first half, 1 and 2: quarters
    cells = cells.cut([1], 1).cut([2], 2)
    return cells.cut([int(cells.locate(np.array([[0.9, 0.5, 0.9]]))[0])], 1)


def test_systems_in_space_are_square_and_regular():
    """As many conditions as functions, none redundant, whatever the weights are weighed by; errors fall with p."""
    errors = []
    for degree in (4, 6):
        field = on_cells(hanging(), degree)
        solution = field.eval().solution
        certificate = solution.certificate
        assert certificate.exact and certificate.worst < 1e-11
        assert certificate.rank == certificate.conditions == field.basis.size
        errors.append(float((solution(points()) - smooth(points())).abs().max()))
    targets = [c.values for c in field.constraints]
    flat = Tied((), smooth=1.0).plan(field.basis, field.constraints).solve(targets)
    assert torch.allclose(flat.values(points()), solution(points()), rtol=0, atol=1e-9)
    assert errors[1] < 1e-3 and errors[0] > 20 * errors[1], errors
