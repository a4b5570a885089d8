"""gmsh files for tests, written by the rules of the format: plane meshes and meshes of tetrahedra, in both versions."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

TYPES = {1: 1, 2: 2, 3: 4}  # lines, triangles, tetrahedra


@dataclass
class Written:
    """Points (N, 3), and for every named group its dimension and its elements (E, k)."""

    points: np.ndarray
    groups: dict[str, tuple[int, np.ndarray]] = field(default_factory=dict)

    def version2(self) -> str:
        names = [f'{dimension} {tag} "{name}"' for tag, (name, (dimension, _)) in enumerate(self.groups.items(), 1)]
        nodes = [f"{k + 7} {x!r} {y!r} {z!r}" for k, (x, y, z) in enumerate(self.points.tolist())]
        rows = [
            f"{TYPES[dimension]} 2 {tag} {tag} {' '.join(str(n + 7) for n in row)}"
            for tag, (dimension, elements) in enumerate(self.groups.values(), 1)
            for row in elements.tolist()
        ]
        numbered = [f"{k} {row}" for k, row in enumerate(rows, 1)]
        parts = [("PhysicalNames", names), ("Nodes", nodes), ("Elements", numbered)]
        body = "".join(f"${n}\n{len(lines)}\n" + "\n".join(lines) + f"\n$End{n}\n" for n, lines in parts)
        return "$MeshFormat\n2.2 0 8\n$EndMeshFormat\n" + body

    def version4(self) -> str:
        names = [f'{dimension} {tag} "{name}"' for tag, (name, (dimension, _)) in enumerate(self.groups.items(), 1)]
        counts = [0, 0, 0, 0]
        entities: list[str] = []
        for wanted in (1, 2, 3):
            for tag, (dimension, _) in enumerate(self.groups.values(), 1):
                if dimension == wanted:
                    counts[dimension] += 1
                    entities.append(f"{tag} 0 0 0 1 1 1 1 {tag} 0")
        count = len(self.points)
        nodes = [f"1 {count} 7 {count + 6}", f"2 1 0 {count}", *(str(k + 7) for k in range(count))]
        nodes += [f"{x!r} {y!r} {z!r}" for x, y, z in self.points.tolist()]
        total = sum(len(elements) for _, elements in self.groups.values())
        elements = [f"{len(self.groups)} {total} 1 {total}"]
        number = itertools.count(1)
        for tag, (dimension, rows) in enumerate(self.groups.values(), 1):
            elements.append(f"{dimension} {tag} {TYPES[dimension]} {len(rows)}")
            elements += [f"{next(number)} {' '.join(str(n + 7) for n in row)}" for row in rows.tolist()]
        parts = [("PhysicalNames", [str(len(names)), *names]), ("Entities", [" ".join(map(str, counts)), *entities])]
        parts += [("Nodes", nodes), ("Elements", elements)]
        body = "".join(f"${n}\n" + "\n".join(lines) + f"\n$End{n}\n" for n, lines in parts)
        return "$MeshFormat\n4.1 0 8\n$EndMeshFormat\n" + body


def grid(counts: tuple[int, ...], place: Callable[[np.ndarray], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Points (N, 3) of a grid of cells, moved by `place`, and its triangles or tetrahedra."""
    numbers = np.arange(int(np.prod([n + 1 for n in counts]))).reshape([n + 1 for n in counts])
    unit = np.stack(np.meshgrid(*(np.linspace(0, 1, n + 1) for n in counts), indexing="ij"), axis=-1)
    points = place(unit.reshape(-1, len(counts)))
    cells = []
    for order in itertools.permutations(range(len(counts))):
        corner, chain = np.zeros(len(counts), dtype=int), []
        for axis in (None, *order):
            if axis is not None:
                corner[axis] = 1
            chain.append(numbers[tuple(slice(c, n + c) for c, n in zip(corner, counts, strict=True))].ravel())
        cells.append(np.stack(chain, axis=1))
    flat = np.concatenate([points, np.zeros((len(points), 3 - points.shape[1]))], axis=1)
    return flat, np.concatenate(cells)


def plate() -> Written:
    """[0, 4] x [0, 2] without [1, 2] x [0.5, 1.5]; the right half is called steel, the rest wood."""
    points, cells = grid((16, 8), lambda u: u * [4.0, 2.0])
    centre = points[cells].mean(axis=1)
    hole = (centre[:, 0] > 1) & (centre[:, 0] < 2) & (centre[:, 1] > 0.5) & (centre[:, 1] < 1.5)
    cells, centre = cells[~hole], centre[~hole]
    sides = np.concatenate([cells[:, [0, 1]], cells[:, [1, 2]], cells[:, [2, 0]]])
    _, place, count = np.unique(np.sort(sides, axis=1), axis=0, return_inverse=True, return_counts=True)
    sides = sides[count[place.reshape(-1)] == 1]
    middle = points[sides].mean(axis=1)
    left, rim = middle[:, 0] == 0, (middle[:, 0] >= 1) & (middle[:, 0] <= 2) & (np.abs(middle[:, 1] - 1) <= 0.5)
    steel = centre[:, 0] > 2
    groups = {
        "left": (1, sides[left]),
        "rim": (1, sides[rim]),
        "outer wall": (1, sides[~left & ~rim]),
        "steel": (2, cells[steel][:, ::-1]),  # in the other direction
        "wood": (2, cells[~steel]),
    }
    return Written(points, groups)


def brick() -> Written:
    """The unit cube in tetrahedra, its bottom and its other faces named, its lower half too."""
    points, cells = grid((2, 2, 2), lambda u: u)
    sides = np.concatenate([np.delete(cells, k, axis=1) for k in range(4)])
    _, place, count = np.unique(np.sort(sides, axis=1), axis=0, return_inverse=True, return_counts=True)
    sides = sides[count[place.reshape(-1)] == 1]
    bottom = points[sides][:, :, 2].max(axis=1) == 0
    lower = points[cells][:, :, 2].mean(axis=1) < 0.5
    groups = {"bottom": (2, sides[bottom]), "mantle": (2, sides[~bottom])}
    return Written(points, {**groups, "lower": (3, cells[lower]), "upper": (3, cells[~lower])})


def write(path: Path, written: Written, version: int) -> Path:
    path.write_text(written.version2() if version == 2 else written.version4())
    return path
