"""Transfer: a trained basis solves other conditions at once, as a field built anew with the same parameters would."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

import cnf
from cnf import encoders, kernels
from cnf.bases.basis import Basis
from cnf.errors import ConstraintError, OverdeterminedError

PLANE = cnf.Space("x y", "u")
BOX = cnf.Box((0, 0), (1, 1))
POINTS = BOX.halton(14, seed=1)
X = BOX.halton(30, seed=9)


def wave(p: Tensor) -> Tensor:
    return torch.sin(4 * p[:, 0]) * torch.cos(2 * p[:, 1])


def data(at: Tensor = POINTS, equals: object = wave) -> cnf.Constraint:
    return PLANE.constraint("u", at=at, equals=equals, name="data")


BASES = {
    "Kernel": lambda: cnf.bases.Kernel(PLANE, POINTS, kernels.Gaussian(1.0), encoders.SIREN(2, 16, (16,), 4.0, seed=0)),
    "SkewedRBF": lambda: cnf.bases.SkewedRBF(PLANE, POINTS, bandwidth=0.2),
    "RandomFourier": lambda: cnf.bases.RandomFourier(PLANE, 40, 0.4),
    "HypernetKernel": lambda: cnf.bases.HypernetKernel(PLANE, POINTS, encoders.MLP(2, 12, hidden=(16,), seed=0)),
    "Hybrid": lambda: cnf.bases.Hybrid(
        cnf.bases.Kernel(PLANE, POINTS, kernels.Gaussian(0.4)), kernels.Wendland(3, 0.9)
    ),
    "Hermite": lambda: cnf.bases.Hermite(PLANE, [data()], kernels.Gaussian(0.25)),
}
each_basis = pytest.mark.parametrize("name", BASES)


def trained(basis: Basis, **options: object) -> cnf.ConstrainedField:
    field = cnf.ConstrainedField(basis, data(), **options)
    cnf.fit(field, cnf.losses.Smoothness(X, order=1), steps=8, lr=1e-2, progress=False)
    return field


def anew(field: cnf.ConstrainedField, constraints, **options: object) -> cnf.ConstrainedField:
    """A field made from copies of the trained parts."""
    return cnf.ConstrainedField(copy.deepcopy(field.basis), constraints, base=copy.deepcopy(field.base), **options)


OTHERS = {
    "other equations at the same points": lambda: PLANE.constraint(r"u + 0.3 \partial_x u = 1", at=POINTS, name="mix"),
    "new points": lambda: data(BOX.halton(11, seed=6)),
    "several, fewer in all": lambda: [
        data(BOX.halton(5, seed=6)),
        PLANE.constraint(r"\partial_y u", at=POINTS[:6], equals=0.2, name="slope"),
    ],
}


@each_basis
@pytest.mark.parametrize("other", OTHERS)
def test_transfer_equals_a_field_built_anew(name: str, other: str):
    field = trained(BASES[name]())
    before = [p.detach().clone() for p in field.parameters()]
    values = field(X).detach()
    constraints = OTHERS[other]()
    moved = field.transfer(constraints)
    assert torch.equal(moved(X), anew(field, constraints)(X))
    certificate = moved.solve().certificate
    assert certificate.exact
    for c in moved.constraints:  # measured again
        assert (moved.solve().apply(c.operator, c.points) - c.values).abs().max() <= 1e-8
    # nothing was trained, and the first field is what it was
    assert all(torch.equal(a, p) for a, p in zip(before, field.parameters(), strict=True))
    assert torch.equal(field(X), values)


@each_basis
def test_other_right_hand_sides_by_update_and_by_transfer(name: str):
    """`update` re-solves in place with the factor that is there, `transfer` beside it: the same field."""
    field = trained(BASES[name]())

    def other(p: Tensor) -> Tensor:
        return 1000 + torch.exp(p[:, 0])

    expected = anew(field, data(equals=other))(X).detach()
    moved = field.transfer(data(equals=other))
    assert torch.equal(moved(X), expected)
    field.eval()
    solution = field.update(other)
    assert (solution(X) - expected).abs().max() <= 1e-9 * expected.abs().max()
    assert (field(X) - expected).abs().max() <= 1e-9 * expected.abs().max()


def test_both_fields_share_basis_and_base():
    """Training one changes the other, which notices even in eval mode."""
    torch.manual_seed(0)
    base = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    field = trained(BASES["RandomFourier"](), base=base)
    moved = field.transfer(data(BOX.halton(9, seed=6))).eval()
    assert moved.basis is field.basis
    assert moved.base is base
    before = moved(X).detach().clone()
    with torch.no_grad():
        for parameter in field.parameters():
            parameter += 0.05
    after = moved(X).detach()
    assert (after - before).abs().max() > 1e-3
    assert (moved(moved.constraints[0].points)[:, 0] - wave(moved.constraints[0].points)).abs().max() <= 1e-9


def test_settings_are_kept_unless_changed():
    solver = cnf.solvers.MinimumNorm(cutoff=1e-13)
    field = trained(BASES["RandomFourier"](), solver=solver, tolerance=1e-7, on_violation="raise")
    moved = field.transfer(data())
    assert (moved.solver, moved.tolerance, moved.on_violation) == (solver, 1e-7, "raise")
    changed = field.transfer(data(), tolerance=1e-5, on_violation="warn", solver=cnf.solvers.Auto())
    assert (changed.solver, changed.tolerance, changed.on_violation) == (cnf.solvers.Auto(), 1e-5, "warn")
    assert moved.training
    assert not field.eval().transfer(data()).training


def test_the_precision_is_that_of_the_trained_field():
    """Conditions in float32 for a field in float64: converted, so that the first field can still be used."""
    field = trained(BASES["Kernel"]())
    values = field(X).detach()
    moved = field.transfer(data(POINTS.float()))
    assert moved.dtype == torch.float64
    assert moved(X).dtype == torch.float64
    assert torch.equal(field(X), values)


def test_too_many_conditions_are_refused():
    field = trained(BASES["Kernel"]())
    with pytest.raises(OverdeterminedError, match="20 conditions but only 14"):
        field.transfer(data(BOX.halton(20, seed=6)))
    fitted = field.transfer(data(BOX.halton(20, seed=6)), solver=cnf.solvers.Auto(least_squares=True), tolerance=10.0)
    assert fitted(X).shape == (30, 1)


@pytest.mark.parametrize("given", [[], None, "u", ["u"]])
def test_something_else_than_constraints_is_refused(given):
    with pytest.raises(ConstraintError):
        trained(BASES["RandomFourier"]()).transfer(given)


def test_conditions_of_another_space_are_refused():
    other = cnf.Space("a b", "u").constraint("u", at=POINTS, equals=0.0)
    with pytest.raises(ConstraintError, match="another space"):
        trained(BASES["RandomFourier"]()).transfer(other)


def test_a_transferred_field_can_be_saved_and_trained(tmp_path):
    field = trained(BASES["HypernetKernel"]())
    moved = field.transfer(data(BOX.halton(9, seed=6)))
    moved.save(tmp_path / "moved.pt")
    assert torch.equal(cnf.load(tmp_path / "moved.pt")(X), moved(X))
    history = cnf.fit(moved, cnf.losses.Smoothness(X, order=1), steps=3, progress=False)
    assert len(history) == 3
