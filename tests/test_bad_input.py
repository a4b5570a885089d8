"""Bad input: every mistake is a CnfError that names the constraint and says what to do, never a bare torch error."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cnf
from cnf import encoders, kernels
from cnf.bases import Hermite, Kernel, Polynomial, RandomFourier, SkewedRBF
from cnf.errors import (
    BasisError,
    CnfError,
    ConstraintError,
    OperatorError,
    RepeatedAnchorError,
    SmoothnessError,
    SmoothnessWarning,
)
from cnf.operators import gradient, identity, partial, stacked
from tests.bases.contract import OwnBasis

PLANE = cnf.Space("x y", "u")
AT = cnf.Box((0, 0), (1, 1)).halton(8, seed=1)


def field(**options: object) -> cnf.ConstrainedField:
    return cnf.ConstrainedField(RandomFourier(PLANE, 40, 0.3), PLANE.constraint("u", at=AT, equals=1.0), **options)


def spoiled(value: float) -> Tensor:
    points = AT.clone()
    points[3, 1] = value
    return points


class TestPoints:
    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    def test_not_finite(self, value: float):
        with pytest.raises(ConstraintError, match=r"'wall': 1 of 8 points are NaN or infinite; remove or repair"):
            PLANE.constraint("u", at=spoiled(value), equals=1.0, name="wall")

    @pytest.mark.parametrize("shape", [(8, 3), (8, 1), (8,), (2, 2, 2), ()])
    def test_wrong_width(self, shape: tuple[int, ...]):
        with pytest.raises(ConstraintError, match=r"'wall': points of shape .* expected \(number of points, 2\)"):
            PLANE.constraint("u", at=torch.zeros(shape), equals=1.0, name="wall")

    def test_none(self):
        with pytest.raises(ConstraintError, match="'wall': no points given; a constraint needs at least one"):
            PLANE.constraint("u", at=torch.zeros(0, 2), equals=1.0, name="wall")

    def test_missing(self):
        with pytest.raises(ConstraintError, match="'wall': give the points where it must hold, at=points"):
            PLANE.constraint("u", equals=1.0, name="wall")

    @pytest.mark.parametrize("at", ["abc", object(), [[1, 2], [3]], [["a", "b"]], {"x": 1}, [None, None]])
    def test_nonsense(self, at: object):
        with pytest.raises(ConstraintError, match=r"'wall': .*points"):
            PLANE.constraint("u", at=at, equals=1.0, name="wall")

    def test_complex(self):
        with pytest.raises(ConstraintError, match="'wall': the points are complex; expected real"):
            PLANE.constraint("u", at=AT.to(torch.complex128), equals=1.0, name="wall")

    def test_integers_lists_and_arrays_are_fine(self):
        """Whole numbers, lists and NumPy arrays are points too: float64, and the conditions hold."""
        for at in (torch.tensor([[0, 1], [1, 0]]), [[0, 1], [1, 0]], np.array([[0, 1], [1, 0]], dtype=np.int32)):
            constraint = PLANE.constraint("u", at=at, equals=torch.tensor([1, 2]), name="corner")
            assert constraint.points.dtype == torch.float64
            solution = cnf.ConstrainedField(RandomFourier(PLANE, 20, 0.5), constraint).solve()
            assert (solution(at)[:, 0] - torch.tensor([1.0, 2.0])).abs().max() <= 1e-12

    def test_half_precision_becomes_single(self):
        constraint = PLANE.constraint("u", at=AT.half(), equals=1.0, name="wall")
        assert constraint.points.dtype == torch.float32


class TestValues:
    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    def test_not_finite(self, value: float):
        sides = torch.ones(8, dtype=torch.float64)
        sides[2] = value
        for equals in (sides, lambda p: sides):
            with pytest.raises(ConstraintError, match=r"'wall': 1 of 8 values are NaN or infinite; remove or repair"):
                PLANE.constraint("u", at=AT, equals=equals, name="wall")
        with pytest.raises(ConstraintError, match="'wall': 8 of 8 values are NaN or infinite"):
            PLANE.constraint("u", at=AT, equals=value, name="wall")

    def test_not_finite_in_the_equation(self):
        """1/x at x = 0 on the right-hand side."""
        at = torch.tensor([[1.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
        with pytest.raises(ConstraintError, match="'wall': 1 of 2 values are NaN or infinite"):
            PLANE.constraint(r"u = \frac{1}{x}", at=at, name="wall")

    @pytest.mark.parametrize("shape", [(7,), (8, 2), (1, 8), (8, 1, 1)])
    def test_wrong_shape(self, shape: tuple[int, ...]):
        for equals in (torch.zeros(shape), lambda p: torch.zeros(shape)):
            with pytest.raises(ConstraintError, match=r"'wall': .*expected"):
                PLANE.constraint("u", at=AT, equals=equals, name="wall")

    def test_one_value_per_point_for_a_gradient(self):
        with pytest.raises(ConstraintError, match=r"'wall': one value per point .* 2 rows; expected \(8, 2\)"):
            PLANE.constraint(gradient(), at=AT, equals=torch.zeros(8), name="wall")

    def test_missing_and_given_twice(self):
        with pytest.raises(ConstraintError, match="'wall': say what the operator equals"):
            PLANE.constraint("u", at=AT, name="wall")
        with pytest.raises(ConstraintError, match="'wall': the equation has a right-hand side already; leave out"):
            PLANE.constraint("u = 1", at=AT, equals=2.0, name="wall")

    @pytest.mark.parametrize("equals", ["abc", object(), {"a": 1}, [[1, 2], [3]]])
    def test_nonsense(self, equals: object):
        with pytest.raises(ConstraintError, match=r"'wall': .*values"):
            PLANE.constraint("u", at=AT, equals=equals, name="wall")

    @pytest.mark.parametrize("result", ["abc", None, object()])
    def test_a_callable_that_returns_nonsense(self, result: object):
        with pytest.raises(ConstraintError, match=r"'wall': .*values"):
            PLANE.constraint("u", at=AT, equals=lambda p: result, name="wall")

    def test_complex(self):
        with pytest.raises(ConstraintError, match="'wall': the values are complex"):
            PLANE.constraint("u", at=AT, equals=torch.zeros(8, dtype=torch.complex64), name="wall")


class TestOperators:
    @pytest.mark.parametrize("position", [0, 5])
    def test_a_coefficient_that_is_not_finite_at_some_point(self, position: int):
        """u / x with x = 0 at the first point, or at a later one."""
        at = AT.clone()
        at[position, 0] = 0.0
        with pytest.raises(ConstraintError, match=r"'wall': a coefficient .* NaN or infinite at some points"):
            PLANE.constraint(r"\frac{1}{x} u", at=at, equals=1.0, name="wall")

    def test_per_point_coefficients_of_another_length(self):
        with pytest.raises(ConstraintError, match="'wall': the coefficient 'w' has 5 values for 8 points"):
            PLANE.constraint("w u", at=AT, equals=1.0, w=torch.ones(5), name="wall")

    @pytest.mark.parametrize("value", [math.nan, math.inf, None, "abc", True, [1, "a"]])
    def test_coefficients_that_make_no_sense(self, value: object):
        with pytest.raises(OperatorError, match="a"):
            PLANE.constraint("a u", at=AT, equals=1.0, a=value, name="wall")

    def test_zero(self):
        with pytest.raises(ConstraintError, match="'wall': the operator is zero"):
            PLANE.constraint("u - u", at=AT, equals=1.0, name="wall")

    def test_one_row_that_is_zero(self):
        """(u, 0) = (1, 2): the second row asks 0 = 2. It must not be dropped in silence."""
        nothing = identity() - identity()
        with pytest.raises(ConstraintError, match=r"'wall': row 2 of the operator is zero"):
            PLANE.constraint(stacked([identity(), nothing]), at=AT, equals=torch.tensor([[1.0, 2.0]]), name="wall")

    @pytest.mark.parametrize("asked", [5, None, object(), ["u"], torch.ones(2)])
    def test_nonsense(self, asked: object):
        with pytest.raises(OperatorError, match="expected LaTeX or an operator"):
            PLANE.constraint(asked, at=AT, equals=1.0, name="wall")
        with pytest.raises(OperatorError, match="expected LaTeX or an operator"):
            field().solve().apply(asked, AT)

    def test_of_another_space(self):
        other = cnf.Space("x t", "u").operator("u_t")
        with pytest.raises(OperatorError, match="belongs to a space with coordinates"):
            PLANE.constraint(other, at=AT, equals=1.0, name="wall")
        with pytest.raises(OperatorError, match="no coordinate 'q'; the space has x, y"):
            PLANE.constraint(partial("q"), at=AT, equals=1.0, name="wall")

    @pytest.mark.parametrize("name", ["", "   ", 5, ["a"]])
    def test_names(self, name: object):
        with pytest.raises(ConstraintError, match="name of a constraint must be a string"):
            PLANE.constraint("u", at=AT, equals=1.0, name=name)


class TestSpaces:
    @pytest.mark.parametrize(
        ("coordinates", "channels"),
        [
            ("", "u"),
            ("x", ""),
            ("x x", "u"),
            ("x", "x"),
            ("1x", "u"),
            ("x", "u-v"),
            (5, "u"),
            ("x", None),
            ([1, 2], "u"),
        ],
    )
    def test_names(self, coordinates: object, channels: object):
        with pytest.raises(CnfError):
            cnf.Space(coordinates, channels)

    def test_boxes(self):
        for lower, upper in [
            ((0, 0), (1,)),
            ((0,), (0,)),
            ((1.0,), (0.0,)),
            ((math.nan,), (1.0,)),
            ((), ()),
            ("a", "b"),
        ]:
            with pytest.raises(ConstraintError, match=r"box|corner"):
                cnf.Box(lower, upper)


class TestSmoothness:
    """Derivatives the basis does not have: refused with the constraint's name, for conditions and for `apply`."""

    ROUGH = (
        (kernels.Matern(0.5, 0.3), "u_x", 0),
        (kernels.Matern(1.5, 0.3), "u_{xxx}", 2),
        (kernels.Wendland(0, 1.0), "u_y", 0),
        (kernels.Wendland(1, 1.0), r"\Delta^2 u", 2),
        (kernels.TruncatedGaussian(0.3), r"\nabla u", 0),
    )

    @pytest.mark.parametrize(("kernel", "latex", "limit"), ROUGH, ids=lambda v: str(v) if isinstance(v, str) else "")
    def test_kernels(self, kernel, latex: str, limit: int):
        basis = Kernel(PLANE, AT, kernel)
        with pytest.raises(SmoothnessError, match=rf"'wall' takes derivatives of order .* up to order {limit}; use"):
            cnf.ConstrainedField(basis, PLANE.constraint(latex, at=AT[:3] + 0.1, equals=1.0, name="wall"))
        solution = cnf.ConstrainedField(basis, PLANE.constraint("u", at=AT, equals=1.0, name="value")).solve()
        with pytest.raises(SmoothnessError, match=f"up to order {limit}"):
            solution.apply(latex, AT)

    def test_relu(self):
        """One derivative with a warning, a second refused."""
        basis = Kernel(PLANE, AT, kernels.Gaussian(1.0), encoders.MLP(2, 8, (16,), activation="relu"))
        with pytest.warns(SmoothnessWarning, match="ReLU"):
            cnf.ConstrainedField(basis, PLANE.constraint("u_x", at=AT, equals=1.0, name="wall"))
        with pytest.raises(SmoothnessError, match="'wall' takes derivatives of order 2"):
            cnf.ConstrainedField(basis, PLANE.constraint("u_{xx}", at=AT, equals=1.0, name="wall"))

    def test_hermite(self):
        """Hermite differentiates its kernel twice as often as the conditions do."""
        slope = PLANE.constraint("u_{xx}", at=AT, equals=1.0, name="wall")
        with pytest.raises(BasisError, match="differentiates its kernel 4 times"):
            Hermite(PLANE, [slope], kernels.Matern(1.5, 0.3))


