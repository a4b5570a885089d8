"""Training: loss and schedule by their formulas, conditions exact at every step, the same fit from the same seed."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import torch

import cnf
from cnf.errors import CnfError, TrainingError
from cnf.materials.fitting import fit as fitting
from cnf.materials.fitting.fit import CLIP, LOSSES, QUICK, Fit, Settings, fit_material, measure_loss, with_budget
from cnf.materials.fitting.methods import METHODS
from cnf.materials.fitting.sampling import Samples, draw_samples
from cnf.materials.reflectance import GGX
from cnf.materials.reflectance.scattered import Scattered

GOLD = GGX("gold", 0.2)
TINY = Settings(samples=2000, epochs=4, batch=200, conditions=100, parameters=25_000, log_every=5)
SMALL = replace(TINY, conditions=20, parameters=3000, epochs=2)
FEW = replace(SMALL, batch=1000)  # two steps per epoch, where more would show nothing else
EIGHT = tuple(name for name in METHODS if not name.endswith("-paper"))  # the others differ in their rate alone
SOFT = tuple(name for name in EIGHT if not METHODS[name].constrained)
HARD = tuple(name for name, method in METHODS.items() if method.constrained)
KERNELS = ("kernel-siren", "kernel-ffn")


@cache
def fitted(method: str) -> Fit:
    torch.set_num_threads(1)
    return fit_material(GOLD, method, TINY)


def state(fit: Fit) -> list[torch.Tensor]:
    return [p.detach().clone() for p in fit.model.parameters()]


# Loss, schedule, settings


@pytest.mark.parametrize("kind", LOSSES)
def test_losses(kind: str):
    """Weighted: mean |a - b| cos; plain: mean |a - b|; cosine: mean |log(1 + f cos) - log(1 + g cos)| with f >= 0."""
    random = np.random.default_rng(0)
    values, logs = random.normal(1.0, 2.0, (50, 3)), random.uniform(0, 5, (50, 3))
    cosines = random.uniform(size=50)
    batch = Samples(torch.zeros(50, 6).double(), torch.from_numpy(logs), torch.from_numpy(cosines))
    found = float(measure_loss(torch.from_numpy(values), batch, kind))
    total = 0.0
    for p in range(50):
        for c in range(3):
            if kind == "cosine":
                f, g = max(0.0, math.exp(values[p, c]) - 1), math.exp(logs[p, c]) - 1
                total += abs(math.log(1 + f * cosines[p]) - math.log(1 + g * cosines[p]))
            else:
                total += abs(values[p, c] - logs[p, c]) * (cosines[p] if kind == "weighted" else 1)
    assert found == pytest.approx(total / 150, rel=1e-12)


def test_a_wild_prediction_has_a_finite_loss():
    """log(1 + f) of 1000 overflows float32 and float64; the loss stays a number, and so does its gradient."""
    values = torch.full((2, 3), 1000.0, requires_grad=True)
    batch = Samples(torch.zeros(2, 6), torch.ones(2, 3), torch.ones(2))
    for kind in LOSSES:
        (gradient,) = torch.autograd.grad(measure_loss(values, batch, kind), values)
        assert bool(torch.isfinite(gradient).all())


def test_the_rate_rises_and_falls(monkeypatch: pytest.MonkeyPatch):
    """40 steps: two of warm-up, then 0.01 + 0.99 (1 + cos(pi t)) / 2 of the rate, as Adam was given it."""
    rates = []
    step = torch.optim.Adam.step

    def recorded(self, *arguments, **named):
        rates.append(self.param_groups[0]["lr"])
        return step(self, *arguments, **named)

    monkeypatch.setattr(torch.optim.Adam, "step", recorded)
    fit_material(GOLD, "nbrdf", replace(SMALL, epochs=4, rate=0.5))
    expected = [0.5 * min(1.0, (k + 1) / 2) * (0.01 + 0.99 * (1 + math.cos(math.pi * k / 40)) / 2) for k in range(40)]
    assert rates[1:] == pytest.approx(expected, rel=1e-12)  # the first is a step before the clock starts


def test_every_sample_once_per_epoch(monkeypatch: pytest.MonkeyPatch):
    """The batches of an epoch are the samples, each once; the next epoch has them in another order."""
    seen = []
    measure = fitting.measure_loss
    monkeypatch.setattr(fitting, "measure_loss", lambda v, b, k: seen.append(b.points.clone()) or measure(v, b, k))
    fit_material(GOLD, "nbrdf", SMALL)
    assert [len(b) for b in seen] == [200] * 21  # one for each step, and a look at the result
    epochs = torch.cat(seen[:10]), torch.cat(seen[10:20])
    expected = draw_samples(GOLD, 2000, SMALL.seed).points.float()
    for epoch in epochs:
        assert sorted(epoch.tolist()) == sorted(expected.tolist())
    assert not torch.equal(*epochs)


def test_a_batch_larger_than_the_samples():
    """One step per epoch with what there is."""
    assert fit_material(GOLD, "nbrdf", replace(SMALL, samples=50, epochs=3, log_every=1)).course.step == [0, 1, 2]


BAD = {
    "samples": [0, -5, 1.5, True, "many", None],
    "epochs": [0],
    "batch": [0],
    "conditions": [0],
    "parameters": [99],
    "log_every": [0],
    "seed": [-1],
    "rate": [0.0, -1.0, math.nan, math.inf],
    "placement": ["best"],
    "sampling": ["best"],
    "loss": ["L2"],
    "precision": ["float16"],
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in BAD.items() for v in values])
def test_bad_settings(name: str, value: object):
    """One line that names the setting."""
    with pytest.raises(CnfError, match=r"rate" if name == "rate" else name) as caught:
        Settings(**{name: value})  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_budgets_are_changed_by_what_is_given():
    assert with_budget(QUICK, samples=5, rate=None, loss="plain") == replace(QUICK, samples=5, loss="plain")


# Training


FALLS = {"kernel-siren": 4.0, "siren": 3.0, "dot-siren": 3.0, "layer": 3.0, "nbrdf": 2.0, "ffn": 1.5, "kernel-ffn": 1.5}


@pytest.mark.filterwarnings("ignore::cnf.errors.CnfWarning")
@pytest.mark.parametrize("method", FALLS)
def test_training_lowers_the_loss(method: str):
    """40 steps on a rough metal: by the factor stated for each method, and on samples that were not seen too."""
    fit = fitted(method)
    assert fit.course.loss[-1] < fit.course.loss[0] / FALLS[method]
    fresh = draw_samples(GOLD, 1000, 99)
    like = next(fit.model.parameters()).dtype
    with torch.no_grad():
        values = fit.model(fresh.points.to(like)).double()
    assert measure_loss(values, fresh, "weighted") < 1.5 * fit.course.loss[-1]


@pytest.mark.filterwarnings("ignore::cnf.errors.CnfWarning")
@pytest.mark.parametrize("method", HARD)
def test_conditions_after_training(method: str):
    """100 measurements: kernels to 1e-10 at every logged step; every certificate says what evaluation shows."""
    fit = fitted(method)
    assert fit.certificate is not None and len(fit.conditions) == 100
    assert len(fit.course.residual) == len(fit.course.step) and all(math.isfinite(r) for r in fit.course.residual)
    with torch.no_grad():
        miss = float((fit.model(fit.conditions.points) - fit.conditions.logs).abs().max())
    if method in KERNELS:
        assert max(fit.course.residual) <= 1e-10 and fit.certificate.exact
    assert fit.certificate.exact == (fit.certificate.worst <= 1e-10)
    assert miss <= (1e-9 if fit.certificate.exact else math.inf)
    if miss > 1e-6:
        assert not fit.certificate.exact


@pytest.mark.parametrize("method", SOFT)
def test_soft_methods_have_no_certificate(method: str):
    """Nothing is promised: no certificate, NaN for the residuals, and conditions missed by far more than rounding."""
    fit = fitted(method)
    assert fit.certificate is None and all(math.isnan(r) for r in fit.course.residual)
    with torch.no_grad():
        assert (fit.model(fit.conditions.points.float()) - fit.conditions.logs).abs().max() > 1e-3


@pytest.mark.filterwarnings("ignore::cnf.errors.CnfWarning")
@pytest.mark.parametrize("method", HARD)
def test_single_precision(method: str):
    """Trained in float32, conditions too: kernels to 1e-5 at every logged step, and in the end, in float64, to 1e-10.

    The others are exact or say that they are not.
    """
    fit = fit_material(GOLD, method, replace(SMALL, epochs=1, precision="float32"))
    assert fit.certificate is not None and fit.certificate.tolerance == 1e-5
    assert all(torch.equal(p, p.float().double()) for p in fit.model.parameters())
    if method in KERNELS:
        assert fit.certificate.exact and fit.certificate.worst <= 1e-10 and 1e-9 < max(fit.course.residual) <= 1e-5
    with torch.no_grad():
        miss = float((fit.model(fit.conditions.points) - fit.conditions.logs).abs().max())
    assert miss <= 1e-5 * float(fit.conditions.logs.max()) or not fit.certificate.exact


def test_parameters_keep_their_precision():
    """float64 for constrained models, float32 for networks that need no solve."""
    assert {p.dtype for p in fitted("kernel-siren").model.parameters()} == {torch.float64}
    assert {p.dtype for p in fitted("nbrdf").model.parameters()} == {torch.float32}


@pytest.mark.parametrize("method", EIGHT)
def test_the_same_seed_the_same_fit(method: str):
    """Bit for bit, whatever torch's own generator does meanwhile, and its state is left alone."""
    first = fit_material(GOLD, method, FEW)
    torch.manual_seed(77)
    before = torch.get_rng_state()
    again = fit_material(GOLD, method, FEW)
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(state(first), state(again), strict=True))
    assert first.course.loss == again.course.loss
    if method == "kernel-siren":
        assert fit_material(GOLD, method, replace(FEW, seed=1)).course.loss != first.course.loss


