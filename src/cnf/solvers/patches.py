"""Patches: many small dense systems instead of one large one; cost grows with the number of points, not faster.

Two ways. `blend`: overlapping balls, each solved for all conditions inside it, their fields added up with smooth
weights that sum to one (a partition of unity). Where every ball that holds a point meets the same conditions there, so
does the sum: values always, a condition of order k if those of lower order are given at the point too. `local`: for
every query the nearest conditions within the support are solved for anew, and a constant stands where there are none;
this is the paper's way, and its field jumps where the set of nearest conditions changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from cnf.errors import CnfError, SingularSystemError
from cnf.execution import Executor
from cnf.execution.processes import MOST
from cnf.solvers.balls import Balls
from cnf.solvers.solver import Method, power_of_two_scales

if TYPE_CHECKING:
    from distributed import Client

    Workers = int | str | Executor | Client | None
else:
    Workers = object

MODES = ("blend", "local")


@dataclass(frozen=True)
class Patches(Method):
    """`size`: points a ball of the cover is built around; `overlap`: how much larger than these it is.

    `follow_density`: the kernel is narrower in balls whose points lie close, and wider where they lie apart, by as much
    as their distances differ from the average; its own support is that of a ball of average density.

    `balls`: those of mode "blend", laid out beforehand (`cnf.systems.cover.cover_points`), such as some of a larger
    cloud's; every condition lies in one of them.

    `neighbours` and `outside` are for mode "local": conditions a query takes into account, and the value where no
    condition is within reach.

    `workers` do the patches of a `Piecewise` basis in eval mode: a number of processes, the address of a Dask
    scheduler, its client, or an executor of `cnf.execution`; None: those of the innermost `cnf.execution.use`, else
    this process. The field does not depend on it. Workers that are started for a number end with the factors,
    `field.release()`.

    >>> space = cnf.Space("x", "u")
    >>> points = cnf.Box(0, 1).grid(30)
    >>> condition = space.constraint("u = x", at=points)
    >>> basis = cnf.bases.Kernel(space, points, cnf.kernels.Wendland(1, 0.4))
    >>> field = cnf.ConstrainedField(basis, [condition], solver=cnf.solvers.Patches(size=5))
    >>> field.solve().certificate.exact
    True
    """

    mode: str = "blend"
    size: int = 20
    overlap: float = 1.3
    neighbours: int = 60
    outside: float = 1e5
    follow_density: bool = False
    balls: Balls | None = field(default=None, compare=False)
    workers: Workers = field(default=None, compare=False)

    _derived: ClassVar = ("workers",)  # nothing that is found depends on it

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise CnfError(f"the mode of Patches is 'blend' or 'local'; got {self.mode!r}")
        whole = all(isinstance(n, int) and n >= 1 for n in (self.size, self.neighbours))
        if not whole:
            raise CnfError("a patch needs at least one point: size and neighbours are positive whole numbers")
        if not isinstance(self.follow_density, bool) or (self.follow_density and self.mode != "blend"):
            given = f"{self.follow_density!r} in mode {self.mode!r}"
            raise CnfError(f"follow_density is True or False, and True in mode 'blend' only; got {given}")
        if self.balls is not None and self.mode != "blend":
            raise CnfError(f"balls are for mode 'blend'; in mode {self.mode!r} every query has its own system")
        if isinstance(self.workers, int) and (isinstance(self.workers, bool) or not 1 <= self.workers <= MOST):
            raise CnfError(f"workers are 1 to {MOST}; got {self.workers!r}")
        if not math.isfinite(self.outside):
            raise CnfError(f"the value outside is a finite number; got {self.outside!r}")
        if not 1 < self.overlap <= 10:
            raise CnfError(
                f"patches must overlap: overlap is a number above 1 (up to 10), such as 1.5; got {self.overlap!r}"
            )


def solve_batch(matrices: Tensor, targets: Tensor, definite: bool) -> tuple[Tensor, float]:
    """Systems (B, m, m) with targets (B, m, k) -> weights (B, m, k) and the worst ratio of pivots.

    Scaled by powers of two, refined once; differentiable.
    """
    diagonal = matrices.detach().diagonal(dim1=1, dim2=2)
    if definite:
        rows = power_of_two_scales(diagonal.clamp_min(0).sqrt())
        columns = rows
    else:
        rows = power_of_two_scales(torch.linalg.vector_norm(matrices.detach(), dim=2))
        columns = power_of_two_scales(torch.linalg.vector_norm(matrices.detach() * rows[:, :, None], dim=1))
    scaled = rows[:, :, None] * matrices * columns[:, None]
    right = rows[:, :, None] * targets
    if definite:
        root, info = torch.linalg.cholesky_ex(scaled)
        pivots = root.detach().diagonal(dim1=1, dim2=2).square()
        if bool((info > 0).any()):
            raise _singular(int((info > 0).sum()), matrices.shape[0])
        x = torch.cholesky_solve(right, root)
        x = x + torch.cholesky_solve(right - scaled @ x, root)
    else:
        lu, swaps, _ = torch.linalg.lu_factor_ex(scaled)
        pivots = lu.detach().diagonal(dim1=1, dim2=2).abs()
        if not bool((pivots > 0).all()):
            raise _singular(int((pivots.amin(dim=1) == 0).sum()), matrices.shape[0])
        x = torch.linalg.lu_solve(lu, swaps, right)
        x = x + torch.linalg.lu_solve(lu, swaps, right - scaled @ x)
    worst = float((pivots.amin(dim=1) / pivots.amax(dim=1)).min())
    return x * columns[:, :, None], worst


def _singular(count: int, of: int) -> SingularSystemError:
    return SingularSystemError(
        f"{count} of {of} patches are numerically singular: conditions repeat or nearly repeat there, or the kernel is "
        "too wide for the spacing of the points. Remove duplicate points, or use a smaller bandwidth or a less smooth "
        "kernel"
    )
