"""Sparse systems: the entries, weights, gradients and fields of the dense way, without a dense matrix."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cnf
import cnf.solution
from cnf import kernels
from cnf.bases import Hermite, Hybrid, Kernel
from cnf.bases.basis import Basis
from cnf.bases.hermite import HermiteEvaluator
from cnf.bases.plain_kernel import PlainKernel
from cnf.errors import BasisError, CnfError, MissingExtraError, NumericalWarning, SingularSystemError
from cnf.solvers import LU, Auto, Cholesky, Krylov, SparseCholesky, SparseLU, pardiso
from cnf.solvers.sparse_matrix import SparseMatrix
from cnf.systems import expansions
from cnf.systems import sparse as form
from cnf.systems.assembly import assemble_matrices
from cnf.systems.layout import lay_out
from cnf.systems.sparse_assembly import assemble_sparse, plan_structure

SPACE = cnf.Space("x y", "u")
HEAT = cnf.Space("x t", "u")
FLOW = cnf.Space("x y", "u v")


def halton(count: int, seed: int = 3) -> Tensor:
    return cnf.Box((0, 0), (1, 1)).halton(count, seed=seed)


def values(x: Tensor) -> Tensor:
    return torch.sin(3 * x[:, 0]) * torch.cos(2 * x[:, 1])


def asked(space: cnf.Space, *pairs: tuple[str, Tensor], **data: object) -> list[cnf.Constraint]:
    return [space.constraint(o, at=x, equals=values(x), name=o, **(data if "k" in o else {})) for o, x in pairs]


# -- assembly ----------------------------------------------------------------------------------------------------


def plain() -> tuple[Basis, list[cnf.Constraint]]:
    x = halton(40)
    return Kernel(SPACE, x, kernels.Wendland(2, 0.3)), asked(SPACE, ("u", x[:25]), (r"y \Delta u + u", x[25:]))


def channels() -> tuple[Basis, list[cnf.Constraint]]:
    """u and v have the same matrix: one block, two right-hand sides."""
    x = halton(30)
    return Kernel(FLOW, x, kernels.Wendland(2, [0.3, 0.4])), asked(FLOW, ("u", x), ("v", x))


def apart() -> tuple[Basis, list[cnf.Constraint]]:
    """u and v have matrices of their own."""
    x = halton(30)
    return Kernel(FLOW, x, kernels.Wendland(2, 0.4)), asked(FLOW, ("u", x), (r"\partial_x v + v", x.flip(0)))


def divergence() -> tuple[Basis, list[cnf.Constraint]]:
    """Rows that hold both channels."""
    x = halton(30)
    flux = (r"\partial_x u + x \partial_y v", x[:20])
    return Kernel(FLOW, x, kernels.Wendland(2, 0.4)), asked(FLOW, flux, ("u", x), ("v", x[20:]))


def integral() -> tuple[Basis, list[cnf.Constraint]]:
    """Many nodes of one condition near one function: repeated entries."""
    x = halton(30)
    return Kernel(HEAT, x, kernels.Wendland(3, 0.5)), asked(HEAT, (r"\int_0^1 x u \, dx", x[:6]), ("u", x[6:]))


def periodic() -> tuple[Basis, list[cnf.Constraint]]:
    """A condition that looks at two places far apart."""
    x = halton(30)
    return Kernel(HEAT, x, kernels.Wendland(2, 0.3)), asked(HEAT, ("u(0,t) - u(1,t)", x[:8]), ("u", x[8:]))


def hermite() -> tuple[Basis, list[cnf.Constraint]]:
    x, y = halton(20), halton(9, seed=7)
    made = asked(SPACE, ("u", x), (r"\nabla \cdot (\nabla u)", y))
    made += [SPACE.constraint(r"\nabla u", at=x, equals=torch.zeros(20, 2, dtype=torch.float64), name="gradient")]
    return Hermite(SPACE, made, kernels.Wendland(4, 0.6)), made


def hermite_channels() -> tuple[Basis, list[cnf.Constraint]]:
    x, y = halton(15), halton(9, seed=7)
    made = asked(FLOW, ("u", x), ("v", y), (r"\partial_x u + x \partial_y v", halton(8, seed=9)))
    return Hermite(FLOW, made, kernels.Wendland(3, 0.6)), made


def hermite_apart() -> tuple[Basis, list[cnf.Constraint]]:
    """Two channels that do not meet, with different conditions: blocks of some of the functions each."""
    x, y = halton(15), halton(9, seed=7)
    made = asked(FLOW, ("u", x), ("v", y), (r"\partial_x v", y))
    return Hermite(FLOW, made, kernels.Wendland(3, 0.6)), made


def hermite_integral() -> tuple[Basis, list[cnf.Constraint]]:
    x = halton(20)
    made = asked(HEAT, (r"\int_0^1 u \, dx", x[:4]), ("u(0,t) - u(1,t)", x[4:9]), ("u", x[9:]))
    return Hermite(HEAT, made, kernels.Wendland(3, 0.5)), made


def encoded() -> tuple[Basis, list[cnf.Constraint]]:
    x = halton(40)
    inner = Kernel(SPACE, x, kernels.Gaussian(1.0), cnf.encoders.MLP(2, 5, hidden=(8,), seed=0))
    return Hybrid(inner, kernels.Wendland(2, 0.35)), asked(SPACE, ("u", x[:25]), (r"y \partial_x u + u", x[25:]))


SYSTEMS: dict[str, Callable[[], tuple[Basis, list[cnf.Constraint]]]] = {
    f.__name__: f
    for f in (
        *(plain, channels, apart, divergence, integral, periodic, encoded),
        *(hermite, hermite_channels, hermite_apart, hermite_integral),
    )
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_assembly_is_the_dense_one(name: str):
    """Every block of every kind of system, entry by entry, and its gradients; answer: the dense assembly."""
    basis, constraints = SYSTEMS[name]()
    field = cnf.ConstrainedField(basis, constraints)
    given = (basis.snapshot(), basis, field.constraints, lay_out(basis, field.constraints))
    dense = assemble_matrices(*given)
    found = assemble_sparse(*given, plan_structure(*given))
    parameters = list(basis.parameters())
    for expected, matrix in zip(dense, found, strict=True):
        assert matrix.shape == expected.shape
        assert matrix.pattern.count < 0.95 * expected.numel()  # that there is something to leave out
        assert (matrix.to_dense() - expected).abs().max() <= 1e-13 * expected.abs().max()
        weights = torch.randn(expected.shape, dtype=torch.float64)
        gradients = [
            torch.autograd.grad((m * weights).sum(), parameters, retain_graph=True, allow_unused=True)
            for m in (matrix.to_dense(), expected)
        ]
        for a, e in zip(*gradients, strict=True):
            assert (a is None) == (e is None)
            assert e is None or (a - e).abs().max() <= 1e-11 * max(1.0, float(e.abs().max()))


@pytest.mark.parametrize("pieces", [True, False])
def test_assembly_in_pieces(pieces: bool, monkeypatch):
    """Few pairs at once, kept or recomputed in the backward pass: the same entries and gradients."""
    monkeypatch.setattr("cnf.systems.sparse_assembly.PAIRS", 37)
    if pieces:
        monkeypatch.setattr("cnf.systems.sparse_assembly.KEEP", 0)
    for name in ("plain", "periodic", "encoded"):
        test_assembly_is_the_dense_one(name)
    monkeypatch.setattr("cnf.systems.sparse_assembly.PAIRS", 1009)
    test_assembly_is_the_dense_one("integral")


def test_matrix_products():
    """A x, row norms and the SciPy form of a sparse matrix; answer: its dense form in NumPy."""
    basis, constraints = divergence()
    field = cnf.ConstrainedField(basis, constraints)
    given = (basis.snapshot(), basis, field.constraints, lay_out(basis, field.constraints))
    matrix = assemble_sparse(*given, plan_structure(*given))[0].detach()
    dense = matrix.to_dense().numpy()
    x = torch.randn(matrix.shape[1], 3, dtype=torch.float64)
    assert np.abs((matrix @ x).numpy() - dense @ x.numpy()).max() <= 1e-13 * np.abs(dense).max() * matrix.shape[1]
    norms = np.linalg.norm(dense, axis=1)
    assert np.abs(matrix.row_norms().numpy() - np.where(norms > 0, norms, 1)).max() <= 1e-14 * norms.max()
    assert np.array_equal(matrix.plain.toarray(), dense)


def forbid_dense(monkeypatch) -> None:
    def refuse(*_, **__):
        raise AssertionError("a dense matrix was asked for")

    monkeypatch.setattr("cnf.systems.sparse.assemble_matrices", refuse)
    monkeypatch.setattr(SparseMatrix, "to_dense", refuse)
    monkeypatch.setattr(PlainKernel, "rows", refuse)
    monkeypatch.setattr(HermiteEvaluator, "rows", refuse)


def test_no_dense_matrix(monkeypatch):
    """Solve, certificate, evaluation and training with every dense way closed: u(x_i) = values at 300 points."""
    x = halton(300)
    for basis, solver in (
        (Kernel(SPACE, x, kernels.Wendland(2, 0.15)), SparseLU()),
        (Hermite(SPACE, asked(SPACE, ("u", x)), kernels.Wendland(2, 0.15)), SparseCholesky()),
        (Hermite(SPACE, asked(SPACE, ("u", x)), kernels.Wendland(2, 0.15)), Krylov(size=40)),
    ):
        field = cnf.ConstrainedField(basis, asked(SPACE, ("u", x)), solver=solver)
        with monkeypatch.context() as patch:
            forbid_dense(patch)
            solution = field.solve()
            assert solution.certificate.exact
            assert "condition" in str(solution.certificate)
            assert (solution(x)[:, 0] - values(x)).abs().max() <= 1e-10
            solution.apply(r"\Delta u", x[:50]).square().mean().backward()
        assert all(p.grad is not None and bool(torch.isfinite(p.grad).all()) for p in basis.parameters())


# -- solutions and gradients -------------------------------------------------------------------------------------


def learnable_kernel(solver) -> cnf.ConstrainedField:
    """Encoder, window radius, kernel bandwidth and right-hand sides, all learnable; nonsymmetric."""
    x = halton(60)
    encoder = cnf.encoders.MLP(2, 5, hidden=(8,), seed=0)
    basis = Hybrid(Kernel(SPACE, x, kernels.Gaussian(1.3), encoder), kernels.Wendland(2, 0.3))
    right = nn.Parameter(values(x[:40]))
    constraints = [
        SPACE.constraint("u = k", at=x[:40], k=right, name="values"),
        SPACE.constraint(r"\partial_x u + u", at=x[40:], equals=values(x[40:]), name="slopes"),
    ]
    return cnf.ConstrainedField(basis, constraints, solver=solver)


def learnable_hermite(solver) -> cnf.ConstrainedField:
    """Values and gradients at the same points; symmetric positive definite."""
    x = halton(40)
    constraints = [
        SPACE.constraint("u = k", at=x, k=nn.Parameter(values(x)), name="values"),
        SPACE.constraint(r"\nabla u", at=x, equals=torch.ones(40, 2, dtype=torch.float64), name="gradients"),
    ]
    return cnf.ConstrainedField(
        Hermite(SPACE, constraints, kernels.Wendland(3, [0.3, 0.4])), constraints, solver=solver
    )


def learnable_flow(solver) -> cnf.ConstrainedField:
    """Coupled channels with as many conditions as functions."""
    x = halton(40)
    constraints = asked(FLOW, (r"\partial_x u + \partial_y v + u", x), ("v", x))
    return cnf.ConstrainedField(Kernel(FLOW, x, kernels.Wendland(2, 0.3)), constraints, solver=solver)


def learnable_channels(solver) -> cnf.ConstrainedField:
    """One matrix, two right-hand sides."""
    x = halton(40)
    return cnf.ConstrainedField(
        Kernel(FLOW, x, kernels.Wendland(2, 0.3)), asked(FLOW, ("u", x), ("v", x)), solver=solver
    )


def learnable_coefficients(solver) -> cnf.ConstrainedField:
    """A number and a network inside the operator, and functions listed in another order than the conditions."""
    x = halton(50)
    network = cnf.encoders.MLP(2, 1, hidden=(4,), seed=3)
    operator = r"u + k \Delta u + c(x, y) \partial_x u"
    k = nn.Parameter(torch.tensor(1e-3, dtype=torch.float64))
    constraints = [
        SPACE.constraint(operator, at=x[:30], equals=values(x[:30]), name="equation", k=k, c=network.double()),
        SPACE.constraint("u", at=x[30:], equals=values(x[30:]), name="values"),
    ]
    anchors = x[torch.randperm(50, generator=torch.Generator().manual_seed(1))]
    return cnf.ConstrainedField(Kernel(SPACE, anchors, kernels.Wendland(2, 0.35)), constraints, solver=solver)


FIELDS = {
    "coefficients": learnable_coefficients,
    "kernel": learnable_kernel,
    "hermite": learnable_hermite,
    "flow": learnable_flow,
    "channels": learnable_channels,
}
SOLVERS = {
    "SparseLU": SparseLU(),
    "SparseLU-superlu": SparseLU(backend="superlu"),
    "SparseCholesky": SparseCholesky(),
    "SparseCholesky-superlu": SparseCholesky(backend="superlu"),
    "SparseCholesky-multifrontal": SparseCholesky(backend="multifrontal"),
    "Krylov": Krylov(size=20),
    "Auto": Auto(),
}
CASES = [
    (kind, name) for kind in FIELDS for name in SOLVERS if not name.startswith("SparseCholesky") or kind == "hermite"
]


@pytest.fixture
def small_is_large(monkeypatch):
    """Auto considers the sparse form at any size, and fields are evaluated by neighbours."""
    monkeypatch.setattr(form, "LARGE", 0)
    monkeypatch.setattr(form, "SPARSE", 1.0)
    monkeypatch.setattr(expansions, "MANY", 0)


def loss_of(field: cnf.ConstrainedField) -> Tensor:
    solution, x = field.solve(), halton(25, seed=8)
    return solution(x).square().sum() + 0.1 * solution.apply(r"\partial_x u - y u", x).square().mean()


def gradients(field: cnf.ConstrainedField, **options) -> list[Tensor]:
    return list(torch.autograd.grad(loss_of(field), list(field.parameters()), **options))


def test_auto_writes_out_what_is_not_square(small_is_large):
    """Fewer conditions than functions: the weights of minimum norm, as numpy.linalg.lstsq gives them."""
    x = halton(40)
    field = cnf.ConstrainedField(Kernel(SPACE, x, kernels.Wendland(2, 0.3)), asked(SPACE, ("u", x[:30])))
    solution = field.solve()
    matrix = solution.blocks[0].matrix
    assert isinstance(matrix, SparseMatrix)
    expected = np.linalg.lstsq(matrix.to_dense().detach().numpy(), values(x[:30]).numpy(), rcond=None)[0]
    assert np.abs(solution.weights[:, 0].detach().numpy() - expected).max() <= 1e-10 * np.abs(expected).max()
    assert "MinimumNorm" in str(solution.certificate)


def test_auto_takes_the_sparse_form_where_it_pays(monkeypatch):
    """By the number of entries and the share of them that is stored; the answer does not depend on it."""
    x = halton(60)
    found = {}
    for large, share in ((0, 1.0), (60**2 + 1, 1.0), (0, 1e-3)):
        monkeypatch.setattr(form, "LARGE", large)
        monkeypatch.setattr(form, "SPARSE", share)
        field = cnf.ConstrainedField(Kernel(SPACE, x, kernels.Wendland(2, 0.3)), asked(SPACE, ("u", x)))
        solution = field.solve()
        found[large, share] = solution.weights.detach()
        assert isinstance(solution.blocks[0].matrix, SparseMatrix) == (large == 0 and share == 1.0)
    first, *others = found.values()
    assert all((w - first).abs().max() <= 1e-9 * first.abs().max() for w in others)


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_solutions_and_gradients(kind: str, name: str, small_is_large):
    """Weights, loss and gradients to every parameter as by the dense solver, to 1e-8; conditions exact."""
    field, dense = FIELDS[kind](SOLVERS[name]), FIELDS[kind](Cholesky() if kind == "hermite" else LU())
    solution, expected = field.solve(), dense.solve()
    assert isinstance(solution.blocks[0].matrix, SparseMatrix)
    assert isinstance(expected.blocks[0].matrix, Tensor)
    assert solution.certificate.exact
    assert "Sparse" in str(solution.certificate) or "Krylov" in str(solution.certificate)
    assert (solution.weights - expected.weights).abs().max() <= 1e-8 * expected.weights.abs().max()
    found, exact = gradients(field), gradients(dense)
    rounding = 1e-14 * max(float(e.abs().max()) for e in exact)  # the last bias of an encoder has no gradient at all
    for a, e in zip(found, exact, strict=True):
        assert (a - e).abs().max() <= 1e-8 * e.abs().max() + rounding


@pytest.mark.parametrize(
    ("kind", "name"), [("kernel", "SparseLU"), ("hermite", "SparseCholesky"), ("kernel", "Krylov")]
)
def test_second_derivatives(kind: str, name: str, small_is_large):
    """The gradient of |gradient|^2, as by the dense solver; and a Hessian product by finite differences."""

    def of(field: cnf.ConstrainedField) -> list[Tensor]:
        first = gradients(field, create_graph=True)
        return list(torch.autograd.grad(sum(g.square().sum() for g in first), list(field.parameters())))

    field = FIELDS[kind](SOLVERS[name])
    found, expected = of(field), of(FIELDS[kind](Cholesky() if kind == "hermite" else LU()))
    rounding = 1e-13 * max(float(e.abs().max()) for e in expected)  # the last bias has no gradient at all
    for a, e in zip(found, expected, strict=True):
        assert (a - e).abs().max() <= 1e-8 * e.abs().max() + rounding
    step, sizes = 1e-5, []
    parameters = list(field.parameters())
    direction = [torch.randn_like(p) for p in parameters]
    for sign in (1, -1):
        with torch.no_grad():
            for p, d in zip(parameters, direction, strict=True):
                p += sign * (1 if sign > 0 else 2) * step * d
        sizes.append(float(sum(g.square().sum() for g in gradients(field))))
    slope = (sizes[0] - sizes[1]) / (2 * step)
    assert slope == pytest.approx(float(sum((a * d).sum() for a, d in zip(found, direction, strict=True))), rel=1e-5)


@pytest.mark.parametrize("name", ["SparseLU", "Krylov", "Auto"])
def test_gradient_to_the_radius_by_finite_differences(name: str, small_is_large):
    """d(loss)/d(log radius) of the window against a central difference with step 1e-5, which is right to 1e-8 or so."""
    field = learnable_kernel(SOLVERS[name])
    radius = field.basis.window.log_length
    (slope,) = torch.autograd.grad(loss_of(field), radius)
    step, sides = 1e-5, []
    for move in (step, -2 * step):
        with torch.no_grad():
            radius += move
            sides.append(float(loss_of(field)))
    assert float(slope) == pytest.approx((sides[0] - sides[1]) / (2 * step), rel=1e-6)
    assert abs(float(slope)) > 1e-3


@pytest.mark.parametrize("name", ["SparseLU", "SparseCholesky", "Krylov"])
def test_condition_number(name: str):
    """Condition of the equilibrated matrix, as NumPy's svd gives it, and its slope in the radius by differences."""
    field = (learnable_hermite if name == "SparseCholesky" else learnable_channels)(SOLVERS[name])
    solution = field.solve()
    factor, matrix = solution.factors[0], solution.blocks[0].matrix

    def exact(m) -> float:
        dense = m.to_dense().detach().numpy()
        sizes = np.linalg.svd(factor.scale_rows.numpy()[:, None] * dense * factor.scale_columns.numpy())[1]
        return float(sizes[0] / sizes[-1])

    found = factor.condition_of(matrix)
    assert found.item() == pytest.approx(exact(matrix), rel=1e-3)
    length = field.basis.kernel.log_length
    (slope,) = torch.autograd.grad(found, length)
    step, sides = 1e-5, []
    for move in (step, -2 * step):
        with torch.no_grad():
            length += move
            sides.append(exact(field.solve().blocks[0].matrix))
    assert float(slope.sum()) == pytest.approx((sides[0] - sides[1]) / (2 * step), rel=0.02)


