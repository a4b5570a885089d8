"""Solution: one solved field; evaluates itself and any operator on itself, anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from cnf.bases.basis import Basis, Evaluator, check_smoothness, values_request
from cnf.bases.local import LocalEvaluator
from cnf.constraints import Constraint, Space
from cnf.constraints.space import Asked
from cnf.errors import ConstraintError
from cnf.operators.expansion import Probe, Request, expand
from cnf.operators.jets import MultiIndex
from cnf.systems.assembly import Block, applied, in_pieces
from cnf.systems.certificate import Certificate
from cnf.systems.local_evaluation import sum_over_neighbours

ROWS = 2**22  # matrix entries evaluated at once when no gradient is kept
MANY = 256  # functions from which on a compactly supported basis is evaluated neighbour by neighbour


@dataclass(frozen=True, eq=False)
class Solution:
    """f(x) = base(x) + sum_j weights_j Psi_j(x), with the certificate of its conditions.

    `weights` are (N, C), or (N,) for a basis with joint weights; they carry the gradient to everything learnable.
    """

    space: Space
    basis: Basis
    evaluator: Evaluator
    weights: Tensor
    base: nn.Module | None
    certificate: Certificate
    constraints: tuple[Constraint, ...]
    blocks: tuple[Block, ...]
    constants: tuple[nn.Parameter, ...] = ()  # parameters that get no gradient: their share through the weights is lost

    def __repr__(self) -> str:
        names = f"{', '.join(self.space.channels)} of {', '.join(self.space.coordinates)}"
        functions = f"{type(self.basis).__name__} with {self.basis.size} functions"
        return f"Solution({names}; {functions}; {self.certificate.summary()})"

    def __call__(self, x: Tensor) -> Tensor:
        """(P, D) -> (P, C)."""
        with held_constant(self.constants):
            return self._evaluated(self._points(x))

    def in_precision(self, precision: torch.dtype) -> Solution:
        """The same solution, its basis functions evaluated in torch.float32, say; points and values stay as they are.

        About three times as fast for networks, right to about six digits. Conditions and weights are not touched.
        """
        change = getattr(self.evaluator, "in_precision", None)
        if change is None:
            raise ConstraintError(
                f"{type(self.basis).__name__} is evaluated in the precision of the field only (Kernel with an encoder, "
                "ConstraintLayer, Hypernet and HypernetKernel have a choice)"
            )
        return replace(self, evaluator=change(precision))

    def _evaluated(self, points: Tensor) -> Tensor:
        channels = range(len(self.space.channels))
        if not points.shape[0]:
            return self.weights.new_zeros(0, len(channels))
        if self._is_local:
            probe = Probe(
                points, 1, tuple(channels), tuple(values_request(points.shape[1], points, c) for c in channels)
            )
            total = self._applied_locally([probe], (points.shape[0], len(channels)))
            return total if self.base is None else total + self._base(points)
        if self.basis.shared:
            parts = [self._values(piece) for piece in self._pieces(points, 1)]
        else:
            requests = [values_request(points.shape[1], points, c) for c in channels]
            parts = [
                torch.stack([row[:, c] @ self._weights(c) for c in channels], dim=1)
                for piece in self._pieces(points, len(requests))
                for row in [self.evaluator.rows(piece, requests)]
            ]
        total = parts[0] if len(parts) == 1 else torch.cat(parts)
        return total if self.base is None else total + self._base(points)

    def _values(self, points: Tensor) -> Tensor:
        matrix = self.evaluator.rows(points, [values_request(points.shape[1], points)])[:, 0]  # (P, N)
        return matrix @ (self.weights if self.weights.dim() == 2 else self.weights[:, None])

    def apply(self, asked: Asked, x: Tensor, **coefficients: object) -> Tensor:
        """Any operator (LaTeX or built in Python) on the field at any points: (P, D) -> (P, rows)."""
        operator = self.space.operator(asked, **coefficients)
        check_smoothness(self.basis, operator, f"the operator {operator.to_latex()}")
        points = self._points(x)
        if not points.shape[0]:
            return self.weights.new_zeros(0, len(operator.rows))
        with held_constant(self.constants):
            return self._applied(expand(operator, points), (points.shape[0], len(operator.rows)))

    def residual(self, constraint: Constraint) -> Tensor:
        """L f - g of a constraint, which need not be one of the field's own, (P, R)."""
        constraint = constraint.renewed()
        with held_constant(self.constants):
            count, rows = constraint.values.shape
            return self._applied(constraint.expanded(), (count, rows)) - constraint.values

    def _applied(self, probes: Sequence[Probe], shape: tuple[int, int]) -> Tensor:
        count, rows = shape
        if self._is_local:
            total = self._applied_locally(probes, shape)
            return total if self.base is None else total + applied(self._base, probes, shape)
        found: dict[int, Tensor] = {}
        for probe in probes:
            matrices = in_pieces(
                self.evaluator, probe.points, probe.requests, probe.nodes, self.basis.size
            )  # (P, K, N)
            for k, r in enumerate(probe.rows):
                part = matrices[:, k] @ self._weights(probe.requests[k].channel)
                found[r] = found[r] + part if r in found else part
        zero = self.weights.new_zeros(count)
        total = torch.stack([found.get(r, zero) for r in range(rows)], dim=1)
        return total if self.base is None else total + applied(self._base, probes, shape)

    @property
    def _is_local(self) -> bool:
        """True if most functions vanish at any one point, so that it pays to look for those that do not."""
        return (
            self.basis.size > MANY and isinstance(self.evaluator, LocalEvaluator) and self.evaluator.support is not None
        )

    def _applied_locally(self, probes: Sequence[Probe], shape: tuple[int, int]) -> Tensor:
        assert isinstance(self.evaluator, LocalEvaluator)
        return sum_over_neighbours(self.evaluator, self.weights, probes, shape)

    def _weights(self, channel: int) -> Tensor:
        return self.weights if self.weights.dim() == 1 else self.weights[:, channel]

    def derivatives(self, x: Tensor, indices: Sequence[MultiIndex]) -> dict[MultiIndex, Tensor]:
        """Derivatives of every channel by their multi-indices, each (P, C)."""
        points = self._points(x)
        one, width = torch.ones((), dtype=points.dtype, device=points.device), len(self.space.channels)
        requests = tuple(Request(c, {index: one}) for index in indices for c in range(width))
        with held_constant(self.constants):
            probe = Probe(points, 1, tuple(range(len(requests))), requests)
            found = self._applied([probe], (points.shape[0], len(requests)))
        return {index: found[:, k * width : (k + 1) * width] for k, index in enumerate(indices)}

    @property
    def _base(self) -> BaseFunction:
        assert self.base is not None
        return BaseFunction(self.base, len(self.space.channels))

    def _pieces(self, points: Tensor, requests: int) -> Sequence[Tensor]:
        if torch.is_grad_enabled() and (self.weights.requires_grad or points.requires_grad):
            return [points]
        return points.split(max(1, ROWS // max(1, self.basis.size * requests)))

    def _points(self, x: Tensor) -> Tensor:
        width = len(self.space.coordinates)
        try:
            points = x if isinstance(x, Tensor) else torch.as_tensor(x)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ConstraintError(f"the points cannot be read as an array of numbers ({error})") from None
        if points.is_complex():
            raise ConstraintError("the points are complex; expected real coordinates")
        if points.dim() == 1 and width == 1:
            points = points[:, None]
        if points.dim() != 2 or points.shape[1] != width:
            raise ConstraintError(
                f"points of shape {tuple(points.shape)} given; expected (number of points, {width}), columns "
                f"{', '.join(self.space.coordinates)}"
            )
        return points.to(dtype=self.weights.dtype, device=self.weights.device)


class BaseFunction:
    """The base of a field as a function (P, D) -> (P, C); with its own derivatives if it has them, as fields do."""

    def __init__(self, base: nn.Module, channels: int):
        self._base, self._channels = base, channels
        if hasattr(base, "derivatives"):
            self.derivatives = base.derivatives

    def __call__(self, x: Tensor) -> Tensor:
        return evaluate_base(self._base, x, self._channels)


@contextmanager
def held_constant(parameters: Sequence[nn.Parameter]) -> Iterator[None]:
    """Leave the parameters out of the graphs recorded meanwhile."""
    learned = [p for p in parameters if p.requires_grad]
    for parameter in learned:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in learned:
            parameter.requires_grad_(True)


def evaluate_base(base: nn.Module, x: Tensor, channels: int) -> Tensor:
    """The base network in its own precision, its values in the precision of the points: (P, D) -> (P, C)."""
    like = next(base.parameters(), None) if isinstance(base, nn.Module) else None
    try:
        values = base(x if like is None else x.to(like.dtype))
    except RuntimeError as error:
        raise ConstraintError(
            f"the base network fails on points of shape {tuple(x.shape)}: {str(error).splitlines()[0]}; it must map "
            f"(P, {x.shape[1]}) to (P, {channels})"
        ) from error
    if values.dim() == 1:
        values = values[:, None]
    if values.shape != (x.shape[0], channels):
        raise ConstraintError(
            f"the base network returned shape {tuple(values.shape)} for {x.shape[0]} points; expected "
            f"({x.shape[0]}, {channels})"
        )
    return values.to(x.dtype)
