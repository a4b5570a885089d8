"""Fields that look up what a point needs, in bins and in trees of cuts, as torch modules."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

import cnf
from cnf import kernels, solvers
from cnf.bases import Cells, Cover, Hermite, Hybrid, Kernel, Partition, Piecewise, SkewedRBF
from cnf.bases.corner_functions import AngularMaps, CornerFunctions
from cnf.bases.edge_functions import Edge, EdgeFunctions
from cnf.errors import CnfError
from cnf.modules import check_module, module_of
from cnf.modules.bins import Bins
from cnf.systems.formulation import KnownAccount
from cnf.systems.tied import CellExpansion

ANY = ((torch.export.Dim.DYNAMIC, torch.export.Dim.STATIC),)


def spread(count: int, dimension: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).random((count, dimension)))


def wendland(space: cnf.Space, points: Tensor) -> cnf.ConstrainedField:
    return cnf.ConstrainedField(Kernel(space, points, kernels.Wendland(2, [0.3, 0.2])), condition(space, points))


def hermite(space: cnf.Space, points: Tensor) -> cnf.ConstrainedField:
    both = [condition(space, points[:150]), space.constraint("u_x", at=points[:150], equals=0.5)]
    return cnf.ConstrainedField(Hermite(space, both, kernels.Wendland(3, 0.4)), both)


def hybrid(space: cnf.Space, points: Tensor) -> cnf.ConstrainedField:
    inner = Kernel(space, points, kernels.Gaussian(0.2))
    return cnf.ConstrainedField(Hybrid(inner, kernels.Wendland(2, 0.3)), condition(space, points))


def blended(space: cnf.Space, points: Tensor) -> cnf.ConstrainedField:
    basis = Kernel(space, points, kernels.Wendland(2, 0.4))
    return cnf.ConstrainedField(basis, condition(space, points), solver=solvers.Patches(size=20))


def skewed(space: cnf.Space, points: Tensor) -> cnf.ConstrainedField:
    basis = SkewedRBF(space, points, bandwidth=0.03)
    return cnf.ConstrainedField(basis, condition(space, points), solver=solvers.Patches(size=20))


def condition(space: cnf.Space, points: Tensor) -> cnf.Constraint:
    return space.constraint("u", at=points, equals=lambda x: (3 * x).sin().sum(dim=1))


def close(found: Tensor, want: Tensor, rounding: float = 1e-12) -> bool:
    good = (found - want).abs() <= rounding * (1 + want.abs())
    return bool((good | (found.isnan() & want.isnan())).all())


SLOW = pytest.mark.slow  # together with the others


@pytest.mark.parametrize(
    "make", [wendland, hermite, blended, pytest.param(hybrid, marks=SLOW), pytest.param(skewed, marks=SLOW)]
)
def test_near_functions_and_balls(make):
    """Inside, at the conditions, outside, far away and at no point at all; traced for any number of points."""
    points = spread(300, 2)
    solution = make(cnf.Space("x y", "u"), points).eval().solution
    module = solution.as_module()
    odd = torch.tensor([[math.nan, 0.0], [40.0, -3.0], [math.inf, 0.0]], dtype=torch.float64)
    x = torch.cat([spread(200, 2, 1) * 1.6 - 0.3, points[:20], odd])
    want, rounding = solution(x), 1e-9 if make in (hermite, skewed) else 1e-11
    assert close(module(x), want, rounding) and close(torch.func.vmap(module)(x), want, rounding)
    exported = torch.export.export(module, (x[:5],), dynamic_shapes=ANY).module()
    traced = torch.jit.trace(module, x[:5], check_trace=False)
    for count in (1, 2, 50):
        assert close(exported(x[:count]), want[:count], rounding) and close(traced(x[:count]), want[:count], rounding)
    inner = x[:40]
    slopes = torch.cat([solution.apply(f"u_{c}", inner) for c in "xy"], dim=1)
    assert close(torch.func.vmap(torch.func.jacrev(module))(inner)[:, 0], slopes, 1e3 * rounding)


def test_patches_for_every_query_cannot_leave():
    """They solve a system for every query; the error says what to solve with instead."""
    space, points = cnf.Space("x y", "u"), spread(60, 2)
    basis = Kernel(space, points, kernels.Wendland(1, 0.5))
    field = cnf.ConstrainedField(basis, condition(space, points), solver=solvers.Patches(mode="local"))
    with pytest.raises(CnfError, match="mode='blend'"):
        field.eval().solution.as_module()


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_bins_miss_nothing(dimension: int):
    """All that a search over all pairs finds is in the bins, for reaches of all sizes."""
    random = np.random.default_rng(2)
    centres, radii = random.random((60, dimension)), 10 ** random.uniform(-1.5, -0.5, 60)
    scale = np.array([1.0, 0.3, 2.0])[:dimension]
    points = torch.from_numpy(random.random((500, dimension)) * 1.4 - 0.2)
    found = Bins(centres, radii, scale)(points)
    away = np.sqrt((((points.numpy()[:, None] - centres) / scale) ** 2).sum(axis=2))
    for p, q in zip(*np.nonzero(away < radii), strict=True):
        assert q in found[p]
    known = np.sort(found.numpy(), axis=1)
    assert not ((np.diff(known, axis=1) == 0) & (known[:, 1:] < 60)).any()  # none is counted twice


# -- cells: any weights do, for what is looked at is which cell a point has, and its functions there


def cut_cells(dimension: int) -> Cells:
    cells = Cells([0.0] * dimension, [1.0, 2.0, 1.5][:dimension])
    for turn in range(3):
        cells = cells.cut(range(0, cells.count, 1 + turn % 2), turn % dimension)
    return cells


def cover() -> Cover:
    """A disk inside a box whose upper right part is left out; cut cells have a patch on either side."""
    cells = Cells([0.0, 0.0], [1.0, 1.0]).cut([0], 0).cut([0, 1], 1)
    partition = Partition([["ball", [0.5, 0.4], 0.2], ["polygon", [[0, 0], [0.2, 0], [0, 0.2]]]], 2)
    inside, outside, corner = 4, [0, 1, 2, -1], [-1, -1, -1, -1]
    patch = np.full((cells.count, 3), -1)
    patch[:, 2] = outside
    patch[:2, 0], patch[0, 1], corner[0] = [3, inside], 5, 5
    lower, upper = np.concatenate([cells.lower[:3], np.full((3, 2), 0.1)]), np.full((6, 2), 0.9)
    return Cover(cells, patch, lower, upper + 0.1, partition)


def corner(channels: int) -> CornerFunctions:
    angles = AngularMaps.of(math.pi, 2.5 * math.pi, 25).angles
    profiles = np.exp(1j * np.outer(np.arange(1, 1 + 4 * channels) / 5, angles)).reshape(2, 2, channels, 25)
    powers = np.array([0.7, 1.6 + 0.5j])
    return CornerFunctions((0.5, 1.0), math.pi, 2.5 * math.pi, powers, profiles, np.array([0, 1]))


def piecewise(name: str) -> Piecewise:
    plane, room = cnf.Space("x y", "u v"), cnf.Space("x y z", "u v")
    if name == "plane":
        return Piecewise(plane, cut_cells(2), (3, 4), without_corner=(0, 1))
    if name == "room":
        return Piecewise(room, cut_cells(3), (2, 3, 1))
    if name == "cover":
        return Piecewise(plane, cover(), 3)
    if name == "chosen":
        local = cnf.bases.RandomFourier(plane, 12, 0.7)
        return Piecewise(plane, cut_cells(2), 2, local=local)
    if name == "corner":
        cells = cut_cells(2)
        return Piecewise(plane, cells, 3, corners=[corner(2)], at_corner=np.arange(cells.count) % 2 - 1)
    cells = cut_cells(3)
    edges = EdgeFunctions((Edge(2, 3, 0.0, 1.5, corner(2)), Edge(0, 2, 0.0, 1.0, corner(2))))
    return Piecewise(room, cells, 2, corners=[edges], at_corner=np.arange(cells.count) % 2 - 1)


@pytest.mark.parametrize(
    "name", ["plane", "cover", "corner", "edges", pytest.param("room", marks=SLOW), pytest.param("chosen", marks=SLOW)]
)
def test_cells(name: str):
    """In every cell, on cuts, where patches meet, in cells without a patch, and outside."""
    basis = piecewise(name)
    dimension, generator = basis.dimension, torch.Generator().manual_seed(0)
    weights = torch.randn(basis.size, 2, dtype=torch.float64, generator=generator)
    expansion = CellExpansion(basis.snapshot(), weights, (), KnownAccount("drawn"))
    module = module_of(basis.space, expansion, None)
    cells = basis.cells.cells if isinstance(basis.cells, Cover) else basis.cells
    low, high = torch.from_numpy(cells.lower), torch.from_numpy(cells.upper)
    x = torch.cat([spread(300, dimension) * 2.4 - 0.2, low, high, (low + high) / 2])
    x = torch.cat([x, torch.where(torch.arange(dimension) == 0, low, (low + high) / 2)])
    want = expansion.values(x)
    assert close(module(x), want) and close(torch.func.vmap(module)(x), want)
    exported = torch.export.export(module, (x[:5],), dynamic_shapes=ANY).module()
    assert close(exported(x), want) and close(exported(x[:1]), want[:1])
    assert close(torch.jit.trace(module, x[:5], check_trace=False)(x), want)
    check_module(module, expansion, expansion.values, [x])