# -- training ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["SparseLU", "Krylov", "Auto"])
def test_training_keeps_the_structure(name: str, small_is_large, monkeypatch):
    """8 steps of Adam: conditions exact at every step, the pattern found and ordered once; a new one when due."""
    field = learnable_kernel(SOLVERS[name])
    made: list[str] = []

    def counted(module: str, function: str) -> None:
        original = getattr(__import__(module, fromlist=[function]), function)
        monkeypatch.setattr(f"{module}.{function}", lambda *a: made.append(function) or original(*a))

    counted("cnf.systems.sparse", "plan_structure")
    counted("cnf.solvers.sparse_matrix", "make_plan")
    counted("cnf.solvers.schwarz", "_cut_up")
    once = ["plan_structure", "_cut_up" if name == "Krylov" else "make_plan"]
    optimiser = torch.optim.Adam(field.parameters(), lr=1e-3)
    losses = []
    for _ in range(8):
        optimiser.zero_grad()
        solution = field.solve()
        assert max(r.relative for r in solution.certificate.residuals.values()) <= 1e-9
        loss = solution.apply(r"\Delta u", halton(25, seed=8)).square().mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert made == once
    with torch.no_grad():
        field.basis.window.log_length += 0.05  # within the slack
    field.solve()
    assert made == once
    with torch.no_grad():
        field.basis.window.log_length += 0.2  # beyond it
    assert field.solve().certificate.exact
    assert made == 2 * once
    with torch.no_grad():
        field.basis.anchors.add_(1e-3 * torch.randn_like(field.basis.anchors))
    assert field.solve().certificate.exact
    assert made == 3 * once
    with torch.no_grad():
        field.basis.window.log_length -= 0.8  # most entries planned for would be zero
    field.solve()
    assert made == 4 * once


