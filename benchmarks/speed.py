"""Speed: assembly against the naive scheme, the condition estimate against torch, a training step against its floor.

python -m benchmarks.speed            about a minute; the naive scheme is timed on 32 of its 1024 columns
python -m benchmarks.speed --full     the naive scheme in full
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor

import cnf
from benchmarks.reference import assemble_laplacian
from benchmarks.timing import compare
from cnf.solvers.condition import differentiable_ratio, largest_triplet, smallest_triplet, starting_vector
from cnf.systems.assembly import assemble_matrices
from cnf.systems.layout import lay_out

POINTS, BANDWIDTH = 1024, 2.0


def condition_number(matrix: Tensor, factor=None) -> Tensor:
    """sigma_max / sigma_min of a square matrix (n, n), differentiable; `factor` is (LU, pivots) if known already."""
    with torch.no_grad():
        lu, pivots = torch.linalg.lu_factor(matrix) if factor is None else factor
        detached = matrix.detach()
        start = starting_vector(matrix.shape[0], detached)
        top = largest_triplet(lambda v: detached @ v, lambda u: detached.T @ u, start)
        bottom = smallest_triplet(
            lambda b: torch.linalg.lu_solve(lu, pivots, b[:, None])[:, 0],
            lambda b: torch.linalg.lu_solve(lu, pivots, b[:, None], adjoint=True)[:, 0],
            start,
        )
    ones = detached.new_ones(matrix.shape[0])
    return differentiable_ratio(matrix, top, bottom, ones, ones)


def problem(count: int = POINTS) -> cnf.ConstrainedField:
    """Laplacian rows at random points under a Gaussian kernel with a 2 x 256 SIREN encoder and 512 features."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(count, 2, dtype=torch.float64, generator=generator)
    space = cnf.Space("x y", "u")
    condition = space.constraint(r"\Delta u = 1", at=x, name="laplacian")
    encoder = cnf.encoders.SIREN(2, 512, hidden=(256, 256), seed=0)
    basis = cnf.bases.Kernel(space, x, cnf.kernels.Gaussian(BANDWIDTH), encoder)
    return cnf.ConstrainedField(basis, [condition], tolerance=1.0)


def assembled(field: cnf.ConstrainedField) -> Tensor:
    return assemble_matrices(
        field.basis.snapshot(), field.basis, field.constraints, lay_out(field.basis, field.constraints)
    )[0]


