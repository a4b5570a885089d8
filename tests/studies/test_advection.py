"""The advection study: errors as PDEBench defines them, baselines that do what they say, tables beside the paper's."""

from __future__ import annotations

import csv
import math
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import cnf
from cnf.demo.advection import BETA, PAPER, conditions, exact_field
from studies.__main__ import run
from studies.advection.baselines import (
    START,
    VARIATION_POINTS,
    Clock,
    errors_of,
    train_as_the_paper,
    train_siren,
    worst_residual,
)
from studies.advection.study import PAPER_METHODS, STUDY_METHODS, Advection, error_table, time_table
from studies.study import Desk, Row


def solve(method: str, folder: Path, seed: int = 0, tell=lambda text: None) -> Row:
    """An eighth of the paper's points: one step of skewed-rbf, 4 of the paper's, 200 of SIREN."""
    case = {"perturbation": 0.1, "method": method, "seed": seed}
    return {**case, **Advection(side=12, steps=1).run(case, Desk(folder, method, tell))}


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    folder = tmp_path_factory.mktemp("advection")
    return [solve(method, folder) for method in STUDY_METHODS]


@pytest.fixture(scope="module")
def other_siren(tmp_path_factory: pytest.TempPathFactory) -> Row:
    """From another seed."""
    return solve("siren", tmp_path_factory.mktemp("siren"), seed=1)


def by_method(cases: list[Row], method: str) -> Row:
    return next(case for case in cases if case["method"] == method)


def test_a_constant_error() -> None:
    """u = exact + 0.25: RMSE 0.25; the exact field has root mean square close to sqrt(1/2) at every time."""
    rmse, nrmse, pooled = errors_of(lambda x: exact_field(x)[:, None] + 0.25)
    assert rmse == pytest.approx(0.25, rel=1e-12)
    assert pooled == pytest.approx(0.25, rel=1e-12)
    assert nrmse == pytest.approx(0.25 * math.sqrt(2), rel=0.02)


def test_a_proportional_error() -> None:
    """u = 1.01 exact: nRMSE is 0.01 whatever the grid."""
    assert errors_of(lambda x: 1.01 * exact_field(x)[:, None])[1] == pytest.approx(0.01, rel=1e-10)


def test_the_mean_over_times_is_taken_last() -> None:
    """An error of t: RMSE is the mean of t, 1/2; all points together give sqrt(mean t^2), 1/3 + 1/600 on 101 times."""
    rmse, _, pooled = errors_of(lambda x: exact_field(x)[:, None] + x[:, 1:])
    assert rmse == pytest.approx(0.5, rel=1e-12)
    assert pooled == pytest.approx(math.sqrt(1 / 3 + 1 / 600), rel=1e-12)


def test_residuals_of_a_plain_function() -> None:
    """The exact field meets all conditions; zero misses the start by max |sin(2 pi k / 11)| = sin(6 pi / 11)."""
    given = conditions(0.5, seed=1, side=12)
    assert worst_residual(lambda x: exact_field(x)[:, None], given) < 1e-13
    assert worst_residual(lambda x: 0 * x[:, :1], given) == pytest.approx(math.sin(6 * math.pi / 11), rel=1e-12)
    assert worst_residual(lambda x: torch.sin(2 * math.pi * x[:, :1]), given) == pytest.approx(
        float((2 * math.pi * BETA * torch.cos(2 * math.pi * given[1].points[:, 0])).abs().max()), rel=1e-12
    )


def test_hard_conditions_hold_and_soft_ones_do_not(cases: list[Row]) -> None:
    """Every field of cnf meets 144 conditions to 1e-5 (equal Gaussians) or better; 200 steps of SIREN do not."""
    for case in cases:
        hard = case["method"] != "siren"
        limit = {"random-fourier": 1e-8, "skewed-rbf": 1e-7}.get(case["method"], 1e-4)
        assert (case["residual"] < limit) if hard else (case["residual"] > 1e-2)


