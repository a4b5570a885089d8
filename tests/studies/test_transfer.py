"""Transfer: new initial states by the factorisation that is there, and better than with a random basis."""

from __future__ import annotations

import csv
import math
import warnings
from pathlib import Path

import pytest
import torch

import cnf
from cnf.demo.advection import conditions
from studies.transfer import report as studies
from studies.transfer.study import PAPER, SHIFTS, Transfer, random_field, shift_field, study_transfer


@pytest.fixture(scope="module")
def result() -> Transfer:
    return study_transfer(side=16, steps=3)


def test_trained_beats_random(result: Transfer) -> None:
    """On a quarter of the paper's points; the nRMSE bounds are the paper's."""
    assert tuple(row.shift for row in result.rows) == SHIFTS
    for row in result.rows:
        assert row.gain > (10 if row.shift >= 1 else 1)
        assert row.paper is not None
        assert row.nrmse < row.paper[1][1]
        assert row.residual < 1e-8


def test_update_equals_a_fresh_solve(result: Transfer) -> None:
    """The same basis in a new field, assembled and factored again, has the same weights as the update."""
    shift = 10.0
    updated = shift_field(result.field, shift)
    start, pde = conditions(0.1, 0, side=16)
    shifted = start.with_values(torch.sin(2 * math.pi * start.points[:, 0]) + shift)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cnf.errors.CnfWarning)
        fresh = result.field.transfer([shifted, pde]).solve()
    x = cnf.Box([0, 0], [1, 1]).halton(200, seed=1)
    torch.testing.assert_close(updated(x), fresh(x), rtol=1e-9, atol=1e-9)


def test_update_does_not_factor_again(result: Transfer, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("factored again")

    shift_field(result.field, 0.0)
    monkeypatch.setattr(type(result.field), "_planned", refuse)
    shift_field(result.field, 3.0)


def test_random_covariances_are_skewed_and_repeatable() -> None:
    one, two = random_field(0.1, 3, side=6), random_field(0.1, 3, side=6)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    names = {name for name, p in one.basis.named_parameters() if float(p.detach().std()) > 0}
    assert names == {"log_bandwidth", "skew"}


@pytest.mark.parametrize("shifts", [(), (math.inf,)])
def test_bad_shifts(shifts: tuple) -> None:
    with pytest.raises(cnf.errors.CnfError, match="shifts are finite"):
        study_transfer(shifts=shifts)


def test_table_csv_and_picture(result: Transfer, tmp_path: Path) -> None:
    table = studies.transfer_table(result)
    assert all(f"{trained[1]:.4f}" in table for _, trained in PAPER.values())
    rows = list(csv.DictReader(studies.write_transfer(result, tmp_path / "a.csv").read_text().splitlines()))
    assert [float(row["shift"]) for row in rows] == list(SHIFTS)
    assert float(rows[1]["nrmse"]) == result.rows[1].nrmse
    assert studies.plot_transfer(result, tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
