"""Integrals that cannot lie: whatever is certified is true for SciPy, which is told where the peaks are.

Every answer comes from `scipy.integrate.quad` (or Gauss' rule on panels around the peaks) applied to the solution as a
black box; the library is never asked for the integral of its own field.
"""

from __future__ import annotations

import math
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise

import mpmath
import numpy as np
import pytest
import scipy.integrate
import sympy as sp
import torch
from torch import Tensor, nn

import cnf
from cnf.errors import CnfWarning, ConstraintError, NumericalWarning, ViolationWarning
from cnf.operators.expansion import expand
from cnf.operators.latex import read_expression

LINE, PLANE = cnf.Space("x", "u"), cnf.Space("x y", "u")
BOX = cnf.Box((0, 0), (1, 1))


def at(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None]


def waves(space: cnf.Space = LINE, bandwidth: float = 0.3) -> cnf.bases.Basis:
    return cnf.bases.RandomFourier(space, 60, bandwidth)


def quad(function: Callable[[float], float], edges: Sequence[float]) -> float:
    """SciPy's adaptive rule between break points that are known to whoever asks."""
    return sum(
        scipy.integrate.quad(function, a, b, epsabs=1e-13, epsrel=1e-12, limit=200)[0] for a, b in pairwise(edges)
    )


def field_on(solution: cnf.Solution, *fixed: float) -> Callable[[float], float]:
    def value(s: float) -> float:
        with torch.no_grad():
            return float(solution(torch.tensor([[s, *fixed]], dtype=torch.float64)))

    return value


def around(centre: float, width: float) -> list[float]:
    """Break points around a peak, within [0, 1]."""
    steps = width * np.array([-1e3, -1e2, -20, -5, -1, 0, 1, 5, 20, 1e2, 1e3])
    return sorted({0.0, 1.0, *np.clip(centre + steps, 0, 1).tolist()})


def panels(edges: Sequence[float], count: int = 16) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = np.polynomial.legendre.leggauss(count)
    half = np.diff(np.unique(edges))[:, None] / 2
    return (np.unique(edges)[:-1, None] + half * (1 + nodes)).ravel(), (half * weights).ravel()


# -- peaks in coefficients -------------------------------------------------------------------------------------------

PEAKS = {
    r"(1 + 10^4 \max(0, 1 - 10^4 |x - 0.3|))": (lambda x: 1 + 1e4 * max(0, 1 - 1e4 * abs(x - 0.3)), 1e-4),
    r"(1 + 10^4 e^{-10^{10} (x - 0.3)^2})": (lambda x: 1 + 1e4 * math.exp(-1e10 * (x - 0.3) ** 2), 1e-5),
    r"\frac{1}{1 + 10^{10} (x - 0.3)^2}": (lambda x: 1 / (1 + 1e10 * (x - 0.3) ** 2), 1e-5),
    r"(2 + \tanh(10^5 (x - 0.3)))": (lambda x: 2 + math.tanh(1e5 * (x - 0.3)), 1e-5),
    r"\operatorname{sign}(x - 0.3)": (lambda x: math.copysign(1, x - 0.3), 1e-3),
    r"\sqrt{|x - 0.3|}": (lambda x: math.sqrt(abs(x - 0.3)), 1e-6),
    r"\frac{1}{\sqrt{x}}": (lambda x: 1 / math.sqrt(x), 1e-6),
    r"e^{-3000 (x - 0.3)^2}": (lambda x: math.exp(-3000 * (x - 0.3) ** 2), 1e-2),
}


@pytest.mark.parametrize("weight", PEAKS)
def test_peaks_in_coefficients_are_found(weight: str):
    """int_0^1 w u dx = 1 for weights that vary over 1e-5: exact, and true for SciPy."""
    function, width = PEAKS[weight]
    mass = LINE.constraint(rf"\int_0^1 {weight} u \, dx = 1", name="mass")
    value = LINE.constraint("u", at=at(0.1, 0.9), equals=torch.tensor([1.0, -1.0]), name="value")
    solution = cnf.ConstrainedField(waves(), [mass, value]).solve()
    u = field_on(solution)
    assert solution.certificate.exact
    assert quad(lambda x: function(x) * u(x), around(0.3, width)) == pytest.approx(1, abs=1e-9)