def test_errors_are_in_the_paper_s_order(cases: list[Row]) -> None:
    """The held-out residual does better than the paper's objective by at least ten, on both of its bases."""
    assert by_method(cases, "random-fourier")["rmse"] < 1e-5
    for basis in ("rbf", "skewed-rbf"):
        ours, paper = by_method(cases, basis), by_method(cases, f"{basis}-paper")
        assert ours["rmse"] < 0.1 * paper["rmse"]
        assert paper["rmse"] < paper["paper_rmse"] == PAPER[basis][0.1][0]
    assert all(case["rmse"] <= case["pooled_rmse"] for case in cases)


def test_curves(cases: list[Row]) -> None:
    """One point per training step, sixty or so for SIREN; SIREN's error goes from that of noise to a third of it."""
    steps = {case["method"]: case["curve"]["step"] for case in cases}
    assert steps["random-fourier"] == steps["rbf"] == []
    assert steps["skewed-rbf"] == [0]
    assert steps["rbf-paper"] == steps["skewed-rbf-paper"] == list(range(4))
    assert (steps["siren"][0], steps["siren"][-1]) == (0, 200)
    siren = by_method(cases, "siren")
    assert siren["curve"]["rmse"][0] > 0.5
    assert siren["curve"]["rmse"][-1] < siren["curve"]["rmse"][0] / 3
    assert siren["curve"]["rmse"][-1] == siren["rmse"]  # the last point is the network that is kept
    assert siren["curve"]["loss"][-1] < 0.05 * siren["curve"]["loss"][0]
    for case in cases:
        assert case["curve"]["seconds"] == sorted(case["curve"]["seconds"])


def test_same_seed_same_result(cases: list[Row], other_siren: Row, tmp_path: Path) -> None:
    for method in ("skewed-rbf-paper", "siren"):
        again = solve(method, tmp_path)
        assert again["rmse"] == by_method(cases, method)["rmse"]
        assert again["curve"]["loss"] == by_method(cases, method)["curve"]["loss"]
        other = other_siren if method == "siren" else solve(method, tmp_path, seed=1)
        assert other["rmse"] != again["rmse"]


def test_the_loss_of_siren_is_what_it_says() -> None:
    """Loss before the first step, from the gradient of the same network by backpropagation."""
    _, curve = train_siren(0.1, 3, side=6, steps=1)
    start, pde = conditions(0.1, 3, side=6)
    network = cnf.encoders.SIREN(2, 1, (64, 64), omega=6.0, seed=3)
    x = pde.points.clone().requires_grad_()
    (slope,) = torch.autograd.grad(network(x).sum(), x)
    residual = slope[:, 1] + 0.1 * slope[:, 0]
    misfit = network(start.points)[:, 0] - torch.sin(2 * math.pi * start.points[:, 0])
    expected = residual.square().mean() + 10 * misfit.square().mean()
    assert curve.loss[0] == pytest.approx(expected.item(), rel=1e-12)