def test_the_course_and_its_report():
    """40 steps, logged every 5th and the last; the callback hears the same numbers."""
    heard = []
    fit = fit_material(GOLD, "kernel-siren", replace(SMALL, epochs=4), lambda *told: heard.append(told))
    assert fit.course.step == [0, 5, 10, 15, 20, 25, 30, 35, 39] and fit.course.stopped == "steps"
    assert heard == [
        (s, 40, v, r) for s, v, r in zip(fit.course.step, fit.course.loss, fit.course.residual, strict=True)
    ]
    assert fit.course.seconds == sorted(fit.course.seconds) and fit.seconds >= fit.course.seconds[-1]


def test_logged_losses_are_means_since_the_last():
    """Every step logged, then every fifth: entries of the second are means of those of the first."""
    fine = fit_material(GOLD, "nbrdf", replace(SMALL, log_every=1)).course
    coarse = fit_material(GOLD, "nbrdf", SMALL).course
    ends = [-1, *coarse.step]
    expected = [np.mean(fine.loss[a + 1 : b + 1]) for a, b in pairwise(ends)]
    assert coarse.loss == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("when", [0, 2])
@pytest.mark.parametrize("method", ["kernel-siren", "nbrdf"])
def test_interrupted_training(method: str, when: int):
    """Ctrl-C at the first or third logged step: a fit as it was then, in order, with exact conditions."""

    def stop(step: int, steps: int, loss: float, residual: float | None) -> None:
        if step >= 5 * when:
            raise KeyboardInterrupt

    start = state(fit_material(GOLD, method, replace(SMALL, rate=1e-30, epochs=1)))
    fit = fit_material(GOLD, method, SMALL, stop)
    assert fit.course.stopped == "interrupted" and fit.course.step == [0, 5, 10][: when + 1]
    assert len(fit.course.loss) == len(fit.course.residual) == len(fit.course.seconds) == when + 1
    assert not fit.model.training
    moved = any((a - b).abs().max() > 1e-6 for a, b in zip(start, state(fit), strict=True))
    assert moved == (when > 0)  # the updates before were kept
    if method == "kernel-siren":
        assert fit.certificate is not None and fit.certificate.exact
        with torch.no_grad():
            assert (fit.model(fit.conditions.points) - fit.conditions.logs).abs().max() <= 1e-10


