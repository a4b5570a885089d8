"""A closed mesh whose size and volume are known."""

from __future__ import annotations

import numpy as np

from cnf.meshes.mesh import Mesh


def make_ellipsoid(longest: float = 1.0, across: int = 24) -> Mesh:
    """An ellipsoid of half axes (longest, 0.8, 0.6) around (3, 0, 0), from a grid of angles."""
    turn = np.linspace(0, 2 * np.pi, 2 * across, endpoint=False)
    rise = np.linspace(0, np.pi, across + 1)[1:-1]
    rings = [[np.sin(r) * np.cos(t), np.sin(r) * np.sin(t), np.cos(r)] for r in rise for t in turn]
    vertices = np.array([*rings, [0, 0, 1], [0, 0, -1]]) * [longest, 0.8, 0.6] + [3, 0, 0]
    count, top, bottom = len(turn), len(rings), len(rings) + 1
    faces = []
    for k in range(count):
        after = (k + 1) % count
        faces += [[top, k, after], [bottom, len(rings) - count + after, len(rings) - count + k]]
        for ring in range(len(rise) - 1):
            a, b, c, d = (ring * count + k, ring * count + after, (ring + 1) * count + k, (ring + 1) * count + after)
            faces += [[a, c, b], [b, c, d]]
    return Mesh(vertices, np.array(faces))
