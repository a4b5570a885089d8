"""What is told of a reconstruction, whether its mesh is in memory or in a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from cnf.certificate.certificate import Certificate
from cnf.meshes.mesh import Mesh
from cnf.shapes.reconstruction.creasing import Sharpness
from cnf.shapes.reconstruction.doubts import Coverage, Placed


@dataclass(frozen=True)
class MeshNumbers:
    """Of a mesh, in the coordinates of the input."""

    vertices: int
    faces: int
    watertight: bool
    boundary_edges: int
    components: int
    euler: int
    area: float
    attributes: tuple[str, ...]

    @staticmethod
    def of(mesh: Mesh) -> MeshNumbers:
        return MeshNumbers(
            *(len(mesh.vertices), len(mesh.faces), mesh.is_watertight, mesh.boundary_edges, mesh.components),
            *(mesh.euler, float(mesh.area), tuple(sorted(mesh.attributes))),
        )


class Outcome(Protocol):
    """What `summarise` needs."""

    value_error: float
    normal_error: float
    angle: float
    support: float
    coverage: Coverage
    seconds: dict[str, float]
    memory: float
    evaluations: int
    sharpness: Sharpness | None
    notes: tuple[str, ...]
    settings: dict[str, Any]

    @property
    def certificate(self) -> Certificate: ...

    @property
    def numbers(self) -> MeshNumbers: ...

    @property
    def points(self) -> int: ...

    @property
    def free(self) -> int: ...

    @property
    def placed(self) -> Placed: ...
