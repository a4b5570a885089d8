"""Boundary layers of convection and diffusion, in the plane and in space, and a coefficient that jumps on a circle."""

from __future__ import annotations

import numpy as np

from benchmarks.engineering_problems.problem import Array, Problem, box, column, draw_points

# Inside the circle the conductivity is 1, outside 100; u is a potential flow around it plus what a source makes.
CIRCLE = 0.5
CONDUCTIVITY = (1.0, 100.0)


def layer(width: float) -> Problem:
    """-a Laplace u + u_x = f with u = (x - e^((x-1)/a)) cos 2y: a layer of the width a at x = 1."""

    def exact(x: Array, y: Array) -> Array:
        return (x - np.exp((x - 1) / width)) * np.cos(2 * y)

    profile = r"(x - e^{(x-1)/a})"
    entries = {
        "coordinates": "x y",
        "domain": box((0, 0), (1, 1)),
        "parameters": {"a": width},
        "equations": {
            "interior": rf"-a \Delta u + u_x = (1 + 4 a {profile}) \cos(2y)",
            "boundary": rf"u = {profile} \cos(2y)",
        },
    }
    return Problem(
        f"layer-{width:g}",
        f"boundary layer of {width:g}",
        entries,
        np.concatenate([draw_points((0, 0), (1, 1))[:1000], draw_points((1 - 10 * width, 0), (1, 1))[:1000]]),
        column(exact),
        asked=1e-8,
        seconds=5,
        trained_by=("deepxde",) if width == 0.01 else (),
        note="half of the points in the layer",
    )


def convection() -> Problem:
    """-0.05 Laplace u + (1, 0.5, 0.25) . grad u = f with u = (x - e^((x-1)/0.05)) sin(pi y) sin(2 z)."""
    a = 0.05

    def exact(x: Array, y: Array, z: Array) -> Array:
        return (x - np.exp((x - 1) / a)) * np.sin(np.pi * y) * np.sin(2 * z)

    profile, s, c = r"(x - e^{(x-1)/a})", r"\sin(\pi y)\sin(2z)", (r"\cos(\pi y)\sin(2z)", r"\sin(\pi y)\cos(2z)")
    source = rf"{s} + {profile} (a (\pi^2 + 4) {s} + 0.5 \pi {c[0]} + 0.5 {c[1]})"
    entries = {
        "coordinates": "x y z",
        "domain": box((0, 0, 0), (1, 1, 1)),
        "parameters": {"a": a},
        "equations": {
            "interior": rf"-a \Delta u + u_x + 0.5 u_y + 0.25 u_z = {source}",
            "boundary": rf"u = {profile} {s}",
        },
    }
    return Problem(
        "convection-3d",
        "advection and diffusion in space, layer of 0.05",
        entries,
        draw_points((0, 0, 0), (1, 1, 1)),
        column(exact),
    )


def inclusion(x: Array, y: Array) -> Array:
    """2 K / (k + K) x + (1 - r^2 / R^2) / k inside, x + R^2 (K - k) / (K + k) x / r^2 + (1 - r^2 / R^2) / K outside.

    Values and fluxes k u_r are continuous on r = R, and -div (k grad u) = 4 / R^2 on both sides.
    """
    inner, outer = CONDUCTIVITY
    r2, R2 = x * x + y * y, CIRCLE**2
    drop = 1 - r2 / R2
    within = 2 * outer / (inner + outer) * x + drop / inner
    beyond = x + R2 * (outer - inner) / (outer + inner) * x / np.maximum(r2, 1e-300) + drop / outer
    return np.where(r2 < R2, within, beyond)


def interface() -> Problem:
    inner, outer = CONDUCTIVITY
    square, R2 = "(x^2 + y^2)", CIRCLE**2
    around = rf"x + {R2 * (outer - inner) / (outer + inner)!r} x / {square} + {1 / outer!r} (1 - {1 / R2!r} {square})"
    entries = {
        "coordinates": "x y",
        "domain": box((-1, -1), (1, 1)),
        "regions": {"disk": {"type": "disk", "center": [0, 0], "radius": CIRCLE}},
        "parameters": {"k": {"disk": inner, "rest": outer}},
        "equations": {"interior": rf"-\nabla\cdot(k \nabla u) = {4 / R2!r}", "boundary": f"u = {around}"},
    }
    return Problem(
        "interface",
        "conductivity 1 : 100 on a circle",
        entries,
        draw_points((-1, -1), (1, 1)),
        column(inclusion),
        seconds=20,
    )


PROBLEMS: tuple[Problem, ...] = (layer(1e-2), layer(1e-3), convection(), interface())
