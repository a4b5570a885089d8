"""Adapting: what is decided between two rounds, each by a problem that shows the decision."""

from __future__ import annotations

import math
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

import cnf
from cnf.bases import Cells, Cover, Piecewise
from cnf.bases.corner_functions import CornerFunctions
from cnf.domains import Disk, Polygon
from cnf.pde.patches import adapting
from cnf.pde.patches.building import Mesh, build_field, orders_of
from cnf.pde.patches.rounds import Round
from cnf.pde.patches.shaped import Shaped
from cnf.pde.patches.solid import Solid
from cnf.pde.problems.on_patches import left_open, question_of
from cnf.systems.tied import refined

DISK = Disk((0, 0), 1)
TRIANGLE = Polygon([(0, 0), (1, 0), (0, 1)])


def question(domain: cnf.domains.Domain, inside: str = r"-\Delta u = 4"):
    boundary = "u = 0" if domain is DISK else "u = x y + 1"
    return question_of(cnf.Problem("x y", domain=domain, equations={"interior": inside, "boundary": boundary}))


def adapted(domain: cnf.domains.Domain, inside: str, target: float, most: int = 40) -> adapting.Adapted:
    probes = domain.fill(300, "halton", 0)
    return adapting.adapt(question(domain, inside), target, probes, lambda found: None, most=most)


# -- fewer functions where a patch fills little of its frame ------------------------------------------------------


def test_functions_up_to_a_total_degree():
    """Of degree 5 a cell has 36 products, one that is marked those 21 with a sum of degrees up to 5."""
    cells = Cells([0, 0], [2, 1]).cut([0], 0)
    cover = Cover(cells, np.arange(2), cells.lower, cells.upper, by_total_degree=np.array([False, True]))
    basis = Piecewise(cnf.Space("x y", "u"), cover, 5)
    assert basis.active().sum(axis=1).tolist() == [36, 21]
    assert (basis.snapshot().exponents[basis.active()[1]].sum(axis=1) <= 5).all()


def test_sparing_marks_triangles_and_counts_their_conditions():
    """The right triangle on 4 x 4 cells: those on its long side fill half their frames; all counts stay square."""
    cells = Cells([0, 0], [1, 1])
    for _ in range(2):
        for axis in (0, 1):
            cells = cells.cut(range(cells.count), axis)
    plain, sparing = (Shaped.of(TRIANGLE, cells, sparing=s) for s in (False, True))
    assert not plain.cover.by_total_degree.any()
    slanted = np.array([any(abs(run.at(np.array([0.5]))[0].sum() - 1) < 1e-9 for run in r) for r in sparing.runs])
    assert slanted.sum() == 4 and np.array_equal(sparing.cover.by_total_degree, slanted)
    asked = question(TRIANGLE)
    field = build_field(asked, orders_of(asked), Mesh.of(cells, (6, 6), TRIANGLE, sparing=True))
    functions = field.basis.active().sum()
    assert functions == 6 * 48 + 4 * 28
    assert 0 <= functions - field.basis.brought_conditions - sum(c.rows for c in field.constraints) <= 4


@pytest.mark.parametrize("helps", [True, False])
def test_sparing_is_kept_if_it_makes_the_field_exact(helps: bool, monkeypatch: pytest.MonkeyPatch):
    """The first round misses a condition: the same with fewer functions, which stays only if that misses none."""

    def exact(found: Round) -> bool:
        assert found.mesh.shaped is not None
        return helps and bool(found.mesh.shaped.cover.by_total_degree.any())

    monkeypatch.setattr(Round, "exact", property(exact))
    (found,) = adapted(TRIANGLE, r"-\Delta u = 0", 1e-6, most=1).rounds
    assert found.mesh.shaped.cover.by_total_degree.any() == helps


# -- higher degrees -----------------------------------------------------------------------------------------------

LAYER = r"-0.003 \Delta u + u = 1"  # smooth, but not resolved by the first patches


def test_degrees_are_raised_where_that_gains_more_than_cells():
    """A smooth layer of 0.05 around a disk: two degrees more on the same cells leave less than a tenth."""
    rounds = adapted(DISK, LAYER, 1e-7).rounds
    pairs = [(a, b) for a, b in pairwise(rounds) if b.mesh.degree != a.mesh.degree]
    assert pairs
    for a, b in pairs:
        assert b.mesh.degree == tuple(p + 2 for p in a.mesh.degree) and b.mesh.cells is a.mesh.cells
        assert b.worst < adapting.GAIN * a.worst


def test_degrees_are_not_raised_at_corners_with_infinite_slopes(monkeypatch: pytest.MonkeyPatch):
    """The same with a function r^0.7 somewhere: higher degrees would not see what they all miss."""
    profile = np.ones((1, 2, 1, 9)) * np.array([1.0, 0.0])[:, None, None]
    corner = CornerFunctions((1.0, 0.0), math.pi / 2, 1.5 * math.pi, np.array([0.7]), profile, np.array([0]))
    monkeypatch.setattr(adapting, "corner_functions", lambda question, orders: [corner])
    assert {found.mesh.degree for found in adapted(DISK, LAYER, 1e-7, most=2).rounds} == {(12, 12)}


# -- estimates ----------------------------------------------------------------------------------------------------


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
    monkeypatch.setattr(adapting, "GAIN", 0.0)
    rounds = adapted(DISK, LAYER, 1e-14).rounds
    assert np.argmin([found.worst for found in rounds]) == 1
    opinions = [mesh.cells.count for mesh in seen if mesh.degree == (14, 14)]
    assert opinions == [rounds[k].mesh.cells.count for k in (0, 2, 1)]


# -- weights and ranks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("good", [True, False])
def test_weights_are_corrected_once_if_that_helps(good: bool):
    """Two cells with two rows each, no ties, and a factor that is off by 1 %: then by 1e-4; or one that diverges."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(4, 2)) + 3 * np.tile(np.eye(2), (2, 1))
    column, wanted = np.array([1.0, 0.5]), rng.normal(size=(2, 2))
    blocks = table.reshape(2, 2, 2) * column

    def solve(right: np.ndarray, tied: np.ndarray) -> np.ndarray:
        exact = np.linalg.solve(blocks, right.reshape(2, 2, 1))[:, :, 0]
        return (1.01 if good else 3.0) * exact

    ties = SimpleNamespace(applied=lambda weights: np.zeros(0))
    factor = SimpleNamespace(starts=np.array([0, 2, 4]), column=column, ties=ties, solve=solve)
    right = np.einsum("kij,kj->ki", blocks, wanted).ravel()
    found = refined(factor, table, right, np.zeros(0))
    assert np.allclose(found, wanted * (1 - 1e-4) if good else 3.0 * wanted, rtol=1e-12)


@pytest.mark.parametrize(("rank", "is_open"), [(59, True), (60, False)])
def test_solids_are_open_below_the_rank_of_their_layout(rank: int, is_open: bool):
    """Two channels at 30 points ask for the rank 60; in solids functions outnumber conditions and do not count."""
    basis = Piecewise(cnf.Space("x y z", "u v"), Cells([0, 0, 0], [1, 1, 1]), 8)
    answer = SimpleNamespace(field=SimpleNamespace(basis=basis), certificate=SimpleNamespace(rank=rank, channels=2))
    mesh = SimpleNamespace(shaped=object.__new__(Solid), shaped_layout=SimpleNamespace(count=30))
    assert left_open(answer, mesh) == is_open
