"""Patches in space: boxes and solids with curved boundaries, on problems with known solutions."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp
import torch

import cnf
from cnf.bases import Cells
from cnf.pde.patches.asked import asked_formulas
from cnf.pde.patches.building import Mesh, build_field, orders_of
from cnf.pde.patches.degrees import followed_by
from cnf.pde.patches.formulas import follow
from cnf.pde.patches.solid import Solid
from cnf.pde.patches.solid_cells import first_solid_cells
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


def test_elastic_solids_with_loads():
    """Lame's equations (both constants 1) around the hole: displacements given on the faces, the load on its wall.

    Stresses are those that SymPy finds for the displacements; two degrees more, and the error is 20 times smaller.
    """
    x = sp.symbols("x y z")
    u = [sp.sin(x[0] + 1) * sp.cos(x[1]), sp.cos(x[0]) * sp.sin(x[1] + x[2]), sp.exp(x[0] / 2) * sp.cos(x[2])]
    slopes = sp.Matrix(3, 3, lambda i, j: sp.diff(u[i], x[j]))
    stress = slopes + slopes.T + sp.eye(3) * slopes.trace()
    names, volume = "uvw", "(u_x + v_y + w_z)"

    def given(i: int, j: int) -> str:
        """The stress (i, j) as an operator."""
        shear = rf"{names[i]}_{x[j]} + {names[j]}_{x[i]}"
        return f"({shear} + {volume})" if i == j else f"({shear})"

    equations = []
    for i in range(3):
        force = sp.latex(-sum(sp.diff(stress[i, j], x[j]) for j in range(3)))
        equations.append({"on": "interior", "equation": rf"-\Delta {names[i]} - 2\partial_{x[i]}{volume} = {force}"})
        equations.append({"on": "boundary except hole", "equation": f"{names[i]} = {sp.latex(u[i])}"})
        load = " + ".join(f"{given(i, j)} ({x[j]} - 0.5)" for j in range(3))
        known = sp.latex(sum(stress[i, j] * (x[j] - sp.Rational(1, 2)) for j in range(3)))
        equations.append({"on": "hole", "equation": f"{load} = {known}"})
    question = question_of(cnf.Problem("x y z", "u v w", domain=HOLE, equations=equations))
    at = HOLE.random(200, torch.Generator().manual_seed(0))
    exact = np.stack([sp.lambdify(x, own, "numpy")(*at.numpy().T) for own in u], axis=1)
    errors = []
    for degree in (4, 6):
        mesh = Mesh.of(first_solid_cells(HOLE), (degree,) * 3, HOLE)
        solution = build_field(question, orders_of(question), mesh).eval().solution
        certificate = solution.certificate
        assert certificate.exact and certificate.rank == certificate.conditions
        errors.append(np.abs(solution(at).detach().numpy() - exact).max())
    assert errors[1] < 1e-5 and errors[0] > 20 * errors[1], errors


def test_formulas_are_not_followed_by_cells_where_a_degree_does():
    """A smooth source at 1e-9: a handful of cells, as the next degree follows it. Values on the faces of a block count
    on these faces only, not inside a void where their formula is infinite."""
    equations = {"interior": rf"-\Delta u = 7 {SMOOTH}", "boundary": f"u = {SMOOTH}"}
    question = question_of(cnf.Problem("x y z", domain=CUBE, equations=equations))
    formulas, degree = asked_formulas(question, orders_of(question)), followed_by(CUBE, (8, 8, 8))
    assert follow(Cells([0, 0, 0], [1, 1, 1]), degree, formulas, 1e-9, 0, None).count <= 4
    far = r"\frac{1}{(x - 0.5)^2 + (y - 0.5)^2 + (z - 0.5)^2}"
    equations = {"interior": r"-\Delta u = 1", "boundary except hole": f"u = {far}", "hole": r"\partial_n u = 0"}
    question = question_of(cnf.Problem("x y z", domain=HOLE, equations=equations))
    cells = first_solid_cells(HOLE)
    formulas = asked_formulas(question, orders_of(question))
    assert len(formulas) == 6 and follow(cells, degree, formulas, 1e-3, 0, None).count == cells.count


def test_cells_that_a_ball_cuts_are_no_wider_than_it():
    """A ball of radius 0.1 off the middle: caps of it, however small, are in cells of 0.2 at most; others stay wide.

    The sides of a box bend nowhere: cells around one stay as they are.
    """
    cube = cnf.domains.Box((0, 0, 0), (1, 1, 1))
    cells = first_solid_cells(cnf.domains.Difference(cube, [cnf.domains.Ball((0.6, 0.2, 0.3), 0.1)]))
    width = (cells.upper - cells.lower).max(axis=1)
    nearest = np.clip((0.6, 0.2, 0.3), cells.lower, cells.upper)  # the point of every cell that is next to the centre
    cap = 0.1 - np.linalg.norm(nearest - (0.6, 0.2, 0.3), axis=1)  # how far the ball reaches into it
    assert (cap > 0.02).sum() >= 8 and (width[cap > 0.02] <= 0.2).all() and width.max() > 0.4
    plain = first_solid_cells(cnf.domains.Difference(cube, [cnf.domains.Box((0.3, 0.3, 0.3), (0.6, 0.6, 0.6))]))
    assert plain.count < 40


def test_cells_that_a_solid_touches_in_a_point_are_no_part_of_it():
    """A ball whose surface ends a hair from the corners of two cells: no patch without a volume is left there."""
    cube = cnf.domains.Box((0, 0, 0), (1, 1, 1))
    solid = cnf.domains.Difference(cube, [cnf.domains.Ball((0.3, 0.35, 0.4), 0.12)])
    shaped = Solid.of(solid, first_solid_cells(solid))
    assert (shaped.cover.upper > shaped.cover.lower).all()
    x = solid.random(2000, torch.Generator().manual_seed(0)).numpy()
    patch = shaped.cover.locate(x)
    low, high = shaped.cover.lower[patch], shaped.cover.upper[patch]
    assert ((x >= low - 1e-3) & (x <= high + 1e-3)).all()


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
