"""Patches in space: boxes and solids with curved boundaries, on problems with known solutions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cnf
from cnf.bases import Cells
from cnf.pde.patches.building import Mesh, build_field, orders_of
from cnf.pde.patches.solid import Solid, first_solid_cells
from cnf.pde.patches.solid_layout import lay_out_solid
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


HOLE = cnf.domains.Difference(CUBE, [cnf.domains.Ball((0.5, 0.5, 0.5), 0.3, name="hole")])
SLOPES = r"2\cos(2x + 1)\cos(2y) e^z", r"-2\sin(2x + 1)\sin(2y) e^z", SMOOTH


def in_solid(domain: cnf.domains.Domain, degree: int, equations: dict[str, str]) -> cnf.Solution:
    question = question_of(cnf.Problem("x y z", domain=domain, equations=equations))
    mesh = Mesh.of(first_solid_cells(domain), (degree,) * 3, domain)
    return build_field(question, orders_of(question), mesh).eval().solution


def test_solids_with_curved_boundaries():
    """-Laplace u = 7 u around a ball-shaped hole with the slope of sin(2x + 1) cos(2y) e^z on it, its values outside.

    Two degrees more, and the error is at least 20 times smaller; the conditions hold, and none is redundant.
    """
    normal = " + ".join(rf"({slope}) ({x} - 0.5)" for slope, x in zip(SLOPES, "xyz", strict=True))
    equations = {
        "interior": rf"-\Delta u = 7 {SMOOTH}",
        "boundary except hole": f"u = {SMOOTH}",
        "hole": rf"\partial_n u = -\frac{{{normal}}}{{0.3}}",  # the normal points into the hole
    }
    x = HOLE.random(300, torch.Generator().manual_seed(0))
    errors = []
    for degree in (4, 6):
        solution = in_solid(HOLE, degree, equations)
        certificate = solution.certificate
        assert certificate.exact and certificate.rank == certificate.conditions
        errors.append(float((solution(x) - smooth(x)).abs().max()))
    assert errors[1] < 1e-3 and errors[0] > 20 * errors[1], errors


def test_patches_of_a_solid_fill_it():
    """A ball and a box that stands out of it: every point inside lies in the frame of its patch, and boundary points

    are on the boundary with the normals of sphere and box; half of the box's faces inside the ball is no boundary.
    """
    ball, bar = cnf.domains.Ball((0, 0, 0), 0.6, name="ball"), cnf.Box((0, -0.3, -0.3), (1, 0.3, 0.3), name="bar")
    domain = cnf.domains.Union([ball, bar])
    solid = Solid.of(domain, first_solid_cells(domain))
    x = domain.random(2000, torch.Generator().manual_seed(0)).numpy()
    own = solid.cover.locate(x)
    slack = 0.05 * (solid.cover.upper - solid.cover.lower)[own]
    assert ((x >= solid.cover.lower[own] - slack) & (x <= solid.cover.upper[own] + slack)).all()
    layout = lay_out_solid(solid, (5, 5, 5))
    for arc in layout.arcs:
        if arc.curve.names == ("ball",):
            assert np.allclose(np.linalg.norm(arc.points, axis=1), 0.6, rtol=0, atol=1e-14)
            assert np.allclose(arc.normals, arc.points / 0.6, rtol=0, atol=1e-8)
            assert not bar._inside(arc.points + 1e-9 * arc.normals).any()
        else:
            assert np.allclose(np.abs(arc.normals).max(axis=1), 1.0, rtol=0, atol=1e-9)
            assert (np.abs(bar._bound(arc.points)) < 1e-14).all() and (ball._bound(arc.points) < 1e-6).all()
    assert {arc.curve.names for arc in layout.arcs} == {("ball",), ("bar",)}


@pytest.mark.slow
def test_solids_are_solved_to_their_target():
    """Around the hole again, from the problem to the answer: error and estimate below the target, nothing refused."""
    equations = {"interior": rf"-\Delta u = 7 {SMOOTH}", "boundary": f"u = {SMOOTH}"}
    solve = {"method": "patches", "target": 1e-4}
    answer = cnf.Problem("x y z", domain=HOLE, equations=equations, exact=SMOOTH, solve=solve).solve()
    assert answer.errors is not None and answer.certificate.exact
    assert max(answer.errors.values()) < 1e-4 and max(answer.errors.values()) / 3 < answer.estimate < 1e-4
