"""Generated networks in another precision: the same rows, the same gradients, and no wrong numbers in silence."""

from __future__ import annotations

from collections import OrderedDict

import pytest
import torch
from torch import Tensor, nn

import cnf
from cnf import encoders, kernels
from cnf.bases import Hypernet, HypernetKernel
from cnf.bases.activations import activation_of
from cnf.bases.hypernet_slopes import distances_and_slopes
from cnf.bases.layers import Sine
from cnf.errors import TrainingError
from cnf.operators.expansion import Request

PLANE = cnf.Space("x y", "u")
POINTS = cnf.Box((0, 0), (1, 1)).halton(6, seed=2)
PLACES = cnf.Box((0, 0), (1, 1)).halton(5, seed=5)
ONE = torch.ones((), dtype=torch.float64)
FIRST = [Request(0, {index: ONE}) for index in ((0, 0), (1, 0), (0, 1))]


def named() -> nn.Module:
    layers = OrderedDict(into=nn.Linear(2, 9), bend=nn.Tanh(), out=nn.Linear(9, 5))
    return nn.Sequential(layers).double()


ENCODERS = {
    "softplus": lambda: encoders.MLP(2, 5, hidden=(9,), activation="softplus:10.0", seed=0),
    "tanh": lambda: encoders.MLP(2, 5, hidden=(9,), activation="tanh", seed=0),
    "sine": lambda: encoders.SIREN(2, 5, hidden=(9,), omega=4.0, seed=0),
    "named layers": named,
    "silu, not fused": lambda: encoders.MLP(2, 5, hidden=(9,), activation="silu", seed=0),
    "two hidden layers, not fused": lambda: encoders.MLP(2, 5, hidden=(9, 8), seed=0),
    "no bias, not fused": lambda: nn.Sequential(nn.Linear(2, 9, bias=False), nn.Tanh(), nn.Linear(9, 5)).double(),
    "buffers, not fused": lambda: encoders.FourierFeatures(2, 5, frequencies=3, hidden=(6,), seed=0),
}


def build(name: str, bandwidth: object = 0.9) -> HypernetKernel:
    torch.manual_seed(0)
    repeated = POINTS.repeat_interleave(2, dim=0)
    return HypernetKernel(PLANE, repeated, ENCODERS[name](), kernels.Gaussian(bandwidth), seed=1)  # type: ignore[arg-type]


