"""Schedules: the rates that the optimizer is given, step by step, and a resumed run that goes on with them."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from torch import nn

from cnf.errors import FileError, TrainingError
from cnf.training import fit, schedules

STEPS, RATE = 20, 0.5
scheduler = torch.optim.lr_scheduler


def halve(optimizer):
    return scheduler.StepLR(optimizer, step_size=3, gamma=0.5)


def network_of(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1)).double()


def misfit(network):
    x = torch.linspace(0, 1, 10, dtype=torch.float64)[:, None].expand(-1, 2)
    return (network(x) - x[:, :1] ** 2).square().mean()


def rates_of(monkeypatch, kind: type[torch.optim.Optimizer] = torch.optim.SGD) -> list[float]:
    """The learning rate of every update that an optimizer of this kind makes from now on."""
    seen: list[float] = []
    step = kind.step

    def recorded(self, *arguments, **named):
        seen.append(self.param_groups[0]["lr"])
        return step(self, *arguments, **named)

    monkeypatch.setattr(kind, "step", recorded)
    return seen


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=RATE)


COSINE = [(1 + math.cos(math.pi * k / STEPS)) / 2 for k in range(STEPS)]
EXPECTED = {
    "none": (None, [1.0] * STEPS),
    "constant": ("constant", [1.0] * STEPS),
    "cosine": ("cosine", COSINE),
    "linear": ("linear", [1 - k / STEPS for k in range(STEPS)]),
    "warm-up": (schedules.constant(warm_up=0.2), [0.25, 0.5, 0.75, *[1.0] * (STEPS - 3)]),
    "both": (
        schedules.cosine(last=0.1, warm_up=0.1),
        [(0.5 if k == 0 else 1) * (0.1 + 0.9 * c) for k, c in enumerate(COSINE)],
    ),
    "function": (lambda fraction: 2.0**-fraction, [2.0 ** -(k / STEPS) for k in range(STEPS)]),
    "torch": (halve, [0.5 ** (k // 3) for k in range(STEPS)]),
    "partial": (partial(scheduler.ExponentialLR, gamma=0.9), [0.9**k for k in range(STEPS)]),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_rates(name, monkeypatch):
    """Closed forms of every schedule."""
    schedule, factors = EXPECTED[name]
    seen = rates_of(monkeypatch)
    fit(network_of(), misfit, steps=STEPS, optimizer=sgd, schedule=schedule, progress=False)
    assert seen == pytest.approx([RATE * f for f in factors], rel=1e-12)


def test_a_plateau_is_noticed(monkeypatch):
    """ReduceLROnPlateau hears the loss: of a constant one it tires at every step after the first."""
    seen = rates_of(monkeypatch)
    plateau = partial(scheduler.ReduceLROnPlateau, factor=0.5, patience=0)
    flat = lambda network: 0 * misfit(network) + 3.0  # noqa: E731
    with pytest.warns(match="exactly zero"):
        fit(network_of(), flat, steps=5, optimizer=sgd, schedule=plateau, progress=False)
    assert seen == [RATE, RATE, RATE / 2, RATE / 4, RATE / 8]


@pytest.mark.parametrize("name", ["cosine", "both", "function", "torch"])
@pytest.mark.parametrize("given", [None, 0.03])
def test_resumed_runs_go_on_with_their_schedule(name, given, tmp_path):
    """Stopped half-way and resumed with the same arguments: losses and parameters to the last bit."""
    path = tmp_path / "run.ckpt"
    options = {"schedule": EXPECTED[name][0], "lr": given, "progress": False, "keep": "last"}
    whole, first, resumed = network_of(), network_of(), network_of(1)
    expected = fit(whole, misfit, steps=STEPS, **options)
    stop = lambda step, network, history: step == 9  # noqa: E731
    fit(first, misfit, steps=STEPS, checkpoint=path, callbacks=stop, **options)
    found = fit(resumed, misfit, steps=STEPS, checkpoint=path, resume=True, **options)
    assert found.loss == expected.loss
    assert found.final_loss == expected.final_loss
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), resumed.parameters(), strict=True))


def test_another_rate_at_resumption(tmp_path, monkeypatch):
    """lr given anew wins: the schedule goes on, three times as fast, for factors and for torch's schedulers."""
    for k, schedule in enumerate(("cosine", halve)):
        path = tmp_path / f"{k}.ckpt"
        options = {"schedule": schedule, "progress": False, "checkpoint": path}
        fit(network_of(), misfit, steps=STEPS, lr=0.01, callbacks=lambda s, n, h: s == 9, **options)
        with monkeypatch.context() as patched:
            seen = rates_of(patched, torch.optim.Adam)
            fit(network_of(), misfit, steps=STEPS, lr=0.03, resume=True, **options)
        factors = COSINE if k == 0 else EXPECTED["torch"][1]
        assert seen == pytest.approx([0.03 * f for f in factors[9:]], rel=1e-12)


def test_a_checkpoint_of_another_schedule_is_refused(tmp_path):
    path = tmp_path / "run.ckpt"
    fit(network_of(), misfit, steps=3, checkpoint=path, progress=False, schedule="cosine")
    with pytest.raises(FileError, match="schedule factor, not with StepLR"):
        fit(network_of(), misfit, steps=6, checkpoint=path, progress=False, schedule=halve, resume=True)


BAD = {
    "name": ("cosin", "Did you mean 'cosine'"),
    "number": (3.0, "got a float"),
    "not called": (schedules.cosine, "call it first"),
    "made": (scheduler.StepLR(torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0), 3), "got a StepLR"),
    "returns text": (lambda fraction: "fast", "returned a str"),
    "fails": (lambda fraction: fraction.missing, "both for a fraction"),
    "negative": (lambda fraction: -1.0, "factor -1.0 at step 0"),
    "nan": (lambda fraction: math.nan, "factor nan at step 0"),
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes_are_explained(name):
    schedule, message = BAD[name]
    with pytest.raises(TrainingError, match=message):
        fit(network_of(), misfit, steps=3, schedule=schedule, progress=False)


def test_values_of_named_schedules_are_checked():
    with pytest.raises(TrainingError, match="warm_up is a share"):
        schedules.cosine(warm_up=1.5)
    with pytest.raises(TrainingError, match="last is a factor"):
        schedules.linear(last=-0.1)
    with pytest.raises(TrainingError, match="line search"):
        fit(network_of(), misfit, steps=3, schedule="cosine", optimizer="lbfgs", progress=False)
