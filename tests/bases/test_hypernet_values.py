"""Values of generated networks by the way of their own: the same numbers, gradients of every kind, bounded memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call

import cnf
from cnf import encoders
from cnf.bases import Hypernet, hypernet_values
from cnf.bases.activations import tanh_in_place
from cnf.bases.hypernet_values import chain_of, is_plain
from tests.bases.contract import nested_autograd

PLANE = cnf.Space("x y", "u")
PLACES = cnf.Box((0, 0), (1, 1)).halton(7, seed=5)


def sequence(*layers: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*layers).double()


CHAINS: dict[str, Callable[[], nn.Module]] = {
    "tanh": lambda: encoders.MLP(2, 1, hidden=(9, 7), seed=0),
    "softplus": lambda: encoders.MLP(2, 1, hidden=(9, 7), activation=nn.Softplus(10.0, threshold=0.3), seed=0),
    "sine": lambda: encoders.SIREN(2, 1, hidden=(9, 7), omega=4.0, first_omega=2.0, seed=0),
    "one hidden layer": lambda: encoders.MLP(2, 1, hidden=(9,), seed=0),
    "linear": lambda: sequence(nn.Linear(2, 1)),
    "activation last": lambda: sequence(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 1), nn.Tanh()),
    "biases left out": lambda: sequence(
        nn.Linear(2, 5, bias=False), nn.Tanh(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1, bias=False)
    ),
}


def hooked() -> nn.Module:
    network = encoders.MLP(2, 1, hidden=(5,), seed=0)
    network.layers[1].register_forward_hook(lambda module, inputs, output: output * output)
    return network


def repeated() -> nn.Module:
    layer = nn.Linear(2, 2)
    return sequence(layer, nn.Tanh(), layer, nn.Tanh(), nn.Linear(2, 1))


OTHERS: dict[str, Callable[[], nn.Module]] = {
    "hook": hooked,
    "a layer twice": repeated,
    "another activation": lambda: encoders.MLP(2, 1, hidden=(5,), activation="gelu", seed=0),
    "normalisation": lambda: sequence(nn.Linear(2, 5), nn.LayerNorm(5), nn.Tanh(), nn.Linear(5, 1)),
    "buffers": lambda: encoders.FourierFeatures(2, 1, frequencies=3, hidden=(6,), seed=0),
}


def written_down(basis: Hypernet, x: Tensor) -> Tensor:
    """Every network called on its own with its own parameters, (P, N)."""
    tables = basis.hypernetwork()
    names = [{name: table[j] for name, table in tables.items()} for j in range(basis.size)]
    return torch.stack([functional_call(basis.network, own, (x,))[:, 0] for own in names], dim=1)


def gradients(values: Tensor, basis: Hypernet) -> list[Tensor]:
    factors = torch.randn(values.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    return list(torch.autograd.grad((values * factors).sum(), list(basis.hypernetwork.parameters())))


@pytest.mark.parametrize("memory", [1, 60, 2**28])
@pytest.mark.parametrize("name", [*CHAINS, *OTHERS])
def test_values_and_gradients_are_those_of_every_network_on_its_own(name: str, memory: int):
    """To rounding, in pieces of any size; what is no chain of known layers takes the other way to the same numbers."""
    network = (CHAINS | OTHERS)[name]()
    assert (chain_of(network) is not None) == (name in CHAINS)
    basis = Hypernet(PLANE, network, 6, codes=3, seed=1, memory=memory)
    values, oracle = basis(PLACES), written_down(basis, PLACES)
    assert (values - oracle).abs().max() <= 1e-14 * max(1.0, float(oracle.detach().abs().max()))
    for found, expected in zip(gradients(values, basis), gradients(oracle, basis), strict=True):
        assert (found - expected).abs().max() <= 1e-13 * max(1.0, float(expected.abs().max()))


def test_several_outputs():
    """One output per channel: each channel's functions are those of its output."""
    space = cnf.Space("x y", "u v")
    basis = Hypernet(space, encoders.MLP(2, 2, hidden=(6, 5), seed=0), 4, seed=1)
    tables = basis.hypernetwork()
    values = basis(PLACES)  # (P, N, C)
    for j in range(4):
        own = functional_call(basis.network, {name: table[j] for name, table in tables.items()}, (PLACES,))
        assert (values[:, j] - own).abs().max() <= 1e-14


