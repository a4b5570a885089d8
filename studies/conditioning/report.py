"""Report of the study of conditioning: tables beside the paper's numbers, CSV, and pictures like the paper's figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cnf.reports.plots import BLUE, GREY, INK, draw
from cnf.reports.tables import csv_text, text_table, write_text

if TYPE_CHECKING:
    from studies.conditioning.study import Conditioning

PINK, YELLOW, BLACK = "#D6569A", "#DDA300", "#111111"
COLOURS = {
    "constraint layer": PINK,
    "hypernet": YELLOW,
    "dot-product kernel": BLUE,
    "Gaussian kernel": BLACK,
}
GRID = {"which": "major", "axis": "y", "color": "#E2E2E2", "linewidth": 0.7}
LOST = "#F1EDEA"  # where float64 resolves nothing


def conditioning_table(results: Sequence[Conditioning]) -> str:
    """One row per basis; condition numbers beyond 1 / eps are marked, for float64 cannot tell them from infinity."""
    from studies.conditioning.study import RESOLVED

    def shown(value: float) -> str:
        return f"{value:.1e}" if value < RESOLVED else f"> {RESOLVED:.1e}"

    header = ["basis", "parameters", "start", "end", "lowest", "highest", "seconds"]
    rows = [
        [r.name, f"{r.parameters}", *map(shown, (r.start, r.end, r.best, r.worst)), f"{r.seconds:.1f}"] for r in results
    ]
    return text_table(header, rows)


def write_conditioning(results: Sequence[Conditioning], path: object) -> Path:
    """Condition number of every basis (columns) after every step (rows), as CSV."""
    steps = range(max(len(r.conditions) for r in results))
    lines = [[k, *(repr(r.conditions[k]) if k < len(r.conditions) else "" for r in results)] for k in steps]
    return write_text(path, csv_text(["step", *(r.name for r in results)], lines))


def plot_conditioning(results: Sequence[Conditioning], path: object, title: str = "") -> Path:
    """One panel per basis, and all together; the shaded part is out of reach of float64."""
    from studies.conditioning.study import RESOLVED

    top = 10.0 ** min(24.0, np.ceil(np.log10(max(max(r.worst for r in results), RESOLVED))) + 0.5)

    def paint(figure: Any) -> None:
        cells = figure.add_gridspec(2, 4, height_ratios=(1, 1.55))
        together = figure.add_subplot(cells[1, :])
        small = [figure.add_subplot(cells[0, k]) for k in range(len(results))]
        for panel, result in zip(small, results, strict=True):
            _line(panel, result, width=2.0)
            panel.set_title(result.name, color=COLOURS.get(result.name, INK), fontweight="bold")
            panel.text(
                0.97,
                0.06 if result.end > 1e8 else 0.94,
                _journey(result, RESOLVED),
                transform=panel.transAxes,
                ha="right",
                va="bottom" if result.end > 1e8 else "top",
                fontsize=9,
                color=GREY,
            )
        for result in results:
            _line(together, result, width=2.2, label=result.name)
        for panel in (*small, together):
            panel.set_yscale("log")
            panel.set_ylim(0.5, top)
            panel.set_xlim(0, max(len(r.conditions) for r in results) - 1)
            panel.axhspan(RESOLVED, top, color=LOST, zorder=0, linewidth=0)
            panel.set_yticks([1.0, 1e4, 1e8, 1e12, 1e16])
            panel.minorticks_off()
            panel.grid(True, **GRID)
            panel.xaxis.get_major_locator().set_params(integer=True, nbins=4 if panel is not together else 9)
        for panel in small[1:]:
            panel.tick_params(labelleft=False)
        small[0].set_ylabel("condition number")
        together.set_ylabel("condition number")
        together.set_xlabel("step")
        together.axhspan(np.nan, np.nan, color=LOST, label="numerically singular (beyond 1 / eps)")
        together.legend(loc="center right", bbox_to_anchor=(1.0, 0.33))
        if title:
            figure.suptitle(title, fontsize=12)

    return draw(path, (10.0, 6.4), paint)


def _line(panel: Any, result: Conditioning, width: float, label: str | None = None) -> None:
    panel.plot(result.conditions, color=COLOURS.get(result.name, INK), linewidth=width, label=label, zorder=3)


def _journey(result: Conditioning, resolved: float) -> str:
    def power(value: float) -> str:
        return "1" if value < 1.5 else f"$10^{{{round(np.log10(value))}}}$"

    if result.best > resolved:
        return "singular throughout"
    return f"{'singular' if result.start > resolved else power(result.start)} to {power(result.end)}"
