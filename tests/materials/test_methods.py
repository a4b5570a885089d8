"""The eight methods: equal budgets, the networks they claim to be, and conditions met before any training."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist
from torch import Tensor

import cnf
from cnf.errors import CnfError
from cnf.materials.fitting.conditions import place_conditions
from cnf.materials.fitting.methods import FIRST_OMEGA, METHODS, OMEGA, count_parameters, find_method
from cnf.materials.fitting.sampling import Samples, draw_samples
from cnf.materials.reflectance import GGX

GOLD = GGX("gold", 0.2)
CONDITIONS = place_conditions(GOLD, 100)
POINTS = draw_samples(GOLD, 200, 5).points
WIDTHS = {
    "kernel-grid": 8,
    "kernel-grid-free": 8,
    "kernel-siren": 60,
    "kernel-ffn": 60,
    "dot-siren": 60,
    "hypernet": 8,
    "hypernet-kernel": 8,
    "layer": 110,
}  # for 100 functions
EIGHT = tuple(name for name in METHODS if not name.endswith("-paper"))  # the others differ in their rate alone
SOFT = tuple(name for name in EIGHT if not METHODS[name].constrained)
HARD = tuple(name for name, method in METHODS.items() if method.constrained)
KERNELS = ("kernel-siren", "kernel-ffn")


def untrained(name: str) -> cnf.ConstrainedField:
    model = find_method(name).with_width(CONDITIONS, WIDTHS[name], 0, 1e-10)
    assert isinstance(model, cnf.ConstrainedField)
    return model.eval()


def largest_miss(values: Tensor, conditions: Samples) -> float:
    """Over the largest value of the conditions."""
    return float((values - conditions.logs).detach().abs().max() / conditions.logs.abs().max())


@pytest.mark.parametrize("name", EIGHT)
def test_budgets(name: str):
    """At the paper's 200,000 parameters all methods are within 2 %."""
    method = find_method(name)
    width = method.width_for(CONDITIONS, 200_000)
    assert abs(method.size(CONDITIONS, width) / 200_000 - 1) <= 0.02
    assert method.size(CONDITIONS, width) == count_parameters(method.with_width(CONDITIONS, width, 3))


@pytest.mark.parametrize("name", ["kernel-siren", "nbrdf", "siren"])
def test_the_nearest_width(name: str):
    """No other width comes nearer to a budget: compared with both neighbours, also for budgets too small for any."""
    method = find_method(name)
    for budget in (100, 3000, 5000):
        width = method.width_for(CONDITIONS, budget)
        off = [abs(method.size(CONDITIONS, w) - budget) for w in (max(1, width - 1), width, width + 1)]
        assert off[1] == min(off)


@pytest.mark.parametrize("name", EIGHT)
def test_values_of_three_channels(name: str):
    """(P, 6) -> (P, 3), finite, in the precision of the conditions; the seed alone decides, if anything is random."""
    method, conditions = find_method(name, 20), place_conditions(GOLD, 20)
    built = [method.with_width(conditions, 24, seed).eval() for seed in (0, 0, 1)]
    values = [model(POINTS).detach() for model in built]
    assert values[0].shape == (200, 3) and values[0].dtype == torch.float64
    assert bool(torch.isfinite(values[0]).all())
    assert torch.equal(values[0], values[1]) and torch.equal(values[0], values[2]) == method.solved
    assert isinstance(built[0], cnf.ConstrainedField) == method.constrained


@pytest.mark.filterwarnings("ignore::cnf.errors.CnfWarning")
@pytest.mark.parametrize("name", HARD)
def test_untrained_models_meet_their_conditions(name: str):
    """100 conditions on three channels: kernels to 1e-10; the certificate of any method says what evaluation shows."""
    model = untrained(name)
    certificate = model.solve().certificate
    miss = largest_miss(model(CONDITIONS.points), CONDITIONS)
    assert certificate.conditions == 300
    assert certificate.exact == (certificate.worst <= 1e-10)
    if name in KERNELS:
        assert certificate.exact and miss <= 1e-10
    if certificate.exact:
        assert miss <= 1e-9
    if miss > 1e-6:
        assert not certificate.exact


