"""The tuner: bandwidths, size and covariances chosen by an objective, without anything set by hand.

In order: one common factor on all bandwidths by a line search; the bandwidth of every coordinate on its own; the number
of functions; for `SkewedRBF` how far the widths are spread, then training steps on all of them. A large problem is
rehearsed with fewer points first; the full size then only walks on from what the rehearsal found, towards smaller
bandwidths, since closer points resolve more. Where that leaves the equations off between the points, fields are guided
by the equations there: dearer, but better by orders of magnitude, so they are tuned in a rehearsal as well and solved
once at full size. Trials are compared by what their systems say; only the field that wins is measured condition by
condition, and if that finds more than the system knew, the next best has its turn.
"""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import replace

import torch

from cnf.errors import CnfError, CnfWarning
from cnf.field import ConstrainedField
from cnf.pde.tuning.search import SCAN, Plan, Search
from cnf.pde.tuning.trial import INEXACT, Report, Settings, Trial, Tuning
from cnf.solvers import Auto
from cnf.training.fit import fit
from cnf.training.search import search_line, walk

REFINE, RATIO = 4, math.log(2.0)  # trials that narrow the scan over bandwidths, and its first step
SIDESTEP = math.log(1.5)  # first step along one coordinate
SHRINK = math.log(0.8)  # step of the walk at full size
WORTH_IT = math.log10(3.0)  # how much better guided fields must be, at the same bandwidths, to go on with them
WIDEN = math.log(1.5)  # first step from the bandwidths of ordinary fields to those of guided ones, which may be wider
SIZES = (3.0,)  # functions per condition tried besides the first
GUIDED_SCAN, GUIDED_REFINE, GUIDED_STEPS = 2, 2, 4  # trials: first ones, narrowing, at full size
SPREADS = ((0.3, 1.0), (0.3, 2.0), (0.6, 1.0), (0.6, 2.0), (0.9, 2.0))  # (spread of log-widths, factor on the width)
CANDIDATES = 4  # fields that are measured at most until one is as exact as its system says


def tune(plan: Plan, report: Report | None = None) -> Tuning:
    r"""Search; Ctrl-C ends it with the best found so far.

    >>> space, box = cnf.Space("x", "u"), cnf.Box(0, 1)
    >>> at, between = (space.constraint(r"u = \sin(6 x)", at=x, name="data") for x in (box.grid(12), box.halton(20)))
    >>> def build(settings):
    ...     return cnf.ConstrainedField(cnf.bases.RandomFourier(space, 24, settings.bandwidth), [at])
    >>> loss = cnf.tuning.make_objective("held-out", [between], box.grid(30))
    >>> plan = cnf.tuning.Plan(build, "held-out", loss, cnf.tuning.Settings((0.4,)), free=frozenset({"bandwidth"}))
    >>> tuned = cnf.tuning.tune(plan)
    >>> tuned.best in tuned.trials, tuned.best.exact
    (True, True)
    """
    search = Search(plan, report)
    interrupted = False
    try:
        run(search)
    except KeyboardInterrupt:
        if not any(math.isfinite(t.loss) for t in search.trials):
            raise
        interrupted = True
    best, solved = finish(search)
    return Tuning(plan.objective, tuple(search.trials), best, interrupted, solved)


def run(search: Search) -> None:
    """All stages in order."""
    plan = search.plan
    rehearsal = plan.rehearse is not None
    settings = alike = plan.start
    if "bandwidth" in plan.free:
        settings = alike = tune_factor(search, settings, rehearsal)
        if len(settings.bandwidth) > 1 and not (search.done or search.indifferent):
            settings = tune_coordinates(search, settings, rehearsal)
    else:
        search.attempt(settings, rehearsal)
    if "poles" in plan.free and not search.done:
        settings = tune_poles(search, settings, rehearsal)
    if "size" in plan.free and not search.done:
        settings = tune_size(search, settings, rehearsal)
    known = search.attempt(settings, False) if rehearsal else -math.inf
    guided = tune_guided(search, settings, alike, rehearsal) if worth_guiding(search) else None
    if guided is None and known > search.enough:
        settings = walk_at_full_size(search, settings, known)
    if "spread" in plan.free:
        settings = tune_spread(search, settings)
    if plan.steps:
        train_covariances(search, plan.steps)


