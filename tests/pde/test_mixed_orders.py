"""Patches with channels of different orders: velocities beside a pressure, on boxes, planar domains and in solids."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import sympy as sp
import torch

import cnf
from cnf.bases import Cells
from cnf.domains import Ball, Box, Difference, Disk, Domain, Polygon, Timed
from cnf.errors import CnfWarning, ProblemError, UnderdeterminedError
from cnf.pde.patches.adapting import corner_functions
from cnf.pde.patches.building import Mesh, build_field, orders_of
from cnf.pde.patches.orders import ABSENT, weigh
from cnf.pde.patches.shaped import first_cells
from cnf.pde.patches.sizing import memory_needed
from cnf.pde.patches.solid_cells import first_solid_cells
from cnf.pde.problems.on_patches import question_of
from cnf.systems.tied import Tied
from tests.pde.plan_memory import arrays_of_factor

X, Y = sp.symbols("x y")
STREAM = sp.sin(2 * X + Y) * sp.cos(3 * Y - X)
EXACT = (sp.diff(STREAM, Y), -sp.diff(STREAM, X), sp.sin(3 * X) * sp.cos(2 * Y + 1))
SQUARE = Box((0, 0), (1, 1))


def stokes(domain: Domain, wind: tuple[int, int] = (0, 0), level: str = "point", **solve: object) -> cnf.Problem:
    """-Laplace u + (wind . grad) u + grad p = f, div u = 0, with the flow of STREAM; the right-hand sides from SymPy.

    `level` says what fixes the pressure: its value at a "point", its "mean", an "outflow" at x = 1, or "nothing".
    """
    u, v, p = EXACT
    equations = []
    for name, field, slope in (("u", u, X), ("v", v, Y)):
        side = -field.diff(X, 2) - field.diff(Y, 2) + wind[0] * field.diff(X) + wind[1] * field.diff(Y) + p.diff(slope)
        left = rf"-\Delta {name} + {wind[0]} {name}_x + {wind[1]} {name}_y + p_{slope}"
        equations.append({"on": "interior", "equation": f"{left} = {sp.latex(side)}"})
    equations.append({"on": "interior", "equation": "u_x + v_y = 0"})
    for on in ("x = 0", "y = 0", "y = 1") if level == "outflow" else ("boundary",):
        equations += [{"on": on, "equation": f"{n} = {sp.latex(f)}"} for n, f in (("u", u), ("v", v))]
    if level == "outflow":
        equations.append({"on": "x = 1", "equation": f"u_x - p = {sp.latex(u.diff(X) - p)}"})
        equations.append({"on": "x = 1", "equation": f"v_x = {sp.latex(v.diff(X))}"})
    elif level == "point":
        equations.append({"equation": f"p(0.3, 0.2) = {float(p.subs({X: 0.3, Y: 0.2}))!r}"})
    elif level == "mean":
        mean = float(sp.integrate(p, (X, 0, 1), (Y, 0, 1)))
        equations.append({"equation": rf"\int_0^1 \int_0^1 p \, dx \, dy = {mean!r}"})
    return cnf.Problem(
        coordinates="x y",
        channels="u v p",
        domain=domain,
        equations=equations,
        exact={n: sp.latex(f) for n, f in zip("uvp", EXACT, strict=True)},
        solve={"method": "patches", **solve},
    )


def errors(problem: cnf.Problem, field: cnf.ConstrainedField) -> np.ndarray:
    """Relative, channel by channel."""
    points = problem.domain.fill(1000, "halton", 7)
    exact = np.stack([sp.lambdify((X, Y), f)(*points.numpy().T) for f in EXACT], axis=1)
    with torch.no_grad():
        found = field(points).numpy()
    return np.linalg.norm(found - exact, axis=0) / np.linalg.norm(exact, axis=0)


def built(problem: cnf.Problem, mesh: Mesh) -> cnf.ConstrainedField:
    question = question_of(problem)
    return build_field(question, orders_of(question), mesh).eval()


def hanging() -> Cells:
    cells = Cells([0, 0], [1, 1]).cut([0], 0).cut([0, 1], 1)
    return cells.cut([0], 0).cut([0, 4], 1)


# -- weights -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("orders", "rows", "channels"),
    [
        ([[2, None, 1], [None, 2, 1], [1, 1, None]], (0, 0, -1), (2, 2, 1)),  # Stokes
        ([[0, 0], [2, 0]], (0, 0), (2, 0)),  # u_t = v, v_t = u_xx, in space
        ([[2, 2], [2, 2]], (0, 0), (2, 2)),  # elasticity
        ([[2, 0], [None, 2]], (0, 0), (2, 2)),  # Laplace u = v, Laplace v = f
        ([[1, 0, None], [1, None, 0], [None, 1, 1]], (-1, -1, 0), (2, 1, 1)),  # q = grad u, div q = f
    ],
)
def test_weights(orders: list[list[int | None]], rows: tuple[int, ...], channels: tuple[int, ...]):
    """Known weights of known systems; order(i, j) <= s_i + t_j, with equality for one assignment."""
    table = np.array([[ABSENT if n is None else n for n in row] for row in orders])
    found = weigh(table)
    assert found is not None
    assert (found.rows, found.channels) == (rows, channels)
    assert (table <= np.add.outer(found.rows, found.channels)).all()


def test_systems_without_an_assignment_have_no_weights():
    """Two equations for the same channel, none for the other; and fewer equations than channels."""
    assert weigh(np.array([[2, ABSENT], [2, ABSENT]])) is None
    assert weigh(np.array([[2, 1]])) is None


def test_multipliers():
    """The pressure is one; fluxes given as channels are not, nor velocities of a wave."""
    assert orders_of(question_of(stokes(SQUARE))).multipliers == (False, False, True)
    equations = [{"on": "interior", "equation": e} for e in ("q - u_x = 0", "r - u_y = 0", "q_x + r_y = 1")]
    equations.append({"on": "boundary", "equation": "u = 0"})
    problem = cnf.Problem("x y", channels="u q r", domain=SQUARE, equations=equations)
    assert not any(orders_of(question_of(problem)).multipliers)


# -- on boxes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["point", "outflow"])
def test_stokes_on_hanging_cells_is_square_and_regular(level: str):
    """As many conditions as functions, all independent and exact, with the pressure fixed by a point or by an outflow.

    On the coarser cells alone the pressure would be off by 1e-6; its degree is lower by two than that of velocities.
    """
    problem = stokes(SQUARE, level=level)
    field = built(problem, Mesh.of(hanging(), (12, 12)))
    certificate = field.solution.certificate
    assert certificate.exact and certificate.worst < 1e-11
    assert certificate.rank == certificate.conditions == int(field.basis.active().sum())
    assert (errors(problem, field) < [1e-12, 1e-12, 1e-10]).all()


def test_ties_of_stokes_are_velocities_and_tractions():
    """Across x: u, v, p - u_x and v_x, no condition on the pressure alone."""
    field = built(stokes(SQUARE), Mesh.of(hanging(), (6, 6)))
    shown = [tie.condition.operator.to_latex() for tie in field.basis.ties if tie.condition.name.endswith("x")]
    assert shown == ["u", "v", r"p - \partial_{x} u", r"-\partial_{x} v"]


@pytest.mark.parametrize(("wind", "target"), [((0, 0), 1e-6), ((10, 3), 1e-9)])
def test_stokes_and_oseen_reach_their_target(wind: tuple[int, int], target: float):
    """The estimate is below the target and within a factor of three of the error of the worst channel, the pressure."""
    answer = stokes(SQUARE, wind, target=target).solve()
    worst = max(answer.errors.values())
    assert answer.certificate.exact and answer.estimate <= target
    assert worst / 3 < answer.estimate < 3 * worst


def test_integral_of_the_pressure(tmp_path):
    """The mean fixes it as well; what is saved is loaded with the pressure's own degree."""
    problem = stokes(SQUARE, level="mean")
    field = built(problem, Mesh.of(hanging(), (10, 10)))
    assert field.solution.certificate.exact and (errors(problem, field) < 1e-8).all()
    field.save(tmp_path / "field.pt")
    again = cnf.load(tmp_path / "field.pt").eval()
    points = torch.rand(20, 2, dtype=torch.float64)
    assert torch.equal(field(points), again(points))
    assert (again.basis.active() == field.basis.active()).all()


