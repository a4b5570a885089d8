"""Trust: what a certificate may say. Every test here once passed for exact, or came back changed, without a word."""

from __future__ import annotations

import copy
import dataclasses
import functools
import gc
import json
import math
import pickle
import warnings
import weakref
from collections import deque, namedtuple
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

import cnf
from cnf.errors import CnfError, CnfWarning, SmoothnessWarning
from cnf.solvers import LU, Auto, Cholesky, MinimumNorm

DOUBLE = torch.float64
LINE = cnf.Space("x", "u")
PLANE = cnf.Space("x y", "u")
BOX = cnf.Box((0, 0), (1, 1))


def at(*values: float, dtype: torch.dtype = DOUBLE) -> Tensor:
    return torch.tensor(values, dtype=dtype)[:, None]


POINTS = at(0.1, 0.3, 0.5, 0.7, 0.9)
SIDES = torch.sin(5 * POINTS[:, 0])
QUERY = torch.linspace(0, 1, 23, dtype=DOUBLE)[:, None]


def mlp(dtype: torch.dtype = DOUBLE, inputs: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 16, dtype=dtype), nn.Tanh(), nn.Linear(16, 1, dtype=dtype))


def kernel() -> cnf.bases.Kernel:
    return cnf.bases.Kernel(LINE, POINTS, cnf.kernels.Gaussian(0.2))


def field_on(base: nn.Module | None = None, operator: str = "u", **given) -> cnf.ConstrainedField:
    conditions = LINE.constraint(operator, at=POINTS, equals=SIDES, name="data", **given)
    return cnf.ConstrainedField(kernel(), conditions, base=base)


def quietly(function: Callable, *arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments)


def misses(solution: cnf.Solution, points: Tensor, sides: Tensor, operator: str = "u") -> float:
    """The worst |L f - g| of the points asked one by one, relative to the sides."""
    with torch.no_grad():
        found = [float(solution.apply(operator, p[None])[0, 0]) for p in points]
    return float((torch.tensor(found, dtype=DOUBLE) - sides).abs().max() / sides.abs().max())


# -- a, b: bases that hide a residual --------------------------------------------------------------------------------


class Huge(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return 1e8 * torch.sin(3 * x)


def test_rounding_of_huge_weights_is_counted():
    """u(1) - u(0) = 1 under waves a billion long: weights of 1e9 whose sums cancel. Whatever luck the solve had, the
    field that is evaluated misses by about 1e9 roundings, and its certificate does not say less."""
    space = cnf.Space("x", "u")
    jump = space.constraint("u(1) - u(0) = 1", name="jump")
    ends = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    with pytest.warns(cnf.errors.ViolationWarning, match="jump"):
        solution = cnf.ConstrainedField(cnf.bases.RandomFourier(space, 32, 1e9), jump).solve()
    missed = abs(float((solution(ends)[1] - solution(ends)[0] - 1).detach()))
    assert not solution.certificate.exact
    assert solution.certificate.residuals["jump"].absolute >= missed / 10
    assert solution.certificate.residuals["jump"].absolute >= 1e9 * 2.0**-52 / 100


def test_values_of_one_channel_do_not_hide_another():
    """u = 0 and u = 1 at one point, beside p = 2e9: the best u is 1/2, off by 1/2, however large p is."""
    space = cnf.Space("x", "u p")
    half, others = (torch.tensor(x, dtype=torch.float64)[:, None] for x in ([0.5], [0.2, 0.4, 0.6]))
    pair = [space.constraint(f"u = {k}", at=half, name=f"u{k}") for k in (0, 1)]
    pressure = space.constraint("p", at=others, equals=2e9, name="p")
    with pytest.warns(cnf.errors.ViolationWarning, match="u"):
        certificate = (
            cnf.ConstrainedField(cnf.bases.RandomFourier(space, 20, 0.3), [*pair, pressure]).solve().certificate
        )
    assert set(certificate.violated) == {"u0", "u1"}
    assert certificate.residuals["u1"].relative == pytest.approx(0.5, rel=1e-6)


@pytest.mark.parametrize("gap", [1e-9, 1e-10])
def test_contradictions_are_not_excused_by_sizes(gap):
    """u_x = 1 and u_x = 2 at one point, beside values of 1 within 1e-9 of it: slopes of 1 are nothing beside 1 / 1e-9,
    but no field has both."""
    values = LINE.constraint("u = 1", at=at(0.3, 0.3 + gap / 2, 0.3 + gap), name="values")
    slopes = [LINE.constraint(rf"\partial_x u = {k}", at=at(0.3), name=f"slope{k}") for k in (1, 2)]
    with pytest.warns(cnf.errors.ViolationWarning, match="slope"):
        certificate = cnf.ConstrainedField(kernel(), [values, *slopes]).solve().certificate
    assert set(certificate.violated) == {"slope1", "slope2"}
    assert certificate.residuals["slope1"].relative == pytest.approx(0.5, rel=1e-3)
    assert certificate.conflicts


@pytest.mark.parametrize("factor", ["1000000", "237196.1"])
def test_coefficients_mean_what_is_written(factor):
    """a (x - 10^6) u = 1 one millionth beside x = 10^6: u = 1 / (a (x - 10^6)), the difference being exact in float64.
    Multiplied out, a x - 10^6 a loses ten digits of it; and so it does in the argument of a function."""
    points = at(1e6 + 1e-6)
    known = float(factor) * (points - 1e6)
    for operator, coefficient in (("{}", known), (r"\cos{}", torch.cos(known))):
        asked = LINE.constraint(operator.format(f"({factor} (x - 1000000))") + " u = 1", at=points, name="c")
        solution = cnf.ConstrainedField(cnf.bases.Kernel(LINE, points, cnf.kernels.Gaussian(1.0)), asked).solve()
        assert solution.certificate.exact
        assert float((coefficient * solution(points) - 1).abs().max().detach()) <= 1e-14
        (again,) = pickle.loads(pickle.dumps(asked.operator)).rows[0]
        assert again == asked.operator.rows[0][0]


@pytest.mark.parametrize("rough", [cnf.kernels.Matern(0.5, 0.1), cnf.kernels.Wendland(0, 3.0)])
def test_rough_kernels_behind_an_encoder(rough):
    """Values at 30 anchors of kernels that go like 1 - r: an r of 1e-8 where it is zero would show in the eighth digit
    of every point asked alone."""
    points = torch.rand(30, 2, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))
    sides = torch.sin(5 * points[:, 0])
    basis = cnf.bases.Kernel(PLANE, points, rough, cnf.encoders.SIREN(2, 32, (24,), omega=5, seed=2))
    solution = cnf.ConstrainedField(basis, PLANE.constraint("u", at=points, equals=sides, name="data")).solve()
    assert solution.certificate.exact
    assert misses(solution, points, sides) <= 1e-13


