"""Piecewise: products of Chebyshev polynomials on every cell, each cell with its own weights.

Across the faces of cells nothing holds by itself: `ties` are the conditions there, L f of one cell equal to L f of the
other. They are met like any condition and measured like any condition.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from cnf.bases.basis import Basis, check_space, values_request
from cnf.bases.cells import Cells
from cnf.bases.corner_functions import CornerDerivative, CornerFunctions
from cnf.bases.cover import Cover
from cnf.bases.edge_functions import EdgeFunctions, centre_of, read_corner
from cnf.bases.local_functions import Given, Index, LocalFunctions, Products, summed
from cnf.bases.piecewise_parts import checked_corners, checked_degrees, checked_local, from_tables, tables
from cnf.bases.properties import Properties
from cnf.bases.ties import Guide, Tie, checked_guide, checked_strengths, checked_tie
from cnf.constraints import Constraint, Space
from cnf.errors import BasisError
from cnf.operators.detail import Detail, Even
from cnf.operators.expansion import Request, combine, wanted
from cnf.operators.nonlinear import State

HIGHEST = 40  # degree
INWARDS = 1e-7  # of the way to the middle of a cell: on which side of its faces a field with other cells is looked at
AS_DEGREE = 3.0  # r^lambda counts as a polynomial of this times lambda


class Piecewise(Basis):
    """`degree` along every coordinate: (degree + 1)^D functions on each of the cells.

    `cells` may be a `Cover`: then its patches take the place of cells. `without_corner` names coordinates:
    functions of the highest degree in two of them at once are left out, of the `corner_depth` highest. `time` is
    the coordinate, if any, along which cells come in slabs, each starting from the one before. `at_corner`
    (patches,) says which of the `corners` a patch touches, -1 for none: the functions of that corner are functions
    of the patch. `channel_degrees` (C, D) are those of channels that have lower ones, as a pressure has beside
    velocities. `local` is a basis on the cell from -1 to 1 whose functions, scaled to every cell, take the place of
    polynomials: as many as these, if conditions are laid out for their degree. `loose` ties are guides across cells:
    to come close to, where exact conditions leave room. `strengths` (patches,) say how much guides of a patch count
    beside those of others; None: all alike.

    >>> cells = cnf.bases.Cells([0, 0], [1, 1])
    >>> basis = cnf.bases.Piecewise(cnf.Space("x y", "u"), cells, degree=3)
    >>> basis.size  # 4 x 4 in the only cell
    16
    """

    properties = Properties("none", "good", True, True, True, True, "any order inside cells, as tied across them")

    def __init__(
        self,
        space: Space,
        cells: Cells | Cover | Tensor,
        degree: int | Sequence[int],
        ties: Sequence[Tie | Sequence] = (),
        without_corner: Sequence[int] = (),
        time: int | None = None,
        patch: Tensor | None = None,
        frames: Tensor | None = None,
        regions: Sequence | None = None,
        corners: Sequence[CornerFunctions | EdgeFunctions | Sequence] = (),
        at_corner: Sequence[int] | np.ndarray | Tensor | None = None,
        channel_degrees: Sequence[Sequence[int]] | None = None,
        guides: Sequence[Guide | Sequence] = (),
        local: Basis | None = None,
        corner_depth: int = 1,
        guide_strength: float = 1.0,
        loose: Sequence[Tie | Sequence] = (),
        strengths: Tensor | np.ndarray | None = None,
    ):
        check_space(space)
        if not 0 < guide_strength < math.inf:
            raise BasisError(f"the strength of guides is a positive number, got {guide_strength!r}")
        dimension = len(space.coordinates)
        given = [degree] * dimension if isinstance(degree, int) else list(degree)
        if len(given) != dimension or not all(isinstance(p, int) and 0 <= p <= HIGHEST for p in given):
            raise BasisError(f"a degree is a whole number from 0 to {HIGHEST}, or one per coordinate; got {degree!r}")
        if isinstance(cells, Tensor):  # as it is saved
            cells = from_tables(cells, patch, frames, regions, dimension, time is not None)
        if cells.dimension != dimension:
            raise BasisError(f"the cells have {cells.dimension} coordinates, the space has {dimension}")
        self.cells, self.degree = cells, tuple(given)
        self.ties = tuple(checked_tie(tie, cells.count) for tie in ties)
        self.loose = tuple(checked_tie(tie, cells.count) for tie in loose)
        self.guides = tuple(checked_guide(guide, cells.count) for guide in guides)
        self.guide_strength = guide_strength  # beside the size of the weights
        self.strengths = checked_strengths(strengths, cells.count)
        self.without_corner, self.time, self.corner_depth = tuple(without_corner), time, corner_depth
        self.corners = tuple(map(read_corner, corners))
        self.at_corner = checked_corners(at_corner, self.corners, cells.count, len(space.channels), dimension)
        self.channel_degrees = checked_degrees(channel_degrees, self.degree, len(space.channels))
        super().__init__(space)
        self.local = checked_local(local, space, self.channel_degrees)
        self.smoothness = None if local is None else local.smoothness
        self._size = cells.count * self.local_size

    @property
    def local_size(self) -> int:
        """Functions of one cell, n."""
        return self.snapshot().local_size

    @property
    def shared(self) -> bool:
        return True

    @property
    def guiding(self) -> tuple[Constraint, ...]:
        return tuple(guide.condition for guide in self.guides)

    def guided_by(self, conditions: Sequence[Constraint]) -> Piecewise:
        made = copy(self)
        made.guides = tuple(replace(g, condition=c) for g, c in zip(self.guides, conditions, strict=True))
        return made

    def tied_around(self, beside: Callable[[Tensor], State]) -> Piecewise:
        made = copy(self)
        made.ties, made.loose = (tuple(tie.around(beside) for tie in ties) for ties in (self.ties, self.loose))
        return made

    def inwards(self, x: Tensor, cells: Tensor) -> Tensor:
        middle = torch.from_numpy((self.cells.lower + self.cells.upper) / 2).to(x)[cells]
        return torch.lerp(x, middle, INWARDS)

    @property
    def brought(self) -> tuple[Constraint, ...]:
        ties = (condition for tie in (*self.ties, *self.loose) for condition, _, _ in tie.sides())
        return (*ties, *self.guiding)

    @property
    def brought_conditions(self) -> int:
        return sum(tie.condition.rows for tie in self.ties)

    def known_detail(self) -> Detail:
        """As Chebyshev polynomials of that degree, or as the chosen functions, on the smallest cell."""
        half = (self.cells.upper - self.cells.lower).min(axis=0) / 2
        if self.local is None:
            return Even(np.array(self.degree) / half)
        own = self.local.detail()
        return Even(own.pace(-np.ones((1, self.dimension)), np.ones((1, self.dimension)))[0] / half, own.doubt)

    def degrees(self) -> np.ndarray:
        """The total degree of every function of a cell, (n,); that of r^lambda at a corner is some multiple of lambda.

        What polynomials can do themselves is left to them where the smallest weights decide.
        """
        evaluator = self.snapshot()
        lowest = [min(float(c.exponents[k].real) for c in self.corners if c.count > k) for k in range(evaluator.extra)]
        singular = np.round(AS_DEGREE * np.array(lowest)).astype(np.int64)
        return np.concatenate([evaluator.exponents.sum(axis=1), singular])

    def active(self) -> np.ndarray:
        """Which functions every patch has, channel by channel, (patches, C n) bool.

        Polynomials of all degrees. Those of a corner only where it is, with one weight for all channels, the first
        one's; those of edges always come on top. If one patch has the corner to itself, as many polynomials of the
        highest degrees make room: the equations decide the weights then. If several patches share it, the same
        functions in all of them would be decided twice; there, the smallest weights decide, which are those with the
        smoothest polynomials.
        """
        evaluator, channels = self.snapshot(), len(self.space.channels)
        found = np.tile(evaluator.polynomial, (self.cells.count, channels, 1))
        own = len(evaluator.exponents)
        for channel, degrees in enumerate(self.channel_degrees or ()):
            found[:, channel, :own] &= (evaluator.exponents <= degrees).all(axis=1)
        whole = [c for c in range(channels) if not self.channel_degrees or self.channel_degrees[c] == self.degree]
        highest = np.argsort(-evaluator.exponents.sum(axis=1), kind="stable")
        touching = np.flatnonzero(self.at_corner >= 0)
        patches_at = Counter(centre_of(self.corners[k]) for k in self.at_corner[touching])  # where regions meet, of all
        for patch in touching:
            count = self.corners[self.at_corner[patch]].count
            start = len(evaluator.exponents)
            found[patch, 0, start : start + count] = True
            centre = centre_of(self.corners[self.at_corner[patch]])
            alone = centre is not None and patches_at[centre] == 1
            for k in range(count if alone else 0):
                found[patch, whole[k % len(whole)], highest[k // len(whole)]] = False
        return found.reshape(self.cells.count, -1)

    def snapshot(self) -> PiecewiseEvaluator:
        functions: LocalFunctions = Products(self.degree, self.without_corner, self.corner_depth)
        if self.local is not None:
            functions = Given(self.local.snapshot(), self.local.size, self.dimension)
        return PiecewiseEvaluator(self.cells, functions, self.corners, self.at_corner)

    def rows(self, x: Tensor, requests: Sequence[Request]) -> Tensor:
        return self.snapshot().rows(x, requests)

    def forward(self, x: Tensor) -> Tensor:
        return self.rows(x, [values_request(self.dimension, x)])[:, 0]

    def config(self) -> dict:
        return {
            "space": self.space,
            **tables(self.cells),
            "degree": list(self.degree),
            "ties": [[tie.condition, tie.first, tie.second, tie.beyond] for tie in self.ties],
            "loose": [[tie.condition, tie.first, tie.second, tie.beyond] for tie in self.loose],
            "guides": [[guide.condition, guide.cells] for guide in self.guides],
            "guide_strength": self.guide_strength,
            "strengths": None if self.strengths is None else torch.from_numpy(self.strengths),
            "without_corner": list(self.without_corner),
            "corner_depth": self.corner_depth,
            "time": self.time,
            "corners": [list(c.as_parts()) for c in self.corners],
            "at_corner": torch.from_numpy(self.at_corner),
            "channel_degrees": None if self.channel_degrees is None else [list(d) for d in self.channel_degrees],
            "local": self.local,
        }


@dataclass(frozen=True)
class Boxes:
    """Some cells from `lower` to `upper` (c, D)."""

    lower: np.ndarray
    upper: np.ndarray

    @property
    def count(self) -> int:
        return len(self.lower)


@dataclass(frozen=True)
class PiecewiseEvaluator:
    """The functions of the cells; `local_rows` looks at those of one cell per point only."""

    cells: Cells | Cover | Boxes
    functions: LocalFunctions
    corners: tuple[CornerFunctions | EdgeFunctions, ...] = ()
    at_corner: np.ndarray | None = None  # (patches,)

    def of(self, cells: np.ndarray) -> PiecewiseEvaluator:
        """For these cells (c,) only, which are numbered anew; finds none of its points by itself."""
        boxes = Boxes(self.cells.lower[cells], self.cells.upper[cells])
        at_corner = None if self.at_corner is None else self.at_corner[cells]
        return PiecewiseEvaluator(boxes, replace(self.functions), self.corners, at_corner)  # type: ignore[type-var]

    @property
    def exponents(self) -> np.ndarray:
        """The degrees of every function of a cell but those of a corner, (n, D)."""
        return self.functions.exponents

    @property
    def local_size(self) -> int:
        return self.exponents.shape[0] + self.extra

    @property
    def extra(self) -> int:
        """Columns for functions of corners, as many as the corner with most has."""
        return max((c.count for c in self.corners), default=0)

    @property
    def polynomial(self) -> np.ndarray:
        """Which of the functions of a patch are polynomials or chosen ones, (n,) bool; others are those of a corner."""
        return np.arange(self.local_size) < self.exponents.shape[0]

    def locate(self, x: Tensor) -> Tensor:
        """The cell of every point, (P,)."""
        assert not isinstance(self.cells, Boxes)
        return torch.from_numpy(self.cells.locate(x.detach().to(torch.float64).cpu().numpy())).to(x.device)

    def local_rows(self, x: Tensor, cells: Tensor, requests: Sequence[Request]) -> Tensor:
        """Functions of the given cells (P,) at the points (P, D): (P, K, n)."""
        number = cells.cpu().numpy()
        z, half = self._on_reference(x, number)
        rows = self.functions.rows(z, half, requests)
        return torch.cat([rows, self._corner_rows(x, z, number, half, requests)], dim=2) if self.extra else rows

    def sums(self, x: Tensor, cells: Tensor, requests: Sequence[Request], weights: Tensor) -> Tensor:
        """`local_rows` times weights (cells, n, C) of the given cells (P,), (P, K)."""
        number, known = cells.cpu().numpy(), self.exponents.shape[0]
        z, half = self._on_reference(x, number)
        found = self.functions.sums(z, half, cells, requests, weights[:, :known])
        if not self.extra:
            return found
        return found + summed(self._corner_rows(x, z, number, half, requests), weights[cells, known:], requests)

    def _on_reference(self, x: Tensor, number: np.ndarray) -> tuple[Tensor, Tensor]:
        """Points (P, D) as those of the reference cell, and half the sides of their own, both (P, D)."""
        low, high = self.cells.lower[number], self.cells.upper[number]
        centre, half = (torch.from_numpy(a).to(x) for a in ((low + high) / 2, (high - low) / 2))
        return (x - centre) / half, half

    def _corner_rows(
        self, x: Tensor, z: Tensor, number: np.ndarray, half: Tensor, requests: Sequence[Request]
    ) -> Tensor:
        """The columns of corner functions, (P, K, extra), zero for patches at no corner."""
        assert self.at_corner is not None
        found = x.new_zeros(x.shape[0], len(requests), self.extra)
        corner = self.at_corner[number]
        for k in np.unique(corner[corner >= 0]):
            functions, rows = self.corners[k], torch.from_numpy(np.flatnonzero(corner == k))
            blocks = []
            columns_of = self._columns(int(k), x[rows], z[rows], half[rows])
            for request in requests:  # they differ by channel
                columns = {index: columns_of(index, request.channel) for index in wanted([request])}
                blocks.append(combine(columns, [request.at(rows)]))
            found = found.index_put((rows,), pad(torch.cat(blocks, dim=1), (0, self.extra - functions.count)))
        return found

    def _columns(self, corner: int, x: Tensor, z: Tensor, half: Tensor) -> Callable[[Index, int], Tensor]:
        """Gives a derivative of the functions of a corner, or of edges, in a channel, (P, count)."""
        functions = self.corners[corner]
        if isinstance(functions, EdgeFunctions):
            edges = functions
            return lambda index, channel: edges.values(x, z, half, edges.derivative(index, channel))
        at = functions.around(x, half.amax(dim=1))
        return lambda index, channel: functions.columns(at, self._corner_derivative(corner, index, channel))

    def _corner_derivative(self, corner: int, index: tuple[int, ...], channel: int) -> CornerDerivative:
        key = (corner, index, channel)
        if key not in self._corner_derivatives:
            functions = self.corners[corner]
            assert isinstance(functions, CornerFunctions)
            self._corner_derivatives[key] = functions.derivative(index, channel)
        return self._corner_derivatives[key]

    @cached_property
    def _corner_derivatives(self) -> dict[tuple[int, tuple[int, ...], int], CornerDerivative]:
        """Those that were asked for, which do not depend on the points."""
        return {}

    @property
    def work(self) -> int:
        """Numbers that are worked out at a point."""
        return self.local_size

    def judged(self, x: Tensor, requests: Sequence[Request]) -> Tensor:
        """What two rules of an integral must agree on, (P, K, n): the functions of all cells by their numbers."""
        return self.local_rows(x, self.locate(x), requests)

    def rows(self, x: Tensor, requests: Sequence[Request]) -> Tensor:
        """(P, K, N), mostly zeros."""
        cells = self.locate(x)
        local = self.local_rows(x, cells, requests)  # (P, K, n)
        n = local.shape[2]
        columns = (cells[:, None] * n + torch.arange(n, device=x.device))[:, None].expand_as(local)
        return x.new_zeros(x.shape[0], local.shape[1], self.cells.count * n).scatter(2, columns, local)
