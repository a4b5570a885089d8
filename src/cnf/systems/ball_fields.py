"""Ball fields: what the small systems of a cover are at many queries, without gradients of autograd.

In come sources in balls (values and first derivatives of one kernel, with their strengths), queries, and pairs of a
ball and a query in it; out go the value and the slopes of every ball's own field at its queries. A ball is a dense
block, queries by sources; blocks of similar size are filled up and evaluated together, as many as fit into the cache:
gathering pair by pair, and ball by ball, cost several times as much. NumPy does that in place and for small arrays in
less time than torch, whose graph nothing here needs. Several threads take several pieces instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cnf.bases.kernels import KernelProfile, Wendland
from cnf.bases.local import Strengths
from cnf.operators.jets import MultiIndex
from cnf.systems.blending import SMOOTHNESS

ENTRIES = 2**15  # of blocks together: as many as fit into the cache
NEAR = 1e-6  # squares of distances in units of the kernel: shorter ones are not taken from a product of matrices
ALIKE = 1.25  # how much more queries the largest block of a batch may have than the smallest


@dataclass(frozen=True, eq=False)
class BallSources:
    """The sources of every ball, ball by ball: those of ball t are starts[t] to starts[t + 1].

    Places are from the centre of the ball and in units of its kernel, which is k(stretch[t] (x - y)): a query at a
    source differs from it by exactly zero. The last row stands for no source, and is what blocks are filled up with.
    """

    kernel: KernelProfile
    starts: np.ndarray  # (T + 1,)
    rows: np.ndarray  # (members + 1, D + 2): -2 y, |y|^2 and 1 of places y
    value: np.ndarray | None  # (members + 1, 1), strengths v of the kernel itself
    along: np.ndarray | None  # (members + 1, D + 1), of its slopes, c, twice: 2 c and -2 c . y
    centres: np.ndarray  # (T, D)
    units: np.ndarray  # (T, D): what differences are multiplied with

    def fields(self, x: Tensor, owner: Tensor, ball: np.ndarray, indices: Sequence[MultiIndex]) -> Tensor:
        """Derivatives `indices` of order 0 and 1 at pairs (E,) of a query `owner` of x (P, D) and a ball, (J, E).

        Pairs of one ball must follow one another.
        """
        slopes, dimension = any(map(sum, indices)), x.shape[1]
        units = self.units[ball]
        queries = np.ones((len(ball), dimension + 2))
        places = queries[:, :dimension]
        np.subtract(x.detach().numpy()[owner.numpy()], self.centres[ball], out=places)
        places *= units
        queries[:, -1] = np.einsum("ed,ed->e", places, places)
        found = np.zeros((len(ball), 1 + dimension * slopes))
        for rows, held in self._batches(ball):
            found[rows] = self._blocks(queries[rows], held, slopes)
        if slopes:
            found[:, 1:] *= units
        return torch.from_numpy(found.T[[index.index(1) + 1 if sum(index) else 0 for index in indices]])

    def _batches(self, ball: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Blocks of similar size: numbers of their pairs (B, n), the last repeated, and of their sources (B, m)."""
        edges = np.flatnonzero(np.diff(ball, prepend=-1, append=-1))
        first, counts = edges[:-1], np.diff(edges)
        sources = np.diff(self.starts)[ball[first]]
        longest = np.maximum(ENTRIES // np.maximum(sources, 1), 1)  # more queries are several blocks
        parts = -(-counts // longest)
        whole = np.repeat(np.arange(len(first)), parts)
        place = np.arange(len(whole)) - np.repeat(np.cumsum(parts) - parts, parts)
        first = first[whole] + place * longest[whole]
        counts = np.minimum(counts[whole] - place * longest[whole], longest[whole])
        low, sources = self.starts[ball[first]], sources[whole]
        grade = np.floor(np.log(np.maximum(counts, 1)) / np.log(ALIKE)).astype(np.int64)
        order = np.lexsort((sources, grade))
        order = order[sources[order] > 0]
        for start, end in _portions(counts[order].tolist(), sources[order].tolist(), grade[order].tolist()):
            chosen = order[start:end]
            wide, deep = int(counts[chosen].max()), int(sources[chosen].max())
            rows = first[chosen, None] + np.minimum(np.arange(wide), counts[chosen, None] - 1)
            held = np.where(np.arange(deep) < sources[chosen, None], low[chosen, None] + np.arange(deep), -1)
            yield rows, held

    def _blocks(self, queries: np.ndarray, held: np.ndarray, slopes: bool) -> np.ndarray:
        """Queries (B, n, D + 2) of balls with the sources `held` (B, m) -> (B, n, 1) or (B, n, 1 + D), in units.

        A row of `queries` is x, 1 and |x|^2. With z = x - y, s = |z|^2: F = v k + 2 k' (c . z) and
        dF/dz = (2 k' v + 4 k'' (c . z)) z + 2 k' c.
        """
        sources = self.rows[held]  # (B, m, D + 2)
        square = _squares(queries, sources)
        k = self.kernel.numbers(square, int(slopes) + int(self.along is not None))
        x = queries[:, :, :-2]
        found = np.zeros((*x.shape[:2], 1 + x.shape[2] * slopes))
        pull = None  # half of what is multiplied with z, (B, n, m)
        if self.along is not None:
            along = self.along[held]  # (B, m, D + 1)
            both = k[1] @ along
            found[:, :, 0] = np.einsum("bnd,bnd->bn", queries[:, :, :-1], both)
            if slopes:
                found[:, :, 1:] = both[:, :, :-1]
                pull = queries[:, :, :-1] @ along.transpose(0, 2, 1)
                pull *= k[2]
        if self.value is not None:
            value = self.value[held]  # (B, m, 1)
            found[:, :, :1] += k[0] @ value
            if slopes:
                own = k[1] * value.transpose(0, 2, 1)
                pull = own if pull is None else np.add(pull, own, out=pull)
        if slopes and pull is not None:
            both = pull @ sources  # -2 times the sum of pull y, and last the sum of pull
            found[:, :, 1:] += 2 * x * both[:, :, -1:] + both[:, :, :-2]
        return found


def _squares(queries: np.ndarray, sources: np.ndarray) -> np.ndarray:
    """|x - y|^2 (B, n, m) of rows x, 1, |x|^2 (B, n, D + 2) and -2 y, |y|^2, 1 (B, m, D + 2).

    One product of matrices costs a third of the differences, but loses the digits of short distances: a kernel that
    bends there would lose them too, and the conditions at a source with it. The few short ones are taken as they are.
    """
    square: np.ndarray = queries @ sources.transpose(0, 2, 1)
    if square.size and not square.min() > NEAR:
        b, i, j = np.nonzero(square <= NEAR)
        apart = queries[b, i, :-2] + sources[b, j, :-2] / 2
        square[b, i, j] = np.einsum("ed,ed->e", apart, apart)
    return square


def gather_sources(
    kernel: KernelProfile, starts: np.ndarray, places: Tensor, strengths: Strengths, centres: Tensor, stretch: Tensor
) -> BallSources:
    """Of places (members, D) with strengths (members,) of each derivative of order 0 or 1, in T balls.

    `centres` (T, D) and `stretch` (T,) are those of the balls, `starts` (T + 1,) where the members of each begin.
    """
    dimension = places.shape[1]
    counts = np.diff(starts)
    holder = torch.from_numpy(np.repeat(np.arange(len(counts)), counts))
    units = kernel.scaled(torch.ones(dimension, dtype=places.dtype)) * stretch[:, None]  # (T, D)
    own = units[holder]
    axes = {b.index(1): v for b, v in strengths.items() if sum(b)}
    value, along = strengths.get((0,) * dimension), None
    if axes:
        along = torch.zeros_like(places)
        for axis, v in axes.items():
            along[:, axis] = v * own[:, axis]
    local = (places - centres[holder]) * own

    def filled(*columns: Tensor) -> np.ndarray:
        return np.asarray(torch.nn.functional.pad(torch.cat(columns, dim=1), (0, 0, 0, 1)).numpy())

    return BallSources(
        kernel=kernel,
        starts=starts,
        rows=filled(-2 * local, (local * local).sum(1, keepdim=True), torch.ones_like(local[:, :1])),
        value=None if value is None else filled(value[:, None]),
        along=None if along is None else filled(2 * along, -2 * (along * local).sum(1, keepdim=True)),
        centres=centres.numpy(),
        units=units.numpy(),
    )


def _portions(counts: list[int], sources: list[int], grades: list[int]) -> Iterator[tuple[int, int]]:
    """Bounds of stretches of one grade whose blocks, filled up to the largest, have at most `ENTRIES` entries."""
    start, wide, deep = 0, 0, 0
    for place, (n, m, grade) in enumerate(zip(counts, sources, grades, strict=True)):
        grown = max(wide, n), max(deep, m)
        if place > start and (grade != grades[start] or (place - start + 1) * grown[0] * grown[1] > ENTRIES):
            yield start, place
            start, grown = place, (n, m)
        wide, deep = grown
    if start < len(counts):
        yield start, len(counts)


def first_order_weights(
    offsets: Tensor, radii: Tensor, owner: Tensor, count: int, indices: Sequence[MultiIndex]
) -> dict[MultiIndex, Tensor]:
    """As `blend_weights`, for values and first derivatives, in closed form."""
    bump = Wendland(SMOOTHNESS // 2, 1.0, dimension=max(3, offsets.shape[1]))
    places, lengths, number = offsets.numpy(), radii.numpy(), owner.numpy()
    scaled = places / lengths[:, None]
    slopes = any(map(sum, indices))
    raw = bump.numbers(np.einsum("ed,ed->e", scaled, scaled), int(slopes))

    def gathered(values: np.ndarray) -> np.ndarray:
        return np.bincount(number, values, count)[number].astype(values.dtype, copy=False)

    total = gathered(raw[0])
    shares = raw[0] / total
    found = {index: torch.from_numpy(shares) for index in indices if not sum(index)}
    for index in [index for index in indices if sum(index)]:
        steep = 2 * raw[1] * scaled[:, index.index(1)] / lengths
        steep -= shares * gathered(steep)
        steep /= total
        found[index] = torch.from_numpy(steep)
    return found
