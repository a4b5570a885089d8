"""Picture of the study of transfer, like the paper's figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cnf.reports.plots import BLUE, GREY, draw
from studies.study import Row


def plot_transfer(rows: Sequence[Row], path: object) -> Path:
    """nRMSE over the shift: random and pre-trained, ours (filled, lines) and the paper's (hollow, dashed)."""
    shifts = [row["shift"] for row in rows]
    at = np.arange(len(shifts))

    def paint(figure: Any) -> None:
        panel = figure.subplots()
        for label, name, colour in (("random", "random_nrmse", GREY), ("pre-trained", "nrmse", BLUE)):
            style = {"color": colour, "markersize": 6}
            hollow = {**style, "markerfacecolor": "white", "linewidth": 1.2}
            panel.semilogy(at, [row[f"paper_{name}"] for row in rows], "o--", label=f"{label}, paper", **hollow)
            panel.semilogy(at, [max(row[name], 1e-17) for row in rows], "o-", label=f"{label}, ours", **style)
        panel.set_xticks(at, [f"{shift:g}" for shift in shifts])
        panel.set_xlabel(r"shift $\mu$ of the initial state")
        panel.set_ylabel("nRMSE")
        panel.set_title(r"trained at $\mu = 0$ only, every other shift solved without training")
        panel.minorticks_off()
        panel.grid(True, axis="y")
        panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))

    return draw(path, (7.6, 3.8), paint)
