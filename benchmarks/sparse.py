"""Sparse systems: factorisation, solve and adjoint at 30 000 unknowns, against SciPy's default, in one run.

python -m benchmarks.sparse                 about three minutes on one core
python -m benchmarks.sparse --points 2000   smaller

A torus with points on its surface and on either side of it, Wendland's C^2 kernel with about 60 entries per row; then
values and normals at the surface points alone, Hermite with Wendland's C^4 kernel. Every line gives wall time and, in
brackets, the time this process was at work, which a busy machine leaves alone.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import splu
from torch import Tensor

import cnf
from cnf.bases.basis import Basis
from cnf.solvers import Cholesky, Krylov, Solver, SparseCholesky, SparseLU, pardiso
from cnf.solvers.adjoint import solve
from cnf.solvers.schwarz import cut_up
from cnf.solvers.sparse_matrix import SparseMatrix
from cnf.systems.layout import lay_out
from cnf.systems.sparse import find_structure
from cnf.systems.sparse_assembly import assemble_sparse

RING, TUBE, OFFSET, NEIGHBOURS = 0.7, 0.3, 0.01, 60
AREA = 4 * math.pi**2 * RING * TUBE
SPACE = cnf.Space("x y z", "u")


@dataclass(frozen=True)
class Took:
    """Seconds on the wall, and seconds this process was at work."""

    wall: float
    work: float

    def __str__(self) -> str:
        return f"{self.wall:7.2f} s [{self.work:6.2f}]"

    def __add__(self, other: Took) -> Took:
        return Took(self.wall + other.wall, self.work + other.work)


def timed(run: Callable[[], Any]) -> tuple[Any, Took]:
    wall, work = time.perf_counter(), time.process_time()
    found = run()
    return found, Took(time.perf_counter() - wall, time.process_time() - work)


def best(run: Callable[[], Any], rounds: int = 3) -> tuple[Any, Took]:
    """What took least work of a few runs."""
    return min((timed(run) for _ in range(rounds)), key=lambda found: found[1].work)


def torus(count: int) -> tuple[Tensor, Tensor]:
    """Points drawn evenly from the surface, and their normals, (P, 3) each."""
    generator = np.random.default_rng(0)
    around, across, chance = generator.uniform(size=(3, 4 * count)) * np.array([[2 * np.pi], [2 * np.pi], [1.0]])
    kept = chance < (RING + TUBE * np.cos(across)) / (RING + TUBE)
    u, v = around[kept][:count], across[kept][:count]
    normals = np.stack([np.cos(u) * np.cos(v), np.sin(u) * np.cos(v), np.sin(v)], axis=1)
    middle = RING * np.stack([np.cos(u), np.sin(u), np.zeros_like(u)], axis=1)
    return torch.from_numpy(middle + TUBE * normals), torch.from_numpy(normals)


def offset_problem(points: int) -> tuple[Basis, list[cnf.Constraint]]:
    """Zero on the surface, +- the distance off it."""
    x, normals = torus(points)
    at = torch.cat([x, x + OFFSET * normals, x - OFFSET * normals])
    values = torch.cat([torch.zeros(points), torch.full((points,), OFFSET), torch.full((points,), -OFFSET)]).double()
    constraints = [SPACE.constraint("u", at=at, equals=values, name="distance")]
    radius = math.sqrt(NEIGHBOURS * AREA / (3 * points * math.pi)) * 0.9  # the three sheets are not quite one
    return cnf.bases.Hermite(SPACE, constraints, cnf.kernels.Wendland(1, radius)), constraints


def normal_problem(points: int) -> tuple[Basis, list[cnf.Constraint]]:
    """Zero on the surface, its gradient the normal: four unknowns per point."""
    x, normals = torus(points)
    constraints = [
        SPACE.constraint("u", at=x, equals=0.0, name="surface"),
        SPACE.constraint(r"\nabla u", at=x, equals=normals, name="normals"),
    ]
    radius = math.sqrt(20 * AREA / (points * math.pi))
    return cnf.bases.Hermite(SPACE, constraints, cnf.kernels.Wendland(2, radius)), constraints


@dataclass(frozen=True)
class Assembled:
    """A field's matrix and right-hand side, and what they took."""

    field: cnf.ConstrainedField
    matrix: SparseMatrix
    targets: Tensor
    structure: Took
    assembly: Took


def assembled(basis: Basis, constraints: list[cnf.Constraint]) -> Assembled:
    field = cnf.ConstrainedField(basis, constraints, solver=SparseCholesky())
    parts = (basis, field.constraints, lay_out(basis, field.constraints))
    known, structure = timed(lambda: find_structure(basis.snapshot(), *parts, field.solver, None))
    found, assembly = best(lambda: assemble_sparse(basis.snapshot(), *parts, known.structure))
    targets = torch.cat([c.values.T.reshape(-1) for c in field.constraints])[:, None]
    return Assembled(field, found[0], targets, structure, assembly)


