"""Asking patches: what is to be solved on patches, from a problem."""

from __future__ import annotations

from cnf.operators.nonlinear import Called
from cnf.pde.patches.local_bases import LOCAL_BASES
from cnf.pde.patches.lowering import with_moments
from cnf.pde.patches.question import Question
from cnf.pde.patches.rates import with_rates
from cnf.pde.problems.problem import Problem


def question_of(problem: Problem) -> Question:
    """What patches need to know."""
    placing, local, start = problem._placing, problem.solving.local, problem.start
    question = Question(
        problem.space,
        problem.domain,
        problem.constraints,
        placing.places,
        placing.at,
        problem.solving.tolerance,
        problem.seed,
        problem.regions,
        problem.jumps,
        LOCAL_BASES.get(local) if isinstance(local, str) else local,
        state=start.state if isinstance(start, Called) else start,  # patches look at what kind of a field it is
        begun=start.called if isinstance(start, Called) else "",
    )
    return question.shown()


def lowered(question: Question) -> Question:
    """With channels for rates and moments, so that patches know the orders."""
    return with_moments(with_rates(question)).shown()