def test_a_pressure_without_a_level_is_refused():
    """Only its slopes occur: refused, or with the smoothest level and right slopes if asked for."""
    with pytest.raises(UnderdeterminedError, match="p appears only through its derivatives"):
        stokes(SQUARE, level="nothing", target=1e-4).solve()
    problem = stokes(SQUARE, level="nothing", target=1e-4, underdetermined="minimum-norm")
    answer = problem.solve()
    assert answer.certificate.exact and max(answer.errors[n] for n in "uv") < 1e-4


# -- corners -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vertices", "corner", "expected"),
    [
        ([(0, 0), (1, 0), (1, 1), (0, 1)], (0, 0), [2.7395934 + 1.1190245j]),
        ([(-1, -1), (1, -1), (1, 1), (0, 1), (0, 0), (-1, 0)], (0, 0), [0.5444837, 0.9085292]),
    ],
)
def test_exponents_of_stokes(vertices: list[tuple[int, int]], corner: tuple[int, int], expected: list[complex]):
    """Moffatt's eddies in a right angle, and the two singular exponents of an inner corner: sin(k w) = +- k sin(w)."""
    opening = 1.5 * np.pi if len(vertices) > 4 else np.pi / 2
    for k in expected:
        assert abs(np.sin(k * opening) ** 2 - (k * np.sin(opening)) ** 2) < 1e-5
    question = question_of(stokes(Polygon(vertices)))
    functions = corner_functions(question, orders_of(question))
    found = next(f for f in functions if f.centre == corner)
    assert found.lower == (0, 0, 1)
    for k in expected:
        assert np.abs(found.exponents - k).min() < 1e-6


