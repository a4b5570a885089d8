"""Certificate: the measured proof that a field meets its conditions, or the explanation why it does not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace

from cnf.certificate.convergence import Convergence
from cnf.certificate.findings import Conflict, Findings, Inquiry
from cnf.systems.formulation import REMEDY


class Residual(float):
    """The worst |L f - g| of a constraint, itself a number; `.relative` is the worst relative to what was asked.

    Relative: the residual of a condition over its own right-hand side or, where that is larger, its natural size
    (`cnf.certificate.sizes`). This does not change when a condition, a coordinate or the field is rescaled, one huge
    right-hand side does not hide the others, and neither basis nor base have a say in it, but for sums of terms that
    cancel on the field: these round by their terms.
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
    """What one solve achieved, measured on the field; plain data that can be pickled, compared and written to a file.

    Rank, condition and conflicts are worked out when first asked for.

    >>> space = cnf.Space("x", "u")
    >>> ends = space.constraint("u = x", at=[[0.0], [1.0]], name="ends")
    >>> certificate = cnf.ConstrainedField(cnf.bases.Polynomial(space, 3), [ends]).solve().certificate
    >>> certificate.exact, certificate.conditions, certificate.functions, certificate.rank
    (True, 2, 4, 2)
    >>> certificate.residuals["ends"] < 1e-14
    True
    """

    residuals: Mapping[str, Residual]
    tolerance: float
    conditions: int  # M
    functions: int  # N, per channel
    channels: int
    weight_norm: float
    data_size: float  # the typical amplitude that the conditions ask of the functions
    seconds: float
    solver: str
    measured: int  # conditions measured on the field: all of them, or a sample while training
    notes: tuple[str, ...] = ()  # what was done to the numbers: fallbacks, directions left out
    shared: int = 1  # channels served by one matrix
    quadrature: Mapping[str, float] = field(default_factory=dict)  # worst error of the integrals in each constraint
    unmeasured: Mapping[str, str] = field(default_factory=dict)  # constraints that could not be measured, and why
    hint: str = ""  # what is known to be the reason if the tolerance is missed
    remedy: str = REMEDY  # what makes weights smaller
    convergence: Convergence | None = None  # of the iteration, where conditions are not linear
    findings: Findings | Inquiry = field(default=Findings(0, math.nan), compare=False)

    @property
    def worst(self) -> float:
        """The largest relative residual; NaN if any is."""
        found = [r.relative for r in self.residuals.values()]
        return math.nan if any(map(math.isnan, found)) else max(found, default=0.0)

    @property
    def violated(self) -> tuple[str, ...]:
        """Constraints that were measured and miss the tolerance (NaN always does)."""
        return tuple(name for name, r in self.residuals.items() if not r.relative <= self.tolerance)

    @property
    def complete(self) -> bool:
        """True if every condition was measured."""
        return self.measured == self.conditions and not self.unmeasured

    @property
    def exact(self) -> bool:
        """True if every condition was measured on the field and holds within the tolerance."""
        return self.complete and not self.violated

    @property
    def rank(self) -> int:
        """Independent conditions; equal to `conditions` if none is redundant."""
        return self.findings.rank

    @property
    def condition(self) -> float:
        """Condition number of the equilibrated system (the worst, if channels are solved apart)."""
        return self.findings.condition

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """Named constraints that contradict each other or that the basis cannot meet; empty if none is violated."""
        return self.findings.conflicts if self.violated else ()

    def settled(self) -> Certificate:
        """The same with everything worked out, and no tie to the solve."""
        return replace(self, findings=Findings(self.rank, self.condition, self.conflicts))

    def __getstate__(self) -> dict[str, object]:
        settled = self if isinstance(self.findings, Findings) else self.settled()
        return {entry.name: getattr(settled, entry.name) for entry in fields(self)}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)

    def to_dict(self) -> dict[str, object]:
        """Numbers, strings, lists and dictionaries only: what JSON can hold (NaN and infinity as None)."""
        plain = {
            entry.name: getattr(self, entry.name)
            for entry in fields(self)
            if entry.name not in ("residuals", "findings", "notes", "quadrature", "unmeasured", "convergence")
        }
        plain = {name: _finite(v) if isinstance(v, float) else v for name, v in plain.items()}
        return plain | {
            "exact": self.exact,
            "worst_relative_residual": _finite(self.worst),
            "residuals": {
                name: {"absolute": _finite(r.absolute), "relative": _finite(r.relative)}
                for name, r in self.residuals.items()
            },
            "notes": list(self.notes),
            "quadrature": {name: _finite(v) for name, v in self.quadrature.items()},
            "unmeasured": dict(self.unmeasured),
            "newton": None if self.convergence is None else self.convergence.to_dict() | {"verdict": self._verdict()},
            "rank": self.rank,
            "condition": _finite(self.condition),
            "conflicts": [
                {"constraints": list(c), "reason": c.reason, "points": c.points.tolist()} for c in self.conflicts
            ],
            "advice": self.advice(),
        }

    def _verdict(self) -> str:
        """What is known of a solution of nonlinear conditions."""
        if self.convergence is None:
            return ""
        unknowns = self.functions * self.channels
        return self.convergence.verdict(self.exact, bool(self.violated), self.rank, self.conditions, unknowns)

    @property
    def newton(self) -> tuple[str, ...]:
        """What Newton's iteration did, and what is known of the solution; nothing if all conditions are linear."""
        return () if self.convergence is None else tuple(self.convergence.lines(self._verdict()))

    def summary(self) -> str:
        """One line."""
        if self.violated:
            verdict = "NOT EXACT"
        elif self.unmeasured:
            verdict = f"UNMEASURED in {', '.join(map(repr, self.unmeasured))}"
        elif not self.complete:
            verdict = f"SAMPLED, {self.measured} of {self.conditions} conditions measured"
        else:
            verdict = "exact"
        return f"{verdict}: worst relative residual {self.worst:.1e} (tolerance {self.tolerance:.0e}), {self.solver}"

    def advice(self) -> str:
        """Why the tolerance is missed, or what to be careful about if it is met; empty if there is nothing to say."""
        if self.unmeasured and not self.violated:
            return "; ".join(f"{name!r} could not be measured: {why}" for name, why in self.unmeasured.items())
        if not self.violated:
            return self.caution
        if self.convergence is not None and self.convergence.stopped:
            return self.convergence.stopped
        if self.convergence is not None and self.convergence.singular:
            return (
                f"near the solution the linearised conditions are nearly singular ({self.convergence.singular}), and "
                "no field meets them more closely: a fold, a bifurcation or a multiple root may be here. Change a "
                "parameter a little, or give a start near another solution"
            )
        if self.hint:
            return self.hint
        unresolved = [n for n, off in self.quadrature.items() if not off <= 0.5 * self.residuals[n].absolute]
        if any(n in self.violated for n in unresolved):
            return (
                f"the integral in {', '.join(map(repr, unresolved))} is not resolved: field or coefficient "
                "varies faster than "
                "the finest quadrature rule can follow. Use a smoother basis (of waves or kernels, a larger "
                "bandwidth), split the integral at kinks, and check that it exists"
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
        if self.weight_norm > LARGE_WEIGHTS * max(self.data_size, 1e-300):
            return (
                f"weights of norm {self.weight_norm:.0e} for data of size {self.data_size:.0e}: their rounding alone "
                f"misses the tolerance. Use {self.remedy}"
            )
        return (
            "the tolerance may be smaller than rounding allows here: compare it with the condition number, and the "
            "sizes of base and coefficients with the right-hand sides"
        )

    @property
    def caution(self) -> str:
        """A warning sign in an exact solution: weights far larger than the data, which cancel only at the points."""
        if not self.weight_norm > LARGE_WEIGHTS * max(self.data_size, 1e-300):
            return ""
        return (
            f"weights of norm {self.weight_norm:.0e} for data of size {self.data_size:.0e} cancel at the "
            "conditions but perhaps "
            f"not between them: look at the field there (HeldOutResidual), and try {self.remedy}"
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
        shared = f", one matrix for {self.shared} channels" if self.shared > 1 else ""
        lines.append(f"  {self.conditions} conditions, {self.functions} functions x {self.channels} channels{shared}")
        lines.append(
            f"  rank {self.rank}, condition {_number(self.condition)}, |weights| {_number(self.weight_norm)}, "
            f"{self.seconds:.3f} s"
        )
        lines += [f"  {line}" for line in self.newton]
        lines += [f"  note: {note}" for note in self.notes]
        advice = self.advice()
        if advice:
            lines.append(f"  {'caution' if self.exact else 'advice'}: {advice}")
        return "\n".join(lines)


def _number(value: float) -> str:
    return "not known" if math.isnan(value) else f"{value:.1e}"


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _short(name: str, width: int) -> str:
    return name if len(name) <= width else name[: width - 1] + "…"
