"""Concat: several bases side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cnf.bases.basis import Basis, Evaluator, SnapshotBasis
from cnf.errors import BasisError
from cnf.operators.detail import Together
from cnf.operators.expansion import Request


class Concat(SnapshotBasis):
    """The functions of all given bases: a polynomial for the trend beside kernels for the detail, say.

    >>> space = cnf.Space("x", "u")
    >>> trend, detail = cnf.bases.Polynomial(space, 1), cnf.bases.RandomFourier(space, 10)
    >>> cnf.bases.Concat([trend, detail]).size
    12
    """

    def __init__(self, bases: Sequence[Basis]):
        members = list(bases)
        if not members or not all(isinstance(b, Basis) for b in members):
            raise BasisError("Concat takes a list of bases, at least one")
        frames = {b.space.frame for b in members}
        if len(frames) != 1:
            raise BasisError("the bases of a Concat must belong to the same space (same coordinates and channels)")
        if len({b.joint for b in members}) != 1:
            raise BasisError("a basis with joint weights (Hermite with several channels) cannot stand beside others")
        super().__init__(members[0].space, sum(b.size for b in members))
        self.bases = nn.ModuleList(members)
        self.joint = members[0].joint
        known = [b.smoothness for b in members if b.smoothness is not None]
        self.smoothness = min(known) if known else None

    @property
    def shared(self) -> bool:
        return all(b.shared for b in self._members())

    def _members(self) -> list[Basis]:
        return list(self.bases)  # type: ignore[arg-type]

    def snapshot(self) -> Evaluator:
        return SideBySide([b.snapshot() for b in self._members()])

    def known_detail(self) -> Together:
        return Together([b.detail() for b in self._members()])

    def config(self) -> dict:
        return {"bases": self._members()}


@dataclass(frozen=True)
class SideBySide:
    """The evaluators of all members, their functions one after the other."""

    parts: list[Evaluator]

    def rows(self, x: Tensor, requests: Sequence[Request]) -> Tensor:
        return torch.cat([part.rows(x, requests) for part in self.parts], dim=2)
