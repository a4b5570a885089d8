"""Report of a curve through points: polylines as CSV, picture as SVG and PNG, the field, and a summary as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cnf.files import write_text
from cnf.reports.plots import draw
from cnf.reports.results import Run, publish
from cnf.reports.tables import Table
from cnf.shapes.report.field_panel import paint_field

if TYPE_CHECKING:
    from cnf.shapes.planar.curve import PlanarCurve

ARROWS = 120  # points beyond which normals would hide the curve
PIXELS = 800  # of the longest side of the SVG


def write_curve(found: PlanarCurve, folder: object) -> list[Path]:
    """curve.csv, curve.svg, curve.png, curve.json and field.pt, all or none of them."""
    lines = [[k, *vertex] for k, curve in enumerate(found.curves) for vertex in curve.tolist()]
    with publish(folder, "curve") as results:
        place = results.folder
        made = [
            write_text(place / "curve.csv", Table(["curve", "x", "y"], lines).csv()),
            write_text(place / "curve.svg", svg_text(found)),
            plot_curve(found, place / "curve.png"),
            write_text(place / "curve.json", json.dumps(summary(found, results.run), indent=2) + "\n"),
        ]
        found.field.save(place / "field.pt")
    return results.published([*made, place / "field.pt"])


def summary(found: PlanarCurve, run: Run | None = None) -> dict[str, object]:
    """What is needed to use the field: its coordinates; what was measured; and the run."""
    prepared, certificate = found.prepared, found.field.certificate
    return {
        "run": asdict(run) if run is not None else None,
        "centre": prepared.centre.tolist(),
        "scale": prepared.scale,
        "field": "d(x) = scale * field((x - centre) / scale), negative inside",
        "points": len(prepared),
        "normals": found.normals,
        "normals_estimated": prepared.estimated,
        "basis": found.chosen,
        "exact": certificate.exact,
        "worst_relative_residual": certificate.worst,
        "worst_value": found.value_error * prepared.scale,
        "mean_normal_error": found.normal_error,
        "curves": len(found.curves),
        "closed": found.closed,
        "notes": list(prepared.notes),
    }


def svg_text(found: PlanarCurve) -> str:
    """The curves and the points as an SVG in the coordinates of the input, y upwards."""
    points = found.prepared.to_input(found.prepared.points)
    everything = np.concatenate([points, *found.curves])
    low, high = everything.min(axis=0), everything.max(axis=0)
    span = float((high - low).max()) or 1.0
    low, high = low - 0.05 * span, high + 0.05 * span
    unit = PIXELS / float((high - low).max())
    width, height = (high - low) * unit

    def place(vertices: np.ndarray) -> np.ndarray:
        return np.stack([(vertices[:, 0] - low[0]) * unit, (high[1] - vertices[:, 1]) * unit], axis=1)

    paths = [" L ".join(f"{x:.3f} {y:.3f}" for x, y in place(curve)) for curve in found.curves]
    radius = 4.0 if len(points) <= 200 else 1.5
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.3f} {height:.3f}">']
    parts += [f'<path d="M {path}" fill="none" stroke="#222222" stroke-width="2"/>' for path in paths]
    parts += [
        f'<circle cx="{x:.3f}" cy="{y:.3f}" r="{radius:g}" fill="#FFD21F" stroke="#222222"/>' for x, y in place(points)
    ]
    return "\n".join([*parts, "</svg>\n"])


def plot_curve(found: PlanarCurve, path: object) -> Path:
    """The field around the points, its zero level set, points and, if there are few, normals."""
    prepared = found.prepared
    few = len(prepared) <= ARROWS
    side = found.grid.shape[0]
    shown = np.abs(np.linspace(-2, 2, side)) <= 1.5  # the box has room around the points
    grid = prepared.scale * found.grid[np.ix_(shown, shown)]
    edge = 2 * float(np.count_nonzero(shown) - 1) / (side - 1)

    def paint(figure: Any) -> None:
        from matplotlib.ticker import MaxNLocator

        panel = figure.subplots()
        limit = max(0.05 * prepared.scale, float(np.percentile(np.abs(grid), 90)))
        normals = prepared.normals if few else prepared.normals[:0]
        image = paint_field(
            panel,
            grid,
            prepared.points,
            normals,
            found.gradients if few else None,
            box=(-edge, edge, -edge, edge),
            limit=limit,
            arrow=min(0.25, 0.9 * prepared.spacing),
        )
        bar = figure.colorbar(image, ax=panel, pad=0.02, shrink=0.8)
        bar.ax.set_title("d", fontsize=10)
        bar.locator = MaxNLocator(7)
        bar.update_ticks()
        bar.outline.set_visible(False)
        panel.set_title(f"{len(prepared)} points, {found.normals} normals\n{found.chosen}")

    return draw(path, (6.4, 5.6), paint)
