"""Conditioning: the independence of columns, and pre-training a basis for it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cnf
from cnf import encoders, kernels, losses
from cnf.bases.basis import Basis

PLANE = cnf.Space("x y", "u")
BOX = cnf.Box((0, 0), (1, 1))


class Columns(Basis):
    """Functions whose values at the points x = 0, 1, 2, ... are the columns of a matrix."""

    def __init__(self, matrix: Tensor, channels: str = "u"):
        super().__init__(cnf.Space("x", channels), matrix.shape[1])
        self.matrix = nn.Parameter(matrix.double())

    def forward(self, x: Tensor) -> Tensor:
        return self.matrix[x[:, 0].round().long()]


def solution_of(basis: Columns) -> cnf.Solution:
    at = torch.arange(basis.matrix.shape[0], dtype=torch.float64)[:, None]
    conditions = basis.space.constraint("u", at=at, equals=0.0)
    return cnf.ConstrainedField(basis, conditions, tolerance=10.0, on_violation="warn").solve()


def cosines(matrix: Tensor) -> float:
    """The mean squared cosine over all pairs of different columns, pair by pair."""
    a = matrix.detach().numpy()
    found = []
    for i in range(a.shape[1]):
        for j in range(a.shape[1]):
            if i != j:
                found.append((a[:, i] @ a[:, j] / np.linalg.norm(a[:, i]) / np.linalg.norm(a[:, j])) ** 2)
    return float(np.mean(found))


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


# -- independence ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(6, 6), (4, 9), (2, 2)])
def test_independence_is_the_mean_squared_cosine(shape):
    basis = Columns(random(*shape) * torch.logspace(-3, 3, shape[1], dtype=torch.float64))
    found = losses.Independence()(solution_of(basis)).item()
    assert found == pytest.approx(cosines(basis.matrix), rel=1e-12)
    assert losses.Independence(weight=2.5)(solution_of(basis)).item() == pytest.approx(2.5 * found, rel=1e-14)


def test_independence_of_orthogonal_and_parallel_columns():
    """0 for an orthogonal matrix with scaled columns, 1 for multiples of one column, 0 for a single function."""
    rotation = torch.linalg.qr(random(7, 7)).Q
    scales = torch.logspace(-4, 4, 7, dtype=torch.float64)
    assert losses.Independence()(solution_of(Columns(rotation * scales))).item() <= 1e-28
    parallel = random(3, 1, seed=1) * torch.tensor([[1.0, -2.0, 5.0]], dtype=torch.float64)
    with pytest.warns(cnf.errors.CnfWarning):
        found = losses.Independence()(solution_of(Columns(parallel))).item()
    assert found == pytest.approx(1.0, rel=1e-14)
    assert losses.Independence()(solution_of(Columns(random(1, 1)))).item() == 0


def test_independence_takes_the_worst_block():
    """Channels solved apart have a system each: the loss is that of the worse one."""
    space = cnf.Space("x y", "u v")
    basis = cnf.bases.RandomFourier(space, 30, 0.3)
    parts = [
        space.constraint("u", at=BOX.halton(12, seed=1), equals=0.0, name="u"),
        space.constraint("v", at=0.2 * BOX.halton(8, seed=2), equals=0.0, name="v"),
    ]
    solution = cnf.ConstrainedField(basis, parts, tolerance=10.0).solve()
    assert len(solution.blocks) == 2
    each = [cosines(block.matrix) for block in solution.blocks]
    assert losses.Independence()(solution).item() == pytest.approx(max(each), rel=1e-12)
    assert max(each) > 1.05 * min(each)


def test_gradient_of_independence():
    """Against central differences, entry by entry."""
    basis = Columns(random(4, 6, seed=2))
    losses.Independence()(solution_of(basis)).backward()
    found, expected, step = basis.matrix.grad.clone(), torch.zeros(4, 6, dtype=torch.float64), 1e-6
    for i in range(4):
        for j in range(6):
            moved = []
            for sign in (1, -1):
                matrix = basis.matrix.detach().clone()
                matrix[i, j] += sign * step
                moved.append(cosines(matrix))
            expected[i, j] = (moved[0] - moved[1]) / (2 * step)
    assert (found - expected).abs().max() <= 1e-8 * float(expected.abs().max()) + 1e-9


def test_a_column_of_zeros_has_no_gradient_but_no_nan():
    matrix = random(3, 5, seed=3)
    matrix[:, 2] = 0
    basis = Columns(matrix)
    value = losses.Independence()(solution_of(basis))
    value.backward()
    assert bool(torch.isfinite(value))
    assert bool(torch.isfinite(basis.matrix.grad).all())


# -- pre-training ----------------------------------------------------------------------------------------------------

ill_posed_at_first = pytest.mark.filterwarnings("ignore::cnf.errors.ViolationWarning")


def conditions(scale: float = 1.0, shift: float = 0.0) -> list[cnf.Constraint]:
    def value(p: Tensor) -> Tensor:
        return scale * torch.sin(5 * p[:, 0] + shift)

    data = PLANE.constraint("u", at=BOX.halton(12, seed=1), equals=value, name="data")
    slope = PLANE.constraint("u_x", at=BOX.halton(6, seed=7), equals=0.4 * scale, name="slope")
    return [data, slope]


def encoded() -> Basis:
    encoder = encoders.SIREN(2, 24, hidden=(24,), omega=4.0, seed=0)
    return cnf.bases.Kernel(PLANE, conditions(), kernels.Gaussian(2.0), encoder)


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1).double()

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


def condition(field: cnf.ConstrainedField) -> float:
    """By NumPy, of the matrix itself."""
    return float(np.linalg.cond(field.solve().blocks[0].matrix.detach().numpy()))


@ill_posed_at_first
@pytest.mark.parametrize("loss", [None, losses.Independence()], ids=["condition", "independence"])
def test_pretraining_lowers_the_condition_number(loss):
    """At least tenfold in 60 steps; the conditions hold before and after."""
    field = cnf.ConstrainedField(encoded(), conditions())
    before = condition(field)
    history = cnf.pretrain(field, steps=60, loss=loss, progress=False)
    assert len(history) == 60
    assert condition(field) <= before / 10
    assert field.solve().certificate.exact


@ill_posed_at_first
def test_pretraining_moves_the_basis_and_nothing_else():
    """A base network, a learnable coefficient and the anchors stay where they are."""
    torch.manual_seed(0)
    speed = nn.Parameter(torch.tensor(0.3, dtype=torch.float64))
    moving = PLANE.constraint("u_y + c u_x = 0", at=BOX.halton(5, seed=3), c=speed, name="moving")
    constraints = [*conditions(), moving]
    encoder = encoders.SIREN(2, 24, hidden=(24,), omega=4.0, seed=0)
    basis = cnf.bases.Kernel(PLANE, constraints, kernels.Gaussian(2.0), encoder)
    field = cnf.ConstrainedField(basis, constraints, base=Head())
    before = {name: value.clone() for name, value in field.state_dict().items()}
    cnf.pretrain(field, steps=5, progress=False)
    learned = {f"basis.{name}" for name, _ in basis.named_parameters()}
    for name, value in field.state_dict().items():
        shift_free = name == "basis.encoder.layers.2.bias"  # distances do not see a common shift
        if name in learned and not shift_free:
            assert not torch.equal(value, before[name]), name
        elif name not in learned:
            assert torch.equal(value, before[name]), name
    assert field.base.layer.weight.requires_grad
    assert speed.requires_grad


@ill_posed_at_first
@pytest.mark.parametrize("loss", [None, losses.Independence()], ids=["condition", "independence"])
def test_pretraining_does_not_look_at_the_values(loss):
    """Two fields with other right-hand sides end with the same basis, to the last bit."""
    ends = []
    for values in (conditions(), conditions(scale=-300.0, shift=1.0)):
        field = cnf.ConstrainedField(encoded(), values)
        cnf.pretrain(field, steps=20, loss=loss, progress=False)
        ends.append([p.detach().clone() for p in field.basis.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*ends, strict=True))


@ill_posed_at_first
def test_a_pretrained_basis_serves_other_data():
    """After pre-training, new values at the same points are solved at the better condition."""
    field = cnf.ConstrainedField(encoded(), conditions())
    before = condition(field)
    cnf.pretrain(field, steps=60, progress=False)
    other = field.transfer(conditions(scale=7.0, shift=2.0))
    assert condition(other) <= before / 10
    solution = other.solve()
    assert solution.certificate.exact
    assert all(float(solution.residual(c).abs().max()) <= 1e-12 for c in other.constraints)
