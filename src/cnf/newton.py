"""Newton: nonlinear conditions, met by a sequence of linear solves.

Every step linearises the conditions around a state and solves for the field of smallest weights that meets the linear
ones: the field is found anew, not corrected, so that rough first steps leave no trace in it. The state is what the
conditions see of a field, its jets at their points; the line search moves it towards the new field as far as the
conditions, each relative to its size, are missed by less.

Where conditions leave much open, the field of smallest weights moves along with the state, and steps come closer by
the same share every time. Once that shows, the next state is the mixture of the last fields that would have moved least
(Anderson's acceleration).

Gradients: the iteration runs without a graph; what it converges to is differentiated by `cnf.implicit`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cnf.bases.basis import Basis
from cnf.certificate.convergence import Convergence
from cnf.certificate.sizes import extents, row_sizes, tied_term_sizes
from cnf.constraints import Constraint
from cnf.errors import BasisError, CnfError, NotANumberError
from cnf.operators.expansion import expand
from cnf.operators.forward import MultiIndex
from cnf.operators.nonlinear import Constant, State
from cnf.settling import Run
from cnf.solution import Solution
from cnf.solving import base_function
from cnf.stopping import GROWS, NO_NUMBER, stalled, steady
from cnf.systems.assembly import applied
from cnf.systems.base_function import BaseFunction
from cnf.systems.formulation import Expansion
from cnf.systems.holding import Parts
from cnf.systems.sides import sides_of
from cnf.systems.states import Between, Differentiated, Known, Mixed
from cnf.telling import tell

MOST_STEPS = 40
SHORTEST = 2.0**-10  # of a step, along the way to the new field
FALLS = 0.5  # a step that leaves more than this of what was missed does not help any more, once all holds
SETTLED = 1e-9  # the next change, where conditions leave room: they hold long before the weights are the smallest
ENOUGH = 1e-13  # missed, relative to the sizes of the terms: nothing but rounding
SLOW, NEAR, KEPT = 0.1, 0.3, 4  # of a change that is left, how small it is then, and fields that are mixed
FARTHER = 1e2  # times as much may be missed by a mixture: the next step makes up for it
BLOWN_UP = 1e100
CRAWLING, PATIENCE = 1 / 8, 2  # steps cut that short, and how many of them in a row: it leads nowhere

Seen = Sequence[tuple[Tensor, tuple[MultiIndex, ...]]]  # places, and the derivatives looked at there
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
        self.ties = tuple(tie.renewed() for tie in held.basis.ties if not tie.is_linear)
        self.moving = (*self.ties, *(tie.renewed() for tie in held.basis.loose if not tie.is_linear))
        if self.moving and self.base is not None:
            raise CnfError(
                "conditions between regions that are not linear cannot be used beside a base of their own; leave out "
                "base=, or make the condition linear"
            )
        self.channels = len(held.basis.space.channels)
        self.lengths = extents(self.constraints)
        basis, asked = held.basis, sum(c.rows for c in held.constraints) + held.basis.brought_conditions
        self.leaves_room = asked < basis.size * (1 if basis.joint else self.channels)

    def fresh_base(self) -> BaseFunction | None:
        """The base as a function."""
        return None if self.held.base is None else base_function(self.held.basis, self.held.base, self.constraints)

    # -- one step --------------------------------------------------------------------------------------------------

    def step(self, state: State) -> Solution:
        """The field of smallest weights that meets the conditions linearised around the state."""
        around = tuple(c.around(state) for c in self.constraints)
        return self.solved(around, [guide.around(state) for guide in self.guides], state)

    def solved(
        self, conditions: Sequence[Constraint], guides: Sequence[Constraint], state: State | None = None
    ) -> Solution:
        basis = self.held.basis.guided_by(guides) if guides else self.held.basis
        if self.moving and state is not None:
            basis = basis.tied_around(sides_of(state, basis))
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
        """The sizes of the linearised conditions, (P, R) each: by these, residuals of different kinds are compared.

        Those of constraints, then those of ties that are not linear.
        """
        found = []
        for c in self.constraints:
            probes = c.expanded() if c.nonlinear is None else expand(c.nonlinear.around(state), c.points, c.rules)
            found.append(row_sizes(probes, _shape(c), self.lengths))
        for tie in self.ties:
            sides = tie.around(sides_of(state, self.held.basis)).sides()
            found.append(torch.hypot(*(row_sizes(c.expanded(), _shape(c), self.lengths) for c, _, _ in sides)))
        return [torch.where(size > 0, size, size.max() or 1.0) for size in found]

    def missed(self, state: State, scales: Sequence[Tensor]) -> Missed:
        """How far the conditions are from being met by a state."""
        squares, count, worst = 0.0, 0, 0.0
        amplitude = max(self._amplitude(state), 1e-300)
        found, own = [], len(self.constraints)
        for c, scale in zip(self.constraints, scales[:own], strict=True):
            off, size = residual(state, c)
            found.append((off, scale, size.maximum(scale * amplitude)))
        for tie, scale in zip(self.ties, scales[own:], strict=True):
            off, size = tie.missed(sides_of(state, self.held.basis))
            found.append((off, scale, tied_term_sizes(size, scale * amplitude)))
        for off, scale, size in found:
            squares += float((off / scale).square().sum())
            count += off.numel()
            relative = float((off.abs() / size).max())
            worst = max(worst, math.inf if math.isnan(relative) else relative)
        merit = math.sqrt(squares / count)
        return Missed(merit if math.isfinite(merit) else math.inf, worst if math.isfinite(worst) else math.inf)

    def _amplitude(self, state: State) -> float:
        """The largest value of the state at the points of the conditions."""
        values = (0,) * self.constraints[0].points.shape[1]
        seen = (state.derivatives(c.points, [values])[values] for c in self.constraints)
        return max(float(found.abs().max()) for found in seen)

    def jets(self, state: Known, places: Seen) -> Tensor:
        """What the conditions see of a state at places, derivatives in units of the lengths of the problem, (n,)."""
        looks: list[tuple[State, Tensor, tuple[MultiIndex, ...]]] = [(state, x, indices) for x, indices in places]
        beside = sides_of(state, self.held.basis)
        for tie in self.moving:  # these see both sides of a face
            for c, cells, _ in tie.sides():
                looks.append((beside(cells), c.points, c.nonlinear.indices if c.nonlinear is not None else ()))
        found = []
        for one, x, indices in looks:
            lengths, seen = self.lengths.to(x), one.derivatives(x, indices) if indices else {}
            found += [(seen[i] * (lengths ** lengths.new_tensor(i)).prod()).reshape(-1) for i in indices]
        return torch.cat(found)

    # -- all steps -------------------------------------------------------------------------------------------------

    def run(self, start: State, named: str) -> Run | None:
        """Steps until the conditions hold and nothing is gained any more, or until they no longer get closer.

        None if the conditions are no numbers at the start.
        """
        state = Known(start)
        found: tuple[Solution, State] | None = None
        best, latest, sensitivity = math.inf, None, math.nan
        missed: list[float] = []
        merits: list[float] = []
        norms: list[float] = []
        changes: list[float] = []
        full: list[tuple[Known, Known]] = []  # states and the fields that followed, of the last steps in full length
        shortened, stopped, crawls = 0, "", 0
        for _ in range(MOST_STEPS):
            scales = self.scales(state)
            now = self.missed(state, scales)
            missed = missed or [now.worst]
            merits.append(now.merit)
            if not all(bool(torch.isfinite(s).all()) for s in scales) or not math.isfinite(now.merit):
                stopped = NO_NUMBER
                break
            try:
                solution = self.step(state)
            except BasisError:  # derivatives of conditions are not numbers, though these are
                stopped = NO_NUMBER
                break
            latest = (solution, state)
            norms.append(float(solution.expansion.weight_norm))
            if not math.isfinite(norms[-1]) or norms[-1] > BLOWN_UP:
                stopped = GROWS
                break
            new = Known(solution)
            change = self._change(state, new)
            if not changes and now.worst <= self.tolerance:  # of another basis, say: nothing would be better than it
                share, then = 1.0, self.missed(new, scales)
            else:
                share, then = self._shared(state, new, scales, now)
            missed.append(then.worst)
            tell(f"Newton step {len(missed) - 1}: conditions missed by {then.worst:.0e}")
            changes.append(change * share)
            shortened += share < 1
            if share == 1 and then.worst <= max(best, ENOUGH):
                found, best = latest, min(best, then.worst)
                sensitivity = change / now.worst if now.worst > 0 else math.nan
            holds = share == 1 and then.worst <= self.tolerance
            crawls = crawls + 1 if share <= CRAWLING else 0
            rate = min(change / changes[-2], 1.0) if len(changes) > 1 and changes[-2] > 0 else 1.0
            settled = not self.leaves_room or rate * change <= SETTLED
            stuck = then.merit > FALLS * now.merit
            done = stuck or then.worst <= ENOUGH if settled else stuck and len(changes) > 1 and rate > FALLS
            if share == 0 or crawls > PATIENCE or (holds and done):
                break
            full = [*full, (state, new)][-KEPT:] if share == 1 else []
            slow = share == 1 and len(full) > 1 and SLOW * changes[-2] < change < NEAR
            mixed = self._mixed(full, scales, now) if slow else None
            state = mixed or (new if share == 1 else Known(Between(state, new, share)))
        stopped = "" if best <= self.tolerance else stopped or steady(merits, norms) or stalled(missed)
        if latest is None:
            return None
        solution, before = found or latest
        told = Convergence(named, tuple(missed), tuple(changes), shortened, stopped, sensitivity=sensitivity)
        return Run(solution, told, before)

    def _mixed(self, full: Sequence[tuple[Known, Known]], scales: Sequence[Tensor], now: Missed) -> Known | None:
        """The mixture of the last fields whose states would have changed least; None if it misses far more.

        Of fields f_k that followed states s_k, sum a_k f_k with sum a_k = 1 and |sum a_k (f_k - s_k)| smallest.
        """
        places = full[-1][0].places
        moved = [self.jets(new, places) - self.jets(state, places) for state, new in full]
        against = torch.stack([m - moved[-1] for m in moved[:-1]], dim=1)  # (n, k)
        sizes = torch.linalg.vector_norm(against, dim=0).clamp_min(1e-300)
        found = torch.linalg.lstsq((against / sizes).to("cpu"), -moved[-1][:, None].to("cpu"), driver="gelsd").solution
        shares = (found[:, 0].to(sizes) / sizes).tolist()
        if not all(map(math.isfinite, shares)):
            return None
        mixture = Known(Mixed(tuple(new for _, new in full), (*shares, 1 - math.fsum(shares))))
        return mixture if self.missed(mixture, scales).merit <= FARTHER * now.merit else None

    def found(self, start: State | None) -> Run:
        """From the start that was given or, one after the other until one converges, from those that always are."""
        best: Run | None = None
        for make, named in self.starts(start):
            state = make()
            if state is None:
                continue
            tried = self.run(state, named)
            if tried is not None and (best is None or tried.reached < best.reached):
                best = tried
            if best is not None and not best.convergence.stopped:
                return best
        if best is None:
            raise NotANumberError(
                "the nonlinear conditions are not numbers where the iteration begins (a division by zero, a root of a "
                "negative number, a field that blew up?); give a start at which they are: start=a field, or any "
                "function of points"
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
        return replace(self.solved(kept, guides), constraints=tuple(kept))

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

    def _change(self, state: Known, new: Known) -> float:
        """How far apart two states are where the conditions look, relative to the size of the second."""
        before, after = (self.jets(one, state.places) for one in (state, new))
        size, apart = float(after.abs().max()), float((before - after).abs().max())
        found = apart / size if size else (math.inf if apart else 0.0)
        return found if math.isfinite(found) else math.inf


def without_beyond(condition: Constraint) -> Constraint | None:
    """The condition without what is nonlinear in it; None if there is nothing else in one of its rows."""
    if condition.nonlinear is None:
        return condition
    linear, values = condition.nonlinear.linear, condition.values if condition.asked is None else condition.asked
    return replace(condition, operator=linear, values=values, nonlinear=None, asked=None) if all(linear.rows) else None


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
