"""Lid-driven Stokes flow in a square, and flow through a porous medium whose permeability is a smooth random field."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import scipy.sparse

from benchmarks.engineering_problems.analytic import (
    Analytic,
    Combination,
    Corner,
    edge,
    exponents,
    fit_goursat,
    inward,
)
from benchmarks.engineering_problems.problem import Array, Problem, box, draw_points

AWAY = 0.1  # from the corners under the lid, where the velocity jumps


@cache
def stirred() -> tuple[Combination, float]:
    """The velocity jumps at both ends of the lid (logarithms); the exponents of all four corners are Moffatt's."""
    powers = exponents(lambda s: np.sin(s * np.pi / 2) ** 2 - s**2, 14)
    places: list[complex] = [0, 1, 1 + 1j, 1j]
    into = inward(places)
    corners = [Corner(places[k], into[k], powers, (0,) if k > 1 else ()) for k in range(4)]
    bottom, right, lid, left = (edge(z, places[(k + 1) % 4]) for k, z in enumerate(places))
    still = [(z, lambda z: 0 * z) for z in (bottom, right, left)]
    return fit_goursat(Analytic(0.5 + 0.5j, 0.75, 40, corners), 1.0, [*still, (lid, lambda z: 0 * z + 1)])


def stirred_at(points: Array) -> Array:
    w = stirred()[0](points[:, 0] + 1j * points[:, 1])
    return np.stack([w.real, w.imag], axis=1)


def cavity() -> Problem:
    walls = [{"on": s, "equation": e} for s in ("x = 0", "x = 1", "y = 0") for e in ("u = 0", "v = 0")]
    equations = [
        {"on": "interior", "equation": r"-\Delta u + p_x = 0"},
        {"on": "interior", "equation": r"-\Delta v + p_y = 0"},
        {"on": "interior", "equation": "u_x + v_y = 0"},
        *walls,
        {"on": "y = 1", "equation": "u = 1"},
        {"on": "y = 1", "equation": "v = 0"},
        {"equation": r"\int_0^1 \int_0^1 p \, dx \, dy = 0", "name": "mean pressure"},
    ]
    return Problem(
        "cavity",
        "lid-driven Stokes flow",
        {"coordinates": "x y", "channels": "u v p", "domain": box((0, 0), (1, 1)), "equations": equations},
        draw_points((0, 0), (1, 1), lambda p: np.hypot(np.minimum(p[:, 0], 1 - p[:, 0]), 1 - p[:, 1]) > AWAY),
        stirred_at,
        asked=1e-4,
        note=f"velocity, at points further than {AWAY} from the ends of the lid",
    )


def random_waves() -> Array:
    """(amplitude, p, q, phase) of the logarithm of the permeability, drawn once, rounded to three digits."""
    generator = np.random.default_rng(7)
    waves = [(p, q) for p in range(4) for q in range(-3, 4) if 0 < p * p + q * q <= 10 and (p > 0 or q > 0)]
    rows = [
        (1.2 * generator.standard_normal() / (p * p + q * q) ** 0.75, p, q, generator.uniform(0, 6.28))
        for p, q in waves
    ]
    return np.round(np.array(rows), 3)


def permeability(x: Array, y: Array) -> Array:
    return np.exp(sum(a * np.cos(3 * (p * x + q * y) + phase) for a, p, q, phase in random_waves()))


@cache
def seepage(permeability: Callable[..., Array], count: int = 60) -> tuple[Array, Array]:
    """Nodes and values (n, n) of one spectral element (Gauss-Lobatto): div (k grad u) = 0, u = 1 - x at the ends."""
    inner = np.sort(np.polynomial.legendre.Legendre.basis(count).deriv().roots().real)
    nodes = np.concatenate([[-1.0], inner, [1.0]])
    legendre = np.polynomial.legendre.Legendre.basis(count)(nodes)
    weights = 2 / (count * (count + 1) * legendre**2)
    gap = nodes[:, None] - nodes + np.eye(count + 1)
    slope = legendre[:, None] / legendre / gap * (1 - np.eye(count + 1))
    slope[0, 0], slope[-1, -1] = -count * (count + 1) / 4, count * (count + 1) / 4
    x, w, d = (nodes + 1) / 2, weights / 2, 2 * slope
    k = permeability(*np.meshgrid(x, x, indexing="ij"))
    eye = scipy.sparse.identity(count + 1)
    across = scipy.sparse.kron(scipy.sparse.csr_array(d), eye), scipy.sparse.kron(eye, scipy.sparse.csr_array(d))
    mass = scipy.sparse.diags((k * np.outer(w, w)).ravel())
    stiffness = scipy.sparse.csr_array(sum(g.T @ mass @ g for g in across))
    values = np.repeat(1 - x, count + 1)
    free = np.ones((count + 1, count + 1), bool)
    free[[0, -1]] = False
    inside = np.flatnonzero(free)
    right = -(stiffness @ np.where(free.ravel(), 0, values))[inside]
    values[inside] = np.linalg.solve(stiffness[inside][:, inside].toarray(), right)  # hardly sparse
    return x, values.reshape(count + 1, count + 1)


def seepage_at(points: Array, permeability: Callable[..., Array] = permeability) -> Array:
    """The values at the nodes, interpolated by their polynomial, (P, 1)."""
    x, values = seepage(permeability)
    count = len(x) - 1
    signs = np.polynomial.legendre.legvander(2 * x - 1, count)
    coefficients = np.linalg.solve(signs, np.linalg.solve(signs, values).T).T
    across = [np.polynomial.legendre.legvander(2 * c - 1, count) for c in points.T]
    return np.einsum("pi,ij,pj->p", across[0], coefficients, across[1])[:, None]


def darcy() -> Problem:
    waves = [rf"{a:+} \cos(3 ({p:.0f} x {q:+.0f} y) + {phase})" for a, p, q, phase in random_waves()]
    equations = {
        "interior": r"\nabla\cdot(k \nabla u) = 0",
        "x = 0": "u = 1",
        "x = 1": "u = 0",
        "y = 0": "u_y = 0",
        "y = 1": "u_y = 0",
    }
    parameters = {"k": f"e^{{{' '.join(waves)}}}"}
    return Problem(
        "darcy",
        "Darcy flow, random log-normal field",
        {"coordinates": "x y", "domain": box((0, 0), (1, 1)), "equations": equations, "parameters": parameters},
        draw_points((0, 0), (1, 1)),
        seepage_at,
        digits=1e-9,
    )


PROBLEMS = (cavity(), darcy())
