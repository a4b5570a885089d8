"""Balance: conditions that contradict each other on the whole, and equations that change their type.

Whatever the field, some means of conditions add up to nothing: the flux through the whole boundary is what the sources
inside bring, the same condition given twice is given twice. Waves of many directions, put through all conditions, show
which combinations of the means vanish for all of them; right-hand sides that do not vanish in the same combination
cannot be met by any field.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cnf.bases import RandomFourier
from cnf.constraints import Constraint
from cnf.pde.problems.places import sample_in
from cnf.pde.problems.problem import Problem
from cnf.pde.problems.uniqueness import lengths

POINTS = 4096
WAVES = 60
LENGTH = 0.6  # of the waves, over the extent of the domain
MOST = 12  # rows of conditions: more of them are too many for so few waves
VANISHES = 1e-2  # of the largest combination of means, and below what the points leave open of an integral
OFF = 0.05  # of the right-hand sides taken by their sizes: they do not balance
INVOLVED = 0.05  # share of a condition in a combination


def contradictions(problem: Problem) -> list[str]:
    """Sentences about conditions whose means contradict each other, whatever the field; of linear ones only."""
    if any(c.nonlinear is not None for c in problem.constraints):
        return []
    constraints = _evenly(problem)
    rows = [(c, r) for c in constraints for r in range(len(c.operator.rows))]
    if not 2 <= len(rows) <= MOST:
        return []
    basis = RandomFourier(problem.space, WAVES, lengths(problem, LENGTH), seed=problem.seed)
    with torch.no_grad():
        means = torch.cat([_means(basis, c) for c in constraints], dim=1)  # (waves, rows)
        given = torch.cat([c.values.mean(dim=0) for c in constraints])
        sizes = torch.cat([c.values.abs().mean(dim=0) for c in constraints])
    scale = torch.linalg.vector_norm(means, dim=0)
    if not bool((scale > 0).all()) or not bool(torch.isfinite(scale).all()):
        return []
    _, found, combinations = torch.linalg.svd(means / scale)
    share = combinations[-1] / scale
    if found[-1] > VANISHES * found[0] or (share * given).sum().abs() <= OFF * (share.abs() * sizes).sum():
        return []
    involved = [row for row, part in zip(rows, combinations[-1].abs().tolist(), strict=True) if part > INVOLVED]
    names = list(dict.fromkeys(repr(c.name) for c, _ in involved))
    fluxes = all(term.derivatives for c, r in involved for term in c.operator.rows[r])  # nearly is not enough
    if len(names) < 2 or not fluxes:
        return []
    return [
        f"{', '.join(names[:-1])} and {names[-1]} contradict each other: whatever the field, they balance on the whole "
        "(what flows through the boundary is what the inside brings), and their right-hand sides do not. Correct one "
        "of them, or give a value on a part of the boundary instead of a flux"
    ]


def _evenly(problem: Problem) -> list[Constraint]:
    """Every equation at points spread evenly over its part."""
    found = []
    for k, place in enumerate(problem._placing.places):
        if place.kind in ("file", "nowhere"):
            continue  # measurements and integrals take part in no balance
        at = sample_in(place, problem.domain, problem.regions, POINTS, "halton", problem.seed)
        if at is not None:
            found.append(problem._placing.at(k, at))
    return found


def _means(basis: RandomFourier, constraint: Constraint) -> Tensor:
    """The mean of every row of a constraint for every function in every channel, (N C, R)."""
    evaluator, channels = basis.snapshot(), len(basis.space.channels)
    total = torch.zeros(channels, basis.size, len(constraint.operator.rows), dtype=torch.float64)
    for probe in constraint.expanded():
        found = evaluator.rows(probe.points, probe.requests).mean(dim=0) * probe.nodes  # (K, N)
        for k, (r, request) in enumerate(zip(probe.rows, probe.requests, strict=True)):
            total[request.channel, :, r] += found[k]
    return total.flatten(0, 1)


def changes_of_sign(problem: Problem) -> list[str]:
    """A sentence if the highest derivatives of the one channel there is have coefficients of both signs."""
    if len(problem.space.channels) > 1:
        return []
    spatial = [k for k, name in enumerate(problem.space.coordinates) if name in problem.space.frame.spatial]
    for axis in spatial:
        index = tuple(2 if k == axis else 0 for k in range(problem.domain.dimension))
        seen: dict[bool, str] = {}
        for place, constraint in zip(problem._placing.places, problem.constraints, strict=True):
            for probe in constraint.expanded() if place.kind == "interior" else ():
                for weight in (request.weights.get(index) for request in probe.requests):
                    for sign in () if weight is None else weight.sign().unique().tolist():
                        seen.setdefault(sign > 0, place.text)
        if len(seen) == 2:
            where = f" from {seen[True]} to {seen[False]}" if seen[True] != seen[False] else ""
            return [
                f"the coefficient of the second derivative along {problem.space.coordinates[axis]} changes its sign"
                f"{where}: the equation changes its type there, and a field need not exist, or be the only one"
            ]
    return []
