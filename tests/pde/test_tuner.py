"""The tuner on stand-ins for fields whose loss is a known function of the settings: the best settings are known."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from cnf.errors import BasisError, TrainingError
from cnf.pde.tuning import HeldOutEquations, Plan, Settings, Trial, tune
from cnf.pde.tuning.trial import INEXACT, as_mapping
from cnf.solvers import Auto


class StandIn:
    """What the tuner asks of a field."""

    def __init__(self, settings: Settings, exact: bool, missed: float, conditions: int):
        self.settings, self.solver = settings, Auto()
        self.solution = SimpleNamespace(
            settings=settings,
            certificate=SimpleNamespace(exact=exact, worst=missed, conditions=conditions),
            constraints=[SimpleNamespace(rows=conditions)],
            tolerance=1e-9,
            convergence=None,
            roughly_missed=lambda: 0.0 if exact else max(missed, 1e-8),
        )

    def eval(self) -> StandIn:
        return self

    def solve(self, measure: bool) -> SimpleNamespace:
        assert not measure, "trials are compared without a certificate"
        return self.solution


def plan(
    digits: Callable[[Settings], float],
    start: Settings,
    exact: Callable[[Settings], bool] = lambda settings: True,
    missed: Callable[[Settings], float] = lambda settings: 0.0,
    **more: Any,
) -> Plan:
    """A plan whose loss is 10 to the power of `digits(settings)`."""

    def build(settings: Settings, conditions: int = 100) -> Any:
        return StandIn(settings, exact(settings), missed(settings), conditions)

    def loss(solution: Any) -> float:
        return 2 * math.log(10) * digits(solution.settings)

    return Plan(build=build, objective="held-out", loss=loss, start=start, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("lowest", [0.05, 0.3, 0.7, 3.0])
def test_common_factor(lowest: float):
    """A valley around one bandwidth, -8 digits deep: found within 20 percent from far away."""
    found = tune(plan(lambda s: -8 + 4 * math.log10(s.bandwidth[0] / lowest) ** 2, Settings((0.3,))))
    assert found.best.settings["bandwidth"][0] == pytest.approx(lowest, rel=0.2)  # type: ignore[index]
    assert found.best.loss == pytest.approx(-8, abs=0.1) and not found.interrupted
    assert found.best is min(found.trials, key=lambda t: t.score)


def test_one_factor_per_coordinate():
    """The best bandwidths are 0.2 and 0.6: their ratio is found to within the step of 1.5."""

    def digits(s: Settings) -> float:
        a, b = s.bandwidth
        return -8 + 10 * (math.log10(a / 0.2) ** 2 + math.log10(b / 0.6) ** 2)

    best = tune(plan(digits, Settings((0.3, 0.3)))).best.settings["bandwidth"]
    assert 2 <= best[1] / best[0] <= 4.5  # type: ignore[index]


@pytest.mark.parametrize(("gain", "size"), [(0.1, 3.0), (-0.1, 2.0)])
def test_larger_basis_if_it_is_better(gain: float, size: float):
    """More functions are taken if the loss falls, and only then."""
    found = tune(plan(lambda s: -5 - gain * (s.size > 2) + (math.log10(s.bandwidth[0]) + 0.5) ** 2, Settings((0.3,))))
    assert any(t.settings["size"] == 3.0 for t in found.trials), "the larger basis was never tried"
    assert found.best.settings["size"] == size


def test_search_stops_where_rounding_begins():
    """A first trial at 1e-15 leaves nothing to gain: one trial."""
    assert len(tune(plan(lambda s: -15.0, Settings((0.3, 0.3)))).trials) == 1


def test_settings_that_are_not_free_stay():
    found = tune(plan(lambda s: -3 - s.bandwidth[0], Settings((0.3,), 2.5), free=frozenset()))
    assert len(found.trials) == 1 and found.best.settings == {"bandwidth": (0.3,), "size": 2.5}


def test_bandwidths_stay_within_the_factors():
    """A loss that falls with the bandwidth for ever ends at the largest factor allowed."""
    found = tune(plan(lambda s: -math.log10(s.bandwidth[0]), Settings((1.0,)), factors=(0.1, 5.0)))
    widths = [t.settings["bandwidth"][0] for t in found.trials]  # type: ignore[index]
    assert max(widths) <= 5.0 and min(widths) >= 0.1
    assert found.best.settings["bandwidth"][0] == max(widths) >= 3.5  # type: ignore[index]


def test_exact_fields_win():
    """Wide functions have the smaller loss but miss their conditions: they never win over one that is exact."""
    found = tune(
        plan(
            lambda s: -10 * s.bandwidth[0], Settings((0.3,)), exact=lambda s: s.bandwidth[0] < 0.5, missed=lambda s: 0.1
        )
    )
    assert found.best.exact and found.best.settings["bandwidth"][0] < 0.5  # type: ignore[index]
    assert any(not t.exact for t in found.trials)


def test_the_certificate_has_the_last_word():
    """Fields wider than 0.8 look exact to their systems and are not: what is measured so is passed over."""

    class Deceptive(StandIn):
        def __init__(self, settings: Settings):
            super().__init__(settings, True, 0.0, 100)
            if settings.bandwidth[0] > 0.8:
                self.solution.certificate = SimpleNamespace(exact=False, worst=1e-6, conditions=100)

    made = plan(lambda s: -10 * s.bandwidth[0], Settings((0.3,)), factors=(0.5, 3.0))
    found = tune(replace(made, build=Deceptive))  # type: ignore[arg-type]
    assert found.solved is not None and found.solved.solution.certificate.exact
    assert found.best.exact and found.best.settings["bandwidth"][0] <= 0.8  # type: ignore[index]
    assert any(t.missed == 1e-6 and not t.exact for t in found.trials)


def test_without_any_exact_field_the_least_missed_wins():
    """None is exact: the one that misses least is taken, at a bandwidth of about 0.1."""

    def missed(s: Settings) -> float:
        return 10 ** (-4 + abs(math.log10(s.bandwidth[0] / 0.1)))

    found = tune(plan(lambda s: 0.0, Settings((0.3,)), exact=lambda s: False, missed=missed))
    assert found.best.missed == min(t.missed for t in found.trials)
    assert found.best.settings["bandwidth"][0] == pytest.approx(0.1, rel=0.3)  # type: ignore[index]


def test_settings_that_cannot_be_solved_are_passed_over():
    """Errors of the library count as infinitely bad; others are defects and go through."""

    def build(settings: Settings) -> Any:
        if settings.bandwidth[0] > 0.5:
            raise BasisError("too wide")
        return StandIn(settings, True, 0.0, 10)

    made = plan(lambda s: -s.bandwidth[0], Settings((0.3,)))
    found = tune(replace(made, build=build))  # type: ignore[arg-type]
    assert math.isfinite(found.best.loss) and any(math.isinf(t.loss) for t in found.trials)

    def broken(settings: Settings) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tune(replace(made, build=broken))


def test_nothing_can_be_solved():
    """The reason is heard instead of an answer."""

    def build(settings: Settings) -> Any:
        raise BasisError("no such luck")

    with pytest.raises(BasisError, match="no such luck"):
        tune(replace(plan(lambda s: 0.0, Settings((0.3,))), build=build))


def rehearsed(digits: Callable[[Settings], float]) -> Plan:
    """With a rehearsal of 30 conditions for a problem of 100."""
    made = plan(digits, Settings((0.3,)))
    return replace(made, rehearse=lambda s: StandIn(s, True, 0.0, 30))  # type: ignore[arg-type, return-value]


def test_rehearsal_then_full_size():
    """Most trials are small; the field that is kept has the full size."""
    found = tune(rehearsed(lambda s: -6 + (math.log10(s.bandwidth[0]) + 0.8) ** 2))
    sizes = [t.conditions for t in found.trials]
    assert sizes.count(30) > sizes.count(100) >= 1
    assert sizes == sorted(sizes), "the rehearsal comes first"
    assert found.best.conditions == 100 and found.solved is not None
    assert found.solved.solution.certificate.conditions == 100


@pytest.mark.parametrize("after", [1, 3])
def test_interrupt_in_the_rehearsal(after: int):
    """The leader of the rehearsal is solved at full size."""
    seen: list[Trial] = []

    def report(trial: Trial) -> None:
        seen.append(trial)
        if len(seen) == after:
            raise KeyboardInterrupt

    found = tune(rehearsed(lambda s: -s.bandwidth[0]), report)
    assert found.interrupted and found.best.conditions == 100
    leader = min(seen[:after], key=lambda t: t.score)
    assert found.best.settings == leader.settings


# -- trials ------------------------------------------------------------------------------------------------------------


def test_order_of_scores():
    """Exact fields by their loss, then those that miss by how much, then those that cannot be solved."""
    trials = [
        Trial({}, -12.0),
        Trial({}, -3.0),
        Trial({}, 40.0),
        Trial({}, -12.0, exact=False, missed=1e-8),
        Trial({}, -14.0, exact=False, missed=1e-2),
        Trial({}, -14.0, exact=False, missed=1e6),
        Trial({}, math.inf, exact=False, missed=math.inf),
    ]
    scores = [t.score for t in trials]
    assert scores == sorted(scores) and len(set(scores)) == len(scores)
    assert trials[3].score == pytest.approx(INEXACT - 8)
    assert Trial({}, -3.0, exact=False, missed=math.nan).score == math.inf


def test_settings():
    settings = Settings((1.0, 2.0))
    assert settings.widened(2.0).bandwidth == (2.0, 4.0)
    assert settings.widened(3.0, axis=1).bandwidth == (1.0, 6.0)
    assert settings.widened(0.5, axis=0).bandwidth == (0.5, 2.0)
    assert as_mapping(settings) == {"bandwidth": (1.0, 2.0), "size": 2.0}
    assert as_mapping(replace(settings, spread=0.3, steps=4)) == {
        "bandwidth": (1.0, 2.0), "size": 2.0, "spread": 0.3, "steps": 4,
    }  # fmt: skip
    assert str(Trial(as_mapping(Settings((0.12345, 2.0))), 0.0)) == "bandwidth 0.123 x 2, size 2"


def test_held_out_needs_something_to_check():
    with pytest.raises(TrainingError, match="leave-one-out"):
        HeldOutEquations(())


def test_iterations_begin_with_the_best_field_so_far():
    """Trials of nonlinear conditions pass on what they found: the best so far, and only what converged."""
    begun: list[Any] = []

    class Iterated(StandIn):
        start: Any = None

        def solve(self, measure: bool) -> SimpleNamespace:
            begun.append(self.start)
            self.solution.convergence = SimpleNamespace(
                stopped="too smooth" if self.settings.bandwidth[0] > 0.5 else ""
            )
            return super().solve(measure)

    def digits(settings: Settings) -> float:
        return -8 + 4 * math.log10(settings.bandwidth[0] / 0.7) ** 2

    wanted = replace(plan(digits, Settings((0.3,))), build=lambda settings: Iterated(settings, True, 0.0, 100))  # type: ignore[arg-type]
    tune(wanted)
    passed_on = [start.state.settings for start in begun if start is not None]
    assert begun[0] is None and len(passed_on) > 3
    assert all(start.called == "the best field so far" for start in begun if start is not None)
    known = [digits(settings) for settings in passed_on]
    assert known == sorted(known, reverse=True)
    assert all(settings.bandwidth[0] <= 0.5 for settings in passed_on)