def test_a_peak_in_the_plane():
    """A weight of width 1e-3 around (0.3, 0.6): exact, and true for Gauss' rule on panels around it."""
    weight = r"(1 + 10^5 e^{-10^6 ((x - 0.3)^2 + (y - 0.6)^2)})"
    mass = PLANE.constraint(rf"\int_0^1 \int_0^1 {weight} u \, dx \, dy = 1", name="mass")
    solution = cnf.ConstrainedField(waves(PLANE, 0.5), mass).solve()
    (x, wx), (y, wy) = (panels(around(c, 1e-3)) for c in (0.3, 0.6))
    grid = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1)
    with torch.no_grad():
        u = solution(torch.from_numpy(grid.reshape(-1, 2)))[:, 0].numpy().reshape(len(x), len(y))
    peak = 1 + 1e5 * np.exp(-1e6 * ((grid[..., 0] - 0.3) ** 2 + (grid[..., 1] - 0.6) ** 2))
    assert solution.certificate.exact
    assert wx @ (peak * u) @ wy == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize(
    ("latex", "kernel"),
    [
        (r"u - \int_0^1 |x - s| u(s) \, ds = x", lambda x, s: abs(x - s)),
        (r"u - \int_0^1 \max(0, 1 - 50 |x - s|) u(s) \, ds = x", lambda x, s: max(0, 1 - 50 * abs(x - s))),
        (r"u - \int_0^x e^{-10^3 (x - s)^2} u(s) \, ds = x", lambda x, s: math.exp(-1e3 * (x - s) ** 2) * (s < x)),
        (r"u - \int_1^x (x - s) u(s) \, ds = x", lambda x, s: (s - x) * (s > x)),
    ],
)
def test_kinks_and_limits_that_move_with_the_point(latex: str, kernel: Callable[[float, float], float]):
    """Integral equations at several points: each holds for SciPy, told where the kernel has its kinks."""
    points = at(0.0, 0.21, 0.5, 0.77, 1.0)
    solution = cnf.ConstrainedField(waves(), LINE.constraint(latex, at=points, name="equation")).solve()
    u = field_on(solution)
    assert solution.certificate.exact
    for x in points[:, 0].tolist():
        edges = np.unique(np.clip([0, x - 0.1, x - 0.02, x, x + 0.02, x + 0.1, 1], 0, 1)).tolist()
        found = u(x) - quad(lambda s, x=x: kernel(x, s) * u(s), edges)
        assert found == pytest.approx(x, abs=1e-9)


@pytest.mark.parametrize(
    ("latex", "top", "weight"),
    [
        (r"\int_0^1 \int_0^{x/3} u(x, y) \, dy \, dx = 1", lambda x: x / 3, lambda x, y: 1 + 0 * y),
        (r"\int_0^1 \int_0^1 |2x - y| u(x, y) \, dy \, dx = 1", lambda x: 1.0, lambda x, y: abs(2 * x - y)),
    ],
)
def test_inner_limits_and_kinks_that_move_with_the_outer_variable(latex: str, top: Callable, weight: Callable):
    """A triangle, and a kink along y = 2x: no node is wasted, and Gauss on panels along the kink agrees."""
    solution = cnf.ConstrainedField(waves(PLANE, 0.5), PLANE.constraint(latex, name="mass")).solve()
    total = 0.0
    for x, wx in zip(*panels([0, 0.25, 0.5, 1]), strict=True):
        y, wy = panels([0, min(2 * x, top(x)), top(x)])
        with torch.no_grad():
            u = solution(torch.from_numpy(np.stack([np.full_like(y, x), y], axis=1)))[:, 0].numpy()
        total += wx * (wy @ (weight(x, y) * u))
    assert solution.certificate.exact
    assert total == pytest.approx(1, abs=1e-10)
    assert all(rule.count < 4000 for rule in solution.constraints[0].rules.values())


