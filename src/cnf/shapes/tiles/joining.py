"""Pieces of a mesh joined on disk: what hangs together, which vertex is which, rims, and the file.

In come the files of the pieces, in their order; out goes a `Joint`, from which vertices and faces are written in
stream. In memory are the vertices on seams and rims, never those of the mesh.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from cnf.shapes.reconstruction.closing import pair_sides
from cnf.shapes.reconstruction.stitching import Names
from cnf.shapes.tiles.folder import load


@dataclass(frozen=True, eq=False)
class PieceFile:
    """A piece on disk, of which no more is read than is asked for."""

    path: Path

    def take(self, *names: str) -> tuple[np.ndarray, ...]:
        return tuple(load(self.path, *names).values())


@dataclass(eq=False)
class Joint:
    """How pieces fit: numbers of vertices, fans that were parted, and caps.

    Vertices are those of the pieces, each as of the first piece that has it; then copies; then middles of caps.
    """

    pieces: Sequence[PieceFile]
    kept: list[np.ndarray] = field(default_factory=list)  # of every piece, which of its components belong to points
    first: list[int] = field(default_factory=list)  # the number of its first new vertex
    known: list[np.ndarray] = field(default_factory=list)  # numbers of vertices on seams that it did not bring, or -1
    count: int = 0  # vertices of the pieces
    components: int = 0
    dropped: int = 0
    copied: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # vertices with several fans
    turned: dict[int, np.ndarray] = field(default_factory=dict)  # of a piece: corners (n, 2) that get another number
    caps: np.ndarray = field(default_factory=lambda: np.zeros((0, 3), dtype=np.int64))
    middles: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # vertices and columns of caps
    rims: int = 0  # sides of faces without a neighbour, before caps
    crowded: int = 0  # edges in more than two faces, or in two that do not run through it in opposite ways
    sides: int = 0  # of all faces of the pieces
    inner: np.ndarray = field(
        default_factory=lambda: np.zeros((0, 4))
    )  # rim vertices: number, distance, spacings, loop

    def number(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Of the vertices of a piece: which of the mesh they are (V,), -1 for none, and which are new (V,) bool."""
        shared, component = self.pieces[index].take("shared", "component")
        numbers = np.full(len(component), -1)
        numbers[shared] = self.known[index]
        new = (numbers < 0) & self.kept[index][component]
        numbers[new] = self.first[index] + np.arange(int(new.sum()))
        return numbers, new

    def faces_of(self, index: int) -> np.ndarray:
        """Faces (F, 3) of a piece, in numbers of the mesh."""
        faces, component = self.pieces[index].take("faces", "component")
        numbers, _ = self.number(index)
        found = numbers[faces].astype(np.int64)
        if index in self.turned:
            side, number = self.turned[index].T
            found.ravel()[side] = number
        return found[self.kept[index][component[faces[:, 0]]]] if len(faces) else found

    @property
    def vertices(self) -> int:
        return self.count + len(self.copied) + len(self.middles)

    @property
    def faces(self) -> int:
        return self.sides // 3 + len(self.caps)

    @property
    def boundary_edges(self) -> int:
        """Sides without a neighbour in the mesh as it is written."""
        return self.rims - len(self.caps)

    @property
    def edges(self) -> int:
        return (self.sides + 3 * len(self.caps) + self.boundary_edges) // 2

    @property
    def watertight(self) -> bool:
        return self.faces > 0 and self.boundary_edges == 0 and self.crowded == 0

    @property
    def euler(self) -> int:
        return self.vertices - self.edges + self.faces

    def blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Vertices (n, 3) and their columns (n, k), in the order of their numbers."""
        for index in range(len(self.pieces)):
            vertices, columns = self.pieces[index].take("vertices", "columns")
            new = self.number(index)[1]
            yield vertices[new], columns[new]
        if len(self.copied):
            rows = self.rows_of(self.copied)
            yield rows[:, :3], rows[:, 3:]
        if len(self.middles):
            yield self.middles[:, :3], self.middles[:, 3:]

    def corners(self) -> Iterator[np.ndarray]:
        """Faces (n, 3), in the order of the pieces, caps last."""
        for index in range(len(self.pieces)):
            yield self.faces_of(index)
        if len(self.caps):
            yield self.caps

    def rows_of(self, wanted: np.ndarray) -> np.ndarray:
        """Vertices and columns (n, 3 + k) of some numbers (n,)."""
        found: np.ndarray | None = None
        for index in range(len(self.pieces)):
            upper = self.first[index + 1] if index + 1 < len(self.pieces) else self.count
            own = np.flatnonzero((wanted >= self.first[index]) & (wanted < upper))
            if not len(own):
                continue
            new = np.flatnonzero(self.number(index)[1])
            vertices, columns = self.pieces[index].take("vertices", "columns")
            found = np.empty((len(wanted), 3 + columns.shape[1])) if found is None else found
            at = new[wanted[own] - self.first[index]]
            found[own] = np.concatenate([vertices[at], columns[at]], axis=1)
        return np.zeros((0, 3)) if found is None else found


def join_pieces(pieces: Sequence[PieceFile], cut: bool) -> Joint:
    """How all pieces fit; where the surface was `cut`, rims are closed by caps."""
    joint = Joint(pieces)
    _join_components(joint)
    _number(joint)
    _close(joint, cut)
    return joint


def _join_components(joint: Joint) -> None:
    """Components that meet on seams are one; those that hold no point are dropped."""
    names, ends, starts, seeds, total = Names(), list[np.ndarray](), list[int](), list[np.ndarray](), 0
    for piece in joint.pieces:
        shared, own, component, seeded, limits = piece.take("shared", "names", "component", "seeds", "apart")
        nodes = total + component[shared].astype(np.int64)
        other = names.find(own)
        met = other >= 0
        ends.append(np.stack([nodes[met], other[met]], axis=1))
        names.add(own[~met], nodes[~met])
        starts.append(total)
        seeds.append(total + seeded)
        total += len(limits)
    pairs = np.concatenate(ends)
    graph = coo_matrix((np.ones(len(pairs), dtype=bool), (pairs[:, 0], pairs[:, 1])), shape=(total, total))
    count, part = connected_components(graph, directed=False)
    held = np.zeros(count, dtype=bool)
    held[part[np.concatenate(seeds)]] = True
    joint.components, joint.dropped = int(held.sum()), int(count - held.sum())
    kept = held[part]
    joint.kept = [kept[start:stop] for start, stop in zip(starts, [*starts[1:], total], strict=True)]


def _number(joint: Joint) -> None:
    names = Names()
    for index, piece in enumerate(joint.pieces):
        shared, own, component, faces = piece.take("shared", "names", "component", "faces")
        joint.first.append(joint.count)
        joint.known.append(names.find(own))
        numbers, new = joint.number(index)
        fresh = (joint.known[index] < 0) & (numbers[shared] >= 0)
        names.add(own[fresh], numbers[shared[fresh]])
        joint.count += int(new.sum())
        if len(faces):
            kept = joint.kept[index][component[faces[:, 0]]]
            joint.sides += 3 * int(kept.sum())


def _close(joint: Joint, cut: bool) -> None:
    """Match sides across seams; what is left are rims."""
    found, rims = list[np.ndarray](), list[np.ndarray]()
    for index, piece in enumerate(joint.pieces):
        sides, ends, edges = piece.take("sides", "ends", "edges")
        joint.crowded += int(edges[0] - edges[1] - edges[3])  # neither on a rim nor between two that fit
        numbers, _ = joint.number(index)
        start, end = numbers[sides[:, 0]], numbers[sides[:, 1]]
        there = start >= 0
        place = np.full(int(there.sum()), index)
        found.append(np.stack([start[there], end[there], place, sides[there, 2]], axis=1))
        row = ends[:, 0].astype(np.int64)
        rims.append(np.concatenate([numbers[row][:, None], ends[:, 1:]], axis=1)[numbers[row] >= 0])
    sides, around = np.concatenate(found), np.concatenate(rims)
    single = _unmatched(sides, joint)
    rim = sides[single]
    joint.rims = len(rim)
    around = around[np.argsort(around[:, 0], kind="stable")]
    around = around[np.diff(around[:, 0], prepend=-1) != 0] if len(around) else around[:, :3].reshape(0, 3)
    if not len(rim) or not cut:
        return
    _part_fans(joint, rim)
    members, number = np.unique(rim[:, :2].T.ravel(), return_inverse=True)
    a, b = number[: len(rim)], number[len(rim) :]
    graph = coo_matrix((np.ones(len(rim), dtype=bool), (a, b)), shape=(len(members), len(members)))
    loops, loop = connected_components(graph, directed=False)
    original = members.copy()
    copies = members >= joint.count
    original[copies] = joint.copied[members[copies] - joint.count]
    rows = joint.rows_of(original)
    weight = np.bincount(loop)[:, None]
    joint.middles = np.stack([np.bincount(loop, column) for column in rows.T], axis=1) / weight
    first = joint.count + len(joint.copied)
    joint.caps = np.stack([rim[:, 1], rim[:, 0], first + loop[a]], axis=1)
    place = np.searchsorted(around[:, 0], original)
    joint.inner = np.concatenate([members[:, None], around[place, 1:], loop[:, None]], axis=1)
    assert loops == len(joint.middles)


def _unmatched(sides: np.ndarray, joint: Joint) -> np.ndarray:
    """Numbers of sides (n, 4) that no other one runs along in the opposite way; those of too many are counted."""
    low, high = sides[:, :2].min(axis=1), sides[:, :2].max(axis=1)
    order = np.lexsort((high, low))
    first = np.flatnonzero((np.diff(low[order], prepend=-1) != 0) | (np.diff(high[order], prepend=-1) != 0))
    held = np.diff(first, append=len(order))
    second = np.minimum(first + 1, max(len(order) - 1, 0))
    fits = (held == 2) & (sides[order[first], 0] == sides[order[second], 1]) if len(order) else held == 2
    joint.crowded += int(np.sum(~fits & (held > 1)))
    return np.sort(order[first[held == 1]])


def _part_fans(joint: Joint, rim: np.ndarray) -> None:
    """Where several fans of faces meet in one vertex of a rim only, each but the first gets a copy of it.

    `rim` (n, 4): start, end, piece and side; it is changed to the new numbers.
    """
    starts, times = np.unique(rim[:, 0], return_counts=True)
    several = starts[times > 1]
    if not len(several):
        return
    faces, places = list[np.ndarray](), list[np.ndarray]()
    for index in range(len(joint.pieces)):
        own = joint.faces_of(index)
        full = np.flatnonzero(np.isin(own, several).any(axis=1))
        if len(full):
            raw = _raw_rows(joint, index)[full]
            faces.append(own[full])
            places.append(np.stack([np.full(len(raw), index), raw], axis=1))
    around, place = np.concatenate(faces), np.concatenate(places)
    twin = pair_sides(around, joint.count)
    side = np.flatnonzero(twin >= 0)
    across = twin[side] - twin[side] % 3 + (twin[side] % 3 + 1) % 3
    size = around.size
    graph = coo_matrix((np.ones(len(side), dtype=bool), (side, across)), shape=(size, size))
    fan = connected_components(graph, directed=False)[1]
    corner = np.flatnonzero(np.isin(around.ravel(), several))
    vertex, label = around.ravel()[corner], fan[corner]
    _, first, which = np.unique(label, return_index=True, return_inverse=True)
    order = np.lexsort((first, vertex[first]))  # fans of a vertex in the order of their faces
    repeated = np.concatenate([[False], np.diff(vertex[first][order]) == 0])
    number = vertex[first].copy()
    extra = order[repeated]
    number[extra] = joint.count + np.arange(len(extra))
    joint.copied = vertex[first][extra]
    changed = number[which] != vertex
    for index in np.unique(place[:, 0]):
        own = changed & (place[corner // 3, 0] == index)
        if own.any():
            at = 3 * place[corner[own] // 3, 1] + corner[own] % 3
            joint.turned[int(index)] = np.stack([at, number[which][own]], axis=1)
    for index, turned in joint.turned.items():
        renewed = dict(zip(turned[:, 0].tolist(), turned[:, 1].tolist(), strict=True))
        for row in np.flatnonzero(rim[:, 2] == index):
            side_ = int(rim[row, 3])
            ahead = side_ - side_ % 3 + (side_ % 3 + 1) % 3
            rim[row, 0], rim[row, 1] = renewed.get(side_, rim[row, 0]), renewed.get(ahead, rim[row, 1])


def _raw_rows(joint: Joint, index: int) -> np.ndarray:
    """Which faces of a piece's file those are that the mesh has."""
    faces, component = joint.pieces[index].take("faces", "component")
    return np.flatnonzero(joint.kept[index][component[faces[:, 0]]])
