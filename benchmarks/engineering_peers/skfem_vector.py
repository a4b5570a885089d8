"""Plane elasticity and Stokes flow in scikit-fem: vector elements, Taylor and Hood's pair, direct solver."""

from __future__ import annotations

from collections.abc import Callable

import gmsh
import numpy as np
import scipy.sparse
from skfem import (
    Basis,
    BilinearForm,
    ElementTriMini,
    ElementTriP1,
    ElementTriP2,
    ElementVector,
    FacetBasis,
    LinearForm,
    MeshTri,
    condense,
)
from skfem import solve as solve_system
from skfem.helpers import ddot, div, eye, grad, sym_grad, trace

from benchmarks.engineering_peers.measuring import Solved
from benchmarks.engineering_peers.skfem_meshes import by_gmsh, evaluate, graded, towards
from benchmarks.engineering_problems import elastic
from benchmarks.engineering_problems.problem import Array

LINEAR, QUADRATIC = ElementTriP1, ElementTriP2


@BilinearForm
def elasticity(u, v, w):
    """Lame constants 1.5 and 1."""
    strain = sym_grad(u)
    return ddot(2.0 * strain + 1.5 * eye(trace(strain), 2), sym_grad(v))


def vector_basis(mesh: MeshTri, order: int) -> Basis:
    return Basis(mesh, ElementVector((LINEAR, QUADRATIC)[order - 1]()), intorder=2 * order)


def both(basis: Basis, u: Array) -> Callable[[Array], Array]:
    return lambda points: evaluate(basis, u, points).T


def cantilever(level: int, order: int) -> Solved:
    size = 0.5 * 2 ** (-(level % 2) / 2)
    mesh = MeshTri.init_tensor(np.linspace(0, 4, 5), np.linspace(0, 1, 2))
    mesh = graded(mesh, towards([(0, 0), (0, 1)], size, 1 - 0.71 / 2, size * 1e-5))
    mesh = graded(mesh, lambda x: np.full(x.shape[1], size)).refined(level // 2)
    basis = vector_basis(mesh, order)
    end = FacetBasis(mesh, basis.elem, facets=mesh.facets_satisfying(lambda x: x[0] > 4 - 1e-9, boundaries_only=True))
    load = LinearForm(lambda v, w: -4 * w.x[1] * (1 - w.x[1]) * v[1]).assemble(end)
    wall = basis.get_dofs(mesh.facets_satisfying(lambda x: x[0] < 1e-9, boundaries_only=True))
    u = solve_system(*condense(elasticity.assemble(basis), load, D=wall))
    return Solved(both(basis, u), basis.N)


def plate(level: int, order: int) -> Solved:
    def build() -> None:
        square = gmsh.model.occ.addRectangle(-1, -1, 0, 2, 2)
        gmsh.model.occ.cut([(2, square)], [(2, gmsh.model.occ.addDisk(0, 0, 0, elastic.RADIUS, elastic.RADIUS))])

    mesh, _ = by_gmsh(build, 2, 0.4 * 2 ** (-level / 2), round(24 * 2 ** (level / 2)), order == 2)
    basis = vector_basis(mesh, order)
    outer = basis.get_dofs(mesh.facets_satisfying(lambda x: np.abs(x).max(axis=0) > 1 - 1e-9, boundaries_only=True))
    x = basis.zeros()
    for k, name in enumerate(("u^1", "u^2")):
        dofs = outer.all([name])
        x[dofs] = elastic.pulled_at(basis.doflocs[:, dofs].T)[:, k]
    u = solve_system(*condense(elasticity.assemble(basis), x=x, D=outer))
    return Solved(both(basis, u), basis.N)


def cavity(level: int, order: int) -> Solved:
    """Order 2: quadratic velocity and linear pressure; order 1: linear velocity with bubbles (MINI)."""
    size = 0.3 * 2 ** (-(level % 2) / 2)
    mesh = graded(MeshTri.init_tensor(*2 * (np.linspace(0, 1, 5),)), towards([(0, 1), (1, 1)], size, 0.8, size * 1e-4))
    mesh = graded(mesh, lambda x: np.full(x.shape[1], size)).refined(level // 2)
    element = ElementVector(ElementTriMini() if order == 1 else ElementTriP2())
    velocity = Basis(mesh, element, intorder=4)
    pressure = velocity.with_element(ElementTriP1())
    A = BilinearForm(lambda u, v, w: ddot(grad(u), grad(v))).assemble(velocity)
    B = -BilinearForm(lambda u, q, w: div(u) * q).assemble(velocity, pressure)
    K = scipy.sparse.bmat([[A, B.T], [B, None]], format="csr")
    walls = velocity.get_dofs().flatten()
    x = np.zeros(K.shape[0])
    lid = velocity.get_dofs(mesh.facets_satisfying(lambda x: x[1] > 1 - 1e-12, boundaries_only=True)).all("u^1")
    x[lid] = 1
    sides = velocity.get_dofs(mesh.facets_satisfying(lambda x: np.abs(x[0] - 0.5) > 0.5 - 1e-12, boundaries_only=True))
    x[sides.flatten()] = 0  # the ends of the lid belong to the walls
    held = np.concatenate([walls, [velocity.N]])  # and one pressure
    u = solve_system(*condense(K, np.zeros(K.shape[0]), x=x, D=held))[: velocity.N]
    return Solved(both(velocity, u), K.shape[0])


SOLVERS: dict[str, Callable[[int, int], Solved]] = {"cantilever": cantilever, "plate": plate, "cavity": cavity}
