"""Problems in time: elements in space, collocation in time (Radau IIA or Gauss, three stages), direct solvers.

M y' = -K y + f(t). The stages of a step are coupled; the eigenvectors of the Butcher matrix uncouple them, which leaves
a real and a complex system per step size, factored once. Values between steps come from the method's own polynomial.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from skfem import Basis, BilinearForm, ElementLineP1, ElementLineP2, LinearForm, MeshLine, MeshQuad
from skfem.helpers import dot, grad

from benchmarks.engineering_peers.measuring import CLOCK, Solved
from benchmarks.engineering_peers.skfem_meshes import crowded, evaluation
from benchmarks.engineering_peers.skfem_scalar import basis_on, cells_of
from benchmarks.engineering_problems import evolution, sources
from benchmarks.engineering_problems.problem import Array

RADAU = np.array([(4 - np.sqrt(6)) / 10, (4 + np.sqrt(6)) / 10, 1.0])
GAUSS = np.array([0.5 - np.sqrt(15) / 10, 0.5, 0.5 + np.sqrt(15) / 10])


class Collocation:
    """March M y' = -K y + load(t) with the collocation method of the given nodes; keeps the factors of a step size."""

    def __init__(self, mass: scipy.sparse.spmatrix, stiffness: scipy.sparse.spmatrix, nodes: Array) -> None:
        self.mass, self.stiffness, self.nodes = mass.tocsc(), stiffness.tocsc(), nodes
        powers = np.vander(nodes, 3, increasing=True)
        self.integrals = np.vander(nodes, 4, increasing=True)[:, 1:] / [1, 2, 3] @ np.linalg.inv(powers)  # Butcher
        self.values, self.vectors = np.linalg.eig(self.integrals)
        self.inverse = np.linalg.inv(self.vectors)
        self.step, self.factors = 0.0, []

    def advance(self, y: Array, step: float, load: Callable[[float], Array] | None, t: float) -> Array:
        """The slopes of the three stages, (3, N)."""
        if abs(step - self.step) > 1e-12 * step:
            self.step = step
            self.factors = [
                scipy.sparse.linalg.splu((self.mass + step * v * self.stiffness).tocsc())
                for v in self.values
                if v.imag >= 0
            ]
        right = np.tile(-(self.stiffness @ y), (3, 1))
        if load is not None:
            right = right + np.array([load(t + c * step) for c in self.nodes])
        turned, stages, k = self.inverse @ right, np.zeros((3, len(y)), complex), 0
        for j, v in enumerate(self.values):
            if v.imag >= 0:
                solved = self.factors[k].solve(turned[j].astype(complex) if v.imag else turned[j].real)
                k += 1
                weight = 2.0 if v.imag else 1.0  # the conjugate root gives the conjugate
                stages += weight * np.outer(self.vectors[:, j], solved)
        return stages.real

    def between(self, share: Array) -> Array:
        """Weights of the slopes at shares of a step, (P, 3)."""
        powers = np.vander(self.nodes, 3, increasing=True)
        return np.vander(share, 4, increasing=True)[:, 1:] / [1, 2, 3] @ np.linalg.inv(powers)


def march(
    method: Collocation,
    y: Array,
    times: Array,
    points: Array,
    probe: scipy.sparse.csr_matrix,
    load: Callable[[float], Array] | None = None,
) -> Array:
    """Values at points (P, D) with the time last; probe (P, N) evaluates a state at their places."""
    found = np.zeros(len(points))
    order = np.argsort(points[:, -1])
    sorted_times = points[order, -1]
    at_end = method.between(np.ones(1))[0]
    for start, end in itertools.pairwise(times):
        step = end - start
        slopes = method.advance(y, step, load, start)
        with CLOCK.aside():
            held = order[np.searchsorted(sorted_times, start) : np.searchsorted(sorted_times, end)]
            if len(held):
                weights = method.between((points[held, -1] - start) / step)
                parts = (probe[held] @ np.stack([y, *slopes], axis=1)).T  # (4, P)
                found[held] = parts[0] + step * np.einsum("pk,kp->p", weights, parts[1:])
        y = y + step * (at_end @ slopes)
    return found


def probe_of(basis: Basis, places: Array, inside: Array) -> scipy.sparse.csr_matrix:
    """From the unknowns inside to the values at places, (P, N)."""
    with CLOCK.aside():
        unknowns, weights = evaluation(basis, places)
        rows = np.broadcast_to(np.arange(len(places)), unknowns.shape)
        shape = (len(places), basis.N)
        return scipy.sparse.csr_matrix((weights.ravel(), (rows.ravel(), unknowns.ravel())), shape=shape)[:, inside]


def line_basis(nodes: Array, order: int) -> Basis:
    return Basis(MeshLine(nodes), (ElementLineP1, ElementLineP2)[order - 1](), intorder=2 * order)


def laplacian_and_mass(basis: Basis) -> tuple[scipy.sparse.spmatrix, scipy.sparse.spmatrix]:
    K = BilinearForm(lambda u, v, w: dot(grad(u), grad(v))).assemble(basis)
    return K, BilinearForm(lambda u, v, w: u * v).assemble(basis)


