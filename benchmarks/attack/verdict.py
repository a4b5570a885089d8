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
    verdict: str  # exact, missed, unmeasured, refused, lie, unsure, silent, crash, false alarm
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
    worst = doubted = by_values = seen = 0.0
    where = ""
    sizes = scales([(part.asked, part.points, part.values) for part in problem.parts])
    for k, (part, size) in enumerate(zip(problem.parts, sizes, strict=True)):
        found = reference.evaluate(part.asked, part.points)
        if certificate.exact:
            _settle(reference, problem.parts, k, found, size, certificate.tolerance)
        for lane, left in found.lanes.items():
            off = np.abs(left - part.values)
            looked = np.ones(off.shape, dtype=bool) if lane != "alone" else ~np.isnan(left)
            relative, doubt = _over(off, size), _over(found.doubt[lane], size)
            sure = np.where(looked, np.nan_to_num(relative - doubt, nan=np.inf), 0.0)
            if sure.max() > worst:
                worst = float(sure.max())
                p, r = np.unravel_index(int(sure.argmax()), sure.shape)
                where = f"c{k}[{p},{r}] {lane}: {left[p, r]:.17g} for {part.values[p, r]:.17g}, size {size[p, r]:.1e}"
            doubted = max(doubted, float(np.where(looked, np.nan_to_num(relative + doubt, nan=np.inf), 0.0).max()))
            seen = max(seen, float(np.where(looked, _over(off + found.unresolved, size), 0.0).max()))
            asking = looked & (np.abs(part.values) > NOTHING * np.abs(part.values).max())
            by_values = max(by_values, float(np.where(asking, _over(off, np.abs(part.values)), 0.0).max()))
    outcome.found, outcome.of_values = worst, by_values
    outcome.verdict = _judged(certificate, worst, doubted, seen, announced)
    outcome.detail = where if outcome.verdict not in ("exact",) else ""


def _settle(
    reference: Reference, parts: Sequence[Part], k: int, found: Found, size: np.ndarray, tolerance: float
) -> None:
    """Nested differentiation rounds: where it suspects a lie, the field in many digits has the last word."""
    part, given = parts[k], [(part.asked, part.points) for part in parts]
    left, doubt = found.lanes["batch"], found.doubt["batch"]
    suspect = np.nan_to_num(_over(np.abs(left - part.values) + doubt, size), nan=np.inf)
    differentiated = np.array([any(sum(term.index) for term in row) for row in part.asked.rows])
    suspect = np.where(differentiated[None], suspect, 0.0)
    for flat in np.argsort(-suspect, axis=None)[:SETTLED]:
        p, r = np.unravel_index(flat, suspect.shape)
        if not suspect[p, r] > LIE * tolerance:
            return
        value = reference.settle(given, k, int(p), int(r))
        if value is None:
            return
        left[p, r], doubt[p, r] = value, 0.0


def _coarsest(field: cnf.ConstrainedField) -> float:
    """The rounding of the coarsest number in the field or its base."""
    kinds = {t.dtype for t in (*field.parameters(), *field.buffers()) if t.is_floating_point()} | {field.dtype}
    return max(float(torch.finfo(kind).eps) for kind in kinds)


def _judged(certificate: cnf.Certificate, worst: float, doubted: float, seen: float, announced: bool) -> str:
    """`worst` is missed for sure, `doubted` at most; `seen` is what all lanes show, rounded as they may be."""
    tolerance = certificate.tolerance
    if certificate.exact:
        if worst > LIE * tolerance:
            return "lie"
        return "unsure" if doubted > LIE * tolerance else "exact"
    if not announced:
        return "silent"
    if certificate.violated:
        return "false alarm" if seen < SURELY_MET * tolerance else "missed"
    return "unmeasured"


def _over(off: np.ndarray, size: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(off == 0, 0.0, off / size)
