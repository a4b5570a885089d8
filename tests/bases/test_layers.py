"""Rules that push derivatives through layers: against forward mode and SymPy; ReLU; modules that must not use them."""

from __future__ import annotations

import warnings

import pytest
import sympy as sp
import torch
from torch import Tensor, nn

import cnf
from cnf import encoders
from cnf.bases import ConstraintLayer, Kernel
from cnf.bases.encoders import ACTIVATIONS
from cnf.bases.layers import RULES, FourierMap, Sine, encode, has_rules, smoothness
from cnf.errors import BasisError, SmoothnessError, SmoothnessWarning
from cnf.operators import jets
from cnf.operators.forward import derivatives
from tests.bases.contract import multi_indices, nested_autograd

SMOOTH: dict[str, nn.Module] = {
    "tanh": nn.Tanh(),
    "sigmoid": nn.Sigmoid(),
    "softplus": nn.Softplus(),
    "softplus-10": nn.Softplus(beta=10.0),
    "silu": nn.SiLU(),
    "gelu": nn.GELU(),
    "gelu-tanh": nn.GELU(approximate="tanh"),
    "elu": nn.ELU(),
    "mish": nn.Mish(),
    "sine": Sine(2.5),
    "identity": nn.Identity(),
}


def network(activation: nn.Module, dimension: int) -> nn.Sequential:
    torch.manual_seed(4)
    layers = [nn.Linear(dimension, 6), activation, nn.Linear(6, 5, bias=False), activation, nn.Linear(5, 3)]
    return nn.Sequential(*layers).double()


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_bundles_equal_forward_mode(name: str, dimension: int):
    """Value and all partial derivatives up to order 4 of a network with two hidden layers, to 1e-10 relative."""
    module = network(SMOOTH[name], dimension)
    assert has_rules(module)
    x = torch.randn(5, dimension, dtype=torch.float64)
    indices = jets.closure(multi_indices(dimension, 4))
    found = encode(module, x, indices)
    expected = derivatives(module, x, indices)
    for index in indices:
        value = found[index]
        value = torch.zeros_like(expected[index]) if value is None else value.expand(5, 3)
        assert (value - expected[index]).abs().max() <= 1e-10 * max(1.0, float(expected[index].abs().max())), index


@pytest.mark.parametrize("name", ["tanh", "softplus-10", "silu", "sine", "gelu"])
def test_bundles_equal_nested_autograd(name: str):
    """The same against reverse mode, which shares nothing with either."""
    module = network(SMOOTH[name], 2)
    x = torch.randn(4, 2, dtype=torch.float64)
    indices = jets.closure([(3, 1), (0, 4), (2, 2)])
    found = encode(module, x, indices)
    expected = nested_autograd(module, x, indices)
    for index in indices:
        assert (found[index] - expected[index]).abs().max() <= 1e-10 * max(1.0, float(expected[index].abs().max()))


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("tanh", lambda z: sp.tanh(z)),
        ("sigmoid", lambda z: 1 / (1 + sp.exp(-z))),
        ("softplus-10", lambda z: sp.log(1 + sp.exp(10 * z)) / 10),
        ("silu", lambda z: z / (1 + sp.exp(-z))),
        ("gelu", lambda z: z * (1 + sp.erf(z / sp.sqrt(2))) / 2),
        ("sine", lambda z: sp.sin(sp.Rational(5, 2) * z)),
    ],
)
def test_activations_by_sympy(name: str, formula):
    """Derivatives of the activation itself, orders 0 to 4, by SymPy at 30 digits."""
    z = sp.Symbol("z", real=True)
    at = [-1.3, -0.2, 0.4, 1.1]
    x = torch.tensor(at, dtype=torch.float64)[:, None]
    indices = [(m,) for m in range(5)]
    found = encode(nn.Sequential(SMOOTH[name]), x, indices)
    for m in range(5):
        slope = formula(z).diff(z, m)
        expected = torch.tensor([float(slope.subs(z, sp.Float(v, 40)).evalf(30)) for v in at], dtype=torch.float64)
        assert (found[(m,)][:, 0] - expected).abs().max() <= 1e-10 * max(1.0, float(expected.abs().max())), m


def test_softplus_beyond_its_threshold():
    """torch's softplus is the identity for beta z > 20: derivatives 1, 0, 0 there; just below, the sigmoid's."""
    layer = nn.Softplus(beta=2.0)
    x = torch.tensor([[9.9], [10.1], [300.0], [-300.0]], dtype=torch.float64)
    found = encode(nn.Sequential(layer), x, [(0,), (1,), (2,), (3,)])
    assert torch.equal(found[(0,)], layer(x))
    assert found[(1,)][1:, 0].tolist() == pytest.approx([1.0, 1.0, 0.0], abs=1e-200)
    assert found[(1,)][0, 0] == torch.sigmoid(torch.tensor(19.8, dtype=torch.float64))
    assert 0 < float(found[(2,)][0, 0]) < 1e-7
    assert found[(2,)][1:, 0].tolist() == pytest.approx([0.0, 0.0, 0.0], abs=1e-200)
    assert all(bool(torch.isfinite(value).all()) for value in found.values())


def test_one_activation_module_for_all_layers():
    """MLP(activation=nn.Softplus(beta=10)) uses one module twice: no layer is skipped, in values and derivatives."""
    torch.manual_seed(2)
    encoder = encoders.MLP(2, 4, (6, 6), activation=nn.Softplus(beta=10.0))
    x = torch.randn(5, 2, dtype=torch.float64)
    found = encode(encoder, x, jets.closure([(1, 1)]))
    assert torch.allclose(found[0, 0], encoder(x), rtol=1e-13, atol=1e-13)
    expected = nested_autograd(encoder, x, [(1, 1)])[1, 1]
    assert (found[1, 1] - expected).abs().max() <= 1e-11 * expected.abs().max()


