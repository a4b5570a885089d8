"""Verdict: one case attacked, and what came of it."""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch

import cnf
from benchmarks.attack.histories import lived
from benchmarks.attack.problems import Part, Problem, draw_problem, kind_of
from benchmarks.attack.reference import Found, Reference
from benchmarks.attack.sizes import NOTHING, scales
from cnf.errors import CnfError, ViolationError, ViolationWarning

LIE = 10.0  # times the tolerance, beyond what the reference itself may be off
SETTLED = 60  # conditions of a constraint that are looked at in many digits, at most
SURELY_MET = 0.1  # times the tolerance


@dataclass
class Outcome:
    """Plain data: what was claimed, what was found."""

    number: int
    kind: str
    verdict: str  # one of the columns of the table
    detail: str = ""
    claimed: float = float("nan")  # worst relative residual by the certificate
    found: float = float("nan")  # the same by the reference
    of_values: float = float("nan")  # relative to |g| alone, where anything is asked for
    tolerance: float = float("nan")
    seconds: float = 0.0
    description: str = ""

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


def attack(seed: int, number: int) -> Outcome:
    """Draw the problem, solve it, take the certificate, and look independently."""
    torch.set_num_threads(1)
    started = time.perf_counter()
    outcome = Outcome(number, kind_of(number), "crash")
    problem = draw_problem(seed, number)
    outcome.description = " | ".join(problem.description)
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            _attacked(problem, outcome, heard)
    except CnfError as error:
        outcome.verdict, outcome.detail = "refused", f"{type(error).__name__}: {str(error).splitlines()[0][:160]}"
        if isinstance(error, ViolationError):
            outcome.verdict = "missed"
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{place.filename.split('/site-packages/')[-1].split('/src/')[-1]}:{place.lineno}"
        outcome.detail = f"{type(error).__name__} at {where}: {str(error).splitlines()[0][:160] if str(error) else ''}"
    outcome.seconds = time.perf_counter() - started
    return outcome


def _attacked(problem: Problem, outcome: Outcome, heard: list[warnings.WarningMessage]) -> None:
    field = problem.build()
    solution, certificate = lived(problem, field)
    for said in (str(certificate), repr(solution), certificate.to_dict(), certificate.advice()):
        assert said is not None
    announced = any(issubclass(w.category, ViolationWarning) for w in heard)
    outcome.claimed, outcome.tolerance = certificate.worst, certificate.tolerance
    reference = Reference(solution, problem.setting, problem.rng, _coarsest(field))
    tally = Tally()
    sizes = scales([(part.asked, part.points, part.values) for part in problem.parts])
    for k, (part, size) in enumerate(zip(problem.parts, sizes, strict=True)):
        found = reference.evaluate(part.asked, part.points)
        if certificate.exact:
            tally.fragile |= _settle(reference, problem.parts, k, found, size, certificate.tolerance)
        tally.count(f"c{k}", part.values, found, size)
    outcome.found, outcome.of_values = tally.sure, tally.of_values
    outcome.verdict = _judged(certificate, tally, announced)
    outcome.detail = "" if outcome.verdict == "exact" else tally.where


@dataclass
class Tally:
    """The worst of all conditions and lanes, relative to the size of the condition."""

    sure: float = 0.0  # missed by at least this much, whatever the reference rounds
    doubted: float = 0.0  # at most this much
    seen: float = 0.0  # what the lanes show as they are
    of_values: float = 0.0  # the same relative to the right-hand side alone
    where: str = ""
    fragile: bool = False  # only the rounding of float64 makes it hold

    def count(self, name: str, values: np.ndarray, found: Found, size: np.ndarray) -> None:
        asking = np.abs(values) > NOTHING * np.abs(values).max()
        for lane, left in found.lanes.items():
            looked = ~np.isnan(left) if lane == "alone" else np.ones(left.shape, dtype=bool)
            off, doubt = np.abs(left - values), found.doubt[lane]
            sure = np.where(looked, _over(off - doubt, size), 0.0)
            if sure.max() > self.sure:
                self.sure = float(sure.max())
                p, r = np.unravel_index(int(sure.argmax()), sure.shape)
                self.where = f"{name}[{p},{r}] {lane}: {left[p, r]:.17g} for {values[p, r]:.17g}, size {size[p, r]:.1e}"
            self.doubted = max(self.doubted, float(_over(off + doubt, size)[looked].max(initial=0.0)))
            self.seen = max(self.seen, float(_over(off + found.unresolved, size)[looked].max(initial=0.0)))
            relative = _over(off, np.abs(values))[looked & asking]
            self.of_values = max(self.of_values, float(relative.max(initial=0.0)))


def _settle(
    reference: Reference, parts: Sequence[Part], k: int, found: Found, size: np.ndarray, tolerance: float
) -> bool:
    """Nested differentiation rounds: where it suspects a lie, the field in many digits acquits it, or not.

    True if the field in many digits misses what all queries in float64 seem to meet.
    """
    part, given = parts[k], [(part.asked, part.points) for part in parts]
    left, doubt, fragile = found.lanes["batch"], found.doubt["batch"], False
    shown = _over(np.abs(left - part.values), size)
    suspect = _over(np.abs(left - part.values) + doubt, size)
    differentiated = np.array([any(sum(term.index) for term in row) for row in part.asked.rows])
    suspect = np.where(differentiated[None], suspect, 0.0)
    for flat in np.argsort(-suspect, axis=None)[:SETTLED]:
        p, r = np.unravel_index(flat, suspect.shape)
        if not suspect[p, r] > LIE * tolerance:
            break
        value = reference.settle(given, k, int(p), int(r))
        if value is None:
            break
        missed = abs(value - part.values[p, r]) > LIE * tolerance * size[p, r]
        doubt[p, r] = 0.0
        if missed and shown[p, r] <= LIE * tolerance:
            fragile = True
        else:
            left[p, r] = value
    return fragile


def _coarsest(field: cnf.ConstrainedField) -> float:
    """The rounding of the coarsest number in the field or its base."""
    kinds = {t.dtype for t in (*field.parameters(), *field.buffers()) if t.is_floating_point()} | {field.dtype}
    return max(float(torch.finfo(kind).eps) for kind in kinds)


def _judged(certificate: cnf.Certificate, tally: Tally, announced: bool) -> str:
    tolerance = certificate.tolerance
    if certificate.exact:
        if tally.sure > LIE * tolerance:
            return "lie"
        if tally.doubted > LIE * tolerance:
            return "unsure"
        return "fragile" if tally.fragile else "exact"
    if not announced:
        return "silent"
    if certificate.violated:
        return "false alarm" if tally.seen < SURELY_MET * tolerance else "missed"
    return "unmeasured"


def _over(off: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Relative; infinite where that makes no sense."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(np.where(off == 0, 0.0, off / size), nan=np.inf, posinf=np.inf)
