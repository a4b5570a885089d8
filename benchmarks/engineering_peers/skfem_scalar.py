"""Scalar problems without time in scikit-fem. `level` doubles the number of cells per direction every other step."""

from __future__ import annotations

from collections.abc import Callable

import gmsh
import numpy as np
from scipy.sparse.linalg import bicgstab
from skfem import (
    Basis,
    BilinearForm,
    ElementHex1,
    ElementHex2,
    ElementQuad1,
    ElementQuad2,
    ElementTetP1,
    ElementTetP2,
    ElementTriP1,
    ElementTriP2,
    FacetBasis,
    LinearForm,
    Mesh,
    MeshHex,
    MeshQuad,
    MeshTri,
    condense,
)
from skfem import solve as solve_system
from skfem.helpers import dot, grad
from skfem.utils import solver_iter_krylov, solver_iter_pcg

from benchmarks.engineering_peers.measuring import Solved
from benchmarks.engineering_peers.skfem_meshes import by_gmsh, crowded, evaluate, graded, layered, towards
from benchmarks.engineering_problems import flow, holes, layers, sources
from benchmarks.engineering_problems.problem import Array

Function = Callable[..., Array]
ELEMENTS = {
    (2, 3): (ElementTriP1, ElementTriP2),
    (2, 4): (ElementQuad1, ElementQuad2),
    (3, 4): (ElementTetP1, ElementTetP2),
    (3, 8): (ElementHex1, ElementHex2),
}


def basis_on(mesh: Mesh, order: int, exactness: int = 4) -> Basis:
    """Linear or quadratic elements of the mesh; quadrature exact to twice the order and a bit."""
    element = ELEMENTS[mesh.dim(), mesh.refdom.nnodes][order - 1]()
    return Basis(mesh, element, intorder=2 * order if exactness == 4 else exactness)


def cells_of(level: int, first: int) -> int:
    """first, 1.41 first, 2 first ..., even."""
    return 2 * round(first * 2 ** (level / 2) / 2)


def solve_elliptic(
    basis: Basis,
    form: Function,
    load: Function | None,
    values: Function | None = None,
    held: Function | None = None,
    solver: object = None,
    flux: tuple[Array, Function] | None = None,
    coefficient: Function | None = None,
) -> Solved:
    """a(u, v) = (load, v) + (flux, v) with given values on the boundary, or on the part of it where `held` says so.

    Load and coefficient are evaluated once, at the quadrature points; the form finds the latter as w.k.
    """
    x = basis.global_coordinates().value if load is not None or coefficient is not None else None
    A = BilinearForm(form).assemble(basis, **({} if coefficient is None else {"k": coefficient(*x)}))
    b = np.zeros(basis.N)
    if load is not None:
        b = LinearForm(lambda v, w: w.f * v).assemble(basis, f=load(*x))
    if flux is not None:
        side = FacetBasis(basis.mesh, basis.elem, facets=flux[0], mapping=patient(basis.mesh))
        b = b + LinearForm(flux[1]).assemble(side)
    facets = basis.mesh.boundary_facets() if held is None else basis.mesh.facets_satisfying(held, boundaries_only=True)
    dofs = basis.get_dofs(facets)
    x = basis.zeros()
    if values is not None:
        x[dofs.flatten()] = values(*basis.doflocs[:, dofs.flatten()])
    u = solve_system(*condense(A, b, x=x, D=dofs), solver=solver)
    return Solved(lambda points: evaluate(basis, u, points)[:, None], basis.N)


def patient(mesh: Mesh):
    """The mapping of a mesh with an inverse that starts inside: scikit-fem's own often fails on curved tetrahedra."""
    mapping = mesh.mapping()
    if mesh.dim() < 3:
        return mapping

    def inverse(x: Array, tind: Array | None = None) -> Array:
        found = np.full(x.shape, 0.25)
        for _ in range(12):
            found = found + np.einsum("ijkl,jkl->ikl", mapping.invDF(found, tind), x - mapping.F(found, tind))
        return found

    mapping.invF = inverse
    return mapping


def stiffness(u, v, w):
    return dot(grad(u), grad(v))


def one(x, y, *rest):
    return np.ones_like(x)


