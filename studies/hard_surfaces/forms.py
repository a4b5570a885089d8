"""Hard surfaces, forms made here: points on them with exact normals, and the truth.

A form's longest side is 2. Out goes `Sampled`; its spacing is that of a square lattice: the root of the area per point.
The truth of curved forms is twofold: facets up to 4e-5 from the form (1e-5 on average), to be sampled, and distances
from the form itself. Points are moved from the facets onto the form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from cnf.meshes.mesh import Mesh, unit_rows
from studies.shapes.measures import Known, sample_faces
from studies.shapes.torus import find_on_torus, mesh_torus, sample_torus

AROUND, ALONG = 600, 300  # facets around an axis, and along half a circle
SLAB_SPACINGS, GAP_SPACINGS, WALL_SPACINGS = 1.5, 0.5, 2.0  # thickness of the slab, between spheres, of cup and fins
HOLE, OPENING = 0.5, math.pi / 2  # how far from the pole the sphere's hole and the hemisphere's rim are, radians
FINS = 6
FACETS = 60  # along a side of the cup: needles make distances slow


@dataclass(frozen=True, eq=False)
class Sampled:
    """The true surface, and points on it."""

    truth: Mesh
    points: np.ndarray  # (P, 3)
    normals: np.ndarray  # (P, 3), unit
    known: Known | None = None  # the surface itself, if the mesh stands for it with facets


def make_slab(count: int, seed: int) -> Sampled:
    """A square plate as thin as 1.5 spacings, with sharp edges: both sheets are within reach of each other."""
    thick = SLAB_SPACINGS * math.sqrt(8 / count)
    mesh = make_boxes([((-1, -1, -thick / 2), (1, 1, thick / 2))])
    points, faces = sample_faces(mesh, count, seed)
    return Sampled(mesh, points, mesh.face_normals[faces])


def make_near_spheres(count: int, seed: int) -> Sampled:
    """Two spheres side by side, half a spacing apart where they are closest."""
    gap = GAP_SPACINGS * math.sqrt(8 * math.pi * 0.25 / count)
    radius = (2 - gap) / 4
    whole = make_ball(math.pi)
    ball, faces = radius * whole.vertices, whole.faces
    shift = np.array([1 - radius, 0, 0])
    mesh = Mesh(np.concatenate([ball - shift, ball + shift]), np.concatenate([faces, faces + len(ball)]))

    def known(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        around = places - np.where(places[:, :1] < 0, -1, 1) * shift
        return np.abs(np.linalg.norm(around, axis=1) - radius), unit_rows(around)

    points = sample_faces(mesh, count, seed)[0]
    centres = np.where(points[:, :1] < 0, -1, 1) * shift
    normals = unit_rows(points - centres)
    return Sampled(mesh, centres + radius * normals, normals, known)


def make_open_sphere(until: float, count: int, seed: int) -> Sampled:
    """A unit sphere from its lower pole up to `until` (radians), open above; its box is not moved."""
    mesh = make_ball(until)
    normals = unit_rows(sample_faces(mesh, count, seed)[0])

    def known(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        flat = across(places)  # (P, 2)
        turn = np.minimum(np.arctan2(flat[:, 0], -flat[:, 1]), until)  # above the rim the rim is closest
        out = np.stack([np.sin(turn), -np.cos(turn)], axis=1)
        return np.linalg.norm(flat - out, axis=1), turn_back(out, places)

    return Sampled(mesh, normals, normals, known)


def make_cup(count: int, seed: int) -> Sampled:
    """A cup whose wall and floor are two spacings thick; the rim is flat, all edges sharp."""
    outer, height = 0.7, 2.0
    thick = WALL_SPACINGS * math.sqrt((4 * math.pi * outer * height + 2 * math.pi * outer**2) / count)
    inner, low, high = outer - thick, -height / 2, height / 2
    floor = low + thick
    way = np.array([(0, low), (outer, low), (outer, high), (inner, high), (inner, floor), (0, floor)])
    slopes = np.diff(way, axis=0)
    outward = unit_rows(np.stack([slopes[:, 1], -slopes[:, 0]], axis=1))  # on the right of the way

    def known(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        apart = across(places)[:, None] - way[:-1]  # (P, S, 2)
        share = ((apart * slopes).sum(axis=2) / (slopes**2).sum(axis=1)).clip(0, 1)
        distances = np.linalg.norm(apart - share[:, :, None] * slopes, axis=2)
        nearest = distances.argmin(axis=1)
        return distances.min(axis=1), turn_back(outward[nearest], places)

    mesh = revolve(
        np.concatenate([np.linspace(a, b, FACETS, endpoint=k == 4) for k, (a, b) in enumerate(pairwise(way))])
    )
    points, faces = sample_faces(mesh, count, seed)
    normals = mesh.face_normals[faces].copy()
    wall = np.abs(normals[:, 2]) < 0.5  # facets of a cylinder: onto it
    flat = points[wall, :2]
    out = flat / np.linalg.norm(flat, axis=1, keepdims=True)
    outside = (normals[wall, :2] * out).sum(axis=1) > 0
    points[wall, :2] = np.where(outside, outer, inner)[:, None] * out
    normals[wall] = np.column_stack([np.where(outside, 1, -1)[:, None] * out, np.zeros(wall.sum())])
    return Sampled(mesh, points, unit_rows(normals), known)


def make_fins(count: int, seed: int) -> Sampled:
    """A cooler: a plate with fins, everything two spacings thick, and gaps of several times that between the fins."""
    deep, high = 0.5, 0.6
    thick = WALL_SPACINGS * math.sqrt((4 * deep * 4 + FINS * high * deep * 4) / count)
    starts = np.linspace(-1, 1 - thick, FINS)
    cells = {(-1.0, 1.0): (-high / 2 - thick, -high / 2)} | {(x, x + thick): (-high / 2, high / 2) for x in starts}
    boxes = [((a, -deep, low), (b, deep, top)) for (a, b), (low, top) in cells.items()]
    # The foot of a fin lies inside: the plate's upper side is left out there, the fins have no lower one.
    mesh = make_boxes(boxes, open_below=range(1, FINS + 1), open_above=[0])
    ends = [-1.0, *(x for start in starts for x in (start, start + thick)), 1.0]
    gaps = [(a, b) for a, b in zip(ends[::2], ends[1::2], strict=True) if b - a > 1e-9]
    between = [_rectangle((a, -deep, -high / 2), (b - a, 0, 0), (0, 2 * deep, 0)) for a, b in gaps]
    mesh = _join([mesh.vertices.reshape(-1, 4, 3), np.array(between)])
    points, faces = sample_faces(mesh, count, seed)
    return Sampled(mesh, points, mesh.face_normals[faces])


def make_torus(count: int, seed: int) -> Sampled:
    """The rippled torus of the study of scaling, its own size."""
    return Sampled(mesh_torus(), *sample_torus(count, seed), find_on_torus)


def across(places: np.ndarray) -> np.ndarray:
    """Distances from the z axis and heights (P, 2)."""
    return np.stack([np.hypot(places[:, 0], places[:, 1]), places[:, 2]], axis=1)


def turn_back(flat: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Directions (P, 2) away from the axis and upward, as (P, 3) in the half planes that the places are in."""
    turns = np.arctan2(places[:, 1], places[:, 0])
    return np.column_stack([flat[:, 0] * np.cos(turns), flat[:, 0] * np.sin(turns), flat[:, 1]])


