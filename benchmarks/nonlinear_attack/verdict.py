"""Verdict: one random nonlinear problem solved, looked at, and what came of it."""

from __future__ import annotations

import time
import traceback
import warnings
from dataclasses import asdict, dataclass

import numpy as np
import torch

import cnf
from benchmarks.attack.setting import Setting
from benchmarks.nonlinear_attack.boxes import draw_box, parts_of
from benchmarks.nonlinear_attack.looking import Jets, Looker, Seen
from benchmarks.nonlinear_attack.problems import Drawn, Part, draw_problem, kind_of
from cnf.certificate import Certificate
from cnf.errors import CnfError, CnfWarning
from cnf.operators.expansion import Request

LIE = 10.0  # times the tolerance, beyond what is doubted
SURELY_MET = 0.1
SINGULAR = 1e-13  # of the largest singular value of the equilibrated Jacobian
LONGEST = 120.0  # processor seconds of one problem


@dataclass
class Outcome:
    """Plain data: what was claimed, what was found."""

    number: int
    kind: str
    verdict: str
    detail: str = ""
    claimed: float = float("nan")
    found: float = float("nan")
    tolerance: float = float("nan")
    said: str = ""  # of the solution: locally unique, leaves room, not converged, ...
    steps: int = 0
    seconds: float = 0.0
    description: str = ""

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


def attack(seed: int, number: int) -> Outcome:
    """Draw the problem, solve it, take the certificate, and look independently."""
    torch.set_num_threads(1)
    started = time.process_time()
    outcome = Outcome(number, kind_of(number), "crash")
    try:
        (_attack_box if outcome.kind == "problem" else _attack_field)(seed, outcome)
    except CnfError as error:
        outcome.verdict, outcome.detail = "refused", f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{'/'.join(place.filename.split('/')[-2:])}:{place.lineno}"
        outcome.detail = f"{type(error).__name__} at {where}: {str(error).splitlines()[0][:160] if str(error) else ''}"
    outcome.seconds = time.process_time() - started
    if outcome.seconds > LONGEST:
        outcome.verdict, outcome.detail = "slow", f"{outcome.seconds:.0f} s; was {outcome.verdict}"
    return outcome


def _attack_field(seed: int, outcome: Outcome) -> None:
    drawn = draw_problem(seed, outcome.number)
    outcome.description = drawn.description
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        solution = drawn.build().solve()
        certificate = solution.certificate
    looker = Looker(solution, drawn.setting, drawn.rng, extents(drawn.parts))
    parts = {f"c{k}": part for k, part in enumerate(drawn.parts)}
    look(outcome, looker, certificate, parts, _announced(heard))
    if outcome.verdict == "exact" and "locally unique" in outcome.said:
        check_rank(outcome, solution, drawn)


def _attack_box(seed: int, outcome: Outcome) -> None:
    problem, setting, asked, outcome.description = draw_box(seed, outcome.number)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        answer = problem.solve()
        certificate = answer.certificate
    parts = parts_of(answer.solution, setting, asked)
    looker = Looker(answer.solution, setting, np.random.default_rng(0), extents(list(parts.values())))
    look(outcome, looker, certificate, parts, _announced(heard))


def _announced(heard: list[warnings.WarningMessage]) -> bool:
    return any(issubclass(w.category, CnfWarning) for w in heard)


def extents(parts: list[Part]) -> np.ndarray:
    """How far the points of all conditions reach along every coordinate, (D,)."""
    points = np.concatenate([p.points for p in parts])
    reach = np.ptp(points, axis=0)
    return np.where(reach > 0, reach, 1.0)