# -- peaks in the field ----------------------------------------------------------------------------------------------

KERNELS = {
    "Gaussian": (cnf.kernels.Gaussian(1e-4), 1e-4),
    "Matern": (cnf.kernels.Matern(1.5, 1e-3), 1e-3),
    "Wendland": (cnf.kernels.Wendland(1, 1e-2), 1e-2),
    "TruncatedGaussian": (cnf.kernels.TruncatedGaussian(1e-3), 3e-3),
}
ANCHORS = at(0.0512, 0.2, 0.37, 0.611, 0.6117, 0.9)


@pytest.mark.parametrize("name", KERNELS)
def test_narrow_kernels_are_found(name: str):
    """int_0^1 u dx = 1 with functions much narrower than the gaps between them."""
    kernel, width = KERNELS[name]
    mass = LINE.constraint(r"\int_0^1 u \, dx = 1", name="mass")
    solution = cnf.ConstrainedField(cnf.bases.Kernel(LINE, ANCHORS, kernel), mass).solve()
    edges = sorted({e for a in ANCHORS[:, 0].tolist() for e in around(a, width)})
    assert solution.certificate.exact
    assert quad(field_on(solution), edges) == pytest.approx(1, abs=1e-9)


def bump(width: float) -> nn.Sequential:
    """tanh((x - 0.3) / width) - tanh((x - 0.3) / width - 2), times 1/width: a network whose integral is about 4."""
    network = nn.Sequential(nn.Linear(1, 2), nn.Tanh(), nn.Linear(2, 1)).to(torch.float64)
    with torch.no_grad():
        network[0].weight[:] = 1 / width
        network[0].bias[:] = torch.tensor([-0.3 / width, -0.3 / width - 2])
        network[2].weight[:] = torch.tensor([[1 / width, -1 / width]])
    return network


def test_a_narrow_bump_of_the_base_is_found():
    """The integral of the base is part of the condition: a bump of width 1e-5 in a network of known layers."""
    mass = LINE.constraint(r"\int_0^1 u \, dx = 1", name="mass")
    solution = cnf.ConstrainedField(waves(), mass, base=bump(1e-5)).solve()
    assert solution.certificate.exact
    assert quad(field_on(solution), around(0.3, 1e-5)) == pytest.approx(1, abs=1e-8)


def test_rules_follow_the_parameters():
    """The bandwidth falls from 0.5 to 0.002 after the field was made: the next solve is as true as the first."""
    mass = LINE.constraint(r"\int_0^1 u \, dx = 1", name="mass")
    values = LINE.constraint("u", at=ANCHORS, equals=1.0, name="values")
    basis = cnf.bases.Kernel(LINE, torch.cat([ANCHORS, at(0.45)]), cnf.kernels.Gaussian(0.5))
    field = cnf.ConstrainedField(basis, [mass, values])
    for bandwidth in (0.02, 0.002):
        with torch.no_grad():
            basis.kernel.log_length.fill_(math.log(bandwidth))
        edges = sorted({e for a in [*ANCHORS[:, 0].tolist(), 0.45] for e in around(a, bandwidth)})
        assert field.solve().certificate.exact
        assert quad(field_on(field.solve()), edges) == pytest.approx(1, abs=1e-8)


def test_the_field_integrated_afterwards():
    """solution.apply of an integral over a narrow field is right as well; of a callable it warns."""
    values = LINE.constraint("u", at=ANCHORS, equals=1.0, name="values")
    solution = cnf.ConstrainedField(cnf.bases.Kernel(LINE, ANCHORS, cnf.kernels.Gaussian(1e-4)), values).solve()
    edges = sorted({e for a in ANCHORS[:, 0].tolist() for e in around(a, 1e-4)})
    found = solution.apply(r"\int_0^1 u \, dx", at(0.0))
    assert float(found.detach()) == pytest.approx(quad(field_on(solution), edges), rel=1e-10)
    with pytest.warns(NumericalWarning, match="may be off"):
        solution.apply(r"\int_0^1 a u \, dx", at(0.0), a=lambda p: p[:, 0])