def layer(width: float) -> Function:
    def run(level: int, order: int) -> Solved:
        n = cells_of(level, 16)
        mesh = MeshQuad.init_tensor(layered(n, width), np.linspace(0, 1, max(2, n // 4) + 1))

        def load(x, y):
            return (1 + 4 * width * (x - np.exp((x - 1) / width))) * np.cos(2 * y)

        def form(u, v, w):
            return width * dot(grad(u), grad(v)) + grad(u)[0] * v

        exact = lambda x, y: (x - np.exp((x - 1) / width)) * np.cos(2 * y)  # noqa: E731
        return solve_elliptic(basis_on(mesh, order), form, load, exact)

    return run


def lshape(power: float, mixed: bool) -> Function:
    smallest = 1e-10 if mixed else 1e-6  # what the last element at the corner misses, h^(2 power), is below 1e-7

    def run(level: int, order: int) -> Solved:
        size = 0.5 * 2 ** (-(level % 2) / 2)
        mesh = MeshTri.init_lshaped()  # its inner corner looks the same way as ours after a mirror
        mesh = MeshTri(np.array([-mesh.p[0], mesh.p[1]]), mesh.t)
        mesh = (
            mesh if np.any((mesh.p[0] == 1) & (mesh.p[1] == 1)) else MeshTri(np.array([mesh.p[0], -mesh.p[1]]), mesh.t)
        )
        mesh = graded(mesh, towards([(0, 0)], size, 1 - power / 2, size * smallest)).refined(level // 2)
        held = None
        if mixed:
            held = lambda x: ~((np.abs(x[0]) < 1e-12) & (x[1] > 0))  # noqa: E731
        return solve_elliptic(basis_on(mesh, order), stiffness, one, None, held)

    return run


def darcy(level: int, order: int) -> Solved:
    n = cells_of(level, 12)
    mesh = MeshQuad.init_tensor(np.linspace(0, 1, n + 1), np.linspace(0, 1, n + 1))

    def form(u, v, w):
        return w.k * dot(grad(u), grad(v))

    held = lambda x: (x[0] < 1e-12) | (x[0] > 1 - 1e-12)  # noqa: E731
    basis = basis_on(mesh, order, 2 * order + 1)
    return solve_elliptic(basis, form, None, lambda x, y: 1 - x, held, coefficient=flow.permeability)


def narrow(level: int, order: int) -> Solved:
    """Triangles as large as a share of their distance to the source, down to a share of its width."""
    share = 0.8 * 2 ** (-(level % 2) / 2)
    place = sources.PLACE
    mesh = graded(
        MeshTri.init_tensor(*2 * (np.linspace(0, 1, 3),)), towards([place], share, 1.0, share * sources.WIDTH)
    ).refined(level // 2)

    def load(x, y):
        r2 = (x - place[0]) ** 2 + (y - place[1]) ** 2
        return np.exp(-r2 / (2 * sources.WIDTH**2)) / (2 * np.pi * sources.WIDTH**2)

    return solve_elliptic(basis_on(mesh, order, 6), stiffness, load)


def helmholtz(level: int, order: int) -> Solved:
    n = cells_of(level, 30)
    mesh = MeshQuad.init_tensor(np.linspace(0, 1, n + 1), np.linspace(0, sources.HEIGHT, int(0.8 * n) + 1))
    (a, b), w2 = sources.SOURCE, 2 * sources.SPOT**2

    def form(u, v, w):
        return dot(grad(u), grad(v)) - sources.WAVE**2 * u * v

    def load(x, y):
        return 1000 * np.exp(-((x - a) ** 2 + (y - b) ** 2) / w2)

    return solve_elliptic(basis_on(mesh, order), form, load)


def sieve(level: int, order: int) -> Solved:
    def build() -> None:
        disk = gmsh.model.occ.addDisk(0, 0, 0, 1, 1)
        cut = [(2, gmsh.model.occ.addDisk(c.real, c.imag, 0, r, r)) for c, r in holes.HOLES]
        gmsh.model.occ.cut([(2, disk)], cut)

    mesh, _ = by_gmsh(build, 2, 0.16 * 2 ** (-level / 2), round(16 * 2 ** (level / 2)), order == 2)
    return solve_elliptic(basis_on(mesh, order), stiffness, one)


def inclusion(level: int, order: int) -> Solved:
    size = 0.25 * 2 ** (-level / 2)

    def build() -> None:
        square = gmsh.model.occ.addRectangle(-1, -1, 0, 2, 2)
        disk = gmsh.model.occ.addDisk(0, 0, 0, layers.CIRCLE, layers.CIRCLE)
        gmsh.model.occ.fragment([(2, square)], [(2, disk)])

    mesh, _ = by_gmsh(build, 2, size, round(2 * np.pi * layers.CIRCLE / size), order == 2)
    middle = mesh.p[:, mesh.t[:3]].mean(axis=1)
    conductivity = np.where(np.hypot(*middle) < layers.CIRCLE, *layers.CONDUCTIVITY)
    basis = basis_on(mesh, order)

    def form(u, v, w):
        return conductivity[:, None] * dot(grad(u), grad(v))

    return solve_elliptic(basis, form, lambda x, y: 4 / layers.CIRCLE**2 * np.ones_like(x), layers.inclusion)


def cube(level: int, order: int) -> Solved:
    """Cells crowd towards the faces, since second derivatives do at edges; conjugate gradients, as in its examples."""
    n = cells_of(level, 6)
    mesh = MeshHex.init_tensor(*3 * (crowded(n, 1.3),))
    return solve_elliptic(basis_on(mesh, order), stiffness, one, solver=solver_iter_pcg(rtol=1e-10))


def convection(level: int, order: int) -> Solved:
    n, a = cells_of(level, 8), 0.05
    mesh = MeshHex.init_tensor(layered(n, a), *2 * (np.linspace(0, 1, max(3, n // 2) + 1),))

    def exact(x, y, z):
        return (x - np.exp((x - 1) / a)) * np.sin(np.pi * y) * np.sin(2 * z)

    def form(u, v, w):
        return a * dot(grad(u), grad(v)) + (grad(u)[0] + 0.5 * grad(u)[1] + 0.25 * grad(u)[2]) * v

    def load(x, y, z):
        s, profile = np.sin(np.pi * y) * np.sin(2 * z), x - np.exp((x - 1) / a)
        turned = 0.5 * np.pi * np.cos(np.pi * y) * np.sin(2 * z) + 0.5 * np.sin(np.pi * y) * np.cos(2 * z)
        return s + profile * (a * (np.pi**2 + 4) * s + turned)

    return solve_elliptic(basis_on(mesh, order), form, load, exact, solver=solver_iter_krylov(bicgstab, rtol=1e-10))


def balls(level: int, order: int) -> Solved:
    def build() -> None:
        cube = gmsh.model.occ.addBox(0, 0, 0, 1, 1, 1)
        cut = [(3, gmsh.model.occ.addSphere(*c, r)) for c, r in holes.BALLS]
        gmsh.model.occ.cut([(3, cube)], cut)

    mesh, _ = by_gmsh(build, 3, 0.3 * 2 ** (-level / 3), round(8 * 2 ** (level / 3)), order == 2)
    on_cube = lambda x: np.min(np.minimum(np.abs(x), np.abs(1 - x)), axis=0) < 1e-9  # noqa: E731
    outer = mesh.facets_satisfying(on_cube, boundaries_only=True)
    inner = np.setdiff1d(mesh.boundary_facets(), outer)

    def exact(x, y, z):
        return np.sin(np.pi * x) * np.cos(2 * y) * np.exp(z)

    def form(u, v, w):
        return dot(grad(u), grad(v)) + 64 * u * v

    def flux(v, w):
        x, y, z = w.x
        slope = (
            np.pi * np.cos(np.pi * x) * np.cos(2 * y) * np.exp(z),
            -2 * np.sin(np.pi * x) * np.sin(2 * y) * np.exp(z),
            exact(x, y, z),
        )
        return sum(n * s for n, s in zip(w.n, slope, strict=True)) * v

    return solve_elliptic(
        basis_on(mesh, order),
        form,
        lambda x, y, z: (67 + np.pi**2) * exact(x, y, z),
        exact,
        on_cube,
        solver_iter_pcg(rtol=1e-10),
        (inner, flux),
    )


SOLVERS: dict[str, Function] = {
    "layer-0.01": layer(1e-2),
    "layer-0.001": layer(1e-3),
    "convection-3d": convection,
    "interface": inclusion,
    "lshape": lshape(2 / 3, False),
    "lshape-mixed": lshape(1 / 3, True),
    "darcy": darcy,
    "source": narrow,
    "helmholtz": helmholtz,
    "holes": sieve,
    "cube": cube,
    "balls": balls,
}