def test_corner_functions_of_stokes_solve_it():
    """-Laplace u + grad p = 0 and div u = 0 by differences of values: the pressure has the exponent lower by one."""
    question = question_of(stokes(Polygon([(0, 0), (1, 0), (1, 1), (0, 1)])))
    functions = corner_functions(question, orders_of(question))[0]
    x, unit, step = torch.tensor([[0.21, 0.34]], dtype=torch.float64), torch.ones(1, dtype=torch.float64), 1e-3
    moved = [x, *(x + s * step * torch.eye(2, dtype=torch.float64)[k] for k in (0, 1) for s in (1, -1))]
    around = [functions.around(m, unit) for m in moved]
    values = [functions.derivative((0, 0), channel) for channel in range(3)]
    u, v, p = (torch.cat([functions.columns(at, value) for at in around]) for value in values)  # (5, K)
    for field, slope in ((u, p[1] - p[2]), (v, p[3] - p[4])):
        laplace = (field[1:].sum(dim=0) - 4 * field[0]) / step**2
        assert torch.allclose(laplace, slope / (2 * step), rtol=1e-4, atol=1e-4)
    assert torch.allclose(u[1] - u[2], -(v[3] - v[4]), rtol=1e-4, atol=1e-7)


# -- on other domains, and what follows from other conditions ------------------------------------------------------


@pytest.mark.parametrize("domain", [Disk((0, 0), 1), Difference(Box((-1, -1), (1, 1)), Disk((0.1, -0.2), 0.4))])
def test_stokes_on_shaped_domains(domain: Domain):
    """Round, and with a hole: exact, velocities to 1e-5 and the pressure to 1e-3 at degree 8, much better at 12."""
    problem = stokes(domain)
    coarse, fine = (built(problem, Mesh.of(first_cells(domain), (p, p), domain)) for p in (8, 12))
    assert coarse.solution.certificate.exact and fine.solution.certificate.exact
    assert (errors(problem, coarse) < [1e-5, 1e-5, 1e-3]).all()
    assert (errors(problem, fine) < 1e-2 * errors(problem, coarse)).all()


