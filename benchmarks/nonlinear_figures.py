"""Figures of nonlinear problems: error against a reference, what conditions miss, seconds, beside what is asked.

    python -m benchmarks.nonlinear_figures [--only pendulum burgers]

Problems are solved as their files have them, nothing set but the target; errors are measured at 2000 points drawn
uniformly, against the formula in the file or a solution found by other means (`nonlinear_references`). One thread;
processor seconds. A new figure is one more entry of FIGURES.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

import cnf
from benchmarks.gallery import GALLERY, MEASURES, POINTS, REFERENCES
from benchmarks.peer_scripts.nonlinear_problems import cole_hopf

Reference = Callable[[np.ndarray], np.ndarray]  # (P, D) -> (P, C)


@dataclass(frozen=True)
class Found:
    """What came out: relative L2 and largest error of the worst channel, or the relative error of unknown numbers."""

    relative: float
    largest: float
    answer: cnf.Answer
    seconds: float


@dataclass(frozen=True)
class Figure:
    """A file of the gallery with some entries changed, and the error that is asked for."""

    file: str
    asked: float
    of: str = "relative"  # or "largest": which of the errors that is
    changes: Mapping[str, object] = field(default_factory=dict)
    reference: Reference | None = None  # that of the gallery, or the formula in the file
    within: float | None = None  # processor seconds

    def measured(self) -> Found:
        started = time.process_time()
        answer = cnf.Problem.read(GALLERY / f"{self.file}.toml", **self.changes).solve()
        seconds = time.process_time() - started
        if answer.recovered is not None:
            worst = max((answer.recovered.errors or {}).values())
            return Found(worst, worst, answer, seconds)
        if self.file in MEASURES:
            off = MEASURES[self.file](answer)
            return Found(max(off.values()), max(off.values()), answer, seconds)
        points = answer.problem.domain.random(POINTS, torch.Generator().manual_seed(1))
        wanted = self.values(answer, points)
        with torch.no_grad():
            off = answer(points)[:, : wanted.shape[1]] - wanted
        return Found(float((off.norm(dim=0) / wanted.norm(dim=0)).max()), float(off.abs().max()), answer, seconds)

    def values(self, answer: cnf.Answer, points: torch.Tensor) -> torch.Tensor:
        reference = self.reference or REFERENCES.get(self.file)
        if reference is not None:
            return torch.from_numpy(reference(points.numpy()))
        exact = answer.problem.exact or {}
        return torch.stack([exact[channel](points) for channel in answer.problem.space.channels], dim=1)


THIN = {"parameters": {"nu": r"\frac{0.1}{\pi}"}, "solve": {"target": 1e-10}}
FASTER = {
    "parameters": {"Re": 1000},
    "solve": {"method": "patches", "target": 1e-3, "continuation": {"Re": [100, 400]}},
}
FIGURES: dict[str, Figure] = {
    "cubic": Figure("cubic", 1e-11, within=15),
    "kovasznay": Figure("kovasznay", 1e-9),
    "pendulum": Figure("pendulum", 1e-10, "largest"),
    "lotka_volterra": Figure("lotka_volterra", 1e-10, "largest"),
    "van_der_pol": Figure("van_der_pol", 1e-9),
    "lane_emden": Figure("lane_emden", 1e-10, "largest"),
    "bratu": Figure("bratu", 1e-10),
    "minimal_surface": Figure("minimal_surface", 1e-8),
    "radiation": Figure("radiation", 1e-10),
    "allen_cahn": Figure("allen_cahn", 1e-6),
    "soliton": Figure("soliton", 1e-6),
    "breather": Figure("breather", 1e-6),
    "burgers, 0.1/pi": Figure("burgers", 1e-9, "largest", THIN, lambda points: cole_hopf(points, 0.1 / np.pi)),
    "burgers": Figure("burgers", 1e-8, "largest", within=60),
    "flame_front": Figure("flame_front", 1e-3),
    "driven_cavity": Figure("driven_cavity", 1e-3),
    "driven_cavity, Re 1000": Figure("driven_cavity", 5e-3, changes=FASTER),
    "unknown_numbers": Figure("unknown_numbers", 1e-8),
}


def main(arguments: Sequence[str] | None = None) -> int:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--only", nargs="+", choices=list(FIGURES), default=list(FIGURES), metavar="NAME")
    asked = reader.parse_args(arguments)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", cnf.errors.CnfWarning)
    titles = ("relative", "largest", "asked", "estimate", "conditions", "s", "asked", "")
    print(f"{'':<24}" + "".join(f"{title:>11}" for title in titles))
    missed = 0
    for name in asked.only:
        figure, found = FIGURES[name], FIGURES[name].measured()
        certificate = found.answer.certificate
        error = found.relative if figure.of == "relative" else found.largest
        late = figure.within is not None and found.seconds > figure.within
        good = error <= figure.asked and certificate.exact and not late
        missed += not good
        shown = [f"{found.relative:.1e}", f"{found.largest:.1e}", f"{figure.asked:.0e} {figure.of[0]}"]
        shown += [f"{found.answer.estimate:.1e}", f"{certificate.worst:.1e}", f"{found.seconds:.1f}"]
        shown += ["" if figure.within is None else f"{figure.within:.0f}", "" if good else "MISSED"]
        print(f"{name:<24}" + "".join(f"{text:>11}" for text in shown), flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
