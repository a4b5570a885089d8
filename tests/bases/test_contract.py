"""What every basis promises, checked once for all of them: see `contract.py` for the table and the oracles."""

from __future__ import annotations

import pytest
import sympy as sp
import torch
from torch import Tensor

import cnf
from cnf.bases import Hermite
from cnf.bases.basis import Basis
from cnf.operators import identity, partial
from cnf.operators.expansion import Request
from cnf.systems import assembly
from tests.bases.contract import CASES, Case, anchors, multi_indices, nested_autograd, places, spread

every_case = pytest.mark.parametrize("case", CASES, ids=repr)
in_dimensions = pytest.mark.parametrize(
    ("case", "dimension"),
    [pytest.param(case, d, id=f"{case}-{d}D") for case in CASES for d in case.dimensions],
)


def one(x: Tensor) -> Tensor:
    return torch.ones((), dtype=x.dtype)


def slices(basis: Basis, values: Tensor) -> list[Tensor]:
    """The functions of every channel, (P, N) each."""
    if values.dim() == 2:
        return [values] * len(basis.space.channels)
    return list(values.unbind(dim=2))


def conditions(case: Case, dimension: int, dtype: torch.dtype = torch.float64) -> list[cnf.Constraint]:
    """Values, and first derivatives where the basis has them, at random points with random right-hand sides."""
    space = case.space(dimension)
    at = spread(dimension, 6, seed=8).to(dtype)
    generator = torch.Generator().manual_seed(11)
    channels = len(space.channels)

    def sides(n: int) -> Tensor:
        return torch.randn(n, channels, generator=generator, dtype=torch.float64)

    found = [space.constraint(identity(), at=at[:4], equals=sides(4), name="value")]
    if case.order:
        found.append(space.constraint(partial(space.coordinates[-1]), at=at[4:], equals=sides(2), name="slope"))
    return found


def own_conditions(basis: Basis, case: Case, dimension: int, **options: object) -> list[cnf.Constraint]:
    """Hermite is built from conditions and is used with them; every other basis takes any."""
    return list(basis.constraints) if isinstance(basis, Hermite) else conditions(case, dimension, **options)


@in_dimensions
def test_values_follow_the_formula(case: Case, dimension: int):
    """The functions are what their documentation says, evaluated in NumPy and SciPy, points at anchors included."""
    if case.values is None:
        pytest.skip("compared by other tests")
    basis, x = case.basis(dimension), places(dimension)
    expected = torch.from_numpy(case.values(basis, x.numpy()))
    found = basis(x).detach()
    assert found.shape == expected.shape
    assert (found - expected).abs().max() <= 1e-13 * max(1.0, float(expected.abs().max()))


@in_dimensions
def test_derivatives_agree_with_nested_autograd(case: Case, dimension: int):
    """d^alpha Psi_j up to order 4 (as far as the basis is smooth): reverse mode through `forward`, to 1e-10 relative.

    Points AT the anchors are included, except for kernels that are functions of r there (test_kernels has those).
    """
    basis, x = case.basis(dimension), places(dimension)
    if case.order_at_anchors < case.order:
        x = x[:6]
    torch.manual_seed(1)
    mix = torch.randn(basis.size, 2, dtype=torch.float64)
    indices = multi_indices(dimension, case.order)
    evaluator = basis.snapshot()
    for channel in range(len(basis.space.channels)):
        oracle = nested_autograd(lambda p, c=channel: slices(basis, basis(p))[c] @ mix, x, indices)
        requests = [Request(channel, {index: one(x)}) for index in indices]
        found = evaluator.rows(x, requests).detach()  # (P, K, N)
        assert found.shape == (x.shape[0], len(indices), basis.size)
        for k, index in enumerate(indices):
            expected = oracle[index]
            scale = float(expected.abs().max())
            missed = float((found[:, k] @ mix - expected).abs().max())
            assert missed <= 1e-10 * scale + 1e-13, f"derivative {index} of channel {channel}"
        # one operator with all of them, weighted point by point: the collapsed path
        weights = torch.randn(len(indices), x.shape[0], dtype=torch.float64)
        together = Request(channel, dict(zip(indices, weights, strict=True)))
        row = evaluator.rows(x, [together]).detach()[:, 0] @ mix
        expected = sum(w[:, None] * oracle[i] for i, w in zip(indices, weights, strict=True))
        assert (row - expected).abs().max() <= 1e-10 * expected.abs().max()


