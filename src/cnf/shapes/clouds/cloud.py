"""Clouds, the value at the start: points with or without normals and attributes, and what was done to get them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cnf.errors import ConstraintError
from cnf.meshes.mesh import attributes_of


@dataclass(frozen=True, eq=False)
class PointCloud:
    """Points of a surface (D = 3) or a curve (D = 2), as given; `prepare_cloud` checks and cleans them.

    >>> cloud = cnf.shapes.PointCloud(np.zeros((5, 3)), normals=np.ones((5, 3)))
    >>> cloud.dimension, cloud.points.shape
    (3, (5, 3))
    """

    points: np.ndarray  # (P, D) float64
    normals: np.ndarray | None = None  # (P, D) float64, of any length
    attributes: dict[str, np.ndarray] = field(default_factory=dict)  # name -> (P, k): colours, intensity, ...
    notes: tuple[str, ...] = ()  # what was done on the way here, for the user to read

    def __post_init__(self):
        points = np.ascontiguousarray(self.points, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] not in (2, 3):
            raise ConstraintError(f"points are one row each, (P, 3) or (P, 2), got shape {points.shape}")
        object.__setattr__(self, "points", points)
        if self.normals is not None:
            normals = np.ascontiguousarray(self.normals, dtype=np.float64)
            if normals.shape != points.shape:
                raise ConstraintError(f"normals have shape {normals.shape}, points {points.shape}; give one per point")
            object.__setattr__(self, "normals", normals)
        object.__setattr__(self, "attributes", attributes_of(self.attributes, len(points), "point"))
        object.__setattr__(self, "notes", tuple(self.notes))

    def __len__(self) -> int:
        return len(self.points)

    def __repr__(self) -> str:
        normals = "with normals" if self.normals is not None else "no normals"
        named = f", attributes {', '.join(self.attributes)}" if self.attributes else ""
        return f"PointCloud({len(self)} points in {self.dimension}D, {normals}{named})"

    @property
    def dimension(self) -> int:
        """D: 3 for surfaces, 2 for curves."""
        return self.points.shape[1]

    def take(self, rows: np.ndarray, *notes: str) -> PointCloud:
        """Some of the points, by number or mask, with further notes."""
        normals = None if self.normals is None else self.normals[rows]
        attributes = {name: value[rows] for name, value in self.attributes.items()}
        return PointCloud(self.points[rows], normals, attributes, self.notes + notes)
