"""Reading gmsh: meshes of versions 2.2 and 4.1 in ASCII, with their physical groups. A path comes in, `Gmsh` comes out.

Elements of higher order are taken by their corners. All counts are held against what the file has before they are used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cnf.errors import FileError
from cnf.reading.sources import check_source, parse_numbers, read_bytes

LARGEST = 2**28  # bytes
# Nodes of every type of element, and how many of them are corners, by dimension; types above 31 are hardly used.
NODES = {1: 2, 2: 3, 3: 4, 4: 4, 8: 3, 9: 6, 10: 9, 11: 10, 15: 1, 16: 8, 20: 9, 21: 10, 22: 12, 23: 15, 24: 15, 25: 21}
NODES |= {26: 4, 27: 5, 28: 6, 29: 20, 30: 35, 31: 56}
CORNERS = {
    0: {15: 1},
    1: dict.fromkeys((1, 8, 26, 27, 28), 2),
    2: dict.fromkeys((2, 9, 20, 21, 22, 23, 24, 25), 3) | dict.fromkeys((3, 10, 16), 4),
    3: dict.fromkeys((4, 11, 29, 30, 31), 4),
}
LARGEST_TAG = 2**53


@dataclass(frozen=True, eq=False)
class Cells:
    """Elements of one kind: corners (E, k) as numbers of points, and the name of the group of each, "" for none."""

    corners: np.ndarray
    names: np.ndarray  # (E,) of texts


@dataclass(frozen=True, eq=False)
class Gmsh:
    """`points` (N, 3); `lines`, `faces` (triangles; quadrangles are cut) and `solids` (tetrahedra)."""

    source: Path
    points: np.ndarray
    lines: Cells
    faces: Cells
    solids: Cells


def read_gmsh(path: object) -> Gmsh:
    """Points, elements and the names of their physical groups."""
    source = check_source(path, LARGEST)
    sections = _sections(read_bytes(source), source)
    version = sections.get(b"MeshFormat", b"").split()
    if len(version) < 3:
        raise FileError(f"{source} is not a gmsh file: it has no section $MeshFormat")
    if version[1] != b"0":
        raise FileError(f"{source} is binary; save it as ASCII (Mesh.Binary = 0)")
    number = version[0].decode("ascii", "replace")
    for section in (b"Nodes", b"Elements"):
        if section not in sections:
            raise FileError(f"{source} has no section ${section.decode()}; it was cut short, or is empty")
    read: type[_Version2 | _Version4]
    if number.startswith("2"):
        read = _Version2
    elif number.startswith("4.1"):
        read = _Version4
    else:
        raise FileError(f"{source} has version {number[:10]}; 2.2 and 4.1 are read (Mesh.MshFileVersion = 2.2)")
    return read(source, sections).read()


def _sections(data: bytes, source: Path) -> dict[bytes, bytes]:
    """What stands between $Name and $EndName."""
    found = {}
    for match in re.finditer(rb"^\$(\w+)[ \t]*\r?\n(.*?)^\$End\1", data, flags=re.MULTILINE | re.DOTALL):
        found[match[1]] = match[2]
    if not found:
        raise FileError(f"{source} is not a gmsh file: it has no sections that begin with $ and end with $End")
    return found


class _Version:
    """What both versions share."""

    def __init__(self, source: Path, sections: dict[bytes, bytes]):
        self.source, self.sections = source, sections
        self.names = self._physical_names()
        self.groups: list[tuple[int, np.ndarray, np.ndarray]] = []  # type, nodes (E, k), physical tags (E,)

    def read(self) -> Gmsh:
        tags, points = self._nodes()
        if not len(points) or not np.isfinite(points).all():
            raise FileError(f"{self.source} has no nodes, or nodes that are not finite")
        order = np.argsort(tags, kind="stable")
        ordered = tags[order]
        if len(ordered) > 1 and (np.diff(ordered) == 0).any():
            raise FileError(f"{self.source}: two nodes have the same number")
        self._elements()
        cells = {}
        for dimension, kinds in CORNERS.items():
            corners, names = [], []
            for kind, nodes, physical in self.groups:
                if kind not in kinds:
                    continue
                own = nodes[:, : kinds[kind]]
                place = np.searchsorted(ordered, own)
                if len(own) and (
                    (place >= len(ordered)).any() or (ordered[np.minimum(place, len(tags) - 1)] != own).any()
                ):
                    raise FileError(f"{self.source}: an element uses a node that is not there; the file is damaged")
                own = order[place]
                called = np.array([self._name(dimension, int(tag)) for tag in physical.tolist()], dtype=object)
                if dimension == 2 and kinds[kind] == 4:
                    own = np.concatenate([own[:, [0, 1, 2]], own[:, [0, 2, 3]]])
                    called = np.concatenate([called, called])
                corners.append(own)
                names.append(called)
            width = min(dimension + 1, 4)
            cells[dimension] = Cells(
                np.concatenate([np.zeros((0, width), dtype=np.int64), *corners]),
                np.concatenate([np.zeros(0, dtype=object), *names]),
            )
        return Gmsh(self.source, points, cells[1], cells[2], cells[3])

    def _name(self, dimension: int, tag: int) -> str:
        return self.names.get((dimension, tag), f"group {tag}") if tag else ""

    def _physical_names(self) -> dict[tuple[int, int], str]:
        found = {}
        for line in self.sections.get(b"PhysicalNames", b"").splitlines()[1:]:
            match = re.fullmatch(rb'\s*(\d{1,2})\s+(-?\d{1,15})\s+"([^"]{0,200})"\s*', line)
            if match:
                found[int(match[1]), int(match[2])] = match[3].decode("utf-8", "replace").strip()
        return found

    def _numbers(self, section: bytes) -> np.ndarray:
        return parse_numbers(self.sections[section], self.source, f"section ${section.decode()}")

    def _whole(self, numbers: np.ndarray, what: str) -> np.ndarray:
        if not (
            np.isfinite(numbers).all() and (np.abs(numbers) < LARGEST_TAG).all() and (numbers == np.rint(numbers)).all()
        ):
            raise FileError(f"{self.source}: {what} are not whole numbers; the file is damaged")
        return numbers.astype(np.int64)

    def _short(self, section: str) -> FileError:
        return FileError(
            f"{self.source}: section ${section} has fewer numbers than it promises; the file was cut short"
        )

    def _kind(self, kind: int) -> int:
        if kind not in NODES:
            raise FileError(
                f"{self.source}: elements of type {kind} are not read; mesh with triangles, quadrangles and tetrahedra"
            )
        return NODES[kind]

    def _nodes(self) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError

    def _elements(self) -> None:
        raise NotImplementedError


class _Version2(_Version):
    """A node or an element per line."""

    def _nodes(self) -> tuple[np.ndarray, np.ndarray]:
        numbers = self._numbers(b"Nodes")
        if len(numbers) < 1 or len(numbers) - 1 != 4 * numbers[0]:
            raise self._short("Nodes")
        table = numbers[1:].reshape(-1, 4)
        return self._whole(table[:, 0], "the numbers of nodes"), table[:, 1:]

    def _elements(self) -> None:
        numbers = self._whole(self._numbers(b"Elements"), "elements")
        at, found = 1, 0
        by_kind: dict[int, list[tuple[np.ndarray, int]]] = {}
        while at < len(numbers):
            if at + 3 > len(numbers):
                raise self._short("Elements")
            kind, tags = int(numbers[at + 1]), int(numbers[at + 2])
            begin = at + 3 + tags
            end = begin + self._kind(kind)
            if not 0 <= tags < 1000 or end > len(numbers):
                raise self._short("Elements")
            by_kind.setdefault(kind, []).append((numbers[begin:end], int(numbers[at + 3]) if tags else 0))
            at, found = end, found + 1
        if not len(numbers) or found != numbers[0]:
            raise self._short("Elements")
        for kind, rows in by_kind.items():
            self.groups.append((kind, np.stack([nodes for nodes, _ in rows]), np.array([tag for _, tag in rows])))


class _Version4(_Version):
    """Blocks of nodes and elements, each of one entity; entities have physical groups."""

    def _nodes(self) -> tuple[np.ndarray, np.ndarray]:
        numbers = self._numbers(b"Nodes")
        if len(numbers) < 4:
            raise self._short("Nodes")
        at = 4
        tags, points = [], []
        for _ in range(int(self._whole(numbers[:1], "counts")[0])):
            if at + 4 > len(numbers):
                raise self._short("Nodes")
            dimension, _, parametric, count = self._whole(numbers[at : at + 4], "counts").tolist()
            width = 3 + (dimension if parametric else 0)
            end = at + 4 + count * (1 + width)
            if count < 0 or not 0 <= dimension <= 3 or end > len(numbers):
                raise self._short("Nodes")
            tags.append(self._whole(numbers[at + 4 : at + 4 + count], "the numbers of nodes"))
            points.append(numbers[at + 4 + count : end].reshape(count, width)[:, :3])
            at = end
        return np.concatenate([np.zeros(0, dtype=np.int64), *tags]), np.concatenate([np.zeros((0, 3)), *points])

    def _elements(self) -> None:
        groups = self._entities()
        numbers = self._whole(self._numbers(b"Elements"), "elements")
        if len(numbers) < 4:
            raise self._short("Elements")
        at = 4
        for _ in range(int(numbers[0])):
            if at + 4 > len(numbers):
                raise self._short("Elements")
            dimension, entity, kind, count = numbers[at : at + 4].tolist()
            width = 1 + self._kind(kind)
            end = at + 4 + count * width
            if count < 0 or end > len(numbers):
                raise self._short("Elements")
            rows = numbers[at + 4 : end].reshape(count, width)
            self.groups.append((kind, rows[:, 1:], np.full(count, groups.get((dimension, entity), 0))))
            at = end

    def _entities(self) -> dict[tuple[int, int], int]:
        """The first physical group of every entity, by dimension and number."""
        lines = self.sections.get(b"Entities", b"").splitlines()
        if not lines:
            return {}
        counts = self._whole(parse_numbers(lines[0], self.source, "section $Entities"), "counts").tolist()
        if len(counts) != 4 or min(counts) < 0 or sum(counts) > len(lines) - 1:
            raise self._short("Entities")
        found = {}
        at = 1
        for dimension, count in enumerate(counts):
            for line in lines[at : at + count]:
                row = parse_numbers(line, self.source, "section $Entities")
                place = 4 if dimension == 0 else 7
                if len(row) <= place:
                    raise self._short("Entities")
                if row[place] >= 1 and len(row) > place + 1:
                    entity, tag = self._whole(row[[0, place + 1]], "the numbers of groups").tolist()
                    found[dimension, entity] = tag
            at += count
        return found
