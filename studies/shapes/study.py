"""Shapes, the study: meshes of a public collection, sampled, reconstructed by every method, and measured.

One case is one method on one shape, in a process of its own, so that its memory is its own; methods of other packages
run in an interpreter that has them (`peers`), started from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from cnf.errors import CnfError
from studies.options import Names, Seed, Threads, Timeout, choose
from studies.shapes import plots
from studies.shapes.collection import GROUPS, PAPER_SHAPES, SHAPES, find_folder, name_shapes, read_shape
from studies.shapes.measures import Measures, compare, sample_oriented
from studies.shapes.methods import METHODS as OWN_METHODS
from studies.shapes.methods import Made, run_timed
from studies.shapes.starting import PEERS, list_peers, run_peer, say_missing
from studies.shapes.tables import NOTES, PAPER_NOTE, make_tables
from studies.study import Case, Desk, Row, Study
from studies.tables import Table

METHODS = (*OWN_METHODS, *PEERS)
NUMBERS = ("seconds", "processor_seconds", "megabytes", "value_error", "normal_error")


@dataclass(frozen=True)
class Shapes(Study):
    """Surfaces through points, by cnf and by other packages.

    10,000 points with normals; distances, time, memory.
    """

    name = "shapes"
    key = ("shape", "method")
    columns = (*NUMBERS, *(f.name for f in fields(Measures)), "how", "notes")
    alone = True

    shapes: Annotated[
        Names,
        typer.Option(
            metavar="NAMES",
            help=f"From {', '.join(SHAPES)}, with commas; or paper (the first four, the default), study (the first "
            "six), chosen-on (what settings were looked at on), held-out (the others).",
        ),
    ] = None
    methods: Annotated[
        Names,
        typer.Option(
            metavar="NAMES",
            help="Ours: cnf, cnf-auto, cnf-trained, cnf-snapped, cnf-refined, cnf-blend, cnf-sharp, cnf-pseudo, "
            "paper; others: scipy-tps, open3d-..., pymeshlab-...; default: all.",
        ),
    ] = None
    points: Annotated[int, typer.Option(min=4, help="Drawn from each shape.")] = 10_000
    resolution: Annotated[int, typer.Option(min=8, help="Nodes of the grid along its longest side.")] = 160
    samples: Annotated[int, typer.Option(min=1, help="Of each surface, for measuring.")] = 100_000
    seed: Seed = 0
    threads: Threads = 1
    peers_python: Annotated[
        Path | None, typer.Option("--peers-python", help="A Python that has open3d and pymeshlab; default: this one.")
    ] = None
    data: Annotated[
        Path | None, typer.Option(help="Folder that has the meshes in mesh/; default: environment variable CNF_DATA.")
    ] = None
    timeout: Timeout = 1800

    def __post_init__(self) -> None:
        folder = find_folder(self.data)
        for shape in dict.fromkeys(case["shape"] for case in self.cases()):
            read_shape(shape, folder)  # now, not after an hour

    def settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("points", "resolution", "seed", "threads", "samples")}

    def cases(self) -> list[Case]:
        there = self._available()
        shapes = name_shapes(choose(self.shapes, (*SHAPES, *GROUPS), "shape", PAPER_SHAPES))
        return [{"shape": shape, "method": method} for shape in shapes for method in there]

    def introduce(self) -> str:
        methods = choose(self.methods, METHODS, "method")
        left_out = say_missing([name for name in methods if name not in self._available()], self.peers_python)
        threads = f"{self.threads} thread{'s' * (self.threads > 1)}"
        return "\n".join([*left_out, f"{self.points} points with normals, resolution {self.resolution}, {threads}"])

    def _available(self) -> list[str]:
        """The methods that can be started here."""
        methods = choose(self.methods, METHODS, "method")
        peers = list_peers(self.peers_python) if any(name in PEERS for name in methods) else []
        found = [name for name in methods if name in OWN_METHODS or name in peers]
        if not found:
            raise CnfError(f"none of the methods can run here: {'; '.join(say_missing(methods, self.peers_python))}")
        return found

    def run(self, case: Case, desk: Desk) -> Row:
        """Sample, reconstruct, measure; the mesh is kept for pictures and for whoever wants to look at it."""
        from cnf.shapes.files.writing import write_mesh

        truth = read_shape(case["shape"], find_folder(self.data))
        points, normals = sample_oriented(truth, self.points, self.seed)
        method = case["method"]
        made: Made = (
            run_timed(method, points, normals, self.resolution)
            if method in OWN_METHODS
            else run_peer(method, points, normals, self.resolution, self.threads, self.peers_python)
        )
        measures = compare(made.mesh, truth, points, normals, samples=self.samples, seed=self.seed + 1)
        write_mesh(made.mesh, desk.file(self.mesh_file(case)))
        numbers = {name: made.measured.get(name) for name in NUMBERS}
        return {**numbers, **asdict(measures), "how": made.setting, "notes": "; ".join(made.notes)}

    def mesh_file(self, case: Case) -> str:
        """The mesh of a case, by its name in the folder."""
        return f"meshes/{case['shape']}_{case['method']}_{self.points}_{self.resolution}_{self.seed}.ply"

    def describe(self, row: Row) -> str:
        return f"{row['seconds'] or 0:6.1f} s   Chamfer {row['chamfer']:.2e}   inputs {row['input_max']:.0e}"

    def tables(self, rows: Sequence[Row]) -> list[Table]:
        return make_tables(rows)

    def notes(self, rows: Sequence[Row]) -> str:
        return NOTES + (PAPER_NOTE if any(row["method"] == "paper" for row in rows) else "")

    def plots(self, rows: Sequence[Row], folder: Path) -> list[Path]:
        from cnf.shapes.files.reading import read_mesh

        made = [plots.plot_study(rows, folder / "shapes.png")]
        for shape in dict.fromkeys(row["shape"] for row in rows):
            truth = read_shape(shape, find_folder(self.data))
            own = [row for row in rows if row["shape"] == shape]
            meshes = [(row, read_mesh(folder / self.mesh_file(row))) for row in own]
            made.append(plots.draw_shape(shape, truth, meshes, folder / f"shapes_{shape}.png"))
            made.append(plots.draw_shape(shape, truth, meshes, folder / f"shapes_{shape}_errors.png", errors=True))
        return made
