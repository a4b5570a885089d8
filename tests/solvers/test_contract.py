"""What every solver promises: the answer of NumPy, the adjoint as gradient (twice), and errors that say what to do."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from torch import Tensor

from cnf.errors import CnfError, SingularSystemError
from cnf.solvers import LU, QR, Auto, Cholesky, Krylov, MinimumNorm, SparseCholesky, SparseLU
from cnf.solvers.adjoint import solve, solve_transposed
from cnf.solvers.patches import solve_batch
from cnf.solvers.sparse_matrix import INDEX, Pattern, SparseMatrix

EPS = torch.finfo(torch.float64).eps


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def square(n: int = 6, seed: int = 0) -> Tensor:
    return normal(n, n, seed=seed) + 3 * torch.eye(n, dtype=torch.float64)


def definite(n: int = 6, seed: int = 0) -> Tensor:
    root = normal(n, n, seed=seed)
    product = root @ root.T  # which some processors round to something not quite symmetric
    return (product + product.T) / 2 + torch.eye(n, dtype=torch.float64)


def deficient(m: int = 6, n: int = 7, rank: int = 3, seed: int = 0) -> Tensor:
    return normal(m, rank, seed=seed) @ normal(rank, n, seed=seed + 1)


def systems(n: int, few: int, many: int) -> dict:
    return {
        "LU": (LU(), square(n)),
        "Cholesky": (Cholesky(), definite(n)),
        "MinimumNorm-square": (MinimumNorm(), square(n)),
        "MinimumNorm-wide": (MinimumNorm(), normal(few, many)),
        "MinimumNorm-tall": (MinimumNorm(least_squares=True), normal(many, few)),
        "MinimumNorm-deficient": (MinimumNorm(cutoff=1e-10), deficient(n, n + 1, n // 2)),
        "QR-square": (QR(), square(n)),
        "QR-wide": (QR(), normal(few, many)),
        "Auto-square": (Auto(), square(n)),
        "Auto-symmetric": (Auto(), definite(n)),
        "Auto-wide": (Auto(), normal(few, many)),
        "Auto-tall": (Auto(least_squares=True), normal(many, few)),
    }


SYSTEMS = systems(6, few=5, many=9)
SMALL = systems(4, few=3, many=5)  # for differences in every entry, twice
every_solver = pytest.mark.parametrize(("solver", "matrix"), SYSTEMS.values(), ids=SYSTEMS.keys())
COMPRESSED = {
    "SparseLU": (SparseLU(), square()),
    "SparseCholesky": (SparseCholesky(), definite()),
    "Krylov": (Krylov(), definite()),
    "Krylov-square": (Krylov(), square()),
}
every_solver_at_all = pytest.mark.parametrize(
    ("solver", "matrix"), [*SYSTEMS.values(), *COMPRESSED.values()], ids=[*SYSTEMS, *COMPRESSED]
)


def stored(matrix: Tensor) -> SparseMatrix:
    """The matrix in compressed rows, nothing left out."""
    m, n = matrix.shape
    pattern = Pattern((m, n), np.arange(0, m * n + 1, n, dtype=INDEX), np.tile(np.arange(n, dtype=INDEX), m))
    return SparseMatrix(pattern, matrix.reshape(-1))


def taken_by(solver, matrix: Tensor) -> Tensor | SparseMatrix:
    return stored(matrix) if solver.sparse else matrix


def is_definite(matrix: Tensor) -> bool:
    return torch.equal(matrix, matrix.T) and bool((torch.linalg.eigvalsh(matrix) > 0).all())


def unscaled(matrix: Tensor) -> Tensor:
    """Rows brought near unit norm, so that equilibration by powers of two leaves them alone."""
    return matrix / torch.linalg.vector_norm(matrix, dim=1, keepdim=True)


@every_solver_at_all
def test_agrees_with_the_pseudo_inverse(solver, matrix: Tensor):
    """x = A^+ b and z = A^+T c as NumPy's pinv gives them; for square systems that is the inverse."""
    symmetric = matrix.shape[0] == matrix.shape[1] and is_definite(matrix) and not isinstance(solver, Auto)
    matrix = matrix if symmetric else unscaled(matrix)
    b, c = normal(matrix.shape[0], 3, seed=5), normal(matrix.shape[1], 2, seed=6)
    factor = solver.factor(taken_by(solver, matrix), symmetric=symmetric)
    inverse = np.linalg.pinv(matrix.numpy(), rcond=1e-10)
    condition = np.linalg.norm(matrix.numpy(), 2) * np.linalg.norm(inverse, 2)
    assert np.abs(factor.solve(b).numpy() - inverse @ b.numpy()).max() <= 100 * EPS * condition * np.abs(inverse).max()
    back = factor.solve_transposed(c).numpy()
    assert np.abs(back - inverse.T @ c.numpy()).max() <= 100 * EPS * condition * np.abs(inverse).max()