class TestBases:
    def test_value_and_gradient_at_one_point(self):
        """Under one shared kernel their columns are equal: refused, naming both constraints and the way out."""
        constraints = [
            PLANE.constraint("u", at=AT, equals=1.0, name="value"),
            PLANE.constraint("u_x", at=AT, equals=0.0, name="slope"),
        ]
        for build in (Kernel, SkewedRBF):
            with pytest.raises(RepeatedAnchorError, match=r"'value' and 'slope'.*cnf\.bases\.Hermite"):
                build(PLANE, constraints)
        solution = cnf.ConstrainedField(Hermite(PLANE, constraints, kernels.Gaussian(0.3)), constraints).solve()
        assert solution.certificate.exact

    @pytest.mark.parametrize("bandwidth", [0.0, -1.0, math.nan, math.inf, [0.1, 0.0], "wide", None])
    def test_bandwidths(self, bandwidth: object):
        for build in (
            lambda: kernels.Gaussian(bandwidth),
            lambda: kernels.Matern(2.5, bandwidth),
            lambda: RandomFourier(PLANE, 10, bandwidth),
            lambda: SkewedRBF(PLANE, AT, bandwidth),
        ):
            with pytest.raises(BasisError, match="bandwidth"):
                build()

    @pytest.mark.parametrize("size", [0, -3, 2.5, "ten", None, True])
    def test_sizes(self, size: object):
        with pytest.raises(BasisError, match="size"):
            RandomFourier(PLANE, size)

    @pytest.mark.parametrize("degree", [-1, 1.5, "two", None])
    def test_degrees(self, degree: object):
        with pytest.raises(BasisError, match="degree"):
            Polynomial(PLANE, degree)

    @pytest.mark.parametrize("space", ["x y", None, 5])
    def test_spaces(self, space: object):
        for build in (
            lambda: RandomFourier(space, 10),
            lambda: Polynomial(space, 2),
            lambda: Kernel(space, AT),
            lambda: SkewedRBF(space, AT),
            lambda: OwnBasis(space, 5),
        ):
            with pytest.raises(BasisError, match="a basis starts with its space"):
                build()

    @pytest.mark.parametrize("anchors", [spoiled(math.nan), torch.zeros(0, 2), torch.zeros(4, 3), "abc", []])
    def test_anchors(self, anchors: object):
        with pytest.raises(CnfError, match=r"anchors|points"):
            Kernel(PLANE, anchors)

    def test_modules(self):
        with pytest.raises(BasisError, match=r"kernel must be one of cnf.kernels"):
            Kernel(PLANE, AT, kernel="gaussian")
        with pytest.raises(BasisError, match="encoder must be a torch module"):
            Kernel(PLANE, AT, encoder=lambda x: x)
        with pytest.raises(BasisError, match="network must be a torch module"):
            cnf.bases.ConstraintLayer(PLANE, lambda x: x)
        with pytest.raises(BasisError, match="at least one network"):
            cnf.bases.Independent(PLANE, [])
        with pytest.raises(BasisError, match="Concat takes a list of bases"):
            cnf.bases.Concat([])

    def test_an_encoder_for_another_width(self):
        """An encoder of three coordinates in a plane: said when the basis is built, in our words."""
        with pytest.raises(BasisError, match="encoder"):
            Kernel(PLANE, AT, kernels.Gaussian(1.0), encoders.MLP(3, 8, (8,)))
        with pytest.raises(BasisError, match="network"):
            cnf.bases.ConstraintLayer(PLANE, encoders.MLP(3, 8, (8,)))

    def test_own_bases_that_return_something_else(self):
        class Flat(cnf.bases.Basis):
            def forward(self, x: Tensor) -> Tensor:
                return x[:, 0]

        with pytest.raises(BasisError, match=r"Flat.forward returned \(1,\) for one point; expected \(1, N\)"):
            cnf.ConstrainedField(Flat(PLANE), PLANE.constraint("u", at=AT, equals=1.0))

        class Empty(cnf.bases.Basis):
            pass

        with pytest.raises((BasisError, NotImplementedError), match="Empty needs a method forward"):
            cnf.ConstrainedField(Empty(PLANE, 3), PLANE.constraint("u", at=AT[:2], equals=1.0)).solve()

    def test_a_basis_that_is_not_finite(self):
        """A bandwidth that ran away in training gives an error in words, not a failing factorisation."""
        constrained = field()
        constrained.basis.log_bandwidth.data.fill_(-1e4)
        with pytest.raises(BasisError, match="not finite at the points"):
            constrained.solve()


