"""Climbing: curved solids are solved degree by degree, within the memory there is, and judged by the degrees below."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.linalg
import torch
from threadpoolctl import threadpool_info, threadpool_limits

import cnf
from cnf.domains import Ball, Box, Difference
from cnf.errors import ProblemError
from cnf.pde.patches import climbing, sizing
from cnf.pde.patches.building import Mesh, build_field, orders_of
from cnf.pde.patches.sizing import memory_needed
from cnf.pde.patches.solid_cells import first_solid_cells
from cnf.pde.problems.on_patches import question_of
from cnf.systems import tied
from cnf.systems.tied import Tied
from tests.pde.plan_memory import arrays_of_factor

HOLE = Difference(Box((0, 0, 0), (1, 1, 1)), [Ball((0.5, 0.5, 0.5), 0.3)])
WAVE = r"\sin(2x + 1)\cos(y) e^z"
VALUES = {"interior": rf"-\Delta u = 4 {WAVE}", "boundary": f"u = {WAVE}"}


def problem(target: float, domain: cnf.domains.Domain = HOLE) -> cnf.Problem:
    solve = {"method": "patches", "target": target}
    return cnf.Problem("x y z", domain=domain, equations=VALUES, exact=WAVE, solve=solve)


def test_the_estimate_is_what_degrees_to_come_would_change():
    """-Laplace u = 4 u around a hole, u = sin(2x + 1) cos(y) e^z: the lower degrees say how far the last one is off."""
    answer = problem(3e-4).solve()
    degrees = [int(trial.settings["degree"]) for trial in answer.tuning.trials]
    assert degrees == list(range(climbing.LOWEST, degrees[-1] + 1)) and degrees[-1] >= climbing.LOWEST + 2
    assert answer.certificate.exact and answer.estimate <= 3e-4
    (error,) = answer.errors.values()
    assert error / 3 <= answer.estimate <= 10 * error


def test_differences_to_come():
    """Differences 1, 1/4, 1/16, ...: 1/12 after 1/4; none is trusted to shrink by more than 10."""
    assert climbing.to_come(0.25, 0.25) == pytest.approx(climbing.DOUBT / 12)
    assert climbing.to_come(1.0, 1e-6) == climbing.to_come(1.0, climbing.STEEPEST)
    assert climbing.to_come(1.0, 3.0) == climbing.to_come(1.0, climbing.SLOWEST) < math.inf


def test_memory_ends_the_climb(monkeypatch: pytest.MonkeyPatch):
    """Memory for degree 4, not for 5: the answer has degree 4, and its difference to degree 3 as its estimate."""
    mesh = Mesh.of(first_solid_cells(HOLE), (4, 4, 4), HOLE)
    monkeypatch.setattr(climbing, "memory_there_is", lambda: 1.01 * memory_needed(mesh))
    answer = problem(1e-6).solve()
    assert answer.field.basis.degree == (4, 4, 4) and answer.certificate.exact
    (error,) = answer.errors.values()
    assert error / 3 <= answer.estimate < 1


def test_no_memory_at_all_is_said(monkeypatch: pytest.MonkeyPatch):
    """Before anything is solved, with what it takes and what there is."""
    monkeypatch.setattr(climbing, "memory_there_is", lambda: 1e6)
    with pytest.raises(ProblemError, match=r"8, which take about 0\.\d GB where 0\.0 GB can be had"):
        problem(1e-3).solve()


@pytest.mark.parametrize("domain", [HOLE, Ball((0, 0, 0), 1.0)], ids=["hole", "ball"])
@pytest.mark.parametrize("large", [tied.LARGE, 0], ids=["small", "large"])
def test_memory_needed_is_what_is_taken(domain: cnf.domains.Domain, large: int, monkeypatch: pytest.MonkeyPatch):
    """The arrays of rows, factors and merges of a solid, added up, beside what was said in advance.

    Where there are many, rows are not kept.
    """
    monkeypatch.setattr(tied, "LARGE", large)
    monkeypatch.setattr(sizing, "LARGE", large)
    question = question_of(problem(1e-3, domain))
    mesh = Mesh.of(first_solid_cells(domain), (4, 4, 4), domain)
    field = build_field(question, orders_of(question), mesh)
    with torch.no_grad():
        plan = Tied(()).plan(field.basis, field.constraints)
    arrays = arrays_of_factor(plan)
    if large:
        arrays += [plan.system.table.numpy(), plan.system.vectors.numpy(), plan.guides.table.numpy()]
    else:
        assert not isinstance(plan.system.table, torch.Tensor) and plan.guides is None
    arrays += list(plan.factor.metric.triangles.values())
    taken = sum(a.nbytes for a in arrays)
    assert taken <= memory_needed(mesh) <= 4 * taken


def test_rows_that_are_worked_out_when_asked_for_are_the_same(monkeypatch: pytest.MonkeyPatch):
    """-Laplace u = 4 u around a hole at degree 4, rows kept or not: the same field, with the error of this degree."""
    x = HOLE.random(400, torch.Generator().manual_seed(0))
    fields = []
    for large in (tied.LARGE, 0):
        monkeypatch.setattr(tied, "LARGE", large)
        question = question_of(problem(1e-3))
        mesh = Mesh.of(first_solid_cells(HOLE), (4, 4, 4), HOLE)
        field = build_field(question, orders_of(question), mesh).eval()
        assert field.certificate.exact
        fields.append(field(x)[:, 0])
    wanted = torch.sin(2 * x[:, 0] + 1) * torch.cos(x[:, 1]) * torch.exp(x[:, 2])
    error = float((fields[1] - wanted).abs().max())
    assert float((fields[0] - fields[1]).abs().max()) < 1e-4 * error < 1e-4 * 3e-2


def test_cut_patches_of_solids_are_right_between_the_points():
    """Robin conditions on a ball: fewer conditions than functions, all exact; guides make the error five times smaller.

    Without them the smallest weights decide what the conditions leave open.
    """
    ball = Ball((0, 0, 0), 1.0)
    slope = r"x \cos(x + 1)\cos(y) e^z - y \sin(x + 1)\sin(y) e^z + z u_0".replace("u_0", r"\sin(x + 1)\cos(y) e^z")
    equations = {
        "interior": r"-\Delta u = \sin(x + 1)\cos(y) e^z",
        "boundary": rf"\partial_n u + u = {slope} + \sin(x + 1)\cos(y) e^z",
    }
    question = question_of(cnf.Problem("x y z", domain=ball, equations=equations))
    field = build_field(question, orders_of(question), Mesh.of(first_solid_cells(ball), (5, 5, 5), ball)).eval()
    x = ball.random(400, torch.Generator().manual_seed(0))
    wanted = torch.sin(x[:, 0] + 1) * torch.cos(x[:, 1]) * torch.exp(x[:, 2])
    assert field.certificate.exact and field.certificate.conditions < 0.9 * int(field.basis.active().sum())
    bare = cnf.bases.Piecewise(**{**field.basis.config(), "guides": []})
    left = cnf.ConstrainedField(bare, field.constraints, on_violation="warn").eval()
    errors = [float((f(x)[:, 0] - wanted).abs().max()) for f in (field, left)]
    assert left.certificate.exact and errors[0] < 1e-3 and errors[1] > 5 * errors[0], errors


def test_only_the_directions_that_ties_determine_are_kept():
    """Of the ties that reach beyond a merge, a front keeps as many columns as it has independent finished ones."""
    field = build_field(
        question := question_of(problem(1e-3)), orders_of(question), Mesh.of(first_solid_cells(HOLE), (3, 3, 3), HOLE)
    )
    factor = Tied(()).plan(field.basis, field.constraints).factor
    assert all(front.held.shape == (len(front.outstanding), front.factor.rank) for front in factor.fronts)
    assert np.isfinite(factor.fronts[0].held).all() and factor.fronts[0].held.size


def test_small_matrices_have_one_thread(monkeypatch: pytest.MonkeyPatch):
    """Points, guides and factors of a solid on a BLAS that was told to use two threads: none of them is given two.

    On a busy machine they wait for each other: the bar of `benchmarks.space_patches` took 60 s of processor, not 5.
    """
    seen: list[int] = []

    def watched(factorise):
        def call(matrix: np.ndarray, **options):
            if matrix.size > 9:  # rotations of points on a sphere are no work
                seen.extend(found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas")
            return factorise(matrix, **options)

        return call

    monkeypatch.setattr(np.linalg, "qr", watched(np.linalg.qr))
    monkeypatch.setattr(scipy.linalg, "qr", watched(scipy.linalg.qr))
    with threadpool_limits(2, "blas"):
        problem(1.0).solve()
    assert seen and max(seen) == 1
