"""Picture of the study of transfer, like the paper's figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cnf.reports.plots import BLUE, GREY, draw
from studies.study import Row


def plot_transfer(rows: Sequence[Row], path: object) -> Path:
    """nRMSE over the shift: random and pre-trained, the worst of ours (filled) and the paper's (hollow, dashed)."""
    groups = group_shifts(rows)
    at = np.arange(len(groups))
    several = max(map(len, groups.values()))

    def paint(figure: Any) -> None:
        panel = figure.subplots()
        for label, name, colour in (("random", "random_nrmse", GREY), ("pre-trained", "nrmse", BLUE)):
            style = {"color": colour, "markersize": 6}
            hollow = {**style, "markerfacecolor": "white", "linewidth": 1.2}
            paper = [group[0][f"paper_{name}"] for group in groups.values()]
            worst = [max(1e-17, *(row[name] for row in group)) for group in groups.values()]
            panel.semilogy(at, paper, "o--", label=f"{label}, paper", **hollow)
            ours = f"{label}, ours" + (f", worst of {several}" if several > 1 else "")
            panel.semilogy(at, worst, "o-", label=ours, **style)
        panel.set_xticks(at, [f"{shift:g}" for shift in groups])
        panel.set_xlabel(r"shift $\mu$ of the initial state")
        panel.set_ylabel("nRMSE")
        panel.set_title(r"trained at $\mu = 0$ only, every other shift solved without training")
        panel.minorticks_off()
        panel.grid(True, axis="y")
        panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))

    return draw(path, (7.6, 3.8), paint)


def group_shifts(rows: Sequence[Row]) -> dict[float, list[Row]]:
    """The rows of every shift, in the order of the shifts."""
    return {shift: [r for r in rows if r["shift"] == shift] for shift in sorted({r["shift"] for r in rows})}
