"""Shapes, tables of the study: one per shape, and one of means over the methods that finished on all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from studies.study import Row
from studies.tables import Table

COLUMNS = {  # heading -> (name, how a number is written)
    "Chamfer e-4": ("chamfer", lambda v: f"{1e4 * v:.2f}"),
    "Hausdorff": ("hausdorff", lambda v: f"{v:.4f}"),
    "largest": ("largest", lambda v: f"{v:.4f}"),
    "normals": ("normal_consistency", lambda v: f"{v:.4f}"),
    "F .002": ("f_fine", lambda v: f"{v:.3f}"),
    "F .01": ("f_coarse", lambda v: f"{v:.4f}"),
    "inputs mean": ("input_mean", lambda v: f"{v:.0e}"),
    "inputs max": ("input_max", lambda v: f"{v:.1e}"),
    "angle": ("input_angle_mean", lambda v: f"{v:.2f}"),
    "closed": ("watertight", lambda v: "yes" if v == 1 else "no" if v == 0 else f"{100 * v:.0f} %"),
    "parts": ("components", lambda v: f"{v:g}"),
    "Euler": ("euler", lambda v: f"{v:g}"),
    "faces k": ("faces", lambda v: f"{v / 1000:.0f}"),
    "seconds": ("seconds", lambda v: f"{v:.1f}"),
    "processor": ("processor_seconds", lambda v: f"{v:.1f}"),
    "MB": ("megabytes", lambda v: f"{v:.0f}"),
}
NOTES = (
    "Distances for shapes of size 2. Chamfer: mean of both directions, to triangles; largest: of the mesh from the "
    "true one, vertices included; normals: mean |cos| at closest points; F: F-scores at 0.002 and 0.01; inputs: "
    "distance of the given points from the mesh; angle: mean degrees between their normals and the faces there; "
    "seconds: by the clock without imports; processor: the seconds all threads worked, which a busy machine does not "
    "lengthen; MB: peak memory of the process."
)


PAPER_NOTE = (
    " paper: the paper's scheme, a small system for every node of the grid, here in batches and near the surface only; "
    "the paper reports about 8 hours for 160^3 nodes, one at a time and on other hardware."
)


def make_tables(rows: Sequence[Row]) -> list[Table]:
    """A table per shape; and, of several shapes, one of means."""
    shapes, methods = list(dict.fromkeys(r["shape"] for r in rows)), list(dict.fromkeys(r["method"] for r in rows))
    tables = [_table(shape, [[r] for r in rows if r["shape"] == shape]) for shape in shapes]
    whole = [group for m in methods if len(group := [r for r in rows if r["method"] == m]) == len(shapes)]
    return [*tables, _table(f"mean over {', '.join(shapes)}", whole)] if len(shapes) > 1 and whole else tables


def _table(title: str, groups: Sequence[Sequence[Row]]) -> Table:
    best_first = sorted(groups, key=lambda group: mean_of(group, "chamfer", math.inf))
    lines = [[g[0]["method"], *(_write(g, *column) for column in COLUMNS.values())] for g in best_first]
    return Table(["method", *COLUMNS], lines, title=title)


def mean_of(group: Sequence[Row], name: str, nothing: float = math.nan) -> float:
    """Of what is known of a group."""
    values = [value for row in group if (value := row.get(name)) is not None]
    return math.fsum(values) / len(values) if values else nothing


def _write(group: Sequence[Row], name: str, style: Any) -> str:
    value = mean_of(group, name)
    if name == "euler" and len({row[name] for row in group}) > 1:
        return "mixed"  # a mean of Euler numbers says nothing
    return "-" if math.isnan(value) else style(value)
