"""Findings: rank, condition and conflicts, worked out when first asked for, in terms of the constraints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from cnf.constraints import Constraint
from cnf.systems.assembly import Block
from cnf.systems.formulation import Account

DEPENDENT = 1e-15  # singular values below this fraction of the largest mark dependent rows
CONTRADICTION = 1e-8  # of the data that no weights can reach
GAP = 1e3  # between singular values: rows are dependent exactly, not just nearly (a basis that is too smooth)
INVOLVED = 1e-3  # rows with at least this share of the worst inconsistency are named
LARGEST = 6000  # conditions up to which the search is made


class Conflict(tuple):
    """The names of constraints that cannot hold together; `reason` says why, `points` where."""

    reason: str
    points: Tensor

    def __new__(cls, names: Sequence[str], reason: str, points: Tensor) -> Conflict:
        found = super().__new__(cls, tuple(names))
        found.reason, found.points = reason, points
        return found

    def __getnewargs__(self) -> tuple:
        return tuple(self), self.reason, self.points

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True)
class Findings:
    """What was found, as plain data."""

    rank: int
    condition: float
    conflicts: tuple[Conflict, ...] = ()


@dataclass(frozen=True, eq=False)
class Inquiry:
    """What can be found from the systems of a solve; a certificate holds one until it is asked, or sent elsewhere."""

    account: Account
    blocks: tuple[Block, ...]
    constraints: tuple[Constraint, ...]

    @cached_property
    def rank(self) -> int:
        return self.account.rank()

    @cached_property
    def condition(self) -> float:
        return self.account.condition()

    @cached_property
    def conflicts(self) -> tuple[Conflict, ...]:
        return find_conflicts(self.blocks, self.constraints)


def find_conflicts(blocks: Sequence[Block], constraints: Sequence[Constraint]) -> tuple[Conflict, ...]:
    """Conditions that contradict each other or that no combination of the basis functions can meet."""
    found: list[Conflict] = []
    for block in blocks:
        if block.matrix.shape[0] > LARGEST:
            continue
        matrix = block.dense.detach().to(torch.float64)
        if not bool(torch.isfinite(matrix).all()):
            continue
        for k, copy in enumerate(block.layout.copies):
            owners = [(i, p) for i, _ in copy.rows for p in range(constraints[i].points.shape[0])]
            found += _conflicts(matrix, block.targets[:, k].detach().to(torch.float64), owners, constraints)
    return tuple({(tuple(c), c.reason): c for c in found}.values())


def _conflicts(
    matrix: Tensor, target: Tensor, owners: list[tuple[int, int]], constraints: Sequence[Constraint]
) -> list[Conflict]:
    norms = torch.linalg.vector_norm(matrix, dim=1)
    scale = torch.where(norms > 0, norms, 1.0)
    rows, sides = matrix / scale[:, None], target / scale
    size = float(sides.abs().max()) or 1.0
    twins = _contradicting_twins(rows, sides)
    if twins:
        together: dict[tuple[int, ...], list[int]] = {}
        for pair in twins:
            together.setdefault(tuple(sorted({owners[w][0] for w in pair})), []).extend(pair)
        return [
            _described(who, owners, constraints, "ask for different values of the same thing")
            for who in together.values()
        ]
    empty = (norms <= 1e-14 * float(norms.max())) & (sides.abs() > 0)
    if bool(empty.any()):
        who = torch.nonzero(empty)[:, 0].tolist()
        return [_described(who, owners, constraints, "cannot be met: every basis function vanishes under its operator")]
    square = torch.linalg.qr(rows.T, mode="r").R.T if rows.shape[0] < rows.shape[1] else rows  # the same left vectors
    u, s, _ = torch.linalg.svd(square, full_matrices=False)
    reached = u[:, s > DEPENDENT * s[0]]
    missed = sides - reached @ (reached.T @ sides)
    kept = reached.shape[1]
    gap = kept == s.numel() or float(s[kept - 1]) > GAP * float(s[kept])
    if not gap or float(missed.abs().max()) <= CONTRADICTION * size:
        return []
    who = torch.nonzero(missed.abs() >= INVOLVED * missed.abs().max())[:, 0].tolist()
    names = {constraints[owners[w][0]].name for w in who}
    reason = "contradict each other" if len(names) > 1 or len(who) > 1 else "cannot be met by this basis"
    return [_described(who, owners, constraints, reason + " (their rows are dependent, their values are not)")]


def _contradicting_twins(rows: Tensor, sides: Tensor) -> list[list[int]]:
    """Pairs of equal rows with different values."""
    probe = torch.randn(rows.shape[1], generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(rows)
    order = torch.argsort(rows @ probe)
    close = torch.linalg.vector_norm(rows[order[1:]] - rows[order[:-1]], dim=1) < 1e-12
    largest = torch.maximum(sides[order[1:]].abs(), sides[order[:-1]].abs())
    apart = (sides[order[1:]] - sides[order[:-1]]).abs() > 1e-10 * largest
    return [[int(order[k]), int(order[k + 1])] for k in torch.nonzero(close & apart)[:, 0].tolist()]


def _described(
    who: Sequence[int], owners: list[tuple[int, int]], constraints: Sequence[Constraint], reason: str
) -> Conflict:
    involved = sorted({owners[w][0] for w in who})
    names = [constraints[i].name for i in involved]
    points = torch.stack([constraints[owners[w][0]].points[owners[w][1]].detach().to(torch.float64) for w in who])
    points = torch.unique(points, dim=0)
    where = ", ".join(f"{v:.6g}" for v in points[0].tolist())
    listed = " and ".join(repr(n) for n in names)
    subject = f"constraints {listed}" if len(names) > 1 else f"constraint {listed}"
    more = f" and {len(points) - 1} more points" if len(points) > 1 else ""
    return Conflict(names, f"{subject} {reason}, at ({where}){more}", points)
