"""Newton: nonlinear conditions, met by a sequence of linear solves.

Every step linearises the conditions around a state and solves for the field of smallest weights that meets the linear
ones: the field is found anew, not corrected, so that rough first steps leave no trace in it. The state is what the
conditions see of a field, its jets at their points; the line search moves it towards the new field as far as the
conditions, each relative to its size, are missed by less.

Gradients: the iteration runs without a graph; its last steps are taken once more with one. A step depends on the state
before it only by what the linearisation leaves to the smallest weights, so that few of them, as many as the contraction
measured there asks for, give the derivative of the limit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cnf.bases.basis import Basis
from cnf.bases.piecewise import Piecewise
from cnf.bases.precision import without_autocast
from cnf.certificate import certify, judge
from cnf.certificate.convergence import Convergence
from cnf.certificate.sizes import extents, row_sizes
from cnf.constraints import Constraint
from cnf.errors import BasisError, CnfError, NotANumberError
from cnf.operators.forward import MultiIndex
from cnf.operators.nonlinear import Constant, State
from cnf.settling import settled
from cnf.solution import Solution
from cnf.solving import SAMPLE, base_function
from cnf.systems.assembly import applied, derived
from cnf.systems.base_function import BaseFunction
from cnf.systems.formulation import Expansion
from cnf.systems.holding import Parts
from cnf.systems.sides import Between, Known, Sides, sides_of
from cnf.telling import tell

MOST_STEPS = 40
SHORTEST = 2.0**-10  # of a step, along the way to the new field
FALLS = 0.5  # a step that leaves more than this of what was missed does not help any more, once all holds
ENOUGH = 1e-13  # missed, relative to the sizes of the terms: nothing but rounding
MOST_ATTACHED = 6  # steps that gradients go through
BLOWN_UP = 1e100
NO_NUMBER = (
    "a condition, or its slope, is not a number at the field that the iteration came to (a division by zero, a root or "
    "logarithm of a negative number); give a start at which they are, nearer to the solution"
)
CRAWLING, PATIENCE = 1 / 8, 2  # steps cut that short, and how many of them in a row: it leads nowhere

Solve = Callable[[Basis, Sequence[Constraint], Sequence[Tensor]], Expansion]  # linear conditions, what is to be made up


@dataclass(frozen=True)
class Missed:
    """What a state misses: `merit` over the sizes of conditions, `worst` over their terms or natural sizes."""

    merit: float
    worst: float


class Newton:
    """The iteration for the parts of one field; `solve` makes and solves the linear systems."""

    def __init__(self, held: Parts, solve: Solve, tolerance: float, on_violation: str):
        self.held, self.solve_linear = held, solve
        self.tolerance, self.on_violation = tolerance, on_violation
        self.constraints = tuple(c.renewed() for c in held.constraints)
        self.guides = tuple(c.renewed() for c in held.basis.guiding)
        self.base, own = self.fresh_base(), self.fresh_base()
        if self.base is not None and own is not None:  # iterates share it, and it may be dear: potentials of edges
            self.base.derivatives = Known(Differentiated(own)).derivatives  # type: ignore[assignment]
        self.ties = tuple(tie for tie in getattr(held.basis, "ties", ()) if not tie.is_linear)
        if self.ties and self.base is not None:
            raise CnfError("conditions between regions that are not linear cannot be used beside a base of their own")
        self.channels = len(held.basis.space.channels)
        self.lengths = extents(self.constraints)

    def fresh_base(self) -> BaseFunction | None:
        """The base as a function."""
        return None if self.held.base is None else base_function(self.held.basis, self.held.base, self.constraints)

    # -- one step --------------------------------------------------------------------------------------------------

    def step(self, state: State) -> Solution:
        """The field of smallest weights that meets the conditions linearised around the state."""
        around = tuple(c.around(state) for c in self.constraints)
        return self._solved(around, [guide.around(state) for guide in self.guides], state)

    def _sides(self, state: State) -> Sides:
        assert isinstance(self.held.basis, Piecewise)
        return sides_of(state, self.held.basis)

    def _solved(
        self, conditions: Sequence[Constraint], guides: Sequence[Constraint], state: State | None = None
    ) -> Solution:
        basis = self.held.basis.guided_by(guides) if guides else self.held.basis
        if self.ties and state is not None:
            basis = basis.tied_around(self._sides(state))
        return self._solution(self.solve_linear(basis, conditions, [self._made_up(c) for c in (*conditions, *guides)]))

    def _solution(self, expansion: Expansion) -> Solution:
        return Solution(
            self.held.basis.space,
            self.held.basis,
            expansion.tied_as(self.held.basis) if self.ties else expansion,
            self.base,
            self.constraints,
            self.tolerance,
            self.on_violation,
            surroundings=self.held.surroundings,
        )

    def _made_up(self, condition: Constraint) -> Tensor:
        if self.base is None:
            return condition.values
        return condition.values - applied(self.base, condition.expanded(), condition.values.shape)

    def scales(self, state: State) -> list[Tensor]:
        """The sizes of the linearised conditions, (P, R) each: by these, residuals of different kinds are compared."""
        found = []
        for c in self.constraints:
            size = row_sizes(c.around(state).expanded(), _shape(c), self.lengths)
            found.append(torch.where(size > 0, size, size.max() or 1.0))
        return found

    def missed(self, state: State, scales: Sequence[Tensor]) -> Missed:
        """How far the conditions are from being met by a state."""
        squares, count, worst = 0.0, 0, 0.0
        amplitude = max(self._amplitude(state), 1e-300)
        for c, scale in zip(self.constraints, scales, strict=True):
            off, size = residual(state, c)
            squares += float((off / scale).square().sum())
            count += off.numel()
            relative = float((off.abs() / size.maximum(scale * amplitude)).max())
            worst = max(worst, math.inf if math.isnan(relative) else relative)
        for tie in self.ties:
            off, size = tie.missed(self._sides(state))
            relative = off.abs() / size.clamp_min(1e-300)
            squares, count = squares + float((amplitude * relative).square().sum()), count + off.numel()
            worst = max(worst, math.inf if bool(relative.isnan().any()) else float(relative.max()))
        merit = math.sqrt(squares / count)
        return Missed(merit if math.isfinite(merit) else math.inf, worst if math.isfinite(worst) else math.inf)

    def _amplitude(self, state: State) -> float:
        """The largest value of the state at the points of the conditions."""
        values = (0,) * self.constraints[0].points.shape[1]
        seen = (state.derivatives(c.points, [values])[values] for c in self.constraints)
        return max(float(found.abs().max()) for found in seen)

    def jets(self, state: State) -> list[Tensor]:
        """What the conditions see of a state: all derivatives they ask for, (P, K), constraint by constraint."""
        found = []
        for c in self.constraints:
            frame = c.operator._needs_frame()
            indices = sorted({frame.multi_index(term.derivatives) for row in c.operator.rows for term in row})
            seen = state.derivatives(c.points, indices)
            lengths = c.points.new_tensor(self.lengths)
            found.append(torch.cat([seen[i] * (lengths ** lengths.new_tensor(i)).prod() for i in indices], dim=1))
        return found

    # -- all steps -------------------------------------------------------------------------------------------------

    def run(self, start: State, named: str) -> tuple[Solution, Convergence] | None:
        """Steps until the conditions hold and nothing is gained any more, or until they no longer get closer.

        None if the conditions are no numbers at the start.
        """
        state: State = Known(start)
        found, best, latest = None, None, None
        missed: list[float] = []
        changes: list[float] = []
        shortened, stopped, crawls = 0, "", 0
        for _ in range(MOST_STEPS):
            scales = self.scales(state)
            now = self.missed(state, scales)
            missed = missed or [now.worst]
            if not all(bool(torch.isfinite(s).all()) for s in scales) or not math.isfinite(now.merit):
                stopped = NO_NUMBER
                break
            try:
                solution = latest = self.step(state)
            except BasisError:  # derivatives of conditions are not numbers, though these are
                stopped = NO_NUMBER
                break
            if not math.isfinite(solution.expansion.weight_norm) or solution.expansion.weight_norm > BLOWN_UP:
                stopped = "the iterates grow beyond all bounds; give a start nearer to the solution, if there is one"
                break
            new = Known(solution)
            change = self._change(state, new)
            share, then = self._shared(state, new, scales, now)
            missed.append(then.worst)
            tell(f"Newton step {len(missed) - 1}: conditions missed by {then.worst:.0e}")
            changes.append(change * share)
            shortened += share < 1
            if share == 1 and (best is None or then.worst <= best):
                found, best = solution, then.worst
            holds = share == 1 and then.worst <= self.tolerance
            crawls = crawls + 1 if share <= CRAWLING else 0
            if share == 0 or crawls > PATIENCE or (holds and (then.worst <= ENOUGH or then.merit > FALLS * now.merit)):
                stopped = "" if holds or (best or math.inf) <= self.tolerance else _stalled(missed)
                break
            state = new if share == 1 else Known(Between(state, new, share))
        else:
            stopped = "" if best is not None and best <= self.tolerance else _stalled(missed)
        shown = found or latest
        if shown is None:
            return None
        return shown, Convergence(named, tuple(missed), tuple(changes), shortened, stopped)

    def found(self, start: State | None) -> tuple[Solution, Convergence]:
        """From the start that was given or, one after the other until one converges, from those that always are."""
        best: tuple[Solution, Convergence] | None = None
        for make, named in self.starts(start):
            state = make()
            if state is None:
                continue
            tried = self.run(state, named)
            if tried is not None and (best is None or min(tried[1].missed) < min(best[1].missed)):
                best = tried
            if best is not None and not best[1].stopped:
                return best
        if best is None:
            raise NotANumberError(
                "the nonlinear conditions are not numbers where the iteration begins (a division by zero, a root of a "
                "negative number?); give a start at which they are: start=a field, or any function of points"
            )
        return best

    def starts(self, start: State | None) -> list[tuple[Callable[[], State | None], str]]:
        """States to begin with, made when it is their turn, and what they are called."""
        if start is not None:
            return [(lambda: start, getattr(start, "called", "the field given"))]
        known: list[tuple[Callable[[], State | None], str]] = [(self.linear_part, "the linear part")]
        known.append((lambda: Constant(self.channels, 1.0), "one"))
        if self.base is not None:
            base = self.base
            return [(lambda: Differentiated(base), "the base"), *known]
        return [(lambda: Constant(self.channels, 0.0), "zero"), *known]

    def linear_part(self) -> State | None:
        """The field that meets the conditions without what is nonlinear in them; None if that leaves one empty."""
        kept = [linear for linear in map(without_beyond, self.constraints) if linear is not None]
        guides = [linear for linear in map(without_beyond, self.guides) if linear is not None]
        if len(kept) < len(self.constraints) or len(guides) < len(self.guides):
            return None
        return replace(self._solved(kept, guides), constraints=tuple(kept))

    def _shared(self, state: State, new: State, scales: Sequence[Tensor], now: Missed) -> tuple[float, Missed]:
        """How far to go towards the new field, and what is missed there; 0 if nothing on the way is better."""
        share, best = 1.0, (0.0, now)
        while share >= SHORTEST:
            then = self.missed(new if share == 1 else Between(state, new, share), scales)
            if then.merit < (1 - share / 4) * now.merit or then.worst <= self.tolerance:
                return share, then
            if then.merit < best[1].merit:
                best = (share, then)
            share /= 2
        return best

    def _change(self, state: State, new: State) -> float:
        """How far apart two states are at the points of the conditions, relative to the size of the second."""
        before, after = self.jets(state), self.jets(new)
        size = max(float(jets.abs().max()) for jets in after)
        apart = max(float((one - other).abs().max()) for one, other in zip(before, after, strict=True))
        found = apart / size if size else 0.0
        return found if math.isfinite(found) else math.inf


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
            solution, convergence = settled(newton, newton.found(start))
        keep(None if convergence.stopped else solution)
        if torch.is_grad_enabled():
            solution = attached(newton, solution, convergence)
        seconds = held.seconds + time.perf_counter() - started
        solution = replace(solution, seconds=seconds, convergence=convergence)
        held.return_statistics()
        if not measure:
            return solution
        sampled = training and solution.expansion.like.requires_grad and torch.is_grad_enabled()
        found = certify(solution, tolerance, seconds, solution.made_up, SAMPLE if sampled else None)
    judge(found, on_violation)
    return replace(solution, spot_check=found)


def attached(newton: Newton, solution: Solution, convergence: Convergence) -> Solution:
    """The solution once more, with the graph of the last steps that lead to it."""
    newton.base = newton.fresh_base()  # what is remembered of it has no graph
    state: State = solution
    rate = convergence.contraction
    needed = 2 if math.isnan(rate) else math.ceil(math.log(1e-12) / math.log(min(max(rate, 1e-12), 0.5)))
    for _ in range(min(max(needed, 2), MOST_ATTACHED)):
        try:
            state = newton.step(state)
        except BasisError:
            if convergence.stopped:  # nothing can be said about the slopes of what was not found
                return solution
            raise
        if not state.expansion.like.requires_grad:
            return solution
    assert isinstance(state, Solution)
    return state


def without_beyond(condition: Constraint) -> Constraint | None:
    """The condition without what is nonlinear in it; None if there is nothing else in one of its rows."""
    if condition.nonlinear is None:
        return condition
    linear, values = condition.nonlinear.linear, condition.values if condition.asked is None else condition.asked
    return replace(condition, operator=linear, values=values, nonlinear=None, asked=None) if all(linear.rows) else None


def start_of(given: object) -> State | None:
    """A field or any function of points, as the start of an iteration."""
    if given is None or hasattr(given, "derivatives"):
        return given
    if callable(given):
        return Differentiated(given)
    raise CnfError(
        f"start is a field or a function of points (P, D) -> (P, C), such as a solution; got a {type(given).__name__}"
    )


@dataclass(frozen=True, eq=False)
class Differentiated:
    """Any function of points as a state."""

    function: Callable[[Tensor], Tensor]

    def derivatives(self, x: Tensor, indices: Sequence[MultiIndex]) -> dict[MultiIndex, Tensor]:
        return derived(self.function, x, indices)


def residual(state: State, condition: Constraint) -> tuple[Tensor, Tensor]:
    """N[s] - g of a condition, and the sizes of its terms together, both (P, R)."""
    asked = condition.values if condition.asked is None else condition.asked
    found, size = condition.beyond(state)
    shape = _shape(condition)
    for probe in condition.linear_part:
        apart = probe.term_by_term()
        rows = replace(apart, rows=tuple(range(len(apart.requests))))
        parts = applied(state, [rows], (shape[0], len(apart.requests)))  # type: ignore[arg-type]
        for k, r in enumerate(apart.rows):
            where = torch.tensor([r], device=parts.device)
            found = found.index_add(1, where, parts[:, k : k + 1])
            size = size.index_add(1, where, parts[:, k : k + 1].abs())
    return found - asked, size + asked.abs()


def _shape(condition: Constraint) -> tuple[int, int]:
    return condition.values.shape[0], condition.values.shape[1]


def _stalled(missed: Sequence[float]) -> str:
    return (
        f"after {len(missed) - 1} steps the conditions are missed by {missed[-1]:.0e} of their terms and no longer get "
        "closer. There may be no solution, or the start is too far from one: give a start near it, change a parameter "
        "step by step, or use a finer basis (a smaller bandwidth, more functions)"
    )
