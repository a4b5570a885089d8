"""Sparse direct solves of a field on a device: on the host by default, or by a package that takes the slot."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.sparse.linalg import splu
from torch import Tensor

import cnf
from cnf import kernels
from cnf.bases import Hermite, Kernel
from cnf.solvers import SparseCholesky, SparseLU, on_device
from tests.devices.pretended import NAME, Pretended

SPACE = cnf.Space("x y", "u")
POINTS = cnf.Box((0, 0), (1, 1)).halton(150, seed=1)
QUERY = cnf.Box((0, 0), (1, 1)).halton(9, seed=4)


class ByScipy:
    """A package for the slot: SciPy's factors behind tensors of the pretended device."""

    factored: list[bool]

    def __init__(self) -> None:
        self.factored = []

    def takes(self, values: Tensor) -> bool:
        return isinstance(values, Pretended)

    def factor(self, starts, columns, values, definite):
        assert isinstance(values, Pretended) and values.dtype == torch.float64
        self.factored.append(definite)
        factor = splu(sparse.csr_matrix((values.cpu().numpy(), columns, starts)).tocsc())

        def solve(b: Tensor, transposed: bool = False) -> Tensor:
            assert isinstance(b, Pretended)
            return torch.from_numpy(factor.solve(b.cpu().numpy(), "T" if transposed else "N")).to(NAME)

        return SimpleNamespace(name="by SciPy", solve=solve)


def field(device: str, definite: bool) -> cnf.ConstrainedField:
    at = POINTS.to(device)
    asked = [SPACE.constraint("u", at=at, equals=lambda z: z[:, 0] * z[:, 1])]
    kernel = kernels.Wendland(2, 0.3)
    if definite:
        return cnf.ConstrainedField(Hermite(SPACE, asked, kernel), asked, solver=SparseCholesky())
    return cnf.ConstrainedField(Kernel(SPACE, at, kernel), asked, solver=SparseLU())


def through(device: str, definite: bool) -> tuple[list[Tensor], cnf.Certificate]:
    """Values, the gradient of a loss, which is an adjoint solve, and the condition number."""
    made = field(device, definite)
    solution = made.solve()
    found = solution(QUERY.to(device))
    gradients = torch.autograd.grad(found.square().sum(), list(made.parameters()))
    return [found.detach().cpu(), *(g.cpu() for g in gradients)], solution.certificate


@pytest.mark.parametrize("definite", [False, True], ids=["SparseLU", "SparseCholesky"])
def test_the_host_solves_and_says_so(definite: bool):
    """The same numbers as on the host, and one line in the certificate; none where nothing was moved."""
    (expected, one), (found, other) = through("cpu", definite), through(NAME, definite)
    for a, b in zip(found, expected, strict=True):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-11)
    assert one.notes == () and other.notes == (f"solved on the host: no sparse solver takes what is on {NAME}:0",)
    assert "note: solved on the host" in str(other) and other.exact


@pytest.mark.parametrize("definite", [False, True], ids=["SparseLU", "SparseCholesky"])
def test_a_package_takes_the_slot(definite: bool, monkeypatch):
    """By its entry point it gets the scaled matrix where it is; forward, adjoint and condition number come from it."""
    package = ByScipy()
    point = SimpleNamespace(load=lambda: package)
    monkeypatch.setattr(on_device, "entry_points", lambda group: [point] if group == "cnf.sparse_solvers" else [])
    (expected, one), (found, other) = through("cpu", definite), through(NAME, definite)
    for a, b in zip(found, expected, strict=True):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-11)
    assert package.factored == [definite] and "by SciPy" in other.solver and other.notes == () and other.exact
    assert other.condition == pytest.approx(one.condition, rel=0.3)  # estimates, scaled alike


def test_nvmath_as_it_is_documented(monkeypatch):
    """The stateful solver of nvmath.sparse.advanced, played by SciPy: planned, factored, right-hand sides reset."""
    calls = []

    class DirectSolver:
        def __init__(self, a: Tensor, b: Tensor):
            assert a.layout == torch.sparse_csr and a.crow_indices().dtype == torch.int32 and b.dim() == 1
            parts = (a.values().numpy(), a.col_indices().numpy(), a.crow_indices().numpy())
            self.matrix, self.b = sparse.csr_matrix(parts, shape=tuple(a.shape)), b
            calls.append("made")

        def plan(self):
            calls.append("plan")

        def factorize(self):
            self.factor = splu(self.matrix.tocsc())
            calls.append("factorize")

        def reset_operands(self, *, a=None, b=None):
            assert b.shape == self.b.shape and b.is_contiguous()
            self.b = b

        def solve(self):
            return torch.from_numpy(self.factor.solve(self.b.numpy()))

    advanced = ModuleType("nvmath.sparse.advanced")
    advanced.DirectSolver = DirectSolver  # type: ignore[attr-defined]
    package = ModuleType("nvmath.sparse")
    package.advanced = advanced  # type: ignore[attr-defined]
    for name, module in (("nvmath", ModuleType("nvmath")), ("nvmath.sparse", package), (advanced.__name__, advanced)):
        monkeypatch.setitem(sys.modules, name, module)
    on_device._nvmath.cache_clear()
    try:
        matrix = sparse.random(12, 12, density=0.3, rng=np.random.default_rng(0), format="csr") + 3 * sparse.eye(12)
        matrix = sparse.csr_matrix(matrix)
        b = torch.arange(24.0, dtype=torch.float64).reshape(12, 2)
        given = (matrix.indptr, matrix.indices, torch.from_numpy(matrix.data))
        factor = on_device.CuDSS().factor(*given, definite=False)
        assert np.allclose(matrix @ factor.solve(b).numpy(), b) and calls == ["made", "plan", "factorize"]
        assert np.allclose(matrix.T @ factor.solve(b, transposed=True).numpy(), b)
        factor.solve(b, transposed=True)
        assert calls == ["made", "plan", "factorize"] * 2  # the transpose once, when it was first asked for
        assert not on_device.CuDSS().takes(torch.zeros(1))  # only what its cards hold
    finally:
        on_device._nvmath.cache_clear()