# -- evaluation --------------------------------------------------------------------------------------------------


def both_ways(solution, evaluate: Callable[[object], Tensor], monkeypatch) -> tuple[Tensor, Tensor]:
    """By neighbours and dense."""
    found = []
    for many in (0, 10**9):
        with monkeypatch.context() as patch:
            patch.setattr(expansions, "MANY", many)
            found.append(evaluate(solution))
    return found[0], found[1]


WITH_BASES = [(name, base) for k, name in enumerate(SYSTEMS) for base in ("none", ("network", "field")[k % 2])]


@pytest.mark.parametrize(("name", "base"), WITH_BASES)
def test_evaluation_by_neighbours(name: str, base: str, monkeypatch):
    """Values and operators with coefficients at points near and far; answer: all functions at all points."""
    basis, constraints = SYSTEMS[name]()
    width = len(basis.space.channels)
    modules = {"none": None, "network": cnf.encoders.MLP(2, width, hidden=(6,), seed=1).double()}
    if base == "field":
        inner = Kernel(basis.space, halton(12, seed=4), kernels.Wendland(3, 0.5))
        fixed = [basis.space.constraint(c, at=halton(12, seed=4), equals=1.0, name=c) for c in basis.space.channels]
        modules["field"] = cnf.ConstrainedField(inner, fixed).eval()
    field = cnf.ConstrainedField(basis, constraints, base=modules[base])
    solution = field.solve()
    x = torch.cat([halton(50, seed=12), torch.full((2, 2), 9.0, dtype=torch.float64), constraints[0].points[:3]])
    first, last = basis.space.coordinates
    operators = ["u", rf"\partial_{first} u", rf"{last} \partial_{last} u - u", rf"\int_0^1 u \, d{first}"]
    operators += [r"\partial_x^2 u"] if (basis.smoothness or 9) >= 2 else []
    operators += [r"\partial_y u + x v"] if width == 2 else []
    for evaluate in (lambda s: s(x), *(lambda s, o=o: s.apply(o, x) for o in operators)):
        found, expected = both_ways(solution, evaluate, monkeypatch)
        assert found.shape == expected.shape
        assert (found - expected).abs().max() <= 1e-11 * (expected.abs().max() + solution.weights.abs().max())
        if base == "none":
            assert float(found[50:52].abs().max()) == 0  # out of reach of every function
    found, expected = both_ways(
        solution, lambda s: torch.cat(list(s.derivatives(x, [(0, 0), (1, 0), (0, 1)]).values()), dim=1), monkeypatch
    )
    assert (found - expected).abs().max() <= 1e-11 * (expected.abs().max() + solution.weights.abs().max())


