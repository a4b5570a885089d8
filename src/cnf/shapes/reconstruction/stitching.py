"""The mesh of a surface that is solved part by part: pieces are put together in the order of their parts.

In comes a `PartedSurface`; out goes a `Stitched`: one mesh on its zero set, and what was measured on the way. A surface
that leads from one part into another, where that has no points, is followed there in a further round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np

from cnf.certificate.judgement import judge
from cnf.errors import ConstraintError
from cnf.execution import Executor, Failed
from cnf.meshes.mesh import Mesh
from cnf.shapes.reconstruction.closing import cap_rims, part_fans
from cnf.shapes.reconstruction.measuring import Errors
from cnf.shapes.reconstruction.parts import PartedSurface
from cnf.shapes.reconstruction.pieces import Asked, MeshPart, Piece


@dataclass(frozen=True, eq=False)
class Stitched:
    """One mesh of all pieces, and how it came about."""

    mesh: Mesh
    errors: Errors
    cut: int  # cells in which the surface was not followed further
    holes: int
    dropped: int  # parts of the zero set that belong to no point
    missed: np.ndarray  # numbers of points that are off the piece of their part
    seconds: dict[str, float]  # of all pieces together


def mesh_parts(
    surface: PartedSurface,
    reach: float,
    flatness: float,
    close: bool,
    executor: Executor,
    report: Callable[[str], None],
) -> Stitched:
    """Follow the surface through all parts, up to `reach` from the points; faces as flat as `flatness` steps."""
    work, pieces = MeshPart(executor.share(surface), reach, flatness), list[Piece]()
    none, grid = np.zeros(0, dtype=np.int64), surface.grid
    waiting = [Asked(number, none, True) for number, part in enumerate(surface.parts) if len(part.rows)]
    visited = [none for _ in surface.parts]
    while waiting:
        found: list[Piece | None] = [None for _ in waiting]
        sizes = [len(surface.parts[asked.number].rows) for asked in waiting]
        order = np.argsort(-np.array(sizes), kind="stable")  # the largest first, so that workers end together
        given = [waiting[place] for place in order]
        with closing(executor.run(work, given)) as running:  # whatever happens here, workers end what they are at
            for number, piece in running:
                if isinstance(piece, Failed):
                    piece.raise_error()
                found[order[number]] = piece
                done = sum(one is not None for one in found)
                report(f"part {done} of {len(waiting)}: {len(piece.faces)} faces")
        made = [piece for piece in found if piece is not None]
        for asked, piece in zip(waiting, made, strict=True):
            visited[piece.number] = np.union1d(visited[piece.number], np.concatenate([piece.cells, asked.entries]))
            surface.certificates[piece.number] = piece.certificate
            surface.counted[0] += piece.evaluations
        pieces += made
        beyond = np.unique(np.concatenate([piece.beyond for piece in made]))
        waiting = [
            Asked(number, new, False)
            for number, own in _sort_by_part(surface, beyond)
            if len(new := np.setdiff1d(own, visited[number]))
        ]
    judge(surface.certificate, "warn")
    return _join(pieces, close, grid.step, len(surface.points))


def _sort_by_part(surface: PartedSurface, numbers: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Numbers of cells, part by part."""
    cells = surface.grid.split(numbers)
    for number, part in enumerate(surface.parts):
        own = np.all((cells >= part.lower) & (cells < part.upper), axis=1)
        if own.any():
            yield number, numbers[own]


@dataclass(eq=False)
class Names:
    """Vertices in sides, by the names under which several pieces know them."""

    names: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # ascending
    numbers: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # which vertex of the whole it is

    def add(self, names: np.ndarray, numbers: np.ndarray) -> None:
        order = np.argsort(merged := np.concatenate([self.names, names]), kind="stable")
        self.names, self.numbers = merged[order], np.concatenate([self.numbers, numbers])[order]

    def find(self, names: np.ndarray) -> np.ndarray:
        """The vertex of the whole that each name is, -1 for one that is not there yet."""
        if not len(self.names):
            return np.full(len(names), -1)
        place = np.minimum(np.searchsorted(self.names, names), len(self.names) - 1)
        return np.where(self.names[place] == names, self.numbers[place], -1)


def _join(pieces: list[Piece], close: bool, step: float, points: int) -> Stitched:
    """All pieces as one mesh: what belongs to no point dropped, rims closed. Takes the pieces, which are large."""
    if not any(len(piece.faces) for piece in pieces):
        raise ConstraintError(
            f"no surface is seen around the {points} points at a grid step of {step:.3g}: the shape is thinner than "
            "the step, or small beside a far outlier. Raise the resolution, or remove points that lie far from the rest"
        )
    errors, seconds = Errors(), dict[str, float]()
    for piece in pieces:
        errors = errors.worse(piece.errors)
        for name, spent in piece.seconds.items():
            seconds[name] = seconds.get(name, 0.0) + spent
    cut, missed = sum(piece.cut for piece in pieces), np.sort(np.concatenate([piece.missed for piece in pieces]))
    mesh, seeded = _put_together(pieces)
    if cut:
        fans, faces = part_fans(
            np.concatenate([mesh.vertices, seeded[:, None], *mesh.attributes.values()], 1), mesh.faces
        )
        widths = [values.shape[1] for values in mesh.attributes.values()]
        columns = np.split(fans[:, 4:], np.cumsum(widths)[:-1], axis=1)
        mesh, seeded = Mesh(fans[:, :3], faces, dict(zip(mesh.attributes, columns, strict=True))), fans[:, 3] > 0
    component = mesh.vertex_components
    held = np.unique(component[seeded])
    dropped = mesh.components - len(held[held >= 0])
    if dropped:
        mesh = mesh.keep_vertices(np.isin(component, held))
    closed, holes = cap_rims(mesh) if cut else (mesh, 0)
    return Stitched(closed if close else mesh, errors, cut, holes, dropped, missed, seconds)


def _put_together(pieces: list[Piece]) -> tuple[Mesh, np.ndarray]:
    """One mesh, in which a vertex that several pieces have is that of the first; and which are seeded (V,).

    Takes the pieces one by one, so that no array is there twice.
    """
    numbers, count = _number(pieces)
    seeded = np.zeros(count, dtype=bool)
    vertices, faces = np.empty((count, 3)), np.empty((sum(len(piece.faces) for piece in pieces), 3), dtype=np.int64)
    widths = {name: values.shape[1] for name, values in pieces[0].attributes.items()}
    attributes = {name: np.empty((count, width)) for name, width in widths.items()}
    done = filled = 0
    while pieces:
        piece, own = pieces.pop(0), numbers.pop(0)
        seeded[own[piece.seeded]] = True
        faces[filled : filled + len(piece.faces)] = own[piece.faces]
        new = own >= done  # numbers of vertices that it is the first to have
        vertices[own[new]] = piece.vertices[new]
        for name, table in attributes.items():
            table[own[new]] = piece.attributes[name][new]
        done, filled = done + int(new.sum()), filled + len(piece.faces)
    return Mesh(vertices, faces, attributes), seeded


def _number(pieces: list[Piece]) -> tuple[list[np.ndarray], int]:
    """Which vertex of the whole each vertex of every piece is, and how many there are."""
    sides, count, numbers = Names(), 0, list[np.ndarray]()
    for piece in pieces:
        own = np.full(len(piece.vertices), -1)
        own[piece.shared] = sides.find(piece.names)
        new = own < 0
        own[new] = count + np.arange(new.sum())
        fresh = new[piece.shared]
        sides.add(piece.names[fresh], own[piece.shared[fresh]])
        count += int(new.sum())
        numbers.append(own)
    return numbers, count
