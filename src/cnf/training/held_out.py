"""Losses that ask how well a field does where nothing was imposed: between its points, and at points left out.

When a loss mixes several constraints, the error of each is divided by its natural size (`cnf.certificate.sizes`). That
depends on no parameter of the basis, so the loss stays a plain function that line searches can use.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import torch
from scipy.spatial import cKDTree
from torch import Tensor

from cnf.bases.hermite import Hermite
from cnf.certificate.sizes import natural_sizes
from cnf.constraints import Constraint
from cnf.errors import TrainingError, nearest
from cnf.operators.coefficients import Datum
from cnf.solution import Solution
from cnf.solvers.adjoint import solve, solve_transposed
from cnf.solvers.solver import Factor
from cnf.systems.assembly import Block
from cnf.training.losses import Loss
from cnf.training.points import Places, fills_space, points_between

DETERMINED = 1e-8  # a condition whose share in the solve is smaller was left out of it (rank deficiency)


class HeldOutResidual(Loss):
    """The mean squared residual of the field's own equations at points where they were not imposed.

    `points`: (P, D), a domain such as `cnf.Box` (then `count` are drawn at each call), or None: `count` fixed random
    points between those of each constraint. `constraint`: a constraint, a name, or several; None takes every constraint
    whose right-hand side is known everywhere and whose points fill the space. Several constraints are brought to a
    common scale first (see the module). `log` takes the logarithm: tuning a bandwidth crosses decades.

    >>> space = cnf.Space("x y", "u")
    >>> points = cnf.Box([0, 0], [1, 1]).halton(12)
    >>> values = space.constraint("u = x", at=points, name="values")
    >>> solution = cnf.ConstrainedField(cnf.bases.RandomFourier(space, 40, 0.7), [values]).solve()
    >>> loss = cnf.losses.HeldOutResidual(cnf.Box([0, 0], [1, 1]), constraint="values", log=False)(solution)
    >>> 0 < loss.item() < 1  # how far it is from x between the points
    True
    """

    label = "held_out_residual"

    def __init__(
        self,
        points: object = None,
        constraint: Constraint | str | Sequence[Constraint | str] | None = None,
        count: int = 512,
        log: bool = True,
        seed: int = 0,
        weight: float = 1.0,
        *,
        name: str | None = None,
    ):
        super().__init__(weight, name)
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise TrainingError(f"{self.name}: count is a whole number of at least 1; got {count!r}")
        self.places = None if points is None else Places(points, count, seed, self.name)
        given = [constraint] if isinstance(constraint, Constraint | str) else constraint
        self.asked = None if given is None else tuple(given)
        if self.asked is not None and (not self.asked or not all(isinstance(c, Constraint | str) for c in self.asked)):
            raise TrainingError(
                f"{self.name}: constraint is a constraint, its name, or a list of these; got {constraint!r}"
            )
        self.count, self.log, self.seed = count, bool(log), seed
        self._between: WeakKeyDictionary[Constraint, Tensor] = WeakKeyDictionary()
        self._checked: WeakKeyDictionary[Constraint, tuple[int, int]] = WeakKeyDictionary()

    def measure(self, solution: Solution, generator: torch.Generator | None) -> Tensor:
        chosen = self._chosen(solution)
        scales = natural_scales(chosen)
        given = None if self.places is None else self.places.draw(solution, generator)
        parts = []
        for constraint, scale in zip(chosen, scales, strict=True):
            x = self._between_points(constraint) if given is None else given
            if given is not None:
                self._refuse_imposed(constraint, x)
            parts.append((solution.residual(constraint.at(x)) / scale).square().mean())
        total = torch.stack(parts).mean()
        return safe_log(total) if self.log else total

    def _refuse_imposed(self, constraint: Constraint, x: Tensor) -> None:
        """Points where the equation was imposed say nothing: the residual is zero there whatever the field does."""
        key = (x.data_ptr(), x.shape[0])
        if self._checked.get(constraint) == key:
            return
        distances, _ = cKDTree(constraint.points.detach().cpu().numpy()).query(x.detach().cpu().numpy())
        share = float((distances < 1e-12).mean())
        if share > 0.5:
            raise TrainingError(
                f"{self.name}: {share:.0%} of the points given are points of constraint {constraint.name!r} "
                "itself, where its "
                "residual is zero anyway; give other points (another seed), a domain, or leave points out"
            )
        self._checked[constraint] = key

    def _between_points(self, constraint: Constraint) -> Tensor:
        if constraint not in self._between:
            self._between[constraint] = points_between(constraint, self.count, self.seed)
        return self._between[constraint]

    def _chosen(self, solution: Solution) -> list[Constraint]:
        if self.asked is None:
            found = [c for c in solution.constraints if holds_elsewhere(c) and fills_space(c.points)]
            if not found:
                raise TrainingError(
                    f"{self.name}: no constraint of this field can be checked elsewhere: it takes a right-hand side "
                    "that is known everywhere (a number, a callable or an equation, not a table) and points that fill "
                    "the space. Give constraint= and points= yourself, or use LeaveOneOut"
                )
            return found
        by_name = {c.name: c for c in solution.constraints}
        chosen = []
        for asked in self.asked:
            if isinstance(asked, str) and asked not in by_name:
                raise TrainingError(
                    f"{self.name}: there is no constraint {asked!r}; the field has {', '.join(by_name)}."
                    + nearest(asked, by_name)
                )
            constraint = by_name[asked] if isinstance(asked, str) else asked
            if not holds_elsewhere(constraint):
                raise TrainingError(
                    f"{self.name}: constraint {constraint.name!r} has values or coefficients only at its own points; "
                    "give them as numbers, callables or expressions, or use LeaveOneOut"
                )
            chosen.append(constraint)
        return chosen


class LeaveOneOut(Loss):
    """The mean squared error of predicting every condition from all the others, without solving again.

    Rippa's formula. A kernel basis with one function per condition loses both, e_k = beta_k / (A^-1)_kk. Any other
    basis keeps its functions and loses the condition, e_k = (K^-1 g)_k / (K^-1)_kk with K = A A^T (minimum norm), or
    e_k = r_k / (1 - H_kk) if there are more conditions than functions (least squares). Conditions that the solve left
    out as dependent do not count. Errors of several constraints are brought to a common scale (see the module). It
    needs all of A^-1: as expensive as a few factorisations.

    >>> space = cnf.Space("x y", "u")
    >>> points = cnf.Box([0, 0], [1, 1]).halton(12)
    >>> values = space.constraint("u = x", at=points, name="values")
    >>> solution = cnf.ConstrainedField(cnf.bases.RandomFourier(space, 40, 0.7), [values]).solve()
    >>> loss = cnf.losses.LeaveOneOut(log=False)(solution)
    >>> 0 < loss.item() < 1
    True
    """

    label = "leave_one_out"

    def __init__(self, log: bool = True, weight: float = 1.0, *, name: str | None = None):
        super().__init__(weight, name)
        self.log = bool(log)

    def measure(self, solution: Solution, generator: torch.Generator | None) -> Tensor:
        scales = natural_scales(solution.constraints)
        errors = []
        for block, factor in zip(solution.blocks, solution.factors, strict=True):
            found, known = leave_one_out_errors(block, factor, is_paired(solution, block))
            columns = []
            for copy in block.layout.copies:
                parts = [found.new_full((solution.constraints[i].points.shape[0],), scales[i]) for i, _ in copy.rows]
                columns.append(torch.cat(parts))
            errors.append((found / torch.stack(columns, dim=1))[known].reshape(-1))
        total = torch.cat(errors)
        if not total.numel():
            raise TrainingError(f"{self.name}: no condition is independent of the others, so none can be left out")
        return safe_log(total.square().mean()) if self.log else total.square().mean()


def leave_one_out_errors(block: Block, factor: Factor, paired: bool) -> tuple[Tensor, Tensor]:
    """Errors (m, k) of every condition predicted from the others, and which of them are defined, (m,)."""
    matrix, targets = block.dense, block.targets
    m, n = matrix.shape
    weights = solve(matrix, targets, factor)  # (n, k)
    inverse = solve(matrix, torch.eye(m, dtype=matrix.dtype, device=matrix.device), factor)  # (n, m)
    norms = torch.linalg.vector_norm(matrix.detach(), dim=1)
    if m > n:
        share = 1 - (matrix * inverse.T).sum(dim=1)
        known = share.detach() > DETERMINED
        numerator = targets - matrix @ weights
    elif paired and not factor.pseudo:
        share = inverse.diagonal()
        known = share.detach().abs() > torch.finfo(matrix.dtype).eps * torch.linalg.vector_norm(inverse.detach(), dim=0)
        numerator = weights
    else:
        share = inverse.square().sum(dim=0)
        known = share.detach() * norms.square() > DETERMINED  # at least 1 for a condition that took part
        numerator = solve_transposed(matrix, weights, factor)
    safe = torch.where(known, share, 1.0)
    return torch.where(known[:, None], numerator / safe[:, None], 0.0), known


def is_paired(solution: Solution, block: Block) -> bool:
    """True if function k of the block belongs to condition k: Hermite, or anchors at the points of the conditions."""
    m, n = block.matrix.shape
    if m != n:
        return False
    basis, rows = solution.basis, block.layout.first.rows
    if isinstance(basis, Hermite):
        return len(basis.constraints) == len(solution.constraints) and all(
            a.operator is b.operator and torch.equal(a.points.to(b.points), b.points)
            for a, b in zip(basis.constraints, solution.constraints, strict=True)
        )
    anchors = getattr(basis, "anchors", None)
    points = torch.cat([solution.constraints[i].points for i, _ in rows])
    return isinstance(anchors, Tensor) and anchors.shape == points.shape and torch.equal(anchors.to(points), points)


def natural_scales(constraints: Sequence[Constraint]) -> list[float]:
    """The size an error of each constraint is measured by (see the module); 1 if there is only one."""
    return [1.0] if len(constraints) == 1 else natural_sizes(constraints)


def holds_elsewhere(constraint: Constraint) -> bool:
    """True if values and coefficients of the equation are known at any point."""
    data: list[Datum] = [value for _, value in constraint.operator.data] + list(
        constraint.right_hand_side.data.values()
    )
    tables = [value for value in data if isinstance(value, Tensor) and value.numel() > 1]
    return constraint.right_hand_side.known_everywhere and not tables


def safe_log(value: Tensor) -> Tensor:
    """log, with zero taken for the smallest positive number."""
    return value.clamp_min(torch.finfo(value.dtype).tiny).log()
