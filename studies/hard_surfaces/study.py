"""Hard surfaces, the study: forms and models that are hard to make out of their points, by every method, measured.

One case is one method on one form, in a process of its own. Methods run with their own settings: cnf as
`cnf.shapes.reconstruct` does it when it is told nothing, others as in the study of shapes. `cnf-open` and
`open3d-poisson-8-trimmed` are told that a surface is open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from cnf.errors import CnfError
from studies.hard_surfaces import report
from studies.hard_surfaces.cases import CASES, GROUPS, MADE
from studies.keeping import read_kept
from studies.options import Names, Seed, Threads, Timeout, choose
from studies.shapes.collection import find_folder, read_shape
from studies.shapes.measures import Measures, compare
from studies.shapes.methods import run_timed
from studies.shapes.starting import PEERS, list_peers, run_peer, say_missing
from studies.study import Case, Desk, Row, Study
from studies.tables import Table

OURS: dict[str, dict[str, Any]] = {"cnf-auto": {}, "cnf-open": {"close": False}}  # name -> what is told
TOLD = ("cnf-open", "open3d-poisson-8-trimmed")  # for open surfaces alone
OTHERS = (
    *("open3d-poisson-8", "open3d-poisson-9", "open3d-poisson-10", "open3d-poisson-8-trimmed"),
    *("pymeshlab-poisson-8", "pymeshlab-poisson-w100", "pymeshlab-apss", "pymeshlab-rimls"),
)
METHODS = (*OURS, *OTHERS)
NUMBERS = ("seconds", "processor_seconds", "megabytes", "value_error", "normal_error")
RESOLUTION = 160  # of the others' grids


@dataclass(frozen=True)
class HardSurfaces(Study):
    """Surfaces that their points say little about.

    Few points, uneven ones, close sheets, no normals on thin parts, rims. By cnf and by other packages, each with its
    own settings; distances, time, memory, and what cnf says.
    """

    name = "surfaces-hard"
    key = ("form", "method")
    columns = (*NUMBERS, *(f.name for f in fields(Measures)), "how", "notes")
    alone = True

    forms: Annotated[
        Names,
        typer.Option(
            metavar="NAMES",
            help=f"Groups ({', '.join(GROUPS)}), or forms such as spot-300, slab; default: all, without CNF_DATA "
            "and --data those made here.",
        ),
    ] = None
    methods: Annotated[Names, typer.Option(metavar="NAMES", help=f"From {', '.join(METHODS)}; default: all.")] = None
    resolution: Annotated[
        int | None, typer.Option(min=8, help="Nodes of the grid; default: 160, for cnf what it takes by itself.")
    ] = None
    samples: Annotated[int, typer.Option(min=1, help="Of each surface, for measuring.")] = 100_000
    seed: Seed = 0
    threads: Threads = 1
    peers_python: Annotated[
        Path | None, typer.Option("--peers-python", help="A Python that has open3d and pymeshlab; default: this one.")
    ] = None
    data: Annotated[
        Path | None, typer.Option(help="Folder that has the meshes in mesh/; default: environment variable CNF_DATA.")
    ] = None
    before: Annotated[
        Path | None, typer.Option(help="Folder of an earlier run: its rows of cnf stand in the tables as 'before'.")
    ] = None
    timeout: Timeout = 1800

    def __post_init__(self) -> None:
        models = dict.fromkeys(CASES[case["form"]].model for case in self.cases())
        for model in filter(None, models):
            read_shape(model, find_folder(self.data))  # now, not after an hour

    def settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("resolution", "seed", "threads", "samples")}

    def cases(self) -> list[Case]:
        there = self._available()
        wanted = choose(self.forms, (*GROUPS, *CASES), "form", self._default())
        names = [name for name, hard in CASES.items() if name in wanted or hard.group in wanted]
        return [
            {"form": name, "method": method}
            for name in names
            for method in there
            if method not in TOLD or CASES[name].group == "open"
        ]

    def _default(self) -> Sequence[str]:
        """Everything if there are data, otherwise what is made here."""
        try:
            find_folder(self.data)
        except CnfError:
            if self.data is not None:
                raise
            return MADE
        return tuple(CASES)

    def _available(self) -> list[str]:
        methods = choose(self.methods, METHODS, "method")
        peers = list_peers(self.peers_python) if any(name in PEERS for name in methods) else []
        found = [name for name in methods if name in OURS or name in peers]
        if not found:
            raise CnfError(f"none of the methods can run here: {'; '.join(say_missing(methods, self.peers_python))}")
        return found

    def introduce(self) -> str:
        methods = choose(self.methods, METHODS, "method")
        left_out = say_missing([name for name in methods if name not in self._available()], self.peers_python)
        threads = f"{self.threads} thread{'s' * (self.threads > 1)}"
        return "\n".join([*left_out, f"{len({c['form'] for c in self.cases()})} hard surfaces, {threads}"])

    def run(self, case: Case, desk: Desk) -> Row:
        """Draw, reconstruct, measure; the mesh is kept for whoever wants to look at it."""
        from cnf.shapes.files.writing import write_mesh

        hard, method = CASES[case["form"]], case["method"]
        drawn = hard.draw(find_folder(self.data) if hard.model else None, self.seed)
        points, given = drawn.points, drawn.normals if hard.normals else None
        if method in OURS:
            made = run_timed("cnf-auto", points, given, self.resolution, **OURS[method])
        else:
            made = run_peer(method, points, given, self.resolution or RESOLUTION, self.threads, self.peers_python)
        asked: dict[str, Any] = {"samples": self.samples, "seed": self.seed + 1, "known": drawn.known}
        measures = compare(made.mesh, drawn.truth, points, drawn.normals, **asked)
        write_mesh(made.mesh, desk.file(f"meshes/{desk.name}.ply"))
        numbers = {name: made.measured.get(name) for name in NUMBERS}
        return {**numbers, **asdict(measures), "how": made.setting, "notes": "; ".join(made.notes)}

    def describe(self, row: Row) -> str:
        return f"{row['seconds'] or 0:6.1f} s   Chamfer {row['chamfer']:.2e}   largest {row['largest']:.2e}"

    def tables(self, rows: Sequence[Row]) -> list[Table]:
        return report.make_tables([*rows, *self._earlier(rows)])

    def notes(self, rows: Sequence[Row]) -> str:
        return report.NOTES

    def plots(self, rows: Sequence[Row], folder: Path) -> list[Path]:
        return [report.plot([*rows, *self._earlier(rows)], folder / f"{self.stem}.png")]

    def _earlier(self, rows: Sequence[Row]) -> list[Row]:
        """Rows of cnf from the folder of an earlier run, of the forms that are there."""
        if self.before is None:
            return []
        names = {row["form"] for row in rows}
        kept = [found["row"] for _, found in read_kept(self.name, self.before)]
        ours = [row for row in kept if row["method"] in OURS and row["form"] in names and "failed" not in row]
        return [{**row, "method": f"{row['method']} before"} for row in ours]