def known(values: Array) -> Callable[[Array], Array]:
    """Values that were taken while marching."""
    return lambda points: values[:, None]


def cooling(level: int, order: int) -> Solved:
    """Cells crowd towards the ends, steps towards the start: both data jumps are followed."""
    n = cells_of(level, 16)
    basis = line_basis(crowded(n, 3.0), order)
    K, M = laplacian_and_mass(basis)
    inside = basis.complement_dofs(basis.get_dofs())
    method = Collocation(M[inside][:, inside], K[inside][:, inside], RADAU)
    doublings, each = 4 + 2 * round(np.log2(n)), max(2, n // 8)
    ends = evolution.END * 2.0 ** -np.arange(doublings, -1, -1)
    times = np.concatenate([np.linspace(0, ends[0], each + 1)] + [
        np.linspace(a, b, each + 1)[1:] for a, b in itertools.pairwise(ends)
    ])  # fmt: skip
    points = draw("heat-jump")
    found = march(method, np.ones(len(inside)), times, points, probe_of(basis, points[:, :1], inside))
    return Solved(known(found), len(inside) * 3 * (len(times) - 1))


def string(level: int, order: int) -> Solved:
    n = cells_of(level, 40)
    basis = line_basis(np.linspace(0, 1, n + 1), order)
    K, M = laplacian_and_mass(basis)
    inside = basis.complement_dofs(basis.get_dofs())
    K, M, count = K[inside][:, inside], M[inside][:, inside], len(inside)
    mass = scipy.sparse.block_diag([M, M])
    stiffness = scipy.sparse.bmat([[None, -M], [K, None]])
    method = Collocation(mass, stiffness, GAUSS)
    x = basis.doflocs[0, inside]
    start = np.concatenate([evolution.string_at(x, 0 * x), np.zeros(count)])
    steps = int(evolution.LONG * n / 3)
    times, points = np.linspace(0, evolution.LONG, steps + 1), draw("wave")
    probe = probe_of(basis, points[:, :1], inside)
    probe = scipy.sparse.hstack([probe, scipy.sparse.csr_matrix(probe.shape)], format="csr")  # of the displacement
    return Solved(known(march(method, start, times, points, probe)), 2 * count * 3 * steps)


def moving(level: int, order: int) -> Solved:
    n = cells_of(level, 12)
    basis = basis_on(MeshQuad.init_tensor(*2 * (np.linspace(0, 1, n + 1),)), order)
    K, M = laplacian_and_mass(basis)
    edge = basis.get_dofs().flatten()
    inside = basis.complement_dofs(edge)
    K = sources.DIFFUSION * K
    method = Collocation(M[inside][:, inside], K[inside][:, inside], RADAU)
    steps, w2 = 2 * n, sources.MOVING**2
    ex, ey = basis.doflocs[:, edge]

    def change(x: Array, y: Array, t: float) -> Array:
        """du / dt of the solution, for its values on the boundary."""
        X, Y = x - 0.5 - 0.2 * np.cos(2 * np.pi * t), y - 0.5 - 0.2 * np.sin(2 * np.pi * t)
        drift = 0.4 * np.pi * (Y * np.cos(2 * np.pi * t) - X * np.sin(2 * np.pi * t)) / w2
        return np.exp(-(X**2 + Y**2) / (2 * w2)) * drift

    x, y = basis.global_coordinates().value
    test = LinearForm(lambda v, w: w.source * v)

    def load(t: float) -> Array:
        X, Y = x - 0.5 - 0.2 * np.cos(2 * np.pi * t), y - 0.5 - 0.2 * np.sin(2 * np.pi * t)
        g = np.exp(-(X**2 + Y**2) / (2 * w2))
        source = change(x, y, t) - sources.DIFFUSION * g * ((X**2 + Y**2) / w2**2 - 2 / w2)
        values = sources.moving_at(ex, ey, np.full(len(ex), t))
        full = test.assemble(basis, source=source)
        return full[inside] - M[inside][:, edge] @ change(ex, ey, t) - K[inside][:, edge] @ values

    points = draw("moving")
    start = sources.moving_at(*basis.doflocs[:, inside], np.zeros(len(inside)))
    times = np.linspace(0, 1, steps + 1)
    found = march(method, start, times, points, probe_of(basis, points[:, :2], inside), load)
    with CLOCK.aside():  # what the boundary adds inside its own elements: its values are known at all times
        values = sources.moving_at(*basis.doflocs[:, edge, None], points[:, 2])  # (edge, P)
        found = found + np.asarray(probe_of(basis, points[:, :2], edge).multiply(values.T).sum(axis=1))[:, 0]
    return Solved(known(found), len(inside) * 3 * steps)


def draw(name: str) -> Array:
    from benchmarks.engineering_problems import PROBLEMS

    return PROBLEMS[name].points


SOLVERS: dict[str, Callable[[int, int], Solved]] = {"heat-jump": cooling, "wave": string, "moving": moving}
