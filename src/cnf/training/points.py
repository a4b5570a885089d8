"""Where loss terms look: fixed points, points drawn anew from a domain, and points between those of a constraint."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from scipy.spatial import cKDTree
from torch import Tensor, nn

from cnf.constraints import Constraint
from cnf.errors import TrainingError
from cnf.solution import Solution
from cnf.training.batches import Batches

Model = Solution | nn.Module  # what a loss is taken of: a solved field, or a network without conditions
FLAT = 1e-8  # points whose smallest spread is below this fraction of the largest lie on a lower-dimensional flat


@runtime_checkable
class Domain(Protocol):
    """Anything that random points can be drawn from, such as `cnf.Box`; its `volume`, if any, scales integrals."""

    def random(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Independent uniform points (count, D)."""
        ...


class Places:
    """Points (P, D) that stay, or a domain from which `count` points are drawn at every call.

    Without a generator a generator of its own (seeded by `seed`) moves on from call to call, so that a hand-written
    loop sees new points at every step and the same ones in every run.
    """

    def __init__(self, points: object, count: int | None, seed: int, what: str):
        self.what = what
        self.domain = points if isinstance(points, Domain) and not isinstance(points, Tensor) else None
        self.fixed = None if self.domain is not None else as_fixed_points(points, what)
        self.count = count
        if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
            raise TrainingError(f"{what}: the number of points is a whole number of at least 1; got {count!r}")
        self._own = torch.Generator().manual_seed(seed)
        self._batches: Batches | None = None
        if self.fixed is not None and count is not None and count < self.fixed.shape[0]:
            self._batches = Batches(self.fixed.shape[0], count, seed)

    @property
    def volume(self) -> float:
        """The size of the domain, so that volume x mean is an integral; 1 for fixed points."""
        return float(getattr(self.domain, "volume", 1.0)) if self.domain is not None else 1.0

    def draw(self, model: Model, generator: torch.Generator | None) -> Tensor:
        """The points of one call, (P, D), as the model wants them; fixed points all together."""
        if self.domain is not None:
            return self._suited(
                self.domain.random(self.count or 1000, generator if generator is not None else self._own), model
            )
        assert self.fixed is not None
        return self._suited(self.fixed, model)

    def draw_batch(self, model: Model, generator: torch.Generator | None) -> tuple[Tensor, Tensor | None]:
        """At most `count` points (P, D) and, if they are a part of the fixed points, which of them they are (P,)."""
        if self.fixed is None or self._batches is None:
            return self.draw(model, generator), None
        chosen = self._batches.draw(generator)
        return self._suited(self.fixed[chosen.to(self.fixed.device)], model), chosen

    def _suited(self, points: Tensor, model: Model) -> Tensor:
        if isinstance(model, Solution):
            check_width(points, model, self.what)
        like = like_of(model)
        return points if like is None else points.to(dtype=like.dtype, device=like.device)


def like_of(model: Model) -> Tensor | None:
    """A tensor with the precision and the device of the model; None if it has none."""
    return model.weights if isinstance(model, Solution) else next(model.parameters(), None)


def as_fixed_points(points: object, what: str) -> Tensor:
    """Any array of points -> floating tensor (P, D), checked."""
    try:
        x = points.detach() if isinstance(points, Tensor) else torch.as_tensor(points, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise TrainingError(
            f"{what}: points are an array (P, D), or a cnf.Box to draw them from; got a {type(points).__name__}"
        ) from None
    if not x.is_floating_point():
        x = x.to(torch.float64)
    if x.dim() == 1:
        x = x[:, None]
    if x.dim() != 2 or not x.numel():
        raise TrainingError(f"{what}: points of shape {tuple(x.shape)} given; expected (P, D) with at least one point")
    if not bool(torch.isfinite(x).all()):
        raise TrainingError(f"{what}: some of the points are NaN or infinite; remove or repair them")
    return x


def check_width(points: Tensor, solution: Solution, what: str) -> None:
    names = solution.space.coordinates
    if points.dim() != 2 or points.shape[1] != len(names):
        raise TrainingError(
            f"{what}: points of shape {tuple(points.shape)} given; expected (P, {len(names)}), "
            f"columns {', '.join(names)}"
        )


def fills_space(points: Tensor) -> bool:
    """True if the points (P, D) spread in every direction, not only within a face, a line or a curve's flat."""
    count, dimension = points.shape
    if count <= dimension:
        return False
    extent = points.amax(dim=0) - points.amin(dim=0)
    if not bool((extent > 0).all()):
        return False
    scaled = ((points - points.mean(dim=0)) / extent).to(torch.float64)
    spread = torch.linalg.eigvalsh(scaled.T @ scaled).clamp_min(0).sqrt()
    return bool(spread[0] > FLAT * spread[-1])


def points_between(constraint: Constraint, count: int, seed: int) -> Tensor:
    """(count, D) random convex combinations of points of the constraint with near neighbours; the same for a seed.

    They stay inside the hull of the points, and follow their density. Each takes D of its 2D + 2 nearest neighbours:
    the D nearest alone lie on one line in a grid, where an equation that holds at both ends is almost met anyway.
    """
    points = torch.unique(constraint.points.detach().cpu().to(torch.float64), dim=0)
    total, dimension = points.shape
    if total < 2:
        raise TrainingError(
            f"constraint {constraint.name!r} has one point only, so nothing lies between; give points= where to look"
        )
    generator = torch.Generator().manual_seed(seed)
    near = min(2 * dimension + 2, total - 1)
    width = min(dimension, near)
    if count <= total:
        first = torch.randperm(total, generator=generator)[:count]
    else:
        first = torch.randint(total, (count,), generator=generator)
    _, found = cKDTree(points.numpy()).query(points[first].numpy(), k=near + 1)
    neighbours = torch.as_tensor(found)[:, 1:]  # (count, near)
    picks = torch.rand(count, near, generator=generator).argsort(dim=1)[:, :width]
    corners = torch.cat([first[:, None], neighbours.gather(1, picks)], dim=1)  # (count, width + 1)
    # Normalised exponential variables are uniform on the simplex.
    shares = -torch.log1p(-torch.rand(count, width + 1, dtype=torch.float64, generator=generator)).clamp_min(1e-12)
    shares = shares / shares.sum(dim=1, keepdim=True)
    return (shares[..., None] * points[corners]).sum(dim=1)
