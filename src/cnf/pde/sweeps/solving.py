"""Solving: the work of a sweep, one problem of it, wherever there is room for it.

In come changes of a problem file; out go a row of plain numbers and the files of the answer. On one thread, so that it
is the same wherever it is done.
"""

from __future__ import annotations

import io
import tempfile
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cnf.errors import CnfWarning
from cnf.files import write_text
from cnf.pde.problems.answer import Answer, Grid
from cnf.pde.problems.problem import Problem
from cnf.pde.report.exports import grid_counts, is_timed, write_npz
from cnf.pde.report.folder import certificate_text, plain, summary_text
from cnf.pde.report.planes import evaluate, sample_plane
from cnf.reports.cases import Made
from cnf.threads import one_thread_each

FIELD, PICTURE = "solution.pt", "picture.npz"
ACROSS, ALONG = 71, 401  # points of a picture: along each side of a plane, along a line


@dataclass(frozen=True)
class SolveCase:
    """The work: a problem file as it was read once, though it may change while the sweep runs."""

    source: Path  # absolute: files of data are looked for beside it
    text: str

    def __call__(self, changes: Mapping[str, Any]) -> Made:
        began = time.process_time()
        with one_thread_each(), warnings.catch_warnings():
            warnings.simplefilter("ignore", CnfWarning)  # the row says the same
            answer = Problem.from_text(self.text, self.source, changes).solve()
            if answer.tuning.interrupted:
                raise KeyboardInterrupt  # it is the best so far, and would be another when there is more time
            grid = answer.grid(grid_counts(answer))
            files = pack_files(answer, grid)
            return Made({**describe(answer, grid), "processor_seconds": time.process_time() - began}, files)


def describe(answer: Answer, grid: Grid) -> dict[str, Any]:
    """The numbers of an answer that a table has; None for what is infinite or not known."""
    certificate, problem = answer.certificate, answer.problem
    values = grid.values[grid.inside]
    ends = values.aminmax(dim=0) if len(values) else None
    fault = "" if certificate.exact else f"the conditions do not hold: {certificate.advice()}"
    return plain(
        {
            "exact": certificate.exact,
            "worst_relative_residual": certificate.worst,
            "estimate": answer.estimate,
            "errors": answer.errors,
            "unknowns": None if answer.recovered is None else answer.recovered.values,
            "ranges": {
                channel: None if ends is None else [float(ends.min[k]), float(ends.max[k])]
                for k, channel in enumerate(problem.space.channels)
            },
            "conditions": certificate.conditions,
            "functions": certificate.functions,
            "fault": fault or answer.off_target,
            "seconds": answer.seconds,
        }
    )


def pack_files(answer: Answer, grid: Grid) -> dict[str, bytes]:
    """The field, its certificate, its numbers, its values on a grid and in a picture, as bytes by name."""
    with tempfile.TemporaryDirectory(prefix="cnf-case-") as name:
        folder = Path(name)
        answer.field.save(folder / FIELD)
        write_text(folder / "certificate.txt", certificate_text(answer))
        write_text(folder / "summary.json", summary_text(answer))
        write_npz(answer, grid, folder / "solution.npz")
        files = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    return {**files, PICTURE: sample_picture(answer)}


def sample_picture(answer: Answer) -> bytes:
    """What a picture of the answer needs, as NPZ: along a line, or on the plane of the first two coordinates.

    The others are in the middle of the domain, time at its end.
    """
    domain = answer.problem.domain
    dimension = len(domain.lower)
    if dimension == 1:
        import torch

        at = torch.linspace(domain.lower[0], domain.upper[0], ALONG, dtype=torch.float64)
        values = evaluate(answer, at[:, None])
        values[:, ~domain.contains(at[:, None], margin=-1e-9 * float(at[-1] - at[0])).numpy()] = np.nan
        arrays = {"at": at.numpy(), "values": values}
    else:
        fixed = {k: (domain.lower[k] + domain.upper[k]) / 2 for k in range(2, dimension)}
        if is_timed(answer) and dimension > 2:
            fixed[dimension - 1] = domain.upper[-1]
        plane = sample_plane(answer, (0, 1), fixed, ACROSS, with_residual=False)
        arrays = {"extent": np.array(plane.extent), "inside": plane.inside, "values": plane.values}
        arrays["fixed"] = np.array(list(fixed.items()), dtype=np.float64).reshape(-1, 2)
        arrays |= {} if plane.mask is None else {"mask": plane.mask}
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)  # type: ignore[arg-type]
    return packed.getvalue()
