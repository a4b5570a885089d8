"""Plain networks under fit, batches in a seeded order, and losses in single precision."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import cnf
from cnf import losses
from cnf.errors import TrainingError
from cnf.training import fit, progress
from cnf.training.batches import Batches

PLANE = cnf.Space("x y", "u")
UNIT = cnf.Box((0.0, 0.0), (1.0, 1.0))


def wave(p):
    return torch.sin(3 * p[:, 0]) * torch.cos(2 * p[:, 1])


def network_of(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)).double()


def misfit(model):
    points = UNIT.halton(40, seed=9)
    return (model(points)[:, 0] - wave(points)).square().mean()


def encoded(**options) -> cnf.ConstrainedField:
    """A kernel in the features of a network, twelve values of a smooth function."""
    data = PLANE.constraint("u", at=UNIT.halton(12, seed=3), equals=wave, name="data")
    encoder = cnf.encoders.SIREN(2, 16, hidden=(16,), seed=0)
    return cnf.ConstrainedField(cnf.bases.Kernel(PLANE, [data], cnf.kernels.Gaussian(0.5), encoder), data, **options)


# -- plain networks --------------------------------------------------------------------------------------------------


def test_a_network_is_trained_as_by_hand():
    """Twelve steps of Adam written out give the same bits; there is no residual, and the mode stays."""
    network = network_of().eval()
    history = fit(network, misfit, steps=12, lr=0.02, progress=False, keep="last")
    other = network_of()
    optimizer = torch.optim.Adam(other.parameters(), lr=0.02)
    for _ in range(12):
        optimizer.zero_grad()
        misfit(other).backward()
        optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), other.parameters(), strict=True))
    assert len(history) == 12 and all(map(math.isnan, history.residual)) and math.isnan(history.kept_residual)
    assert history.final_loss == misfit(other).item()
    assert not network.training and not history.best_exact and "residual" not in repr(history)


def test_the_best_network_is_kept_and_callbacks_see_it():
    network = network_of()
    seen = []
    history = fit(network, misfit, steps=9, lr=2.0, progress=False, callbacks=lambda s, n, h: seen.append(n))
    assert history.best_loss < max(history.loss)
    assert misfit(network).item() == history.best_loss == min(*history.loss, history.final_loss)
    assert all(model is network for model in seen)


def test_a_network_and_ctrl_c(capsys):
    network = network_of()

    def interrupt(step, model, history):
        if step == 3:
            raise KeyboardInterrupt

    history = fit(network, misfit, steps=9, callbacks=interrupt, keep="last")
    assert (history.stopped, len(history)) == ("interrupted", 4)
    assert misfit(network).item() == history.loss[3]
    assert "interrupted in step 3" in capsys.readouterr().err


def test_lines_every_so_many_steps(capsys):
    """log_every=4 of 10 steps: lines at 4, 8 and the last, from the start, without a residual for a network."""
    fit(network_of(), misfit, steps=10, log_every=4)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[2] for line in lines] == ["4/10", "8/10", "10/10"]
    assert not any("residual" in line for line in lines)
    fit(encoded(), misfit, steps=2, log_every=1)
    assert all("residual" in line for line in capsys.readouterr().err.splitlines())
    assert progress.QUIET > 0


def test_terms_that_need_a_solution_say_so():
    with pytest.raises(TrainingError, match=r"condition: a loss takes a solution.*got a Sequential"):
        fit(network_of(), losses.Condition(), steps=2, progress=False)
    slopes = losses.Regression(UNIT.halton(9), 0.0, operator=r"\partial_x u")
    with pytest.raises(TrainingError, match="regression: a loss takes a solution"):
        fit(network_of(), slopes, steps=2, progress=False)


def test_a_coarser_history():
    """Every fourth of ten steps and the last: means of losses, the worst of residuals and of known conditions."""
    fine = fit(encoded(), [misfit, losses.Condition(1e-3)], steps=10, log_condition_every=3, progress=False)
    coarse = fine.every(4)
    pieces = [slice(0, 1), slice(1, 5), slice(5, 9), slice(9, 10)]
    assert coarse.step == [0, 4, 8, 9] and coarse.seconds == [fine.seconds[k] for k in coarse.step]
    assert coarse.loss == pytest.approx([sum(fine.loss[p]) / len(fine.loss[p]) for p in pieces], rel=1e-14)
    assert coarse.terms["condition"][1] == pytest.approx(sum(fine.terms["condition"][1:5]) / 4, rel=1e-14)
    assert coarse.residual == [max(fine.residual[p]) for p in pieces]
    assert coarse.condition == [fine.condition[k] for k in (0, 3, 6, 9)]
    assert (coarse.best_step, coarse.kept_residual) == (fine.best_step, fine.kept_residual)


# -- batches ---------------------------------------------------------------------------------------------------------


def test_batches_take_everything_in_turn():
    """Ten entries by three: three batches without repetition per round, another order in the next, by seed and step."""
    batches = Batches(10, 3, seed=1)
    rounds = [torch.cat([batches.at(3 * r + k) for k in range(3)]).tolist() for r in range(3)]
    assert all(len(set(r)) == 9 for r in rounds) and rounds[0] != rounds[1] != rounds[2]
    assert batches.at(1).tolist() == rounds[0][3:6]  # back to an earlier step
    assert Batches(10, 3, seed=1).at(7).tolist() == rounds[2][3:6]  # at once to a later one
    assert Batches(10, 3, seed=2).at(0).tolist() != rounds[0][:3] != batches.at(0, seed=1).tolist()
    assert sorted(Batches(4, 9).at(5).tolist()) == [0, 1, 2, 3]
    by_hand = Batches(10, 3, seed=1)
    assert [by_hand.draw().tolist() for _ in range(2)] == [rounds[0][:3], rounds[0][3:6]]


@pytest.mark.parametrize("make", [network_of, encoded])
def test_batches_of_a_resumed_run(make, tmp_path):
    """Stopped within a round of batches and resumed: the same points, so the same bits."""
    points = UNIT.halton(10, seed=9)
    options = {"progress": False, "keep": "last", "seed": 3}
    seen: list[list] = []

    def term():
        return losses.Regression(points, lambda p: seen.append(p.tolist()) or wave(p), batch=3, seed=2)

    whole, resumed = make(), make()
    expected = fit(whole, term(), steps=8, **options)
    assert len({tuple(row) for batch in seen[:3] for row in batch}) == 9
    path = tmp_path / "run.ckpt"
    fit(make(), term(), steps=8, checkpoint=path, callbacks=lambda s, m, h: s == 4, **options)
    found = fit(resumed, term(), steps=8, checkpoint=path, resume=True, **options)
    assert found.loss == expected.loss and found.final_loss == expected.final_loss
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), resumed.parameters(), strict=True))


# -- precision -------------------------------------------------------------------------------------------------------


def test_losses_in_single_precision():
    """The loss sees values right to six digits and no more; conditions are met to those of float64."""
    points = UNIT.halton(30, seed=5)
    values: list[torch.Tensor] = []

    def loss(solution):
        values.append(solution(points).detach())
        return misfit(solution)

    field = encoded()
    exact: list[torch.Tensor] = []
    look = lambda s, solution, h: exact.append(solution(points).detach())  # noqa: E731
    history = fit(field, loss, steps=5, precision=torch.float32, progress=False, callbacks=look)
    assert max(history.residual) <= 1e-11 and history.kept_residual <= 1e-11
    off = [(a - b).abs().max().item() for a, b in zip(values, exact, strict=False)]
    assert len(off) == 5 and all(0 < d < 1e-4 for d in off) and max(off) > 1e-9
    assert all(p.dtype == torch.float64 for p in field.parameters())


def test_one_precision_for_a_run_or_a_term():
    """fit(precision=...) and the precision of its only term are the same thing."""
    runs = []
    for run, term in ((torch.float32, None), (None, torch.float32)):
        field = encoded()
        eikonal = losses.Eikonal(UNIT.halton(20, seed=5), precision=term)
        history = fit(field, eikonal, steps=3, precision=run, progress=False)
        runs.append((history.loss, [p.tolist() for p in field.parameters()]))
    assert runs[0] == runs[1]
    assert runs[0][0] != fit(encoded(), losses.Eikonal(UNIT.halton(20, seed=5)), steps=3, progress=False).loss


def test_precision_that_cannot_be_had():
    data = PLANE.constraint("u", at=UNIT.halton(4), equals=wave, name="data")
    field = cnf.ConstrainedField(cnf.bases.RandomFourier(PLANE, 12, 0.5), data)
    with pytest.raises(TrainingError, match=r"RandomFourier is evaluated in the precision of the field only.*leave"):
        fit(field, misfit, steps=2, precision=torch.float32, progress=False)
    with pytest.raises(TrainingError, match=r"network\.to\(torch\.float32\)"):
        fit(network_of(), misfit, steps=2, precision=torch.float32, progress=False)
    with pytest.raises(TrainingError, match=r"precision is torch\.float32 or torch\.float64"):
        fit(encoded(), misfit, steps=2, precision=torch.float16, progress=False)
