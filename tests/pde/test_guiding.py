"""Guided fields: exact at their points, and between them as close to the equations as least squares get them."""

import numpy as np
import pytest
import scipy.linalg
import torch

import cnf
from cnf.errors import NumericalWarning, ProblemError
from cnf.pde.patches.adapting import NEXT, SECONDS, WORK, time_for
from cnf.pde.problems.guiding import GUIDES, guided, guided_weights, make_guides
from cnf.pde.problems.planning import GUIDED_SIZES, MOST_WORK, build_field, guided_work, make_plan
from cnf.pde.tuning import Settings
from cnf.pde.tuning.search import Search
from cnf.pde.tuning.trial import Trial
from cnf.pde.tuning.tuner import tune_guided, worth_guiding
from cnf.solvers.qr import QR

WAVE = {  # u_tt = 4 (u_xx + u_yy): u = sin(2 pi x) sin(pi y) cos(2 sqrt(5) pi t)
    "coordinates": "x y t",
    "domain": {"type": "box", "lower": [0, 0], "upper": [1, 1], "time": [0, 0.5]},
    "equations": [
        {"on": "interior", "equation": r"u_{tt} - 4 \Delta u = 0"},
        {"on": "boundary", "equation": "u = 0"},
        {"on": "t = 0", "equation": r"u = \sin(2 \pi x)\sin(\pi y)"},
        {"on": "t = 0", "equation": "u_t = 0", "name": "at rest"},
    ],
    "exact": r"\sin(2 \pi x)\sin(\pi y)\cos(2 \sqrt{5} \pi t)",
}


def test_weights_are_those_of_least_squares_under_conditions():
    """min |B w - c| with A w = b: w = p + Z v, Z the null space of A and v by least squares, both from SciPy."""
    random = np.random.default_rng(0)
    a, b = random.normal(size=(20, 50)), random.normal(size=20)
    others, near = random.normal(size=(120, 50)), random.normal(size=120)
    factor = QR().factor(torch.from_numpy(a))
    found = guided_weights(factor, *map(torch.from_numpy, (b, others, near))).numpy()
    particular, null = np.linalg.lstsq(a, b)[0], scipy.linalg.null_space(a)
    wanted = particular + null @ np.linalg.lstsq(others @ null, near - others @ particular)[0]
    assert np.abs(a @ found - b).max() < 1e-13
    assert np.abs(found - wanted).max() < 1e-9 * np.abs(wanted).max()


def test_as_many_conditions_as_functions():
    """Nothing is left free: the weights are those of the conditions, whatever the guides say."""
    random = np.random.default_rng(1)
    a, b = random.normal(size=(12, 12)), random.normal(size=12)
    others = (b, random.normal(size=(40, 12)), random.normal(size=40))
    found = guided_weights(QR().factor(torch.from_numpy(a)), *map(torch.from_numpy, others))
    assert np.abs(found.numpy() - np.linalg.solve(a, b)).max() < 1e-10


def test_guides_take_no_condition_away_and_make_the_field_better():
    """A membrane at the same points with the same waves: exact both ways, the error a hundredth with guides."""
    problem = cnf.Problem(**WAVE, points={"count": 250})
    settings = Settings((0.25, 0.25, 0.1), 2.0)
    ordinary = build_field(problem, problem.constraints, settings).eval().solution
    field = build_field(problem, problem.constraints, settings)
    guides = make_guides(problem, field.basis.size, problem.seed)
    solution = guided(field, guides)
    assert sum(c.rows for c in guides) >= GUIDES * field.basis.size
    assert ordinary.certificate.exact and solution.certificate.exact
    assert solution.certificate.conditions == problem.conditions
    points = problem.domain.fill(500, "random", 5)
    wanted = problem.exact["u"](points)[:, None]
    with torch.no_grad():
        off = [float((s(points) - wanted).norm() / wanted.norm()) for s in (ordinary, solution)]
    assert off[1] < 0.01 * off[0] and off[1] < 5e-3
    assert torch.equal(field(points[:3]), solution(points[:3]))  # the field keeps the weights
    with pytest.warns(NumericalWarning, match="fitted to its equations between the points, which is lost now"):
        field.update({"at rest": 0.1})