@pytest.mark.parametrize("name", CHAINS)
def test_gradients_and_their_gradients_against_differences(name: str):
    """gradcheck and gradgradcheck in the codes, with pieces of one function or a few points."""
    basis = Hypernet(PLANE, CHAINS[name](), 3, codes=2, seed=1, memory=40)
    at = PLACES[:3]

    def values(codes: Tensor) -> Tensor:
        return functional_call(basis, {"hypernetwork.codes": codes}, (at,))

    codes = basis.hypernetwork.codes.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(values, (codes,))
    assert torch.autograd.gradgradcheck(values, (codes,))


def test_the_fast_way_is_taken_where_it_is_right(monkeypatch: pytest.MonkeyPatch):
    """At plain points; not where points are differentiated in, by reverse or forward mode, nor in transforms."""
    counted = []
    original = hypernet_values._Values.forward

    def watched(*arguments):
        counted.append(1)
        return original(*arguments)

    monkeypatch.setattr(hypernet_values._Values, "forward", staticmethod(watched))
    basis = Hypernet(PLANE, CHAINS["tanh"](), 4, seed=1)
    basis(PLACES)
    assert len(counted) == 1
    orders = [(0, 0), (1, 0), (0, 2)]
    oracle = nested_autograd(lambda x: written_down(basis, x), PLACES, orders)
    reverse = nested_autograd(basis, PLACES, orders)
    for order in orders:
        assert (reverse[order] - oracle[order]).abs().max() <= 1e-12
    along = torch.tensor([1.0, 0.0], dtype=torch.float64).expand_as(PLACES).contiguous()
    _, slope = torch.func.jvp(basis, (PLACES,), (along,))
    assert (slope - oracle[1, 0]).abs().max() <= 1e-12
    with forward_ad.dual_level():
        dual = forward_ad.unpack_dual(basis(forward_ad.make_dual(PLACES, along)))
        assert (dual.tangent - oracle[1, 0]).abs().max() <= 1e-12
    each = torch.func.vmap(lambda x: basis(x[None])[0])(PLACES)
    assert (each - oracle[0, 0]).abs().max() <= 1e-14
    assert len(counted) == 1
    with torch.no_grad():
        basis(PLACES.clone().requires_grad_())
    assert len(counted) == 2
    with torch.autocast("cpu"):
        assert not is_plain(PLACES, basis.hypernetwork())


def test_nothing_is_kept_for_the_gradient():
    """Beside points and parameters: activations of all functions at all points would be 100 times as much here."""
    basis = Hypernet(PLANE, CHAINS["tanh"](), 20, seed=1)
    tables = basis.hypernetwork()
    x = cnf.Box((0, 0), (1, 1)).halton(400, seed=5)
    kept: list[int] = []

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        basis.snapshot().rows(x, [cnf.bases.basis.values_request(2, x)])
    generator = basis.hypernetwork.generator.numel() + basis.hypernetwork.codes.numel()
    assert sum(kept) <= 2 * (x.numel() + sum(table.numel() for table in tables.values()) + generator)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_tanh_in_place(dtype: torch.dtype):
    """As torch's to two units in the last place, at the ends of the range too, without a warning."""
    scales = torch.logspace(-30, 2, 65, dtype=dtype)
    ends = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 1e-40, 800.0, -1e30], dtype=dtype)
    z = torch.cat([scales, -scales, ends])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = tanh_in_place(z.clone())
    expected = torch.tanh(z.double()).to(dtype)
    assert torch.equal(found.isnan(), expected.isnan())
    off = (found - expected).abs().nan_to_num(0.0)
    assert (off <= 2 * torch.finfo(dtype).eps * expected.abs().nan_to_num(0.0) + torch.finfo(dtype).tiny).all()
    own = z.clone()
    assert tanh_in_place(own).data_ptr() == own.data_ptr()
