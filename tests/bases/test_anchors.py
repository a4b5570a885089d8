"""Anchors: several conditions at one point under one kernel are found before the solve, and the way out works."""

from __future__ import annotations

import pytest
import torch

import cnf
from cnf import kernels
from cnf.bases import Hermite, Kernel, SkewedRBF
from cnf.errors import BasisError, RepeatedAnchorError
from cnf.operators import gradient

PLANE = cnf.Space("x y", "u")
AT = cnf.Box((0, 0), (1, 1)).halton(7, seed=2)
every_basis = pytest.mark.parametrize("build", [Kernel, SkewedRBF])


def value_and_slope() -> list[cnf.Constraint]:
    return [
        PLANE.constraint("u", at=AT, equals=lambda p: p[:, 0] * p[:, 1], name="value"),
        PLANE.constraint(gradient(), at=AT[2:5], equals=lambda p: p.flip(1), name="slope"),
    ]


@every_basis
def test_repeated_points_are_refused(build):
    """The same point twice in a tensor: says where, how many, and what to use instead."""
    points = torch.cat([AT, AT[3:4]])
    where = ", ".join(f"{v:.6g}" for v in AT[3].tolist())
    with pytest.raises(RepeatedAnchorError, match=rf"1 pairs of anchors coincide, the first at \({where}\)"):
        build(PLANE, points)
    with pytest.raises(RepeatedAnchorError, match=r"Hermite.*remove the copies"):
        build(PLANE, points)


@every_basis
def test_points_that_differ_by_rounding_are_refused(build):
    """1e-15 apart is the same point; 1e-6 apart is not."""
    with pytest.raises(RepeatedAnchorError):
        build(PLANE, torch.cat([AT, AT[3:4] + 1e-15]))
    assert build(PLANE, torch.cat([AT, AT[3:4] + 1e-6])).size == 8


@every_basis
def test_value_and_gradient_at_one_point_are_refused_by_name(build):
    """Value and gradient share points: both constraints are named, and so is the basis that can."""
    with pytest.raises(RepeatedAnchorError, match=r"\(constraints 'value' and 'slope'\).*cnf\.bases\.Hermite"):
        build(PLANE, value_and_slope())


@every_basis
def test_a_gradient_alone_is_refused(build):
    """Two rows at every point of one constraint are two conditions at one point."""
    constraint = PLANE.constraint(gradient(), at=AT, equals=0.0, name="slope")
    with pytest.raises(RepeatedAnchorError, match="rows of 'slope'"):
        build(PLANE, [constraint])


def test_hermite_accepts_them():
    """u and grad u at shared points: distinct functions, exact values and gradients."""
    constraints = value_and_slope()
    basis = Hermite(PLANE, constraints, kernels.Gaussian(0.4))
    assert basis.size == 7 + 3 * 2
    solution = cnf.ConstrainedField(basis, constraints, on_violation="raise").solve()
    assert (solution(AT)[:, 0] - AT[:, 0] * AT[:, 1]).abs().max() <= 1e-10
    assert (solution.apply(gradient(), AT[2:5]) - AT[2:5].flip(1)).abs().max() <= 1e-9


def test_own_anchors_accept_them_too():
    """With enough distinct anchors of its own, a kernel basis meets value and gradient at one point."""
    constraints = value_and_slope()
    anchors = cnf.Box((0, 0), (1, 1)).halton(30, seed=9)
    solution = cnf.ConstrainedField(Kernel(PLANE, anchors, kernels.Gaussian(0.25)), constraints).solve()
    assert solution.certificate.worst <= 1e-10


@every_basis
def test_anchors_from_constraints(build):
    """One anchor per condition that a channel sees: channels asked for the same points share their anchors."""
    space = cnf.Space("x y", "u v")
    constraints = [
        space.constraint("u \\\\ v", at=AT[:4], equals=0.0, name="values"),
        space.constraint("u_x + v_y", at=AT[4:], equals=0.0, name="flow"),
    ]
    basis = build(space, constraints)
    assert torch.equal(basis.anchors, AT)
    assert torch.equal(build(space, constraints[0]).anchors, AT[:4])  # a single constraint need not be in a list


@every_basis
def test_anchors_are_copied(build):
    """Changing the given tensor later changes nothing."""
    given = AT.clone()
    basis = build(PLANE, given)
    given.zero_()
    assert torch.equal(basis.anchors, AT)


@every_basis
def test_nonsense(build):
    with pytest.raises(BasisError, match="not a mixture"):
        build(PLANE, [PLANE.constraint("u", at=AT, equals=1.0), AT])
