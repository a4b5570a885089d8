"""Tables of the worked problems, beside the paper's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cnf.reports.tables import text_table

if TYPE_CHECKING:
    from cnf.demo.advection import Advection
    from cnf.demo.light_path import LightPath


def advection_table(results: Sequence[Advection]) -> str:
    """One row per perturbation and method: the worst of the seeds beside what the paper reports."""
    header = [
        "perturbation",
        "method",
        "RMSE",
        "nRMSE",
        "paper RMSE",
        "paper nRMSE",
        "worst residual",
        "exact",
        "seconds",
    ]
    groups: dict[tuple[float, str], list[Advection]] = {}
    for result in results:
        groups.setdefault((result.perturbation, result.method), []).append(result)
    rows = []
    for (level, method), group in groups.items():
        worst = max(group, key=lambda r: r.rmse)
        paper = worst.paper if method != "random-fourier" else None
        rows.append(
            [
                f"{level:g}",
                method,
                f"{worst.rmse:.1e}",
                f"{worst.nrmse:.1e}",
                *([f"{value:.4f}" for value in paper] if paper else ["-", "-"]),
                f"{max(r.residual for r in group):.1e}",
                "yes" if all(r.certificate.exact for r in group) else "no",
                f"{max(r.seconds for r in group):.1f}",
            ]
        )
    return text_table(header, rows, left=2)


def light_path_table(result: LightPath) -> str:
    """Travel times, and how far each is from the least."""
    rows = [
        [name, f"{value:.6f}", f"{100 * (value / result.exact_time - 1):.4f} %"]
        for name, value in (
            ("random start", result.start_time),
            ("trained", result.final_time),
            ("least of all quadratic paths", result.quadratic_time),
            ("least of all paths (shooting)", result.exact_time),
        )
    ]
    return text_table(["path", "travel time", "above the least"], rows)