def test_fourier_map():
    """(x, sin Bx, cos Bx): waves shifted and scaled by powers of B; the input's derivatives are 1 and 0."""
    frequencies = torch.randn(4, 2, dtype=torch.float64)
    for include in (True, False):
        module = FourierMap(frequencies, include)
        x = torch.randn(6, 2, dtype=torch.float64)
        indices = jets.closure([(2, 1), (0, 4)])
        found, expected = encode(module, x, indices), nested_autograd(module, x, indices)
        for index in indices:
            assert (found[index].expand(6, -1) - expected[index]).abs().max() <= 1e-12 * max(
                1.0, float(expected[index].abs().max())
            )


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_named_activation_has_a_rule(name: str):
    """An MLP of any activation we name is differentiated layer by layer."""
    assert type(ACTIVATIONS[name]()) in RULES
    assert has_rules(encoders.MLP(2, 3, (4,), activation=name))


def test_modules_that_may_compute_something_else_have_no_rules():
    """A subclass, a hook, a reparametrised weight, an unknown child: the generic path, and the right derivatives."""

    class Doubled(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return 2 * super().forward(x)

    class Shuffled(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).flip(-1)

    hooked = nn.Sequential(nn.Linear(2, 3), nn.Tanh()).double()
    hooked[0].register_forward_hook(lambda module, inputs, output: 3 * output)
    normed = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(2, 3)), nn.Tanh()).double()
    modules = [
        nn.Sequential(Doubled(2, 3), nn.Tanh()).double(),
        Shuffled(nn.Linear(2, 3), nn.Tanh()).double(),
        hooked,
        normed,
        nn.Sequential(nn.Linear(2, 3), nn.Tanhshrink()).double(),
    ]
    x = torch.randn(4, 2, dtype=torch.float64)
    for module in modules:
        assert not has_rules(module)
        indices = jets.closure([(1, 1)])
        found, expected = encode(module, x, indices), nested_autograd(module, x, indices)
        for index in indices:
            assert (found[index] - expected[index]).abs().max() <= 1e-12


class TestReLU:
    """Piecewise linear: one derivative, with a warning; a second is refused, wherever the network sits."""

    SPACE = cnf.Space("x y", "u")
    AT = cnf.Box((0, 0), (1, 1)).halton(6)

    def bases(self, activation: nn.Module) -> list[cnf.bases.Basis]:
        torch.manual_seed(1)
        layers = nn.Sequential(nn.Linear(2, 24), activation, nn.Linear(24, 12)).double()
        return [
            Kernel(self.SPACE, cnf.Box((0, 0), (1, 1)).halton(12, seed=4), cnf.kernels.Gaussian(0.5), layers),
            ConstraintLayer(self.SPACE, layers),
            cnf.bases.Concat([ConstraintLayer(self.SPACE, layers), cnf.bases.Polynomial(self.SPACE, 1)]),
        ]

    @pytest.mark.parametrize("activation", [nn.ReLU(), nn.LeakyReLU(), nn.ReLU(inplace=True), nn.PReLU()])
    def test_warned_and_refused(self, activation: nn.Module):
        for basis in self.bases(activation):
            assert basis.smoothness == 1
            with pytest.warns(SmoothnessWarning, match="ReLU"):
                cnf.ConstrainedField(basis, self.SPACE.constraint("u_x", at=self.AT, equals=1.0))
            with pytest.raises(SmoothnessError, match="order 2"):
                cnf.ConstrainedField(basis, self.SPACE.constraint(r"\Delta u", at=self.AT, equals=1.0))
            with warnings.catch_warnings():
                warnings.simplefilter("error", SmoothnessWarning)
                cnf.ConstrainedField(basis, self.SPACE.constraint("u", at=self.AT, equals=1.0))  # values are fine

    def test_smooth_networks_have_no_limit(self):
        assert all(smoothness(network(activation, 2)) is None for activation in SMOOTH.values())


class TestEncoders:
    def test_the_same_seed_gives_the_same_network(self):
        """And does not disturb the random numbers of the rest of the program."""
        builds = [
            lambda seed: encoders.MLP(2, 3, (4,), seed=seed),
            lambda seed: encoders.SIREN(2, 3, (4,), seed=seed),
            lambda seed: encoders.FourierFeatures(2, 3, 4, hidden=(4,), seed=seed),
        ]
        x = torch.randn(3, 2, dtype=torch.float64)
        for build in builds:
            state = torch.get_rng_state()
            assert torch.equal(build(5)(x), build(5)(x))
            assert not torch.equal(build(5)(x), build(6)(x))
            assert torch.equal(torch.get_rng_state(), state)

    def test_siren_starts_as_its_paper_says(self):
        """First layer uniform in 1/inputs, later ones in sqrt(6 / inputs) / omega; the phases then have unit size."""
        encoder = encoders.SIREN(2, 8, (256, 256), omega=30.0, seed=0)
        first, second = encoder.layers[0].weight, encoder.layers[2].weight
        assert 0.48 < float(first.abs().max()) <= 0.5
        bound = (6 / 256) ** 0.5 / 30
        assert 0.98 * bound < float(second.abs().max()) <= bound

    def test_nonsense(self):
        with pytest.raises(BasisError, match=r"no activation 'tahn'.*Did you mean 'tanh'"):
            encoders.MLP(2, 3, activation="tahn")
        with pytest.raises(BasisError, match="at least one input and one output"):
            encoders.MLP(0, 3)
        with pytest.raises(BasisError, match="at least one input and one output"):
            encoders.SIREN(2, 3, (0,))
