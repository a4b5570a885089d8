"""Report of the study of transfer: a table beside the paper's numbers, CSV, and a picture like the paper's figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cnf.reports.plots import BLUE, GREY, draw
from cnf.reports.tables import csv_text, text_table, write_text

if TYPE_CHECKING:
    from studies.transfer.study import Transfer


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


def write_transfer(result: Transfer, path: object) -> Path:
    """One row per shift, as CSV."""
    names = ("shift", "random_rmse", "random_nrmse", "rmse", "nrmse", "random_residual", "residual", "seconds")
    header = [*names, "paper_random_rmse", "paper_random_nrmse", "paper_rmse", "paper_nrmse"]
    lines = []
    for row in result.rows:
        paper = [value for pair in row.paper for value in pair] if row.paper is not None else [""] * 4
        lines.append([*(getattr(row, name) for name in names), *paper])
    return write_text(path, csv_text(header, lines))


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
        panel.grid(True, which="major", axis="y", color="#E2E2E2", linewidth=0.7)
        panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))

    return draw(path, (7.6, 3.8), paint)