def test_gradients_are_clipped(monkeypatch: pytest.MonkeyPatch):
    """No step sees a gradient longer than 1, though some are longer."""
    lengths, raw = [], []
    measure, step = torch.nn.utils.get_total_norm, torch.optim.Adam.step

    def measured(gradients):
        found = measure(gradients)
        raw.append(float(found))
        return found

    def recorded(self, *arguments, **named):
        gradients = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
        lengths.append(math.sqrt(sum(float(g.square().sum()) for g in gradients)))
        return step(self, *arguments, **named)

    monkeypatch.setattr(torch.nn.utils, "get_total_norm", measured)
    monkeypatch.setattr(torch.optim.Adam, "step", recorded)
    fit_material(GOLD, "layer", SMALL)
    assert max(raw) > CLIP >= max(lengths) - 1e-4


def test_a_loss_that_is_not_finite(monkeypatch: pytest.MonkeyPatch):
    """A rate of 1e30 sends ReLU networks to infinity: an error that says at which step and what to do."""
    monkeypatch.setattr(fitting, "HIGHEST_RATE", math.inf)  # settings would refuse it
    with pytest.raises(TrainingError, match=r"step \d+: .*the loss is .*smaller learning rate"):
        fit_material(GOLD, "nbrdf", replace(SMALL, rate=1e30))


