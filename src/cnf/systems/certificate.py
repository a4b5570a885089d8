"""Certificate: the measured proof that a field meets its conditions, or the explanation why it does not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from cnf.systems.diagnostics import Conflict

if TYPE_CHECKING:
    from cnf.solvers.solver import Factor


class Residual(float):
    """The worst |L f - g| of a constraint, itself a number; `.relative` is the same relative to the data.

    Relative: the residual of a row over its own right-hand side, or, where that is smaller, over the median of all
    right-hand sides, every row divided by the norm of its row of A first, but never over more than the natural size of
    the condition (`cnf.systems.sizes`). This does not change when a condition or the field is rescaled, and one huge
    right-hand side does not hide the others.
    """

    absolute: float
    relative: float

    def __new__(cls, absolute: float, relative: float) -> Residual:
        found = super().__new__(cls, absolute)
        found.absolute, found.relative = absolute, relative
        return found

    def __getnewargs__(self) -> tuple[float, float]:  # type: ignore[override]
        return self.absolute, self.relative

    def __iter__(self) -> Iterator[float]:
        return iter((self.absolute, self.relative))

    def __repr__(self) -> str:
        return f"Residual(absolute={self.absolute:.3g}, relative={self.relative:.3g})"


LARGE_WEIGHTS = 1e6  # weights over data from which on an exact solution gets a word of caution


@dataclass(frozen=True, repr=False)
class Certificate:
    """What one solve achieved. Rank, condition and conflicts are worked out when first asked for."""

    residuals: Mapping[str, Residual]
    tolerance: float
    conditions: int  # M
    functions: int  # N, per channel
    channels: int
    weight_norm: float
    data_size: float  # the largest right-hand side, every row divided by its norm
    seconds: float
    factors: tuple[Factor, ...]
    served: tuple[int, ...]  # right-hand sides solved with each factor
    explain: Callable[[], tuple[Conflict, ...]]
    quadrature: Mapping[str, float] = field(default_factory=dict)  # worst error of the integrals in each constraint
    hint: str = ""  # what is known to be the reason if the tolerance is missed

    @property
    def worst(self) -> float:
        """The largest relative residual."""
        return max((r.relative for r in self.residuals.values()), default=0.0)

    @property
    def exact(self) -> bool:
        """True if every condition holds within the tolerance (NaN never does)."""
        return all(r.relative <= self.tolerance for r in self.residuals.values())

    @property
    def solver(self) -> str:
        return " + ".join(dict.fromkeys(f.name for f in self.factors))

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done to the numbers: fallbacks, directions left out."""
        return tuple(dict.fromkeys(note for f in self.factors for note in f.notes))

    @cached_property
    def rank(self) -> int:
        """Independent conditions; equal to `conditions` if none is redundant."""
        return sum(f.rank * k for f, k in zip(self.factors, self.served, strict=True))

    @cached_property
    def condition(self) -> float:
        """Condition number of the equilibrated system (the worst, if channels are solved apart)."""
        return max((f.condition() for f in self.factors), default=1.0)

    @cached_property
    def conflicts(self) -> tuple[Conflict, ...]:
        """Named constraints that contradict each other or that the basis cannot meet; empty if `exact`."""
        return () if self.exact else self.explain()

    def summary(self) -> str:
        """One line."""
        verdict = "exact" if self.exact else "NOT EXACT"
        return f"{verdict}: worst relative residual {self.worst:.1e} (tolerance {self.tolerance:.0e}), {self.solver}"

    def advice(self) -> str:
        """Why the tolerance is missed, or what to be careful about if it is met; empty if there is nothing to say."""
        if self.exact:
            return self.caution
        if self.hint:
            return self.hint
        unresolved = [n for n, off in self.quadrature.items() if off > 0.5 * self.residuals[n].absolute]
        if any(self.residuals[n].relative > self.tolerance for n in unresolved):
            return (
                f"the integral in {', '.join(map(repr, unresolved))} is not resolved: field or coefficient "
                "varies faster than "
                "the finest quadrature rule can follow. Use a smoother basis (a larger bandwidth), split the "
                "integral at kinks, and check that it exists"
            )
        if self.conflicts:
            return "; ".join(c.reason for c in self.conflicts) + ". Remove or correct one of them"
        if self.condition > 1e12:
            return (
                f"the system is ill conditioned (condition {self.condition:.0e}, weights of norm "
                f"{self.weight_norm:.0e}): "
                "conditions nearly contradict each other, or the basis is too smooth for them. Use a smaller "
                "bandwidth, a wide basis such as RandomFourier with more functions than "
                "conditions, or Hermite"
            )
        return "the tolerance may be smaller than rounding allows for this system; compare it with the condition number"

    @property
    def caution(self) -> str:
        """A warning sign in an exact solution: weights far larger than the data, which cancel only at the points."""
        if not self.weight_norm > LARGE_WEIGHTS * max(self.data_size, 1e-300):
            return ""
        return (
            f"weights of norm {self.weight_norm:.0e} for data of size {self.data_size:.0e} cancel at the "
            "conditions but perhaps "
            "not between them: look at the field there (HeldOutResidual), and try another bandwidth or more functions"
        )

    def __repr__(self) -> str:
        return f"Certificate({self.summary()})"

    def __str__(self) -> str:
        width = max([len(n) for n in self.residuals] + [10])
        width = min(width, 48)
        lines = [
            f"certificate: {self.summary()}",
            f"  {'constraint':<{width}}  worst |Lf - g|   relative",
        ]
        lines += [
            f"  {_short(n, width):<{width}}  {r.absolute:13.2e}  {r.relative:9.1e}" for n, r in self.residuals.items()
        ]
        shared = f", one matrix for {max(self.served)} channels" if max(self.served, default=1) > 1 else ""
        lines.append(f"  {self.conditions} conditions, {self.functions} functions x {self.channels} channels{shared}")
        lines.append(
            f"  rank {self.rank}, condition {_number(self.condition)}, |weights| {_number(self.weight_norm)}, "
            f"{self.seconds:.3f} s"
        )
        lines += [f"  note: {note}" for note in self.notes]
        advice = self.advice()
        if advice:
            lines.append(f"  {'caution' if self.exact else 'advice'}: {advice}")
        return "\n".join(lines)


def _number(value: float) -> str:
    return "not known" if math.isnan(value) else f"{value:.1e}"


def _short(name: str, width: int) -> str:
    return name if len(name) <= width else name[: width - 1] + "…"