@pytest.mark.parametrize("name", SYSTEMS)
def test_gradients_of_evaluation_by_neighbours(name: str, monkeypatch):
    """To the points and to every parameter, in one piece and in many; answer: dense evaluation."""
    basis, constraints = SYSTEMS[name]()
    field = cnf.ConstrainedField(basis, constraints)
    x = halton(40, seed=12).requires_grad_()

    def of(solution) -> Tensor:
        total = solution(x).square().sum() + solution.apply(f"\\partial_{basis.space.coordinates[0]} u", x).sum()
        parameters = [p for p in basis.parameters() if p.requires_grad]
        found = torch.autograd.grad(total, [x, *parameters], retain_graph=True)
        return torch.cat([g.reshape(-1) for g in found])

    found, expected = both_ways(field.solve(), of, monkeypatch)
    assert (found - expected).abs().max() <= 1e-9 * expected.abs().max()
    monkeypatch.setattr("cnf.systems.local_evaluation.PAIRS", 101)
    monkeypatch.setattr("cnf.systems.local_evaluation.POINTS", 17)
    again, _ = both_ways(field.solve(), of, monkeypatch)
    assert (again - expected).abs().max() <= 1e-9 * expected.abs().max()


def test_empty_and_float32(small_is_large):
    """No points give empty answers; a float32 field agrees with the float64 one to its precision."""
    x = halton(60)
    fields = []
    for dtype in (torch.float64, torch.float32):
        constraints = [SPACE.constraint("u", at=x.to(dtype), equals=values(x).to(dtype), name="u")]
        basis = Kernel(SPACE, x.to(dtype), kernels.Wendland(2, 0.3))
        fields.append(cnf.ConstrainedField(basis, constraints, solver=SparseLU()))
    wide, narrow = (f.solve() for f in fields)
    empty = wide(x[:0])
    assert empty.shape == (0, 1)
    assert wide.apply(r"\nabla u", x[:0]).shape == (0, 2)
    assert narrow.weights.dtype == torch.float32
    assert narrow.certificate.exact
    y = halton(30, seed=6)
    assert narrow(y.float()).dtype == torch.float32
    assert (narrow(y.float()).double() - wide(y)).abs().max() <= 1e-4


