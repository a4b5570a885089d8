"""The ablation: four bases of one size, their condition numbers measured, the Gaussian kernel best throughout."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest
import torch

import cnf
from studies.conditioning import report as studies
from studies.conditioning.study import (
    BASES,
    RESOLVED,
    Conditioning,
    Progress,
    build_field,
    study_conditioning,
    train_basis,
)

POINTS, PARAMETERS, STEPS = 64, 3e4, 8


@pytest.fixture(scope="module")
def results() -> list[Conditioning]:
    return study_conditioning(POINTS, PARAMETERS, STEPS)


def test_the_gaussian_kernel_is_best_throughout(results: list[Conditioning]) -> None:
    """By two orders of magnitude at every step, once condition numbers are cut where float64 resolves nothing."""
    *others, gaussian = results
    assert [r.name for r in results] == list(BASES)
    for other in others:
        for mine, theirs in zip(gaussian.conditions, other.conditions, strict=True):
            assert 100 * mine < min(theirs, RESOLVED)
    assert gaussian.end < gaussian.start
    assert gaussian.end < 10


def test_every_step_is_there(results: list[Conditioning]) -> None:
    for result in results:
        assert len(result.conditions) == STEPS + 1
        assert all(math.isfinite(c) and c >= 1 for c in result.conditions)
        assert result.best <= result.start <= result.worst


@pytest.mark.parametrize(("points", "parameters"), [(64, 3e4), (256, 1e5), (4096, 1.3e6)])
@pytest.mark.parametrize("name", BASES)
def test_parameter_budget(name: str, points: int, parameters: float) -> None:
    field = build_field(name, points, parameters)
    count = sum(p.numel() for p in field.basis.parameters() if p.requires_grad)
    assert abs(count / parameters - 1) < 0.25


@pytest.mark.parametrize("name", ["hypernet", "Gaussian kernel"])
def test_condition_numbers_are_those_of_the_matrix(name: str) -> None:
    """At the start, and after training where the matrix is regular enough for torch.linalg.cond to be right itself."""
    seen: list[tuple[float, float]] = []
    field = build_field(name, POINTS, PARAMETERS)

    def look(step: int, solution: cnf.Solution, history: cnf.training.History) -> None:
        factor = solution.factors[0]
        scaled = factor.scale_rows[:, None] * solution.blocks[0].matrix.detach() * factor.scale_columns
        seen.append((history.condition[-1], float(torch.linalg.cond(scaled))))

    cnf.pretrain(field, 12, progress=False, log_condition_every=1, callbacks=look)
    regular = [(found, exact) for found, exact in seen if exact < 1e12]
    assert len(regular) >= 5
    for found, exact in regular:
        assert found == pytest.approx(exact, rel=0.05)


def test_same_seed_same_numbers() -> None:
    first, second = (train_basis("Gaussian kernel", 16, 5e3, 3, seed=4) for _ in range(2))
    assert first.conditions == second.conditions
    assert train_basis("Gaussian kernel", 16, 5e3, 3, seed=5).conditions != first.conditions


def test_reports_every_step() -> None:
    told: list[Progress] = []
    train_basis("dot-product kernel", 16, 5e3, 3, report=told.append)
    assert [p.step for p in told] == [0, 1, 2]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [((60,), "square"), ((1,), "square"), ((256, 1e3), "parameters"), ((256, math.nan), "parameters")],
)
def test_bad_settings(arguments: tuple, part: str) -> None:
    with pytest.raises(cnf.errors.CnfError, match=part):
        study_conditioning(*arguments)


def test_table_csv_and_picture(results: list[Conditioning], tmp_path: Path) -> None:
    table = studies.conditioning_table(results)
    assert all(name in table for name in BASES)
    rows = list(csv.reader(studies.write_conditioning(results, tmp_path / "a.csv").read_text().splitlines()))
    assert rows[0] == ["step", *BASES]
    assert [float(v) for v in rows[-1][1:]] == [r.end for r in results]
    assert studies.plot_conditioning(results, tmp_path / "a.png", "title").read_bytes().startswith(b"\x89PNG")
