"""Nonlinear conditions: the parts of a field, as they are at one moment, to their measured solution.

What `cnf.solving` is for linear conditions: Newton's iteration finds the field, its gradient is that of the limit, and
the certificate measures it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import torch

from cnf.bases.precision import without_autocast
from cnf.certificate import certify, judge
from cnf.implicit import with_gradient
from cnf.newton import Newton, Solve, residual
from cnf.operators.nonlinear import State
from cnf.settling import Run, settled
from cnf.solution import Solution
from cnf.solving import SAMPLE
from cnf.systems.holding import Parts
from cnf.systems.states import Known

LITTLE = 1e-6  # of their terms: by how much conditions are changed to see how the field responds


def solve_nonlinear(
    held: Parts,
    solve: Solve,
    tolerance: float,
    on_violation: str,
    training: bool,
    measure: bool = True,
    start: State | None = None,
    keep: Callable[[State | None], None] = lambda iterate: None,
) -> Solution:
    """The measured solution of nonlinear conditions, differentiable in everything learnable.

    `keep` gets the same without a graph, where the next iteration may begin; None if this one did not converge.
    """
    started = time.perf_counter()
    with without_autocast(held.constraints[0].points.device):
        newton = Newton(held, solve, tolerance, on_violation)
        with torch.no_grad():
            run = settled(newton, newton.found(start))
        convergence = run.convergence
        keep(None if convergence.stopped else run.solution)
        solution = attached(newton, run) if torch.is_grad_enabled() else run.solution
        seconds = held.seconds + time.perf_counter() - started
        solution = replace(solution, seconds=seconds, convergence=convergence)
        held.return_statistics()
        if not measure:
            return solution
        sampled = training and solution.expansion.like.requires_grad and torch.is_grad_enabled()
        found = certify(solution, tolerance, seconds, solution.made_up, SAMPLE if sampled else None)
    judge(found, on_violation)
    return replace(solution, spot_check=found, convergence=found.convergence)


def response(held: Parts, solve: Solve, solution: Solution, seed: int = 0) -> float:
    """How far a solution moves, over its size, if all conditions change a little at random, over their terms.

    The last step of an iteration shows only the direction that it came from: a layer whose place hardly matters to any
    condition moves with what all of them are off together.
    """
    newton = Newton(held, solve, solution.tolerance, solution.on_violation)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad(), without_autocast(held.constraints[0].points.device):
        changed = []
        for c in newton.constraints:
            linear, size = c.around(solution), residual(solution, c)[1]
            signs = (torch.rand(size.shape, generator=draw, dtype=torch.float64) - 0.5).sign().to(size)
            changed.append(replace(linear, values=linear.values + LITTLE * signs * size))
        moved = newton.solved(changed, [guide.around(solution) for guide in newton.guides], solution)
        points = torch.cat([c.points for c in newton.constraints])
        before = solution(points)
        return float((moved(points) - before).abs().max() / before.abs().max().clamp_min(1e-300)) / LITTLE


def attached(newton: Newton, run: Run) -> Solution:
    """The solution of a run once more, with a graph."""
    newton.base = newton.fresh_base()  # what is remembered of it has no graph
    if run.convergence.stopped:  # no limit: the gradient is that of the last step
        again = newton.step(run.before)
        return again if again.expansion.like.requires_grad else run.solution
    found = with_gradient(newton.step, run.solution)
    if found is None:
        return run.solution
    with torch.no_grad():
        scales = newton.scales(run.solution)
        worst = newton.missed(Known(found), scales).worst
    if worst <= newton.tolerance:
        return found
    return with_gradient(newton.step, run.before) or run.solution  # near a singular one, a step more may lead away