@every_case
def test_single_derivatives_equal_the_same_asked_together(case: Case):
    """A request alone and among others gives the same rows: no path depends on what else is asked."""
    basis, x = case.basis(case.dimensions[-1]), places(case.dimensions[-1])
    indices = multi_indices(case.dimensions[-1], min(case.order, 2))
    requests = [Request(0, {index: torch.rand(x.shape[0], dtype=x.dtype)}) for index in indices]
    together = basis.rows(x, requests)
    for k, request in enumerate(requests):
        alone = basis.rows(x, [request])[:, 0]
        assert (alone - together[:, k]).abs().max() <= 1e-12 * max(1.0, float(alone.abs().max()))


@in_dimensions
def test_conditions_hold_exactly(case: Case, dimension: int):
    """Random values (and slopes) are met to 1e-10, as the certificate says and as evaluating the field again shows."""
    basis = case.basis(dimension)
    constraints = own_conditions(basis, case, dimension)
    solution = cnf.ConstrainedField(basis, constraints).solve()
    assert solution.certificate.exact
    assert solution.certificate.worst <= 1e-10
    value = next(c for c in constraints if c.name == "value")
    assert (solution(value.points) - value.values).abs().max() <= 1e-9 * value.values.abs().max()


@every_case
def test_gradients_reach_every_parameter(case: Case):
    """d loss / d parameter through the solve: against central differences along random directions."""
    dimension = min(2, case.dimensions[-1])
    basis = case.basis(dimension)
    if not list(basis.parameters()):
        pytest.skip("nothing to learn")
    field = cnf.ConstrainedField(basis, own_conditions(basis, case, dimension))
    x = places(dimension)[:6]
    torch.manual_seed(2)
    weights = torch.randn(6, len(basis.space.channels), dtype=torch.float64)

    def loss() -> Tensor:
        return (field.solve()(x) * weights).sum()

    value = loss()
    value.backward()
    parameters = {name: p for name, p in basis.named_parameters() if p.requires_grad}  # not a hypernetwork's pattern
    for count, (name, parameter) in enumerate(parameters.items()):
        assert parameter.grad is not None, name
        if name not in case.without_gradient:
            assert float(parameter.grad.abs().max()) > 1e-8, f"{name} has no gradient"
        if count >= 8:
            continue  # the rest belong to networks like those compared already
        direction = torch.randn_like(parameter)
        slope = float((parameter.grad * direction).sum())
        step = 6e-6  # the cube root of rounding: best for central differences
        with torch.no_grad():
            parameter += step * direction
            above = float(loss())
            parameter -= 2 * step * direction
            below = float(loss())
            parameter += step * direction
        size = max(abs(slope), 1e-3 * float(value.detach().abs()), 1e-3)
        assert abs(slope - (above - below) / (2 * step)) <= 1e-4 * size, name


@every_case
def test_float32(case: Case):
    """Conditions in float32: everything stays float32 and the conditions hold to rounding times condition."""
    basis = case.basis(case.dimensions[0])
    constraints = own_conditions(basis, case, case.dimensions[0], dtype=torch.float32)
    constraints = [c.to(torch.float32) for c in constraints]
    field = cnf.ConstrainedField(basis, constraints)
    solution = field.solve()
    assert field.dtype == torch.float32
    value = next(c for c in constraints if c.name == "value")
    found = solution(value.points)
    assert found.dtype == torch.float32
    assert all(p.dtype == torch.float32 for p in basis.parameters())
    rounding = torch.finfo(torch.float32).eps * max(solution.certificate.condition, 100)
    # Rounding is relative to the largest right-hand side, the certificate to the row's own or the median one.
    scaled = [(b.targets.abs() / torch.linalg.vector_norm(b.matrix, dim=1)[:, None]).detach() for b in solution.blocks]
    spread = max(float(s.max() / s[s > 0].median()) for s in scaled)
    assert solution.certificate.worst <= rounding * spread
    assert (found - value.values).abs().max() <= 10 * rounding * value.values.abs().max()