def solvers() -> dict[str, tuple[Solver, bool]]:
    """Every backend there is, and whether it is told that the matrix is definite."""
    found: dict[str, tuple[Solver, bool]] = {
        "SparseCholesky multifrontal": (SparseCholesky("multifrontal"), True),
        "SparseCholesky SuperLU": (SparseCholesky("superlu"), True),
        "SparseLU SuperLU": (SparseLU("superlu"), False),
    }
    if pardiso.is_installed():
        found["SparseCholesky PARDISO"] = (SparseCholesky("pardiso"), True)
        found["SparseLU PARDISO"] = (SparseLU("pardiso"), False)
    found["Krylov, CG"] = (Krylov(), True)
    found["Krylov, GMRES"] = (Krylov(), False)
    return found


def measure(title: str, problem: Assembled, against_scipy: bool) -> None:
    matrix, n = problem.matrix, problem.matrix.shape[0]
    print(f"\n{title}: {n} unknowns, {matrix.pattern.count / n:.0f} entries per row")
    print(f"  neighbours and pattern, once   {problem.structure}")
    print(f"  assembly                       {problem.assembly}")
    default = None
    if against_scipy:
        columns = matrix.plain.tocsc()
        _, default = timed(lambda: splu(columns))  # once is enough: it takes longest
        print(f"  SciPy's splu as it comes       {default}")
    for label, plan in (
        ("order, once", lambda: matrix.pattern.plan),
        ("fronts, once", lambda: matrix.pattern.elimination),
    ):
        print(f"  {label:<30} {timed(plan)[1]}")
    settings = Krylov()
    print(
        f"  {'patches of Krylov, once':<30} {timed(lambda: cut_up(matrix.pattern, settings.size, settings.overlap))[1]}"
    )
    for name, (solver, definite) in solvers().items():
        _measure_solver(name, solver, definite, problem, default)


def _measure_solver(name: str, solver: Solver, definite: bool, problem: Assembled, default: Took | None) -> None:
    """Factor, solve and adjoint of one solver, the best of a few runs each."""
    matrix, targets = problem.matrix, problem.targets
    values = matrix.values.detach().requires_grad_()
    given = SparseMatrix(matrix.pattern, values)
    factor, factored = best(lambda: solver.factor(given.detach(), definite))
    weights, solved = best(lambda: solve(given, targets, factor))
    residual = float((matrix @ weights.detach() - targets).norm() / targets.norm())
    loss = weights.sum()
    _, adjoint = best(lambda: torch.autograd.grad(loss, values, retain_graph=True))
    forward = problem.assembly + factored + solved
    print(f"  {name}: {factor.name}")
    faster = ""
    if default is not None:
        faster = f", {default.work / factored.work:.1f} x SciPy's" + (" (asked: 5)" if "Krylov" not in name else "")
    print(f"    factor                       {factored}{faster}")
    print(f"    solve                        {solved}  residual {residual:.1e}")
    print(
        f"    adjoint                      {adjoint}  {100 * adjoint.work / forward.work:.0f} % of assembly + factor + "
        f"solve (asked: 20), {100 * adjoint.work / (factored + solved).work:.0f} % of factor + solve"
    )


def measure_step(basis: Basis, constraints: list[cnf.Constraint], solver: Solver) -> None:
    """A whole training step through the field: solve, certificate, loss on 1000 points, backward."""
    field = cnf.ConstrainedField(basis, constraints, solver=solver)
    x = torus(1000)[0] * 1.01
    field.solve()  # the structure and the order are there from now on
    loss, forward = timed(lambda: field.solve()(x).square().mean())
    _, backward = timed(lambda: loss.backward())
    print(f"  training step with {type(solver).__name__}: forward {forward}, backward {backward}")


def measure_gradients(points: int) -> None:
    """Gradients to the radius and the values against the dense solver, where that fits."""
    found = {}
    for name, solver in {"dense": Cholesky(), **{n: s for n, (s, d) in solvers().items() if d}}.items():
        basis, constraints = offset_problem(points)
        values = torch.nn.Parameter(constraints[0].values[:, 0].clone())
        own = [SPACE.constraint("u = k", at=constraints[0].points, k=values, name="distance")]
        field = cnf.ConstrainedField(cnf.bases.Hermite(SPACE, own, basis.kernel), own, solver=solver)
        loss = (field.solve()(torus(500)[0] * 1.005) * 100).square().sum()
        found[name] = torch.autograd.grad(loss, [field.basis.kernel.log_length, values])
    print(f"\ngradients at {3 * points} unknowns against dense Cholesky (asked: 1e-8)")
    for name, gradients in found.items():
        if name != "dense":
            off = [float((g - e).abs().max() / e.abs().max()) for g, e in zip(gradients, found["dense"], strict=True)]
            print(f"  {name:<30} radius {off[0]:.1e}, right-hand sides {off[1]:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=10_000, help="points on the surface")
    given = parser.parse_args()
    torch.set_num_threads(1)
    offsets = offset_problem(given.points)
    measure("surface and offsets, Wendland C^2", assembled(*offsets), against_scipy=True)
    measure_step(*offsets, SparseCholesky())
    measure_gradients(min(900, given.points))
    normals = normal_problem(given.points)
    measure("values and normals, Hermite, Wendland C^4", assembled(*normals), against_scipy=False)


if __name__ == "__main__":
    main()
