"""Adapting: what is decided between two rounds, each by a problem that shows the decision."""

from __future__ import annotations

import math
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

import cnf
from cnf.bases import Cells, Piecewise
from cnf.bases.corner_functions import CornerFunctions
from cnf.domains import Disk
from cnf.pde.patches import adapting, opinions
from cnf.pde.patches.adapting import degrees_on
from cnf.pde.patches.building import Mesh, build_field
from cnf.pde.patches.refining import graded
from cnf.pde.patches.rounds import Round
from cnf.pde.patches.shaped_layout import ShapedLayout
from cnf.pde.patches.solid import Solid
from cnf.pde.problems.on_patches import question_of, share_left_open
from cnf.solvers.metric import Metric
from cnf.solvers.null_space import Ties
from cnf.systems.tied import nearest_weights

DISK = Disk((0, 0), 1)


def question(domain: cnf.domains.Domain, inside: str = r"-\Delta u = 4"):
    return question_of(cnf.Problem("x y", domain=domain, equations={"interior": inside, "boundary": "u = 0"}))


def adapted(domain: cnf.domains.Domain, inside: str, target: float, most: int = 40) -> adapting.Adapted:
    return adapting.adapt(question(domain, inside), target, lambda found: None, most=most)


# -- higher degrees -----------------------------------------------------------------------------------------------

LAYER = r"-0.003 \Delta u + u = 1"  # smooth, but not resolved by the first patches


def test_degrees_are_raised_where_that_gains_more_than_cells():
    """A smooth layer of 0.05 around a disk: two degrees more on the same cells leave less than a quarter."""
    rounds = adapted(DISK, LAYER, 1e-7).rounds
    pairs = [(a, b) for a, b in pairwise(rounds) if b.mesh.degree != a.mesh.degree]
    assert pairs
    for a, b in pairs:
        assert b.mesh.degree == tuple(p + 2 for p in a.mesh.degree) and b.mesh.cells is a.mesh.cells
        assert b.worst < adapting.GAIN_ON_SHAPES * a.worst


def test_degrees_are_not_raised_at_corners_with_infinite_slopes(monkeypatch: pytest.MonkeyPatch):
    """The same with a function r^0.7 somewhere: higher degrees would not see what they all miss."""
    profile = np.ones((1, 2, 1, 9)) * np.array([1.0, 0.0])[:, None, None]
    corner = CornerFunctions((1.0, 0.0), math.pi / 2, 1.5 * math.pi, np.array([0.7]), profile, np.array([0]))
    monkeypatch.setattr(adapting, "corner_functions", lambda question, orders: [corner])
    assert {found.mesh.degree for found in adapted(DISK, LAYER, 1e-7, most=2).rounds} == {(12, 12)}


@pytest.mark.parametrize(("goal", "degree"), [(1e-2, 8), (1e-4, 8), (1e-5, 10), (1e-6, 10), (1e-7, 12), (1e-13, 12)])
def test_the_first_degree_follows_the_target(goal: float, degree: int):
    """Two digits more for two degrees more, from 8 on and no higher than 12."""
    assert adapting.degree_for(goal) == degree


@pytest.mark.parametrize(
    ("off", "goal", "few"),
    [
        ([1e-2, 1e-5, 1e-5, 1e-5], 1e-6, True),
        ([1e-2, 1e-2, 1e-5], 1e-6, False),
        ([1e-2, 1e-5, 1e-5, 1e-5], 1e-3, False),
    ],
)
def test_few_patches_far_off_are_cut_before_anybody_asks_for_a_higher_degree(off: list[float], goal: float, few: bool):
    """One of four patches is off by ten thousand times the target, or two of three, or only by ten times the target."""
    assert adapting.few_are_off(SimpleNamespace(off=np.array(off), worst=max(off)), goal) is few  # type: ignore[arg-type]


# -- estimates ----------------------------------------------------------------------------------------------------


def test_fields_of_rounds_serve_as_coarser_opinions(monkeypatch: pytest.MonkeyPatch):
    """A layer around a disk, raised to a degree that is good enough: the degree below was solved for already."""
    built: list[Mesh] = []

    def watched(asked, orders, mesh: Mesh):
        built.append(mesh)
        return build_field(asked, orders, mesh)

    monkeypatch.setattr(opinions, "build_field", watched)
    found = adapted(DISK, LAYER, 1e-6)
    assert found.estimate <= 1e-6 and found.chosen.mesh.cells is found.rounds[found.best - 1].mesh.cells
    solved = {(id(r.mesh.cells), r.mesh.degree, r.mesh.strength) for r in found.rounds}
    assert not any((id(mesh.cells), mesh.degree, mesh.strength) in solved for mesh in built)