@pytest.mark.parametrize("method", PAPER_METHODS)
def test_the_paper_s_objective_is_what_it_says(method: str) -> None:
    """log(condition number) + mean |grad u| before the first step, by NumPy from the formulas of equal Gaussians.

    cnf has the condition number of the equilibrated system, here within a fifth; the mean is about 4.
    """
    _, curve, _ = train_as_the_paper(0.1, method, 3, side=5, steps=1)
    given = conditions(0.1, 3, side=5)
    centres = torch.cat([c.points for c in given])

    def gaussians(points: Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        x, t = (points[:, k, None] - centres[None, :, k] for k in (0, 1))
        bump = torch.exp(-(x**2 + t**2) / (2 * START**2))
        return bump.numpy(), (-x / START**2 * bump).numpy(), (-t / START**2 * bump).numpy()

    values, (_, slope, rate) = gaussians(given[0].points)[0], gaussians(given[1].points)
    matrix = np.concatenate([values, rate + BETA * slope])
    weights = np.linalg.solve(matrix, torch.cat([c.values for c in given]).numpy())
    _, slope, rate = gaussians(cnf.Box([0, 0], [1, 1]).halton(VARIATION_POINTS, seed=3))
    variation = np.hypot(slope @ weights, rate @ weights).mean()
    assert curve.loss[0] == pytest.approx(math.log(np.linalg.cond(matrix)) + variation, abs=0.2)


def test_a_stopped_clock_stands() -> None:
    """Work done while it is stopped is in neither reading; work done while it runs is in both."""
    clock = Clock()
    before = clock.read()
    with clock.stopped():
        _work(0.05)
    between = clock.read()
    _work(0.05)
    after = clock.read()
    assert between[1] - before[1] < 0.02
    assert after[0] - between[0] >= 0.05 and after[1] - between[1] >= 0.05


def _work(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


@pytest.mark.parametrize("method", ["skewed-rbf", "skewed-rbf-paper", "siren", "rbf"])
def test_interruption_is_passed_on(method: str, tmp_path: Path) -> None:
    """fit swallows Ctrl-C; a study must not take half a training for a result."""

    def interrupt(text: str) -> None:
        if method == "rbf" or "step" in text:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve(method, tmp_path, tell=interrupt)


def test_tables_have_the_paper_beside_ours(cases: list[Row]) -> None:
    errors = error_table(cases)
    lines = {row[1]: dict(zip(errors.header, row, strict=True)) for row in errors.rows}
    assert set(lines) == set(STUDY_METHODS)
    for method in ("rbf", "skewed-rbf", *PAPER_METHODS):
        expected = PAPER[method.removesuffix("-paper")][0.1]
        assert [lines[method][name] for name in ("paper RMSE", "paper nRMSE")] == [f"{v:.4f}" for v in expected]
    assert lines["siren"]["paper RMSE"] == lines["siren"]["paper nRMSE"] == "-"
    ratio = float(str(lines["rbf"]["paper / ours"]))
    assert ratio == pytest.approx(0.1484 / by_method(cases, "rbf")["rmse"], rel=0.05)
    table = time_table(cases)
    times = {row[0]: dict(zip(table.header, row, strict=True)) for row in table.rows}
    assert times["siren"]["paper training"] == "36.7"
    assert times["rbf-paper"]["paper training"] == "160.7"
    assert times["skewed-rbf"]["paper inference"] == "0.0061"
    assert times["random-fourier"]["paper training"] == "-"
    assert [times[m]["steps"] for m in STUDY_METHODS] == [None, None, 1, 4, 4, 200]


def test_the_worst_seed_is_shown(cases: list[Row], other_siren: Row) -> None:
    pair = [by_method(cases, "siren"), other_siren]
    (row,) = error_table(pair).rows
    assert row[2:5] == ["2", f"{max(c['rmse'] for c in pair):.1e}", f"{sum(c['rmse'] for c in pair) / 2:.1e}"]


def test_slow_methods_may_have_fewer_seeds() -> None:
    """Three grids for rbf, one for siren: four cases."""
    found = Advection(levels=["0.1"], methods=["rbf,siren"], seeds=3, slow_seeds=1).cases()
    assert [(c["method"], c["seed"]) for c in found] == [("rbf", 0), ("siren", 0), ("rbf", 1), ("rbf", 2)]


def test_the_study_writes_tables_and_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two levels, two methods, 256 conditions: four rows, beside the paper's (0.2830 for rbf at level 1)."""
    arguments = ["--quick", "--levels", "0.1,1", "--methods", "rbf", "--methods", "skewed-rbf", "--steps", "1"]
    assert run(["advection", *arguments, "--out", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "256 conditions" in text and "0.2830" in text
    assert "The paper has 1024 conditions, this run 256." in text
    rows = list(csv.DictReader((tmp_path / "advection.csv").read_text().splitlines()))
    wanted = [("0.1", "rbf"), ("0.1", "skewed-rbf"), ("1.0", "rbf"), ("1.0", "skewed-rbf")]
    assert [(row["perturbation"], row["method"]) for row in rows] == wanted
    assert all(float(row["rmse"]) < float(row["paper_rmse"]) for row in rows)
    for name in ("errors", "curves", "maps"):
        assert (tmp_path / f"advection_{name}.png").read_bytes().startswith(b"\x89PNG")
