"""Losses: what shapes a field where its conditions leave it free.

A loss is any callable of a solution that returns a scalar. The terms here are such callables with a weight and a name;
`fit` passes them a generator besides, so that the points they draw do not depend on what else happened in the run. They
serve hand-written loops as well: `loss = term(field.solve()); loss.backward()`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cnf.constraints.space import Asked
from cnf.errors import TrainingError, nearest
from cnf.fetching import is_here
from cnf.operators.frame import Frame
from cnf.solution import Solution
from cnf.training.derivatives import all_derivatives, safe_norm
from cnf.training.points import Model, Places
from cnf.training.precision import check_precision, seen_in


class Loss(ABC):
    """A term of the loss: subclass and write `measure`; calling it multiplies by `weight`.

    `serves_networks`: it can be taken of a plain network too, `measure` then being given the network.

    >>> class Size(cnf.losses.Loss):
    ...     def measure(self, solution):
    ...         return solution.weights.square().mean()
    >>> Size(weight=0.1).weight
    0.1
    """

    label = "loss"
    serves_networks = False

    def __init__(self, weight: float = 1.0, name: str | None = None):
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not math.isfinite(weight):
            raise TrainingError(f"the weight of a loss is a finite number; got {weight!r}")
        if name is not None and (not isinstance(name, str) or not name.strip()):
            raise TrainingError(f"the name of a loss is a string that is not empty; got {name!r}")
        self.weight = float(weight)
        self.name = name if name is not None else self.label

    def __call__(self, solution: Model, generator: torch.Generator | None = None) -> Tensor:
        """weight x measure, a scalar that carries the gradient; random choices come from the generator."""
        if not isinstance(solution, Solution) and not (self.serves_networks and isinstance(solution, nn.Module)):
            raise TrainingError(
                f"{self.name}: a loss takes a solution, as in loss(field.solve()); got a {type(solution).__name__}"
            )
        value = self.weight * self.measure(solution, generator)
        if is_here(value) and not bool(torch.isfinite(value)):  # elsewhere `cnf.fit` looks at all terms together
            raise self.refusal(value.item(), solution)
        return value

    def refusal(self, value: float, solution: Model) -> TrainingError:
        """The error that says why a term is not finite."""
        return TrainingError(f"{self.name}: the loss is {value}; {self.cause(solution)}")

    @abstractmethod
    def measure(self, solution: Any, generator: torch.Generator | None) -> Tensor:
        """The unweighted term, a scalar."""

    def cause(self, solution: Model) -> str:
        """What to look at when the term is not finite."""
        if not isinstance(solution, Solution):
            return "a smaller lr, or clip=1.0, often helps"
        return "look at the parameters of the basis (a bandwidth that ran to zero?) and at solution.certificate"

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r}, weight={self.weight:g})"


class Condition(Loss):
    """The condition number of the system that was solved (of the worst, if channels are solved apart).

    The extreme singular values come from the factorisation that is there already. `log` takes the logarithm: condition
    numbers cross decades.

    >>> space = cnf.Space("x y", "u")
    >>> points = cnf.Box([0, 0], [1, 1]).halton(12)
    >>> values = space.constraint("u = x", at=points, name="values")
    >>> solution = cnf.ConstrainedField(cnf.bases.RandomFourier(space, 40, 0.7), [values]).solve()
    >>> loss = cnf.losses.Condition()(solution)
    >>> loss.shape == () and loss.item() > 0  # the logarithm of the condition number
    True
    """

    label = "condition"

    def __init__(self, weight: float = 1.0, log: bool = True, *, name: str | None = None):
        super().__init__(weight, name)
        self.log = bool(log)

    def measure(self, solution: Solution, generator: torch.Generator | None) -> Tensor:
        if not solution.factors:
            raise TrainingError(
                f"{self.name}: patches keep no system whose condition could be trained; use solver=Auto()"
            )
        pairs = zip(solution.blocks, solution.factors, strict=True)
        worst = torch.stack([factor.condition_of(block.matrix) for block, factor in pairs]).max()
        return worst.log() if self.log else worst

    def cause(self, solution: Model) -> str:
        return "the system is singular; use a smaller bandwidth or a basis with more functions"


class Independence(Loss):
    """Pairwise independence of the basis functions: the mean squared cosine between columns of the system.

    Zero if the columns are orthogonal, one if they are all parallel. It needs no factorisation and no solution that
    makes sense yet, so it serves to pre-train a basis whose condition number is out of reach.

    >>> space = cnf.Space("x y", "u")
    >>> points = cnf.Box([0, 0], [1, 1]).halton(12)
    >>> values = space.constraint("u = x", at=points, name="values")
    >>> solution = cnf.ConstrainedField(cnf.bases.RandomFourier(space, 40, 0.7), [values]).solve()
    >>> loss = cnf.losses.Independence()(solution)
    >>> 0 < loss.item() < 1
    True
    """

    label = "independence"

    def measure(self, solution: Solution, generator: torch.Generator | None) -> Tensor:
        found = []
        for block in solution.blocks:
            matrix = block.dense
            columns = matrix / safe_norm(matrix.T).clamp_min(torch.finfo(matrix.dtype).tiny)
            gram = columns.T @ columns
            count = gram.shape[0]
            found.append((gram.square().sum() - gram.diagonal().square().sum()) / max(1, count * (count - 1)))
        return torch.stack(found).max()


class PointLoss(Loss):
    """Base of the terms that look at points: a tensor (P, D), or a domain such as `cnf.Box` with `count` to draw.

    `precision`: the networks of the basis are evaluated in it here, torch.float32 say, for speed;
    conditions, weights and the gradient that reaches the parameters keep the precision of the field.
    """

    def __init__(
        self,
        points: object,
        count: int | None,
        weight: float,
        name: str | None,
        seed: int,
        precision: torch.dtype | None = None,
    ):
        super().__init__(weight, name)
        self.places = Places(points, count, seed, self.name)
        self.precision = check_precision(precision, f"{self.name}: ")

    def derive(self, solution: Solution, order: int, x: Tensor, coordinates: tuple[str, ...]) -> tuple[Tensor, Tensor]:
        """Every derivative of that order of every channel, (P, K), and how often each counts (multinomials), (K,)."""
        limit = solution.basis.smoothness
        if limit is not None and order > limit:
            raise TrainingError(
                f"{self.name}: needs derivatives of order {order}, but {type(solution.basis).__name__} has them only "
                f"up to order {limit}; use a smoother kernel or activation"
            )
        operator, counts = all_derivatives(solution.space.frame, order, coordinates)
        found = seen_in(self.precision, solution, f"{self.name}: ").apply(operator, x)
        return found, torch.tensor(counts, dtype=x.dtype, device=x.device)


class TotalVariation(PointLoss):
    """The integral of |grad f| over all coordinates, time included (Frobenius norm over the channels).

    Over a domain: volume times the mean; over fixed points: the mean.

    >>> space = cnf.Space("x y", "u")
    >>> points = cnf.Box([0, 0], [1, 1]).halton(12)
    >>> values = space.constraint("u = x", at=points, name="values")
    >>> solution = cnf.ConstrainedField(cnf.bases.RandomFourier(space, 40, 0.7), [values]).solve()
    >>> loss = cnf.losses.TotalVariation(points)(solution)
    >>> abs(loss.item() - 1) < 0.5  # that of x is one
    True
    """

    label = "total_variation"

    def __init__(
        self, points: object, count: int = 1000, weight: float = 1.0, *, name: str | None = None, seed: int = 0
    ):
        super().__init__(points, count, weight, name, seed)

    def measure(self, solution: Solution, generator: torch.Generator | None) -> Tensor:
        x = self.places.draw(solution, generator)
        slopes, _ = self.derive(solution, 1, x, solution.space.coordinates)
        return self.places.volume * safe_norm(slopes).mean()


class Smoothness(PointLoss):
    """The mean of |D^order f|^2, all derivatives of that order together: for order 2 the thin-plate energy.

    >>> space = cnf.Space("x y", "u")
    >>> points = cnf.Box([0, 0], [1, 1]).halton(12)
    >>> values = space.constraint("u = x", at=points, name="values")
    >>> solution = cnf.ConstrainedField(cnf.bases.RandomFourier(space, 40, 0.7), [values]).solve()
    >>> loss = cnf.losses.Smoothness(points)(solution)
    >>> loss.item() > 0
    True
    """

    label = "smoothness"

    def __init__(
        self,
        points: object,
        count: int = 1000,
        order: int = 2,
        weight: float = 1.0,
        *,
        name: str | None = None,
        seed: int = 0,
    ):
        super().__init__(points, count, weight, name, seed)
        if not isinstance(order, int) or isinstance(order, bool) or order < 1:
            raise TrainingError(f"{self.name}: the order is a whole number of at least 1; got {order!r}")
        self.order = order

    def measure(self, solution: Solution, generator: torch.Generator | None) -> Tensor:
        x = self.places.draw(solution, generator)
        found, counts = self.derive(solution, self.order, x, solution.space.coordinates)
        return (found.square() * counts).sum(dim=1).mean()


class Eikonal(PointLoss):
    """The mean of (|grad f| - 1)^2 over the spatial coordinates: zero for a signed distance.

    With several channels say which one is the distance: `channel="d"`. `precision=torch.float32` evaluates generated
    networks in single precision for this term only: up to three times as fast, the loss and its gradient right to about
    six digits, the conditions as exact as before.

    >>> space = cnf.Space("x y", "u")
    >>> points = cnf.Box([0, 0], [1, 1]).halton(12)
    >>> values = space.constraint("u = x", at=points, name="values")
    >>> solution = cnf.ConstrainedField(cnf.bases.RandomFourier(space, 40, 0.7), [values]).solve()
    >>> loss = cnf.losses.Eikonal(points)(solution)
    >>> 0 <= loss.item() < 1  # the slope of x is one
    True
    """

    label = "eikonal"

    def __init__(
        self,
        points: object,
        count: int = 1000,
        channel: str | None = None,
        weight: float = 1.0,
        *,
        precision: torch.dtype | None = None,
        name: str | None = None,
        seed: int = 0,
    ):
        super().__init__(points, count, weight, name, seed, precision)
        self.channel = channel

    def measure(self, solution: Solution, generator: torch.Generator | None) -> Tensor:
        x = self.places.draw(solution, generator)
        frame = solution.space.frame
        slopes, _ = self.derive(solution, 1, x, frame.spatial)  # one column per coordinate and channel
        column = self._column(frame)
        return (safe_norm(slopes[:, column :: len(frame.channels)]) - 1).square().mean()

    def _column(self, frame: Frame) -> int:
        if self.channel is None and len(frame.channels) > 1:
            raise TrainingError(
                f"{self.name}: the field has the channels {', '.join(frame.channels)}; say which is the distance, "
                "channel=..."
            )
        return 0 if self.channel is None else frame.channel(self.channel)


class Regression(PointLoss):
    """The misfit to values known at points: kind 'l2' (mean square), 'l1' or 'huber' (quadratic up to `delta`).

    `values`: a number, (P,) or (P, C), or a callable of the points. `batch` takes that many points at each call: fixed
    points in a random order, all of them, then again in another. With `operator` (LaTeX or built in Python) the
    operator applied to the field is compared instead of its value; without one, plain networks can be asked as well.

    >>> space = cnf.Space("x y", "u")
    >>> points = cnf.Box([0, 0], [1, 1]).halton(12)
    >>> values = space.constraint("u = x", at=points, name="values")
    >>> solution = cnf.ConstrainedField(cnf.bases.RandomFourier(space, 40, 0.7), [values]).solve()
    >>> loss = cnf.losses.Regression(points, lambda x: x[:, 0])(solution)
    >>> loss.item() < 1e-20  # it was imposed there
    True
    """

    label = "regression"
    KINDS = ("l2", "l1", "huber")

    def __init__(
        self,
        points: object,
        values: object,
        kind: str = "l2",
        batch: int | None = None,
        weight: float = 1.0,
        *,
        operator: Asked | None = None,
        delta: float = 1.0,
        name: str | None = None,
        seed: int = 0,
    ):
        super().__init__(points, batch, weight, name, seed)
        if kind not in self.KINDS:
            raise TrainingError(
                f"{self.name}: kind is one of {', '.join(self.KINDS)}, not {kind!r}." + nearest(str(kind), self.KINDS)
            )
        if not delta > 0:
            raise TrainingError(f"{self.name}: delta is a positive number; got {delta!r}")
        self.kind, self.batch, self.operator, self.delta = kind, batch, operator, float(delta)
        self.serves_networks = operator is None
        self.values = self._checked(values)

    def _checked(self, values: object) -> Tensor | Callable[[Tensor], Tensor]:
        if callable(values) and not isinstance(values, Tensor):
            return values
        try:
            table = values.detach() if isinstance(values, Tensor) else torch.as_tensor(values, dtype=torch.float64)
        except (TypeError, ValueError, RuntimeError):
            raise TrainingError(
                f"{self.name}: values are a number, an array (P, C) or a callable of the points; "
                f"got a {type(values).__name__}"
            ) from None
        if not bool(torch.isfinite(table).all()):
            raise TrainingError(f"{self.name}: some of the values are NaN or infinite; remove or repair them")
        if table.dim():
            if self.places.fixed is None:
                raise TrainingError(f"{self.name}: points drawn from a domain need values as a number or a callable")
            if table.shape[0] != self.places.fixed.shape[0]:
                raise TrainingError(
                    f"{self.name}: {table.shape[0]} values given for {self.places.fixed.shape[0]} points; "
                    "one per point is needed"
                )
        return table

    def measure(self, solution: Model, generator: torch.Generator | None) -> Tensor:
        x, chosen = self.places.draw_batch(solution, generator)
        if self.operator is None:
            found = solution(x)  # (P, C)
        else:
            assert isinstance(solution, Solution)
            found = solution.apply(self.operator, x)
        wanted = self._wanted(x, chosen, found)
        if self.kind == "huber":
            return F.huber_loss(found, wanted, delta=self.delta)
        return (found - wanted).square().mean() if self.kind == "l2" else (found - wanted).abs().mean()

    def _wanted(self, x: Tensor, chosen: Tensor | None, found: Tensor) -> Tensor:
        table = self.values if isinstance(self.values, Tensor) else torch.as_tensor(self.values(x))
        if isinstance(self.values, Tensor) and chosen is not None and table.dim():
            table = table[chosen.to(table.device)]
        table = table.to(found)
        if table.dim() == 1:
            table = table[:, None]
        if table.dim() and table.shape != found.shape:
            raise TrainingError(
                f"{self.name}: values of shape {tuple(table.shape)} for a field that gives {tuple(found.shape)}; "
                "expected a number or one value per point and channel"
            )
        return table.expand_as(found)
