"""The ablation: four bases of one size, their condition numbers measured, the Gaussian kernel best throughout."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest
import torch

import cnf
from studies.__main__ import run
from studies.conditioning.study import BASES, RESOLVED, Conditioning, build_field
from studies.keeping import find_rows, keep_row
from studies.study import Desk

POINTS, PARAMETERS, STEPS = 64, 3e4, 8


def test_the_gaussian_kernel_is_best_throughout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By two orders of magnitude at every step, once condition numbers are cut where float64 resolves nothing."""
    size = ["--points", str(POINTS), "--parameters", str(PARAMETERS), "--steps", str(STEPS)]
    assert run(["conditioning", *size, "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in BASES)
    found: dict[str, list[float]] = {}
    for row in csv.DictReader((tmp_path / "conditioning_curves.csv").read_text().splitlines()):
        found.setdefault(row["basis"], []).append(float(row["condition"]))
    assert list(found) == list(BASES)
    assert all(len(curve) == STEPS + 1 and all(math.isfinite(c) and c >= 1 for c in curve) for curve in found.values())
    *others, gaussian = found.values()
    for other in others:
        assert all(100 * mine < min(theirs, RESOLVED) for mine, theirs in zip(gaussian, other, strict=True))
    assert gaussian[-1] < min(gaussian[0], 10)
    rows = list(csv.DictReader((tmp_path / "conditioning.csv").read_text().splitlines()))
    assert [float(row["end"]) for row in rows] == [curve[-1] for curve in found.values()]
    assert [float(row["lowest"]) for row in rows] == [min(curve) for curve in found.values()]
    assert (tmp_path / "conditioning.png").read_bytes().startswith(b"\x89PNG")


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


def test_same_seed_same_numbers_and_every_step_is_told(tmp_path: Path) -> None:
    told: list[str] = []
    desk = Desk(tmp_path, "any", told.append)
    first, second, other = (
        Conditioning(points=16, parameters=5e3, steps=3, seed=seed).run({"basis": "Gaussian kernel"}, desk)["curve"]
        for seed in (4, 4, 5)
    )
    assert first == second != other
    assert len(told) == 9


def test_a_case_that_was_interrupted_goes_on_where_it_was(tmp_path: Path) -> None:
    """Stopped at step 7 of 9: the second run begins with step 7, and the curve is that of an undisturbed run, bit for
    bit. What was kept of the interrupted one is gone then, with a row that failed, and with `restart`."""
    study, case = Conditioning(points=16, parameters=5e3, steps=9), {"basis": "hypernet"}
    told: list[str] = []

    def stop(text: str) -> None:
        told.append(text)
        if len(told) == 8:
            raise KeyboardInterrupt

    name = study.name_case(case)
    whole = study.run(case, Desk(tmp_path / "whole", name))
    desk = Desk(tmp_path, name, stop)
    with pytest.raises(KeyboardInterrupt):
        study.run(case, desk)
    unfinished = desk.unfinished(study.settings())
    assert unfinished.exists()
    assert unfinished != desk.unfinished(Conditioning(points=16, parameters=5e3, steps=9, seed=1).settings())
    kept = unfinished.read_bytes()
    row = study.run(case, desk)
    assert len(told) == 8 + 2
    assert row["curve"] == whole["curve"]
    assert not unfinished.exists()
    unfinished.write_bytes(kept)
    keep_row(study, case, {"failed": "no memory"}, desk)
    assert not unfinished.exists()
    unfinished.write_bytes(kept)
    find_rows(study, tmp_path, restart=True)
    assert not unfinished.exists()
