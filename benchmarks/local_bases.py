"""Local functions: polynomials and waves on the same cells, at the same conditions, and refined to a target.

    python -m benchmarks.local_bases

How many waves there are, and how long, was chosen on Helmholtz with k = 40 and on the smooth problem; k = 60 and the
disk are the ones to look at. More functions than conditions stay free until all cells are tied: memory grows with the
square of their number: waves are not refined to k = 60 here. Times are processor seconds of one thread.
"""

from __future__ import annotations

import time
import warnings

import torch

import cnf
from benchmarks.cases import Case, run_cases
from cnf.bases import Cells
from cnf.domains import Disk, Domain
from cnf.errors import CnfWarning
from cnf.pde.patches.building import Mesh, build_field, orders_of
from cnf.pde.problems.on_patches import question_of

SQUARE = cnf.Box((0, 0), (1, 1))
SMOOTH = r"\sin(x + y) + e^{3 x} \cos(3 y)"


def helmholtz(k: int, local: str, domain: Domain = SQUARE) -> dict[str, object]:
    """Two plane waves of that wavelength and x y, whose source is k^2 x y."""
    exact = rf"\cos({k}(0.6 x + 0.8 y)) + 0.7 \sin({k}(-0.28 x + 0.96 y)) + x y"
    return {
        "coordinates": "x y",
        "domain": domain,
        "equations": {"interior": rf"\Delta u + {k * k} u = {k * k} x y", "boundary": f"u = {exact}"},
        "exact": exact,
        "solve": {"method": "patches", "target": 1e-5, "local": local},
    }


def smooth(local: str) -> dict[str, object]:
    return {
        "coordinates": "x y",
        "domain": SQUARE,
        "equations": {"interior": r"-\Delta u = 2 \sin(x + y)", "boundary": f"u = {SMOOTH}"},
        "exact": SMOOTH,
        "solve": {"method": "patches", "target": 1e-5, "local": local},
    }


def on_even_cells(name: str, given: dict[str, object], halvings: int, degree: int) -> None:
    """One line about a problem on 4^halvings cells, conditions as for polynomials of that degree."""
    cells = Cells([0, 0], [1, 1])
    for _ in range(halvings):
        for axis in (0, 1):
            cells = cells.cut(range(cells.count), axis)
    problem = cnf.Problem(**given)  # type: ignore[arg-type]
    question = question_of(problem)
    started = time.process_time()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore", CnfWarning)
        solution = build_field(question, orders_of(question), Mesh.of(cells, (degree, degree))).eval().solution
        seconds = time.process_time() - started
        x = SQUARE.fill(3000, "halton", 1)
        assert problem.exact is not None
        exact = problem.exact["u"](x).reshape(-1)
        error = float((solution(x)[:, 0] - exact).norm() / exact.norm())
    print(
        f"{name:<24} {cells.count:>4} cells {solution.certificate.conditions:>6} conditions: error {error:.1e}, "
        f"{'exact' if solution.certificate.exact else 'NOT EXACT'}, {seconds:.1f} s",
        flush=True,
    )


def main() -> int:
    torch.set_num_threads(1)
    for local in ("polynomials", "waves"):
        for k, halvings in ((40, 2), (40, 3), (60, 3)):
            on_even_cells(f"{local}, k = {k}", helmholtz(k, local), halvings, 12)
        on_even_cells(f"{local}, smooth", smooth(local), 2, 12)
    disk = Disk((0.5, 0.5), 0.5)
    cases = [
        Case(f"{name}, {local}", given(local), 1e-5)
        for name, given in (
            ("k = 40", lambda local: helmholtz(40, local)),
            ("k = 40, disk", lambda local: helmholtz(40, local, disk)),
            ("smooth", smooth),
        )
        for local in ("polynomials", "waves")
    ]
    return int(run_cases(cases) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