@pytest.mark.parametrize("encoded", [False, True])
@pytest.mark.parametrize("rough", [cnf.kernels.Matern(1.5, 0.5), cnf.kernels.Wendland(1, 1.7)])
def test_second_derivatives_in_float32_near_a_centre(rough, encoded):
    """u_xx of kernels that go like |x|^3 at their centre, 3e-4 beside it and at it: float32 gives what float64 does."""
    anchors, points = at(0.5203, 0.2), at(0.5203, 0.5206, 0.2, 0.20003)
    encoder = cnf.encoders.MLP(1, 8, (8,), seed=0) if encoded else None
    basis = cnf.bases.Kernel(LINE, anchors.float(), rough, encoder)
    one = LINE.operator(r"\partial_x^2 u")
    found = []
    for kind in (torch.float32, DOUBLE):
        basis = copy.deepcopy(basis).to(kind)
        (probe,) = cnf.operators.expansion.expand(one, points.float().to(kind))
        found.append(basis.rows(probe.points, probe.requests).detach().double())
    assert float((found[0] - found[1]).abs().max()) <= 2e-5 * float(found[1].abs().max())


def test_values_keep_the_digits_they_were_given_with():
    """u = 0.1 in float64 at points in float32, in a field that another constraint makes float64: 0.1 to 1e-15."""
    space = cnf.Space("x", "u")
    coarse = torch.tensor([[0.2], [0.5]])
    given = torch.tensor([0.1, 0.2], dtype=torch.float64)
    fine = space.constraint("u = 1", at=torch.tensor([[0.8]], dtype=torch.float64), name="fine")
    constraints = [space.constraint("u", at=coarse, equals=given, name="coarse"), fine]
    solution = cnf.ConstrainedField(cnf.bases.RandomFourier(space, 30, 0.3), constraints).solve()
    assert float((solution(coarse.double())[:, 0] - given).abs().max().detach()) <= 1e-13


def test_a_base_does_not_hide_the_residual():
    """1e8 sin(3x) in float32 leaves no digit of u = 1: the field gives 2, 8, -4 at its own points."""
    points = at(0.1, 0.5, 0.9, dtype=torch.float32)
    basis = cnf.bases.RandomFourier(LINE, 16, 0.3)
    field = cnf.ConstrainedField(basis, LINE.constraint("u", at=points, equals=1.0), base=Huge())
    solution = quietly(field.solve)
    assert float((solution(points) - 1).abs().max()) >= 1
    assert not solution.certificate.exact
    assert solution.certificate.worst >= 1


class Inside(nn.Module):
    """A network that computes in another precision than it is asked in."""

    def __init__(self, precision: torch.dtype = torch.float32, back: bool = False):
        super().__init__()
        self.network, self.precision, self.back = mlp(precision), precision, back

    def forward(self, x: Tensor) -> Tensor:
        values = self.network(x.to(self.precision))
        return values.to(x.dtype) if self.back else values


class Tables(nn.Module):
    """No parameters: its numbers are in a list."""

    def __init__(self):
        super().__init__()
        self.tables = [torch.randn(32, 1), torch.randn(32)]

    def forward(self, x: Tensor) -> Tensor:
        return (torch.tanh(x.float() @ self.tables[0].T) @ self.tables[1]).to(x.dtype)


class Region(nn.Module):
    """Opens an autocast region of its own."""

    def __init__(self):
        super().__init__()
        self.network = mlp(torch.float32)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.network(x)


def hooked(network: nn.Module, before: bool) -> nn.Module:
    if before:
        network.register_forward_pre_hook(lambda module, given: (given[0].float(),))
    else:
        network.register_forward_hook(lambda module, given, found: found.float())
    return network


COARSE = {
    "float32": lambda: mlp(torch.float32),
    "bfloat16": lambda: mlp(torch.bfloat16),
    "half": lambda: mlp(torch.float16),
    "converts": Inside,
    "converts back": lambda: Inside(back=True),
    "converts to bfloat16": lambda: Inside(torch.bfloat16, back=True),
    "tables": Tables,
    "hook before": lambda: hooked(mlp(torch.float32), True),
    "hook after": lambda: hooked(mlp(torch.float32), False),
    "script": lambda: torch.jit.script(mlp(torch.float32)),
    "trace": lambda: torch.jit.trace(mlp(torch.float32), torch.zeros(3, 1)),
}
CASES = [(name, operator) for name in COARSE for operator in ("u", r"\partial_x u")]


@pytest.mark.parametrize(("name", "operator"), [c for c in CASES if not (c[0] in ("script", "trace") and c[1] != "u")])
def test_a_coarse_base_is_evaluated_finely_or_counted(name, operator):
    """u or u' = sin(5x) at 12 points on a base in float32 or less: asked one by one, they are as good as certified."""
    points = at(*[k / 12 + 0.01 for k in range(12)])
    sides = torch.sin(5 * points[:, 0])
    basis = cnf.bases.RandomFourier(LINE, 24, 0.3)
    field = cnf.ConstrainedField(basis, LINE.constraint(operator, at=points, equals=sides), base=COARSE[name]())
    certificate = quietly(field.solve).certificate
    assert misses(quietly(field.solve), points, sides, operator) <= max(4 * certificate.worst, 1e-13)
    assert certificate.exact == (name in ("float32", "bfloat16", "half"))
    if not certificate.exact:
        assert "the base computes in torch." in certificate.advice()


def test_autocast_inside_a_base_is_counted():
    """A float32 field whose base opens a bfloat16 region: eight bits, so the tolerance 1e-4 is not met."""
    points = POINTS.float()
    field = cnf.ConstrainedField(kernel(), LINE.constraint("u", at=points, equals=1.0), base=Region())
    certificate = quietly(field.solve).certificate
    assert not certificate.exact
    assert "bfloat16" in certificate.advice()


@pytest.mark.parametrize("name", ["script", "trace"])
def test_derivatives_of_scripts_are_refused(name):
    """From its second run on, a script has derivative zero in forward mode: u' = sin(5x) was off by 0.48, certified."""
    basis = cnf.bases.RandomFourier(LINE, 16, 0.3)
    field = cnf.ConstrainedField(basis, LINE.constraint(r"\partial_x u", at=POINTS, equals=SIDES), base=COARSE[name]())
    for _ in range(2):
        with pytest.raises(CnfError, match=r"before torch\.jit"):
            field.solve()