def test_the_round_that_is_off_least_is_estimated(monkeypatch: pytest.MonkeyPatch):
    """Three rounds of which the second is off least, and none is good enough: it has a second opinion as well."""
    solve, seen = adapting.solve_round, []

    def watched(asked, orders, mesh: Mesh) -> Round:
        found = solve(asked, orders, mesh)
        seen.append(mesh)
        share = 1e-6 if sum(m.degree == (12, 12) for m in seen) == 2 else 1.0
        return Round(*(share * v if k == "off" else v for k, v in vars(found).items()))

    monkeypatch.setattr(adapting, "solve_round", watched)
    monkeypatch.setattr(adapting, "_stuck", lambda rounds, *rest: len(rounds) == 3)
    monkeypatch.setattr(adapting, "GAIN_ON_SHAPES", 0.0)
    rounds = adapted(DISK, LAYER, 1e-14).rounds
    assert np.argmin([found.worst for found in rounds]) == 1
    opinions = [mesh.cells.count for mesh in seen if mesh.degree == (14, 14)]
    assert opinions == [rounds[k].mesh.cells.count for k in (0, 2, 1)]


# -- weights and ranks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("good", [True, False])
def test_weights_are_corrected_as_long_as_that_helps(good: bool):
    """Two cells with two rows each, no ties, and a factor that is off by 1 %: four times less; or one that diverges."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(4, 2)) + 3 * np.tile(np.eye(2), (2, 1))
    column, wanted = np.array([1.0, 0.5]), rng.normal(size=(2, 2))
    blocks = table.reshape(2, 2, 2) * column

    def solve(right: np.ndarray, tied: np.ndarray) -> np.ndarray:
        exact = np.linalg.solve(blocks, right.reshape(2, 2, 1))[:, :, 0]
        return (1.01 if good else 3.0) * exact

    none = np.zeros(0, dtype=np.int64)
    ties = Ties(0, none, none, np.zeros((0, 2)))
    metric = Metric(column, np.ones((2, 2), dtype=bool))
    factor = SimpleNamespace(starts=np.array([0, 2, 4]), metric=metric, ties=ties, solve=solve)
    right = np.einsum("kij,kj->ki", blocks, wanted).ravel()
    found, beyond = nearest_weights(factor, table, right, np.zeros(0))
    assert np.allclose(found, beyond * column)
    assert np.allclose(found, wanted * column * (1.0 if good else 3.0), rtol=2e-10)


@pytest.mark.parametrize(("rank", "is_open"), [(59, True), (60, False)])
def test_solids_are_open_below_the_rank_of_their_layout(rank: int, is_open: bool):
    """Two channels at 30 points ask for the rank 60; in solids functions outnumber conditions and do not count."""
    basis = Piecewise(cnf.Space("x y z", "u v"), Cells([0, 0, 0], [1, 1, 1]), 8)
    equations = [
        {"on": part, "equation": f"{left} {channel} = 0"}
        for channel in "uv"
        for part, left in (("interior", r"\Delta"), ("boundary", ""))
    ]
    problem = cnf.Problem("x y z", "u v", domain=cnf.domains.Ball((0, 0, 0), 1), equations=equations)
    certificate = SimpleNamespace(channels=2)
    answer = SimpleNamespace(field=SimpleNamespace(basis=basis), certificate=certificate, problem=problem)
    none, arc = np.zeros((0, 3)), SimpleNamespace(points=np.zeros((10, 3)))
    points = ShapedLayout(np.zeros((20, 3)), none, (none, none), (arc,), {}, {}, None, none, ())
    mesh = SimpleNamespace(shaped=object.__new__(Solid), shaped_layout=points)
    assert (share_left_open(answer, mesh, rank) > 0) == is_open


def test_cells_beside_narrow_ones_are_at_most_twice_as_wide():
    """A square cut five times around (0.49, 0.49): then no cell is beside one less than half as wide."""
    cells = Cells([0, 0], [1, 1])
    for _ in range(5):
        for axis in (0, 1):
            cells = cells.cut(cells.locate(np.array([[0.49, 0.49]])), axis)
    found = graded(cells)
    width = found.upper - found.lower
    ratios = [width[f.first] / width[f.second] for f in found.faces() if f.second >= 0]
    assert np.max(ratios) <= 2 and np.min(ratios) >= 0.5
    assert found.count > cells.count and np.isclose(width.prod(axis=1).sum(), 1)


def test_an_easy_target_begins_with_a_lower_degree_in_boxes():
    """1e-4 asks for degree 8 in the plane and 6 in space, 1e-6 and no target for as many as before; time as before."""
    plane, space = cnf.Box((0, 0), (1, 1)), cnf.Box((0, 0, 0), (1, 1, 1))
    assert degrees_on(plane, goal=1e-4) == (8, 8) and degrees_on(space, goal=1e-4) == (6, 6, 6)
    assert degrees_on(plane, goal=1e-6) == degrees_on(plane) == (12, 12)
    assert degrees_on(cnf.domains.Timed(cnf.Box((0,), (1,)), 0, 1), goal=1e-4) == (12, 12)
