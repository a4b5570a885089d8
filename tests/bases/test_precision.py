"""Encoders evaluated in another precision: values, gradients and derivatives to its digits, conditions untouched."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import cnf
from cnf import encoders, kernels
from cnf.bases import ConstraintLayer, Hypernet, Kernel
from cnf.bases.precision import Recast, recast
from cnf.errors import ConstraintError, ViolationWarning

PLANE = cnf.Space("x y", "u")
ANCHORS = cnf.Box((0, 0), (1, 1)).halton(8, seed=2)
PLACES = cnf.Box((0, 0), (1, 1)).halton(30, seed=5)
TARGET = (3 * ANCHORS[:, 0]).sin() + ANCHORS[:, 1]
BY_FEATURE = [0.5, 2.0, 0.7, 0.9, 1.2, 0.6, 1.1, 0.8, 1.0, 1.4]


def wide() -> nn.Module:
    return encoders.SIREN(2, 10, [9, 9], 4.0, 0, first_omega=9.0)


BASES: dict[str, Callable[[], cnf.bases.Basis]] = {
    "Gaussian, short way": lambda: Kernel(PLANE, ANCHORS, kernels.Gaussian(0.7), wide()),
    "Gaussian, narrow encoder": lambda: Kernel(
        PLANE, ANCHORS, kernels.Gaussian(0.25), encoders.SIREN(2, 5, [9], 12.0, 0)
    ),
    "Gaussian, a width per feature": lambda: Kernel(PLANE, ANCHORS, kernels.Gaussian(BY_FEATURE), wide()),
    "Matern": lambda: Kernel(PLANE, ANCHORS, kernels.Matern(4.5, 1.0), wide()),
    "dot product": lambda: Kernel(PLANE, ANCHORS, kernels.DotProduct(), encoders.SIREN(2, 16, [16], 16.0, 0)),
    "Fourier": lambda: Kernel(
        PLANE, ANCHORS, kernels.Gaussian(0.3), encoders.FourierFeatures(2, 10, 3, 0.3, [8], seed=0)
    ),
    "constraint layer": lambda: ConstraintLayer(PLANE, encoders.SIREN(2, 8, [9, 9], 4.0, 0)),
    "hypernet": lambda: Hypernet(PLANE, encoders.SIREN(2, 1, [9], 6.0, 0), 8, codes=8, seed=0),
}
every_basis = pytest.mark.parametrize("name", BASES)


def build(name: str) -> cnf.ConstrainedField:
    conditions = [PLANE.constraint("u", at=ANCHORS, equals=TARGET, name="u")]
    return cnf.ConstrainedField(BASES[name](), conditions, tolerance=1e-10)


def difference(found: Tensor, expected: Tensor) -> float:
    """Largest difference over the largest value."""
    return float((found - expected).abs().max() / expected.abs().max())


def loss_gradients(field: cnf.ConstrainedField, precision: torch.dtype | None) -> list[Tensor | None]:
    solution = field.solve()
    predict = solution if precision is None else solution.in_precision(precision)
    learned = [p for p in field.parameters() if p.requires_grad]
    loss = (predict(PLACES) - PLACES[:, :1]).square().mean()
    return list(torch.autograd.grad(loss, learned, allow_unused=True))


@every_basis
def test_values_in_single_precision(name: str):
    """The field at 30 points: 1e-5 of the one in float64, returned in float64, and not the same numbers."""
    solution = build(name).solve()
    found, expected = solution.in_precision(torch.float32)(PLACES), solution(PLACES)
    assert found.dtype == torch.float64
    assert 0 < difference(found, expected) <= 1e-5


@every_basis
def test_in_its_own_precision_nothing_changes(name: str):
    """float64 asked of a field in float64: to rounding."""
    solution = build(name).solve()
    assert difference(solution.in_precision(torch.float64)(PLACES), solution(PLACES)) <= 1e-13


@every_basis
def test_gradients_reach_the_parameters(name: str):
    """Of a loss, through values and weights: in float64 and right to 1e-3 of the largest, for every parameter."""
    field = build(name)
    plain, single = loss_gradients(field, None), loss_gradients(field, torch.float32)
    largest = max(float(g.abs().max()) for g in plain if g is not None)
    assert largest > 1e-6
    for a, b in zip(plain, single, strict=True):
        if a is None:  # what a loss in float64 does not see
            assert b is None or float(b.abs().max()) <= 1e-6 * largest
            continue
        assert b is not None and b.dtype == torch.float64
        assert (a - b).abs().max() <= 1e-3 * largest


OPERATORS = {
    "slope": (r"\partial_x u", {}),
    "gradient": (r"\nabla u", {}),
    "Laplacian": (r"\nabla^2 u", {}),
    "coefficient": (r"c \partial_x u + u", {"c": PLACES[:, 1].exp()}),
    "coefficient of the value": (r"c u", {"c": PLACES[:, 1].exp()}),
    "coefficient of second order": (r"c \partial_x^2 u + \partial_y u", {"c": PLACES[:, 1].exp()}),
}


@pytest.mark.parametrize("operator", OPERATORS)
@every_basis
def test_derivatives(name: str, operator: str):
    """Operators on the field, with coefficients that vary and without: 1e-4 of those in float64."""
    solution = build(name).solve()
    latex, coefficients = OPERATORS[operator]
    found = solution.in_precision(torch.float32).apply(latex, PLACES, **coefficients)
    assert found.dtype == torch.float64
    assert difference(found, solution.apply(latex, PLACES, **coefficients)) <= 1e-4


@every_basis
def test_conditions_stay_exact(name: str):
    """Ten steps on a loss in float32: certificate and field still meet the data to 1e-10 in float64."""
    field = build(name)
    optimizer = torch.optim.Adam([p for p in field.parameters() if p.requires_grad], lr=1e-3)
    losses = []
    for _ in range(10):
        solution = field.solve()
        loss = (solution.in_precision(torch.float32)(PLACES)[:, 0] - PLACES[:, 0]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
        assert solution.certificate.worst <= 1e-10
    assert losses[-1] < losses[0]  # the parameters moved
    solution = field.solve()
    rounded = solution.in_precision(torch.float32)
    with pytest.warns(ViolationWarning):  # what is evaluated in float32 has a certificate of its own
        assert not rounded.certificate.exact and solution.certificate.exact
    assert rounded.weights is solution.weights
    assert (solution(ANCHORS)[:, 0] - TARGET).abs().max() <= 1e-10
    assert (rounded(ANCHORS)[:, 0] - TARGET).abs().max() <= 1e-4


@every_basis
def test_single_precision_throughout(name: str):
    """Points, base, weights and values in float32: near the field in float64, with a certificate of its own."""
    base = encoders.SIREN(2, 1, [9], 4.0, 1).double()
    conditions = [PLANE.constraint("u", at=ANCHORS, equals=TARGET, name="u")]
    solution = cnf.ConstrainedField(BASES[name](), conditions, base=base, tolerance=1e-10).solve()
    assert solution.in_precision(torch.float32).base.precision == torch.float64  # type: ignore[union-attr]
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            coarse = solution.in_precision(torch.float32, throughout=True)
            found = coarse(PLACES)
        assert found.dtype == coarse.weights.dtype == coarse.base.precision == torch.float32  # type: ignore[union-attr]
        assert difference(found.double(), solution(PLACES)) <= 1e-5
        single, double = coarse.base(PLACES.float()), solution.base(PLACES.float().double())  # type: ignore[misc]
        assert 0 < difference(single, double.float()) <= 1e-5  # in single precision inside as well
        off = float((coarse(ANCHORS)[:, 0] - TARGET).abs().max())
        with pytest.warns(ViolationWarning):
            certificate = coarse.certificate
        assert off > 1e-9 and not certificate.exact
        assert off - 1e-7 <= certificate.residuals["u"].absolute <= 1e-4  # the targets are rounded as well
    assert solution.certificate.exact and solution(PLACES).dtype == torch.float64


def test_a_basis_without_a_choice_says_so():
    """A kernel of the coordinates has no network: one line that names the bases that do."""
    conditions = [PLANE.constraint("u", at=ANCHORS, equals=TARGET, name="u")]
    field = cnf.ConstrainedField(Kernel(PLANE, ANCHORS, kernels.Gaussian(0.3)), conditions)
    with pytest.raises(ConstraintError, match="Kernel with an encoder"):
        field.solve().in_precision(torch.float32)


class Counting(nn.Module):
    """Buffers that are not floating point, and one that is."""

    def __init__(self):
        super().__init__()
        self.register_buffer("order", torch.tensor([1, 0]))
        self.register_buffer("scale", torch.tensor([2.0, 3.0], dtype=torch.float64))
        self.shared = nn.Linear(2, 2).double()
        self.again = self.shared

    def forward(self, x: Tensor) -> Tensor:
        return self.again(self.shared(x[:, self.order] * self.scale))  # type: ignore[index]


def test_a_recast_network():
    """Whole-number buffers stay, shared layers stay shared, parameters keep their precision, gradients come back."""
    network = Counting()
    recast = Recast(network, torch.float32)
    found = recast(PLACES)
    assert found.dtype == torch.float32 and network.shared.weight.dtype == torch.float64
    assert difference(found.double(), network(PLACES)) <= 1e-6
    gradients = [
        torch.autograd.grad(n(PLACES).double().square().sum(), network.shared.weight) for n in (recast, network)
    ]
    assert gradients[0][0].dtype == torch.float64
    assert difference(gradients[0][0], gradients[1][0]) <= 1e-5


class Meeting(nn.Module):
    """The first thread goes on when a second one is inside, the second when the first is through."""

    met, through = threading.Barrier(2, timeout=30), threading.Event()

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2).double()

    def forward(self, x: Tensor) -> Tensor:
        if self.met.wait() == 1:  # the second to come
            assert self.through.wait(timeout=30)
        return self.inner(x)


def test_without_gradients_two_threads_may_share_it():
    """The network is a copy in the other precision: two threads at once find what one finds, and nothing changes.

    Put into the network while it runs, the tensors of the second thread would be gone when the first one is through.
    """
    network = Meeting()
    with torch.no_grad():
        shared = recast(network, torch.float32)
        expected = network.inner(PLACES)
    found: list[Tensor] = []

    def evaluate() -> None:
        found.append(shared(PLACES.float()))
        Meeting.through.set()

    threads = [threading.Thread(target=evaluate) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2 and all(difference(values.double(), expected) <= 1e-6 for values in found)
    assert network.inner.weight.dtype == torch.float64
    assert isinstance(recast(network, torch.float32), Recast)  # with gradients, which a copy would not bring back
