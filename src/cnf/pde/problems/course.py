"""Course: how an answer does as time goes on, window by window, and what of the estimate of its error each brings.

In: a solved field, a second one at the points where both were compared, and the windows that a nonlinear problem was
followed in, or the slabs of its patches. Out: plain numbers. The estimate is spread over time as the difference of the
two fields is: the squares of what windows bring, each by the time it lasts, add up to the square of the whole.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor

from cnf.certificate.sizes import natural_sizes
from cnf.pde.domains.domain import Sample
from cnf.pde.patches.mesh import Mesh
from cnf.pde.patches.probes import Probes
from cnf.pde.patches.rounds import Followed, channel_sizes
from cnf.pde.problems.problem import Problem
from cnf.solution import Solution

MOST = 12  # windows that slabs are put together to
EVEN = 8  # windows where there are no slabs
MOMENTS = 64  # into which all of time is cut for a curve, about


@dataclass(frozen=True)
class Window:
    """From `start` to `end`; None and NaN for what there is not."""

    start: float
    end: float
    cells: int | None  # patches of the answer
    steps: int | None  # of Newton's iteration, when the window was followed
    between: float  # mean relative residual of equations of the interior, the largest of them
    estimate: float  # of the error here, relative to the size of the field over all of time
    share: float  # of the square of the whole estimate
    error: float  # against the exact solution, as the estimate


@dataclass(frozen=True)
class Course:
    """All windows along a `coordinate`, and estimates and errors at moments in between; NaN as for windows."""

    coordinate: str
    followed: bool  # whether windows were solved one after the other, else they are times of one solve
    windows: tuple[Window, ...]
    moments: tuple[float, ...]
    estimates: tuple[float, ...]
    errors: tuple[float, ...]

    @property
    def worst(self) -> Window | None:
        """The window that brings most of the estimate; None if there is no estimate."""
        known = [window for window in self.windows if math.isfinite(window.share)]
        return max(known, key=lambda window: window.share, default=None)

    def describe(self) -> str:
        """In one line."""
        count = len(self.windows)
        steps = [w.steps for w in self.windows if w.steps is not None]
        windows = f"{count} window{'s' if count > 1 else ''} of {self.coordinate}"
        how = f"followed in {windows}, {sum(steps)} Newton steps" if self.followed else windows
        if (worst := self.worst) is None or count == 1:
            return how
        return f"{how}; {worst.share:.0%} of the estimate from {self.coordinate} = {worst.start:.3g} to {worst.end:.3g}"

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


def course_of(
    problem: Problem,
    solution: Solution,
    probes: Probes,
    second: Tensor | None,
    estimate: float,
    followed: Sequence[Followed] = (),
    mesh: Mesh | None = None,
) -> Course | None:
    """What there is to say over time; `second` (P, C) is the other field at the probes. None if there is no time."""
    axis, name = problem.domain.dimension - 1, problem.space.coordinates[-1]
    if not followed and name not in problem.space.frame.time:
        return None
    ends = window_ends(followed, mesh, problem.domain.lower[axis], problem.domain.upper[axis])
    with torch.no_grad():
        values = problem.asked_of(solution(probes.points)).to(torch.float64)  # (P, C)
        apart = differences(values, second, probes, estimate)
        off = errors_at(problem, values, probes)
        residuals = residuals_at(problem, solution, probes.points)
    times = probes.points[:, axis]
    cells = None if mesh is None else (mesh.patches.lower[:, axis] + mesh.patches.upper[:, axis]) / 2
    shares = [budget(apart, probes.shares, inside) for inside in parts(times, ends)]
    whole = math.fsum(shares)
    windows = tuple(
        Window(
            start,
            end,
            None if cells is None else int(((cells >= start) & (cells < end)).sum()),
            followed[k].steps if followed else None,
            max((mean_of(r, among(at[:, axis], start, end)) for at, r in residuals), default=math.nan),
            typical(apart, probes.shares, inside),
            shares[k] / whole if whole > 0 else math.nan,
            typical(off, probes.shares, inside),
        )
        for k, ((start, end), inside) in enumerate(zip(itertools.pairwise(ends), parts(times, ends), strict=True))
    )
    moments, bins = moments_of(ends)
    seen = [
        (moment, typical(apart, probes.shares, inside), typical(off, probes.shares, inside))
        for moment, inside in zip(moments, parts(times, bins), strict=True)
        if bool(inside.any())
    ]
    return Course(name, bool(followed), windows, *(tuple(column) for column in zip(*seen, strict=True)))


def window_ends(followed: Sequence[Followed], mesh: Mesh | None, first: float, last: float) -> list[float]:
    """Where windows begin, and where the last one ends: those that were followed, or slabs of patches, or even ones."""
    if followed:
        return [*(window.start for window in followed), followed[-1].end]
    if mesh is None:
        return [first + (last - first) * k / EVEN for k in range(EVEN + 1)]
    low, high = mesh.patches.lower[:, -1], mesh.patches.upper[:, -1]
    inner = [float(t) for t in np.unique(low)[1:] if not ((low < t) & (high > t)).any()]  # no patch lies across
    chosen = np.unique(np.linspace(0, len(inner) + 1, min(MOST, len(inner) + 1) + 1).round().astype(int))
    return [[first, *inner, last][k] for k in chosen]


def differences(values: Tensor, second: Tensor | None, probes: Probes, estimate: float) -> Tensor:
    """How far off every channel may be at the probes, (P, C), as a part of its size; NaN if nobody knows.

    The difference to a second field, made larger where the estimate is more than that.
    """
    if second is None or not math.isfinite(estimate):
        return torch.full_like(values, math.nan)
    second = second[:, : values.shape[1]]
    apart = (values - second) / channel_sizes(values, second, probes)
    whole = float(probes.size(apart).max())
    return apart * (estimate / whole if whole > 0 else 0.0)


def errors_at(problem: Problem, values: Tensor, probes: Probes) -> Tensor:
    """Errors (P, C) at the probes as parts of the sizes of exact channels; NaN where no exact solution is known."""
    off = torch.full_like(values, math.nan)
    for k, channel in enumerate(problem.space.channels):
        if problem.exact is not None and channel in problem.exact:
            exact = problem.exact[channel](probes.points).reshape(-1).to(torch.float64)
            known = torch.isfinite(exact)
            size = float((probes.shares[known] @ exact[known].square() / probes.shares[known].sum()).sqrt())
            off[:, k] = (values[:, k] - exact) / (size or 1.0)
    return off


def residuals_at(problem: Problem, solution: Solution, points: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Of every equation of the interior: points between its own, and what it misses there relative to its size, (P,).

    With regions, at points drawn from each.
    """
    sizes = dict(zip([c.name for c in solution.constraints], natural_sizes(solution.constraints), strict=True))
    places = problem._placing.places
    inside = [k for k, place in enumerate(places) if place.kind == "interior" and place.region is None]
    found = [problem._placing.at(k, Sample(points, None)) for k in inside]
    names = {problem.equations[k].name for k, place in enumerate(places) if place.kind == "interior"}
    found += [check for check in problem.drawn() if check.name in names - {c.name for c in found}]
    return [
        (check.points, solution.residual(check).abs().amax(dim=1).to(torch.float64) / sizes[check.name])
        for check in found
        if check.name in sizes
    ]