class TestFields:
    @pytest.mark.parametrize("constraints", [[], None, 5, ["u = 0"], [None]])
    def test_constraints(self, constraints: object):
        with pytest.raises(ConstraintError, match="at least one constraint"):
            cnf.ConstrainedField(RandomFourier(PLANE, 10), constraints)

    def test_two_constraints_of_one_name(self):
        pair = [PLANE.constraint("u", at=AT, equals=1.0, name="wall") for _ in range(2)]
        with pytest.raises(ConstraintError, match="two constraints are called 'wall'; give each its own name="):
            cnf.ConstrainedField(RandomFourier(PLANE, 40), pair)

    def test_another_space(self):
        other = cnf.Space("x t", "u").constraint("u", at=AT, equals=1.0, name="wall")
        with pytest.raises(ConstraintError, match="'wall' belongs to another space"):
            cnf.ConstrainedField(RandomFourier(PLANE, 40), other)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"tolerance": 0.0}, "tolerance is a positive number"),
            ({"tolerance": -1.0}, "tolerance is a positive number"),
            ({"tolerance": math.nan}, "tolerance is a positive number"),
            ({"tolerance": "small"}, "tolerance is a positive number"),
            ({"on_violation": "ignore"}, "'raise' or 'warn'"),
            ({"solver": "LU"}, "solver must be one of cnf.solvers"),
            ({"solver": cnf.solvers.LU}, "solver must be one of cnf.solvers"),
            ({"base": lambda x: x}, "base must be a torch module"),
        ],
    )
    def test_options(self, options: dict, message: str):
        with pytest.raises(CnfError, match=message):
            field(**options)

    def test_something_else_than_a_basis(self):
        for basis in (nn.Linear(2, 5), None, "RandomFourier"):
            with pytest.raises(BasisError, match="the first argument is a basis"):
                cnf.ConstrainedField(basis, PLANE.constraint("u", at=AT, equals=1.0))

    @pytest.mark.parametrize(
        "x", ["abc", object(), None, torch.zeros(3, 3), torch.zeros(2, 2, 3), torch.zeros(3), [[1], [2, 3]]]
    )
    def test_queries(self, x: object):
        solution = field().solve()
        for ask in (solution, lambda p: solution.apply("u_x", p)):
            with pytest.raises(ConstraintError, match="points"):
                ask(x)

    def test_queries_that_are_complex(self):
        with pytest.raises(ConstraintError, match="complex"):
            field().solve()(AT.to(torch.complex128))


