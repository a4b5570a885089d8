"""Hypernet and HypernetKernel: value and gradient at one point, pieces of bounded memory, codes and seeds."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import cnf
from cnf import encoders, kernels
from cnf.bases import Hermite, Hypernet, HypernetKernel, Kernel, hypernet, hypernet_values
from cnf.bases.basis import Basis
from cnf.errors import BasisError, RepeatedAnchorError
from cnf.operators.expansion import Request
from tests.bases.contract import nested_autograd

PLANE = cnf.Space("x y", "u")
POINTS = cnf.Box((0, 0), (1, 1)).halton(8, seed=2)


# -- value and gradient at the same points ---------------------------------------------------------------------------


def distance(p: Tensor) -> Tensor:
    return p.square().sum(dim=1).sqrt() - 0.7


def outward(p: Tensor) -> Tensor:
    return p / p.square().sum(dim=1, keepdim=True).sqrt()


def oriented(dimension: int) -> list[cnf.Constraint]:
    """The signed distance of a sphere and its gradient, at the same 12 points."""
    space = cnf.Space(["x y", "x y z"][dimension - 2], "u")
    at = cnf.Box([-1.0] * dimension, [1.0] * dimension).halton(12, seed=3)
    value = space.constraint("u", at=at, equals=distance, name="value")
    return [value, space.constraint(r"\nabla u", at=at, equals=outward, name="normal")]


def space_of(constraints: list[cnf.Constraint]) -> cnf.Space:
    frame = constraints[0].operator.frame
    return cnf.Space(frame.coordinates, frame.channels)


def hypernet_kernel(constraints: list[cnf.Constraint], activation: str) -> Basis:
    space = space_of(constraints)
    dimension = len(space.coordinates)
    if activation == "sine":
        encoder: nn.Module = encoders.SIREN(dimension, 24, hidden=(32,), omega=5.0, seed=0)
    else:
        encoder = encoders.MLP(dimension, 24, hidden=(32,), activation=activation, seed=0)
    return HypernetKernel(space, constraints, encoder)


SHARING = {
    "tanh": lambda c: hypernet_kernel(c, "tanh"),
    "softplus": lambda c: hypernet_kernel(c, "softplus"),
    "sine": lambda c: hypernet_kernel(c, "sine"),
    "Hermite": lambda c: Hermite(space_of(c), c, kernels.Gaussian(0.6)),
}


def misses(field: cnf.ConstrainedField) -> tuple[float, float]:
    """How far value and gradient are from what was asked, relative, by reverse mode on the solution."""
    solution, at = field.solve(), field.constraints[0].points
    dimension = at.shape[1]
    axes = [tuple(int(k == axis) for k in range(dimension)) for axis in range(dimension)]
    slopes = nested_autograd(solution, at, axes)
    value = (solution(at)[:, 0] - distance(at)).abs().max() / distance(at).abs().max()
    gradient = (torch.cat([slopes[a] for a in axes], dim=1) - outward(at)).abs().max() / outward(at).abs().max()
    return value.item(), gradient.item()


@pytest.mark.parametrize(("kind", "dimension"), [("tanh", 2), ("softplus", 3), ("sine", 2), ("Hermite", 3)])
def test_value_and_gradient_at_the_same_points(kind: str, dimension: int):
    """Both hold to 1e-10 relative before training and after 40 steps of it, seen from outside the library."""
    constraints = oriented(dimension)
    torch.manual_seed(0)
    field = cnf.ConstrainedField(SHARING[kind](constraints), constraints)
    assert max(misses(field)) <= 1e-10
    before = [p.detach().clone() for p in field.parameters()]
    box = cnf.Box([-1.0] * dimension, [1.0] * dimension)
    history = cnf.fit(field, cnf.losses.Eikonal(box, 40), steps=40, lr=3e-3, progress=False, keep="last")
    assert len(history) == 40
    trained = [a for a, p in zip(before, field.parameters(), strict=True) if p.requires_grad and not torch.equal(a, p)]
    assert trained
    assert max(misses(field)) <= 1e-10
    assert field.solve().certificate.exact


@pytest.mark.parametrize("dimension", [2, 3])
def test_one_shared_kernel_refuses_them_with_advice(dimension: int):
    constraints = oriented(dimension)
    with pytest.raises(RepeatedAnchorError, match=r"Hermite.*HypernetKernel"):
        Kernel(space_of(constraints), constraints, kernels.Gaussian(0.4))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("activation", ["tanh", "softplus"])
def test_the_default_bandwidth_starts_well(activation: str, seed: int):
    """Whatever the random networks are, both conditions hold to 1e-10 from the first solve on."""
    constraints = oriented(2)
    encoder = encoders.MLP(2, 24, hidden=(32,), activation=activation, seed=seed)
    field = cnf.ConstrainedField(HypernetKernel(PLANE, constraints, encoder, seed=seed), constraints)
    assert max(misses(field)) <= 1e-10


def test_functions_at_one_anchor_are_distinct():
    """Four functions per anchor: with a common encoder their columns would be equal, rank 8 of 32."""
    repeated = POINTS.repeat_interleave(4, dim=0)
    basis = HypernetKernel(PLANE, repeated, encoders.MLP(2, 10, hidden=(16,), seed=0))
    x = cnf.Box((0, 0), (1, 1)).halton(200, seed=9)
    values = basis(x).detach()
    assert torch.linalg.matrix_rank(values, rtol=1e-12) == 32
    same = basis(POINTS).detach()  # every function is 1 at its own anchor
    for k in range(8):
        assert (same[k, 4 * k : 4 * k + 4] - 1).abs().max() <= 1e-14
    gaps = torch.cdist(values.T, values.T) + torch.eye(32, dtype=torch.float64)
    assert float(gaps.min()) > 1e-3


# -- parameters ------------------------------------------------------------------------------------------------------


def trainable(basis: Basis) -> int:
    return sum(p.numel() for p in basis.parameters() if p.requires_grad)


def test_each_further_function_adds_one_code():
    """`codes` numbers per function, whatever the size of the network."""
    main, encoder = encoders.MLP(2, 1, hidden=(30, 30)), encoders.MLP(2, 20, hidden=(30,))
    nets = [Hypernet(PLANE, main, size, codes=7) for size in (10, 11, 50)]
    assert [trainable(b) - trainable(nets[0]) for b in nets] == [0, 7, 280]
    anchors = cnf.Box((0, 0), (1, 1)).halton(50)
    kernel = [HypernetKernel(PLANE, anchors[:n], encoder, codes=5) for n in (10, 11, 50)]
    assert [trainable(b) - trainable(kernel[0]) for b in kernel] == [0, 5, 200]


def test_seeds_reproduce_and_differ():
    """The functions depend on the seed, not on the state of torch's generator, which they leave as it was."""
    encoder = encoders.MLP(2, 10, hidden=(16,), seed=1)

    def functions(seed: int, before: int) -> tuple[Tensor, Tensor]:
        torch.manual_seed(before)
        state = torch.random.get_rng_state()
        made = (
            Hypernet(PLANE, encoders.MLP(2, 1, seed=0), 6, seed=seed),
            HypernetKernel(PLANE, POINTS, encoder, seed=seed),
        )
        assert torch.equal(torch.random.get_rng_state(), state)
        return tuple(basis(POINTS).detach() for basis in made)

    first, again, other = functions(0, 1), functions(0, 2), functions(1, 1)
    for a, b, c in zip(first, again, other, strict=True):
        assert torch.equal(a, b)
        assert (a - c).abs().max() > 1e-2


