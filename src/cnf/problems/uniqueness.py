"""Uniqueness: do the conditions determine the field? Asked of a field that is known.

A smooth random field is put through all conditions, which gives them other right-hand sides; solving with these must
give the field back. If another field comes back, both meet all conditions, and so does the answer of the problem plus
any multiple of their difference.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from cnf.bases import RandomFourier
from cnf.constraints import Constraint
from cnf.errors import CnfWarning
from cnf.field import ConstrainedField
from cnf.problems.problem import Problem
from cnf.solution import Solution

WAVES = 60
LENGTH = 0.5  # of the random field, over the extent of the domain


def lost_share(
    problem: Problem, constraints: Sequence[Constraint], count: Callable[[Sequence[Constraint]], int], probes: Tensor
) -> float:
    """How much of a known field is lost when it is found again from its conditions: 0 nothing, 1 all of it.

    The field it is found with has `count(constraints)` waves as long as those of the known field, whatever the problem
    itself was solved with: few points then lose little of it.
    """
    known = random_field(problem, WAVES, problem.seed + 1)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)  # residuals do not matter here
        asked = [c.with_values(known.residual(c) + c.values) for c in constraints]
        basis = RandomFourier(problem.space, count(constraints), lengths(problem), seed=problem.seed)
        found = ConstrainedField(basis, asked).solve()(probes)
        wanted = known(probes)
    return float(((found - wanted).square().mean(dim=0) / wanted.square().mean(dim=0)).sqrt().max())


def random_field(problem: Problem, waves: int, seed: int) -> Solution:
    """A field with random weights that varies over half of the domain."""
    basis = RandomFourier(problem.space, waves, lengths(problem), seed=seed)
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(waves, len(problem.space.channels), dtype=torch.float64, generator=generator)
    nothing = None  # it was not solved for, so it has no certificate
    return Solution(problem.space, basis, basis.snapshot(), weights, None, nothing, (), ())  # type: ignore[arg-type]


def lengths(problem: Problem) -> list[float]:
    domain = problem.domain
    return [LENGTH * (b - a) for a, b in zip(domain.lower, domain.upper, strict=True)]