class TestPrecisions:
    """float32 and float64 in any mixture: the points decide, nothing fails."""

    def test_values_in_single_for_points_in_double(self):
        solution = cnf.ConstrainedField(
            RandomFourier(PLANE, 40, 0.3), PLANE.constraint("u", at=AT, equals=torch.ones(8), name="wall")
        ).solve()
        assert solution.weights.dtype == torch.float64
        assert (solution(AT) - 1).abs().max() <= 1e-12

    def test_values_in_double_for_points_in_single(self):
        constraint = PLANE.constraint("u", at=AT.float(), equals=torch.ones(8, dtype=torch.float64), name="wall")
        assert constraint.values.dtype == torch.float32

    def test_networks_in_single_everywhere(self):
        """A float32 encoder, base, coefficient network and right-hand side network with float64 points."""

        def network(outputs: int) -> nn.Module:
            return nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, outputs))

        torch.manual_seed(3)
        kappa, side = network(1), network(1)
        constraints = [
            PLANE.constraint("k u + u_x", at=AT[:4], equals=1.0, k=kappa, name="pde"),
            PLANE.constraint("u", at=AT[4:], equals=side, name="wall"),
        ]
        basis = Kernel(PLANE, cnf.Box((0, 0), (1, 1)).halton(16), kernels.Gaussian(0.2), None)
        solution = cnf.ConstrainedField(basis, constraints, base=network(1)).solve()
        assert solution.weights.dtype == torch.float64
        assert (solution(AT[4:]) - side(AT[4:].float())).abs().max() <= 1e-6
        solution(AT).sum().backward()
        assert all(p.grad is not None for p in kappa.parameters())
        for at in (AT, AT.float()):
            encoded = Kernel(PLANE, at, kernels.Gaussian(1.0), network(6))
            found = cnf.ConstrainedField(encoded, PLANE.constraint("u", at=at, equals=1.0)).solve()(at)
            assert found.dtype == at.dtype

    def test_one_basis_in_two_fields(self):
        """A basis used for a float64 field first and a float32 one later must not break the first in silence."""
        basis = RandomFourier(PLANE, 40, 0.3)
        double = cnf.ConstrainedField(basis, PLANE.constraint("u", at=AT, equals=1.0))
        double.solve()
        cnf.ConstrainedField(basis, PLANE.constraint("u", at=AT.float(), equals=1.0)).solve()
        with pytest.raises(CnfError, match="float32"):
            double.solve()


@pytest.mark.parametrize("layer", [nn.Dropout(0.3), nn.BatchNorm1d(8, dtype=torch.float64)])
def test_unsteady_base_networks_are_refused_in_training_mode_only(layer):
    """Dropout answers anew at each call and batch normalisation mixes points: no condition could hold."""
    base = nn.Sequential(nn.Linear(2, 8, dtype=torch.float64), layer, nn.Linear(8, 1, dtype=torch.float64))
    wall = PLANE.constraint("u", at=AT, equals=0.0, name="wall")
    field = cnf.ConstrainedField(cnf.bases.RandomFourier(PLANE, 40, 0.5), wall, base=base)
    with pytest.raises(cnf.errors.BasisError, match="eval mode"):
        field.solve()
    field.eval()
    assert float(field(AT).abs().max()) < 1e-12


def test_a_base_network_of_the_wrong_width_is_explained():
    wall = PLANE.constraint("u", at=AT, equals=0.0, name="wall")
    field = cnf.ConstrainedField(cnf.bases.RandomFourier(PLANE, 40, 0.5), wall, base=nn.Linear(3, 1))
    with pytest.raises(cnf.errors.CnfError, match=r"must map \(P, 2\) to \(P, 1\)"):
        field.solve()
