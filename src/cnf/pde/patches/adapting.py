"""Adapting: solve, look between the points, cut the cells that are off, until the answer is good enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from cnf.bases.cells import Cells
from cnf.bases.corner_functions import CornerFunctions
from cnf.errors import ProblemError
from cnf.pde.patches.building import orders_of
from cnf.pde.patches.carrying import carries, wave_cells
from cnf.pde.patches.corners import functions_at
from cnf.pde.patches.degrees import DEGREES, begin_with, degrees_on
from cnf.pde.patches.edges import edge_potentials
from cnf.pde.patches.evening import evened, is_steady
from cnf.pde.patches.found_again import lost_share
from cnf.pde.patches.interfaces import stiffness_of
from cnf.pde.patches.jumps import diffused_jumps
from cnf.pde.patches.known_cells import (
    MOST_CONDITIONS,
    MOST_MARCHED,
    cells_to_begin_with,
    known_cells,
)
from cnf.pde.patches.mesh import Mesh
from cnf.pde.patches.opinions import difference_to, second_mesh
from cnf.pde.patches.orders import Orders
from cnf.pde.patches.probes import Probes
from cnf.pde.patches.pursuit import pursued
from cnf.pde.patches.question import ROUND_BEFORE, Question
from cnf.pde.patches.refining import MARKED, refine
from cnf.pde.patches.rounds import (
    UNMET,
    Adapted,
    Followed,
    Round,
    clocks,
    contradicted,
    field_difference,
    solve_round,
    worked_since,
)
from cnf.pde.patches.scouting import scouted
from cnf.pde.patches.sectors import corners_of
from cnf.pde.patches.shaped import swings_on_cut_patches
from cnf.pde.patches.solid import is_curved_solid
from cnf.pde.patches.solid_climbing import climb_solid
from cnf.pde.patches.windows import can_be_continued, cells_by_windows
from cnf.solution import Solution
from cnf.solvers.stages import MOST_STAGES

GAIN = 0.1  # of what is off: a degree that leaves no more than that is taken before cells are cut
GAIN_ON_SHAPES = 0.25  # the same on planar shapes, where one begins with low degrees
LOWEST_DEGREE, HIGHEST_DEGREE = 8, 16
STRONG = 1e-5  # over the goal: strength of guides during time; weaker ones keep weights small, and the field exact
ROUNDING = 1e-13  # estimates do not get below this: no target is followed any further
BEST = 1e-11  # without a target, what is good enough
SECONDS = 120.0  # without a target, what it may take
ROUNDS = 40
NEXT = 3  # times as long as this round: the next one, with its second opinion
WORK = 3e-10  # seconds, times the third power of the functions of a cell: eliminating it, on one processor
AMPLIFIED = 50.0  # times the share of their terms that equations miss all over the domain: what a field may be off then
NEARLY = 10  # times the target: fields that moved by less are estimated, the next refinement costs more than that
DIVERGED = 4  # rounds in a row without a solution of nonlinear equations: there may be none
INEXACT = 2  # rounds more for a field that is good enough but misses a condition
FAR, FEW = 100, 1 / 3  # times the target, and of the patches: then nobody asks whether a higher degree would do
UNRESOLVED, LOST = 0.5, 4  # of a field: what equations miss where it is not followed at all, and rounds like that
MANY = 20_000  # conditions from which on patience is short


def adapt(
    question: Question,
    target: float | None,
    report: Callable[[Round], object],
    missed: Callable[[Solution, Probes], float] = lambda solution, probes: 0.0,
    most: int = ROUNDS,
    seconds: float | None = None,
) -> Adapted:
    """Refine until the estimate is below the target, or nothing more is to be had, in so many rounds at `most`.

    With `most` = 0 there is one round, which is not estimated. The estimate is never below what `missed` says that a
    field misses of its boundary, relative to its size at the probes. What would take more than `seconds` from its first
    cells on is refused (curved solids end with what they have by then); without them, it is `SECONDS` without a target,
    and as long as it takes with one.
    """
    orders, goal = orders_of(question), BEST if target is None else max(target, ROUNDING)
    if is_curved_solid(question.domain, question.regions):
        allowed = SECONDS if target is None else math.inf
        return climb_solid(question, orders, goal, report, missed, most, allowed if seconds is None else seconds)
    return cut_cells(question, orders, target, report, missed, most, seconds)


def cut_cells(
    question: Question,
    orders: Orders,
    target: float | None,
    report: Callable[[Round], object],
    missed: Callable[[Solution, Probes], float],
    most: int,
    seconds: float | None = None,
) -> Adapted:
    """As `adapt`: smaller cells where the field is off, or higher degrees, and a second opinion of a higher one yet."""
    started = clocks()
    domain = question.domain
    corners = corner_functions(question, orders)
    goal = BEST if target is None else max(target, ROUNDING)
    smooth = all(c.exponents.real.min() > 1 for c in corners)  # elsewhere higher degrees do not see what they all miss
    climbing = smooth and is_shaped(question, corners)
    easy = BEST if corners else goal
    usual = degrees_on(domain, carries(question, orders), is_steady(question), easy)
    degree, gain = ((degree_for(goal),) * 2, GAIN_ON_SHAPES) if climbing else (usual, GAIN)
    stiffness = stiffness_of(question)
    base = diffused_jumps(question, orders) or edge_potentials(question, orders)
    begun, cells = begin_with(
        usual, len(question.space.channels), partial(known_cells, question, orders, corners, goal=goal)
    )
    degree = degree if climbing else begun
    functions = math.prod(p + 1 for p in degree) * len(question.space.channels)
    allowed = time_for(cells.count, functions, target, seconds)
    even = Probes.of(domain, question.seed)
    rounds: list[Round] = []
    estimates: dict[int, float] = {}  # by round
    others: dict[int, Solution] = {}  # the fields that say so
    windows: tuple[Followed, ...] = ()
    interrupted = False
    raised = slab_by_slab = False
    waves = swings_on_cut_patches(domain, orders.swings)
    shared = not smooth and question.regions is not None  # and where regions meet, neither does the second opinion

    def probes_on(found: Round) -> Probes:
        return even.within(found.mesh.cells, domain)

    def apart(found: Round, other: Round) -> float:
        return field_difference(found.solution, other.solution, probes_on(found), question.asked)

    def mesh_of(cells: Cells, degree: Sequence[int]) -> Mesh:
        found = Mesh.of(cells, degree, domain, corners, base, question.regions, stiffness)
        found = replace(found, first=orders if orders.first else None)
        return found if orders.time is None else replace(found, strength=min(1.0, STRONG / goal), waves=waves)

    def estimate_of(number: int) -> tuple[float, Round]:
        """How far the field of a round may be off, and the field of higher degree that says so."""
        found = rounds[number]
        if not found.converged:
            return math.inf, found
        finer = solve_round(question, orders, second_mesh(found.mesh, domain, mesh_of))
        others[number] = finer.solution
        probes = probes_on(found)
        off = difference_to(finer, found, rounds, question, orders, probes, goal)
        if shared and number:
            off = max(off, apart(found, rounds[number - 1]))
        contradiction = contradicted(question, orders, found.mesh, found.solution)
        lost = lost_share(found, question, orders, probes)
        unmet = min(1.0, AMPLIFIED * found.unmet) if found.unmet > UNMET else 0.0
        known = max(off, missed(found.solution, probes), contradiction, lost, unmet)
        return (known if known > goal else max(known, found.violation)), finer

    try:
        cells, question, windows = pursued(question, orders, cells, degree, goal)
        found = first_round(question, orders, mesh_of, cells, degree, goal)
        while True:
            rounds.append(found)
            report(found)
            last, question = found, after(question, found)
            if most < 1:
                return Adapted((found,), 0, math.inf, False, probes_on(found))
            stuck = len(rounds) >= most or _stuck(rounds, started, allowed)
            stuck |= waves and len(rounds) > 1 and last.missed > rounds[-2].missed  # they grow on smaller cells
            moved = apart(last, rounds[-2]) if len(rounds) > 1 else math.inf
            first = len(rounds) == 1 and not (climbing and few_are_off(last, goal))
            promising = min(last.worst, moved / NEARLY) <= goal or raised or first or slab_by_slab
            if stuck or (promising and last.converged and not (shared and len(rounds) == 1)):
                estimates[len(rounds) - 1], finer = estimate_of(len(rounds) - 1)
                good = sum(estimate <= goal for estimate in estimates.values())
                if stuck or (good and (last.exact or good > INEXACT)):
                    break
                before = estimates.get(len(rounds) - 2, math.inf) if raised else math.inf
                gained = finer.missed < gain * last.missed and estimates[len(rounds) - 1] < gain * before
                raised = gained and smooth and max(finer.mesh.degree) <= HIGHEST_DEGREE
                raised &= not waves or finer.mesh.degree[-1] < MOST_STAGES  # the second opinion has a stage more
                if raised:  # smooth enough: a higher degree is worth more than smaller cells
                    found, degree = finer, finer.mesh.degree
                    continue
            cells, slab_by_slab = next_cells(question, orders, rounds, goal, started, allowed)
            found = solve_round(question, orders, mesh_of(cells, degree))
        least = int(np.argmin([r.missed if r.converged else math.inf for r in rounds]))  # may be neither first nor last
        if least not in estimates and min(estimates.values()) > goal:
            estimates[least] = estimate_of(least)[0]
    except KeyboardInterrupt:
        if not rounds:
            raise
        interrupted = True
        estimates.setdefault(len(rounds) - 1, apart(rounds[-1], rounds[-2]) if len(rounds) > 1 else math.inf)
    best, estimate = best_of(rounds, estimates, goal)
    probes = probes_on(rounds[best])
    return Adapted(tuple(rounds), best, estimate, interrupted, probes, others.get(best), windows)


def best_of(rounds: Sequence[Round], estimates: Mapping[int, float], goal: float) -> tuple[int, float]:
    """The number of the round to keep, and how far it may be off."""
    best = min(
        estimates, key=lambda k: (not (estimates[k] <= goal and rounds[k].exact), estimates[k]), default=len(rounds) - 1
    )
    if best not in estimates:
        return best, math.inf
    return best, max(
        estimates[best], rounds[best].violation, float(np.finfo(np.float64).eps)
    )  # fields may agree by luck


def after(question: Question, found: Round) -> Question:
    """The question where a field is known that nearly answers it, if there is one."""
    return question.after(found.solution, ROUND_BEFORE) if found.converged else question


def gave_up(rounds: Sequence[Round]) -> bool:
    """Whether so many rounds in a row have found no solution that there may be none."""
    return len(rounds) >= DIVERGED and not any(r.converged for r in rounds[-DIVERGED:])


def next_cells(
    question: Question,
    orders: Orders,
    rounds: Sequence[Round],
    goal: float,
    started: tuple[float, float],
    allowed: float,
) -> tuple[Cells, bool]:
    """Smaller cells than those of the last round, and whether their slabs were refined one after the other.

    So they are if the first rounds are nothing like a solution, as far as slabs can be solved that way.
    """
    last = rounds[-1]
    functions = math.prod(p + 1 for p in last.mesh.degree) * last.channels

    def enough(count: int) -> bool:
        return count * functions > MOST_MARCHED or worked_since(started) > allowed

    if last.mesh.waves:
        return evened(halved_for_waves(question, orders, last), orders.time), False
    slabs = None
    lost = len(rounds) == LOST and not any(found.worst <= UNRESOLVED for found in rounds)
    if lost and last.mesh.base is None and can_be_continued(question, orders):
        slabs = cells_by_windows(question, orders, last.mesh.cells, last.mesh.degree, goal, enough)
    cells = refine(last, orders) if slabs is None else slabs
    return (evened(cells, orders.time) if is_steady(question) else cells), slabs is not None


def first_round(
    question: Question,
    orders: Orders,
    mesh_of: Callable[[Cells, tuple[int, ...]], Mesh],
    cells: Cells,
    degree: tuple[int, ...],
    goal: float,
) -> Round:
    """On these cells; in space and time on the slabs that are scouted, unless detail is carried along in them."""

    def solve(cells: Cells, degree: tuple[int, ...]) -> Round:
        return solve_round(question, orders, mesh_of(cells, degree))

    if question.domain.dimension == 4 and not carries(question, orders):
        cells = scouted(cells, degree, goal, solve)
    return solve(cells, degree)


def halved_for_waves(question: Question, orders: Orders, last: Round) -> Cells:
    """Cells half as wide, and slabs as short as these allow, where waves travel through cut patches."""
    cells, begin = last.mesh.cells, cells_to_begin_with(question, ())
    widest = (cells.upper - cells.lower).max(axis=0) / 2
    return wave_cells(question, orders, begin, last.mesh.degree, widest, MOST_MARCHED)


def time_for(cells: int, functions: int, target: float | None, seconds: float | None) -> float:
    """Seconds that refinement may take; those given are refused if the first round and its second opinion take more."""
    if seconds is None:
        return SECONDS if target is None else math.inf
    expected = NEXT * WORK * cells * functions**3
    if expected > seconds:
        raise ProblemError(
            f"{cells} patches of {functions} functions would take about {expected:.0f} s, more than the {seconds:.0f} "
            "s that they may; use method = 'patches' to have them take their time",
            ("solve", "method"),
        )
    return seconds


def degree_for(goal: float) -> int:
    """The degree to begin with on a planar shape: low ones cost little and are raised where that gains most."""
    return int(np.clip(2 * math.ceil(2 - math.log10(goal) / 2), LOWEST_DEGREE, DEGREES[2]))


def few_are_off(found: Round, goal: float) -> bool:
    """Whether a field is far from a goal in few patches: cutting those costs less than a higher degree in all."""
    marked = found.off > MARKED * found.worst
    return bool(found.worst > FAR * goal and marked.mean() < FEW)


def is_shaped(question: Question, corners: Sequence[CornerFunctions]) -> bool:
    """Whether patches are those of a planar shape: one that is no box, or with regions or singular corners."""
    domain = question.domain
    planar = domain.dimension == 2 and question.time is None
    return planar and (not domain._is_box or question.regions is not None or bool(corners))


def corner_functions(question: Question, orders: Orders) -> list[CornerFunctions]:
    """Of all corners of a planar domain and of its regions, for equations of second order."""
    if question.domain.dimension != 2 or orders.time is not None or not orders.second:
        return []
    corners = corners_of(question.domain, question.regions)
    return [functions for corner in corners for functions in functions_at(question, corner)]


def _stuck(rounds: list[Round], started: tuple[float, float], allowed: float) -> bool:
    """Whether more rounds are of no use, or take too long."""
    last, spent = rounds[-1], worked_since(started)
    conditions = last.conditions
    growing = last.at_once * 2 > MOST_CONDITIONS or conditions * 2 > MOST_MARCHED
    long = spent + NEXT * last.seconds > allowed
    worst = [r.missed for r in rounds]
    patience = 4 if conditions > MANY else 10
    flat = len(worst) > patience and min(worst[-patience:]) > 0.5 * min(worst[:-patience])
    return growing or long or flat or gave_up(rounds)