@every_solver_at_all
def test_rank_and_condition(solver, matrix: Tensor):
    """Rank as NumPy's, condition as the ratio of the extreme non-zero singular values of the equilibrated matrix."""
    symmetric = bool(solver.sparse) and is_definite(matrix)
    factor = solver.factor(taken_by(solver, matrix), symmetric=symmetric)
    scaled = factor.scale_rows[:, None] * matrix * factor.scale_columns
    values = np.linalg.svd(scaled.numpy(), compute_uv=False)
    values = values[values > 1e-10 * values[0]]
    assert factor.rank == len(values) == np.linalg.matrix_rank(matrix.numpy())
    assert factor.condition() == pytest.approx(values[0] / values[-1], rel=1e-3 if solver.sparse else 1e-6)


@pytest.mark.parametrize(("solver", "matrix"), COMPRESSED.values(), ids=COMPRESSED.keys())
def test_gradients_of_compressed_systems(solver, matrix: Tensor):
    """gradcheck in the stored values and the right-hand side, for the map and for its transpose."""
    symmetric = is_definite(matrix)
    form = stored(matrix)
    b = normal(matrix.shape[0], 2, seed=7).requires_grad_()
    for apply in (solve, solve_transposed):

        def mapped(right: Tensor, values: Tensor, apply=apply) -> Tensor:
            square = values.reshape(matrix.shape)
            whole = stored((square + square.T) / 2 if symmetric else square)
            return apply(whole, right, solver.factor(whole.detach(), symmetric=symmetric))

        assert torch.autograd.gradcheck(mapped, (b, form.values.clone().requires_grad_()), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("definite_ones", [True, False])
def test_many_small_systems(definite_ones: bool):
    """The batch that patches are solved by: NumPy's answers for every system, the worst pivots, and gradcheck."""
    build = definite if definite_ones else square
    matrices = torch.stack([build(seed=k) for k in range(3)])
    targets = normal(3, 6, 2, seed=4)
    found, pivots = solve_batch(matrices, targets, definite_ones)
    expected = np.linalg.solve(matrices.numpy(), targets.numpy())
    condition = np.linalg.cond(matrices.numpy()).max()
    assert np.abs(found.numpy() - expected).max() <= 100 * EPS * condition * np.abs(expected).max()
    assert 0 < pivots <= 1

    def mapped(given: Tensor, right: Tensor) -> Tensor:
        return solve_batch((given + given.mT) / 2 if definite_ones else given, right, definite_ones)[0]

    assert torch.autograd.gradcheck(mapped, (matrices.requires_grad_(), targets.requires_grad_()), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(("solver", "matrix"), SMALL.values(), ids=SMALL.keys())
def test_gradients_to_second_order(solver, matrix: Tensor):
    """gradcheck and gradgradcheck in matrix and right-hand side, for the map and for its transpose.

    The deficient system is A = B C, so that its rank stays the same under every perturbation; a symmetric one is
    perturbed symmetrically. The factor belongs to the perturbed matrix, as in a training step.
    """
    m, n = matrix.shape
    b, c = (normal(size, 2, seed=7).requires_grad_() for size in (m, n))

    def of(parameters: tuple[Tensor, ...]) -> Tensor:
        product = parameters[0] @ parameters[1] if len(parameters) == 2 else parameters[0]
        return (product + product.T) / 2 if isinstance(solver, Cholesky) else product

    rank = int(np.linalg.matrix_rank(matrix.numpy()))
    start = (normal(m, rank), normal(rank, n, seed=1)) if rank < min(m, n) else (matrix,)
    parameters = tuple(p.clone().requires_grad_() for p in start)
    for apply, right in ((solve, b), (solve_transposed, c)):

        def mapped(right: Tensor, *given: Tensor, apply=apply) -> Tensor:
            a = of(given)
            return apply(a, right, solver.factor(a.detach()))

        assert torch.autograd.gradcheck(mapped, (right, *parameters), atol=1e-6, rtol=1e-5)
        assert torch.autograd.gradgradcheck(mapped, (right, *parameters), atol=1e-5, rtol=1e-4)
        # gradgradcheck compares the twice differentiable gradient with itself only: compare it with the plain one
        weights = normal(*mapped(right, *parameters).shape, seed=9)
        plain, again = (
            torch.autograd.grad((mapped(right, *parameters) * weights).sum(), (right, *parameters), create_graph=graph)
            for graph in (False, True)
        )
        for a, e in zip(again, plain, strict=True):
            assert (a - e).abs().max() <= 1e-10 * e.abs().max()


def test_inconsistent_deficient_systems_have_a_gradient_too():
    """b outside the range of a deficient A: the least-squares terms of the gradient, against pinv itself."""
    left, right, b = normal(6, 3).requires_grad_(), normal(3, 7, seed=1).requires_grad_(), normal(6, 1, seed=2)
    weights = normal(7, 1, seed=3)
    factor = MinimumNorm(cutoff=1e-10).factor((left @ right).detach())
    plain = torch.equal(factor.scale_rows, torch.ones_like(factor.scale_rows))
    rows = factor.scale_rows[:, None]
    loss = (solve(left @ right, b, factor) * weights).sum()
    found = torch.autograd.grad(loss, (left, right))
    expected_loss = (torch.linalg.pinv(rows * (left @ right), rtol=1e-10) @ (rows * b) * weights).sum()
    expected = torch.autograd.grad(expected_loss, (left, right))
    assert not plain  # the row scales are part of what is tested
    assert float((loss - expected_loss).abs()) <= 1e-10
    for a, e in zip(found, expected, strict=True):
        assert (a - e).abs().max() <= 1e-9 * e.abs().max()


@pytest.mark.parametrize("name", ["LU", "MinimumNorm-square", "MinimumNorm-wide", "Auto-square", "Auto-wide"])
def test_rows_may_have_any_scale(name: str):
    """Conditions in other units, rows times 1e-9 ... 1e9, leave the weights of a consistent system as they are."""
    solver, matrix = SYSTEMS[name]
    b = normal(matrix.shape[0], 1, seed=8)
    units = 10.0 ** torch.linspace(-9, 9, matrix.shape[0], dtype=torch.float64)[:, None]
    plain = solver.factor(matrix).solve(b)
    scaled = solver.factor(units * matrix).solve(units * b)
    assert (plain - scaled).abs().max() <= 1e-12 * plain.abs().max()


def test_cholesky_takes_any_scale():
    """D A D with D from 1e-6 to 1e6 (conditions in other units under a Hermite basis): x = D^-1 A^-1 D^-1 b."""
    matrix, b = definite(), normal(6, 1, seed=8)
    units = 10.0 ** torch.linspace(-6, 6, 6, dtype=torch.float64)
    expected = np.linalg.solve(matrix.numpy(), b.numpy()) / units.numpy()[:, None]
    found = Cholesky().factor(units[:, None] * matrix * units).solve(units[:, None] * b).numpy()
    assert np.abs(found / expected - 1).max() <= 1e-12


@pytest.mark.parametrize(("kind", "build"), [(LU, square), (Cholesky, definite), (MinimumNorm, square)])
def test_refinement_does_not_hurt_and_is_done(kind, build):
    """The backward error is at rounding; a factor that is slightly wrong shows that the step is taken."""
    matrix, b = build(40), normal(40, 1, seed=3)
    factor = kind().factor(matrix)
    x = factor.solve(b)
    size = torch.linalg.matrix_norm(matrix, 2) * torch.linalg.vector_norm(x)
    assert torch.linalg.vector_norm(matrix @ x - b) <= 20 * EPS * size
    name = next(n for n in ("lu", "root", "values") if hasattr(factor, n))
    errors = []
    for refine in (False, True):
        wrong = dataclasses.replace(factor, refine=refine, **{name: getattr(factor, name) * (1 + 1e-6)})
        errors.append(float(torch.linalg.vector_norm(wrong.solve(b) - x) / torch.linalg.vector_norm(x)))
    assert errors[0] > 1e-7
    assert errors[1] < 1e-4 * errors[0]


@every_solver
def test_float32_is_solved_in_float64(solver, matrix: Tensor):
    """A float32 system gives float32 weights that are the float64 answer, rounded once; gradients are float32."""
    a, b = matrix.float().requires_grad_(), normal(matrix.shape[0], 1, seed=4).float().requires_grad_()
    # rounding to float32 makes a deficient matrix full of rank, unless the cutoff sees through it
    solver = MinimumNorm(cutoff=1e-5) if getattr(solver, "cutoff", 0) == 1e-10 else solver
    factor = solver.factor(a)
    x = solve(a, b, factor)
    assert x.dtype == torch.float32
    exact = factor.solve(b.detach().double())
    assert torch.equal(x.detach(), exact.float())
    x.sum().backward()
    assert a.grad.dtype == b.grad.dtype == torch.float32
    assert bool(torch.isfinite(a.grad).all())


def test_least_squares_is_numpys():
    """More conditions than functions, on request: the x of numpy.linalg.lstsq, whatever the sizes of the rows."""
    matrix, b = normal(12, 4) * torch.tensor([1.0, 30.0, 0.1])[torch.arange(12) % 3][:, None], normal(12, 2, seed=1)
    expected = np.linalg.lstsq(matrix.numpy(), b.numpy(), rcond=None)[0]
    for solver in (MinimumNorm(least_squares=True), Auto(least_squares=True)):
        assert np.abs(solver.factor(matrix).solve(b).numpy() - expected).max() <= 1e-12


def test_minimum_norm_is_the_smallest():
    """Of all solutions of a wide system the one NumPy's lstsq finds, with nothing in the null space."""
    matrix, b = normal(4, 11), normal(4, 1, seed=1)
    x = MinimumNorm().factor(matrix).solve(b)
    expected = np.linalg.lstsq(matrix.numpy(), b.numpy(), rcond=None)[0]
    assert np.abs(x.numpy() - expected).max() <= 1e-13
    _, _, v = np.linalg.svd(matrix.numpy())
    assert np.abs(v[4:] @ x.numpy()).max() <= 1e-14


class TestErrors:
    def test_lu_of_a_wide_matrix(self):
        """LU needs a square matrix and says who does not."""
        with pytest.raises(SingularSystemError, match=r"9 and 5; use cnf\.solvers\.MinimumNorm"):
            LU().factor(normal(5, 9))

    def test_lu_of_a_singular_matrix(self):
        """Two equal rows of small integers: elimination meets an exact zero."""
        matrix = torch.tensor([[1.0, 2.0], [1.0, 2.0]], dtype=torch.float64)
        with pytest.raises(SingularSystemError, match=r"exactly singular.*MinimumNorm"):
            LU().factor(matrix)

    def test_cholesky_of_a_matrix_that_is_not_symmetric(self):
        with pytest.raises(SingularSystemError, match=r"symmetric.*Hermite"):
            Cholesky().factor(square())

    def test_cholesky_of_a_matrix_that_is_not_square(self):
        with pytest.raises(SingularSystemError, match="5 x 9"):
            Cholesky().factor(normal(5, 9))

    def test_cholesky_of_an_indefinite_matrix(self):
        """Symmetric with a negative eigenvalue: refused, never solved wrongly."""
        with pytest.raises(SingularSystemError, match="not numerically positive definite"):
            Cholesky().factor(torch.diag(torch.tensor([1.0, -1.0, 2.0], dtype=torch.float64)))

    @pytest.mark.parametrize("cutoff", [0.0, 1.0, -1e-3, float("nan")])
    def test_a_cutoff_that_makes_no_sense(self, cutoff: float):
        with pytest.raises(CnfError, match="between 0 and 1"):
            MinimumNorm(cutoff=cutoff)


def test_qr_leaves_out_what_depends_on_earlier_rows():
    """A row given twice, and the sum of two: the weights are those of NumPy's pinv, and a note says how many."""
    rows = normal(4, 9)
    matrix = torch.cat([rows, rows[:1], rows[1:2] + rows[2:3]])
    b = matrix @ normal(9, 1, seed=3)
    factor = QR().factor(matrix)
    assert torch.allclose(
        factor.solve(b), torch.from_numpy(np.linalg.pinv(matrix.numpy(), rcond=1e-12)) @ b, atol=1e-12
    )
    assert factor.rank == 4 and any("2 of 6 conditions depend" in note for note in factor.notes)


def test_qr_refuses_more_conditions_than_functions():
    with pytest.raises(CnfError, match="6 conditions but only 3"):
        QR().factor(normal(6, 3))


def test_refinement_never_makes_a_singular_system_worse():
    """Wide Gaussians on 100 points, numerically singular: a second solve multiplied the residual by more than 20."""
    x = torch.linspace(0, 1, 100, dtype=torch.float64)
    matrix = torch.exp(-((x[:, None] - x - 0.003) ** 2) / (2 * 0.2**2))
    b = torch.stack([torch.sin(6 * x), torch.ones_like(x)], dim=1)
    solved = [LU(refine=again).factor(matrix).solve(b) for again in (False, True)]
    plain, refined = (torch.linalg.vector_norm(matrix @ x - b, dim=0) for x in solved)
    assert bool((refined <= 4 * plain).all())  # a factor of 2 for the equilibrated rows, 2 for those given
