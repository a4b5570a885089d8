"""Planar shapes drawn at random, with known solutions: for the estimates of the error of fields on patches.

Disks, disks and boxes with holes, polygons, lenses and unions in turn; on them Poisson, Helmholtz or reaction with
values, Robin's condition or slopes on parts of the boundary, elasticity with values or tractions, and regions whose
coefficient jumps. Solutions are those of manufactured.py. What goes out: the entries of a `cnf.Problem`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence

import sympy as sp
import torch

from benchmarks.manufactured import Drawn, X, Y, elastic_inside, laplacian, latex, mild, solutions, vertices_around
from cnf.domains import Box, Difference, Disk, Domain, Intersection, Polygon, Union

Shape = tuple[Domain, list[str]]  # and how the parts of its boundary are called

EQUATIONS: dict[str, tuple[str, Callable[[sp.Expr], sp.Expr]]] = {
    "poisson": (r"-\Delta u", lambda u: -laplacian(u)),
    "helmholtz": (r"\Delta u + 9 u", lambda u: laplacian(u) + 9 * u),
    "reaction": (r"-\Delta u + 20 u", lambda u: -laplacian(u) + 20 * u),
    "convection": (r"-0.1 \Delta u + u_x", lambda u: -laplacian(u) / 10 + sp.diff(u, X)),
    "anisotropic": (r"-3 u_{xx} - u_{xy} - u_{yy}", lambda u: -3 * u.diff(X, 2) - u.diff(X, Y) - u.diff(Y, 2)),
}


def disk(draw: random.Random) -> Shape:
    return Disk((0.5, 0.5), round(10 ** draw.uniform(-1, 0.1), 3), name="rim"), ["rim"]


def holed(draw: random.Random) -> Shape:
    """One to four holes of 0.03 to 0.15 in a disk or a square, none of them close to another."""
    outer: Domain = Disk((0.5, 0.5), 0.6, name="rim")
    if draw.random() < 0.4:
        outer = Polygon([(0, 0), (1, 0), (1, 1), (0, 1)], name="rim")
    holes: list[tuple[float, float, float]] = []
    for _ in range(draw.randint(1, 4)):
        x, y, r = (round(draw.uniform(*ends), 3) for ends in ((0.25, 0.75), (0.25, 0.75), (0.03, 0.15)))
        if all(math.hypot(x - a, y - b) > r + s + 0.05 for a, b, s in holes):
            holes.append((x, y, r))
    disks = [Disk((x, y), r, name=f"hole{k + 1}") for k, (x, y, r) in enumerate(holes)]
    return Difference(outer, disks), ["rim", *(f"hole{k + 1}" for k in range(len(disks)))]


def polygon(draw: random.Random) -> Shape:
    places = vertices_around(draw, 7)
    return Polygon(places), [f"edge {k + 1}" for k in range(len(places))]


def lens(draw: random.Random) -> Shape:
    """What two disks of the same radius share: two corners of 25 to 160 degrees."""
    reach, turn, radius = draw.uniform(0.1, 0.35), draw.uniform(0, math.tau), round(draw.uniform(0.4, 0.7), 3)
    x, y = round(reach * math.cos(turn), 3), round(reach * math.sin(turn), 3)
    arcs = [Disk((0.5 + s * x, 0.5 + s * y), radius, name=name) for s, name in ((-1, "one"), (1, "two"))]
    return Intersection(arcs), ["one", "two"]


def union(draw: random.Random) -> Shape:
    """Two disks, or a box and a disk, that share a part: two entrant corners."""
    radius, along = round(draw.uniform(0.25, 0.4), 3), round(draw.uniform(0.5, 0.75), 3)
    first: Domain = Disk((0.3, 0.5), 0.3, name="one")
    if draw.random() < 0.5:
        first = Box((0, 0), (1, 0.5), name="one")
    return Union([first, Disk((along, 0.55), radius, name="two")]), ["one", "two"]


SHAPES: dict[str, Callable[[random.Random], Shape]] = {
    "disk": disk,
    "holed": holed,
    "polygon": polygon,
    "lens": lens,
    "union": union,
}


def easy_or_not(draw: random.Random) -> tuple[str, sp.Expr]:
    return ("mild", mild(draw, (X, Y))) if draw.random() < 0.4 else solutions(draw, (X, Y))


def scalar(draw: random.Random, shape: str) -> Drawn:
    """Values on the first part of the boundary; on others values, slopes (of the flux) or Robin's condition."""
    domain, parts = SHAPES[shape](draw)
    kind, u = easy_or_not(draw)
    name, (left, operator) = draw.choice(list(EQUATIONS.items()))
    equations = [{"on": "interior", "equation": f"{left} = {latex(operator(u))}"}]
    ways = ["value"] + [draw.choice(("value", "slope", "robin")) for _ in parts[1:]]
    if shape == "disk" and draw.random() < 0.5:
        ways = ["robin"]
    k = ((3, 0.5), (0.5, 1)) if name == "anisotropic" else ((1, 0), (0, 1))
    for part, way in zip(parts, ways, strict=True):
        if way == "value":
            equations.append({"on": part, "equation": f"u = {latex(u)}"})
            continue
        out = " + ".join(f"n_{c} ({a} u_x + {b} u_y)" for c, (a, b) in zip("xy", k, strict=True))
        given = [latex(a * sp.diff(u, X) + b * sp.diff(u, Y)) for a, b in k]
        more, given_more = ("", "") if way == "slope" else (" + 2 u", f" + {latex(2 * u)}")
        right = f"n_x ({given[0]}) + n_y ({given[1]}){given_more}"
        equations.append({"on": part, "equation": f"{out}{more} = {right}"})
    mixed = "".join(f", {way}" for way in sorted(set(ways) - {"value"}))
    entries = {"coordinates": "x y", "domain": domain, "equations": equations, "exact": latex(u)}
    return Drawn(f"{shape}, {name}, {kind}{mixed}", entries)