def keep_unevenly(drawn: Sampled, count: int, ratio: float, seed: int) -> Sampled:
    """`count` of many points: of those on one side of their median along x every one, of the others one in `ratio`."""
    along = drawn.points[:, 0]
    random = np.random.default_rng([seed, 1])  # the numbers of `seed` alone drew the points: they say where these lie
    chosen = (along >= np.median(along)) | (random.random(len(along)) * ratio < 1)
    return replace(drawn, points=drawn.points[chosen][:count], normals=drawn.normals[chosen][:count])


def make_ball(until: float) -> Mesh:
    """Facets of the unit sphere, from the lower pole up to an angle in radians."""
    angles = np.linspace(0, until, ALONG + 1)
    radii = np.where(angles < math.pi, np.sin(angles), 0)  # a pole is one point
    return revolve(np.stack([radii, -np.cos(angles)], axis=1))


def revolve(profile: np.ndarray) -> Mesh:
    """Facets around the z axis of a polyline (K, 2) of radius and height; outward is on the right of its way."""
    turns = 2 * np.pi * np.arange(AROUND) / AROUND
    ring = np.stack([np.cos(turns), np.sin(turns)], axis=1)  # (A, 2)
    radius, height = profile.T
    vertices = np.concatenate(
        [np.column_stack([r * ring, np.full(AROUND, z)]) for r, z in zip(radius, height, strict=True)]
    )
    here = np.arange(AROUND)
    there = np.roll(here, -1)
    faces = []
    for k in range(len(profile) - 1):
        a, b, c, d = (x + AROUND * j for j, x in ((k, here), (k, there), (k + 1, there), (k + 1, here)))
        if radius[k] > 0:
            faces.append(np.stack([a, b, c], axis=1))
        if radius[k + 1] > 0:
            faces.append(np.stack([a, c, d], axis=1))
    return Mesh(vertices, np.concatenate(faces)).weld()


def make_boxes(
    boxes: Sequence[tuple[Sequence[float], Sequence[float]]],
    open_below: Sequence[int] | range = (),
    open_above: Sequence[int] = (),
) -> Mesh:
    """The sides of boxes (lower corner, upper corner), looking outward; those named have none below or above."""
    sides = []
    for k, (lower, upper) in enumerate(boxes):
        low, size = np.array(lower, float), np.subtract(upper, lower)
        for axis in range(3):
            one, two = np.eye(3)[(axis + 1) % 3] * size, np.eye(3)[(axis + 2) % 3] * size
            if not (axis == 2 and k in open_below):
                sides.append(_rectangle(low, two, one))
            if not (axis == 2 and k in open_above):
                sides.append(_rectangle(low + np.eye(3)[axis] * size, one, two))
    return _join([np.array(sides)])


def _rectangle(corner: Sequence[float] | np.ndarray, one: Sequence[float], two: Sequence[float]) -> np.ndarray:
    """Corners (4, 3), counter-clockwise seen from one x two."""
    a, u, v = (np.array(x, float) for x in (corner, one, two))
    return np.stack([a, a + u, a + u + v, a + v])


def _join(rectangles: Sequence[np.ndarray]) -> Mesh:
    """Two triangles for every rectangle (4, 3), vertices not shared."""
    corners = np.concatenate(rectangles)
    first = 4 * np.arange(len(corners))[:, None]
    return Mesh(corners.reshape(-1, 3), np.concatenate([np.add(first, (0, 1, 2)), np.add(first, (0, 2, 3))]))
