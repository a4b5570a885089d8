"""Curved solids during time: slabs of patches in space, solved in stages, degree by degree."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.special import iv

import cnf
from cnf.bases import Cells
from cnf.domains import Ball, Box, Difference, Timed
from cnf.errors import ProblemError
from cnf.pde.patches import climbing
from cnf.pde.patches.building import build_field, orders_of
from cnf.pde.patches.carrying import in_slabs
from cnf.pde.patches.evening import is_steady
from cnf.pde.patches.mesh import Mesh
from cnf.pde.patches.scouting import halved, in_time, scouted_in_solid
from cnf.pde.patches.sizing import memory_needed
from cnf.pde.patches.solid_cells import first_solid_cells
from cnf.pde.problems.on_patches import question_of
from cnf.solvers import marching
from cnf.solvers.null_space import TiedFactor

BLOCK = Difference(Box((0, 0, 0), (1, 1, 1), name="box"), [Ball((0.5, 0.5, 0.5), 0.3, name="hole")])
DURING = Timed(BLOCK, 0, 0.1)
START = r"\sin(2x + 1)\cos(y) e^z"
FIELD = rf"e^{{-t}} {START}"
SLOPE = (  # along the normal of the hole, which points to its centre
    r"-e^{-t} e^z (2\cos(2x + 1)\cos(y)(x - 0.5) - \sin(2x + 1)\sin(y)(y - 0.5) + \sin(2x + 1)\cos(y)(z - 0.5)) / 0.3"
)
HEAT = {
    "interior": rf"u_t - \Delta u = 3 {FIELD}",
    "t = 0": f"u = {START}",
    "box": f"u = {FIELD}",
    "hole": rf"\partial_n u + 2 u = {SLOPE} + 2 {FIELD}",
}


def heat(target: float = 1e-3, **changed: str) -> cnf.Problem:
    solve = {"method": "patches", "target": target}
    return cnf.Problem("x y z t", domain=DURING, equations=HEAT | changed, exact=FIELD, solve=solve)


def exact_at(x: torch.Tensor) -> torch.Tensor:
    return torch.exp(x[:, 2] - x[:, 3]) * torch.sin(2 * x[:, 0] + 1) * torch.cos(x[:, 1])


def test_heat_in_a_block_with_a_hole():
    """u = e^-t sin(2x + 1) cos(y) e^z, Robin's condition on a spherical hole: exact, to its target, and judged.

    Degrees in space and time climb together, so that both count in the estimate.
    """
    answer = heat(1e-3).solve()
    (error,) = answer.errors.values()
    assert answer.certificate.exact and error / 3 <= answer.estimate <= 1e-3
    *space, time = answer.field.basis.degree
    assert set(space) == {time + 1} and time >= climbing.LOWEST + climbing.OPINIONS - 2
    degrees = [int(trial.settings["degree"]) for trial in answer.tuning.trials]
    assert degrees == list(range(climbing.LOWEST, space[0] + 1))


def test_slabs_in_a_solid_share_a_factor_that_memory_was_counted_for(monkeypatch: pytest.MonkeyPatch):
    """Three equal slabs of degree 3 in time: one factor, of one real and one complex stage, not more than was said."""
    question = question_of(heat())
    assert is_steady(question, normals=True)  # those of the hole are the same at all times
    mesh = Mesh.of(in_slabs(first_solid_cells(DURING), 3, 0.1 / 3), (4, 4, 4, 3), DURING)
    made: list[marching.StagedFactor] = []

    class Counted(marching.StagedFactor):
        def __init__(self, *given):
            super().__init__(*given)
            made.append(self)

    monkeypatch.setattr(marching, "StagedFactor", Counted)
    field = build_field(question, orders_of(question), mesh).eval()
    x = DURING.random(500, torch.Generator().manual_seed(1))
    with torch.no_grad():
        off = field(x)[:, 0] - exact_at(x)
    assert len(made) == 1 and field.certificate.exact and off.abs().max() < 3e-2
    assert field.certificate.conditions < int(field.basis.active().sum())  # guides decide the rest
    rates = [np.iscomplexobj(stage.local[0].reflections) for stage in made[0].stages]
    assert sorted(rates) == [False, True]
    taken = sum(_bytes_of(stage) for stage in made[0].stages)
    assert taken <= memory_needed(mesh) <= 8 * taken


def _bytes_of(factor: TiedFactor) -> int:
    factors = [*factor.local, *(front.factor for front in factor.fronts)]
    arrays = [a for f in factors for a in (f.reflections, f.turn, f.turned) if a is not None]
    arrays += [front.held for front in factor.fronts] + list(factor.metric.triangles.values())
    return sum(a.nbytes for a in [*arrays, factor.ties.vectors])


def test_slabs_of_solids_that_are_not_alike_take_factors_of_their_own():
    """The memory of two lengths of slabs is that of two factors; that of one length hardly grows with their number."""
    cells = first_solid_cells(DURING)
    needed = [
        memory_needed(Mesh.of(own, (6, 6, 6, 5), DURING))
        for own in (cells, halved(cells), halved(cells, np.ones(1)).cut(np.arange(cells.count), 3))
    ]
    assert needed[0] <= needed[1] < 1.2 * needed[0] and 1.5 * needed[0] < needed[2] < 2.2 * needed[0]


def decaying(rate: float) -> tuple[Cells, Timed, object]:
    """Cells, a domain and a stand-in for fields u = e^(-rate t) of degree 3 in time, for 0 < t < 1."""

    def solve(cells: Cells):
        mesh = SimpleNamespace(degree=(3, 3, 3, 3), cells=cells)
        return SimpleNamespace(mesh=mesh, solution=lambda x: torch.exp(-rate * x[:, 3:]))

    domain = Timed(Ball((0, 0, 0), 1.0), 0, 1)
    return Cells(domain.lower, domain.upper), domain, solve


@pytest.mark.parametrize("slabs", [1, 2, 4])
def test_coefficients_in_time_are_those_of_the_field(slabs: int):
    """e^(-2 t) on slabs of length h has the coefficient 2 I_3(h) e^(-h) of T_3, nearly, times its start.

    Its square has the mean I_0(2h) e^(-2h) over Chebyshev's points.
    """
    cells, domain, solve = decaying(2.0)
    while len(np.unique(cells.lower[:, 3])) < slabs:
        cells = halved(cells)
    h = 1.0 / slabs
    start = np.exp(-2 * h * np.arange(slabs))
    known, size = start * 2 * iv(3, h) * np.exp(-h), np.sqrt(np.mean(start**2) * iv(0, 2 * h) * np.exp(-2 * h))
    found = in_time(solve(cells), domain, 0)
    assert np.allclose(found * size, known, rtol=0.05)


@pytest.mark.parametrize(("rate", "slabs"), [(0.5, 1), (4.0, 4), (1000.0, 16)])
def test_slabs_are_as_short_as_fields_change(rate: float, slabs: int):
    """Halved until degree 3 in time leaves one percent: not for a slow field, not beyond 16 slabs for a fast one."""
    cells, domain, solve = decaying(rate)
    found = scouted_in_solid(cells, domain, 0, solve)
    assert len(np.unique(found.lower[:, 3])) == slabs


def test_what_does_not_change_with_the_length_of_slabs_is_not_followed():
    """Patches that are cut fit their equations anew in every slab: two percent, however short slabs are."""
    cells, domain, _ = decaying(1.0)

    def solve(cells: Cells):
        ends = np.unique(cells.lower[:, 3])
        half = 0.5 / len(ends)

        def jagged(x: torch.Tensor) -> torch.Tensor:
            s = (x[:, 3:] % (2 * half)) / half - 1
            return 1 + 0.02 * (4 * s**3 - 3 * s)

        return SimpleNamespace(mesh=SimpleNamespace(degree=(3, 3, 3, 3), cells=cells), solution=jagged)

    assert scouted_in_solid(cells, domain, 0, solve) is cells


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"interior": r"u_t - (1 + t) \Delta u = 0"}, "coefficients are formulas without t"),
        ({"x = 0.1, y = 0.1, z = 0.1, t = 0.05": "u = 1"}, "conditions inside, on the boundary and at the start"),
        ({"interior": r"u_{tt} - \Delta u = 0"}, "first order in time"),
    ],
)
def test_what_solids_during_time_do_not_take_is_said(changed: dict[str, str], told: str):
    with pytest.raises(ProblemError, match=told):
        heat(**changed).solve()


def test_no_memory_for_slabs_is_said(monkeypatch: pytest.MonkeyPatch):
    """Before anything is solved, with what it takes and what there is."""
    monkeypatch.setattr(climbing, "memory_there_is", lambda: 1e6)
    with pytest.raises(ProblemError, match=r"8, which take about 0\.\d GB where 0\.0 GB can be had"):
        heat().solve()