def test_the_given_network_is_not_touched():
    """The main network is a pattern: copied, still trainable where it came from, and its weights do not matter."""
    network = encoders.MLP(2, 1, hidden=(8,), seed=0)
    basis = Hypernet(PLANE, network, 12)
    assert all(p.requires_grad for p in network.parameters())
    assert not any(p.requires_grad for p in basis.network.parameters())
    before = basis(POINTS).detach()
    with torch.no_grad():
        for parameter in [*network.parameters(), *basis.network.parameters()]:
            parameter.zero_()
    assert torch.equal(basis(POINTS), before)


def test_parameters_that_start_constant_keep_their_constant():
    """The scale of a normalisation starts at 1; generated as 0 it would silence the network."""
    encoder = nn.Sequential(nn.Linear(2, 16), nn.LayerNorm(16), nn.Tanh(), nn.Linear(16, 8)).double()
    basis = HypernetKernel(PLANE, POINTS, encoder)
    assert (basis.hypernetwork()["1.weight"] == 1).all()
    values = basis(cnf.Box((0, 0), (1, 1)).halton(60, seed=4)).detach()
    assert torch.linalg.matrix_rank(values, rtol=1e-10) == 8


# -- pieces of bounded memory ----------------------------------------------------------------------------------------


class Quotient(nn.Module):
    """A network without rules and without linear layers."""

    def __init__(self, outputs: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, outputs, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        z = x @ self.weight
        return z / (1 + z.square()) + torch.sin(z)


SAMPLES = {
    "Hypernet": lambda memory: Hypernet(PLANE, encoders.MLP(2, 1, hidden=(9, 7), seed=0), 11, memory=memory),
    "Hypernet-own": lambda memory: Hypernet(PLANE, Quotient(1), 11, memory=memory),
    "HypernetKernel": lambda memory: HypernetKernel(PLANE, POINTS, encoders.MLP(2, 5, (9,), seed=0), memory=memory),
    "HypernetKernel-DotProduct": lambda memory: HypernetKernel(
        PLANE, POINTS, encoders.SIREN(2, 5, (9,), seed=0, omega=2.0), kernels.DotProduct(), memory=memory
    ),
    "HypernetKernel-own": lambda memory: HypernetKernel(PLANE, POINTS, Quotient(5), memory=memory),
}


@pytest.mark.parametrize(("memory", "order"), [(1, 1), (300, 0), (300, 3)])
@pytest.mark.parametrize("kind", SAMPLES)
def test_pieces_equal_the_whole(kind: str, memory: int, order: int):
    """Functions and points in groups, the first-order path included: same rows, same gradients of parameters and x."""
    weights = torch.rand(5, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    indices = [(0, 0), (1, 0), (0, 1), (1, 1), (2, 1)]
    requests = [Request(0, {i: weights if k % 2 else weights[0] for k, i in enumerate(indices) if sum(i) <= order})]
    requests.append(Request(0, {(0, order): weights}))

    def run(bound: int) -> list[Tensor]:
        torch.manual_seed(0)
        basis = SAMPLES[kind](bound)
        x = cnf.Box((0, 0), (1, 1)).halton(5, seed=6).requires_grad_()
        found = basis.rows(x, requests)  # (P, K, N)
        factors = torch.randn(found.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
        (found * factors).sum().backward()
        learned = [p.grad for p in basis.parameters() if p.requires_grad]
        assert all(g is not None for g in learned)
        with torch.no_grad():  # no recomputation then
            assert (basis.rows(x, requests) - found).abs().max() <= 1e-14 * float(found.abs().max())
        return [found.detach(), basis(x).detach(), x.grad, *learned]

    for whole, pieces in zip(run(2**28), run(memory), strict=True):
        assert (whole - pieces).abs().max() <= 1e-12 * max(1.0, float(whole.abs().max()))


@pytest.mark.parametrize("kind", SAMPLES)
def test_memory_bounds_every_network_evaluation(kind: str, monkeypatch):
    """No single evaluation keeps more numbers than asked for, unless one function at one point does."""
    seen = []
    bundles, values = hypernet.generated, hypernet_values.evaluate

    def watched(network, parameters, x, indices):
        seen.append(next(iter(parameters.values())).shape[0] * x.shape[0])
        return bundles(network, parameters, x, indices)

    def watched_values(chain, columns, tables, scratch):
        seen.append(tables[0].shape[0] * columns.shape[1])
        return values(chain, columns, tables, scratch)

    torch.manual_seed(0)
    basis = SAMPLES[kind](1)
    monkeypatch.setattr(hypernet, "generated", watched)
    monkeypatch.setattr(hypernet_values, "evaluate", watched_values)
    basis(POINTS)
    assert len(seen) == basis.size * POINTS.shape[0]
    assert max(seen) == 1


@pytest.mark.parametrize("kind", SAMPLES)
def test_no_points(kind: str):
    """Rows and values at no points at all, whatever the memory."""
    for memory in (1, 2**28):
        basis = SAMPLES[kind](memory)
        one = torch.ones((), dtype=torch.float64)
        for index in ((0, 0), (1, 0), (2, 1)):
            assert basis.rows(POINTS[:0], [Request(0, {index: one})]).shape == (0, 1, basis.size)
        assert basis(POINTS[:0]).shape == (0, basis.size)


# -- which path ------------------------------------------------------------------------------------------------------


def sequences() -> dict[str, nn.Module]:
    twice = nn.Linear(2, 2).double()
    hooked = encoders.MLP(2, 4, hidden=(6,), seed=0)
    hooked.register_forward_hook(lambda module, inputs, output: output * output)
    return {
        "plain": nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 4)).double(),
        "without bias": nn.Sequential(nn.Linear(2, 6), nn.Softplus(4), nn.Linear(6, 4, bias=False)).double(),
        "last layer used twice": nn.Sequential(twice, nn.Tanh(), twice),
        "one layer": nn.Sequential(nn.Linear(2, 4)).double(),
        "many layers": nn.Sequential(*[nn.Linear(2, 2).double() if k % 2 else nn.Tanh() for k in range(12)]),
        "something after the last layer": hooked,
        "buffers": encoders.FourierFeatures(2, 4, frequencies=3, hidden=(6,), seed=0),
    }


@pytest.mark.parametrize("name", sequences())
@pytest.mark.parametrize("bandwidth", [0.8, [0.5, 2.0, 0.7, 0.9]])
def test_first_derivatives_alone_equal_those_among_higher_ones(name: str, bandwidth):
    """Orders 0 and 1 take a path of their own where the encoder ends in a linear layer."""
    encoder = sequences()[name]
    if isinstance(bandwidth, list):
        bandwidth = bandwidth[: encoder(POINTS).shape[1]]
    basis = HypernetKernel(PLANE, POINTS, encoder, kernels.Gaussian(bandwidth), seed=1)
    one = torch.ones((), dtype=torch.float64)
    low = [Request(0, {index: one}) for index in ((0, 0), (1, 0), (0, 1))]
    x = cnf.Box((0, 0), (1, 1)).halton(9, seed=6)
    alone = basis.rows(x, low).detach()
    among = basis.rows(x, [*low, Request(0, {(1, 1): one})])[:, :3].detach()
    assert (alone - among).abs().max() <= 1e-12 * max(1.0, float(among.abs().max()))
    oracle = nested_autograd(basis, x, [(0, 0), (1, 0), (0, 1)])
    for k, index in enumerate(oracle):
        assert (alone[:, k] - oracle[index]).abs().max() <= 1e-10 * max(1.0, float(oracle[index].abs().max()))


# -- refusals --------------------------------------------------------------------------------------------------------


class Flat(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1).double()

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[:, 0]


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: Hypernet(PLANE, "mlp", 4), "torch module"),
        (lambda: Hypernet(PLANE, encoders.MLP(2, 1), 0), "at least one"),
        (lambda: Hypernet(PLANE, encoders.MLP(2, 1), 4, codes=0), "codes"),
        (lambda: Hypernet(PLANE, nn.Tanh(), 4), "parameters"),
        (lambda: Hypernet(PLANE, encoders.MLP(3, 1), 4), "2 coordinates"),
        (lambda: Hypernet(PLANE, encoders.MLP(2, 3), 4), "3 outputs"),
        (lambda: Hypernet(PLANE, Flat(), 4), "expected"),
        (lambda: HypernetKernel(PLANE, POINTS, None), "torch module"),
        (lambda: HypernetKernel(PLANE, POINTS, encoders.MLP(3, 5)), "2 coordinates"),
        (lambda: HypernetKernel(PLANE, POINTS, encoders.MLP(3, 5), kernels.DotProduct()), "2 coordinates"),
        (lambda: HypernetKernel(PLANE, POINTS, encoders.MLP(2, 5), "gaussian"), "cnf.kernels"),
        (lambda: HypernetKernel(PLANE, POINTS, encoders.MLP(2, 5), codes=-1), "codes"),
        (lambda: HypernetKernel(PLANE, POINTS, Flat()), "expected"),
    ],
)
def test_refusals_say_what_was_expected(build, match: str):
    with pytest.raises(BasisError, match=match):
        build()


def test_one_anchor_only_gets_a_sensible_bandwidth():
    """All conditions at one point: there is no distance to take, and rounding is not one."""
    basis = HypernetKernel(PLANE, POINTS[:1].repeat(5, 1), encoders.MLP(2, 6, seed=0))
    assert float(basis.kernel.bandwidth.detach()) == 1.0