class Centred(nn.Module):
    """Mixes the points that are asked together."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(3 * (x - x.mean(dim=0)))


def test_points_that_depend_on_each_other_are_not_exact():
    """A base that subtracts the mean of its batch: u = sin(5x) holds for the five points together, not for each."""
    solution = quietly(field_on(Centred()).solve)
    assert misses(solution, POINTS, SIDES) > 0.1
    assert not solution.certificate.exact


# -- c: a solution is a value ----------------------------------------------------------------------------------------


class Slots(nn.Module):
    __slots__ = ("scale",)

    def __init__(self):
        super().__init__()
        self.network, self.scale = mlp(), torch.tensor(2.0, dtype=DOUBLE)

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x) * self.scale


class Attributes(nn.Module):
    """Custom __setattr__ and __getattr__, and a constructor with arguments."""

    def __init__(self, gain: float):
        super().__init__()
        self.network, self.gain = mlp(), gain

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, torch.tensor(value, dtype=DOUBLE) if name == "gain" else value)

    def __getattr__(self, name: str):
        return self._modules["network"] if name == "alias" else super().__getattr__(name)

    def forward(self, x: Tensor) -> Tensor:
        return self.alias(x) * self.gain


class Enclosed(nn.Module):
    """The module reaches itself through functions it keeps."""

    def __init__(self, kind: str):
        super().__init__()
        network = self.network = mlp()
        self.call = {
            "closure": lambda x: network(x),
            "itself": lambda x: self.network(x),
            "default": lambda x, network=network: network(x),
            "partial": functools.partial(lambda n, x: n(x), network),
            "method": network.forward,
        }[kind]

    def forward(self, x: Tensor) -> Tensor:
        return self.call(x)


@dataclasses.dataclass
class Kept:
    weight: Tensor


Pair = namedtuple("Pair", "weight other")


class Keeping(nn.Module):
    """A number in an object, container or array that torch does not know."""

    def __init__(self, kind: str):
        super().__init__()
        self.network, self.kind = mlp(), kind
        number = torch.tensor([1.5], dtype=DOUBLE)
        self.kept = {
            "dataclass": Kept(number),
            "list": [{"weight": [number]}],
            "named tuple": Pair(number, 1),
            "deque": deque([number]),
            "array": {"weight": np.array([1.5])},
            "reference": (weakref.ref(self.network), number),
        }[kind]

    @property
    def number(self):
        kept = self.kept
        return {
            "dataclass": lambda: kept.weight,
            "list": lambda: kept[0]["weight"][0],
            "named tuple": lambda: kept.weight,
            "deque": lambda: kept[0],
            "array": lambda: kept["weight"],
            "reference": lambda: kept[1],
        }[self.kind]()

    def forward(self, x: Tensor) -> Tensor:
        network = self.kept[0]() if self.kind == "reference" else self.network
        return network(x) * torch.as_tensor(self.number)


class Lists(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(1, 8, dtype=DOUBLE), nn.Linear(8, 1, dtype=DOUBLE)])
        self.factors = nn.ParameterList([torch.ones(1, dtype=DOUBLE)])
        self.named = nn.ParameterDict({"shift": torch.ones(1, dtype=DOUBLE)})
        self.register_buffer("buffer", torch.ones(1, dtype=DOUBLE), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers[1](torch.tanh(self.layers[0](x))) * self.factors[0] * self.buffer + self.named["shift"]


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = mlp(), mlp()
        self.second[0].weight = self.first[0].weight
        self.both = nn.Sequential(self.first, self.second)

    def forward(self, x: Tensor) -> Tensor:
        return self.both(x) + self.second(x)


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase]):
        super().__init__()
        self.cell, self.out = kind(1, 4, batch_first=True, dtype=DOUBLE), nn.Linear(4, 1, dtype=DOUBLE)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.cell(x[:, None])[0][:, 0])


OUTSIDE = mlp()
FACTOR = torch.tensor(2.0, dtype=DOUBLE)


class Outside(nn.Module):
    """What it computes is not its own: a global network and number, an attribute of its class."""

    shift = torch.zeros(1, dtype=DOUBLE)

    def __init__(self):
        super().__init__()
        self.network = mlp()

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x) + OUTSIDE(x) * FACTOR + Outside.shift


def with_hook(kind: str) -> nn.Module:
    network = mlp()
    network.register_parameter("gain", nn.Parameter(torch.ones(1, dtype=DOUBLE)))
    gain, table = network.gain, {"gain": network.gain}
    hooks = {
        "closure": lambda module, given, found: found * gain,
        "itself": lambda module, given, found: found * network[0].weight.sum(),
        "shared": lambda module, given, found: found * table["gain"],
    }
    network.register_forward_hook(hooks[kind])
    return network


def within(layer: nn.Module) -> nn.Module:
    return nn.Sequential(layer, nn.Tanh(), nn.Linear(16, 1, dtype=DOUBLE)).eval()


def linear() -> nn.Linear:
    return nn.Linear(1, 16, dtype=DOUBLE)


def inner_field() -> cnf.ConstrainedField:
    basis = cnf.bases.Kernel(LINE, at(0.2, 0.8), cnf.kernels.Gaussian(0.3))
    return cnf.ConstrainedField(basis, LINE.constraint("u", at=at(0.2, 0.8), equals=1.0), base=mlp())


def nested_field() -> cnf.ConstrainedField:
    basis = cnf.bases.Kernel(LINE, at(0.4, 0.6), cnf.kernels.Gaussian(0.3))
    return cnf.ConstrainedField(basis, LINE.constraint("u", at=at(0.4, 0.6), equals=1.0), base=inner_field())


def compiled(in_place: bool) -> nn.Module:
    network = mlp()
    if not in_place:
        return torch.compile(network, backend="eager")  # type: ignore[return-value]
    network.compile(backend="eager")
    return network


MODULES: dict[str, Callable[[], nn.Module]] = {
    "plain": mlp,
    "slots": Slots,
    "attributes": lambda: Attributes(2.0),
    **{f"enclosed: {k}": functools.partial(Enclosed, k) for k in ("closure", "itself", "default", "partial", "method")},
    **{f"kept: {k}": functools.partial(Keeping, k) for k in ("dataclass", "list", "named tuple", "deque", "array")},
    "kept: reference": lambda: Keeping("reference"),
    **{f"hook: {k}": functools.partial(with_hook, k) for k in ("closure", "itself", "shared")},
    "lists": Lists,
    "shared": Shared,
    "gru": lambda: Recurrent(nn.GRU),
    "lstm": lambda: Recurrent(nn.LSTM),
    "weight norm": lambda: within(parametrizations.weight_norm(linear())),
    "weight norm by hook": lambda: within(quietly(nn.utils.weight_norm, linear())),
    "spectral norm": lambda: within(parametrizations.spectral_norm(linear())),
    "spectral norm by hook": lambda: within(quietly(nn.utils.spectral_norm, linear())),
    "outside": Outside,
    "script": lambda: torch.jit.script(mlp()),
    "field": inner_field,
    "nested": nested_field,
    "compiled": lambda: compiled(False),
    "compiled in place": lambda: compiled(True),
}


def upset(field: cnf.ConstrainedField) -> None:
    """Change every number that the field or its base depends on, in place."""
    base = field.base
    with torch.no_grad():
        for tensor in (*field.parameters(), *field.buffers()):
            tensor.mul_(1.1).add_(0.05)
        for owner, name in ((base, "scale"), (base, "gain"), (base, "number")):
            kept = getattr(owner, name, None)
            if isinstance(kept, Tensor | np.ndarray):
                kept *= 1.5
        if isinstance(base, Outside):
            FACTOR.mul_(1.5)


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("name", MODULES)
def test_a_solution_keeps_what_it_was_solved_with(name, training):
    """A solution evaluated before and after everything in its field changed: the same values, or a refusal.

    The field itself does follow, and its new solution holds at the points again.
    """
    field = field_on(MODULES[name]()).train(training)
    if not training:
        field.base.eval()
    solution = quietly(lambda: field.solve() if training else field.solution)
    before = solution(QUERY).detach().clone()
    assert solution.certificate.exact
    upset(field)
    try:
        after = solution(QUERY).detach()
    except CnfError as error:
        assert "out of date" in str(error)
        assert name in ("outside", "hook: shared") or (name == "script" and training)
    else:
        assert torch.equal(before, after)
    renewed = quietly(lambda: field.solve() if training else field.solution)
    assert float((renewed(QUERY) - before).abs().max()) > 1e-4
    assert misses(renewed, POINTS, SIDES) <= 1e-9


@pytest.mark.parametrize("name", [n for n in MODULES if n not in ("nested", "compiled", "lstm")])
def test_gradients_reach_the_originals(name):
    """d/dtheta of mean u^2 through the solve, against central differences of the field solved anew."""
    field = field_on(MODULES[name]())
    for module in field.base.modules():  # a power iteration would move between two evaluations
        if "SpectralNorm" in type(module).__name__ or hasattr(module, "weight_u"):
            module.eval()
    parameters = [p for p in field.parameters() if p.requires_grad]
    value = field.solve()(QUERY).square().mean()
    found = torch.autograd.grad(value, parameters, allow_unused=True)
    step = 1e-5
    for parameter, gradient in zip(parameters, found, strict=True):
        direction = torch.randn_like(parameter)
        moved = []
        for sign in (1, -1):
            with torch.no_grad():
                parameter.add_(sign * step * direction)
                moved.append(float(field.solve()(QUERY).square().mean()))
                parameter.sub_(sign * step * direction)
        expected = (moved[0] - moved[1]) / (2 * step)
        here = 0.0 if gradient is None else float((gradient * direction).sum())
        assert here == pytest.approx(expected, rel=1e-5, abs=1e-8)


def hermite_with_a_coefficient() -> cnf.ConstrainedField:
    k = nn.Parameter(torch.tensor(0.7, dtype=DOUBLE))
    conditions = LINE.constraint(r"u + k \partial_x u", at=POINTS, equals=SIDES, k=k, name="data")
    return cnf.ConstrainedField(cnf.bases.Hermite(LINE, conditions, cnf.kernels.Gaussian(0.3)), conditions)


def enclosed_coefficient() -> cnf.ConstrainedField:
    k = nn.Parameter(torch.tensor(1.7, dtype=DOUBLE))
    field = field_on(mlp(), "c u", c=lambda x: k * (1 + x[:, 0]))
    field.register_parameter("k", k)
    return field


@pytest.mark.parametrize("make", [hermite_with_a_coefficient, enclosed_coefficient, lambda: field_on(mlp())])
def test_optimiser_steps_between_solve_and_gradient(make):
    """The gradient of an old solution is that at the old parameters; its certificate, asked for late, stays exact."""
    field = make()
    parameters = list(field.parameters())
    expected = torch.autograd.grad(field.solve()(QUERY).square().mean(), parameters, allow_unused=True)
    solution = field.solve()
    before = solution(QUERY).detach().clone()
    torch.optim.SGD(parameters, lr=0.1).step(lambda: field(QUERY).square().mean().backward())
    assert torch.equal(solution(QUERY).detach(), before)
    found = torch.autograd.grad(solution(QUERY).square().mean(), parameters, allow_unused=True)
    for a, b in zip(expected, found, strict=True):
        assert (a is None and b is None) or torch.allclose(a, b, rtol=1e-12, atol=1e-14)
    assert solution.certificate.exact


def test_conditions_changed_in_place_are_refused():
    """A frozen constraint whose points are moved all the same: Hermite functions sit on them."""
    conditions = LINE.constraint("u", at=POINTS, equals=SIDES, name="data")
    field = cnf.ConstrainedField(cnf.bases.Hermite(LINE, conditions, cnf.kernels.Gaussian(0.2)), conditions)
    solution = field.solve()
    solution(QUERY)
    field.constraints[0].points.add_(0.01)
    with pytest.raises(CnfError, match="out of date"):
        solution(QUERY)


class Average(nn.Module):
    """Keeps a running average of what it says."""

    def __init__(self):
        super().__init__()
        self.network = mlp()
        self.register_buffer("average", torch.zeros(1, dtype=DOUBLE))

    def forward(self, x: Tensor) -> Tensor:
        values = self.network(x)
        self.average = 0.9 * self.average + 0.1 * values.detach().mean()
        return values


def test_hooks_still_record_and_buffers_still_average():
    """A list in which a hook keeps records belongs to the user; statistics of a network in training belong to it."""
    field, records = field_on(Average()), []
    field.base.register_forward_hook(lambda module, given, found: records.append(found))
    solution = field.solve()
    assert records and float(field.base.average.abs()) > 0
    solution(QUERY)
    solution(QUERY)


# -- d: the solution that an eval-mode field remembers ---------------------------------------------------------------


LIMIT = 1.0


def limited(x: Tensor) -> Tensor:
    return LIMIT + 0 * x[:, 0]


def coefficient(start: float):
    """A function with a cell, a default and an attribute."""
    amount = start

    def change(value: float) -> None:
        nonlocal amount
        amount = value

    def function(x: Tensor, offset: float = 1.0, *, more: float = 0.5) -> Tensor:
        return amount + offset + more + 0 * x[:, 0]

    function.change = change
    return function


class Coefficient:
    def __init__(self):
        self.amount = 1.0

    def __call__(self, x: Tensor) -> Tensor:
        return self.amount + 0 * x[:, 0]

    def method(self, x: Tensor) -> Tensor:
        return 2 * self.amount + 0 * x[:, 0]


class Slotted:
    __slots__ = ("amount",)


class Rich(nn.Module):
    """Something of every kind to change."""

    level = 1.0

    def __init__(self):
        super().__init__()
        self.network = mlp()
        self.register_buffer("buffer", torch.ones(1, dtype=DOUBLE))
        self.register_buffer("passing", torch.ones(1, dtype=DOUBLE), persistent=False)
        self.tensor = torch.ones(1, dtype=DOUBLE)
        self.number, self.word, self.flag, self.nothing = 1.0, "sine", True, None
        self.items = [1.0, [torch.ones(1, dtype=DOUBLE)], (torch.ones(1),)]
        self.table = {"a": 1.0, "b": {"c": [np.ones(2)]}}
        self.array = np.arange(3.0)
        self.names = {"a", "b"}
        self.queue = deque([1.0])
        self.bytes = bytearray(b"ab")
        self.object, self.slotted = Kept(torch.ones(1, dtype=DOUBLE)), Slotted()
        self.slotted.amount = 1.0
        self.chance = np.random.default_rng(0)
        self.function = coefficient(1.0)
        self.partial = functools.partial(pow, 2.0)
        self.extra = nn.Identity()
        self.layers = nn.ModuleList([nn.Tanh()])

    def scaled(self, values: Tensor) -> Tensor:
        return values * self.number

    def forward(self, x: Tensor) -> Tensor:
        return self.scaled(self.network(x))


class Louder(Rich):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


def rich_field() -> cnf.ConstrainedField:
    function, owner = coefficient(1.0), Coefficient()
    conditions = [
        LINE.constraint("c u", at=POINTS[:1], equals=1.0, c=function, name="function"),
        LINE.constraint("c u", at=POINTS[1:2], equals=1.0, c=functools.partial(function, offset=2.0), name="partial"),
        LINE.constraint("c u", at=POINTS[2:3], equals=1.0, c=owner, name="object"),
        LINE.constraint("c u", at=POINTS[3:4], equals=1.0, c=owner.method, name="method"),
        LINE.constraint("c u", at=POINTS[4:], equals=1.0, c=limited, name="global"),
    ]
    return cnf.ConstrainedField(kernel(), conditions, base=Rich()).eval()


def datum(field: cnf.ConstrainedField, k: int):
    return field.constraints[k].operator.data[0][1]


def setter(path: str, value) -> Callable[[cnf.ConstrainedField], None]:
    def change(field: cnf.ConstrainedField) -> None:
        *owners, name = path.split(".")
        setattr(functools.reduce(getattr, owners, field), name, value)

    return change


def edit(action: Callable[[cnf.ConstrainedField], object]) -> Callable[[cnf.ConstrainedField], object]:
    def change(field: cnf.ConstrainedField) -> None:
        with torch.no_grad():
            action(field)

    return change


def replaced(k: int, **changes) -> Callable[[cnf.ConstrainedField], None]:
    def change(field: cnf.ConstrainedField) -> None:
        given = list(field.constraints)
        given[k] = dataclasses.replace(given[k], **changes)
        field.constraints = tuple(given)

    return change


def set_global(value: float) -> Callable[[cnf.ConstrainedField], None]:
    return lambda field: globals().__setitem__("LIMIT", value)


WAYS: dict[str, Callable] = {
    "parameter": edit(lambda f: f.base.network[0].weight.add_(0.1)),
    "parameter by data": edit(lambda f: f.base.network[0].weight.data.add_(0.1)),
    "parameter through numpy": edit(lambda f: f.base.network[0].weight.numpy().__setitem__((0, 0), 0.3)),
    "two entries swapped": edit(lambda f: f.base.network[0].weight.data.copy_(f.base.network[0].weight.flip(0))),
    "signs": edit(lambda f: f.base.network[0].weight.data.neg_()),
    "parameter replaced": edit(lambda f: setattr(f.base.network[2], "bias", nn.Parameter(torch.ones(1, dtype=DOUBLE)))),
    "parameter of the basis": edit(lambda f: f.basis.kernel.log_length.add_(0.1)),
    "anchors": edit(lambda f: f.basis.anchors.add_(0.01)),
    "buffer": edit(lambda f: f.base.buffer.add_(1)),
    "buffer not saved": edit(lambda f: f.base.passing.data.add_(1)),
    "tensor": edit(lambda f: f.base.tensor.add_(1)),
    "tensor replaced": setter("base.tensor", torch.zeros(1, dtype=DOUBLE)),
    "number": setter("base.number", 2.0),
    "last bit of a number": setter("base.number", 1.0 + 2**-52),
    "kind of a number": setter("base.number", 1),
    "word": setter("base.word", "cosine"),
    "flag": setter("base.flag", False),
    "nothing": setter("base.nothing", 3),
    "new attribute": setter("base.new", 3),
    "attribute removed": lambda f: delattr(f.base, "nothing"),
    "item of a list": edit(lambda f: f.base.items.__setitem__(0, 2.0)),
    "tensor in a nested list": edit(lambda f: f.base.items[1][0].data.add_(1)),
    "tensor in a tuple": edit(lambda f: f.base.items[2][0].add_(1)),
    "entry of a table": edit(lambda f: f.base.table.__setitem__("a", 2.0)),
    "array in a nested table": edit(lambda f: f.base.table["b"]["c"][0].__setitem__(0, 5.0)),
    "array": edit(lambda f: f.base.array.__setitem__(0, 5.0)),
    "set": edit(lambda f: f.base.names.add("c")),
    "deque": edit(lambda f: f.base.queue.append(2.0)),
    "bytes": edit(lambda f: f.base.bytes.append(1)),
    "object": edit(lambda f: f.base.object.weight.add_(1)),
    "object replaced": setter("base.object", 3),
    "slot": setter("base.slotted.amount", 2.0),
    "random generator": edit(lambda f: f.base.chance.random()),
    "cell of a function": edit(lambda f: f.base.function.change(3.0)),
    "default of a function": edit(lambda f: setattr(f.base.function, "__defaults__", (4.0,))),
    "partial": setter("base.partial", functools.partial(pow, 3.0)),
    "hook": lambda f: f.base.network.register_forward_hook(lambda module, given, found: 2 * found),
    "hook before": lambda f: f.base.network[0].register_forward_pre_hook(lambda module, given: (2 * given[0],)),
    "hook for all modules": lambda f: nn.modules.module.register_module_forward_hook(lambda m, i, o: None),
    "forward of the object": setter("base.network.forward", lambda x: torch.sin(x)),
    "class of the object": edit(lambda f: setattr(f.base, "__class__", Louder)),
    "layer replaced": edit(lambda f: f.base.network.__setitem__(1, nn.Sigmoid())),
    "layer of the same shape": setter("base.extra", nn.Tanh()),
    "layer appended": edit(lambda f: f.base.layers.append(nn.Tanh())),
    "mode of a layer": edit(lambda f: f.base.extra.train()),
    "mode": edit(lambda f: f.train()),
    "base replaced": setter("base", None),
    "points": edit(lambda f: f.constraints[0].points.add_(0.01)),
    "points by data": edit(lambda f: f.constraints[0].points.data.add_(0.01)),
    "points replaced": replaced(0, points=at(0.15)),
    "values": edit(lambda f: f.constraints[0].values.mul_(2)),
    "values replaced": replaced(0, values=at(3.0)),
    "operator replaced": replaced(0, operator=LINE.operator("3 u")),
    "constraint removed": lambda f: setattr(f, "constraints", f.constraints[:-1]),
    "cell of a coefficient": edit(lambda f: datum(f, 0).change(5.0)),
    "default of a coefficient": edit(lambda f: setattr(datum(f, 0), "__defaults__", (9.0,))),
    "keyword of a coefficient": edit(lambda f: datum(f, 0).__kwdefaults__.__setitem__("more", 9.0)),
    "coefficient in a partial": edit(lambda f: datum(f, 1).keywords.__setitem__("offset", 9.0)),
    "coefficient object": edit(lambda f: setattr(datum(f, 2), "amount", 9.0)),
    "global of a coefficient": set_global(2.0),
    "solver": setter("solver", MinimumNorm()),
    "setting of the solver": setter("solver", Auto(least_squares=True)),
    "tolerance": setter("tolerance", 1e-3),
    "on_violation": setter("on_violation", "raise"),
}


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    calls: list[str] = []
    for kind in (LU, Cholesky, MinimumNorm):
        original = kind.begin

        def begin(self, matrices, symmetric, original=original, kind=kind):
            calls.extend(kind.__name__ for _ in matrices)
            return original(self, matrices, symmetric)

        monkeypatch.setattr(kind, "begin", begin)
    return calls


@pytest.mark.parametrize("way", WAYS)
def test_every_change_is_seen(way):
    """Whatever is changed, the remembered solution is not returned; and the same field asked twice solves once."""
    field = rich_field()
    before = field.solution
    assert field.solution is before
    hooks = nn.modules.module._global_forward_hooks
    known = dict(hooks)
    try:
        WAYS[way](field)
        assert quietly(lambda: field.solution) is not before
    finally:
        globals()["LIMIT"] = 1.0
        for key in [key for key in hooks if key not in known]:
            del hooks[key]


@pytest.mark.parametrize("name", ["forward", "scaled", "level"])
def test_a_class_changed_is_seen(name, monkeypatch):
    """A method or an attribute of the class of a module, replaced for all its objects."""
    field = rich_field()
    before = field.solution
    monkeypatch.setattr(Rich, name, 2.0 if name == "level" else lambda self, x: 0 * x)
    assert field.solution is not before
    if name != "level":
        with pytest.raises(CnfError, match="out of date"):
            before(QUERY)


def test_nothing_else_is_taken_for_a_change(monkeypatch):
    """Reading, evaluating, printing, gradients, a mode that is the same already: one factorisation in all."""
    calls = counted(monkeypatch)
    field = rich_field()
    held_outside = field.solution
    for action in (
        lambda: field(QUERY),
        lambda: field.solution.apply(r"\partial_x u", QUERY),
        lambda: field.certificate.to_dict(),
        lambda: str(field),
        lambda: field.state_dict(),
        lambda: field.base(QUERY),
        lambda: [setattr(p, "grad", torch.ones_like(p)) for p in field.parameters()],
        lambda: field.requires_grad_(False),
        lambda: field.eval(),
        gc.collect,
    ):
        action()
        assert field.solution is held_outside
    assert len(calls) == 1


def test_another_solver_is_used(monkeypatch):
    """A solver put in place of the other is the one that solves."""
    calls = counted(monkeypatch)
    field = field_on()
    field.solve()
    field.solver = MinimumNorm()
    field.solve()
    assert calls[0] != "MinimumNorm"
    assert calls[-1] == "MinimumNorm"


# -- e, f: history and sharing ---------------------------------------------------------------------------------------


def test_a_certificate_does_not_depend_on_history():
    """u = 1 and k u + u' = 0 solved with k = 1 first, or with k = 1e8 at once: equal residuals, relative ones included.

    What k u + u' is compared with grows with k; remembered from k = 1, it made the residual 1e8 times too large.
    """

    def made(k: float) -> tuple[cnf.ConstrainedField, nn.Parameter]:
        number = nn.Parameter(torch.tensor(k, dtype=DOUBLE))
        conditions = [
            LINE.constraint("u", at=POINTS, equals=1.0, name="values"),
            LINE.constraint(r"k u + \partial_x u = 0", at=POINTS + 0.05, k=number, name="rate"),
        ]
        return cnf.ConstrainedField(cnf.bases.RandomFourier(LINE, 24, 0.2, seed=0), conditions), number

    moved, number = made(1.0)
    quietly(moved.solve)
    with torch.no_grad():
        number.fill_(1e8)
    found, expected = (quietly(f.solve).certificate.residuals for f in (moved, made(1e8)[0]))
    for name in ("values", "rate"):
        assert found[name].absolute == expected[name].absolute
        assert found[name].relative == expected[name].relative


def test_a_broken_rule_of_sharing_is_measured(monkeypatch):
    """u = 1 and 2 v = 1 solved with one matrix for both: v is 1 instead of 1/2, and the certificate says so."""
    from cnf.systems import layout

    space = cnf.Space("x", "u v")
    conditions = [
        space.constraint("u", at=POINTS, equals=1.0, name="first"),
        space.constraint("2 v", at=POINTS, equals=1.0, name="second"),
    ]
    monkeypatch.setattr(layout, "_row_signature", lambda constraint, row: ())
    solution = quietly(cnf.ConstrainedField(cnf.bases.RandomFourier(space, 16, 0.3), conditions).solve)
    assert float((solution(POINTS)[:, 1] - 1).abs().max()) < 1e-9
    certificate = solution.certificate
    assert not certificate.exact
    assert certificate.violated == ("second",)
    assert certificate.residuals["second"].absolute == pytest.approx(1.0)


# -- g: few bits -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("convert", [lambda f: f.half(), lambda f: f.bfloat16(), lambda f: f.to(torch.bfloat16)])
def test_fields_in_few_bits_are_refused(convert):
    field = field_on(mlp())
    with pytest.raises(CnfError, match=r"torch\.float32 or torch\.float64"):
        convert(field)
    assert field.solve().certificate.exact
    assert {p.dtype for p in field.parameters()} == {DOUBLE}


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_points_in_few_bits_are_solved_in_more(kind):
    """u = 1 at points given with 8 or 11 bits: they are exact in float32, where the field is solved and measured."""
    points = POINTS.to(kind)
    solution = cnf.ConstrainedField(kernel(), LINE.constraint("u", at=points, equals=1.0)).solve()
    assert solution.certificate.exact
    assert solution.weights.dtype == torch.float32
    assert float((solution(points) - 1).abs().max()) < 1e-4


def test_autocast_regions_have_no_say():
    """A float32 field solved and evaluated inside bfloat16 regions: bit for bit what it is outside."""
    points = POINTS.float()
    basis = cnf.bases.Kernel(LINE, points, cnf.kernels.Gaussian(1.0), encoder=mlp(torch.float32))

    def made() -> cnf.ConstrainedField:
        conditions = LINE.constraint("u", at=points, equals=SIDES.float(), name="data")
        return cnf.ConstrainedField(copy.deepcopy(basis), conditions, base=copy.deepcopy(network))

    network = mlp(torch.float32)
    outside = quietly(made().solve)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = quietly(made().solve)
        found = (inside(QUERY), outside(QUERY), outside.apply(r"\partial_x u", QUERY), inside.certificate)
    assert torch.equal(found[0], outside(QUERY)) and torch.equal(found[1], outside(QUERY))
    assert torch.equal(found[2], outside.apply(r"\partial_x u", QUERY))
    assert found[3].residuals == outside.certificate.residuals


# -- h: another precision, kinks -------------------------------------------------------------------------------------


def test_a_solution_in_another_precision_has_its_own_certificate():
    points = BOX.halton(20, seed=1)
    encoder = cnf.encoders.SIREN(2, 16, [64], seed=0)
    basis = cnf.bases.Kernel(PLANE, points, cnf.kernels.Gaussian(1.0), encoder=encoder)
    solution = cnf.ConstrainedField(basis, PLANE.constraint("u", at=points, equals=lambda x: x[:, 0])).solve()
    assert solution.certificate.exact
    coarse = solution.in_precision(torch.float32)
    off = float((coarse(points)[:, 0] - points[:, 0]).abs().max())
    assert off > 1e-8
    certificate = quietly(lambda: coarse.certificate)
    assert not certificate.exact
    assert certificate.residuals["u"].absolute >= off
    assert solution.certificate.exact


class Through(nn.Module):
    """An activation that torch has no name for, in a network inside a container."""

    def __init__(self, activation: Callable[[Tensor], Tensor]):
        super().__init__()
        self.layers, self.activation = nn.ModuleDict({"in": mlp(inputs=2)}), activation

    def forward(self, x: Tensor) -> Tensor:
        first, _, last = self.layers["in"]
        return last(self.activation(first(x)))


ROUGH = {
    "module": lambda: nn.Sequential(nn.Sequential(nn.Linear(2, 8), nn.PReLU()), nn.Linear(8, 1)).double(),
    "relu": lambda: Through(F.relu),
    "leaky": lambda: Through(F.leaky_relu),
    "hardtanh": lambda: Through(lambda x: F.hardtanh(4 * x)),
    "relu6": lambda: Through(F.relu6),
    "abs": lambda: Through(torch.abs),
    "maximum": lambda: Through(lambda x: torch.maximum(x, 0.3 * x)),
    "steps": lambda: Through(torch.floor),
}
SMOOTH = {
    "tanh": lambda: Through(torch.tanh),
    "softplus": lambda: Through(F.softplus),
    "gelu": lambda: Through(F.gelu),
    "square": lambda: Through(torch.square),
    "product": lambda: Through(lambda x: x * x.flip(1)),
    "linear": lambda: Through(lambda x: x),
    "constant": lambda: Through(torch.ones_like),
    "one coordinate": lambda: Through(lambda x: torch.sin(x[:, :1]) + 0 * x),
}


@pytest.mark.parametrize("name", [*ROUGH, *SMOOTH])
def test_bases_with_kinks_are_warned_about(name):
    """nabla^2 u = 1 on a base without second derivatives: they are zero where they exist, so the base has no part."""
    make = (ROUGH | SMOOTH)[name]
    conditions = PLANE.constraint(r"\nabla^2 u", at=BOX.halton(12, seed=1), equals=1.0, name="pde")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cnf.ConstrainedField(cnf.bases.RandomFourier(PLANE, 24, 0.3), conditions, base=make())
    said = [w for w in caught if issubclass(w.category, SmoothnessWarning)]
    assert len(said) == (name in ROUGH)


# -- i: the certificate is plain data --------------------------------------------------------------------------------


def contradiction() -> cnf.Solution:
    pair = [LINE.constraint("u", at=at(0.5), equals=v, name=f"u{v:.0f}") for v in (0.0, 1.0)]
    return quietly(cnf.ConstrainedField(cnf.bases.RandomFourier(LINE, 16, 0.3), pair).solve)


def patched() -> cnf.Solution:
    points = BOX.halton(60, seed=2)
    basis = cnf.bases.Kernel(PLANE, points, cnf.kernels.Gaussian(0.2))
    conditions = PLANE.constraint("u", at=points, equals=lambda x: x[:, 0])
    return quietly(cnf.ConstrainedField(basis, conditions, solver=cnf.solvers.Patches(size=30)).solve)


def sparse() -> cnf.Solution:
    points = BOX.halton(60, seed=2)
    basis = cnf.bases.Kernel(PLANE, points, cnf.kernels.Wendland(1, 0.4))
    conditions = PLANE.constraint("u", at=points, equals=lambda x: x[:, 0])
    return cnf.ConstrainedField(basis, conditions, solver=cnf.solvers.SparseLU()).solve()


@pytest.mark.parametrize("make", [contradiction, patched, sparse, lambda: field_on(mlp()).solve()])
def test_certificates_are_plain_data(make):
    """JSON, pickle and deepcopy give it back; what was sent elsewhere does not keep the solve alive."""
    solution = make()
    certificate = solution.certificate
    assert isinstance(certificate, cnf.Certificate)
    written = json.loads(json.dumps(certificate.to_dict()))
    again = pickle.loads(pickle.dumps(certificate))
    for other in (again, copy.deepcopy(certificate)):
        assert other == certificate
        assert other.to_dict() == certificate.to_dict() == written
        assert other.conflicts == certificate.conflicts and other.notes == certificate.notes
        assert str(other) == str(certificate)
    weights = weakref.ref(solution.weights)
    del solution, certificate, other
    gc.collect()
    assert weights() is None
    assert str(again)


def training_field() -> cnf.ConstrainedField:
    points = BOX.halton(200, seed=1)
    conditions = PLANE.constraint("u", at=points, equals=lambda x: x[:, 0], name="data")
    return cnf.ConstrainedField(cnf.bases.RandomFourier(PLANE, 260, 0.3), conditions)


def test_a_certificate_of_a_training_step_says_it_is_sampled():
    """200 conditions: a sample while training, all of them when asked for, outside training and at the end of fit."""
    field = training_field()
    solution = field.solve()
    assert "SAMPLED" in repr(solution)
    known = solution.spot_check
    assert known.measured < known.conditions == 200
    assert not known.exact
    assert "SAMPLED" in known.summary()
    for full in (
        solution.certificate,
        field.eval().solve().certificate,
        field.train().certificate,
        torch.no_grad()(field.solve)().certificate,
    ):
        assert (full.measured, full.exact) == (200, True)
    seen = []
    cnf.fit(
        field,
        lambda s: s(BOX.halton(9, seed=3)).square().mean(),
        steps=2,
        progress=False,
        callbacks=lambda step, s, history: seen.append(s.spot_check.measured),
    )
    assert len(seen) == 2 and max(seen) < 200
    assert field._cache is not None and field._cache[2].spot_check.measured == 200


# -- j: modes, threads, transforms -----------------------------------------------------------------------------------


def test_certificates_in_every_mode():
    """The same residuals with gradients, without, and in inference mode; a field solved there can be differentiated."""
    found = []
    for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        torch.manual_seed(0)
        field = field_on(mlp())
        with mode():
            found.append((field.solve().certificate.residuals, field.eval().certificate.residuals))
            field(QUERY)
        x = QUERY.clone().requires_grad_()
        (slope,) = torch.autograd.grad(field(x).sum(), x)
        assert torch.allclose(slope, field.solution.apply(r"\partial_x u", QUERY), rtol=1e-10, atol=1e-10)
    assert found[0] == found[1] == found[2]


def test_certificates_do_not_depend_on_threads_or_queries():
    """One or two threads, a query of one point or of a thousand before the certificate: the same numbers."""
    found = []
    for threads, count in ((1, 1), (1, 1000), (2, 1), (2, 1000)):
        torch.set_num_threads(threads)
        try:
            solution = training_field().solve()
            solution(BOX.halton(count, seed=5))
            found.append(solution.certificate)
        finally:
            torch.set_num_threads(1)
    assert found[0].residuals == found[1].residuals
    assert found[2].residuals == found[3].residuals
    assert all(c.exact and c.worst < 1e-9 for c in found)


def test_transforms_of_torch_func():
    """Solving inside a transform is refused with advice; transforming a solution works."""
    field = field_on(mlp())
    named = dict(field.named_parameters())
    x = QUERY[3]

    def loss(parameters: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(field, parameters, (QUERY,)).square().mean()

    for transform in (
        lambda: torch.func.grad(loss)(named),
        lambda: torch.func.jvp(lambda k: field(k * QUERY), (torch.tensor(1.0),), (torch.tensor(1.0),)),
        lambda: torch.func.vmap(lambda k: field(k * QUERY))(torch.ones(2)),
    ):
        with pytest.raises(CnfError, match=r"torch\.func"):
            transform()
    solution = field.solve()
    slope = torch.func.jacrev(lambda y: solution(y[None])[0, 0])(x)
    assert float(slope) == pytest.approx(float(solution.apply(r"\partial_x u", x[None])), rel=1e-10)


class Wrapped(nn.Module):
    """A field inside a module, which therefore is differentiated by forward mode."""

    def __init__(self):
        super().__init__()
        self.field = inner_field()

    def forward(self, x: Tensor) -> Tensor:
        return 2 * self.field(x)


def test_a_field_inside_a_base_is_solved_beforehand():
    """u' = sin(5x) on a base that wraps a field in eval mode; in training mode the refusal says what to do."""
    base = Wrapped()
    conditions = LINE.constraint(r"\partial_x u", at=POINTS, equals=SIDES)
    field = cnf.ConstrainedField(cnf.bases.RandomFourier(LINE, 16, 0.3), conditions, base=base)
    base.field.eval()
    solution = field.solve()
    assert solution.certificate.exact
    assert misses(solution, POINTS, SIDES, r"\partial_x u") < 1e-9
    base.field.train()
    with pytest.raises(CnfError, match="eval mode"):
        field.solve()


def test_lazy_networks_are_refused():
    base = nn.Sequential(nn.LazyLinear(4), nn.Tanh(), nn.Linear(4, 1)).double()
    with pytest.raises(CnfError, match="lazy"), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        field_on(base).solve()
    assert issubclass(SmoothnessWarning, CnfWarning)


def test_exponentials_of_layers():
    """e^{(x - 1) / a} with a = 0.001 as a number: SymPy has it as 5e-435 e^{1000 x}, 0 times infinity in float64."""
    space = cnf.Space("x", "u")
    at = torch.tensor([[0.0], [0.5], [0.9], [0.999], [1.0]], dtype=torch.float64)
    for sign in (1.0, -1.0):
        found = space.constraint(r"u = s e^{(x-1)/a}", at=at, a=0.001, s=sign).values[:, 0]
        wanted = [sign * math.exp((v - 1) / 0.001) for v in at[:, 0].tolist()]
        assert found.tolist() == pytest.approx(wanted, rel=1e-13, abs=0)
