"""The study of exact normals: four planar shapes by every method, measured before and after training.

One case is one method on one shape. Its result depends on shape, method, seed and size only; circles that serve as a
start for other shapes are trained once and handed on. Normals are measured by reverse-mode differentiation of the
field's values, not by the code that imposes them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from cnf.errors import CnfWarning
from cnf.shapes.commands.planar import Epochs
from cnf.shapes.planar.fields import CLIP, FIXED_POINTS, QUICK, Size
from studies.keeping import find_arrays
from studies.normals import plots
from studies.normals.shapes import SHAPES, find_shape
from studies.normals.solving import INFERENCE_POINTS, solve_shape
from studies.options import Names, Seed, choose
from studies.study import Case, Desk, Row, Study
from studies.tables import Table, show

METHODS = ("exact", "pseudo", "siren", "hermite")
# shape: mean normal error of the paper: SIREN trained; pseudo-normals, exact normals before and after training.
PAPER: dict[str, dict[str, tuple[float | None, float]]] = {
    "circle": {"siren": (None, 1.71e-2), "pseudo": (0.776, 0.499), "exact": (4.516e-6, 1.083e-6)},
    "line": {"siren": (None, 1.02e-3), "pseudo": (3.817, 1.589e-2), "exact": (2.737e-6, 6.963e-6)},
    "triangle": {"siren": (None, 3.21e-1), "pseudo": (0.466, 0.238), "exact": (7.371e-5, 6.292e-6)},
    "diamond": {"siren": (None, 1.05e-1), "pseudo": (1.588, 0.277), "exact": (1.450e-5, 3.368e-6)},
}
# (training, inference) in seconds, averages of the paper, on hardware and numbers of points that it does not name.
PAPER_SECONDS = {"exact": (242.0, 0.0663), "siren": (148.4, 0.1437)}


LOOKED = ("normal_error", "worst_normal_error", "value_error", "eikonal", "distance_error")
NOTES = (
    "Normal error: mean |grad d - n| over the points, by reverse-mode differentiation of the field's values. "
    "Worst |d| at the points, eikonal loss and distance RMSE (against the exact signed distance) at {fixed} fixed "
    "points, all after training. Exact normals start from a circle trained with as many points, pseudo-normals do "
    "not, as in the paper. {epochs} epochs of {points} points, Adam with lr {rate:g} and gradients cut to "
    "{clip:g}; the width of the Gaussian starts as that of smallest eikonal loss among a few for which the "
    "conditions hold to 1e-12. Networks in the loss are evaluated in float32, conditions in float64. SIREN makes "
    "{steps} steps. Seconds are medians; inference is one evaluation at {inference} points. The paper names "
    "neither its hardware nor the number of points it timed."
)


@dataclass(frozen=True)
class Normals(Study):
    """The paper's planar shapes with exact normals.

    Beside pseudo-normals, SIREN and Hermite functions.
    Takes about three quarters of an hour on two free cores, about a minute with --quick.
    """

    name = "normals"
    key = ("shape", "method")
    columns = (
        *("points", *(f"start_{name}" for name in LOOKED), *LOOKED, "worst_residual", "epochs"),
        *("training_seconds", "training_processor_seconds", "pretraining_seconds", "inference_seconds"),
        *("paper_start", "paper", "note"),
    )
    curve = ("epoch", "eikonal", "residual", "seconds")

    shapes: Annotated[
        Names, typer.Option(metavar="NAMES", help="From circle, line, triangle, diamond, with commas; default: all.")
    ] = None
    methods: Annotated[
        Names, typer.Option(metavar="NAMES", help="From exact, pseudo, siren, hermite, with commas; default: all.")
    ] = None
    epochs: Epochs = None
    seed: Seed = 0
    quick: Annotated[
        bool, typer.Option("--quick", help="A look: small networks, 20 epochs of 300 points; not the paper's size.")
    ] = False

    def __post_init__(self) -> None:
        self.cases()

    @property
    def size(self) -> Size:
        """Of networks and training."""
        size = QUICK if self.quick else Size()
        return size if self.epochs is None else replace(size, epochs=self.epochs)

    def settings(self) -> dict[str, Any]:
        return {"quick": self.quick, "epochs": self.size.epochs, "seed": self.seed}

    def cases(self) -> list[Case]:
        methods = choose(self.methods, METHODS, "method")
        return [{"shape": s, "method": m} for s in choose(self.shapes, SHAPES, "shape") for m in methods]

    def count_steps(self, case: Case) -> int:
        return self.size.epochs

    def introduce(self) -> str:
        size = self.size
        networks = f"encoder 2 -> {size.hidden} -> {size.features}"
        return f"d = 0 and grad d = n at 9 or 12 points; {networks}, {size.epochs} epochs of {size.points} points"

    def run(self, case: Case, desk: Desk) -> Row:
        """One method on one shape; circles that serve as a start for other shapes are trained once."""

        def tell(epoch: int, loss: float) -> None:
            desk.tell(f"epoch {epoch}: eikonal loss {loss:.3g}")

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CnfWarning)  # residuals are in the result
            side = 61 if self.quick else 101
            found = solve_shape(case["shape"], case["method"], self.size, self.seed, desk.shared, side, tell)
        start = {f"start_{name}": None if found.before is None else getattr(found.before, name) for name in LOOKED}
        paper = PAPER[case["shape"]].get(case["method"], (None, None))
        looks, course = {"before": found.before, "after": found.after}, found.course
        desk.keep(**{f"{w}_{n}": getattr(look, n) for w, look in looks.items() if look for n in ("grid", "normals")})
        return {
            "points": len(find_shape(case["shape"])),
            **start,
            **{name: getattr(found.after, name) for name in LOOKED},
            "worst_residual": max(course.residual, default=None),
            "epochs": self.size.epochs if course.step else 0,
            "training_seconds": found.seconds,
            "training_processor_seconds": found.processor,
            "pretraining_seconds": found.pretraining,
            "inference_seconds": found.inference,
            "paper_start": paper[0],
            "paper": paper[1],
            "note": found.note,
            "curve": dict(zip(self.curve, (course.step, course.loss, course.residual, course.seconds), strict=True)),
        }

    def describe(self, row: Row) -> str:
        return f"normal error {row['normal_error']:.1e}, eikonal loss {row['eikonal']:.2g}"

    def tables(self, rows: Sequence[Row]) -> list[Table]:
        """Normal errors beside the paper, and what else is asked; then medians of the seconds."""
        errors = {
            "shape": ("shape", ""),
            "method": ("method", ""),
            "normal error: start": ("start_normal_error", ".1e"),
            "trained": ("normal_error", ".1e"),
            "paper: start": ("paper_start", ".1e"),
            "paper: trained": ("paper", ".1e"),
            "worst |d|": ("value_error", ".1e"),
            "eikonal": ("eikonal", ".1e"),
            "distance RMSE": ("distance_error", ".2f"),
        }
        return [Table.of(rows, errors, left=2), time_table(rows)]

    def notes(self, rows: Sequence[Row]) -> str:
        size, paper = self.size, Size()
        counts = {"fixed": FIXED_POINTS, "inference": INFERENCE_POINTS, "steps": size.epochs * size.siren_steps}
        given = {"epochs": size.epochs, "points": size.points, "rate": size.rate, "clip": CLIP}
        same = (size.hidden, size.features, size.points) == (paper.hidden, paper.features, paper.points)
        return NOTES.format(**counts, **given) + ("" if same else " The networks are smaller than the paper's.")

    def plots(self, rows: Sequence[Row], folder: Path) -> list[Path]:
        fields = [find_arrays(self, folder, row) for row in rows]
        made = [
            plots.plot_fields(rows, fields, folder / "normals_fields.png"),
            plots.plot_errors(rows, folder / "normals_errors.png"),
        ]
        if any(row["curve"]["epoch"] for row in rows):
            made.append(plots.plot_curves(rows, folder / "normals_curves.png"))
        return made


def time_table(rows: Sequence[Row]) -> Table:
    """One row per method: medians over the shapes, in seconds, beside the paper."""
    header = ["method", "epochs", "training", "pre-training", "paper training", "inference", "paper inference"]
    lines = []
    for method in dict.fromkeys(r["method"] for r in rows):
        group = [r for r in rows if r["method"] == method]
        before = [r["pretraining_seconds"] for r in group if r["pretraining_seconds"]]
        training, inference = (median(r[f"{name}_seconds"] for r in group) for name in ("training", "inference"))
        paper = [show(value, "g") for value in PAPER_SECONDS.get(method, (None, None))]
        start = show(median(before) if before else None, ".1f")
        lines.append(
            [method, group[0]["epochs"] or None, f"{training:.1f}", start, paper[0], f"{inference:.4f}", paper[1]]
        )
    return Table(header, lines)
