"""The work of one part of a cloud on disk: its piece of the mesh, and all that joining it to the others needs to know.

What comes out is a file: vertices and faces for the mesh, and beside them sides without a neighbour, vertices on seams,
connected components, and what is far from the points. So pieces can be joined without two of them in memory.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cnf.certificate.certificate import Certificate, Residual
from cnf.certificate.findings import Findings
from cnf.execution import Shared
from cnf.meshes.mesh import Mesh
from cnf.shapes.clouds.spacing import Spacing
from cnf.shapes.reconstruction.closing import pair_sides
from cnf.shapes.reconstruction.doubts import ALLOWED, LEEWAY, largest_gap
from cnf.shapes.reconstruction.pieces import Asked, MeshPart, Piece
from cnf.shapes.reconstruction.refinement import NORMALS
from cnf.shapes.tiles import folder as folders
from cnf.shapes.tiles.surface import TiledSurface


@dataclass(frozen=True, eq=False)
class MeshTile:
    """The work; `asked`: parts by number, with cells that the surface leads into, in later rounds."""

    surface: Shared[TiledSurface]
    asked: dict[int, np.ndarray]
    first: bool
    reach: float
    flatness: float
    folder: str

    def __call__(self, number: int) -> None:
        work, whole = MeshPart(self.surface, self.reach, self.flatness), self.surface.open()
        entries = self.asked.get(number, np.zeros(0, dtype=np.int64))
        piece = work(Asked(number, entries, self.first))
        ((local, _),) = whole._last.values()
        missed = np.zeros((0, 3))
        if len(piece.missed):
            own = whole.own(number)
            missed = own.points[np.isin(own.rows, piece.missed)]
        names = [name for name, _ in whole.cloud.names]
        columns = np.concatenate([piece.attributes[name] for name in (*names, NORMALS)], axis=1)
        found = {
            **{"vertices": piece.vertices, "columns": columns, "faces": piece.faces},
            **{"shared": piece.shared, "names": piece.names, "missed": missed, "entries": entries},
            **{"cells": piece.cells, "beyond": piece.beyond, "cut": np.array([piece.cut])},
            "errors": np.array([piece.errors.value, piece.errors.normal, piece.errors.angle]),
            "said": as_bytes(
                {
                    **{"seconds": piece.seconds, "evaluations": piece.evaluations},
                    "certificate": pack_certificate(piece.certificate),
                }
            ),
            **_look_at(piece, local.spacing, whole.cloud.count),
        }
        folders.keep(Path(self.folder) / f"{number}.npz", found)


def _look_at(piece: Piece, spacing: Spacing, count: int) -> dict[str, np.ndarray]:
    """How the piece hangs together, its sides, and what of it is far from the points."""
    mesh = Mesh(piece.vertices, piece.faces)
    if not len(mesh.faces):
        none, rows = np.zeros(0, dtype=np.int64), np.zeros((0, 5))
        nothing = {"component": none, "sides": np.zeros((0, 3), np.int64), "seeds": none, "off": rows}
        nothing |= {"ends": rows[:, :3], "bare_distance": rows[:, 0]}
        return {**nothing, "bare": none, "apart": np.zeros((0, 3)), "edges": np.zeros(4, dtype=np.int64)}
    component = mesh.vertex_components
    twin = pair_sides(mesh.faces, len(mesh.vertices))
    open_ = np.flatnonzero(twin < 0)
    start, end = mesh.faces.ravel()[open_], np.roll(mesh.faces, -1, axis=1).ravel()[open_]
    distance, apart = spacing.measure(mesh.vertices)
    areas = mesh.areas
    shares = np.bincount(mesh.faces.ravel(), np.repeat(areas / 3, 3), len(mesh.vertices))
    off = np.flatnonzero(apart > ALLOWED)
    ends = np.unique(start)
    limits = np.zeros((mesh.components, 3))
    np.maximum.at(limits[:, 0], component, distance)
    np.maximum.at(limits[:, 1], component, apart)
    limits[:, 2] = np.bincount(component[mesh.faces[:, 0]], areas, mesh.components)
    bare = np.flatnonzero((apart > largest_gap(count) + LEEWAY)[mesh.faces].all(axis=1))
    return {
        "component": component.astype(np.int32),
        "seeds": np.unique(component[piece.seeded]),
        "sides": np.stack([start, end, open_], axis=1),
        "ends": np.stack([ends, distance[ends], apart[ends]], axis=1),
        "off": np.stack([off, distance[off], apart[off], shares[off], component[off]], axis=1),
        "bare": bare,
        "bare_distance": distance[mesh.faces[bare]].max(axis=1, initial=0.0),
        "apart": limits,  # of every component: largest distance, in spacings too, and area
        "edges": np.array([len(mesh.edges), mesh.boundary_edges, mesh.crowded_edges, mesh._edge_kinds[3]]),
    }


# ---- certificates in files


def pack_certificate(given: Certificate) -> dict[str, object]:
    """All that certificates of parts are joined by, as plain values."""
    return {
        "residuals": {name: [r.absolute, r.relative] for name, r in given.residuals.items()},
        **{name: getattr(given, name) for name in PLAIN},
        **{"notes": list(given.notes), "unmeasured": dict(given.unmeasured)},
        "findings": [given.rank, given.condition],
    }


def unpack_certificate(given: dict) -> Certificate:
    """The certificate; what conflicts in it is told in its hint alone."""
    return Certificate(
        residuals={str(name): Residual(*pair) for name, pair in given["residuals"].items()},
        **{name: given[name] for name in PLAIN},
        notes=tuple(given["notes"]),
        unmeasured=given["unmeasured"],
        findings=Findings(int(given["findings"][0]), float(given["findings"][1])),
    )


PLAIN = (
    *("tolerance", "conditions", "functions", "channels", "weight_norm", "data_size", "seconds", "solver", "measured"),
    *("shared", "hint", "remedy"),
)


def as_bytes(values: dict[str, object]) -> np.ndarray:
    """Plain values as an array of bytes; NaN stays NaN."""
    return np.frombuffer(json.dumps(values).encode(), dtype=np.uint8)


def from_bytes(given: np.ndarray) -> dict:
    return json.loads(given.tobytes())