def tune_factor(search: Search, start: Settings, rehearsal: bool) -> Settings:
    """One factor on all bandwidths."""

    def attempt(logarithm: float) -> float:
        low, high = search.plan.factors
        if search.done or search.indifferent or not low <= math.exp(logarithm) <= high:
            return math.inf
        return search.attempt(start.widened(math.exp(logarithm)), rehearsal)

    search_line(attempt, 0.0, RATIO, SCAN, REFINE)
    return search.leader()[0]


def tune_coordinates(search: Search, start: Settings, rehearsal: bool) -> Settings:
    """The bandwidth of each coordinate on its own: up or down from the common factor while that helps."""
    best, known = start, search.leader()[1].score
    for axis in range(len(start.bandwidth)):
        origin = best

        def attempt(logarithm: float, origin: Settings = origin, axis: int = axis) -> float:
            return math.inf if search.done else search.attempt(origin.widened(math.exp(logarithm), axis), rehearsal)

        moved, found = walk(attempt, 0.0, known, SIDESTEP, 3)
        if moved == 0.0:
            moved, found = walk(attempt, 0.0, known, -SIDESTEP, 3)
        best, known = origin.widened(math.exp(moved), axis), found
    return best


def tune_poles(search: Search, start: Settings, rehearsal: bool) -> Settings:
    """Without the functions with poles, if that is better.

    Waves alone depend on each other at smaller bandwidths than together with others: where they are nothing between
    the points, they have a second try.
    """
    known, without = search.leader()[1].score, replace(start, poles=False)
    free = "bandwidth" in search.plan.free
    for candidate in (without, without.widened(math.exp(-SIDESTEP))) if free else (without,):
        found = search.attempt(candidate, rehearsal)
        if found < known:
            return candidate
        if found < INEXACT / 2:
            break
    return start


def tune_size(search: Search, start: Settings, rehearsal: bool) -> Settings:
    """More functions, if that is better."""
    best, known = start, search.leader()[1].score
    for size in SIZES:
        found = search.attempt(replace(best, size=size), rehearsal)
        if found < known:
            best, known = replace(best, size=size), found
    return best


def walk_at_full_size(search: Search, start: Settings, known: float) -> Settings:
    """From what the rehearsal found, whose score at full size is `known`, to smaller bandwidths while they help."""

    def attempt(logarithm: float) -> float:
        return search.attempt(start.widened(math.exp(logarithm)), False)

    moved, _ = walk(attempt, 0.0, known, SHRINK, 3)
    return start.widened(math.exp(moved))


def worth_guiding(search: Search) -> bool:
    """Whether the best field at full size is off by more than it need be, and by what waves can mend."""
    guiding, best = search.plan.guiding, search.best
    if guiding is None or search.indifferent:
        return False
    return best is None or search.trials[best].residual > guiding.above


