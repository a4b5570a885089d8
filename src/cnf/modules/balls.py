"""Sums over balls that blend into one another: the fields of all balls that hold a point, with their smooth weights."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from cnf.bases.basis import values_request
from cnf.bases.kernels import KernelProfile, Wendland
from cnf.bases.local import LocalEvaluator, SourceEvaluator
from cnf.bases.looked_into import is_looked_into
from cnf.modules.bins import FINER, Bins
from cnf.modules.frozen import Frozen, copy_of
from cnf.modules.nearby import in_pieces
from cnf.systems.ball_fields import BallSources
from cnf.systems.blended import BlendedExpansion, Members
from cnf.systems.blending import SMOOTHNESS
from cnf.systems.local_evaluation import derived

QUERIES = 2**14  # at once


class SumsOfBalls(nn.Module):
    """(P, D) -> (P, C); points in no ball have the field of the ball whose centre is nearest."""

    centres: Tensor  # (T + 1, D), the last for no ball at all
    inverse: Tensor  # (T + 1,): one over the radii

    def __init__(self, expansion: BlendedExpansion):
        super().__init__()
        cover, like, self.channels = expansion.cover, expansion.like, expansion.channels
        dimension = cover.centres.shape[1]
        self.bins = Bins(cover.centres, cover.radii, np.ones(dimension), FINER)
        self.bump = Wendland(SMOOTHNESS // 2, 1.0, dimension=max(3, dimension)).to(like.dtype).requires_grad_(False)
        self.register_buffer("centres", _filled_up(torch.from_numpy(cover.centres)).to(like.dtype))
        self.register_buffer("inverse", _filled_up(1 / torch.from_numpy(cover.radii)).to(like.dtype))
        fields: list[_Members] = []
        for block, stations in zip(expansion.cells, expansion.members, strict=True):
            for k, copy in enumerate(block.layout.copies):
                for members in stations:
                    fields.append(_fields_of(expansion, members, k, tuple(copy.channels)))
        self.fields, self.most = nn.ModuleList(fields), max(own.most for own in fields)

    def forward(self, points: Tensor) -> Tensor:
        width = self.bins.width
        if all(_blocks_serve(own, points) for own in self.fields):
            return in_pieces(self._piece, points, width, QUERIES * width)
        return in_pieces(self._piece, points, width * self.most)

    def _piece(self, points: Tensor) -> Tensor:
        ball = self.bins(points)  # (P, B)
        apart = (points[:, None] - self.centres[ball]) * self.inverse[ball][..., None]
        square = apart.square().sum(dim=2)
        inside = (square < 1) & (ball < self.bins.count)
        raw = torch.where(inside, self.bump.profile(square.clamp(max=1.0), 0)[0], 0.0)
        total = raw.sum(dim=1, keepdim=True)
        alone = ~inside.any(dim=1)
        shares = raw / torch.where(alone[:, None], 1.0, total)
        if is_looked_into():
            ball = torch.cat([torch.where(inside, ball, self.bins.count), self._nearest(points)[:, None]], dim=1)
            shares = torch.cat([shares, alone[:, None].to(shares.dtype)], dim=1)
            p = torch.arange(points.shape[0], device=points.device)[:, None].expand_as(ball)
            found = self._values(points, p.flatten(), ball.flatten()).unflatten(0, ball.shape)  # (P, B, C)
            return (shares[..., None] * found).sum(dim=1)
        p, slot = torch.nonzero(inside, as_tuple=True)
        t, share, lost = ball[p, slot], shares[p, slot], torch.nonzero(alone)[:, 0]
        if lost.numel():
            p, t = torch.cat([p, lost]), torch.cat([t, self._nearest(points[lost])])
            share = torch.cat([share, share.new_ones(lost.shape[0])])
        order = torch.argsort(t, stable=True)  # ball by ball
        p, t, share = p[order], t[order], share[order]
        found = share[:, None] * self._values(points, p, t)
        return points.new_zeros(points.shape[0], self.channels).index_add(0, p, found)

    def _nearest(self, points: Tensor) -> Tensor:
        """The ball whose centre is nearest, (P,)."""
        return (points[:, None] - self.centres[:-1]).square().sum(dim=2).argmin(dim=1)

    def _values(self, points: Tensor, p: Tensor, t: Tensor) -> Tensor:
        """The own fields of balls t (E,) at points p (E,), (E, C)."""
        columns = [points.new_zeros(p.shape[0])] * self.channels
        for own in self.fields:
            value = own(points, p, t)
            for channel in own.of:  # type: ignore[union-attr]
                columns[channel] = columns[channel] + value
        return torch.stack(columns, dim=1)


class _Members(nn.Module):
    """The functions of one station in every ball, as many as the fullest has, zeros behind the last of others."""

    stretch: Tensor  # (T + 1,)

    def __init__(self, expansion: BlendedExpansion, members: Members, of: tuple[int, ...]):
        super().__init__()
        counts = np.diff(members.starts)
        self.of, self.most = of, max(1, int(counts.max(initial=0)))
        slots = np.arange(self.most)
        place = np.minimum(members.starts[:-1, None] + slots, max(0, len(members.points) - 1))
        self._there = torch.from_numpy(slots < counts[:, None])  # (T, m)
        self._place = torch.from_numpy(place)
        self.register_buffer("stretch", _filled_up(torch.from_numpy(expansion.cover.stretch)).to(expansion.like.dtype))

    def _by_ball(self, name: str, values: Tensor) -> None:
        """Keep values (members, ...) as a table (T + 1, m, ...)."""
        there = self._there.reshape(*self._there.shape, *[1] * (values.dim() - 1))
        self.register_buffer(name, _filled_up(torch.where(there, values.detach()[self._place], 0)))


class _Sources(_Members):
    """Derivatives of one kernel."""

    kernel: KernelProfile
    places: Tensor  # (T + 1, m, D)

    def __init__(self, expansion: BlendedExpansion, members: Members, copy: int, of: tuple[int, ...]):
        super().__init__(expansion, members, of)
        evaluator, station, points = expansion.evaluator, members.station, torch.from_numpy(members.points)
        assert isinstance(evaluator, SourceEvaluator)
        given = (members.weights[:, :, copy], station.centres[points], station.functions, station.group)
        strengths = evaluator.strengths(*given)
        blocks = expansion.sources_of(members, copy)
        self.blocks = None if blocks is None else Frozen(blocks)
        self.kernel, self.indices = copy_of(evaluator.kernel).requires_grad_(False), list(strengths)
        self._by_ball("places", station.points[points])
        for j, v in enumerate(strengths.values()):
            self._by_ball(f"strength_{j}", v)

    def forward(self, points: Tensor, p: Tensor, t: Tensor) -> Tensor:
        """(E,); where they may be looked at, pairs of one ball follow one another."""
        if _blocks_serve(self, points):
            assert self.blocks is not None
            sources: BallSources = self.blocks.thing()
            return sources.fields(points, p, t.numpy(), [(0,) * points.shape[1]])[0]
        factor, places = self.stretch[t][:, None], self.places[t]
        z = torch.stack([((points[p, k, None] - places[..., k]) * factor).flatten() for k in range(points.shape[1])])
        strengths = {
            b: (getattr(self, f"strength_{j}")[t] * factor ** sum(b)).flatten() for j, b in enumerate(self.indices)
        }
        (found,) = derived(self.kernel, z, strengths, [(0,) * points.shape[1]])
        return found.unflatten(0, (-1, self.most)).sum(dim=1)


class _Functions(_Members):
    """Any functions that can be looked at pair by pair."""

    numbers: Tensor  # (T + 1, m): of their centres
    weights: Tensor  # (T + 1, m, R)

    def __init__(self, expansion: BlendedExpansion, members: Members, copy: int, of: tuple[int, ...]):
        super().__init__(expansion, members, of)
        station = members.station
        self.evaluator, self.group, self.functions = Frozen(expansion.evaluator), station.group, list(station.functions)
        self._by_ball("numbers", station.centres[torch.from_numpy(members.points)])
        self._by_ball("weights", members.weights[:, :, copy])

    def forward(self, points: Tensor, p: Tensor, t: Tensor) -> Tensor:
        """(E,)."""
        evaluator: LocalEvaluator = self.evaluator.thing()
        numbers, weights = self.numbers[t], self.weights[t]
        request = values_request(points.shape[1], points, self.of[0])
        who = p[:, None].expand_as(numbers)
        values = evaluator.paired(points, who.flatten(), numbers.flatten(), [request], self.group)[:, 0]
        own = values[:, self.functions].unflatten(0, numbers.shape)  # (E, m, R)
        return (own * weights).sum(dim=(1, 2))


def _blocks_serve(fields: nn.Module, points: Tensor) -> bool:
    """Whether balls are evaluated as the field does it, as blocks of matrices, for which torch does not look."""
    own = getattr(fields, "blocks", None)
    learnt = torch.is_grad_enabled() and points.requires_grad
    plain = points.device.type == "cpu" and points.dtype == torch.float64
    return own is not None and plain and not is_looked_into() and not learnt


def _fields_of(expansion: BlendedExpansion, members: Members, copy: int, of: tuple[int, ...]) -> _Members:
    kind = _Sources if isinstance(expansion.evaluator, SourceEvaluator) else _Functions
    return kind(expansion, members, copy, of)


def _filled_up(values: Tensor) -> Tensor:
    """With one more row, of zeros."""
    return torch.cat([values, torch.zeros_like(values[:1])])
