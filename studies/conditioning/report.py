"""Reports of the studies: tables beside the paper's numbers, CSV, and pictures like the paper's figure."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cnf.files import write_atomically
from cnf.reports.plots import BLUE, GREY, INK, draw
from cnf.reports.tables import text_table

if TYPE_CHECKING:
    from cnf.applications.conditioning import Conditioning
    from cnf.applications.transfer import Transfer

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
    from cnf.applications.conditioning import RESOLVED

    def shown(value: float) -> str:
        return f"{value:.1e}" if value < RESOLVED else f"> {RESOLVED:.1e}"

    header = ["basis", "parameters", "start", "end", "lowest", "highest", "seconds"]
    rows = [
        [r.name, f"{r.parameters}", *map(shown, (r.start, r.end, r.best, r.worst)), f"{r.seconds:.1f}"] for r in results
    ]
    return text_table(header, rows)


def transfer_table(result: Transfer) -> str:
    """Both bases at every shift, beside the paper's."""
    header = ["mu", "random", "nRMSE", "pre-trained", "nRMSE", "gain", "paper random", "pre-trained", "gain"]
    rows = []
    for row in result.rows:
        paper = ["-", "-", "-"]
        if row.paper is not None:
            random, trained = row.paper
            paper = [f"{random[1]:.4f}", f"{trained[1]:.4f}", f"{random[0] / trained[0]:.1f}"]
        ours = [f"{row.random_rmse:.1e}", f"{row.random_nrmse:.1e}", f"{row.rmse:.1e}", f"{row.nrmse:.1e}"]
        rows.append([f"{row.shift:g}", *ours, f"{row.gain:.1e}", *paper])
    return text_table(header, rows)


def write_conditioning(results: Sequence[Conditioning], path: object) -> Path:
    """Condition number of every basis (columns) after every step (rows), as CSV."""
    steps = range(max(len(r.conditions) for r in results))
    lines = [[k, *(repr(r.conditions[k]) if k < len(r.conditions) else "" for r in results)] for k in steps]
    return _write_csv(path, ["step", *(r.name for r in results)], lines)


def write_transfer(result: Transfer, path: object) -> Path:
    """One row per shift, as CSV."""
    names = ("shift", "random_rmse", "random_nrmse", "rmse", "nrmse", "random_residual", "residual", "seconds")
    header = [*names, "paper_random_rmse", "paper_random_nrmse", "paper_rmse", "paper_nrmse"]
    lines = []
    for row in result.rows:
        paper = [value for pair in row.paper for value in pair] if row.paper is not None else [""] * 4
        lines.append([*(getattr(row, name) for name in names), *paper])
    return _write_csv(path, header, lines)


def plot_conditioning(results: Sequence[Conditioning], path: object, title: str = "") -> Path:
    """One panel per basis, and all together; the shaded part is out of reach of float64."""
    from cnf.applications.conditioning import RESOLVED

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


def plot_transfer(result: Transfer, path: object) -> Path:
    """nRMSE over the shift: random and pre-trained, ours (filled, lines) and the paper's (hollow, dashed)."""
    shifts = [row.shift for row in result.rows]
    at = np.arange(len(shifts))
    known = [k for k, row in enumerate(result.rows) if row.paper is not None]

    def paint(figure: Any) -> None:
        panel = figure.subplots()
        ours = (
            ("random, ours", [r.random_nrmse for r in result.rows], GREY),
            ("pre-trained, ours", [r.nrmse for r in result.rows], BLUE),
        )
        for k, (label, values, colour) in enumerate(ours):
            paper = [pair[k][1] for row in result.rows if (pair := row.paper) is not None]
            panel.semilogy(
                known,
                paper,
                "o--",
                color=colour,
                markerfacecolor="white",
                linewidth=1.2,
                markersize=6,
                label=label.replace("ours", "paper"),
            )
            panel.semilogy(at, np.maximum(values, 1e-17), "o-", color=colour, markersize=6, label=label)
        panel.set_xticks(at, [f"{shift:g}" for shift in shifts])
        panel.set_xlabel(r"shift $\mu$ of the initial state")
        panel.set_ylabel("nRMSE")
        panel.set_title(r"trained at $\mu = 0$ only, every other shift solved without training")
        panel.minorticks_off()
        panel.grid(True, **GRID)
        panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))

    return draw(path, (7.6, 3.8), paint)


def _line(panel: Any, result: Conditioning, width: float, label: str | None = None) -> None:
    panel.plot(result.conditions, color=COLOURS.get(result.name, INK), linewidth=width, label=label, zorder=3)


def _journey(result: Conditioning, resolved: float) -> str:
    def power(value: float) -> str:
        return "1" if value < 1.5 else f"$10^{{{round(np.log10(value))}}}$"

    if result.best > resolved:
        return "singular throughout"
    return f"{'singular' if result.start > resolved else power(result.start)} to {power(result.end)}"


def _write_csv(path: object, header: Sequence[str], lines: Sequence[Sequence[object]]) -> Path:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(lines)
    return write_atomically(path, lambda file: file.write_text(text.getvalue()))
