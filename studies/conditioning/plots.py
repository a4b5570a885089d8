"""Picture of the study of conditioning, like the paper's figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cnf.reports.plots import BLUE, GREY, INK, draw
from studies.study import Row

PINK, YELLOW, BLACK = "#D6569A", "#DDA300", "#111111"
COLOURS = {
    "constraint layer": PINK,
    "hypernet": YELLOW,
    "dot-product kernel": BLUE,
    "Gaussian kernel": BLACK,
}
LOST = "#F1EDEA"  # where float64 resolves nothing


def plot_conditioning(results: Sequence[Row], path: object, resolved: float, title: str = "") -> Path:
    """One panel per basis, and all together; the shaded part is out of reach of float64."""
    top = 10.0 ** min(24.0, np.ceil(np.log10(max(max(r["highest"] for r in results), resolved))) + 0.5)

    def paint(figure: Any) -> None:
        cells = figure.add_gridspec(2, 4, height_ratios=(1, 1.55))
        together = figure.add_subplot(cells[1, :])
        small = [figure.add_subplot(cells[0, k]) for k in range(len(results))]
        for panel, result in zip(small, results, strict=True):
            _line(panel, result, width=2.0)
            panel.set_title(result["basis"], color=COLOURS.get(result["basis"], INK), fontweight="bold")
            panel.text(
                0.97,
                0.06 if result["end"] > 1e8 else 0.94,
                _journey(result, resolved),
                transform=panel.transAxes,
                ha="right",
                va="bottom" if result["end"] > 1e8 else "top",
                fontsize=9,
                color=GREY,
            )
        for result in results:
            _line(together, result, width=2.2, label=result["basis"])
        for panel in (*small, together):
            panel.set_yscale("log")
            panel.set_ylim(0.5, top)
            panel.set_xlim(0, max(len(r["curve"]["condition"]) for r in results) - 1)
            panel.axhspan(resolved, top, color=LOST, zorder=0, linewidth=0)
            panel.set_yticks([1.0, 1e4, 1e8, 1e12, 1e16])
            panel.minorticks_off()
            panel.grid(True, axis="y")
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


def _line(panel: Any, result: Row, width: float, label: str | None = None) -> None:
    colour = COLOURS.get(result["basis"], INK)
    panel.plot(result["curve"]["condition"], color=colour, linewidth=width, label=label, zorder=3)


def _journey(result: Row, resolved: float) -> str:
    def power(value: float) -> str:
        return "1" if value < 1.5 else f"$10^{{{round(np.log10(value))}}}$"

    if result["lowest"] > resolved:
        return "singular throughout"
    start = "singular" if result["start"] > resolved else power(result["start"])
    return f"{start} to {power(result['end'])}"
