"""Pairs of a point and a centre: the same numbers as whole rows, for every basis whose functions sit at points."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

import cnf
from cnf import encoders, kernels
from cnf.bases import Hermite, Hybrid, HypernetKernel, Kernel, SkewedRBF
from cnf.bases.basis import Basis
from cnf.bases.local import LocalEvaluator, SourceEvaluator, neighbours
from cnf.operators import jets
from cnf.operators.expansion import Request, expand
from cnf.systems.local_evaluation import derived

SPACE = cnf.Space("x y", "u")
PAIR = cnf.Space("x y", "u v")
OPERATORS = [
    "u",
    r"\partial_x u",
    r"(1 + x^2) \partial_x u - y u",
    r"\Delta u",
    r"x y \partial_x \partial_y u + \sin(y) u",
]


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def anchors(count: int = 9) -> Tensor:
    return cnf.Box((0, 0), (1, 1)).halton(count, seed=5)


def mlp() -> encoders.MLP:
    return encoders.MLP(2, 6, hidden=(8,), seed=1)


def skewed(full: bool) -> SkewedRBF:
    basis = SkewedRBF(SPACE, anchors(), bandwidth=0.4, full=full)
    with torch.no_grad():
        for k, parameter in enumerate(basis.parameters()):
            parameter += 0.3 * normal(*parameter.shape, seed=k)
    return basis


def data(space: cnf.Space, kernel: kernels.KernelProfile, *asked: str) -> Hermite:
    """Hermite with several conditions at the same points and one at others."""
    at = anchors()
    same = [space.constraint(a, at=at, equals=0.0, name=a) for a in asked]
    other = space.constraint(r"(1 + x) \partial_x u + u", at=anchors(5) * 0.7 + 0.1, equals=0.0, name="other")
    return Hermite(space, [*same, other], kernel)


BASES: dict[str, Callable[[], Basis]] = {
    "Kernel-Gaussian": lambda: Kernel(SPACE, anchors(), kernels.Gaussian(0.4)),
    "Kernel-Gaussian-per-coordinate": lambda: Kernel(SPACE, anchors(), kernels.Gaussian([0.3, 0.6])),
    "Kernel-Matern": lambda: Kernel(SPACE, anchors(), kernels.Matern(3.5, 0.6)),
    "Kernel-Wendland": lambda: Kernel(SPACE, anchors(), kernels.Wendland(2, 0.6)),
    "Kernel-Wendland-per-coordinate": lambda: Kernel(SPACE, anchors(), kernels.Wendland(2, [0.5, 0.9])),
    "Kernel-Gaussian-encoder": lambda: Kernel(SPACE, anchors(), kernels.Gaussian(1.0), mlp()),
    "Kernel-DotProduct-encoder": lambda: Kernel(SPACE, anchors(), kernels.DotProduct(), mlp()),
    "SkewedRBF": lambda: skewed(False),
    "SkewedRBF-full": lambda: skewed(True),
    "Hybrid-Kernel": lambda: Hybrid(BASES["Kernel-Gaussian"](), kernels.Wendland(2, 0.7)),
    "Hybrid-per-coordinate": lambda: Hybrid(BASES["Kernel-Gaussian"](), kernels.Wendland(2, [0.7, 0.5])),
    "Hybrid-encoder": lambda: Hybrid(BASES["Kernel-Gaussian-encoder"](), kernels.Wendland(2, 0.7)),
    "Hybrid-DotProduct": lambda: Hybrid(BASES["Kernel-DotProduct-encoder"](), kernels.Wendland(2, 0.7)),
    "Hybrid-SkewedRBF": lambda: Hybrid(skewed(True), kernels.Wendland(2, 0.7)),
    "Hybrid-HypernetKernel": lambda: Hybrid(
        HypernetKernel(
            SPACE, anchors(), encoders.MLP(2, 6, hidden=(8,), activation="softplus", seed=2), codes=4, seed=4
        ),
        kernels.Wendland(2, 0.7),
    ),
    "Hermite-values": lambda: data(SPACE, kernels.Wendland(3, 0.8), "u"),
    "Hermite-gradients": lambda: data(SPACE, kernels.Wendland(3, 0.8), "u", r"\partial_x u", r"\partial_y u"),
    "Hermite-Laplacians": lambda: data(SPACE, kernels.Wendland(4, [0.8, 1.1]), "u", r"\nabla u", r"\Delta u"),
    "Hermite-Gaussian": lambda: data(SPACE, kernels.Gaussian(0.4), "u", r"x \Delta u + \partial_x u"),
    "Hermite-channels": lambda: data(PAIR, kernels.Wendland(3, 0.8), "u", "v", r"\partial_x u + y \partial_y v"),
}
every_basis = pytest.mark.parametrize("name", BASES)


def points() -> Tensor:
    """Some at centres, some between."""
    return torch.cat([anchors()[:3], cnf.Box((0, 0), (1, 1)).halton(6, seed=11)])


def asked_of(basis: Basis, x: Tensor) -> list[Request]:
    operators = OPERATORS + ([r"\partial_y v - x v"] if "v" in basis.space.channels else [])
    return [r for o in operators for probe in expand(basis.space.operator(o), x) for r in probe.requests]


@every_basis
def test_pairs_are_entries_of_rows(name: str):
    """All pairs, in a shuffled order, of operators up to order two with variable coefficients; answer: `rows`."""
    basis = BASES[name]()
    evaluator, x = basis.snapshot(), points()
    assert isinstance(evaluator, LocalEvaluator)
    requests = asked_of(basis, x)
    expected = evaluator.rows(x, requests)
    found = torch.zeros_like(expected)
    for g, centres in enumerate(evaluator.centres):
        every = torch.cartesian_prod(torch.arange(x.shape[0]), torch.arange(centres.points.shape[0]))
        p, q = every[torch.randperm(every.shape[0])].unbind(dim=1)
        pairs = evaluator.paired(x, p, q, requests, g)
        assert pairs.shape == (p.shape[0], len(requests), len(centres.channels))
        for r in range(pairs.shape[2]):
            for k in range(len(requests)):
                column = torch.tensor(k).expand_as(p)
                found.index_put_((p, column, centres.columns[r, q]), pairs[:, k, r], accumulate=True)
    assert (found - expected).abs().max() <= 1e-12 * expected.abs().max()


@every_basis
def test_pairs_of_any_shape(name: str):
    """Indices (B, M, 1) and (B, 1, M') mean all their pairs, in order; answer: the same pairs listed one by one."""
    basis = BASES[name]()
    evaluator, x = basis.snapshot(), points()
    requests = asked_of(basis, x)
    for g, centres in enumerate(evaluator.centres):
        p = torch.randint(x.shape[0], (3, 4, 1))
        q = torch.randint(centres.points.shape[0], (3, 1, 2))
        found = evaluator.paired(x, p, q, requests, g)
        expected = evaluator.paired(x, p.expand(3, 4, 2).reshape(-1), q.expand(3, 4, 2).reshape(-1), requests, g)
        assert found.shape == expected.shape
        assert torch.allclose(found, expected, rtol=1e-13, atol=0)


@every_basis
def test_no_pairs(name: str):
    """Points out of reach of every centre: nothing, in the right shape."""
    basis = BASES[name]()
    evaluator, x = basis.snapshot(), points()
    requests = asked_of(basis, x)
    none = torch.zeros(0, dtype=torch.int64)
    for g, centres in enumerate(evaluator.centres):
        found = evaluator.paired(x, none, none, requests, g)
        assert found.shape == (0, len(requests), len(centres.channels))


@every_basis
def test_gradients_of_pairs(name: str):
    """d(sum of entries)/d(every parameter) by pairs and by rows agree: training sees the same thing."""
    basis = BASES[name]()
    x = points()
    requests = asked_of(basis, x)
    weights = normal(x.shape[0], len(requests), basis.size)
    parameters = [p for p in basis.parameters() if p.requires_grad]

    def gradients(evaluate: Callable[[LocalEvaluator], Tensor]) -> list[Tensor]:
        found = torch.autograd.grad(evaluate(basis.snapshot()), parameters, allow_unused=True)
        return [torch.zeros_like(p) if g is None else g for g, p in zip(found, parameters, strict=True)]

    def by_pairs(evaluator: LocalEvaluator) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for g, centres in enumerate(evaluator.centres):
            p, q = torch.cartesian_prod(torch.arange(x.shape[0]), torch.arange(centres.points.shape[0])).unbind(dim=1)
            pairs = evaluator.paired(x, p, q, requests, g)  # (E, K, R)
            total = total + (pairs * weights[p[:, None], :, centres.columns[:, q].T].transpose(1, 2)).sum()
        return total

    expected = gradients(lambda evaluator: (evaluator.rows(x, requests) * weights).sum())
    size = max(float(e.abs().max()) for e in expected)
    for found, e in zip(gradients(by_pairs), expected, strict=True):
        assert (found - e).abs().max() <= 1e-11 * size


@every_basis
def test_support_is_where_functions_end(name: str):
    """Beyond the support, rows are exactly zero; just inside, they are not all."""
    basis = BASES[name]()
    evaluator = basis.snapshot()
    if evaluator.support is None:
        return
    requests = asked_of(basis, points())[:1]
    for g, centres in enumerate(evaluator.centres):
        for axis in range(2):
            reach = evaluator.support.detach().expand(2)[axis]
            for factor, inside in ((1 + 1e-9, False), (0.5, True)):
                x = centres.points[:1].clone()
                x[0, axis] += factor * reach
                at = evaluator.paired(x, torch.tensor([0]), torch.tensor([0]), requests, g)
                assert bool((at != 0).any()) == inside


@pytest.mark.parametrize("name", [n for n in BASES if n.startswith(("Hermite", "Kernel-W", "Kernel-Gaussian-per"))])
def test_sources(name: str):
    """sum_b v_b d^(a+b) k(x - y) over all centres is the dense row times the weights, for every index up to order 2."""
    basis = BASES[name]()
    evaluator, x = basis.snapshot(), points()
    assert isinstance(evaluator, SourceEvaluator)
    weights = normal(basis.size, seed=3)
    indices = jets.closure([(2, 0), (1, 1), (0, 2)])
    one = torch.ones((), dtype=torch.float64)
    for channel in range(len(basis.space.channels)):
        expected = evaluator.rows(x, [Request(channel, {a: one}) for a in indices]) @ weights  # (P, J)
        for some in (indices, indices[:3], indices[:1], [(1, 0)]):  # closed forms exist for low orders
            found = torch.zeros(x.shape[0], len(some), dtype=torch.float64)
            for g, centres in enumerate(evaluator.centres):
                own = [r for r, c in enumerate(centres.channels) if c is None or c == channel]
                everywhere = torch.arange(centres.points.shape[0])
                strengths = evaluator.strengths(weights[centres.columns[own].T], everywhere, own, g) if own else {}
                p, q = torch.cartesian_prod(torch.arange(x.shape[0]), everywhere).unbind(dim=1)
                z = (x[p] - centres.points[q]).T  # (D, E)
                parts = derived(evaluator.kernel, z, {b: v[q] for b, v in strengths.items()}, some)
                found.index_add_(0, p, torch.stack(parts, dim=1).detach())
            columns = [list(indices).index(a) for a in some]
            assert (found - expected[:, columns]).abs().max() <= 1e-11 * expected.abs().max()


@pytest.mark.parametrize("support", [0.3, [0.2, 0.5]])
def test_neighbours(support):
    """All pairs with |(x - c) / support| < 1, found by looking at every pair with NumPy; points ascend."""
    x, centres = cnf.Box((0, 0), (1, 1)).halton(80, seed=1), cnf.Box((0, 0), (1, 1)).halton(50, seed=2)
    p, q = neighbours(x, centres, torch.tensor(support, dtype=torch.float64))
    away = np.linalg.norm((x.numpy()[:, None] - centres.numpy()) / np.array(support), axis=2)
    expected = {(int(i), int(j)) for i, j in np.argwhere(away < 1)}
    assert set(zip(p.tolist(), q.tolist(), strict=True)) == expected
    assert len(expected) == p.shape[0] > 100
    assert bool((p[1:] >= p[:-1]).all())