# -- fields as users have them -----------------------------------------------------------------------------------


NEW = {
    "SparseLU": SparseLU(backend="superlu", refine=False),
    "SparseCholesky": SparseCholesky(backend="multifrontal"),
    "Krylov": Krylov(tolerance=1e-12, overlap=0.2, size=30, most=77),
}


@pytest.mark.parametrize("name", NEW)
def test_saved_loaded_updated(name: str, tmp_path):
    """A field with each solver comes back from its file with its settings; new right-hand sides need no new factor."""
    x = halton(50)
    constraints = asked(SPACE, ("u", x))
    field = cnf.ConstrainedField(Hermite(SPACE, constraints, kernels.Wendland(2, 0.3)), constraints, solver=NEW[name])
    field.eval()
    before = field(x)
    field.save(tmp_path / "field.cnf")
    again = cnf.load(tmp_path / "field.cnf")
    assert again.solver == NEW[name]
    assert (again(x) - before).abs().max() <= 1e-12
    factors = field._cache[1].factors
    solution = field.update({"u": 2 * values(x)})
    assert field._cache[1].factors is factors
    assert solution.certificate.exact
    assert (solution(x)[:, 0] - 2 * values(x)).abs().max() <= 1e-10
    text = str(solution.certificate)
    assert name in text and "rank 50" in text