# -- what is not known -----------------------------------------------------------------------------------------------


class Own(nn.Module):
    """A network that nobody can look into."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cos(20 * x) + 2


def wavy(points: Tensor) -> Tensor:
    return torch.sin(20 * points[:, 0])


@pytest.mark.parametrize("part", ["coefficient", "base", "basis", "encoder"])
def test_what_is_not_known_is_unmeasured_until_it_says_how_fast_it_varies(part: str):
    """A callable or a network of one's own under an integral: not exact, with a warning, until it says how fast."""
    function = lambda p: wavy(p)  # noqa: E731  (a function of its own for each test, as it gets an attribute)
    network, basis = Own(), waves()
    if part == "basis":
        basis = cnf.bases.ConstraintLayer(LINE, network)
    elif part == "encoder":
        basis = cnf.bases.Kernel(LINE, ANCHORS, encoder=nn.Sequential(network, nn.Linear(1, 4, dtype=torch.float64)))
    asked = {"a": function} if part == "coefficient" else {}
    mass = LINE.constraint(r"\int_0^1 a u \, dx = 1" if asked else r"\int_0^1 u \, dx = 1", name="mass", **asked)
    field = cnf.ConstrainedField(basis, mass, base=network if part == "base" else None)
    with pytest.warns(ViolationWarning, match="could not be measured"):
        certificate = field.solve().certificate
    assert not certificate.exact
    assert "shortest_length" in certificate.unmeasured["mass"]
    assert "UNMEASURED" in certificate.summary()
    said = {"coefficient": function, "base": network, "basis": network, "encoder": basis}[part]
    said.shortest_length = 0.05
    again = cnf.ConstrainedField(basis, mass, base=network if part == "base" else None)
    assert again.solve().certificate.exact


@pytest.mark.parametrize("weight", [r"\frac{1}{x}", r"\cos(10^6 x)", r"\cos(10^5 x) \max(0, \sin(10^5 x))"])
def test_what_cannot_be_resolved_is_not_exact(weight: str):
    """A divergent integral, and waves beyond all nodes there are: said, in a few seconds, not certified."""
    condition = LINE.constraint(rf"\int_0^1 {weight} u \, dx = 1", name="weighted")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)
        certificate = cnf.ConstrainedField(waves(), condition).solve().certificate
    assert not certificate.exact
    assert "not resolved" in certificate.advice()


def test_random_peaks_are_never_certified_wrongly():
    """Thirty random weights on random kernels, widths from 1e-6 to 0.3: what is called exact is true to 1e-8."""
    generator = np.random.default_rng(7)
    forms = [
        (r"e^{-(\frac{x - C}{W})^2}", lambda t: np.exp(-(t**2))),
        (r"\max(0, 1 - |\frac{x - C}{W}|)", lambda t: np.maximum(0, 1 - np.abs(t))),
        (r"\frac{1}{1 + (\frac{x - C}{W})^2}", lambda t: 1 / (1 + t**2)),
        (r"\tanh(\frac{x - C}{W})", np.tanh),
    ]
    proven = 0
    for trial in range(30):
        latex, shape = forms[trial % 4]
        centre, width = round(generator.uniform(0.02, 0.98), 6), round(10 ** generator.uniform(-6, -0.5), 9)
        size, bandwidth = round(10 ** generator.uniform(-1, 4), 3), 10 ** generator.uniform(-4, -0.5)
        kernel = [cnf.kernels.Gaussian(bandwidth), cnf.kernels.Wendland(2, bandwidth)][trial % 2]
        anchors = torch.from_numpy(generator.uniform(0.05, 0.95, (5, 1)))
        weight = latex.replace("C", f"{centre:.6f}").replace("W", f"{width:.9f}")
        mass = LINE.constraint(rf"\int_0^1 (1 + {size} {weight}) u \, dx = 1", name="mass")
        solution = cnf.ConstrainedField(cnf.bases.Kernel(LINE, anchors, kernel), mass).solve()
        steps = np.concatenate([np.linspace(-12, 12, 49), *(s * np.geomspace(12, 1e7, 24) for s in (-1, 1))])
        grid = [np.linspace(0, 1, 9), centre + width * steps]
        grid += [a + bandwidth * np.linspace(-12, 12, 49) for a in anchors[:, 0].numpy()]
        x, w = panels(np.clip(np.concatenate(grid), 0, 1))
        with torch.no_grad():
            u = solution(torch.from_numpy(x)[:, None])[:, 0].numpy()
        found = w @ ((1 + size * shape((x - centre) / width)) * u)
        assert not solution.certificate.exact or abs(found - 1) <= 1e-8
        proven += solution.certificate.exact
    assert proven >= 28


