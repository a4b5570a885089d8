"""Where regions meet in a point: corners of interfaces, interfaces that end on the boundary, cross points."""

from __future__ import annotations

import math
import warnings

import numpy as np
import torch
from scipy.optimize import brentq

import cnf
from cnf.bases import Cells, Piecewise
from cnf.domains import Box, Disk, Domain, Intersection, Polygon
from cnf.errors import CnfWarning
from cnf.pde.patches.adapting import adapt, corner_functions
from cnf.pde.patches.building import Mesh, orders_of
from cnf.pde.patches.corners import functions_at
from cnf.pde.patches.rounds import field_difference
from cnf.pde.patches.sectors import corners_of
from cnf.pde.patches.shaped import first_cells
from cnf.pde.problems.on_patches import question_of

SQUARE = Box((-1, -1), (1, 1))
CONDUCTION = {"interior": r"-\nabla\cdot(k \nabla u) = 0", "boundary": "u = 0"}
KELLOGG = 161.4476387975881  # the ratio in a checkerboard at which solutions go like r^0.1
QUARTERS = {"a": Box((0, 0), (1, 1)), "b": Box((-1, 0), (0, 1)), "c": Box((-1, -1), (0, 0))}


def problem(regions: dict[str, Domain], k: dict[str, float], **entries: object) -> cnf.Problem:
    given = {"parameters": {"k": k}, "equations": CONDUCTION, **entries}
    return cnf.Problem("x y", domain=SQUARE, regions=regions, **given)


def exponents(given: cnf.Problem, centre: tuple[float, float]) -> np.ndarray:
    (corner,) = (c for c in corners_of(SQUARE, given.regions) if np.allclose(c.centre, centre, atol=1e-12))
    found = functions_at(question_of(given), corner)
    return found[0].exponents if found else np.zeros(0)


def test_exponents_are_those_of_transmission_problems():
    """A right angle of k = 10 in k = 1: even about the bisector 10 tan(a) = -tan(3 a), odd 10 tan(3 a) = -tan(a)."""
    inclusion = problem({"a": Box((-0.5, -0.5), (0.5, 0.5))}, {"a": 10, "rest": 1})

    def even(p: float) -> float:
        return 10 * math.sin(p) * math.cos(3 * p) + math.sin(3 * p) * math.cos(p)

    def odd(p: float) -> float:
        return 10 * math.sin(3 * p) * math.cos(p) + math.sin(p) * math.cos(3 * p)

    first, second = (4 / math.pi * brentq(f, *ends) for f, ends in ((even, (0.53, 0.7)), (odd, (0.8, 1.1))))
    assert np.allclose(exponents(inclusion, (0.5, 0.5))[:2], [first, second], atol=1e-10)
    checkerboard = problem(QUARTERS, {"a": KELLOGG, "b": 1, "c": KELLOGG, "rest": 1})
    assert np.allclose(exponents(checkerboard, (0, 0)), [0.1, 1.9, 2.1, 3.9], atol=1e-10)
    assert not len(exponents(problem(QUARTERS, dict.fromkeys([*QUARTERS, "rest"], 3.0)), (0, 0)))


def test_exponents_where_an_interface_ends():
    """Two wedges of angles a and b between walls with u = 0: k cot(l a) + cot(l b) = 0; none at right angles."""
    slanted = problem({"a": Polygon([(-1, -1), (0.3, -1), (0, 1), (-1, 1)])}, {"a": 10, "rest": 1})
    b = math.atan2(2, -0.3)
    a = math.pi - b

    def missing(p: float) -> float:
        return 10 * math.cos(p * a) * math.sin(p * b) + math.cos(p * b) * math.sin(p * a)

    wanted = [brentq(missing, *ends) for ends in ((0.9, 1.2), (1.7, 1.95))]
    assert np.allclose(exponents(slanted, (0.3, -1))[:2], wanted, atol=1e-8)
    for shape in (Box((-1, -1), (0.3, 1)), Intersection([Disk((0.3, -1), 0.6), SQUARE])):
        straight = problem({"a": shape}, {"a": 10, "rest": 1})
        ends = [c for c in corners_of(SQUARE, straight.regions) if len(c.sectors) == 2]
        assert len(ends) == 2 and not any(functions_at(question_of(straight), c) for c in ends)


def kellogg() -> dict[str, object]:
    """r^0.1 times Kellogg's profile, quarter by quarter, with the angle from the middle of each by half of it."""
    power, rho, sigma, right = 0.1, math.pi / 4, math.pi / 4 - 5 * math.pi, math.pi / 2
    parts = (
        (right - sigma, right - rho),
        (rho, math.pi - sigma),
        (sigma, math.pi + rho),
        (right - rho, 3 * right + sigma),
    )
    field = {}
    for quarter, (name, (factor, shift)) in enumerate(zip((*QUARTERS, "rest"), parts, strict=True)):
        middle = (2 * quarter + 1) * rho
        cos, sin = math.cos(middle), math.sin(middle)
        half = rf"\arctan(({cos!r} y - ({sin!r}) x) / (\sqrt{{x^2 + y^2}} + {cos!r} x + ({sin!r}) y))"
        angle = rf"{power} (2 {half} + ({middle - shift!r}))"
        field[name] = rf"{math.cos(power * factor)!r} (x^2 + y^2)^{{{power / 2}}} \cos({angle})"
    k = {"a": KELLOGG, "b": 1, "c": KELLOGG, "rest": 1}
    equations = {**CONDUCTION, "boundary": "u = g"}
    return {"k": k, "parameters": {"k": k, "g": field}, "equations": equations, "exact": {"u": field}}


