"""Uniqueness: do the conditions determine the field? Asked of a field that is known.

A smooth random field is put through all conditions, which gives them other right-hand sides; solving with these must
give the field back. If another field comes back, both meet all conditions, and so does the answer of the problem plus
any multiple of their difference.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from cnf.bases import RandomFourier
from cnf.constraints import Constraint
from cnf.errors import CnfWarning
from cnf.field import ConstrainedField
from cnf.pde.problems.problem import Problem
from cnf.solution import Solution
from cnf.solvers import Auto
from cnf.systems.expansions import expand_over
from cnf.systems.formulation import KnownAccount

WAVES = 60
NOTHING = 1e-3  # of the field, lost: found again


def lost_share(
    problem: Problem,
    constraints: Sequence[Constraint],
    count: Callable[[Sequence[Constraint]], int],
    probes: Tensor,
    length: float,
) -> float:
    """How much of a known field is lost when it is found again from its conditions: 0 nothing, 1 all of it.

    `length` is that of its waves over the extent of the domain: long ones can be continued from a part of the domain to
    the rest, so that only a problem that leaves very much open loses them. The field it is found with has
    `count(constraints)` waves of the same length, whatever the problem itself was solved with: few points then lose
    little of it.
    """
    known = random_field(problem, WAVES, problem.seed + 1, length)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)
        asked = [c.with_values(known.residual(c.with_values(0.0))) for c in constraints]
        basis = RandomFourier(problem.space, count(constraints), lengths(problem, length), seed=problem.seed)
        wanted = known(probes)
        lost = math.inf
        for solver in (Auto(reveal_rank=False), Auto()):  # what comes back is determined, whichever way it was found
            found = ConstrainedField(basis, asked, solver=solver).solve(measure=False)(probes)
            off = ((found - wanted).square().mean(dim=0) / wanted.square().mean(dim=0)).sqrt().max()
            lost = min(lost, float(off.nan_to_num(math.inf)))
            if lost < NOTHING:
                break
    return lost


def random_field(problem: Problem, waves: int, seed: int, length: float) -> Solution:
    """A field with random weights."""
    basis = RandomFourier(problem.space, waves, lengths(problem, length), seed=seed)
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(waves, len(problem.space.channels), dtype=torch.float64, generator=generator)
    return Solution(problem.space, basis, expand_over(basis, basis.snapshot(), weights, KnownAccount("random weights")))


def lengths(problem: Problem, share: float) -> list[float]:
    domain = problem.domain
    return [share * (b - a) for a, b in zip(domain.lower, domain.upper, strict=True)]