def measure_assembly(full: bool) -> None:
    field = problem()
    basis = field.basis
    columns = POINTS if full else 32
    anchors = basis.anchors[:columns]

    def fast() -> Tensor:
        with torch.no_grad():
            return assembled(field)

    fast()
    times = [_timed(fast) for _ in range(5)]
    started = time.perf_counter()
    naive = assemble_laplacian(basis.encoder, BANDWIDTH, basis.anchors, anchors)
    naive_seconds = (time.perf_counter() - started) * POINTS / columns
    error = float((fast()[:, :columns] - naive).abs().max() / naive.abs().max())
    fast_seconds = sorted(times)[len(times) // 2]
    how = "measured in full" if full else f"timed on {columns} columns, scaled to {POINTS}"
    print(f"assembly, M = {POINTS}, Laplacian, SIREN 2x256 -> 512 features")
    print(f"  naive pairwise nested autograd  {naive_seconds:9.2f} s   ({how})")
    print(f"  cnf                             {fast_seconds:9.3f} s   entries agree to {error:.1e}")
    print(f"  ratio                           {naive_seconds / fast_seconds:9.0f} x  (asked: at least 20)")


def measure_condition() -> None:
    print("condition number with gradient, M = 1024: estimate (factor at hand) against torch.linalg.cond")
    for name, matrix in condition_cases().items():
        factor = torch.linalg.lu_factor(matrix)
        exact_gradient = _gradient(torch.linalg.cond, matrix)
        estimate_gradient = _gradient(lambda a, f=factor: condition_number(a, f), matrix)
        exact, estimate = float(torch.linalg.cond(matrix)), float(condition_number(matrix, factor))
        cosine = float(torch.nn.functional.cosine_similarity(exact_gradient.ravel(), estimate_gradient.ravel(), dim=0))
        times = compare(
            {
                "torch": lambda a=matrix: _gradient(torch.linalg.cond, a),
                "estimate": lambda a=matrix, f=factor: _gradient(lambda m: condition_number(m, f), a),
                "with its own LU": lambda a=matrix: _gradient(condition_number, a),
            },
            rounds=5,
        )
        print(
            f"  {name:<28} cond {exact:8.1e}  off by {abs(estimate / exact - 1):7.1e}  gradient cosine {cosine:.5f}  "
            f"{times['torch']:.3f} s / {times['estimate']:.4f} s = {times['torch'] / times['estimate']:5.1f} x "
            f"({times['torch'] / times['with its own LU']:.1f} x with LU; asked: 10)"
        )


def condition_cases() -> dict[str, Tensor]:
    """Matrices the library meets: kernel systems of moderate and high condition, and a random one."""
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(POINTS, 2, dtype=torch.float64, generator=generator)
    distance = ((x[:, None] - x[None]) ** 2).sum(dim=2)
    skew = torch.rand(POINTS, dtype=torch.float64, generator=generator) * 0.5 + 0.75
    return {
        "Gaussian kernel, width 0.02": torch.exp(-distance / (2 * 0.02**2)),
        "skewed Gaussians, width 0.03": torch.exp(-distance / (2 * (0.03 * skew) ** 2)),
        "Laplacian rows, SIREN kernel": assembled(problem()).detach(),
        "standard normal": torch.randn(POINTS, POINTS, dtype=torch.float64, generator=generator),
    }


def measure_step() -> None:
    field = problem()
    with torch.no_grad():
        matrix = assembled(field)
    side = torch.ones(POINTS, 1, dtype=torch.float64)

    def step() -> None:
        field.zero_grad(set_to_none=True)
        field.solve().weights.square().sum().backward()

    times = compare(
        {"floor": lambda: unavoidable(matrix, side), "step": step, "LU alone": lambda: factor_and_solve(matrix, side)}
    )
    print("a training step (assemble, solve, certify, backward), M = 1024, against the work it cannot avoid")
    print(f"  LU factor + two triangular solves  {times['LU alone']:.3f} s")
    print(f"  the same + matrix products         {times['floor']:.3f} s")
    print(f"  the step                           {times['step']:.3f} s")
    print(f"  ratio                              {times['step'] / times['floor']:.2f} x  (asked: at most 3)")


def factor_and_solve(matrix: Tensor, side: Tensor) -> Tensor:
    lu, pivots = torch.linalg.lu_factor(matrix)
    return torch.linalg.lu_solve(lu, pivots, torch.linalg.lu_solve(lu, pivots, side), adjoint=True)


def unavoidable(matrix: Tensor, side: Tensor) -> None:
    """LU, forward and adjoint solve, and the products of encoder and kernel, forward and backward, nothing else.

    Encoder: value, two first and two second derivatives at the points, the value at the anchors, through 256 x 256 and
    256 x 512. Kernel: s, two slopes and the collapsed Laplacian. Backward of a product is two products.
    """
    factor_and_solve(matrix, side)
    hidden, features = matrix[:, :256].contiguous(), matrix[:, :512].contiguous()
    first, second = matrix[:256, :256].contiguous(), matrix[:256, :512].contiguous()
    for _ in range(6):
        for weight, output in ((first, hidden), (second, features)):
            hidden @ weight
            hidden.T @ output
            output @ weight.T
    for _ in range(4):
        features @ features.T
        matrix @ features
        matrix.T @ features


def _gradient(function, matrix: Tensor) -> Tensor:
    leaf = matrix.clone().requires_grad_(True)
    return torch.autograd.grad(function(leaf), leaf)[0]


def _timed(run) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="time the naive scheme on all columns (several minutes)")
    full = parser.parse_args().full
    measure_assembly(full)
    measure_condition()
    measure_step()


if __name__ == "__main__":
    main()