def rows_and_gradients(basis: HypernetKernel, precision: torch.dtype | None, requests: list[Request]) -> list[Tensor]:
    evaluator = basis.snapshot()
    found = (evaluator if precision is None else evaluator.in_precision(precision)).rows(PLACES, requests)
    factors = torch.randn(found.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    learned = [p for p in basis.parameters() if p.requires_grad]
    return [found.detach(), *torch.autograd.grad((found * factors).sum(), learned)]


@pytest.mark.parametrize("bandwidth", [0.9, [0.5, 2.0, 0.7, 0.9, 1.2]], ids=["one width", "a width per feature"])
@pytest.mark.parametrize("name", ENCODERS)
def test_rows_and_gradients_equal_those_of_plain_autograd(name: str, bandwidth: object):
    """Value and slopes of all functions: 1e-12 in float64, single precision in float32, gradients included."""
    basis = build(name, bandwidth)
    plain = rows_and_gradients(basis, None, FIRST)
    for precision, bound in ((torch.float64, 1e-12), (torch.float32, 2e-5)):
        for a, b in zip(plain, rows_and_gradients(basis, precision, FIRST), strict=True):
            assert b.dtype == torch.float64
            assert (a - b).abs().max() <= bound * max(1.0, float(a.abs().max()))


def test_single_precision_is_used():
    """Rows in float32 differ from those in float64, by rounding."""
    basis = build("softplus")
    exact, rounded = (rows_and_gradients(basis, p, FIRST)[0] for p in (None, torch.float32))
    assert 1e-10 < float((exact - rounded).abs().max()) < 1e-4


def test_values_alone_and_second_derivatives():
    """Requests that have no fused way take the plain one in the precision asked for."""
    basis = build("softplus")
    for requests in (FIRST[:1], [Request(0, {(2, 0): ONE}), Request(0, {(1, 1): ONE})]):
        plain = rows_and_gradients(basis, None, requests)
        for precision, bound in ((torch.float64, 1e-12), (torch.float32, 1e-3)):
            for a, b in zip(plain, rows_and_gradients(basis, precision, requests), strict=True):
                assert (a - b).abs().max() <= bound * max(1.0, float(a.abs().max()))


def test_hypernet_in_single_precision():
    """The functions of a Hypernet as well, rows in the precision of the points."""
    basis = Hypernet(PLANE, encoders.MLP(2, 1, hidden=(9, 7), seed=0), 11)
    plain, rounded = basis.snapshot(), basis.snapshot().in_precision(torch.float32)
    a, b = (e.rows(PLACES, FIRST).detach() for e in (plain, rounded))
    assert b.dtype == torch.float64
    assert 0 < float((a - b).abs().max()) <= 1e-5


@pytest.mark.parametrize("memory", [1, 400])
def test_pieces_equal_the_whole(memory: int):
    """Groups of functions and of points: the same rows and gradients."""

    def run(bound: int) -> list[Tensor]:
        torch.manual_seed(0)
        basis = HypernetKernel(PLANE, POINTS, ENCODERS["softplus"](), kernels.Gaussian(0.9), memory=bound)
        return rows_and_gradients(basis, torch.float64, FIRST)

    for whole, pieces in zip(run(2**28), run(memory), strict=True):
        assert (whole - pieces).abs().max() <= 1e-12 * max(1.0, float(whole.abs().max()))


# -- the function with its own gradient ------------------------------------------------------------------------------


def arguments() -> list[Tensor]:
    draw = torch.Generator().manual_seed(0)
    shapes = [(4, 2), (3, 6, 2), (3, 6), (3, 6), (3, 5, 6), (5,)]  # x, weight, bias, centre, last, inverse
    return [torch.randn(s, dtype=torch.float64, generator=draw) for s in shapes]


@pytest.mark.parametrize("layer", [nn.Softplus(10.0), nn.Softplus(1.0), nn.Tanh(), Sine(2.0)], ids=repr)
def test_gradients_by_finite_differences(layer: nn.Module):
    """torch's own check of a gradient, in every argument but the points."""
    activation = activation_of(layer)
    assert activation is not None
    x, *rest = arguments()
    learned = [t.requires_grad_() for t in rest]
    assert torch.autograd.gradcheck(lambda *t: distances_and_slopes(x, *t, activation), learned)


@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_softplus_beyond_its_threshold(scale: float):
    """torch's softplus is the identity where beta z > 20; its slope must be one there, not almost one."""
    z = scale * torch.linspace(-3, 3, 101, dtype=torch.float64)
    activation = activation_of(nn.Softplus(10.0))
    assert activation is not None
    value, slope = z.clone(), torch.empty_like(z)
    activation.pair(value, slope)
    wanted = torch.func.vmap(torch.func.grad(lambda t: nn.functional.softplus(t, 10.0)))(z)
    assert torch.equal(value, nn.functional.softplus(z, 10.0))
    assert (slope - wanted).abs().max() <= 1e-15


@pytest.mark.parametrize("layer", [nn.Softplus(10.0), nn.Tanh(), Sine(2.0)], ids=repr)
def test_gradients_of_gradients_and_in_the_points(layer: nn.Module):
    """torch's own checks by finite differences, of what goes by plain operations: in all arguments, twice."""
    activation = activation_of(layer)
    assert activation is not None
    every = [t.requires_grad_() for t in arguments()]
    assert torch.autograd.gradcheck(lambda *t: distances_and_slopes(*t, activation), every)
    assert torch.autograd.gradgradcheck(lambda *t: distances_and_slopes(*t, activation), every)


def test_forward_mode_and_transforms():
    """The slope of a row along a direction by jvp, through rows that are fused elsewhere: that of central differences.

    Forward mode through a function with a gradient of its own is an error or a zero; rows must not take it then.
    """
    evaluator, along, step = build("softplus").snapshot(), torch.ones_like(PLACES), 1e-6
    _, found = torch.func.jvp(lambda x: evaluator.rows(x, FIRST), (PLACES,), (along,))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(PLACES, along)
        other = torch.autograd.forward_ad.unpack_dual(evaluator.rows(dual, FIRST)).tangent
    after, before = (evaluator.rows(PLACES + sign * step * along, FIRST) for sign in (1, -1))
    wanted = (after - before) / (2 * step)
    assert (found - wanted).abs().max() <= 1e-7 * wanted.abs().max()
    assert (other - wanted).abs().max() <= 1e-7 * wanted.abs().max()


# -- the loss --------------------------------------------------------------------------------------------------------


def field() -> cnf.ConstrainedField:
    at = cnf.Box((-1, -1), (1, 1)).halton(7, seed=3)
    normal = at / at.square().sum(dim=1, keepdim=True).sqrt()
    conditions = [
        PLANE.constraint("u = 0", at=at, name="value"),
        PLANE.constraint(r"\nabla u", at=at, equals=normal, name="normal"),
    ]
    encoder = encoders.MLP(2, 24, hidden=(40,), activation="softplus:10.0", seed=0)
    return cnf.ConstrainedField(HypernetKernel(PLANE, conditions, encoder), conditions)


@pytest.mark.parametrize(("precision", "bound"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
def test_the_eikonal_loss_in_another_precision(precision: torch.dtype, bound: float):
    """Loss and gradient against those of plain float64; the conditions hold as before, and the gradient is float64."""
    model, points = field(), cnf.Box((-2, -2), (2, 2)).halton(60, seed=1)
    learned = [p for p in model.parameters() if p.requires_grad]
    plain, other = (cnf.losses.Eikonal(points, precision=p)(model.solve()) for p in (None, precision))
    assert (other - plain).detach().abs() <= bound * plain.detach()
    pairs = zip(torch.autograd.grad(plain, learned), torch.autograd.grad(other, learned), strict=True)
    for a, b in pairs:
        assert b.dtype == torch.float64
        assert (a - b).abs().max() <= bound * float(a.abs().max())


def test_training_in_single_precision_keeps_the_conditions():
    """Twenty steps with the loss in float32: the loss goes down, every condition stays below 1e-12."""
    model = field()
    loss = cnf.losses.Eikonal(cnf.Box((-2, -2), (2, 2)), 60, precision=torch.float32)
    history = cnf.fit(model, loss, steps=20, lr=3e-4, clip=0.1, progress=False, keep="last")
    assert max(history.residual) <= 1e-12
    assert min(history.loss[-3:]) < history.loss[0]


def test_refusals():
    """A precision that is none, and a basis without a choice."""
    with pytest.raises(TrainingError, match="precision is"):
        cnf.losses.Eikonal(POINTS, precision=torch.int32)
    at = cnf.Box((0, 0), (1, 1)).halton(4)
    value = PLANE.constraint("u = 1", at=at)
    plain = cnf.ConstrainedField(cnf.bases.Kernel(PLANE, at, kernels.Gaussian(0.5)), value)
    with pytest.raises(TrainingError, match="leave precision out"):
        cnf.losses.Eikonal(at, precision=torch.float32)(plain.solve())
