"""Questions that patches cannot answer as they are put: what is said about them, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

import cnf
from cnf.errors import CnfError
from cnf.pde.patches import building
from cnf.pde.problems import on_patches
from cnf.pde.problems.balance import changes_of_sign, contradictions
from cnf.systems.tied_account import TiedAccount

SQUARE = cnf.Box((0, 0), (1, 1))
DISK = cnf.domains.Ball((0, 0), 1)
INCLUSION = cnf.domains.Ball((0.5, 0.5), 0.2)
CONDUCTION = {"interior": r"-\nabla\cdot(k\nabla u) = 1", "boundary": "u = 0"}
FILE = r"""
coordinates = "x y"
[domain]
type = "box"
lower = [0, 0]
upper = [1, 1]
[regions]
inclusion = { type = "disk", center = [0.5, 0.5], radius = 0.2 }
[[equations]]
on = "interior"
equation = '-\Delta u = INSIDE'
[[equations]]
on = "boundary"
equation = 'u = 0'
[[equations]]
on = "interface inclusion"
equation = '[\partial_n u] = ACROSS'
[solve]
method = "patches"
"""


def regional(k: object, shape: cnf.domains.Domain = INCLUSION) -> cnf.Problem:
    return cnf.Problem("x y", domain=SQUARE, regions={"core": shape}, parameters={"k": k}, equations=CONDUCTION)


def test_a_region_that_fills_the_domain():
    with pytest.raises(CnfError, match="'core' fills the whole domain"):
        regional({"core": 2, "rest": 1}, cnf.Box((0, 0), (1, 1)))


@pytest.mark.parametrize("k", ({"core": 0, "rest": 1}, {"core": 1, "rest": 0}))
def test_nothing_left_of_an_equation_in_a_region(k):
    zero = next(name for name, value in k.items() if value == 0)
    with pytest.raises(CnfError, match=rf"in the region '{zero}' nothing is left of this equation, since k = 0 there"):
        regional(k)


def test_sources_may_vanish_in_a_region():
    equations = {"interior": r"-\Delta u = k", "boundary": "u = 0"}
    given = {"regions": {"core": INCLUSION}, "parameters": {"k": {"core": 1, "rest": 0}}, "equations": equations}
    assert not cnf.Problem("x y", domain=SQUARE, **given).check().hints


def test_coefficients_that_change_their_sign():
    """k = -1 inside and 1 outside: the one value at which nothing is known of the field."""
    (said,) = changes_of_sign(regional({"core": -1, "rest": 1}))
    assert "changes its sign from core to rest" in said
    assert not changes_of_sign(regional({"core": -1, "rest": -3}))


def test_coefficients_that_jump_point_to_regions():
    equations = {"interior": r"-\nabla\cdot((2 + \operatorname{sign}(x - 0.5))\nabla u) = 1", "boundary": "u = 0"}
    with pytest.raises(CnfError, match=r"\[regions\]"):
        cnf.Problem("x y", domain=SQUARE, equations=equations).constraints  # noqa: B018


@pytest.mark.parametrize(
    ("inside", "across", "line"), ((r"\sqrt{x - 0.0001}", "0", 11), ("1", r"\sqrt{x - 0.301}", 17))
)
def test_data_that_are_no_numbers_are_named_by_line(tmp_path: Path, inside, across, line):
    """Nothing is wrong at the points that are read at first; refined ones lie nearer to the edge."""
    path = tmp_path / "problem.toml"
    path.write_text(FILE.replace("INSIDE", inside).replace("ACROSS", across))
    problem = cnf.Problem.read(path)
    with pytest.raises(CnfError, match=rf"problem.toml, line {line}: .*NaN or infinite"):
        problem.solve()


# What flows out of a disk of radius 1 with -Laplace u = 1 is its area: slopes of -1/2 all around.
@pytest.mark.parametrize(
    ("domain", "inside", "around", "good"),
    (
        (DISK, r"-\Delta u = 1", r"\partial_n u = -0.5", True),
        (DISK, r"-\Delta u = 1", r"\partial_n u = 0", False),
        (DISK, r"-\nabla\cdot((1 + x^2)\nabla u) = 1", r"(1 + x^2)\partial_n u = -0.5", True),
        (DISK, r"-\nabla\cdot((1 + x^2)\nabla u) = 1", r"(1 + x^2)\partial_n u = 0.5", False),
        (DISK, r"-\nabla\cdot((1 + x^2)\nabla u) = 1", r"\partial_n u = 0.5", True),  # no flux: they need not balance
        (SQUARE, r"-\Delta u + u = 1", r"\partial_n u = 0", True),
        (SQUARE, r"-\Delta u = 1", r"\partial_n u + u = 0", True),
        (SQUARE, r"-\Delta u = 1", "u = 0", True),
    ),
)
def test_fluxes_that_do_not_balance_are_named(domain, inside, around, good):
    found = contradictions(cnf.Problem("x y", domain=domain, equations={"interior": inside, "boundary": around}))
    assert not found if good else "'interior' and 'boundary' contradict each other" in found[0]


def test_the_verdict_on_contradicting_fluxes_suits_patches():
    """-Laplace u = 1 without any flux through the boundary: no field does that between the points."""
    equations = {"interior": r"-\Delta u = 1", "boundary": r"\partial_n u = 0"}
    options = {"method": "patches", "target": 0.5, "underdetermined": "minimum-norm"}
    answer = cnf.Problem("x y", domain=SQUARE, equations=equations, solve=options).solve()
    said = "\n".join([*answer.verdict(), str(answer.certificate)])
    assert not answer.resolved
    assert "'interior' and 'boundary' contradict each other" in said
    assert "bandwidth" not in said and "more points" not in said


def test_misses_of_patches_are_explained_by_their_size():
    account = TiedAccount.__new__(TiedAccount)
    assert "round" in account.reason_for([], 30.0) and "contradict" in account.reason_for([], 1e6)
    assert "bandwidth" not in account.remedy


def test_ctrl_c_before_the_first_round_was_told(monkeypatch):
    """The round is solved, its line is not yet printed: the answer is that round."""
    told, as_trial = [], on_patches.as_trial

    def interrupt(found):
        told.append(found)
        if len(told) == 1:
            raise KeyboardInterrupt
        return as_trial(found)

    monkeypatch.setattr(on_patches, "as_trial", interrupt)
    equations = {"interior": r"-\Delta u = 1", "boundary": "u = 0"}
    problem = cnf.Problem("x y", domain=SQUARE, equations=equations, solve={"method": "patches", "target": 1e-9})
    answer = problem.solve(report=lambda trial: None)
    assert answer.tuning.interrupted and len(answer.tuning.trials) == 1
    assert abs(float(answer.solution(SQUARE.fill(1, "halton", 0) * 0 + 0.5)) - 0.0736713532815) < 1e-3


def test_patches_with_too_few_points_have_no_estimate(monkeypatch):
    """Half the points of the equation left out: exact, and fields of all degrees might agree; nothing is claimed."""
    placed = building.interior
    monkeypatch.setattr(building, "interior", lambda *given: placed(*given)[::2])
    answer = cnf.Problem(
        "x y",
        domain=SQUARE,
        equations={"interior": r"-\Delta u = 1", "boundary": "u = 0"},
        solve={"method": "patches", "target": 1e-2},
    ).solve()
    assert answer.certificate.exact and answer.estimate == float("inf") and answer.off_target


def test_conditions_that_stand_in_the_same_place_are_named():
    """u = 0 on all of the boundary and u = 1 on one side of it."""
    problem = cnf.Problem(
        "x y",
        domain=SQUARE,
        equations={"interior": r"-\Delta u = 1", "boundary": "u = 0", "x = 0": "u = 1"},
        solve={"method": "patches"},
    )
    with pytest.raises(CnfError, match=r"near \(0, .*\) u has to meet 'boundary' and 'x = 0'; drop"):
        problem.solve()
