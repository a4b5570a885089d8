"""Distances of encoded points without the encoder's last layer: the same numbers and gradients as with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import cnf
from cnf import encoders, kernels
from cnf.bases import Kernel
from cnf.bases.kernel import EncodedKernel
from cnf.bases.metric import HiddenMetric, split_encoder

PLANE = cnf.Space("x y", "u")
ANCHORS = cnf.Box((0, 0), (1, 1)).halton(7, seed=2)
PLACES = cnf.Box((0, 0), (1, 1)).halton(40, seed=5)
WIDTH = 0.8
BUMPY = [0.5, 2.0, 0.7, 0.9, 1.2, 0.6, 1.1, 0.8, 1.0, 1.4, 0.75, 0.65]


def sequential() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 12)).double()


def nested() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 3).double(), nn.Sequential(nn.Tanh(), encoders.MLP(3, 12, [8], seed=1)))


def with_hook_inside() -> nn.Sequential:
    """A hook on a layer before the last is part of what comes before, and may stay."""
    network = sequential()
    network[1].register_forward_hook(lambda module, given, found: 3 * found)
    return network


SHORT: dict[str, Callable[[], nn.Module]] = {
    "SIREN": lambda: encoders.SIREN(2, 12, [9, 8], 5.0, 0, first_omega=3.0),
    "MLP": lambda: encoders.MLP(2, 12, [8], "softplus", seed=0),
    "square last layer": lambda: encoders.MLP(2, 8, [8], seed=0),
    "Fourier": lambda: encoders.FourierFeatures(2, 12, 5, 0.7, [8], seed=0),
    "Fourier, no hidden layer": lambda: encoders.FourierFeatures(2, 12, 4, 0.7, seed=0),
    "Sequential": sequential,
    "nested": nested,
    "no bias": lambda: nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 12, bias=False)).double(),
    "hook inside": with_hook_inside,
}


def hooked(network: nn.Module, before: bool = False) -> nn.Module:
    if before:
        network.register_forward_pre_hook(lambda module, given: (2 * given[0],))
    else:
        network.register_forward_hook(lambda module, given, found: found.sin())
    return network


def hooked_last(before: bool) -> nn.Module:
    network = sequential()
    hooked(network[2], before)
    return network


def hooked_inside(part: Callable[[nn.Module], nn.Module], before: bool = False) -> nn.Module:
    """An MLP with a hook on `part` of it."""
    network = encoders.MLP(2, 12, [8], seed=0)
    hooked(part(network), before)
    return network


def overridden(network: nn.Module, part: Callable[[nn.Module], nn.Module]) -> nn.Module:
    """A forward set on one module and not on its class."""
    changed = part(network)
    usual = changed.forward
    changed.forward = lambda x: usual(x).sin()  # type: ignore[method-assign]
    return network


def itself(network: nn.Module) -> nn.Module:
    return network


def layers_of(network: nn.Module) -> nn.Module:
    return network.layers  # type: ignore[return-value]


def last_of(network: nn.Module) -> nn.Module:
    return list(network.modules())[-1]


def shared_last() -> nn.Module:
    """The last layer also stands in the middle; a metric of the hidden values would hold, but is not worth a proof."""
    layer = nn.Linear(8, 8)
    return nn.Sequential(nn.Linear(2, 8), nn.Tanh(), layer, nn.Tanh(), layer).double()


class Folded(nn.Module):
    """A module of one's own, whose `layers` are not all it does."""

    def __init__(self):
        super().__init__()
        self.layers = sequential()

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x).sin()


class Own(nn.Sequential):
    """A Sequential by name only."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).square()


class Bent(nn.Linear):
    """A linear layer by name only."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).tanh()


def normalised() -> nn.Module:
    network = sequential()
    torch.nn.utils.parametrizations.weight_norm(network[2])
    return network