def test_kelloggs_checkerboard():
    """r^0.1, the worst of all cross points, on a few patches; it vanishes in the cross point itself."""
    given = problem(QUARTERS, solve={"target": 1e-6}, **kellogg())
    with warnings.catch_warnings():
        warnings.simplefilter("error", CnfWarning)
        answer = given.solve()
    x = SQUARE.random(2000, torch.Generator().manual_seed(0))
    wanted = given.exact["u"](x).reshape(-1)
    error = float((answer(x)[:, 0] - wanted).norm() / wanted.norm())
    assert answer.certificate.exact and answer.field.basis.cells.count < 100
    assert error < 1e-6 and error / 3 < answer.estimate < 1e-6
    assert abs(float(answer(torch.zeros(1, 2, dtype=torch.float64)))) < 1e-5  # (1e-14)^0.1 would leave 3e-3


def test_every_patch_has_the_functions_of_its_sector():
    """A corner inside an inclusion: its own patch and those around it; no two regions share one."""
    given = problem({"a": Box((-1, -1), (0.3, 0.3))}, {"a": 10, "rest": 1})
    question = question_of(given)
    functions = corner_functions(question, orders_of(question))
    assert {f.centre for f in functions} == {(0.3, 0.3)} and len(functions) == 2
    mesh = Mesh.of(first_cells(SQUARE, [(0.3, 0.3)], given.regions), (4, 4), SQUARE, functions, regions=given.regions)
    touching = np.flatnonzero(mesh.at_corner >= 0)
    assert len(touching) == 4
    inside = {k: abs((f.start + f.end) / 2 % (2 * math.pi) - 1.25 * math.pi) < 1e-9 for k, f in enumerate(functions)}
    assert all((mesh.region[patch] == 0) == inside[mesh.at_corner[patch]] for patch in touching)


def test_functions_make_room_only_if_a_patch_has_the_corner_to_itself():
    """Two sectors with a patch each: none of them has the corner to itself, so both keep all polynomials."""
    given = problem({"a": Box((-1, -1), (0.3, 0.3))}, {"a": 10, "rest": 1})
    question = question_of(given)
    functions = corner_functions(question, orders_of(question))
    space, cells = cnf.Space("x y", "u"), Cells([-1, -1], [1, 1]).cut([0], 0, [0.3])
    alone, shared = (Piecewise(space, cells, 4, corners=functions, at_corner=at) for at in ([0, -1], [0, 1]))
    assert alone.active().sum() == 2 * 25
    assert shared.active().sum() == 2 * (25 + functions[0].count)


def test_functions_of_corners_count_by_their_exponents():
    """r^0.1 is as cheap as a constant, r^3.9 as dear as degree 12: what polynomials can do is left to them."""
    question = question_of(problem(QUARTERS, {"a": KELLOGG, "b": 1, "c": KELLOGG, "rest": 1}))
    functions = corner_functions(question, orders_of(question))
    basis = Piecewise(cnf.Space("x y", "u"), Cells([0, 0], [1, 1]), 2, corners=functions, at_corner=[0])
    assert basis.degrees().tolist() == [0, 1, 2, 1, 2, 3, 2, 3, 4, 0, 6, 6, 12]


def test_smooth_fields_beside_a_corner_of_an_interface():
    """Different polynomials inside and around a triangle: its functions stay out of the way."""
    shape = Polygon([(-0.5, -0.4), (0.6, -0.3), (0.2, 0.55)])
    inner, outer = "x^2 - y^2 + 1", "x y - y"
    flux = "(n_x y + n_y (x - 1)) - 10 (2 x n_x - 2 y n_y)"
    field = {"a": inner, "rest": outer}
    answer = problem(
        {"a": shape},
        {"a": 10, "rest": 1},
        parameters={"k": {"a": 10, "rest": 1}},
        equations=[
            {"on": "interior", "equation": CONDUCTION["interior"]},
            {"on": "boundary", "equation": f"u = {outer}"},
            {"on": "interface a", "equation": f"[u] = {outer} - ({inner})"},
            {"on": "interface a", "equation": rf"[k \partial_n u] = {flux}"},
        ],
        exact={"u": field},
        solve={"target": 1e-7},
    ).solve()
    assert answer.certificate.exact and max(answer.errors.values()) < 1e-8


def test_estimates_compare_cells_of_two_sizes_where_regions_meet():
    """A source around a square inclusion: two degrees on the same cells agree better than they are right."""
    inclusion = {"a": Box((-0.5, -0.5), (0.5, 0.5))}
    equations = {"interior": r"-\nabla\cdot(k \nabla u) = 1", "boundary": "u = 0"}
    question = question_of(problem(inclusion, {"a": 10, "rest": 1}, equations=equations))
    found = adapt(question, 1e-4, lambda found: None)
    last, before = (found.rounds[k].solution for k in (found.best, found.best - 1))
    assert found.best > 0 and field_difference(last, before, found.probes) <= found.estimate < 1e-4