Z = sp.symbols("z")
POTENTIAL = sp.sin(Y) * sp.cos(Z), sp.sin(Z) * sp.cos(X), sp.sin(X + Y) / 2
CURL = [POTENTIAL[b].diff(a) - POTENTIAL[a_].diff(c) for b, a, a_, c in ((2, Y, 1, Z), (0, Z, 2, X), (1, X, 0, Y))]
IN_SPACE = (*CURL, sp.cos(X) * sp.sin(Y + Z))
CUBE = Box((0, 0, 0), (1, 1, 1))
HOLE = Difference(CUBE, [Ball((0.5, 0.5, 0.5), 0.3, name="hole")])


def stokes_in_space(domain: Domain, hole: str = "velocities", level: str = "point", **more: object) -> cnf.Problem:
    """-Laplace u + grad p = f, div u = 0 with the flow IN_SPACE and velocities all around, or tractions on the hole."""
    equations = []
    for name, field, slope in zip("uvw", IN_SPACE, (X, Y, Z), strict=False):
        side = -sum(field.diff(k, 2) for k in (X, Y, Z)) + IN_SPACE[3].diff(slope)
        equations.append({"on": "interior", "equation": rf"-\Delta {name} + p_{slope} = {sp.latex(side)}"})
        outer = "boundary" if hole == "velocities" else "boundary except hole"
        equations.append({"on": outer, "equation": f"{name} = {sp.latex(field)}"})
        if hole == "tractions":
            slopes = " + ".join(f"n_{k} ({sp.latex(field.diff(k))})" for k in (X, Y, Z))
            pushed = rf"\partial_n {name} - n_{slope} p = {slopes} - n_{slope} ({sp.latex(IN_SPACE[3])})"
            equations.append({"on": "hole", "equation": pushed})
    equations.append({"on": "interior", "equation": "u_x + v_y + w_z = 0"})
    if level == "point":
        value = float(IN_SPACE[3].subs({X: 0.1, Y: 0.2, Z: 0.1}))
        equations.append({"equation": f"p(0.1, 0.2, 0.1) = {value!r}"})
    elif level == "mean":  # of a part of the domain
        value = float(sp.integrate(IN_SPACE[3], (X, 0, 0.2), (Y, 0, 0.3), (Z, 0, 0.2)))
        equations.append({"equation": rf"\int_0^{{0.2}} \int_0^{{0.3}} \int_0^{{0.2}} p \, dx \, dy \, dz = {value!r}"})
    exact = {n: sp.latex(f) for n, f in zip("uvwp", IN_SPACE, strict=True)}
    return cnf.Problem("x y z", channels="u v w p", domain=domain, equations=equations, exact=exact, **more)


@pytest.mark.parametrize(
    ("domain", "hole", "level"),
    [
        (Ball((0, 0, 0), 1.0), "velocities", "point"),
        (HOLE, "velocities", "mean"),
        (HOLE, "tractions", "nothing"),
    ],
    ids=["ball", "hole", "tractions"],
)
def test_stokes_in_curved_solids(domain: Domain, hole: str, level: str):
    """Exact on eight patches; a degree more leaves a third of the error at most, velocities are off by 1e-3 at 5."""
    problem = stokes_in_space(domain, hole, level)
    points = domain.random(500, torch.Generator().manual_seed(7))
    wanted = np.stack([sp.lambdify((X, Y, Z), f)(*points.numpy().T) for f in IN_SPACE], axis=1)
    found = []
    for p in (4, 5):
        field = built(problem, Mesh.of(first_solid_cells(domain), (p,) * 3, domain))
        certificate = field.solution.certificate
        assert certificate.exact and certificate.worst < 1e-11 and certificate.rank == certificate.conditions
        with torch.no_grad():
            off = field(points).numpy() - wanted
        found.append(np.linalg.norm(off, axis=0) / np.linalg.norm(wanted, axis=0))
    assert (found[1] < [1e-3, 1e-3, 1e-3, 1e-2]).all() and (found[1] < found[0] / 3).all(), found


