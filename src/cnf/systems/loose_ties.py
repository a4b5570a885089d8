"""Loose ties: conditions across cells to come close to, in least squares, where exact ones leave room.

A guide of a single cell changes how its weights are measured. One over two cells cannot, as cells are measured one by
one. So it is a tie like others with one unknown more, what it misses: T w + s = d, and s counts as much as a guide.
Such unknowns are those of cells of their own, beside the ones that have the points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from cnf.bases.ties import Tie
from cnf.systems.tied_rows import Rows, TiedSystem


@dataclass(frozen=True, eq=False)
class LooseTies:
    """The last ties of a system are loose: what they were divided by, `scale` (L,), and the cells of what they miss.

    These come after all others: `beside` (cells,) is that which each lies at, `active` (cells, C n) its unknowns.
    """

    scale: Tensor
    beside: np.ndarray
    active: np.ndarray

    @property
    def count(self) -> int:
        return len(self.scale)

    def scaled(self, tied: Tensor) -> Tensor:
        """Right-hand sides (T,) of all ties, those of loose ones as they are scaled."""
        exact = len(tied) - self.count
        return torch.cat([tied[:exact], tied[exact:] / self.scale])


def loosened(
    system: TiedSystem, loose: Sequence[Tie], weight: Tensor, unit: np.ndarray, strengths: np.ndarray | None
) -> tuple[TiedSystem, LooseTies | None]:
    """The system with these ties, which are its last, as loose ones.

    Rows of one kind in one cell are as large as their strength together, functions weighed by `weight` (C n,), as those
    of guides are; `strengths` (cells,) as there. `unit` (C n,) is what unknowns of cells without guides are multiplied
    by before they are measured.
    """
    if not loose:
        return system, None
    assert not isinstance(system.vectors, Rows)
    kinds = [np.repeat(np.arange(tie.condition.values.shape[1]), len(tie.first)) for tie in loose]
    starts = np.cumsum([0, *(own.max(initial=0) + 1 for own in kinds)])
    kind = np.concatenate([own + start for own, start in zip(kinds, starts, strict=False)])  # (L,)
    owner = np.concatenate([np.tile(tie.first.numpy(), tie.condition.values.shape[1]) for tie in loose])
    first = system.ties - len(kind)
    own = system.tied_rows >= first
    rows = torch.from_numpy(system.tied_rows[own] - first)
    _, group = np.unique(owner * (kind.max() + 1) + kind, return_inverse=True)
    groups = torch.from_numpy(group)
    squares = (system.vectors[torch.from_numpy(own)] * weight).square().sum(dim=1)
    sizes = squares.new_zeros(int(group.max()) + 1).index_add(0, groups[rows], squares).sqrt()
    scale = torch.where(sizes > 0, sizes, 1.0)[groups] / torch.from_numpy(_strength(loose, strengths))
    divisor = torch.ones_like(system.vectors[:, 0]).index_put((torch.from_numpy(np.flatnonzero(own)),), scale[rows])
    cells, places, beside = _placed(owner, len(weight))
    missing = torch.zeros(len(kind), len(weight), dtype=system.vectors.dtype)
    missing[torch.arange(len(kind)), torch.from_numpy(places)] = torch.from_numpy(1 / unit[places]).to(missing)
    active = np.zeros((len(beside), len(weight)), dtype=bool)
    active[cells, places] = True
    more = replace(
        system,
        starts=np.concatenate([system.starts, np.full(len(beside), system.starts[-1])]),
        tied_rows=np.concatenate([system.tied_rows, first + np.arange(len(kind))]),
        tied_cells=np.concatenate([system.tied_cells, len(system.starts) - 1 + cells]),
        vectors=torch.cat([system.vectors / divisor[:, None], missing]),
    )
    return more, LooseTies(scale, beside, active)


def _strength(loose: Sequence[Tie], strengths: np.ndarray | None) -> np.ndarray:
    """How much every row counts, (L,): values as guides of the weaker side do, fluxes as those of the stronger one.

    Rows of fluxes are about as large as the coefficients of that side, which strengths are in proportion to.
    """
    found = [np.zeros(0)]
    for tie in loose:
        sides = np.ones((2, len(tie.first)))
        if strengths is not None:
            sides = np.stack([strengths[tie.first.numpy()], strengths[tie.second.numpy()]])
        own = sides.max(axis=0) if tie.condition.operator.order else sides.min(axis=0)
        found.append(np.tile(own, tie.condition.values.shape[1]))
    return np.concatenate(found)


def _placed(owner: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For unknowns at cells `owner` (L,) the cell that holds each, its place there, and what those cells lie at."""
    order = np.argsort(owner, kind="stable")
    number = np.empty(len(owner), dtype=np.int64)  # among those of the same owner
    number[order] = np.arange(len(owner)) - np.searchsorted(owner[order], owner[order])
    held, cells = np.unique(np.stack([owner, number // width]), axis=1, return_inverse=True)
    return cells.reshape(-1), number % width, held[0]