def tune_guided(search: Search, start: Settings, alike: Settings, rehearsal: bool) -> Settings | None:
    """One factor on the bandwidths of a guided field, in the rehearsal if there is one; None if that is no better.

    It begins with those of ordinary fields, or with theirs before every coordinate got its own (`alike`), which may be
    more chance than reason where coordinates are many.
    """
    guiding = search.plan.guiding
    assert guiding is not None
    known = min(t.score for t in search.trials if t.conditions == search.trials[0].conditions)
    starts = [replace(s, guided=True, size=search.plan.start.size) for s in dict.fromkeys((start, alike))]
    starts[0] = narrowed_until_exact(search, starts[0], rehearsal)
    first = search.trials[-1].score
    if not first < known - WORTH_IT:
        return None  # at a singularity, for instance
    found = [(first, starts[0]), *((search.attempt(other, rehearsal), other) for other in starts[1:])]
    tried = [min(found, key=lambda found: found[0])]
    start = tried[0][1]

    def attempt(logarithm: float) -> float:
        if logarithm == 0.0:
            return tried[0][0]
        settings = start.widened(math.exp(logarithm))
        if any(score < search.enough for score, _ in tried):
            return math.inf
        tried.append((search.attempt(settings, rehearsal), settings))
        return tried[-1][0]

    search_line(attempt, 0.0, WIDEN, GUIDED_SCAN, GUIDED_REFINE)
    best = min(tried, key=lambda found: found[0])[1]
    best = replace(best, size=guiding.size) if rehearsal else best
    return narrowed_until_exact(search, best, False) if rehearsal else best


def narrowed_until_exact(search: Search, settings: Settings, rehearsal: bool) -> Settings:
    """The last settings tried, with smaller and smaller bandwidths: sums of more functions are rounded more."""
    for _ in range(GUIDED_STEPS - 1):
        search.attempt(settings, rehearsal)
        if search.trials[-1].exact:
            return settings
        settings = settings.widened(math.exp(-WIDEN))
    search.attempt(settings, rehearsal)
    return settings


def tune_spread(search: Search, start: Settings) -> Settings:
    """Draw the widths of all functions around the common ones, as widely as the objective likes best."""
    best, known = start, search.leader()[1].score
    for spread, factor in SPREADS:
        candidate = replace(start.widened(factor), spread=spread)
        found = search.attempt(candidate, False)
        if found < known:
            best, known = candidate, found
    return best


def train_covariances(search: Search, steps: int) -> None:
    """Gradient steps on all parameters of the best field; kept only if they help."""
    best = search.best
    if best is None:
        return
    settings = replace(search.settings[best], steps=steps)
    started = time.perf_counter()
    built = search.plan.build(search.settings[best])
    built.train()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CnfWarning)
            fit(
                built,
                search.plan.loss,
                steps=steps,
                lr=0.02,
                progress=False,
                log_condition_every=None,
                seed=search.plan.seed,
            )
            built.eval()
            with torch.no_grad():
                trained = search.measured(built.solve(measure=False), settings, started)
    except CnfError:
        return
    search.trained[len(search.trials)] = built
    search.record(trained, settings, True)


def finish(search: Search) -> tuple[Trial, ConstrainedField]:
    """The best at full size, measured; if there is none (stopped in the rehearsal), the leader is solved so now."""
    if search.best is None:
        search.attempt(search.leader()[0], False)
    if search.best is None:  # unsolvable at full size: let the reason be heard
        return search.leader()[1], solved_for_good(search.plan.build(search.leader()[0]))
    for _ in range(CANDIDATES):
        best = search.best
        built = search.trained.get(best) or search.begun(search.plan.build(search.settings[best]))
        built = solved_for_good(built, search.settings[best].guided)
        found = built.solution.certificate
        if found.exact or not search.trials[best].exact:
            break
        search.trials[best] = replace(search.trials[best], exact=False, missed=found.worst)
        if search.best == best:
            break
    return search.trials[best], built


def solved_for_good(built: ConstrainedField, guided: bool = False) -> ConstrainedField:
    """Solved and measured; by singular values if the plain factorisation misses conditions, and they miss less.

    Fields that were `guided` have their weights already; others would be those of an ordinary field.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)
        first = built.eval().solution.certificate
        quick = built.solver
        if first.exact or guided or quick == Auto():
            return built
        built.solver = Auto()
        if not built.solution.certificate.worst < first.worst:
            built.solver = quick
        built.solution  # noqa: B018  # solved here, without a word: whoever takes the field judges it
    return built