# -- memory ----------------------------------------------------------------------------------------------------------

HERMITE = r"""
import resource, torch, cnf
space = cnf.Space("x y", "u")
strips = [
    space.constraint(rf"\int_{{{k / 4}}}^{{{(k + 1) / 4}}} \int_0^1 u \, dx \, dy = {k}", name=str(k)) for k in range(4)
]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
solution = cnf.ConstrainedField(cnf.bases.Hermite(space, strips, cnf.kernels.Gaussian(0.1)), strips).solve()
assert solution.certificate.exact
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_double_integrals_under_hermite_are_worked_out_in_pieces():
    """Nodes times nodes at once took 8 GB; in pieces the peak of a process of its own stays below 1 GB."""
    done = subprocess.run([sys.executable, "-c", HERMITE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 1000


# -- coefficients ----------------------------------------------------------------------------------------------------

AS_WRITTEN = [
    r"e^{-3000 (x - 0.5)^2}",
    r"e^{-300 (x - 0.5)^2} \cos(300 x)",
    r"e^{80 x} e^{-80 x^2}",
    r"(x - 0.5)^{12}",
    r"(1 - x)^{30} (1 + x)^{30}",
    r"\frac{e^{500 x}}{e^{500 x} + 1}",
    r"\cosh(700 x) e^{-700 x}",
    r"\frac{(x - 0.5)^3}{(x - 0.5)^2 + 10^{-6}}",
    r"10^{200} x \cdot 10^{-200}",
    r"\operatorname{erf}(1000 (x - 0.5))",
    r"\sin(10^6 x)",
    r"e^{-e^{4 x}}",
]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("latex", AS_WRITTEN)
def test_coefficients_are_evaluated_as_written(latex: str, dtype: torch.dtype):
    """Against mpmath with 50 digits: right to the rounding of the argument, however large the parts are."""
    x = torch.tensor([[0.0125], [0.4375], [0.5078125], [0.75], [0.9990234375]], dtype=dtype)
    operator = LINE.operator(f"{latex} u")
    (weight,) = expand(operator, x)[0].requests[0].weights.values()
    exact = sp.lambdify(
        sp.Symbol("x", real=True), sp.nsimplify(read_expression(latex, LINE.frame), rational=True), "mpmath"
    )
    with mpmath.workdps(50):
        expected = [exact(mpmath.mpf(v)) for v in x[:, 0].tolist()]
        for found, value in zip(weight.tolist(), expected, strict=True):
            least = 1e-37 if dtype == torch.float32 else 1e-300
            assert abs(found - value) <= (3e-7 if dtype == torch.float32 else 3e-10) * abs(value) + least


@pytest.mark.parametrize(
    ("latex", "scale"),
    [("10^{45} u = 1", 1.0), ("x^2 u = 1", 1e20), ("u = 10^{39}", 1.0), ("10^{-200} u = 10^{-200}", 1.0)],
)
def test_what_float32_cannot_hold_is_refused_with_advice(latex: str, scale: float):
    """Overflow and underflow in float32: an error that says float64, where the same in float64 is solved."""
    x = scale * torch.tensor([[0.2], [0.9]])
    with pytest.raises(ConstraintError, match="float64"):
        LINE.constraint(latex, at=x, name="a")
    basis = cnf.bases.RandomFourier(LINE, 20, 0.5 * scale)
    assert cnf.ConstrainedField(basis, LINE.constraint(latex, at=x.double(), name="a")).solve().certificate.exact


# -- differences and other points ------------------------------------------------------------------------------------

MIXED = {
    "u(1) - u(0) = 2": lambda u, x: u(1) - u(0) - 2,
    r"\int_0^1 u \, dx - u(0) = 1": lambda u, x: quad(u, [0, 1]) - u(0) - 1,
    r"\int_1^0 u \, dx + u = x": lambda u, x: -quad(u, [0, 1]) + u(x) - x,
    "u(x + 1) - u(x) = x": lambda u, x: u(x + 1) - u(x) - x,
    r"\int_x^{2x} u(s) \, ds + u(-3) = 1": lambda u, x: quad(u, [x, 2 * x]) + u(-3) - 1,
    r"\int_{-1}^{1} s u(x + 2 s) \, ds = x": lambda u, x: quad(lambda s: s * u(x + 2 * s), [-1, 1]) - x,
    r"\int_0^1 \int_0^s u(r) \, dr \, ds - \int_0^1 (1 - s) u(s) \, ds + u = x": lambda u, x: u(x) - x,
    r"\int_0^1 u'(s) \, ds - u(1) + u(0) + u(x) = 3": lambda u, x: u(x) - 3,
}


@pytest.mark.parametrize("latex", MIXED)
def test_differences_and_integrals_in_one_condition(latex: str):
    """Terms at several places, outside the points as well, added up: true for the solution asked value by value."""
    points = at(0.3, 0.8)
    solution = cnf.ConstrainedField(waves(bandwidth=0.7), LINE.constraint(latex, at=points, name="a")).solve()
    assert solution.certificate.exact
    for x in points[:, 0].tolist():
        assert MIXED[latex](field_on(solution), x) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("centre", [0.601, 1.3995])
@pytest.mark.parametrize("beside", [0.0, 0.1])
def test_jumps_beside_an_edge_are_cut(centre: float, beside: float):
    """The integral of a Gaussian truncated at three bandwidths, which end 0.001 or less inside of [0, 2], or on a line
    that passes its centre: the error function says how much it is."""
    width, half = 0.2, math.sqrt(0.36 - beside**2)
    basis = cnf.bases.Kernel(
        PLANE, torch.tensor([[centre, 0.5]], dtype=torch.float64), cnf.kernels.TruncatedGaussian(width)
    )
    line = torch.tensor([[0.3, 0.5 + beside]], dtype=torch.float64)
    asked = PLANE.constraint(r"\int_0^2 u \, dx = 1", at=line, name="a")
    solution = cnf.ConstrainedField(basis, asked).solve()
    ends = [max(0.0, centre - half) - centre, min(2.0, centre + half) - centre]
    share = [math.erf(end / width / math.sqrt(2)) for end in ends]
    height = float(solution(torch.tensor([[centre, 0.5 + beside]], dtype=torch.float64)).detach())
    assert solution.certificate.exact
    assert height * width * math.sqrt(math.pi / 2) * (share[1] - share[0]) == pytest.approx(1, abs=1e-12)


def test_integrals_that_would_take_hours_are_refused():
    """Double integrals of narrow kernels, each an integral itself: 1e12 kernels, and an error at once that says so."""
    points = torch.rand(6, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    asked = PLANE.constraint(r"\int_0^1 \int_0^1 u \, dx \, dy = x", at=points, name="a")
    basis = cnf.bases.Hermite(PLANE, [asked], cnf.kernels.Gaussian(0.005))
    with pytest.raises(cnf.errors.BasisError, match="hours"):
        cnf.ConstrainedField(basis, asked)
