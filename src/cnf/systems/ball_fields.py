"""Ball fields: what the small systems of a cover are at many queries, without gradients of autograd.

In come sources in balls (values and first derivatives of one kernel, with their strengths), queries, and pairs of a
ball and a query in it; out go the value and the slopes of every ball's own field at its queries. One ball after the
other is a dense block, queries by sources, which fits into the cache and below the size from which torch shares an
operation among threads: gathering pair by pair costs five times as much. Several threads take several pieces instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cnf.bases.kernels import KernelProfile, Wendland
from cnf.bases.local import Strengths
from cnf.operators.jets import MultiIndex
from cnf.systems.blending import SMOOTHNESS

ENTRIES = (
    2**15
)  # of a block; torch shares larger operations among threads, which wait for one another on a busy machine


@dataclass(frozen=True, eq=False)
class BallSources:
    """The sources of every ball, ball by ball: those of ball t are starts[t] to starts[t + 1].

    `places` (members, D), `strengths` (members,) of each derivative of order 0 or 1; `centres` (T, D) of the balls;
    `stretch` (T,): in ball t the kernel is k(stretch[t] (x - y)).
    """

    kernel: KernelProfile
    starts: np.ndarray  # (T + 1,)
    places: Tensor
    strengths: Strengths
    centres: Tensor
    stretch: Tensor

    def fields(self, x: Tensor, owner: Tensor, ball: np.ndarray, indices: Sequence[MultiIndex]) -> Tensor:
        """Derivatives `indices` of order 0 and 1 at pairs (E,) of a query `owner` of x (P, D) and a ball, (J, E).

        Pairs of one ball must follow one another.
        """
        dimension, slopes = x.shape[1], any(map(sum, indices))
        inverse = self.kernel.scaled(torch.ones(dimension, dtype=x.dtype))  # (D,)
        counts = np.diff(self.starts)
        holder = torch.from_numpy(np.repeat(np.arange(len(counts)), counts))
        number = torch.from_numpy(ball)
        # From the centre of the ball and in units of the kernel: a query at a source differs from it by exactly zero.
        sources = ((self.places - self.centres[holder]) * inverse * self.stretch[holder, None]).T.contiguous()
        queries = ((x[owner] - self.centres[number]) * inverse * self.stretch[number, None]).T.contiguous()
        value, along = self._split(inverse, holder)
        found = x.new_zeros(1 + dimension * slopes, len(ball))
        edges = np.flatnonzero(np.diff(ball, prepend=-1, append=-1))
        for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            low, high = int(self.starts[ball[first]]), int(self.starts[ball[first] + 1])
            if low == high:
                continue
            step = max(1, ENTRIES // (high - low))
            own = slice(low, high)
            for start in range(first, last, step):
                part = slice(start, min(start + step, last))
                found[:, part] = self._block(
                    queries[:, part],
                    sources[:, own],
                    None if value is None else value[own],
                    None if along is None else along[:, own],
                    slopes,
                )
        if slopes:
            found[1:] *= inverse[:, None] * self.stretch[number]
        return found[[index.index(1) + 1 if sum(index) else 0 for index in indices]]

    def _split(self, inverse: Tensor, holder: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Strengths of the values (members,) and of the slopes (D, members), in units of the kernel."""
        dimension = len(inverse)
        value = self.strengths.get((0,) * dimension)
        axes = {b.index(1): v for b, v in self.strengths.items() if sum(b)}
        if not axes:
            return value, None
        zero = torch.zeros_like(next(iter(axes.values())))
        along = torch.stack([axes.get(k, zero) for k in range(dimension)])
        return value, along * inverse[:, None] * self.stretch[holder]

    def _block(self, x: Tensor, y: Tensor, value: Tensor | None, along: Tensor | None, slopes: bool) -> Tensor:
        """Queries (D, n) and sources (D, m) of one ball -> (1, n) or (1 + D, n), slopes by scaled coordinates.

        With z = x - y, s = |z|^2: F = v k + 2 k' (c . z) and dF/dz = (2 k' v + 4 k'' (c . z)) z + 2 k' c.
        """
        square = torch.zeros(x.shape[1], y.shape[1], dtype=x.dtype)
        for a, b in zip(x, y, strict=True):
            apart = a[:, None] - b
            square.addcmul_(apart, apart)
        order = int(slopes) + int(along is not None)
        k = self.kernel.profile(square, order)
        total = torch.zeros(x.shape[1], dtype=x.dtype)
        if value is not None:
            total += k[0] @ value
        if along is not None:
            dot = x.T @ along - (along * y).sum(dim=0)
            total += 2 * (k[1] * dot).sum(dim=1)
        if not slopes:
            return total[None]
        pull = torch.zeros_like(square)
        if value is not None:
            pull.addcmul_(k[1], value[None], value=2)
        if along is not None:
            pull.addcmul_(k[2], dot, value=4)
        slope = x * pull.sum(dim=1) - y @ pull.T
        if along is not None:
            slope += 2 * along @ k[1].T
        return torch.cat([total[None], slope])


def first_order_weights(
    offsets: Tensor, radii: Tensor, owner: Tensor, count: int, indices: Sequence[MultiIndex]
) -> dict[MultiIndex, Tensor]:
    """As `blend_weights`, for values and first derivatives, in closed form."""
    bump = Wendland(SMOOTHNESS // 2, 1.0, dimension=max(3, offsets.shape[1])).to(offsets.dtype)
    scaled = (offsets / radii[:, None]).T
    slopes = any(map(sum, indices))
    raw = bump.profile((scaled * scaled).sum(dim=0), int(slopes))
    total = torch.zeros(count, dtype=offsets.dtype).index_add_(0, owner, raw[0])[owner]
    shares = raw[0] / total
    found = {index: shares for index in indices if not sum(index)}
    for index in [index for index in indices if sum(index)]:
        steep = 2 * raw[1] * scaled[index.index(1)] / radii
        rise = torch.zeros(count, dtype=offsets.dtype).index_add_(0, owner, steep)[owner]
        found[index] = (steep - shares * rise) / total
    return found
