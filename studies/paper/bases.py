"""The paper's table 1: properties of the bases as the library declares them, beside the paper's marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from studies.paper.records import Records
from studies.tables import Table


@dataclass(frozen=True)
class Marks:
    """The paper's column of a basis; None: no mark there."""

    capacity: str | None
    independence: str | None
    sparse: bool
    parameters_independent: bool
    controllable_sparsity: bool
    repeated_anchors: bool


PAPER = {  # heading -> (paper's marks, name of ours, where a row of the conditioning study is)
    "independent": (Marks(None, None, False, False, False, True), "Independent", None),
    "constraint": (Marks("poor", "poor", False, True, False, True), "ConstraintLayer", "constraint layer"),
    "hypernetwork": (Marks("poor", "fair", False, True, False, True), "Hypernet", "hypernet"),
    "kernel, dot product": (
        Marks("fair", "poor", False, True, False, False),
        "Kernel(DotProduct)",
        "dot-product kernel",
    ),
    "kernel, Gaussian": (Marks("good", "good", True, True, False, False), "Kernel", "Gaussian kernel"),
    "hypernetwork kernel": (Marks("good", "good", True, True, False, True), "HypernetKernel", None),
    "hybrid kernel": (Marks("good", "good", True, True, True, True), "Hybrid(HypernetKernel)", None),
}
ROWS = {
    "capacity": "learning capacity",
    "independence": "linear independence",
    "sparse": "sparse matrix",
    "parameters_independent": "parameters independent of constraints",
    "controllable_sparsity": "controllable sparsity",
    "repeated_anchors": "several constraints at one point",
}


def declared() -> Mapping[str, object]:
    """What the library says of each, of a small one that is made for the question."""
    import torch
    from torch import nn

    import cnf

    space, points = (
        cnf.Space("x y", "u"),
        torch.rand(3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)),
    )
    encoder = nn.Sequential(nn.Linear(2, 4, dtype=torch.float64), nn.Tanh())
    kernel = cnf.bases.Kernel(space, points, cnf.kernels.DotProduct(), encoder)
    hypernet = cnf.bases.HypernetKernel(space, points, encoder)
    return {
        **cnf.bases.CATALOGUE,
        "Kernel(DotProduct)": kernel.properties,
        "Hybrid(HypernetKernel)": cnf.bases.Hybrid(hypernet, cnf.kernels.Wendland(2, 0.5)).properties,
    }


def basis_table() -> Table:
    """A line per basis and property, ours after the paper's where they differ."""
    found = declared()
    header = ["basis", *ROWS.values()]
    lines: list[Sequence[object]] = []
    for heading, (marks, name, _) in PAPER.items():
        cells = [_cell(getattr(marks, row), getattr(found[name], row)) for row in ROWS]
        lines.append([f"{heading}: `{name}`", *cells])
    return Table(header, lines, left=len(header))


def measured_independence(records: Records | None, resolved: float) -> Table:
    """Condition numbers after training beside the paper's word for linear independence."""
    rows = {row["basis"]: row for row in (records.rows if records else [])}
    lines = []
    for heading, (marks, _, name) in PAPER.items():
        if name is not None:
            row = rows.get(name)
            shown = [_condition(row[c], resolved) for c in ("start", "end")] if row else ["not measured yet"] * 2
            lines.append([heading, marks.independence, *shown])
    return Table(
        ["basis", "paper: linear independence", "condition number at the start", "after training"], lines, left=2
    )


def _condition(value: float, resolved: float) -> str:
    return f"{value:.1e}" if value < resolved else f"beyond {resolved:.1e}, singular"


def _cell(paper: object, ours: object) -> str:
    words = [{True: "yes", False: "no", None: "no mark"}.get(v, str(v)) for v in (paper, ours)]  # type: ignore[call-overload]
    return words[0] if words[0] == words[1] else f"{words[0]} → {words[1]}"