def among(times: Tensor, start: float, end: float) -> Tensor:
    return (times >= start) & (times < end)


def parts(times: Tensor, ends: Sequence[float]) -> list[Tensor]:
    """Which of the times (P,) lie between every two ends; what is beyond the last belongs to it."""
    number = torch.bucketize(times.contiguous(), times.new_tensor(ends[1:-1]), right=True)
    return [number == k for k in range(len(ends) - 1)]


def mean_of(values: Tensor, inside: Tensor) -> float:
    return float(values[inside].mean()) if bool(inside.any()) else math.nan


def typical(off: Tensor, shares: Tensor, inside: Tensor) -> float:
    """The root mean square of (P, C) over some points, of the channel where it is largest; NaN if none is known."""
    found = []
    for column in off[inside].T:
        known = torch.isfinite(column)
        if bool(known.any()):
            weights = shares[inside][known]
            found.append(float((weights @ column[known].square() / weights.sum()).sqrt()))
    return max(found, default=math.nan)


def budget(off: Tensor, shares: Tensor, inside: Tensor) -> float:
    """What some points bring of the square of the whole; 0 if nothing is known."""
    found = typical(off, shares, inside)
    return 0.0 if math.isnan(found) else found**2 * float(shares[inside].sum())


def moments_of(ends: Sequence[float]) -> tuple[list[float], list[float]]:
    """The middles of parts of windows, and where these parts begin and end: long windows have more of them."""
    step = (ends[-1] - ends[0]) / MOMENTS
    edges = [ends[0]]
    for start, end in itertools.pairwise(ends):
        count = max(1, round((end - start) / step))
        edges += [start + (end - start) * (k + 1) / count for k in range(count)]
    return [(a + b) / 2 for a, b in itertools.pairwise(edges)], edges
