"""Basis: the functions whose weights are solved for.

A basis of N functions on D coordinates is a module with one required method, `forward(x)`: points (P, D) to values
(P, N), shared by all channels, or (P, N, C), one function per channel. Derivatives of any order follow by forward mode;
the built-in bases override `rows` with closed forms. Nothing is cached on the module: `snapshot()` returns an object
that holds what can be shared by all evaluations of one step (features of anchors, say).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from cnf.bases.part import Part
from cnf.bases.properties import Properties
from cnf.bases.ties import Tie
from cnf.constraints import Constraint, Space
from cnf.errors import BasisError, SmoothnessError
from cnf.operators.detail import Detail, of_lengths, unknown
from cnf.operators.expansion import Request, combine, wanted
from cnf.operators.forward import derivatives
from cnf.operators.nonlinear import State
from cnf.operators.operator import Operator
from cnf.operators.ranges import declared_lengths


class Evaluator(Protocol):
    """What assembly and solutions need: weighted sums of derivatives of all basis functions."""

    def rows(self, x: Tensor, requests: Sequence[Request]) -> Tensor:
        """(P, D) and K requests -> (P, K, N)."""
        ...


def check_space(space: object) -> None:
    """Every basis starts with its space."""
    if not isinstance(space, Space):
        raise BasisError(f"a basis starts with its space, such as cnf.Space('x y', 'u'); got a {type(space).__name__}")


class Basis(Part):
    """Subclass, call `super().__init__(space, size)`, and write `forward(x)`.

    >>> class Waves(cnf.bases.Basis):
    ...     def forward(self, x):  # (P, 1) -> (P, N)
    ...         return torch.sin(torch.arange(1, 5) * x)
    >>> basis = Waves(cnf.Space("x", "u"), 4)
    >>> basis(cnf.Box(0, 1).random(3)).shape
    torch.Size([3, 4])
    """

    properties: Properties | None = None  # what is known of this kind of basis; None: nothing
    smoothness: int | None = None  # highest derivative the functions have; None: no limit is known
    shortest_length: float | Sequence[float] | None = None  # distance over which the functions vary at least, if known
    joint: bool = False  # True: one weight per function for all channels together (f_c = sum_j beta_j Psi_jc)

    ties: tuple[Tie, ...] = ()  # what must hold across the faces of cells
    loose: tuple[Tie, ...] = ()  # what it comes close to across them, in least squares

    def __init__(self, space: Space, size: int | None = None):
        super().__init__()
        check_space(space)
        self.space = space
        self._size = size

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return len(self.space.coordinates)

    @property
    def size(self) -> int:
        """Number of basis functions N."""
        if self._size is None:
            self._size = self._trial().shape[1]
        return self._size

    @property
    def shared(self) -> bool:
        """True if every channel uses the same functions."""
        return len(self.space.channels) == 1 or (not self.joint and self._trial().dim() == 2)

    def _trial(self) -> Tensor:
        """The values at one point, to learn the shape of what `forward` returns."""
        like = next(iter([*self.parameters(), *self.buffers()]), torch.empty(0, dtype=torch.float64))
        dtype = like.dtype if like.is_floating_point() else torch.float64
        with torch.no_grad():
            try:
                values = self(torch.zeros(1, self.dimension, dtype=dtype, device=like.device))
            except RuntimeError as error:
                raise BasisError(
                    f"{type(self).__name__} cannot be evaluated at a point of {self.dimension} coordinates ({error}); "
                    "does its encoder or network take that many?"
                ) from error
        channels = len(self.space.channels)
        good = isinstance(values, Tensor) and values.dim() in (2, 3) and values.shape[0] == 1
        if not good or (values.dim() == 3 and values.shape[2] not in (1, channels)):
            shape = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
            raise BasisError(
                f"{type(self).__name__}.forward returned {shape} for one point; expected (1, N) or (1, N, {channels})"
            )
        return values

    def forward(self, x: Tensor) -> Tensor:
        """(P, D) -> (P, N) or (P, N, C)."""
        raise NotImplementedError(f"{type(self).__name__} needs a method forward(x) returning (P, N) values")

    def snapshot(self) -> Evaluator:
        """An evaluator for one step; what several evaluations share is computed here once."""
        return self

    @property
    def sources(self) -> tuple[Constraint, ...]:
        """The constraints whose conditions the functions were made from, one each, in order; empty for most bases."""
        return ()

    @property
    def guiding(self) -> tuple[Constraint, ...]:
        """Conditions at more points, by the names of the constraints they belong to, that it comes close to in least
        squares; none for most bases."""
        return ()

    def guided_by(self, conditions: Sequence[Constraint]) -> Basis:
        """The same basis, with the same parameters, for other conditions in place of those of `guiding`."""
        return self

    def tied_around(self, beside: Callable[[Tensor], State]) -> Basis:
        """The same basis, with the same parameters, its ties linearised around the states that `beside` gives."""
        return self

    def inwards(self, x: Tensor, cells: Tensor) -> Tensor:
        """Points (P, D) on the faces of cells (P,), moved a little into these; as they are if there are no cells."""
        return x

    @property
    def brought(self) -> tuple[Constraint, ...]:
        """Conditions that the functions bring along, exact ones and guiding ones."""
        return self.guiding

    @property
    def brought_conditions(self) -> int:
        """Conditions that the functions bring along, beside those of the constraints."""
        return 0

    def is_symmetric_for(self, constraints: Sequence[Constraint]) -> bool:
        """True if the system of these conditions is symmetric positive definite by construction."""
        return False

    def detail(self) -> Detail:
        """How fast the functions vary and where, which conditions with integrals need to know: as declared in
        `shortest_length` (one number, or one per coordinate), or else as known of this kind of basis."""
        lengths = declared_lengths(self, self.dimension)
        return self.known_detail() if lengths is None else of_lengths(lengths)

    def known_detail(self) -> Detail:
        """What is known of the functions of this kind of basis, as it is now."""
        return unknown(
            self.dimension,
            f"the functions of {type(self).__name__} may vary anywhere; say over which distance at least they do: "
            "basis.shortest_length = 0.1",
        )

    def rows(self, x: Tensor, requests: Sequence[Request]) -> Tensor:
        """Weighted sums of derivatives, (P, K, N); generic forward mode unless a subclass knows better."""
        return combine(derivatives(self, x, wanted(requests)), requests)

    def extra_repr(self) -> str:
        return f"{self.size} functions of {', '.join(self.space.coordinates)}"

    def config(self) -> dict:
        """Constructor arguments to save and rebuild this basis from; own bases are passed to `cnf.load` instead."""
        raise BasisError(f"{type(self).__name__} does not say how to rebuild itself (no config method)")


class SnapshotBasis(Basis):
    """Base of those whose functions are evaluated by what `snapshot` makes; shared by all channels unless they say."""

    def snapshot(self) -> Evaluator:
        raise NotImplementedError(f"{type(self).__name__} needs a method snapshot() that returns its evaluator")

    @property
    def shared(self) -> bool:
        return True

    def rows(self, x: Tensor, requests: Sequence[Request]) -> Tensor:
        return self.snapshot().rows(x, requests)

    def forward(self, x: Tensor) -> Tensor:
        channels = range(1 if self.shared else len(self.space.channels))
        values = self.rows(x, [values_request(self.dimension, x, c) for c in channels])  # (P, C, N)
        return values[:, 0] if self.shared else values.transpose(1, 2)


def check_smoothness(basis: Basis, operator: Operator, who: str) -> None:
    """Refuse derivatives that the basis does not have; `who` asks for them."""
    if basis.smoothness is not None and operator.order > basis.smoothness:
        raise SmoothnessError(
            f"{who} takes derivatives of order {operator.order}, but {type(basis).__name__} has them only up to order "
            f"{basis.smoothness}; use a smoother kernel or activation (Gaussian, tanh, sine)"
        )


def values_request(dimension: int, like: Tensor, channel: int = 0) -> Request:
    """Asks for plain values."""
    return Request(channel, {(0,) * dimension: torch.ones((), dtype=like.dtype)})
