"""Properties: what every basis says of itself is what it does; `recommend` and `"auto"` follow from it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

import cnf
from cnf import bases, encoders, kernels
from cnf.bases import (
    CATALOGUE,
    Basis,
    Cells,
    ConstraintLayer,
    Hermite,
    Hybrid,
    Hypernet,
    HypernetKernel,
    Independent,
    Kernel,
    Piecewise,
    Polynomial,
    Properties,
    RandomFourier,
    SkewedRBF,
    properties_table,
    recommend,
)
from cnf.errors import BasisError, RepeatedAnchorError

PLANE = cnf.Space("x y", "u")
BOX = cnf.Box((0, 0), (1, 1))
CODES = 6


def smooth(p: Tensor) -> Tensor:
    return torch.sin(3 * p[:, 0]) * torch.exp(p[:, 1])


def smooth_gradient(p: Tensor) -> Tensor:
    return torch.stack([3 * torch.cos(3 * p[:, 0]), torch.sin(3 * p[:, 0])], dim=1) * torch.exp(p[:, 1:])


def values(count: int) -> list[cnf.Constraint]:
    return [PLANE.constraint("u", at=BOX.halton(count, seed=1), equals=smooth, name="value")]


def values_and_gradients(count: int) -> list[cnf.Constraint]:
    at = BOX.halton(count, seed=1)
    value = PLANE.constraint("u", at=at, equals=smooth, name="value")
    return [value, PLANE.constraint(r"\nabla u", at=at, equals=smooth_gradient, name="gradient")]


def rows(constraints: list[cnf.Constraint]) -> int:
    return sum(c.values.numel() for c in constraints)


def network(outputs: int, seed: int = 0) -> encoders.SIREN:
    return encoders.SIREN(2, outputs, hidden=(32,), omega=8.0, seed=seed)


def in_stripes(count: int) -> Piecewise:
    """Polynomials on cells side by side."""
    cells = Cells([0, 0], [1, 1])
    while cells.count < count:
        cells = cells.cut(range(cells.count), 0)
    return Piecewise(PLANE, cells, 6)


BUILD: dict[str, Callable[[list[cnf.Constraint]], Basis]] = {
    "Independent": lambda c: Independent(PLANE, [network(1, seed=k) for k in range(rows(c))]),
    "ConstraintLayer": lambda c: ConstraintLayer(PLANE, network(64)),
    "Hypernet": lambda c: Hypernet(PLANE, network(1), rows(c), codes=CODES),
    "Kernel": lambda c: Kernel(PLANE, c, kernels.Gaussian(0.2)),
    "HypernetKernel": lambda c: HypernetKernel(PLANE, c, network(16), codes=CODES),
    "Hybrid": lambda c: Hybrid(Kernel(PLANE, c, kernels.Gaussian(0.3)), kernels.Wendland(3, 0.6)),
    "SkewedRBF": lambda c: SkewedRBF(PLANE, c, bandwidth=0.15),
    "Hermite": lambda c: Hermite(PLANE, c, kernels.Gaussian(0.2)),
    "RandomFourier": lambda c: RandomFourier(PLANE, 2 * rows(c), 0.3),
    "Piecewise": lambda c: in_stripes(2),
    "Polynomial": lambda c: Polynomial(PLANE, 10, center=0.5, scale=0.5),
}
each_basis = pytest.mark.parametrize("name", list(CATALOGUE))


# -- the catalogue ---------------------------------------------------------------------------------------------------


def test_every_basis_is_in_the_catalogue():
    """All public classes but Basis itself and Concat, which is as its members are."""
    public = {
        name
        for name in bases.__all__
        if inspect.isclass(getattr(bases, name)) and issubclass(getattr(bases, name), Basis)
    }
    assert public - {"Basis", "Concat"} == set(CATALOGUE) == set(BUILD)
    for name, properties in CATALOGUE.items():
        assert isinstance(properties, Properties)
        assert properties is getattr(bases, name).properties
        assert properties.capacity in ("none", "poor", "fair", "good")
        assert properties.independence in ("poor", "fair", "good")
        assert properties.smoothness.strip()


def test_the_table_in_the_documentation_is_printed_from_the_code():
    """docs/bases.md between its markers; to renew it, print properties_table(CATALOGUE)."""
    text = (Path(__file__).parents[2] / "docs" / "bases.md").read_text()
    assert text.count("<!-- properties -->") == text.count("<!-- /properties -->") == 1
    table = text.split("<!-- properties -->")[1].split("<!-- /properties -->")[0]
    assert table.strip() == properties_table(CATALOGUE)


def test_the_table_has_one_row_per_basis_and_one_column_per_property():
    lines = properties_table({"A": Properties("good", "poor", True, False, True, False, "any")}).splitlines()
    assert lines[2] == "| `A` | good | poor | yes | no | yes | no | any |"
    assert len({line.count("|") for line in lines}) == 1


def test_a_dot_product_is_no_gaussian():
    """Six points, an encoder with two features: the matrix of a dot-product kernel has rank 2, that of a Gaussian 6."""
    points, encoder = BOX.halton(6, seed=1), encoders.MLP(2, 2, hidden=[8], seed=0)
    ranks = {}
    for kernel in (kernels.DotProduct(), kernels.Gaussian(0.3)):
        basis = Kernel(PLANE, points, kernel, encoder)
        ranks[type(kernel).__name__] = int(torch.linalg.matrix_rank(basis(points).reshape(6, 6)))
        assert basis.properties is not None
        assert (basis.properties.independence, basis.properties.sparse) == (
            ("poor", False) if ranks[type(kernel).__name__] == 2 else ("good", True)
        )
    assert ranks == {"DotProduct": 2, "Gaussian": 6} and Kernel.properties is CATALOGUE["Kernel"]


# -- facts -----------------------------------------------------------------------------------------------------------


def trainable(basis: Basis) -> int:
    return sum(p.numel() for p in basis.parameters() if p.requires_grad)


@each_basis
def test_parameters_independent_of_the_conditions(name: str):
    """20 and 40 conditions: as many parameters, where the paper says so; a hypernetwork's one-hot codes apart.

    A one-hot input grows with the number of functions by definition; what must not grow is everything else.
    """
    few, many = (BUILD[name](values(count)) for count in (20, 40))
    assert all(basis.size >= count for basis, count in ((few, 20), (many, 40)))
    codes = CODES * (many.size - few.size) if name in ("Hypernet", "HypernetKernel") else 0
    grown = trainable(many) - trainable(few) - codes
    assert (grown == 0) == CATALOGUE[name].parameters_independent
    assert grown >= 0


@each_basis
def test_repeated_anchors(name: str):
    """Value and gradient at the same 10 points hold, or are refused with the two bases that can."""
    constraints = values_and_gradients(10)
    if not CATALOGUE[name].repeated_anchors:
        with pytest.raises(RepeatedAnchorError, match=r"Hermite.*HypernetKernel"):
            BUILD[name](constraints)
        return
    field = cnf.ConstrainedField(BUILD[name](constraints), constraints)
    solution = field.solve()
    at = constraints[0].points
    assert solution.certificate.exact
    assert (solution(at)[:, 0] - smooth(at)).abs().max() <= 1e-8
    assert (solution.apply(r"\nabla u", at) - smooth_gradient(at)).abs().max() <= 1e-8


@each_basis
def test_controllable_sparsity(name: str):
    """A smaller radius makes more entries of the system exactly zero; without such a setting none is."""

    def zeros(basis: Basis) -> float:
        return float((basis(BOX.halton(60, seed=4)) == 0).double().mean())

    if not CATALOGUE[name].controllable_sparsity:
        assert zeros(BUILD[name](values(20))) == 0
        assert getattr(BUILD[name](values(20)), "support", None) is None
        return
    made = []
    for radius in (0.2, 0.5, 3.0):
        window = kernels.Wendland(3, radius)
        inside = Kernel(PLANE, values(20), kernels.Gaussian(0.3))
        made.append(Hybrid(inside, window) if name == "Hybrid" else Hermite(PLANE, values(20), window))
    if name == "Piecewise":
        made = [in_stripes(count) for count in (16, 4, 1)]
    found = [zeros(basis) for basis in made]
    assert found[0] > found[1] > found[2] == 0
    assert found[0] > 0.8


@each_basis
def test_sparse_means_small_far_away(name: str):
    """Functions called local have most of their entries far below the largest when their length is short."""
    if not CATALOGUE[name].sparse:
        values_far = BUILD[name](values(40))(BOX.halton(60, seed=4)).abs()
        assert float((values_far < 1e-6 * values_far.max()).double().mean()) < 0.5
        return
    short = {
        "Kernel": lambda c: Kernel(PLANE, c, kernels.Gaussian(0.05)),
        "HypernetKernel": lambda c: HypernetKernel(PLANE, c, network(16), kernels.Gaussian(0.02), codes=CODES),
        "Hybrid": lambda c: Hybrid(Kernel(PLANE, c, kernels.Gaussian(0.3)), kernels.Wendland(3, 0.15)),
        "SkewedRBF": lambda c: SkewedRBF(PLANE, c, bandwidth=0.05),
        "Hermite": lambda c: Hermite(PLANE, c, kernels.Gaussian(0.05)),
        "Piecewise": lambda c: in_stripes(16),
    }
    found = short[name](values(40))(BOX.halton(60, seed=4)).abs()
    assert float((found < 1e-6).double().mean()) > 0.5


@each_basis
def test_any_order_means_no_limit(name: str):
    basis = BUILD[name](values(20))
    if CATALOGUE[name].smoothness == "any order":
        assert basis.smoothness is None


# -- recommend -------------------------------------------------------------------------------------------------------


def test_few_conditions_get_waves():
    found = recommend(values(50))
    assert isinstance(found.basis, RandomFourier)
    assert found.basis.size == 100
    assert "50 conditions" in found.reason
    assert "dense" in found.reason
    assert str(found).startswith("RandomFourier: ")


def test_value_and_gradient_get_hermite():
    found = recommend(values_and_gradients(20))
    assert isinstance(found.basis, Hermite)
    assert "share a point" in found.reason
    assert "distinct" in found.reason


def test_many_conditions_get_a_sparse_basis():
    at = BOX.grid(60)
    found = recommend(PLANE.constraint("u", at=at, equals=smooth))
    assert isinstance(found.basis, Hybrid)
    assert found.basis.size == 3600
    assert "3600 conditions" in found.reason
    assert "sparse" in found.reason
    radius = float(found.basis.support.detach())
    assert 2 / 59 < radius < 20 / 59  # follows the spacing of the points


def test_many_conditions_that_share_points_get_sparse_hermite():
    at = BOX.grid(40)
    value = PLANE.constraint("u", at=at, equals=smooth, name="value")
    found = recommend([value, PLANE.constraint(r"\nabla u", at=at, equals=smooth_gradient, name="gradient")])
    assert isinstance(found.basis, Hermite)
    assert isinstance(found.basis.kernel, kernels.Wendland)
    assert "sparse" in found.reason
    assert "share a point" in found.reason


def test_lengths_follow_the_spacing_and_the_reach():
    """Points twice as far apart, or twice the reach: twice the bandwidth."""
    near = PLANE.constraint("u", at=BOX.grid(7), equals=1.0)
    far = PLANE.constraint("u", at=2 * BOX.grid(7), equals=1.0)
    lengths = [float(recommend(c).basis.bandwidth.detach()) for c in (near, far)]
    assert lengths[1] == pytest.approx(2 * lengths[0], rel=1e-12)
    assert float(recommend(near, reach=2.0).basis.bandwidth.detach()) == pytest.approx(lengths[1], rel=1e-12)


@pytest.mark.parametrize("given", [[], ["u"], None, 3])
def test_only_constraints_are_recommended_for(given):
    with pytest.raises(BasisError, match="list of constraints"):
        recommend(given)


@pytest.mark.parametrize("reach", [0, -1.0, float("nan"), "wide", None])
def test_reach_is_a_positive_number(reach):
    with pytest.raises(BasisError, match="positive number"):
        recommend(values(20), reach=reach)


# -- auto ------------------------------------------------------------------------------------------------------------


def rough(p: Tensor) -> Tensor:
    return torch.randn(p.shape[0], dtype=p.dtype, generator=torch.Generator().manual_seed(0))


def poisson() -> list[cnf.Constraint]:
    edge = BOX.boundary(9)
    inside = cnf.Box((0.1, 0.1), (0.9, 0.9)).grid(7)
    return [
        PLANE.constraint("u", at=edge, equals=smooth, name="edge"),
        PLANE.constraint(r"\Delta u", at=inside, equals=lambda p: -8 * smooth(p), name="poisson"),
    ]


PROBLEMS = {
    "smooth": lambda: values(60),
    "rough": lambda: [PLANE.constraint("u", at=BOX.random(60, torch.Generator().manual_seed(4)), equals=rough)],
    "value and gradient": lambda: values_and_gradients(25),
    "pde": poisson,
    "one condition": lambda: values(1),
}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_auto_is_exact(problem: str):
    """Without a word about the basis all conditions hold, as measured by the field evaluated again."""
    constraints = PROBLEMS[problem]()
    field = cnf.ConstrainedField("auto", constraints)
    solution = field.solve()
    assert solution.certificate.exact
    for c in constraints:
        found = solution.apply(c.operator, c.points)
        assert (found - c.values).abs().max() <= 1e-7 * c.values.abs().max()
    assert field.recommendation.basis is field.basis
    assert len(field.recommendation.reason.split()) > 8


def test_auto_is_accurate_between_the_points():
    """Smooth data at 60 points and Poisson's equation: close to the solution elsewhere as well."""
    x = cnf.Box((0.1, 0.1), (0.9, 0.9)).halton(50, seed=9)
    for constraints, bound in ((values(60), 2e-2), (poisson(), 1e-3)):
        found = cnf.ConstrainedField("auto", constraints).solve()(x)[:, 0]
        assert (found - smooth(x)).abs().max() <= bound * smooth(x).abs().max()


def test_auto_for_several_channels():
    """A divergence-free flow with prescribed values at other points: the conditions couple the channels."""
    space = cnf.Space("x y", "u v")
    at = BOX.halton(20, seed=1)
    flow = [
        space.constraint(r"\partial_x u + \partial_y v", at=BOX.halton(20, seed=5), equals=0, name="divergence"),
        space.constraint("u", at=at, equals=smooth, name="u"),
        space.constraint("v", at=at, equals=1.0, name="v"),
    ]
    assert cnf.ConstrainedField("auto", flow).solve().certificate.exact


def test_other_words_are_refused():
    for word in ("fourier", "Auto", ""):
        with pytest.raises(BasisError, match="'auto'"):
            cnf.ConstrainedField(word, values(5))


def test_a_basis_of_ones_own_has_no_recommendation():
    assert cnf.ConstrainedField(RandomFourier(PLANE, 30, 0.4), values(10)).recommendation is None