@pytest.mark.parametrize("name", ["dot-siren", "layer"])
def test_too_few_independent_functions_are_told(name: str):
    """At 3000 parameters these have fewer than 100 independent functions: not exact, and the certificate says so."""
    model = find_method(name).build(CONDITIONS, 3000, 0, 1e-10)
    with pytest.warns(cnf.errors.CnfWarning):
        solution = model.eval().solve()
    assert not solution.certificate.exact
    assert largest_miss(solution(CONDITIONS.points), CONDITIONS) > 1e-6


@pytest.mark.parametrize("name", SOFT)
def test_soft_methods_do_not_know_the_conditions(name: str):
    """The same network whatever the values of the conditions."""
    other = Samples(CONDITIONS.points, 2 * CONDITIONS.logs, CONDITIONS.cosines)
    models = [find_method(name).build(c, 3000, 0) for c in (CONDITIONS, other)]
    assert torch.equal(models[0](POINTS), models[1](POINTS))


def test_the_siren_by_hand():
    """W3 sin(omega (W2 sin(first (W1 x + b1)) + b2)) + b3 in NumPy, the two frequencies being different."""
    network = find_method("siren").with_width(CONDITIONS, 12, 0)
    state = [p.detach().numpy() for p in network.parameters()]
    hidden = np.sin(FIRST_OMEGA * (POINTS.numpy() @ state[0].T + state[1]))
    hidden = np.sin(OMEGA * (hidden @ state[2].T + state[3]))
    expected = hidden @ state[4].T + state[5]
    assert FIRST_OMEGA != OMEGA
    assert np.abs(network(POINTS).detach().numpy() - expected).max() <= 1e-12
    assert np.abs(state[0]).max() <= 1 / 6 and np.abs(state[2]).max() <= np.sqrt(6 / 12) / OMEGA


def test_the_ffn_by_hand():
    """Coordinates, sines and cosines of 2 pi B x with B about standard normal, then two ReLU layers."""
    network = find_method("ffn").with_width(CONDITIONS, 12, 0)
    state = {name: value.detach().numpy() for name, value in network.state_dict().items()}
    (frequencies,) = (v for v in state.values() if v.shape == (16, 6))
    spread = np.std(frequencies / (2 * np.pi))
    assert 0.75 < spread < 1.25  # 96 numbers
    weights = [p.detach().numpy() for p in network.parameters()]
    phase = POINTS.numpy() @ frequencies.T
    hidden = np.concatenate([POINTS.numpy(), np.sin(phase), np.cos(phase)], 1)
    for k in (0, 2):
        hidden = np.maximum(hidden @ weights[k].T + weights[k + 1], 0)
    expected = hidden @ weights[4].T + weights[5]
    assert np.abs(network(POINTS).detach().numpy() - expected).max() <= 1e-10


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_centred_on_the_conditions(name: str):
    """Anchors are the conditions; the Gaussian is a quarter of the median distance of encoded conditions wide."""
    basis = untrained(name).basis
    assert isinstance(basis, cnf.bases.Kernel) and torch.equal(basis.anchors, CONDITIONS.points)
    assert basis.encoder is not None
    features = basis.encoder(CONDITIONS.points).detach().numpy()
    assert float(basis.kernel.length.detach()) == pytest.approx(0.25 * np.median(pdist(features)), rel=1e-3)  # type: ignore[arg-type]
    assert np.abs(basis(CONDITIONS.points).detach().numpy().diagonal() - 1).max() <= 1e-10


@pytest.mark.parametrize("name", ["kernel-siren", "layer", "hypernet", "hypernet-kernel", "dot-siren"])
def test_a_single_condition(name: str):
    """One condition is met too."""
    one = place_conditions(GOLD, 1)
    model = find_method(name, 1).build(one, 2000, 0, 1e-10).eval()
    assert largest_miss(model(one.points), one) <= 1e-10


@pytest.mark.parametrize("name", ["nbrdf", "ffn", "siren"])
def test_the_same_network_at_the_rate_of_the_paper(name: str):
    """nbrdf-paper and its like: another rate, the same network."""
    own, paper = METHODS[name], METHODS[f"{name}-paper"]
    assert paper.rate == own.paper_rate == paper.paper_rate != own.rate and paper.title != own.title
    models = [method.with_width(CONDITIONS, 12, 0) for method in (own, paper)]
    assert torch.equal(models[0](POINTS), models[1](POINTS))


def test_an_unknown_method():
    """One line with the choices and the likely one."""
    with pytest.raises(CnfError, match=r"there is no method 'kernel-sirn'; choose one of kernel-grid, .*kernel-siren"):
        find_method("kernel-sirn")
