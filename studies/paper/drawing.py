"""Drawing from rows: learning curves and points, by the plot functions of the studies themselves."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from studies.paper.records import Records
from studies.study import Row


def draw_conditioning(records: Records, path: Path) -> None:
    """Figure 5."""
    from studies.conditioning.plots import plot_conditioning
    from studies.conditioning.study import RESOLVED

    settings = records.settings
    title = (
        f"{settings['points']} points, {settings['parameters']:g} parameters: trained for the condition number alone"
    )
    plot_conditioning(records.rows, path, RESOLVED, title)


def draw_advection_curves(records: Records, path: Path) -> None:
    """Figure 17, of the first grid at every perturbation."""
    from studies.advection.plots import plot_curves

    first = min(row["seed"] for row in records.rows)
    plot_curves([row for row in records.rows if row["seed"] == first], path)


def draw_transfer(records: Records, path: Path) -> None:
    """Table 9 as a picture."""
    from studies.transfer.plots import plot_transfer

    rows = records.rows
    if any("seed" in row for row in rows):
        first = min(row["seed"] for row in rows)
        rows = [row for row in rows if row["seed"] == first]
    plot_transfer(rows, path)


def draw_normal_curves(records: Records, path: Path) -> None:
    """Figure 16."""
    from studies.normals.plots import plot_curves

    plot_curves(records.rows, path)


def draw_material_curves(records: Records, path: Path) -> None:
    """Figure 8: of one material, or the mean over several."""
    from cnf.materials.report.curves import draw_learning_curves
    from studies.materials.results import mean_curves

    cases = as_measured(records.rows)
    count = len({case.material for case in cases})
    draw_learning_curves(mean_curves(cases), path, cases[0].label if count == 1 else f"mean over {count} materials")


def as_measured(rows: list[Row]) -> list[Any]:
    """Rows as the reports of materials take them."""
    from studies.materials.cases import Case

    names = {f.name for f in fields(Case)}
    return [
        Case(
            **{name: row[name] for name in row if name in names},
            steps=row.get("curve", {}).get("step", []),
            losses=row.get("curve", {}).get("loss", []),
            times=row.get("curve", {}).get("seconds", []),
        )
        for row in rows
    ]