@every_case
def test_no_points_and_one_point(case: Case):
    """P = 0 gives (0, C) and (0, rows); P = 1 gives the same as that point among others."""
    dimension = case.dimensions[-1]
    basis = case.basis(dimension)
    solution = cnf.ConstrainedField(basis, own_conditions(basis, case, dimension)).solve()
    channels, x = len(basis.space.channels), places(dimension)
    assert solution(x[:0]).shape == (0, channels)
    assert solution.apply(identity(), x[:0]).shape == (0, channels)
    several = solution(x)
    assert solution(x[:1]).shape == (1, channels)
    assert (solution(x[2:3]) - several[2:3]).abs().max() <= 1e-12 * float(several.abs().max())
    if case.order:
        slopes = solution.apply(partial("x"), x[:6])
        assert (solution.apply(partial("x"), x[3:4]) - slopes[3:4]).abs().max() <= 1e-11 * float(slopes.abs().max())


@every_case
def test_in_pieces_is_the_same(case: Case, monkeypatch):
    """Assembly in small pieces, recomputed in the backward pass, gives the same matrix, solution and gradients."""
    dimension = case.dimensions[-1]
    basis = case.basis(dimension)
    varying = 1 + sp.Symbol("x", real=True) ** 2  # another weight at every point
    constraints = own_conditions(basis, case, dimension)
    if not isinstance(basis, Hermite):
        at = spread(dimension, min(3, basis.size - 6), seed=12)
        constraints.append(basis.space.constraint(varying * identity(), at=at, equals=1.0, name="weighted"))
    field = cnf.ConstrainedField(basis, constraints)
    x = places(dimension)

    def run() -> tuple[Tensor, Tensor, list[Tensor]]:
        basis.zero_grad(set_to_none=True)
        solution = field.solve()
        values = solution.apply(varying * identity(), x)
        if values.requires_grad:
            values.square().sum().backward()
        matrix = solution.blocks[0].matrix.detach()
        return matrix, values.detach(), [p.grad.clone() for p in basis.parameters() if p.requires_grad]

    whole = run()
    calls = []
    original = assembly._piece
    monkeypatch.setattr(assembly, "_piece", lambda *a: calls.append(1) or original(*a))
    monkeypatch.setattr(assembly, "PIECE", 2 * basis.size)
    monkeypatch.setattr(assembly, "KEEP", 1)
    pieces = run()
    assert len(calls) >= 5  # otherwise this test tests nothing
    assert (whole[0] - pieces[0]).abs().max() <= 1e-13 * float(whole[0].abs().max())
    assert (whole[1] - pieces[1]).abs().max() <= 1e-9 * float(whole[1].abs().max())
    largest = max((float(a.abs().max()) for a in whole[2]), default=0.0)
    for a, b in zip(whole[2], pieces[2], strict=True):  # some are zero but for rounding: compared with the largest
        assert (a - b).abs().max() <= 1e-10 * largest


@every_case
def test_gradient_of_points(case: Case):
    """A loss may differentiate the field at its points by plain autograd: it equals `apply` of that derivative."""
    if not case.order:
        pytest.skip("values only")
    dimension = case.dimensions[-1]
    basis = case.basis(dimension)
    solution = cnf.ConstrainedField(basis, own_conditions(basis, case, dimension)).solve()
    x = places(dimension)[:6].clone().requires_grad_()
    (slope,) = torch.autograd.grad(solution(x)[:, 0].sum(), x)
    expected = solution.apply(partial("x"), x)[:, 0]
    assert (slope[:, 0] - expected).abs().max() <= 1e-10 * float(expected.abs().max())


def test_anchor_tables_are_apart():
    """The table's anchors are distinct, so that its kernel systems are well posed."""
    for dimension in (1, 2, 3):
        points = anchors(dimension)
        gaps = torch.cdist(points, points) + torch.eye(points.shape[0], dtype=points.dtype)
        assert float(gaps.min()) > 0.02