def test_certificate_names_the_way():
    """Which solver, which backend and which order made the weights is written down."""
    x = halton(50)
    constraints = asked(SPACE, ("u", x))
    basis = Hermite(SPACE, constraints, kernels.Wendland(2, 0.3))
    names = {
        SparseLU(backend="superlu"): "SparseLU (SuperLU, ",
        SparseCholesky(backend="multifrontal"): "SparseCholesky (multifrontal, ",
        Krylov(): "Krylov (conjugate gradients, 1 patches, ",
    }
    for solver, name in names.items():
        certificate = cnf.ConstrainedField(basis, constraints, solver=solver).certificate
        assert name in str(certificate)


class TestErrors:
    @pytest.mark.parametrize("solver", [SparseLU(), Krylov(size=10)])
    def test_duplicate_points(self, solver):
        """Two conditions and two functions at one point: an error that speaks of duplicates, not a wrong field."""
        x = torch.cat([halton(30), halton(30)[:1]])
        constraints = asked(SPACE, ("u", x))
        field = cnf.ConstrainedField(_unchecked_kernel(x), constraints, solver=solver)
        with pytest.raises(CnfError, match="duplicate"):
            field.solve()

    @pytest.mark.parametrize("solver", [SparseCholesky("multifrontal"), SparseCholesky("superlu"), Krylov(size=10)])
    def test_duplicate_conditions(self, solver):
        x = torch.cat([halton(30), halton(30)[:1]])
        constraints = asked(SPACE, ("u", x))
        field = cnf.ConstrainedField(Hermite(SPACE, constraints, kernels.Wendland(2, 0.3)), constraints, solver=solver)
        with pytest.raises(CnfError, match="duplicate"):
            field.solve()

    @pytest.mark.parametrize("kind", [SparseLU, SparseCholesky])
    def test_unknown_backend(self, kind):
        basis, constraints = _values(Hermite)
        with pytest.raises(CnfError, match="one of auto, multifrontal, superlu, pardiso; got 'umfpack'"):
            cnf.ConstrainedField(basis, constraints, solver=kind(backend="umfpack")).solve()

    def test_multifrontal_is_for_definite_matrices(self):
        basis, constraints = _values(Hermite)
        with pytest.raises(CnfError, match="SparseCholesky"):
            cnf.ConstrainedField(basis, constraints, solver=SparseLU(backend="multifrontal")).solve()

    @pytest.mark.skipif(pardiso.is_installed(), reason="MKL is installed here")
    def test_pardiso_that_is_not_there(self):
        basis, constraints = _values(Hermite)
        with pytest.raises(MissingExtraError, match="mkl"):
            cnf.ConstrainedField(basis, constraints, solver=SparseLU(backend="pardiso")).solve()

    @pytest.mark.parametrize("solver", [SparseLU(), SparseCholesky(), Krylov()])
    def test_functions_without_an_end(self, solver):
        """A Gaussian is nowhere zero: the error says which bases are."""
        x = halton(20)
        field = cnf.ConstrainedField(Kernel(SPACE, x, kernels.Gaussian(0.1)), asked(SPACE, ("u", x)), solver=solver)
        with pytest.raises(BasisError, match=r"Wendland.*Auto"):
            field.solve()

    @pytest.mark.parametrize("solver", [SparseLU(), SparseCholesky(), Krylov()])
    def test_dense_matrix(self, solver):
        with pytest.raises(CnfError, match="compact support"):
            solver.factor(torch.eye(3, dtype=torch.float64))

    @pytest.mark.parametrize("solver", [SparseLU(), Krylov()])
    def test_wide_systems(self, solver):
        """Fewer conditions than functions: the error gives both numbers."""
        x = halton(20)
        basis = Kernel(SPACE, x, kernels.Wendland(2, 0.4))
        with pytest.raises(SingularSystemError, match="20 and 15"):
            cnf.ConstrainedField(basis, asked(SPACE, ("u", x[:15])), solver=solver).solve()

    def test_cholesky_of_a_wide_system(self):
        x = halton(20)
        basis = Kernel(SPACE, x, kernels.Wendland(2, 0.4))
        with pytest.raises(SingularSystemError, match=r"20 and 15|symmetric"):
            cnf.ConstrainedField(basis, asked(SPACE, ("u", x[:15])), solver=SparseCholesky()).solve()

    def test_cholesky_of_a_matrix_that_is_not_symmetric(self):
        basis, constraints = plain()
        with pytest.raises(SingularSystemError, match="symmetric"):
            cnf.ConstrainedField(basis, constraints, solver=SparseCholesky()).solve()

    @pytest.mark.parametrize("solver", [SparseLU(), Krylov()])
    def test_conditions_out_of_reach(self, solver):
        """A condition that no function reaches cannot be met, and is not reported as met."""
        x = halton(20)
        away = torch.cat([x[:19], torch.full((1, 2), 5.0, dtype=torch.float64)])
        field = cnf.ConstrainedField(
            Kernel(SPACE, x, kernels.Wendland(2, 0.4)), asked(SPACE, ("u", away)), solver=solver
        )
        with pytest.raises(SingularSystemError, match=r"support|radius"):
            field.solve()

    def test_auto_falls_back_and_says_so(self, small_is_large, monkeypatch):
        """Where SparseCholesky gives up, SparseLU answers; a warning and a note say so, and the conditions hold."""

        def give_up(*_, **__):
            raise SingularSystemError("not definite")

        monkeypatch.setattr(SparseCholesky, "factor", give_up)
        basis, constraints = _values(Hermite)
        with pytest.warns(NumericalWarning, match="SparseCholesky failed"):
            certificate = cnf.ConstrainedField(basis, constraints).solve().certificate
        assert certificate.exact
        assert any("SparseLU was used instead" in note for note in certificate.notes)

    def test_far_too_wide(self, small_is_large):
        """Wendland's C^10 function ten times as wide as the domain: singular in double precision, and refused."""
        x = halton(200)
        constraints = asked(SPACE, ("u", x))
        basis = Hermite(SPACE, constraints, kernels.Wendland(5, 10.0))
        for solver in (SparseCholesky(), SparseLU(), Krylov()):
            with pytest.raises(SingularSystemError):
                cnf.ConstrainedField(basis, constraints, solver=solver).solve()


