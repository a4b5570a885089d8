"""Surfaces whose points, normals and topology are known in closed form."""

from __future__ import annotations

import numpy as np

from cnf.meshes.mesh import Mesh


def sphere(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points of the unit sphere, and their outward normals."""
    points = np.random.default_rng(seed).normal(size=(count, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points, points.copy()


def torus(count: int, seed: int = 0, tube: float = 0.35) -> tuple[np.ndarray, np.ndarray]:
    """Area-uniform points of a torus with radii 1 and `tube`, and their outward normals."""
    random = np.random.default_rng(seed)
    u, v, w = random.random((3, 4 * count)) * 2 * np.pi
    kept = np.flatnonzero(w / (2 * np.pi) * (1 + tube) < 1 + tube * np.cos(v))[:count]
    u, v = u[kept], v[kept]
    normals = np.stack([np.cos(u) * np.cos(v), np.sin(u) * np.cos(v), np.sin(v)], axis=1)
    return np.stack([np.cos(u), np.sin(u), 0 * u], axis=1) + tube * normals, normals


def slab(count: int, gap: float = 3.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A box: two unit squares `gap` mean spacings apart and a rim around, sampled evenly; its outward normals."""
    random = np.random.default_rng(seed)
    spacing = (2 / count) ** 0.5
    thickness = gap * spacing
    points, normals = [], []
    for axis, amount in ((2, count // 2), (0, int(gap / spacing)), (1, int(gap / spacing))):
        for side in (0, 1):
            part = random.random((amount, 3)) * [1, 1, thickness]
            part[:, axis] = side * (thickness if axis == 2 else 1)
            points.append(part)
            normals.append(np.tile(np.eye(3)[axis] * (2 * side - 1), (amount, 1)))
    return np.concatenate(points), np.concatenate(normals)


def circle(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points of the unit circle, and their outward normals."""
    angle = np.random.default_rng(seed).random(count) * 2 * np.pi
    points = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return points, points.copy()


def torus_mesh(across: int = 24, around: int = 12, tube: float = 0.35) -> Mesh:
    """A closed mesh of genus 1, faces outward: 2 * across * around triangles over a grid of angles."""
    u, v = np.meshgrid(np.arange(across), np.arange(around), indexing="ij")
    angle, turn = u.ravel() * 2 * np.pi / across, v.ravel() * 2 * np.pi / around
    ring = 1 + tube * np.cos(turn)
    vertices = np.stack([ring * np.cos(angle), ring * np.sin(angle), tube * np.sin(turn)], axis=1)

    def number(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        return (i % across * around + j % around).ravel()

    a, b, c, d = number(u, v), number(u + 1, v), number(u + 1, v + 1), number(u, v + 1)
    return Mesh(vertices, np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)]))


def cube() -> Mesh:
    """The unit cube: 8 vertices, 12 triangles, outward."""
    vertices = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=float)
    quads = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
    return Mesh(vertices, np.array([[q[0], q[i], q[i + 1]] for q in quads for i in (1, 2)]))
