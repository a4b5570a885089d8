"""Measuring: every condition evaluated on the field itself, by the way a query takes, against what was asked.

One function for all formulations. The terms of an operator are evaluated one by one and added up, as a user would who
asks for u_xx and u_yy: what cancels between them is part of what the field misses. During training only a sample of the
points is measured so; for the other conditions the solver's own residual stands, and the certificate says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from cnf.bases.basis import Basis, values_request
from cnf.certificate.certificate import Certificate, Residual
from cnf.certificate.convergence import Convergence
from cnf.certificate.findings import Inquiry
from cnf.certificate.sizes import (
    allowed_sizes,
    amplitude_beside,
    amplitudes,
    cancelled_sizes,
    extents,
    row_sizes,
    tied_sizes,
    tied_term_sizes,
    typical_amplitude,
    whole_amplitudes,
)
from cnf.constraints import Constraint
from cnf.fetching import fetched_together
from cnf.operators.expansion import Probe
from cnf.operators.forward import MultiIndex
from cnf.systems.formulation import Expansion
from cnf.systems.quadrature import doubts, quadrature_errors
from cnf.systems.terms import in_rows_of_their_own, term_sizes

ALONE = 8  # points of a constraint that are also evaluated on their own
LEAST, SHARE = 4, 8  # a sample has at least so many points, and else at most one in so many
CROWD = 64  # points of a query in which fewer are evaluated as well: products of matrices round by their size
EXCUSED = 1e-3  # part of a right-hand side, or of what the tolerance allows, from which on a miss may be a conflict


class Measured(Protocol):
    """A solution as far as measuring it goes."""

    @property
    def basis(self) -> Basis: ...

    @property
    def expansion(self) -> Expansion: ...

    @property
    def constraints(self) -> tuple[Constraint, ...]: ...

    @property
    def reason(self) -> str:
        """What is known, apart from the systems, that explains a missed condition."""
        ...

    def applied(self, probes: Sequence[Probe], shape: tuple[int, int]) -> Tensor:
        """L f, (P, R), by the way that queries take."""
        ...

    def measured(self, probes: Sequence[Probe], shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """The same, and the part of it that is rounding."""
        ...

    def derivatives(self, x: Tensor, indices: Sequence[MultiIndex]) -> dict[MultiIndex, Tensor]:
        """Derivatives of every channel, each (P, C)."""
        ...

    @property
    def convergence(self) -> Convergence | None:
        """Of the iteration that found it, if conditions are not linear."""
        ...


def certify(
    solution: Measured,
    tolerance: float,
    seconds: float,
    made_up: Sequence[Tensor] | None = None,
    sample: int | None = None,
) -> Certificate:
    """Measure a solution; `made_up` (P, R) is what the functions had to make up, g - L[base], where it is known.

    `sample` bounds the points of a constraint that are measured on the field; None: all of them.
    """
    expansion = solution.expansion
    residuals: dict[str, Residual] = {}
    by_side: dict[str, Residual] = {}  # without the excuse that what is missed is small for conditions of this kind
    with torch.no_grad():
        # Around the field itself, a linearised condition misses exactly what the condition does.
        constraints = tuple(c.around(solution) for c in solution.constraints)
        lengths = extents(constraints)
        expanded = [c.expanded() for c in constraints]
        shapes = [(c.values.shape[0], c.values.shape[1]) for c in constraints]
        sizes = [row_sizes(p, shape, lengths) for p, shape in zip(expanded, shapes, strict=True)]
        by_solver = {} if sample is None else expansion.missed(constraints)
        integrals = quadrature_errors(solution, constraints)
        values = [c.values.detach().to(torch.float64) for c in constraints]
        looks: list[Look] = []
        for i, (constraint, probes) in enumerate(zip(constraints, expanded, strict=True)):
            look = _look(solution, probes, values[i], _solver_residual(by_solver, i, shapes[i], values[i]), sample)
            if constraint.name in integrals:
                look = replace(look, off=look.off + integrals[constraint.name].to(look.off))
            looks.append(look)
        nonlinear = [i for i, c in enumerate(constraints) if c.nonlinear is not None]
        # What was seen comes to the host in one transfer: numbers decide from here on.
        sizes, values, off, cancelled, standing, by_term, (norm,), made, missed = fetched_together(
            [
                sizes,
                values,
                [look.off for look in looks],
                [look.cancelled for look in looks],
                [look.standing for look in looks],
                [term_sizes(solution, constraints[i]) for i in nonlinear],
                [expansion.weight_norm],
                made_up or (),
                [each.max() for each in integrals.values()],
            ]
        )
        terms_of = dict(zip(nonlinear, by_term, strict=True))
        shown = partial(_largest_value, solution)
        asked_for = amplitudes(constraints, values, sizes, shown)
        whole = whole_amplitudes(constraints, values, sizes, asked_for, standing, shown)
        measured, flat = sum(look.measured for look in looks), float("inf")
        for i, constraint in enumerate(constraints):
            scale = allowed_sizes(values[i], sizes[i], asked_for[i], whole[i], cancelled[i])
            if i in terms_of:
                scale = terms_of[i].maximum(sizes[i] * asked_for[i])
                flat = min(flat, least_change(sizes[i] * shown([i]), terms_of[i], sizes[i]))
            residuals[constraint.name] = _worst(off[i], scale)
            excused = _is_excused(off[i], values[i], scale, tolerance)
            by_side[constraint.name] = _worst(off[i], values[i].abs().where(excused, scale))
        brought = expansion.jumps()
        for name, jump in brought.items():
            shape = (jump.off.shape[0], jump.off.shape[1])
            asked = jump.conditions[0].values.to(torch.float64)
            own = [row_sizes(condition.expanded(), shape, lengths) for condition in jump.conditions]
            if jump.is_linear:
                scale = tied_sizes(jump.sides) if jump.conditions[0].operator.order else torch.zeros_like(asked)
                for condition, size in zip(jump.conditions, own, strict=True):
                    typical, most = (amplitude_beside(condition, constraints, of) for of in (asked_for, whole))
                    scale = scale.maximum(allowed_sizes(asked, size, typical, most))
            else:
                both = torch.hypot(own[0], own[1])
                flat = min(flat, least_change(both * jump.shown, jump.sides.to(torch.float64), both))
                scale = tied_term_sizes(jump.sides, both * jump.shown)
            residuals[name] = _worst(jump.off.to(torch.float64).abs(), scale)
            measured += jump.off.numel()
        data = typical_amplitude(values if made_up is None else made, sizes)
    basis = solution.basis
    account = expansion.account
    findings = Inquiry(account, expansion.blocks, tuple(constraints))
    count = sum(c.rows for c in constraints) + sum(jump.off.numel() for jump in brought.values())
    if measured == count and any(by_side[name].relative > tolerance >= residuals[name].relative for name in by_side):
        residuals |= {name: by_side[name] for conflict in findings.conflicts for name in conflict}
    unmeasured = doubts(constraints)
    violated = [c for c in constraints if not residuals[c.name].relative <= tolerance]
    if violated and measured < count and any(bool(tails.any()) for tails in cancelled):
        return certify(solution, tolerance, seconds, made_up)  # few points may not show what is asked of the whole
    broken = any(not r.relative <= tolerance for r in residuals.values())  # ties count as well
    times = max((r.relative for r in residuals.values()), default=0.0) / tolerance
    convergence = None if solution.convergence is None else replace(solution.convergence, flat=flat)
    if convergence is not None and measured == count and not broken and not unmeasured:
        convergence = convergence.held()
    return Certificate(
        residuals=residuals,
        tolerance=tolerance,
        conditions=count,
        functions=basis.size,
        channels=1 if basis.joint else len(basis.space.channels),
        weight_norm=float(norm),
        data_size=data,
        seconds=seconds,
        solver=account.name,
        measured=measured,
        notes=account.notes,
        shared=account.shared,
        unmeasured=unmeasured,
        quadrature={name: float(worst) for name, worst in zip(integrals, missed, strict=True)},
        convergence=convergence,
        hint=(account.reason_for(violated, times) or solution.reason) if broken else "",
        remedy=account.remedy,
        findings=findings,
    )


def least_change(change: Tensor, terms: Tensor, size: Tensor) -> float:
    """The least that terms change with the field, of their sizes, (P, R) each.

    Where a field is zero there may be no terms: a linearisation of size 0 is flat there, others are not.
    """
    none = torch.where(size > 0, torch.inf, 0.0)
    return float(torch.where(terms > 0, change / terms, none).min())


def estimate_worst(solution: Measured) -> float:
    """The worst relative residual by the account of the solver, NaN if it keeps none: to compare fields, not to claim.

    Nothing is evaluated on the field; what one misses is not less than what its sums are rounded by.
    """
    constraints, worst = solution.constraints, 0.0
    with torch.no_grad():
        missed = solution.expansion.missed(constraints, rounding=True)
        if not missed:
            return float("nan")
        lengths = extents(constraints)
        shapes = [(c.values.shape[0], c.values.shape[1]) for c in constraints]
        sizes = [row_sizes(c.expanded(), shape, lengths) for c, shape in zip(constraints, shapes, strict=True)]
        values = [c.values.detach().to(torch.float64) for c in constraints]
        told = [_solver_residual(missed, i, shapes[i], asked) for i, asked in enumerate(values)]
        sizes, values, told = fetched_together([sizes, values, told])
        asked_for = amplitudes(constraints, values, sizes, partial(_largest_value, solution))
        for asked, size, off, amplitude in zip(values, sizes, told, asked_for, strict=True):
            worst = max(worst, _worst(off, asked.abs().maximum(size * amplitude)).relative)
    return worst


@dataclass(frozen=True)
class Look:
    """What was seen of the conditions of a constraint, each (P, R)."""

    off: Tensor  # what is missed; by the account of the solver where nothing was measured
    cancelled: Tensor  # how far terms reach that cancel, 0 where they do not
    standing: Tensor  # True where terms were measured and do not cancel
    measured: int


def _look(solution: Measured, probes: Sequence[Probe], asked: Tensor, off: Tensor, sample: int | None) -> Look:
    """Conditions measured on the field, all of them or a sample; `off` is the account of the solver."""
    chosen, peak = _chosen_points(off, sample), asked.abs().amax(dim=0)
    if chosen is None:
        found, terms = measure_rows(solution, probes, asked, peak)
        return Look(found, terms, terms == 0, found.numel())
    # A sample claims nothing; what measures all points may say exact, and looks at some alone.
    found, terms = measure_rows(solution, [probe.at(chosen) for probe in probes], asked[chosen], peak, alone=0)
    nothing = torch.zeros_like(off)
    standing = torch.zeros_like(off, dtype=torch.bool).index_copy(0, chosen, terms == 0)
    return Look(off.index_copy(0, chosen, found), nothing.index_copy(0, chosen, terms), standing, found.numel())


def _solver_residual(by_solver: dict[tuple[int, int], Tensor], i: int, shape: tuple[int, int], like: Tensor) -> Tensor:
    """What the solver says of the rows of a constraint, (P, R); zero where it says nothing."""
    zero = like.new_zeros(shape[0])
    return torch.stack([by_solver.get((i, r), zero).to(like) for r in range(shape[1])], dim=1)


def _chosen_points(off: Tensor, sample: int | None) -> Tensor | None:
    """Points to measure, half spread evenly, half the worst of the others by the solver's account; None: all."""
    count = off.shape[0]
    if sample is None or count <= LEAST:
        return None
    sample = min(sample, max(LEAST, count // SHARE))
    even = torch.linspace(0, count - 1, sample - sample // 2, device=off.device).long()
    others = off.amax(dim=1).index_fill(0, even, -1.0)
    return torch.cat([even, others.topk(sample // 2).indices]).sort().values


def _largest_value(solution: Measured, numbers: Sequence[int]) -> float:
    """The largest value of any channel at the points of some constraints, given by their numbers."""
    points = torch.cat([solution.constraints[i].points.detach() for i in numbers])
    space = solution.basis.space
    requests = tuple(values_request(points.shape[1], points, c) for c in range(len(space.channels)))
    probe = Probe(points, 1, tuple(range(len(requests))), requests)
    return float(solution.applied([probe], (points.shape[0], len(requests))).abs().max())


def measure_rows(
    solution: Measured, probes: Sequence[Probe], asked: Tensor, peak: Tensor, alone: int = ALONE
) -> tuple[Tensor, Tensor]:
    """What the field misses of the conditions that the probes stand for, and not less than its rounding; both (P, R).

    Second: how far terms reach that cancel, 0 elsewhere; `peak` (R,) is the largest that is asked anywhere.

    A residual smaller than the rounding of the field is luck: the same points one by one, or among others, miss by
    more. So some, `alone`, are also evaluated on their own, few points also in a crowd, and the rounding is the least
    that is ever reported.
    """
    shape = (asked.shape[0], asked.shape[1])
    apart = [probe.term_by_term() for probe in probes]
    parts, roundings = solution.measured(*in_rows_of_their_own(apart, shape[0]))  # (P, terms) each
    found, terms, rounding = parts.new_zeros(shape), *asked.new_zeros(2, *shape)
    for k, r in enumerate(r for probe in apart for r in probe.rows):
        found[:, r] += parts[:, k]
        terms[:, r] += parts[:, k].abs()
        rounding[:, r] = torch.hypot(rounding[:, r], roundings[:, k].to(torch.float64))
    off = (found.to(torch.float64) - asked).abs().maximum(rounding.to(torch.float64))
    for p in torch.linspace(0, shape[0] - 1, min(shape[0], alone)).round().long().tolist() if shape[0] > 1 else ():
        one = [probe.at(torch.arange(p, p + 1, device=asked.device)) for probe in apart]
        single = solution.applied(one, (1, shape[1]))[0].to(torch.float64) - asked[p]
        off[p] = off[p].maximum(single.abs())
    if alone and shape[0] < CROWD and max(probe.nodes for probe in probes) == 1:
        copies = -(-CROWD // shape[0])
        every = torch.arange(shape[0], device=asked.device).repeat(copies)
        among = solution.applied([probe.at(every) for probe in apart], (every.shape[0], shape[1])).to(torch.float64)
        off = off.maximum((among.unflatten(0, (copies, -1)) - asked).abs().amax(dim=0))
    return off, cancelled_sizes(found, terms, asked, peak)


def _is_excused(off: Tensor, asked: Tensor, scale: Tensor, tolerance: float) -> Tensor:
    """Where a good part of a right-hand side is missed, (P, R), though not much of the natural size of the condition.

    Slopes of 1 and of 2 at one point are nothing beside values of 1 that are 1e-9 apart, but they contradict each other
    all the same. What is near rounding does not count.
    """
    return (off > EXCUSED * asked.abs()) & (asked != 0) & (off > EXCUSED * tolerance * scale)


def _worst(off: Tensor, scale: Tensor) -> Residual:
    relative = torch.where(off == 0, 0.0, off / scale)  # 0 of 0 asked: nothing is missed
    if bool(torch.isnan(off).any()):
        return Residual(float("nan"), float("nan"))
    return Residual(float(off.max()), float(relative.max()))