def _values(kind) -> tuple[Basis, list[cnf.Constraint]]:
    x = halton(20)
    constraints = asked(SPACE, ("u", x))
    return kind(SPACE, constraints, kernels.Wendland(2, 0.4)), constraints


def _unchecked_kernel(x: Tensor) -> Kernel:
    """A kernel with a repeated anchor, which the constructor would refuse."""
    basis = Kernel(SPACE, x + torch.arange(x.shape[0])[:, None], kernels.Wendland(2, 0.3))
    basis.anchors = x.clone()
    return basis


@pytest.mark.parametrize(
    "solver", [SparseLU(), cnf.solvers.Krylov(), cnf.solvers.Patches(), cnf.solvers.LU()], ids=repr
)
def test_a_query_that_is_not_finite_is_nan_alone(solver):
    """As in a dense evaluation: its own row is NaN, the others are what they are without it."""
    space = cnf.Space("x y", "u")
    x = torch.rand(300, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    field = cnf.ConstrainedField(
        cnf.bases.Kernel(space, x, cnf.kernels.Wendland(1, 0.3)),
        space.constraint("u = x", at=x, name="u"),
        solver=solver,
    ).eval()
    query = torch.tensor([[0.5, 0.5], [float("nan"), 0.5], [float("inf"), 0.1], [0.2, 0.7]], dtype=torch.float64)
    found = field(query)[:, 0]
    assert torch.isnan(found[1])
    assert torch.equal(found[[0, 3]], field(query[[0, 3]])[:, 0])


@pytest.mark.parametrize("solver", [SparseLU(), cnf.solvers.Patches()], ids=repr)
def test_a_radius_that_training_lost_is_named(solver):
    """NaN in the kernel's length is a BasisError that says so, not an error of the neighbour search."""
    space = cnf.Space("x y", "u")
    x = torch.rand(50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    basis = cnf.bases.Kernel(space, x, cnf.kernels.Wendland(1, 0.3))
    field = cnf.ConstrainedField(basis, space.constraint("u = x", at=x, name="u"), solver=solver)
    with torch.no_grad():
        basis.kernel.log_length.fill_(float("nan"))
    with pytest.raises(BasisError, match="radius"):
        field.solve()
