"""One nonlinear problem with scikit-fem: Newton on the weak form, direct solver, three meshes, from the linear part.

    skfem-coarse, -middle, -fine  biquadratic elements on ever smaller squares (Kovasznay: Taylor and Hood's); on the
                                  line quadratic ones that crowd at the layer, three-stage Radau collocation in time
    skfem-quartic                 elements of degree four on the triangles of the middle mesh

Newton stops when its change is below 1e-12. The equation is met in the mean, so it is not measured at points.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from skfem import (
    Basis,
    BilinearForm,
    ElementLineP2,
    ElementQuad1,
    ElementQuad2,
    ElementTriP4,
    ElementVector,
    LinearForm,
    MeshLine,
    MeshQuad,
    MeshTri,
    bmat,
    condense,
)
from skfem import solve as solve_system
from skfem.helpers import ddot, div, dot, grad, mul

from benchmarks.peer_scripts.measuring import Solved, Stopwatch, run_peer
from benchmarks.peer_scripts.nonlinear_problems import NONLINEAR, NU, PI, NonlinearProblem, cubic_source, flow
from benchmarks.peer_scripts.problems import Array, Index

LEVELS = {"skfem-coarse": 0, "skfem-middle": 1, "skfem-fine": 2, "skfem-quartic": 1}
CELLS = (24, 48, 96)  # per direction of the square; of the flow a third of it per half
ENOUGH, MOST = 1e-12, 30
RADAU = np.array([(4 - np.sqrt(6)) / 10, (4 + np.sqrt(6)) / 10, 1.0])
POWERS = np.linalg.inv(np.vander(RADAU, 3, increasing=True))
BUTCHER = np.vander(RADAU, 4, increasing=True)[:, 1:] / [1, 2, 3] @ POWERS
Value = Callable[[Array], Array]  # points (P, D) -> (P, C)
Form = Callable[..., Array]


def probed(basis: Basis, u: Array, points: Array) -> Array:
    return basis.probes(points.T) @ u


def newton(basis: Basis, u: Array, held: Array, residual: Form, tangent: Form) -> tuple[Array, int]:
    """A weak form brought to zero from `u`, whose values at the unknowns `held` stay."""
    steps = 0
    while steps < MOST:
        steps += 1
        before = basis.interpolate(u)
        A = BilinearForm(tangent).assemble(basis, before=before)
        b = -LinearForm(residual).assemble(basis, before=before)
        change = solve_system(*condense(A, b, x=np.zeros(basis.N), D=held))
        u = u + change
        if np.abs(change).max() <= ENOUGH * np.abs(u).max():
            break
    return u, steps


def on_square(problem: NonlinearProblem, method: str) -> tuple[Value, str]:
    count = CELLS[LEVELS[method]]
    axis = np.linspace(problem.lower[0], problem.upper[0], count + 1)
    quartic = method == "skfem-quartic"
    mesh = MeshTri.init_tensor(axis, axis) if quartic else MeshQuad.init_tensor(axis, axis)
    basis = Basis(mesh, ElementTriP4() if quartic else ElementQuad2(), intorder=10 if quartic else 5)
    held = basis.get_dofs().flatten()
    u = basis.zeros()
    u[held] = problem.exact(basis.doflocs[:, held].T)[:, 0]
    u = solve_system(*condense(BilinearForm(lambda u, v, w: dot(grad(u), grad(v))).assemble(basis), x=u, D=held))
    forms = cubic_forms if problem.name == "cubic" else surface_forms
    u, steps = newton(basis, u, held, *forms())
    return lambda p: probed(basis, u, p)[:, None], f"{basis.N} unknowns, {steps} steps of Newton"


def cubic_forms() -> tuple[Form, Form]:
    def residual(v, w):
        u = w.before
        return dot(grad(u), grad(v)) + (u.value**3 - cubic_source(*w.x, np)) * v

    def tangent(u, v, w):
        return dot(grad(u), grad(v)) + 3 * w.before.value**2 * u * v

    return residual, tangent


def surface_forms() -> tuple[Form, Form]:
    def residual(v, w):
        slope = grad(w.before)
        return dot(slope, grad(v)) / np.sqrt(1 + dot(slope, slope))

    def tangent(u, v, w):
        slope = grad(w.before)
        stretch = np.sqrt(1 + dot(slope, slope))
        return dot(grad(u), grad(v)) / stretch - dot(slope, grad(u)) * dot(slope, grad(v)) / stretch**3

    return residual, tangent


def on_flow(problem: NonlinearProblem, method: str) -> tuple[Value, str]:
    count = CELLS[LEVELS[method]] // 6  # cells per half: (0, 0), where the pressure is given, is a node
    mesh = MeshQuad.init_tensor(np.linspace(-0.5, 1, 3 * count + 1), np.linspace(-0.5, 1.5, 4 * count + 1))
    velocity = Basis(mesh, ElementVector(ElementQuad2()), intorder=5)
    pressure = velocity.with_element(ElementQuad1())
    N = velocity.N
    held = velocity.get_dofs()
    x = np.zeros(N + pressure.N)
    for k in (0, 1):
        dofs = held.all([f"u^{k + 1}"])
        x[dofs] = flow(velocity.doflocs[:, dofs].T)[:, k]
    level = int(np.argmin((pressure.doflocs**2).sum(axis=0)))
    fixed = np.concatenate([held.flatten(), [N + level]])
    viscous = BilinearForm(lambda u, v, w: ddot(grad(u), grad(v)) / 40).assemble(velocity)
    B = -BilinearForm(lambda u, q, w: div(u) * q).assemble(velocity, pressure)
    advected = BilinearForm(lambda u, v, w: dot(mul(grad(u), w.before), v) + dot(mul(grad(w.before), u), v))
    itself = LinearForm(lambda v, w: dot(mul(grad(w.before), w.before), v))
    for step in range(MOST):
        before = velocity.interpolate(x[:N])
        A = bmat([[viscous + (advected.assemble(velocity, before=before) if step else 0 * viscous), B.T], [B, None]])
        right = np.concatenate(
            [itself.assemble(velocity, before=before) if step else np.zeros(N), np.zeros(pressure.N)]
        )
        found = solve_system(*condense(A.tocsr(), right, x=x, D=fixed))  # the first one is Stokes' flow
        change, x = np.abs(found - x).max(), found
        if step and change <= ENOUGH * np.abs(x).max():
            break

    def value(points: Array) -> Array:
        u = probed(velocity, x[:N], points).reshape(2, -1)
        return np.stack([*u, probed(pressure, x[N:], points)], axis=1)

    return value, f"{len(x)} unknowns, {step} steps of Newton"


def on_line(problem: NonlinearProblem, method: str) -> tuple[Value, str]:
    level = LEVELS[method]
    cells, steps = (40, 80, 160)[level], (25, 50, 100)[level]
    even = np.linspace(-1, 1, cells + 1)
    basis = Basis(MeshLine(np.sinh(5 * even) / np.sinh(5)), ElementLineP2(), intorder=5)
    inside = basis.complement_dofs(basis.get_dofs())
    M = BilinearForm(lambda u, v, w: u * v).assemble(basis)[inside][:, inside]
    K = BilinearForm(lambda u, v, w: NU * dot(grad(u), grad(v))).assemble(basis)[inside][:, inside]
    carried = LinearForm(lambda v, w: w.before.value * grad(w.before)[0] * v)
    turned = BilinearForm(lambda u, v, w: (w.before.value * grad(u)[0] + grad(w.before)[0] * u) * v)

    def slope(y: Array) -> tuple[Array, scipy.sparse.spmatrix]:
        full = basis.zeros()
        full[inside] = y
        before = basis.interpolate(full)
        tangent = turned.assemble(basis, before=before)[inside][:, inside]
        return carried.assemble(basis, before=before)[inside] + K @ y, tangent + K

    start = BilinearForm(lambda u, v, w: u * v).assemble(basis)
    initial = LinearForm(lambda v, w: -np.sin(PI * w.x[0]) * v).assemble(basis)
    y = solve_system(*condense(start, initial, D=basis.get_dofs()))[inside]
    times, step, count = np.linspace(0, 1, steps + 1), 1 / steps, len(inside)
    slopes, states, solves = np.zeros((3, count)), [y], 0
    kept = []
    for _ in range(steps):
        for _ in range(MOST):
            stages = y + step * BUTCHER @ slopes
            parts = [slope(stage) for stage in stages]
            wrong = np.concatenate([M @ slopes[k] + parts[k][0] for k in range(3)])
            blocks = [
                [(M if i == j else 0 * M) + step * BUTCHER[i, j] * parts[i][1] for j in range(3)] for i in range(3)
            ]
            change = scipy.sparse.linalg.splu(scipy.sparse.bmat(blocks).tocsc()).solve(-wrong).reshape(3, -1)
            slopes, solves = slopes + change, solves + 1
            if step * np.abs(change).max() <= ENOUGH:
                break
        kept.append(slopes)
        y = y + step * BUTCHER[2] @ slopes
        states.append(y)

    def value(points: Array) -> Array:
        held = np.clip(np.searchsorted(times, points[:, 1], side="right") - 1, 0, steps - 1)
        share = (points[:, 1] - times[held]) / step
        weights = np.vander(share, 4, increasing=True)[:, 1:] / [1, 2, 3] @ POWERS  # (P, 3)
        probe = basis.probes(points[:, :1].T).tocsr()[:, inside]
        found = np.zeros(len(points))
        for k in np.unique(held):
            at = np.flatnonzero(held == k)
            first, *rest = (probe[at] @ np.stack([states[k], *kept[k]], axis=1)).T
            found[at] = first + step * np.einsum("pk,kp->p", weights[at], np.array(rest))
        return found[:, None]

    return value, f"{count} unknowns, {steps} steps in time, {solves} of Newton"


def solve(problem: NonlinearProblem, asked: argparse.Namespace) -> Solved:
    ways = {"burgers": on_line, "kovasznay": on_flow}
    watch = Stopwatch()
    value, setting = ways.get(problem.name, on_square)(problem, asked.method)
    seconds = watch.read()

    def derivative(points: Array, index: Index) -> Array:
        if any(index):
            raise ValueError(f"elements have no derivative {index} at points")
        return value(points)

    return Solved(derivative, np.zeros((0, problem.dimension)), seconds, setting)


if __name__ == "__main__":
    run_peer("skfem-middle", solve, NONLINEAR)