REFUSED: dict[str, Callable[[], nn.Module]] = {
    "narrow last layer": lambda: encoders.SIREN(2, 4, [8], 5.0, 0),
    "ends in an activation": lambda: nn.Sequential(nn.Linear(2, 12), nn.Tanh()).double(),
    "one layer": lambda: nn.Linear(2, 12).double(),
    "one layer in a Sequential": lambda: nn.Sequential(nn.Linear(2, 12)).double(),
    "features alone": lambda: encoders.FourierFeatures(2, None, 6, 0.7, seed=0),
    "polynomial": lambda: encoders.LearnablePolynomial(2, 12, 3, seed=0),
    "hook on the whole": lambda: hooked(encoders.MLP(2, 12, [8], seed=0)),
    "hook before the whole": lambda: hooked(encoders.MLP(2, 12, [8], seed=0), before=True),
    "hook on a nested Sequential": lambda: nn.Sequential(nn.Linear(2, 2).double(), hooked(sequential())),
    "hook on the last layer": lambda: hooked_last(before=False),
    "hook before the last layer": lambda: hooked_last(before=True),
    "hook on an encoder's layers": lambda: hooked_inside(layers_of),
    "hook before an encoder's layers": lambda: hooked_inside(layers_of, before=True),
    "hook on an encoder's last layer": lambda: hooked_inside(last_of),
    "hook before an encoder's last layer": lambda: hooked_inside(last_of, before=True),
    "forward of its own": lambda: overridden(encoders.SIREN(2, 12, [8], 5.0, 0), itself),
    "forward of its own, Sequential": lambda: overridden(sequential(), itself),
    "forward of its own, an encoder's layers": lambda: overridden(encoders.MLP(2, 12, [8], seed=0), layers_of),
    "forward of its own, last layer": lambda: overridden(encoders.FourierFeatures(2, 12, 4, 0.7, seed=0), last_of),
    "shared last layer": shared_last,
    "own module": Folded,
    "own Sequential": lambda: Own(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 12)).double(),
    "own linear layer": lambda: nn.Sequential(nn.Linear(2, 8), nn.Tanh(), Bent(8, 12)).double(),
    "weights made by a rule": normalised,
}


def whole(basis: Kernel, x: Tensor) -> Tensor:
    """exp(-|phi(x) - phi(c)|^2 / (2 width^2)) pair by pair from the encoder itself, (P, N)."""
    assert basis.encoder is not None
    apart = (basis.encoder(x)[:, None] - basis.encoder(basis.anchors)[None]) / basis.kernel.length  # type: ignore[operator]
    return torch.exp(-apart.square().sum(dim=2) / 2)


