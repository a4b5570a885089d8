"""What is told of a reconstruction, whether its mesh is in memory or in a file."""

from __future__ import annotations

from collections.abc import Mapping
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

    @property
    def value_error(self) -> float: ...

    @property
    def normal_error(self) -> float: ...

    @property
    def angle(self) -> float: ...

    @property
    def support(self) -> float: ...

    @property
    def coverage(self) -> Coverage: ...

    @property
    def seconds(self) -> dict[str, float]: ...

    @property
    def memory(self) -> float: ...

    @property
    def evaluations(self) -> int: ...

    @property
    def sharpness(self) -> Sharpness | None: ...

    @property
    def notes(self) -> tuple[str, ...]: ...

    @property
    def settings(self) -> Mapping[str, Any]: ...