@pytest.mark.filterwarnings("ignore::cnf.errors.CnfWarning")
@pytest.mark.parametrize("method", HARD)
def test_placement_at_the_largest_error(method: str):
    """Distinct conditions, the first at the largest value; exact ones for the kernels."""
    fit = fit_material(GOLD, method, replace(FEW, placement="largest-error", epochs=1))
    assert len({tuple(row) for row in fit.conditions.points.tolist()}) == 20
    assert int(fit.conditions.logs.sum(dim=1).argmax()) == 0
    assert method not in KERNELS or (fit.certificate is not None and fit.certificate.exact)


@pytest.mark.parametrize("placement", ["paper", "largest-error"])
@pytest.mark.parametrize("method", HARD)
def test_few_measurements(method: str, placement: str):
    """A list of 12 measurements, 20 conditions asked: all 12, each once, exact for the kernels."""
    angles = torch.rand(12, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    listed = Scattered("list", "list", angles, GOLD(angles))
    fit = fit_material(listed, method, replace(FEW, placement=placement, epochs=1))
    assert len(fit.conditions) == 12
    assert fit.certificate is not None and fit.certificate.conditions == 36
    assert method not in KERNELS or fit.certificate.exact


def listed_twice(count: int, again: int, factor: float) -> Scattered:
    """`count` directions, the first `again` of them measured a second time, `factor` times as bright."""
    angles = torch.rand(count, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    angles = torch.cat([angles, angles[:again]])
    values = GOLD(angles)
    values[count:] *= factor
    return Scattered("list", "list", angles, values)


@pytest.mark.parametrize("placement", ["paper", "largest-error"])
@pytest.mark.parametrize("factor", [1.0, 1.01])
@pytest.mark.parametrize(("count", "again"), [(12, 1), (12, 12)], ids=["one", "all"])
def test_directions_measured_twice(count: int, again: int, factor: float, placement: str):
    """Two values at one direction cannot both be exact: an exact fit of others, or one line about measurements."""
    try:
        fit = fit_material(listed_twice(count, again, factor), "kernel-siren", replace(FEW, placement=placement))
    except CnfError as error:
        assert again == count and "measure" in str(error) and "\n" not in str(error)
    else:
        assert fit.certificate is not None and fit.certificate.exact
        assert len({tuple(row) for row in fit.conditions.points.tolist()}) == len(fit.conditions) >= count - again


def test_warnings_of_the_training_are_not_shown_again(recwarn: pytest.WarningsRecorder):
    """The course and the certificate tell of conditions missed; no warning at every step."""
    fit_material(GOLD, "dot-siren", replace(SMALL, conditions=100))
    assert not [w for w in recwarn if issubclass(w.category, cnf.errors.CnfWarning)]
