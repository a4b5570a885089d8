"""Steps steer by a sample of the conditions; the field that is kept is measured in full, and what it misses is said."""

from __future__ import annotations

import pytest
import torch

import cnf
from cnf import losses
from cnf.errors import ViolationError, ViolationWarning
from cnf.field import SAMPLE
from cnf.systems import dense
from cnf.systems.expansions import BasisExpansion
from cnf.training import fit

PLANE = cnf.Space("x y", "u")
UNIT = cnf.Box((0.0, 0.0), (1.0, 1.0))
COUNT, ROW = 100, 50  # conditions; the one that is spoiled, which no sample of them contains


def wave(p):
    return torch.sin(3 * p[:, 0]) * torch.cos(2 * p[:, 1])


def field_of(**options) -> cnf.ConstrainedField:
    data = PLANE.constraint("u", at=UNIT.halton(COUNT, seed=3), equals=wave, name="data")
    return cnf.ConstrainedField(cnf.bases.RandomFourier(PLANE, 300, 0.25), data, **options)


def misfit(solution):
    return losses.Regression(UNIT.halton(50, seed=9), wave)(solution)


@pytest.fixture
def spoiled(monkeypatch):
    """Every system is solved for a wrong right-hand side in one row, and the solver vouches for it."""
    stack = dense.stack_targets
    shift = 1e-3 * torch.nn.functional.one_hot(torch.tensor([ROW]), COUNT).T.double()
    monkeypatch.setattr(dense, "stack_targets", lambda *given: stack(*given) + shift)
    claims = 1e-17 * torch.arange(COUNT, 0, -1).double()  # worst at the first points
    monkeypatch.setattr(BasisExpansion, "missed", lambda self, constraints: {(0, 0): claims})


def counted(monkeypatch) -> list[int | None]:
    """The samples that measurements are asked for from now on; None: everything."""
    asked: list[int | None] = []
    for name in ("field", "solution"):
        module = __import__(f"cnf.{name}", fromlist=["certify"])
        whole = module.certify

        def noted(*given, whole=whole):
            asked.append(given[4] if len(given) > 4 else None)
            return whole(*given)

        monkeypatch.setattr(module, "certify", noted)
    return asked


def test_steps_measure_a_sample_and_the_end_everything(monkeypatch):
    """Ten steps and the look at the last update take samples; one measurement, of the field that is kept, is full."""
    field = field_of()
    asked = counted(monkeypatch)
    history = fit(field, misfit, steps=10, progress=False)
    assert asked == [SAMPLE] * 11 + [None]
    assert history.best_exact and history.kept_residual == field.certificate.worst <= field.tolerance


def test_callbacks_can_ask_for_everything():
    seen = []

    def look(step, solution, history):
        seen.append((solution.spot_check.measured, solution.certificate.measured))
        assert history.residual[-1] == solution.spot_check.worst

    fit(field_of(), misfit, steps=2, progress=False, callbacks=look)
    assert all(sampled <= SAMPLE < whole == COUNT for sampled, whole in seen) and len(seen) == 2


@pytest.mark.parametrize("keep", ["best", "last"])
def test_what_no_sample_shows_is_said_at_the_end(spoiled, keep):
    """One of 100 values is missed by 1e-3, at every step, outside the sample: the run goes on, the verdict finds it."""
    field = field_of()
    with pytest.warns(ViolationWarning) as caught:
        history = fit(field, misfit, steps=5, progress=False, keep=keep)
    assert max(history.residual) <= field.tolerance
    assert history.kept_residual >= 1e-4 and not (keep == "best" and history.best_exact)
    (text,) = [str(w.message) for w in caught]
    assert text.startswith("after training, the constraints are missed by")
    assert ("the sample of them that steps measure did hold" in text) == (keep == "best")
    assert caught[0].filename == __file__


def test_a_target_counts_only_if_every_condition_holds(spoiled, monkeypatch):
    """A loss that meets the target at once does not end the run while a condition fails; it does when all hold."""
    field = field_of()
    with pytest.warns(ViolationWarning) as caught:
        assert fit(field, misfit, steps=4, target=1e9, progress=False).stopped == "steps"
    assert len(caught) == 2  # once during and once after
    monkeypatch.undo()
    assert fit(field_of(), misfit, steps=4, target=1e9, progress=False).stopped == "target"


def test_fields_that_raise_do_so_at_the_end(spoiled):
    with pytest.raises(ViolationError, match="'data' is missed"):
        fit(field_of(on_violation="raise"), misfit, steps=3, progress=False)
