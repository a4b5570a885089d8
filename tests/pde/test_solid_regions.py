"""Curved interfaces in space: regions have patches of their own in the cells that these cut, tied across them."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import cnf
from cnf.domains import Ball, Box, Difference, Domain, Intersection, Timed
from cnf.errors import BasisError, CnfWarning, ProblemError
from cnf.pde.patches.building import build_field, orders_of
from cnf.pde.patches.interfaces import stiffness_of
from cnf.pde.patches.mesh import Mesh
from cnf.pde.patches.rounds import solve_round
from cnf.pde.patches.sizing import memory_needed
from cnf.pde.patches.solid import Solid
from cnf.pde.patches.solid_climbing import cells_of_solid
from cnf.pde.problems.on_patches import question_of
from cnf.systems.tied import Tied
from tests.pde.plan_memory import arrays_of_factor

BLOCK, ROUND = Box((-1, -1, -1), (1, 1, 1)), Ball((0, 0, 0), 1.0)
BALL = Ball((0.1, 0.15, -0.05), 0.4)
FIELDS = {  # with their slopes and what Laplace makes of them
    "a": ("x^2 y + z + 1", ("2 x y", "x^2", "1"), "2 y"),
    "b": ("x^2 - z", ("2 x", "0", "-1"), "2"),
    "rest": ("x - y z", ("1", "-z", "-y"), "0"),
}
SHAPES: dict[str, tuple[Domain, dict[str, Domain], dict[str, float]]] = {
    "ball in a block": (BLOCK, {"a": BALL}, {"a": 100}),
    "ball in a ball": (ROUND, {"a": BALL}, {"a": 0.01}),
    "shell": (BLOCK, {"a": Difference(Ball((0.1, 0, 0), 0.75), Ball((0.1, 0, 0), 0.4))}, {"a": 10}),
    "half a ball on a wall": (BLOCK, {"a": Intersection([Ball((-1, 0, 0), 0.8), BLOCK])}, {"a": 10}),
    "ball beside a flat layer": (
        BLOCK,
        {"a": Ball((-0.45, 0.2, 0), 0.4), "b": Box((0.2, -1, -1), (1, 1, 1))},
        {"a": 10, "b": 0.1},
    ),
}


def in_pieces(domain: Domain, shapes: dict[str, Domain], k: dict[str, float]) -> cnf.Problem:
    """Another polynomial in every region; values and fluxes jump by what they differ."""
    names, k = (*shapes, "rest"), {**k, "rest": 1.0}

    def flux(name: str) -> str:
        return f"{k[name]} (" + " + ".join(f"n_{x} ({s})" for x, s in zip("xyz", FIELDS[name][1], strict=True)) + ")"

    jumps = [
        {"on": f"interface {name}", "equation": equation}
        for name in shapes
        for equation in (
            f"[u] = {FIELDS['rest'][0]} - ({FIELDS[name][0]})",
            rf"[k \partial_n u] = {flux('rest')} - {flux(name)}",
        )
    ]
    return cnf.Problem(
        "x y z",
        domain=domain,
        regions=shapes,
        parameters={
            "k": k,
            "f": {name: f"-{k[name]} ({FIELDS[name][2]})" for name in names},
            "g": {name: FIELDS[name][0] for name in names},
        },
        equations=[
            {"on": "interior", "equation": r"-\nabla\cdot(k \nabla u) = f"},
            {"on": "boundary", "equation": "u = g"},
            *jumps,
        ],
        exact={"u": {name: FIELDS[name][0] for name in names}},
        solve={"method": "patches", "target": 1e-3},
    )


def first_mesh(problem: cnf.Problem, degree: int) -> Mesh:
    question = question_of(problem)
    cells, given = cells_of_solid(question), ((), None, problem.regions, stiffness_of(question))
    return Mesh.of(cells, (degree,) * 3, problem.domain, *given)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n == "shell" else n for n in SHAPES])
def test_polynomials_of_all_regions_are_found(name: str):
    """Different polynomials of degree 3 on either side, with their jumps: patches of degree 3 have them exactly."""
    problem = in_pieces(*SHAPES[name])
    question = question_of(problem)
    found = solve_round(question, orders_of(question), first_mesh(problem, 3))
    x = problem.domain.random(3000, torch.Generator().manual_seed(0))
    assert problem.exact is not None
    with torch.no_grad():
        off = (found.solution(x)[:, 0] - problem.exact["u"](x).reshape(-1)).abs().max()
    assert found.exact and float(off) < 1e-7


def test_patches_of_a_cell_across_an_interface():
    """Cells that a ball passes have a patch of either region, and points find the one on their side."""
    problem = in_pieces(*SHAPES["ball in a block"])
    mesh = first_mesh(problem, 3)
    assert isinstance(mesh.shaped, Solid) and ((mesh.shaped.cover.patch >= 0).sum(axis=1) == 2).any()
    x = BLOCK.random(2000, torch.Generator().manual_seed(1)).numpy()
    within = np.linalg.norm(x - np.array(BALL.center), axis=1) < BALL.radius
    assert np.array_equal(mesh.region[mesh.patches.locate(x)] == 0, within)
    layout = mesh.shaped_layout
    assert layout is not None and {kind for _, kind in layout.borders} == {"values", "fluxes"}
    for border in layout.borders.values():
        away = border.points - np.array(BALL.center)
        assert np.allclose(away, BALL.radius * border.normals, atol=1e-8)  # out of the ball
        assert (mesh.region[border.first] == 0).all() and (mesh.region[border.second] == 1).all()


def test_memory_across_interfaces_is_what_is_taken():
    """The arrays of rows, factors and merges, added up, beside what was said in advance."""
    problem = in_pieces(*SHAPES["ball in a block"])
    question, mesh = question_of(problem), first_mesh(problem, 4)
    field = build_field(question, orders_of(question), mesh)
    with torch.no_grad():
        plan = Tied(()).plan(field.basis, field.constraints)
    arrays = arrays_of_factor(plan)
    arrays += [plan.system.table.numpy(), plan.system.vectors.numpy(), plan.guides.table.numpy()]
    arrays += list(plan.factor.metric.triangles.values())
    taken = sum(a.nbytes for a in arrays)
    assert taken <= memory_needed(mesh) <= 4 * taken


@pytest.mark.parametrize(("centre", "radius"), [((0.5, 0.5, 0.5), 0.01), ((0.3, 0.4, 0.6), 0.003)])
def test_a_ball_that_lies_between_all_points_of_the_first_cells_is_found(centre: tuple[float, ...], radius: float):
    """Cells begin thirty times as wide as it, and are cut to its size: its middle belongs to a patch of its own."""
    cube = Box((0, 0, 0), (1, 1, 1))
    equations = {"interior": r"-\nabla\cdot(k \nabla u) = 1", "boundary": "u = 0"}
    given = {"regions": {"ball": Ball(centre, radius)}, "parameters": {"k": {"ball": 10, "rest": 1}}}
    solid = first_mesh(cnf.Problem("x y z", domain=cube, equations=equations, **given), 3).shaped
    assert isinstance(solid, Solid)
    patch = int(solid.cover.locate(np.array([centre]))[0])
    assert solid.cover.region[patch] == 0
    assert (solid.cover.upper[patch] - solid.cover.lower[patch]).max() < 3 * radius
    surface = np.concatenate([own.points for own in solid.boundary[patch]])
    assert np.allclose(np.linalg.norm(surface - centre, axis=1), radius, rtol=1e-9)


@pytest.mark.slow
def test_sphere_in_a_uniform_field():
    """A sphere 100 times as conductive: u = 3 z / 102 inside, z + d z / r^3 outside; the estimate is within bounds."""
    outside = f"z + ({0.5**3 * (1 - 100) / 102!r}) z / (x^2 + y^2 + z^2)^{{1.5}}"
    problem = cnf.Problem(
        "x y z",
        domain=BLOCK,
        regions={"ball": Ball((0, 0, 0), 0.5)},
        parameters={"k": {"ball": 100, "rest": 1}},
        equations={"interior": r"-\nabla\cdot(k \nabla u) = 0", "boundary": f"u = {outside}"},
        exact={"ball": f"{3 / 102!r} z", "rest": outside},
        solve={"method": "patches", "target": 1e-2},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", CnfWarning)
        answer = problem.solve()
    (error,) = answer.errors.values()
    assert answer.certificate.exact and error < 3e-3 and error / 3 <= answer.estimate <= 1e-2


REFUSED = {
    "touches the boundary": (BLOCK, {"a": Ball((0.5, 0, 0), 0.5)}, {}),
    "'b' touches the region 'a'": (BLOCK, {"a": Ball((-0.4, 0, 0), 0.4), "b": Ball((0.3, 0, 0), 0.3)}, {}),
    "flat faces": (Timed(BLOCK, 0, 1), {"a": BALL}, {"t = 0": "u = 0"}),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused_says_so(message: str):
    """Cusps between shapes that touch, and curved interfaces in space during time."""
    domain, shapes, start = REFUSED[message]
    equation = r"u_t = \nabla\cdot(k \nabla u)" if start else r"-\nabla\cdot(k \nabla u) = 1"
    with pytest.raises(ProblemError, match=message) as caught:
        cnf.Problem(
            "x y z t" if start else "x y z",
            domain=domain,
            regions=shapes,
            parameters={"k": {name: 2 + n for n, name in enumerate((*shapes, "rest"))}},
            equations={"interior": equation, "boundary": "u = 0", **start},
        ).solve()
    assert "\n" not in str(caught.value)


def test_shapes_that_share_a_surface_do_not_touch():
    """A core and a coat around it have a sphere in common: that is an interface."""
    core = Ball((0, 0, 0), 0.4)
    shapes = {"core": core, "coat": Difference(Ball((0, 0, 0), 0.7), core)}
    problem = cnf.Problem(
        "x y z",
        domain=BLOCK,
        regions=shapes,
        parameters={"k": {"core": 1, "coat": 2, "rest": 3}},
        equations={"interior": r"-\nabla\cdot(k \nabla u) = 1", "boundary": "u = 0"},
    )
    assert problem.regions is not None
    assert {(face.first, face.second) for face in problem.regions.interfaces} == {(0, 1), (1, 2)}


def test_loose_ties_are_fitted_where_exact_rows_leave_room(tmp_path: Path):
    """Two cells of degree 3 on a line: the minimum of |y|^2 + |K y - k|^2 with B y = b, from its KKT system.

    Gradients are those of that minimum, too, and a file has all of it.
    """
    space = cnf.Space("x", "u")
    cells = cnf.bases.Cells([0.0], [2.0]).cut(np.array([0]), 0)
    at = torch.tensor([[1.0]], dtype=torch.float64)
    first, second = torch.tensor([0]), torch.tensor([1])
    ends = torch.tensor([[0.0], [2.0]], dtype=torch.float64)
    values = torch.tensor([1.0, -1.0], dtype=torch.float64, requires_grad=True)
    given = [space.constraint("u", at=ends, equals=values, name="ends")]
    ties = [(space.constraint("u = 0", at=at, name="u"), first, second)]
    loose = [
        (space.constraint(r"\partial_x u = 0.5", at=at, name="slope"), first, second),
        (space.constraint(r"\partial_x^2 u = 2", at=at, name="bend"), first, second),
    ]
    strengths = torch.tensor([1.0, 4.0], dtype=torch.float64)
    basis = cnf.bases.Piecewise(space, cells, 3, ties, loose=loose, strengths=strengths)
    field = cnf.ConstrainedField(basis, given)
    solution = field.solve()
    column = np.tile(0.5 ** np.arange(4.0), 2)

    def across(order: int) -> np.ndarray:
        ends = [
            np.polynomial.chebyshev.chebval(end, np.polynomial.chebyshev.chebder(np.eye(4), order)) for end in (1, -1)
        ]
        return np.concatenate([ends[0], -ends[1]]) * 2.0**order * column

    rows = np.stack([np.r_[1, -1, 1, -1, 0, 0, 0, 0] * column, np.r_[0, 0, 0, 0, 1, 1, 1, 1] * column, across(0)])
    wanted = np.array([0.5, 2.0])
    fitted = np.stack([across(1), across(2)])
    scale = np.linalg.norm(fitted, axis=1) / 4.0  # slopes count as guides of the stronger side do
    fitted, wanted = fitted / scale[:, None], wanted / scale
    square = np.eye(8) + fitted.T @ fitted
    system = np.block([[square, rows.T], [rows, np.zeros((3, 3))]])
    inverse = np.linalg.inv(system)[:8]
    y = inverse @ np.concatenate([fitted.T @ wanted, [1.0, -1.0, 0.0]])
    assert np.allclose(solution.weights.detach().numpy().ravel(), y * column, rtol=1e-10, atol=1e-12)
    assert solution.certificate.exact and solution.certificate.conditions == 3
    (slopes,) = torch.autograd.grad(solution.weights.sum(), values)
    assert np.allclose(slopes.numpy(), column @ inverse[:, 8:10], rtol=1e-9)
    field.save(tmp_path / "field.pt")
    assert torch.allclose(cnf.load(tmp_path / "field.pt").solve().weights, solution.weights)
    with pytest.raises(BasisError, match="positive number for each of the 2 cells"):
        cnf.bases.Piecewise(space, cells, 3, ties, strengths=torch.tensor([1.0, 0.0]))