def look(outcome: Outcome, looker: Looker, certificate: Certificate, parts: dict[str, Part], announced: bool) -> None:
    """Fill in what the certificate claims, what is found, and the verdict."""
    for said in (str(certificate), repr(certificate), certificate.advice()):
        assert said is not None
    newton = certificate.to_dict()["newton"]
    convergence = certificate.convergence
    outcome.tolerance, outcome.claimed = certificate.tolerance, certificate.worst
    outcome.said = str(newton["verdict"]) if isinstance(newton, dict) else "linear"
    outcome.steps = convergence.steps if convergence is not None else 0
    stopped = convergence is not None and bool(convergence.stopped)
    seen = {
        (name, r): looker.row(row, part.points, part.written.over)
        for name, part in parts.items()
        for r, row in enumerate(part.written.rows)
    }
    amplitude = max(s.amplitude for s in seen.values())
    sure, shown, claimed_here = 0.0, 0.0, True
    for (name, r), found in seen.items():
        off, least = missed(found, parts[name].values[:, r], amplitude)
        shown = max(shown, off)
        if least > sure:
            sure, outcome.detail = least, f"{name} row {r}"
        holds = certificate.residuals[name].relative <= certificate.tolerance
        claimed_here &= not (holds and least > LIE * certificate.tolerance)
    outcome.found = shown
    if stopped and certificate.exact:
        outcome.verdict, outcome.detail = "lie", "exact, and said not to have converged"
    elif not claimed_here:
        outcome.verdict = "lie"
    elif certificate.exact:
        outcome.verdict = "exact"
    elif not announced:
        outcome.verdict = "silent"
    elif "a solution" in outcome.said:
        outcome.verdict, outcome.detail = "lie", "a solution, and not exact"
    elif not certificate.violated:
        outcome.verdict = "unmeasured"
    elif shown < SURELY_MET * certificate.tolerance and not stopped:
        outcome.verdict = "false alarm"
    else:
        outcome.verdict = "not converged" if stopped else "missed"


def missed(seen: Seen, asked: np.ndarray, amplitude: float) -> tuple[float, float]:
    """What is missed, of the sizes of terms or the natural size: as it shows, and at least; infinite for no number."""
    size = np.maximum(seen.terms + np.abs(asked), seen.slopes * amplitude)
    off = np.abs(seen.value - asked)
    with np.errstate(all="ignore"):
        found = np.where(off == 0, 0.0, off / size)
        least = np.where(off <= seen.doubt, 0.0, (off - seen.doubt) / size)
    clean = [np.nan_to_num(a, nan=np.inf, posinf=np.inf).max() for a in (found, least)]
    return float(clean[0]), float(clean[1])


def check_rank(outcome: Outcome, solution: cnf.Solution, drawn: Drawn) -> None:
    """The Jacobian by all weights, from slopes by SymPy: a lie if a direction is open that was said not to be."""
    matrix = jacobian(solution, drawn.setting, drawn.parts)
    matrix = matrix / np.maximum(np.abs(matrix).max(axis=1, keepdims=True), 1e-300)
    matrix = matrix / np.maximum(np.linalg.norm(matrix, axis=0, keepdims=True), 1e-300)
    singular = np.linalg.svd(matrix, compute_uv=False)
    open_ = matrix.shape[1] - int((singular > SINGULAR * singular[0]).sum())
    if open_:
        outcome.verdict, outcome.detail = "lie", f"locally unique, and {open_} directions of the weights are open"


def jacobian(solution: cnf.Solution, setting: Setting, parts: list[Part]) -> np.ndarray:
    """(conditions, weights): slopes of the conditions by jets, times those of the functions."""
    looker = Looker(solution, setting, np.random.default_rng(0), np.ones(setting.dimension))
    joint, size, blocks = solution.basis.joint, solution.basis.size, []
    for part in parts:
        points, x = part.points, torch.tensor(part.points)
        for row in part.written.rows:
            jets = Jets(setting, row)
            known = [looker.derivative(points, c, index) for _, c, index in jets.found.values()]
            slopes = jets.evaluated(jets.slopes, points, known)
            block = np.zeros((len(points), size if joint else size * len(setting.channels)))
            for slope, (_, channel, index) in zip(slopes, jets.found.values(), strict=True):
                with torch.no_grad():
                    one = torch.ones((), dtype=torch.float64)
                    rows = solution.basis.rows(x, [Request(channel, {index: one})])[:, 0].double().numpy()
                first = 0 if joint else size * channel
                block[:, first : first + size] += slope[:, None] * rows
            blocks.append(block)
    return np.concatenate(blocks)
