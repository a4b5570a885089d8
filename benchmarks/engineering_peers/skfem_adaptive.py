"""scikit-fem's own adaptivity, as in its example 22: solve, estimate by residuals and jumps, cut what holds half of it.

Quadratic triangles from a coarse mesh that knows nothing of corners and layers. Time is that of the whole loop,
every solve included, until there are as many unknowns as the level allows: twice as many from one level to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from skfem import (
    Basis,
    BilinearForm,
    ElementTriP2,
    Functional,
    InteriorFacetBasis,
    LinearForm,
    MeshTri,
    adaptive_theta,
    condense,
)
from skfem import solve as solve_system
from skfem.helpers import dot, grad

from benchmarks.engineering_peers.measuring import Solved
from benchmarks.engineering_peers.skfem_meshes import evaluate, graded, towards
from benchmarks.engineering_problems import sources
from benchmarks.engineering_problems.problem import Array

FIRST, SHARE = 400, 0.5  # unknowns at level 0; share of the squared estimate that is marked


@dataclass(frozen=True)
class Task:
    """-width Laplace u + wind u_x = load, with values on the boundary where it is held; free elsewhere."""

    mesh: MeshTri
    load: Callable[[Array, Array], Array]
    values: Callable[[Array, Array], Array] | None = None
    width: float = 1.0
    wind: float = 0.0
    free: Callable[[Array], Array] | None = None  # of the middles of facets: where u_n = 0 is asked


def laplacian_of(basis: Basis, u: Array) -> Array:
    """Of a quadratic field: constant in every triangle, (T,). Vertices come first, then sides 01, 12, 02."""
    mesh = basis.mesh
    a, b, c = (mesh.p[:, mesh.t[k]] for k in range(3))
    area = (b - a)[0] * (c - a)[1] - (b - a)[1] * (c - a)[0]  # twice
    slopes = [np.array([(p - q)[1], (q - p)[0]]) / area for p, q in ((b, c), (c, a), (a, b))]  # of the three hats
    own = u[basis.element_dofs]  # (6, T)
    found = sum(4 * own[k] * (slopes[k] ** 2).sum(axis=0) for k in range(3))
    for k, (i, j) in enumerate(((0, 1), (1, 2), (0, 2))):
        found = found + 8 * own[3 + k] * (slopes[i] * slopes[j]).sum(axis=0)
    return found


def indicators(task: Task, basis: Basis, u: Array, free: Array) -> Array:
    """Of the squared error in energy, by residuals inside and jumps of slopes, (T,).

    Weighted for convection as Verfuerth does: where a triangle is wide beside the layer, its size does not count.
    """
    mesh = basis.mesh
    inside = laplacian_of(basis, u)
    residual = Functional(
        lambda w: np.minimum(w.h**2 / task.width, 1.0) * (w.f + task.width * w.second - task.wind * grad(w.u)[0]) ** 2
    )
    x = basis.global_coordinates().value
    second = np.broadcast_to(inside[:, None], x[0].shape)
    eta = residual.elemental(basis, f=task.load(*x), second=second, u=basis.interpolate(u))
    sides = [InteriorFacetBasis(mesh, basis.elem, side=k) for k in (0, 1)]

    def jump(w):
        off = task.width * dot(grad(w.a) - grad(w.b), w.n)
        return np.minimum(w.h, np.sqrt(task.width)) / task.width * off**2

    on_side = np.zeros(mesh.facets.shape[1])
    found = Functional(jump).elemental(sides[0], a=sides[0].interpolate(u), b=sides[1].interpolate(u))
    np.add.at(on_side, sides[0].find, 0.5 * found)
    if len(free):
        edge = basis.boundary(free)
        found = Functional(lambda w: w.h * task.width * dot(grad(w.u), w.n) ** 2).elemental(edge, u=edge.interpolate(u))
        np.add.at(on_side, edge.find, found)
    return np.sqrt(eta + on_side[mesh.t2f].sum(axis=0))


def solve_on(task: Task, mesh: MeshTri) -> tuple[Basis, Array, Array]:
    """The elements, the unknowns, and the facets that are free."""
    basis = Basis(mesh, ElementTriP2(), intorder=6)
    form = BilinearForm(lambda u, v, w: task.width * dot(grad(u), grad(v)) + task.wind * grad(u)[0] * v)
    b = LinearForm(lambda v, w: w.f * v).assemble(basis, f=task.load(*basis.global_coordinates().value))
    boundary = mesh.boundary_facets()
    middles = mesh.p[:, mesh.facets[:, boundary]].mean(axis=1)
    free = np.zeros(len(boundary), bool) if task.free is None else task.free(middles)
    held = basis.get_dofs(boundary[~free]).flatten()
    x = basis.zeros()
    if task.values is not None:
        x[held] = task.values(*basis.doflocs[:, held])
    return basis, solve_system(*condense(form.assemble(basis), b, x=x, D=held)), boundary[free]


def adapt(task: Task, level: int, order: int) -> Solved:
    basis, u, free = solve_on(task, task.mesh)
    while FIRST * 2**level > basis.N:
        mesh = basis.mesh.refined(adaptive_theta(indicators(task, basis, u, free), theta=SHARE))
        basis, u, free = solve_on(task, mesh)
    return Solved(lambda points: evaluate(basis, u, points)[:, None], basis.N)


def square(cells: int = 4) -> MeshTri:
    return MeshTri.init_tensor(*2 * (np.linspace(0, 1, cells + 1),))


def lshaped() -> MeshTri:
    """[-1, 1]^2 without the quarter of negative x and positive y."""
    mesh = MeshTri.init_tensor(*2 * (np.linspace(-1, 1, 5),))
    middles = mesh.p[:, mesh.t].mean(axis=1)
    return mesh.remove_elements(np.flatnonzero((middles[0] < 0) & (middles[1] > 0)))


def one(x: Array, y: Array) -> Array:
    return np.ones_like(x)


def layer(width: float) -> Task:
    def profile(x: Array) -> Array:
        return x - np.exp((x - 1) / width)

    return Task(
        square(),
        lambda x, y: (1 + 4 * width * profile(x)) * np.cos(2 * y),
        lambda x, y: profile(x) * np.cos(2 * y),
        width,
        1.0,
    )


def narrow_load(x: Array, y: Array) -> Array:
    (a, b), w2 = sources.PLACE, 2 * sources.WIDTH**2
    return np.exp(-((x - a) ** 2 + (y - b) ** 2) / w2) / (np.pi * w2)


def free_side(middles: Array) -> Array:
    return (np.abs(middles[0]) < 1e-12) & (middles[1] > 0)


SOLVERS: dict[str, Callable[[int, int], Solved]] = {
    "layer-0.01": partial(adapt, layer(1e-2)),
    "layer-0.001": partial(adapt, layer(1e-3)),
    "lshape": partial(adapt, Task(lshaped(), one)),
    "lshape-mixed": partial(adapt, Task(lshaped(), one, free=free_side)),
    # No estimator finds a source that the quadrature of the first mesh does not see: that one knows where it is.
    "source": partial(
        adapt, Task(graded(square(), towards([sources.PLACE], 1.0, 1.0, 4 * sources.WIDTH)), narrow_load)
    ),
}