def elastic(draw: random.Random, shape: str) -> Drawn:
    """Plane elasticity with Lame's constants 1.5 and 1; tractions on the last part of the boundary now and then."""
    domain, parts = SHAPES[shape](draw)
    (first, u), (second, v) = easy_or_not(draw), easy_or_not(draw)
    stress = [
        [3.5 * u.diff(X) + 1.5 * v.diff(Y), u.diff(Y) + v.diff(X)],
        [u.diff(Y) + v.diff(X), 1.5 * u.diff(X) + 3.5 * v.diff(Y)],
    ]
    force = (-a.diff(X) - b.diff(Y) for a, b in stress)
    equations = elastic_inside(*force)
    free = len(parts) > 1 and draw.random() < 0.5
    for part in parts[:-1] if free else parts:
        equations += [{"on": part, "equation": f"{name} = {latex(w)}"} for name, w in (("u", u), ("v", v))]
    if free:
        lines = ("n_x (3.5 u_x + 1.5 v_y) + n_y (u_y + v_x)", "n_x (u_y + v_x) + n_y (1.5 u_x + 3.5 v_y)")
        for line, (a, b) in zip(lines, stress, strict=True):
            equations.append({"on": parts[-1], "equation": f"{line} = n_x ({latex(a)}) + n_y ({latex(b)})"})
    exact = {"u": latex(u), "v": latex(v)}
    entries = {"coordinates": "x y", "channels": "u v", "domain": domain, "equations": equations, "exact": exact}
    return Drawn(f"{shape}, elastic, {first} {second}{', traction' if free else ''}", entries)


def in_regions(draw: random.Random, shape: str) -> Drawn:
    """A disk of another conductivity inside, and two fields of which the jumps are given."""
    domain, _ = SHAPES[shape](draw)
    radius = round(0.25 * min(b - a for a, b in zip(domain.lower, domain.upper, strict=True)), 3)
    middle = [(a + b) / 2 for a, b in zip(domain.lower, domain.upper, strict=True)]
    at = (round(middle[0], 3), round(middle[1], 3))
    inner = sp.Float(round(10 ** draw.uniform(-2, 2), 3))
    within, (kind, beyond) = mild(draw, (X, Y)), easy_or_not(draw)
    jumps = [beyond.diff(c) - inner * within.diff(c) for c in (X, Y)]
    equations = [
        {"on": "part", "equation": rf"-\nabla\cdot(k \nabla u) = {latex(-inner * laplacian(within))}"},
        {"on": "rest", "equation": rf"-\nabla\cdot(k \nabla u) = {latex(-laplacian(beyond))}"},
        {"on": "boundary", "equation": f"u = {latex(beyond)}"},
        {"on": "interface part", "equation": f"[u] = {latex(beyond - within)}"},
        {"on": "interface part", "equation": rf"[k \partial_n u] = n_x ({latex(jumps[0])}) + n_y ({latex(jumps[1])})"},
    ]
    entries = {
        "coordinates": "x y",
        "domain": domain,
        "regions": {"part": Disk(at, radius)},
        "parameters": {"k": {"part": float(inner), "rest": 1.0}},
        "equations": equations,
        "exact": {"part": latex(within), "rest": latex(beyond)},
    }
    return Drawn(f"{shape}, regions 1 : {float(inner):.3g}, {kind}", entries)


KINDS: Sequence[Callable[[random.Random, str], Drawn]] = (scalar, scalar, elastic, scalar, in_regions)


def draw_shapes(seed: int, count: int) -> Iterator[Drawn]:
    """Problems of one seed: shapes in turn, and what is asked on them; each with a target between 1e-3 and 1e-9."""
    for k in range(count):
        shape = list(SHAPES)[k % len(SHAPES)]
        draw = random.Random(f"shapes {seed} {k}")
        kind = KINDS[(k + k // len(SHAPES)) % len(KINDS)]
        while True:  # the disk of another conductivity may not fit into a polygon, nor beside holes
            found = kind(draw, shape)
            if "regions" not in found.entries or fits(found.entries["domain"], found.entries["regions"]["part"]):
                break
        solve = {"method": "patches", "target": 10.0 ** -draw.randint(3, 9)}
        yield Drawn(f"{k:3d} {found.name}", {**found.entries, "solve": solve, "seed": k})


def fits(domain: Domain, disk: Disk) -> bool:
    """Whether a disk lies inside, with some room around it."""
    turns = torch.linspace(0, math.tau, 200, dtype=torch.float64)
    ways = torch.stack([turns.cos(), turns.sin()], dim=1)
    points = torch.cat([torch.tensor(disk.center) + share * disk.radius * ways for share in (0.3, 0.6, 1.0, 1.15)])
    return bool(domain.contains(points, 0.0).all())