def gradients(values: Tensor, basis: Kernel) -> dict[str, Tensor | None]:
    factors = torch.randn(values.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    named = dict(basis.named_parameters())
    found = torch.autograd.grad((values * factors).sum(), list(named.values()), allow_unused=True)
    return dict(zip(named, found, strict=True))


def check_against_whole(basis: Kernel, unseen: str | None) -> None:
    """Values to 1e-12, gradients to 1e-11 of the largest; none for `unseen`."""
    found, expected = basis(PLACES), whole(basis, PLACES)
    assert (found - expected).abs().max() <= 1e-12
    ours, theirs = gradients(found, basis), gradients(expected, basis)
    largest = max(float(g.abs().max()) for g in theirs.values() if g is not None)
    for name, gradient in theirs.items():
        assert gradient is not None
        mine = ours[name]
        if name == unseen:
            assert mine is None or float(mine.abs().max()) == 0.0
            assert gradient.abs().max() <= 1e-12 * largest
        else:
            assert mine is not None and (mine - gradient).abs().max() <= 1e-11 * largest, name
            assert mine.abs().max() > 1e-6 * largest, name  # the comparison is not one of zeros


@pytest.mark.parametrize("name", SHORT)
def test_distances_and_gradients_equal_those_of_the_whole_encoder(name: str):
    """The kernel at 40 points from encoded points, pair by pair; the last bias shifts all features and gets none."""
    encoder = SHORT[name]()
    parts = split_encoder(encoder)
    assert parts is not None
    basis = Kernel(PLANE, ANCHORS, kernels.Gaussian(WIDTH), encoder)
    assert basis.snapshot().metric is not None  # type: ignore[attr-defined]
    unseen = next((f"encoder.{n}" for n, p in encoder.named_parameters() if p is parts[1].bias), None)
    assert (unseen is None) == (name == "no bias")
    check_against_whole(basis, unseen)


@pytest.mark.parametrize("name", REFUSED)
def test_encoders_that_it_cannot_shorten_give_right_values(name: str):
    """No metric for these, and the kernel is that of the encoder as it is called."""
    encoder = REFUSED[name]()
    assert split_encoder(encoder) is None
    basis = Kernel(PLANE, ANCHORS, kernels.Gaussian(WIDTH), encoder)
    assert basis.snapshot().metric is None  # type: ignore[attr-defined]
    assert (basis(PLACES) - whole(basis, PLACES)).abs().max() <= 1e-12


def test_an_empty_sequential_is_refused():
    """Nothing to split."""
    assert split_encoder(nn.Sequential()) is None
    assert split_encoder(nn.Sequential(nn.Sequential(), nn.Sequential())) is None


def test_bandwidths_by_feature_are_refused():
    """One length per feature does not fit G = W^T W / length^2; values and gradients are right all the same."""
    basis = Kernel(PLANE, ANCHORS, kernels.Gaussian(BUMPY), sequential())
    assert basis.snapshot().metric is None  # type: ignore[attr-defined]
    assert (basis(PLACES) - whole(basis, PLACES)).abs().max() <= 1e-12


def test_dot_products_are_refused():
    """phi(x) . phi(c) does see the bias: no metric, and the product of the whole encoder's features."""
    basis = Kernel(PLANE, ANCHORS, kernels.DotProduct(), sequential())
    assert basis.snapshot().metric is None  # type: ignore[attr-defined]
    assert basis.encoder is not None
    assert (basis(PLACES) - basis.encoder(PLACES) @ basis.encoder(ANCHORS).T).abs().max() <= 1e-12


def test_a_learned_length_is_followed():
    """The metric is made anew for each snapshot: a change of length and weights is seen at once."""
    basis = Kernel(PLANE, ANCHORS, kernels.Gaussian(WIDTH), sequential())
    before = basis(PLACES).detach()
    with torch.no_grad():
        for parameter in basis.parameters():
            parameter.mul_(1.3)
    assert (basis(PLACES) - before).abs().max() > 0.01
    assert (basis(PLACES) - whole(basis, PLACES)).abs().max() <= 1e-12


def test_a_common_shift_costs_no_digits():
    """A last bias of 1e8 moves all features alike: the kernel is that without it, to rounding, not to 1e-8."""
    basis = Kernel(PLANE, ANCHORS, kernels.Gaussian(WIDTH), sequential())
    expected = whole(basis, PLACES).detach()
    assert basis.encoder is not None
    with torch.no_grad():
        basis.encoder[2].bias.fill_(1e8)  # type: ignore[index, union-attr, operator]
    assert (basis(PLACES) - expected).abs().max() <= 1e-13


def test_distances_are_the_squares_themselves():
    """HiddenMetric alone, length 0.5, against |phi(x) - phi(c)|^2 / 0.25; at an anchor 0 to rounding."""
    body, last = split_encoder(sequential()) or (None, None)
    assert body is not None and last is not None
    metric = HiddenMetric.of(body, last, torch.tensor(0.5, dtype=torch.float64), ANCHORS)
    features = [last(body(x)) for x in (PLACES, ANCHORS)]
    expected = (features[0][:, None] - features[1][None]).square().sum(dim=2) / 0.25
    assert (metric.distances(PLACES) - expected).abs().max() <= 1e-13 * expected.max()
    assert metric.distances(ANCHORS).diagonal().abs().max() <= 1e-14 * expected.max()


@pytest.mark.parametrize("latex", [r"\partial_x u", r"\nabla^2 u"])
def test_derivatives_take_the_long_way_to_the_same_field(latex: str):
    """Values by the metric and derivatives by the encoder belong to one field: autograd of the values gives them."""
    conditions = [PLANE.constraint("u", at=ANCHORS, equals=ANCHORS[:, 0].cos(), name="u")]
    field = cnf.ConstrainedField(Kernel(PLANE, ANCHORS, kernels.Gaussian(WIDTH), SHORT["SIREN"]()), conditions)
    solution = field.solve()
    assert isinstance(solution.expansion.evaluator, EncodedKernel) and solution.expansion.evaluator.metric is not None
    x = PLACES.clone().requires_grad_()
    (slope,) = torch.autograd.grad(solution(x).sum(), x, create_graph=True)
    expected = slope[:, :1]
    if latex != r"\partial_x u":
        seconds = [torch.autograd.grad(slope[:, k].sum(), x, retain_graph=True)[0][:, k] for k in (0, 1)]
        expected = (seconds[0] + seconds[1])[:, None]
    found = solution.apply(latex, PLACES)
    assert (found - expected).abs().max() <= 1e-10 * max(1.0, float(expected.detach().abs().max()))


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
def test_a_hook_on_all_modules_is_heard(before: bool):
    """A global hook that changes the layer with 12 outputs: the kernel is that of the encoder as it is called now."""
    basis = Kernel(PLANE, ANCHORS, kernels.Gaussian(WIDTH), SHORT["MLP"]())
    plain = basis(PLACES).detach()

    def concerns(module: nn.Module) -> bool:
        return isinstance(module, nn.Linear) and module.out_features == 12

    if before:
        handle = nn.modules.module.register_module_forward_pre_hook(
            lambda module, given: (2 * given[0],) if concerns(module) else None
        )
    else:
        handle = nn.modules.module.register_module_forward_hook(
            lambda module, given, found: found.sin() if concerns(module) else None
        )
    try:
        found, expected = basis(PLACES).detach(), whole(basis, PLACES).detach()
    finally:
        handle.remove()
    assert (found - expected).abs().max() <= 1e-12
    assert (found - plain).abs().max() > 1e-3
    assert (basis(PLACES) - plain).abs().max() <= 1e-15


OWN_FORWARDS = [name for name in REFUSED if name.startswith("forward of its own")]


@pytest.mark.parametrize("name", [*OWN_FORWARDS[2:], "hook on an encoder's layers"])
def test_derivatives_of_altered_encoders_belong_to_their_values(name: str):
    """d/dx of the kernel by requests, against autograd of the values pair by pair from the encoder as it is called."""
    basis = Kernel(PLANE, ANCHORS, kernels.Gaussian(WIDTH), REFUSED[name]())
    conditions = [PLANE.constraint("u", at=ANCHORS, equals=ANCHORS[:, 0].cos(), name="u")]
    solution = cnf.ConstrainedField(basis, conditions).solve()
    x = PLACES.clone().requires_grad_()
    weights = torch.linalg.solve(whole(basis, ANCHORS), ANCHORS[:, :1].cos())
    (expected,) = torch.autograd.grad((whole(basis, x) @ weights).sum(), x)
    found = solution.apply(r"\partial_x u", PLACES)
    largest = float(expected.abs().max())
    assert largest > 1e-3
    assert (found - expected[:, :1]).abs().max() <= 1e-8 * max(1.0, largest)


def test_without_gradients_the_own_distance_is_taken_in_strips():
    """13 hidden values in four strips of a triangular root, in float64 again: the same distances to rounding.

    Wide strips are as wide as products like it: 100 values in strips of 32. With gradients, and where G has no root
    (here: negative eigenvalues), the product with G.
    """
    x = torch.rand(50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    for hidden, widths in ((100, [32, 32, 32, 4]), (13, [4, 4, 4, 1])):
        body, last = split_encoder(encoders.SIREN(2, 120, [9, hidden], 3.0, seed=1).double()) or (None, None)
        assert body is not None and last is not None
        metric = HiddenMetric.of(body, last, torch.tensor(0.5, dtype=torch.float64), ANCHORS)
        with torch.no_grad():
            again, wanted = metric.in_precision(torch.float64), metric.distances(x)
            assert [strip.shape[1] for strip in again.root] == widths
            assert (again.distances(x) - wanted).abs().max() <= 1e-12 * wanted.max()
    with torch.no_grad():
        spoilt = replace(metric, metric=metric.metric - 10 * torch.eye(13, dtype=torch.float64))
        assert not spoilt.in_precision(torch.float64).root
    assert not metric.in_precision(torch.float64).root