def test_the_estimate_of_stokes_in_a_solid_is_honest():
    """Flow around a ball in a box to 1e-2: exact, and the estimate no smaller than the error of the pressure."""
    answer = stokes_in_space(HOLE, solve={"method": "patches", "target": 1e-2}).solve()
    assert answer.certificate.exact and answer.measured == answer.estimate <= 1e-2
    assert max(answer.errors.values()) <= answer.estimate


def test_memory_of_stokes_in_a_solid_is_known():
    """The arrays of a factor, added up, beside what was said in advance: a pressure has fewer functions, no ties."""
    question = question_of(stokes_in_space(HOLE))
    mesh = Mesh.of(first_solid_cells(HOLE), (4, 4, 4), HOLE)
    field = build_field(question, orders_of(question), mesh)
    with torch.no_grad():
        plan = Tied(()).plan(field.basis, field.constraints)
    kept = [plan.system.table.numpy(), plan.system.vectors.numpy(), plan.guides.table.numpy()]
    taken = sum(a.nbytes for a in [*arrays_of_factor(plan), *plan.factor.metric.triangles.values(), *kept])
    assert taken <= memory_needed(mesh, 4, 1) <= 4 * taken


def test_pressures_that_solids_do_not_take_are_refused():
    """During time in the plane, and around a region that is a ball."""
    slip = [{"on": "interior", "equation": f"{n}_t - \\Delta {n} + p_{k} = 0"} for n, k in (("u", "x"), ("v", "y"))]
    slip += [{"on": "interior", "equation": "u_x + v_y = 0"}, {"on": "boundary", "equation": "u = 0"}]
    slip += [{"on": "boundary", "equation": "v = 0"}, {"on": "t = 0", "equation": "u = 0"}]
    disk = cnf.Problem(
        "x y t", channels="u v p", domain=Timed(Disk((0, 0), 1), 0.0, 1.0), equations=slip, solve={"method": "patches"}
    )
    drop = stokes_in_space(CUBE, regions={"drop": Ball((0.5, 0.5, 0.5), 0.3)}, solve={"method": "patches"})
    for problem in (disk, drop):
        with pytest.raises(ProblemError, match="a pressure takes curved solids"):
            problem.solve()


SLOPES = r"\partial_n u = n_x 5 \cos(5x + 1) \cos(7y) - n_y 7 \sin(5x + 1) \sin(7y)"
WAVE = r"\sin(5x + 1) \cos(7y)"


@pytest.mark.parametrize("domain", [SQUARE, Disk((0, 0), 1)])
def test_slopes_all_around(domain: Domain):
    """-Laplace u = f with slopes all around and one value: a point inside follows from the rest and is left out."""
    level = {"equation": f"u(0.3, 0.2) = {math.sin(2.5) * math.cos(1.4)!r}"}
    equations = [
        {"on": "interior", "equation": rf"-\Delta u = 74 {WAVE}"},
        {"on": "boundary", "equation": SLOPES},
        level,
    ]
    solve = {"method": "patches", "target": 1e-6}
    answer = cnf.Problem("x y", domain=domain, equations=equations, exact=WAVE, solve=solve).solve()
    assert answer.certificate.exact and answer.certificate.worst < 1e-11
    assert answer.errors["u"] < 1e-6


def test_sources_that_cannot_flow_out_are_not_an_answer():
    """-Laplace u = 1 with closed walls has no solution; the estimate says so however fine the cells are."""
    equations = [
        {"on": "interior", "equation": r"-\Delta u = 1"},
        {"on": "boundary", "equation": r"\partial_n u = 0"},
        {"equation": "u(0.3, 0.2) = 0"},
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)
        answer = cnf.Problem(
            "x y", domain=SQUARE, equations=equations, solve={"method": "patches", "target": 1e-2}
        ).solve()
    assert answer.estimate > 0.03 and not answer.resolved
