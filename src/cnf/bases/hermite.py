"""Hermite: generalised interpolation, one basis function per condition.

Psi_r(x) = L_r applied to the second argument of the kernel, at the point of condition r. Functions are distinct however
many conditions share a point, and for the same conditions the system A_rs = L_r^x L_s^y k(x, y) is symmetric
and positive
definite. The kernel is translation invariant, so d_x^alpha d_y^beta k = (-1)^|beta| (d^(alpha + beta) k)(x - y).
With several channels the kernel is k times the identity and every function has one weight for all channels together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from cnf.bases.basis import Basis, Evaluator, values_request
from cnf.bases.kernels import Gaussian, KernelProfile, Wendland
from cnf.bases.local import Centres, Strengths, at_pairs, flat_pairs
from cnf.bases.plain_kernel import PlainKernel
from cnf.bases.properties import Properties
from cnf.constraints import Constraint, Space
from cnf.errors import BasisError
from cnf.fetching import is_here
from cnf.operators.cells import divided
from cnf.operators.detail import Detail
from cnf.operators.expansion import Probe, Request, has_integrals, same_rules
from cnf.operators.jets import MultiIndex, add

PIECE = 2**20  # pairs of a point and a node evaluated at once


class Hermite(Basis):
    """One function per condition of `constraints`; kernel Gaussian, Matern or Wendland of the coordinates.

    >>> space = cnf.Space("x", "u")
    >>> at = [[0.0], [1.0]]
    >>> value, slope = space.constraint("u = 1", at=at), space.constraint("u_x = 0", at=at)
    >>> basis = cnf.bases.Hermite(space, [value, slope], cnf.kernels.Gaussian(0.5))
    >>> basis.size, cnf.ConstrainedField(basis, [value, slope]).solve().certificate.exact
    (4, True)
    """

    properties = Properties("fair", "good", True, True, True, True, "as the kernel, less the order of the conditions")

    def __init__(self, space: Space, constraints: Sequence[Constraint], kernel: KernelProfile | None = None):
        given = [constraints] if isinstance(constraints, Constraint) else list(constraints)
        if not given or not all(isinstance(c, Constraint) for c in given):
            raise BasisError("Hermite takes the list of constraints whose conditions its functions come from")
        if any(c.operator.frame != space.frame for c in given):
            raise BasisError("the constraints of a Hermite basis must belong to its space")
        super().__init__(space, sum(c.rows for c in given))
        self.kernel = kernel if kernel is not None else Gaussian(0.1)
        if not isinstance(self.kernel, KernelProfile) or not self.kernel.distance:
            raise BasisError("Hermite needs a kernel of the distance: cnf.kernels.Gaussian, Matern or Wendland")
        if isinstance(self.kernel, Wendland) and self.kernel.dimension < self.dimension:
            raise BasisError(
                f"this Wendland kernel is positive definite up to {self.kernel.dimension} coordinates; "
                f"give dimension={self.dimension}"
            )
        self.constraints = tuple(given)
        # Compared once: where to look costs a wait, not at every step.
        first = (next(k for k in range(n + 1) if _same(given[k].points, c.points)) for n, c in enumerate(given))
        self._sites = tuple(first)  # the first constraint at the points of each
        self.joint = len(space.channels) > 1
        highest = max(c.operator.order for c in given)
        if self.kernel.smoothness is not None:
            self.smoothness = self.kernel.smoothness - highest
            if self.smoothness < highest:
                raise BasisError(
                    f"the conditions have order {highest}, so Hermite differentiates its kernel "
                    f"{2 * highest} times, but "
                    f"{type(self.kernel).__name__} has {self.kernel.smoothness} derivatives; use a smoother kernel"
                )

    @property
    def shared(self) -> bool:
        return not self.joint

    @property
    def sources(self) -> tuple[Constraint, ...]:
        return self.constraints

    def is_made_of(self, constraints: Sequence[Constraint]) -> bool:
        """True if these are the conditions that the functions come from, in this order."""
        return len(self.constraints) == len(constraints) and all(
            (a.operator is b.operator or a.operator == b.operator)
            and same_rules(a.rules, b.rules)
            and (a.points is b.points or torch.equal(a.points.to(b.points), b.points))
            for a, b in zip(self._ruled(), constraints, strict=True)
        )

    def known_detail(self) -> Detail:
        """The kernel may sit anywhere: at the nodes of an integral."""
        return self.kernel.detail(None, self.dimension)

    def _ruled(self) -> tuple[Constraint, ...]:
        """The constraints with rules for the kernel as it is now, the same ones that a field finds for them."""
        if not any(has_integrals(c.operator) for c in self.constraints):
            return self.constraints
        detail = self.detail()
        return tuple(c.ruled(divided(c.operator, c.points, detail)) for c in self.constraints)

    def is_symmetric_for(self, constraints: Sequence[Constraint]) -> bool:
        return self.kernel.positive_definite and self.is_made_of(constraints)

    def snapshot(self) -> Evaluator:
        ruled = [c.to(self._dtype()) for c in self._ruled()]
        columns = [Functionals.of(c, site) for c, site in zip(ruled, self._sites, strict=True)]
        return HermiteEvaluator(self.kernel, columns)

    def _dtype(self) -> torch.dtype:
        return next(self.kernel.parameters()).dtype

    def _apply(self, fn, recurse: bool = True):
        """The points go where the kernel goes; they keep their precision, which a field of less may need again."""
        super()._apply(fn, recurse)
        device = next(self.kernel.parameters()).device
        self.constraints = tuple(c.to(c.points.dtype, device) for c in self.constraints)
        return self

    def rows(self, x: Tensor, requests: Sequence[Request]) -> Tensor:
        return self.snapshot().rows(x, requests)

    def forward(self, x: Tensor) -> Tensor:
        channels = range(len(self.space.channels))
        found = self.rows(x, [values_request(self.dimension, x, c) for c in channels]).movedim(1, -1)
        return found if self.joint else found[..., 0]

    def config(self) -> dict:
        return {"space": self.space, "constraints": list(self.constraints), "kernel": self.kernel}


@dataclass(frozen=True)
class Functionals:
    """The functionals of one constraint: P points times R rows, ordered row by row."""

    count: int  # P
    rows: int  # R
    probes: list[Probe]
    points: Tensor
    site: int  # the same for constraints at equal points

    @staticmethod
    def of(constraint: Constraint, site: int) -> Functionals:
        points = constraint.points
        return Functionals(points.shape[0], constraint.values.shape[1], constraint.expanded(), points, site)

    def site_of(self, probe: Probe) -> int | None:
        """Where a probe looks, if that is at the points themselves."""
        return self.site if probe.points is self.points else None


@dataclass(frozen=True)
class HermiteEvaluator:
    """The kernel with the functionals of every constraint applied to its second argument."""

    kernel: KernelProfile
    columns: list[Functionals]

    @property
    def points_at_once(self) -> int:
        return max(1, PIECE // max(probe.points.shape[0] for f in self.columns for probe in f.probes))

    @property
    def work(self) -> int:
        """Kernels evaluated for every point: as many as there are nodes under integrals, not one per function."""
        return sum(probe.points.shape[0] for functionals in self.columns for probe in functionals.probes)

    def rows(self, x: Tensor, requests: Sequence[Request]) -> Tensor:
        """(P, K, N); never more than PIECE pairs of a point and a node at once, however many nodes integrals have."""
        step = self.points_at_once
        if x.shape[0] <= step:
            return self._rows(x, requests)
        parts = []
        for start in range(0, x.shape[0], step):
            own = slice(start, start + step)
            given = (x[own], [r.at(own) for r in requests])
            again = torch.is_grad_enabled()  # evaluated once more in the backward pass, not kept
            parts.append(checkpoint(self._rows, *given, use_reentrant=False) if again else self._rows(*given))
        return torch.cat(parts)

    def _rows(self, x: Tensor, requests: Sequence[Request]) -> Tensor:
        return torch.cat([self._block(x, requests, functionals) for functionals in self.columns], dim=2)

    @cached_property
    def _groups(self) -> list[tuple[Tensor, list[Tensor], list[Request]]]:
        """Points, columns and functionals, those at the same points together: kernels are evaluated once for all."""
        found: list[tuple[Tensor, list[Tensor], list[Request]]] = []
        sites: dict[int | None, tuple[Tensor, list[Tensor], list[Request]]] = {}
        start = 0
        for f in self.columns:
            for probe in f.probes:
                site = f.site_of(probe)
                known = sites.get(site) if site is not None else None
                if known is None:
                    known = next((g for g in found if is_here(g[0]) and _same(g[0], probe.points)), None)
                if known is None:
                    known = (probe.points, [], [])
                    found.append(known)
                    sites[site] = known
                places = torch.arange(f.count, device=probe.points.device).repeat_interleave(probe.nodes)
                known[1].extend(start + r * f.count + places for r in probe.rows)
                known[2].extend(probe.requests)
            start += f.count * f.rows
        return found

    @cached_property
    def centres(self) -> Sequence[Centres]:
        return [
            Centres(points, torch.stack(columns), tuple(r.channel for r in functionals))
            for points, columns, functionals in self._groups
        ]

    @property
    def support(self) -> Tensor | None:
        return self.kernel.support

    def strengths(self, weights: Tensor, q: Tensor, functions: Sequence[int], group: int = 0) -> Strengths:
        """The kernel's derivatives in its second argument have the sign (-1)^|b|."""
        found: Strengths = {}
        functionals = self._groups[group][2]
        for k, r in enumerate(functions):
            for index, v in functionals[r].weights.items():
                factor = v if v.dim() == 0 else v[q]
                part = (-factor if sum(index) % 2 else factor) * weights[:, k]
                found[index] = found[index] + part if index in found else part
        return found

    def paired(
        self,
        x: Tensor,
        p: Tensor,
        q: Tensor,
        requests: Sequence[Request],
        group: int = 0,
        stretch: Tensor | None = None,
    ) -> Tensor:
        points, _, functionals = self._groups[group]
        lefts = at_pairs(requests, p, q)
        rights = [
            Request(f.channel, {b: v if v.dim() == 0 else v[:, None] for b, v in f.weights.items()})
            for f in at_pairs(functionals, q, p)
        ]
        mixed = {
            (k, r): _mixed(left, right)
            for k, left in enumerate(lefts)
            for r, right in enumerate(rights)
            if left.channel == right.channel
        }
        if not mixed:
            return x.new_zeros(flat_pairs(p, q)[0].shape[0], len(lefts), len(rights))
        indices = sorted({index for weights in mixed.values() for index in weights})
        one = torch.ones((), dtype=x.dtype)
        kinds = [Request(0, {index: one}) for index in indices]
        derived = PlainKernel(self.kernel, points).paired(x, p, q, kinds, stretch=stretch)
        lookup = {index: derived[:, i] for i, index in enumerate(indices)}  # each (E, 1)
        zero = torch.zeros_like(derived[:, 0])
        cells = [
            _weighted_sum(lookup, mixed[k, r]) if (k, r) in mixed else zero
            for k in range(len(lefts))
            for r in range(len(rights))
        ]
        # Cell by cell in memory: columns side by side would be written number by number.
        return torch.stack([cell[:, 0] for cell in cells]).unflatten(0, (len(lefts), -1)).permute(2, 0, 1)  # (E, K, R)

    def _block(self, x: Tensor, requests: Sequence[Request], f: Functionals) -> Tensor:
        cells: dict[tuple[int, int], Tensor] = {}  # (request, functional row) -> (P, Q)
        for probe in f.probes:
            pairs = [(k, j) for k in range(len(requests)) for j in range(len(probe.rows))]
            pairs = [(k, j) for k, j in pairs if requests[k].channel == probe.requests[j].channel]
            if not pairs:
                continue
            mixed = [_mixed(requests[k], probe.requests[j]) for k, j in pairs]
            indices = sorted({index for weights in mixed for index in weights})
            lookup = dict(PlainKernel(self.kernel, probe.points).derivatives(x, indices))  # each (P, Q)
            for (k, j), weights in zip(pairs, mixed, strict=True):
                cell = _weighted_sum(lookup, weights)
                if probe.nodes > 1:
                    cell = cell.reshape(x.shape[0], f.count, probe.nodes).sum(dim=2)
                key = (k, probe.rows[j])
                cells[key] = cells[key] + cell if key in cells else cell
        zero = x.new_zeros(x.shape[0], f.count)
        per_request = [torch.cat([cells.get((k, r), zero) for r in range(f.rows)], dim=1) for k in range(len(requests))]
        return torch.stack(per_request, dim=1)


def _same(a: Tensor, b: Tensor) -> bool:
    return a is b or (a.shape == b.shape and a.device == b.device and torch.equal(a, b))


def _mixed(left: Request, right: Request) -> dict[MultiIndex, list[tuple[Tensor, Tensor]]]:
    """Weights of d^(alpha + beta) k: pairs of a column (P,) and a row (Q,) to be multiplied out."""
    found: dict[MultiIndex, list[tuple[Tensor, Tensor]]] = {}
    for alpha, w in left.weights.items():
        for beta, v in right.weights.items():
            sign = -1.0 if sum(beta) % 2 else 1.0
            found.setdefault(add(alpha, beta), []).append((w, sign * v))
    return found


def _weighted_sum(derived: dict[MultiIndex, Tensor], weights: dict[MultiIndex, list[tuple[Tensor, Tensor]]]) -> Tensor:
    total: Tensor | None = None
    for index, pairs in weights.items():
        factor: Tensor | None = None
        for w, v in pairs:
            part = (w if w.dim() == 0 else w[:, None]) * v  # numbers, (P, Q), or (E, 1) at pairs
            factor = part if factor is None else factor + part
        assert factor is not None
        part = derived[index] * factor
        total = part if total is None else total + part
    assert total is not None
    return total
