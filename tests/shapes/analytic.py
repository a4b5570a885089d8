"""Surfaces with known answers: fields with gradients, points on them, areas, volumes."""

from __future__ import annotations

import numpy as np

RADIUS = 0.7
RING, TUBE = 0.6, 0.25  # of the torus
ONE = np.ones(3)


def spread(count: int, radius: float = RADIUS) -> np.ndarray:
    """Points evenly on a sphere (Fibonacci's spiral), (count, 3)."""
    k = np.arange(count) + 0.5
    z, turn = 1 - 2 * k / count, np.pi * (1 + 5**0.5) * k
    ring = np.sqrt(1 - z * z)
    return radius * np.stack([ring * np.cos(turn), ring * np.sin(turn), z], axis=1)


def sphere(x: np.ndarray) -> np.ndarray:
    return np.linalg.norm(x, axis=1) - RADIUS


def sphere_slopes(x: np.ndarray) -> np.ndarray:
    """Not a distance, so that one Newton step does not reach it: |x|^2 - r^2."""
    return np.concatenate([np.sum(x * x, axis=1, keepdims=True) - RADIUS**2, 2 * x], axis=1)


def torus(x: np.ndarray) -> np.ndarray:
    return np.hypot(np.hypot(x[:, 0], x[:, 1]) - RING, x[:, 2]) - TUBE


def torus_slopes(x: np.ndarray) -> np.ndarray:
    """v + v^2 / 2 for the distance v, and its gradient."""
    ring = np.hypot(x[:, 0], x[:, 1])
    tube = np.hypot(ring - RING, x[:, 2])
    v = tube - TUBE
    outward = (
        np.stack([(ring - RING) * x[:, 0] / ring, (ring - RING) * x[:, 1] / ring, x[:, 2]], axis=1) / tube[:, None]
    )
    return np.concatenate([(v + v * v / 2)[:, None], (1 + v)[:, None] * outward], axis=1)


def torus_points(count: int, seed: int = 0) -> np.ndarray:
    a, b = np.random.default_rng(seed).random((2, count)) * 2 * np.pi
    ring = RING + TUBE * np.cos(b)
    return np.stack([ring * np.cos(a), ring * np.sin(a), TUBE * np.sin(b)], axis=1)