def test_tuned():
    """The search finds guides by itself where waves are off between their points; the estimate says how far."""
    answer = cnf.Problem(**WAVE, points={"count": 100}, solve={"method": "waves"}).solve()
    assert answer.tuning.best.settings["guided"] and answer.certificate.exact
    error = max(answer.errors.values())
    assert error < 5e-2 and error / 3 < answer.estimate < 10 * error
    assert any("leave free is fitted to the equations" in note for note in answer.certificate.notes)


@pytest.mark.parametrize(
    "more",
    [{"solve": {"underdetermined": "minimum-norm"}}, {"tuning": "held-out"}, {"basis": {"bandwidth": 0.2}}],
    ids=["open on purpose", "objective given", "bandwidth given"],
)
def test_what_was_asked_for_is_not_guided(more: dict):
    """A smoothest field, a bandwidth or an objective of the user's own: the weights are the smallest, as documented."""
    assert make_plan(cnf.Problem(**WAVE, points={"count": 60}, **more)).guiding is None
    assert make_plan(cnf.Problem(**WAVE, points={"count": 60})).guiding is not None


def test_work_is_bounded():
    """Twice as many functions as conditions while that takes seconds, fewer beyond, none for many thousands."""
    assert guided_work(1500, 3000) < MOST_WORK < guided_work(4000, 8000)
    assert make_plan(cnf.Problem(**WAVE, points={"count": 60})).guiding.size == GUIDED_SIZES[0]
    assert make_plan(cnf.Problem(**WAVE, points={"count": 4000})).guiding is None


def test_patches_that_would_take_too_long_are_refused():
    """By the first cells: their number times the third power of their functions."""
    assert time_for(10, 100, None, None) == SECONDS
    assert time_for(10, 100, 1e-3, None) == float("inf")
    assert time_for(10, 100, 1e-3, 7.0) == 7.0
    cells = int(7.0 / (NEXT * WORK * 500**3)) + 1
    assert time_for(cells - 1, 500, None, 7.0) == 7.0
    with pytest.raises(ProblemError, match=f"{cells} patches of 500 functions would take about 7 s"):
        time_for(cells, 500, None, 7.0)


@pytest.mark.parametrize("swap", [False, True], ids=["alike is better", "own is better"])
def test_the_guided_search_goes_on_from_the_better_start(swap: bool):
    """Bandwidths that every coordinate got on its own may be chance; those that were alike have a try."""
    search = Search(make_plan(cnf.Problem(**WAVE, points={"count": 60})), None)
    starts = [Settings((3.0, 1.0, 0.3)), Settings((1.0, 1.0, 1.0))]
    own, alike = reversed(starts) if swap else starts
    search.record(Trial({}, 0.0), own, full=True)

    def attempt(settings: Settings, rehearsal: bool) -> float:
        ratio = settings.bandwidth[0] / settings.bandwidth[2]
        search.record(Trial({}, np.log10(0.01 * ratio)), settings, full=True)
        return search.trials[-1].score

    search.attempt = attempt  # type: ignore[method-assign]
    found = tune_guided(search, own, alike, rehearsal=False)
    assert found is not None and found.guided and found.bandwidth[0] == found.bandwidth[2]


def test_where_bandwidths_make_no_difference_nothing_more_is_tried():
    """Fields that are off by the same for all bandwidths are decided by other functions: no narrowing, no guides."""
    search = Search(make_plan(cnf.Problem(**WAVE, points={"count": 60})), None)
    for k, loss in enumerate((-4.7, -4.71, -4.72, -4.7)):
        assert not search.indifferent
        search.record(Trial({}, loss, residual=10**loss), Settings((2.0**k,) * 3), full=True)
    assert search.indifferent and not worth_guiding(search)
    search.trials[0] = Trial({}, -4.0, residual=1e-4)
    assert not search.indifferent and worth_guiding(search)
