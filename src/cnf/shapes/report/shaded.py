"""Shaded pictures of meshes: several views side by side, drawn by an own rasteriser, written as PNG.

In come a mesh and, if wanted, colours of its vertices and points to mark; out goes a picture with interpolated normals,
a key light, a fill light, a bright sky and darker folds. NumPy does the drawing, so no graphics library is needed; the
file needs the extra `viz` (matplotlib, which brings Pillow and the font).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter, minimum_filter

from cnf.errors import ConstraintError, nearest
from cnf.files import write_atomically
from cnf.meshes.creased import part_at_creases
from cnf.meshes.mesh import Mesh
from cnf.reports.plots import INK, check_pictures
from cnf.shapes.report.rasteriser import CHUNK, Camera, Hits, aim, cover, dot

# Azimuth and elevation of the eye, in degrees; azimuth 0 looks at the front, 90 at the model's left side.
VIEWS: dict[str, tuple[float, float]] = {
    "front": (0.0, 8.0),
    "three-quarter": (38.0, 16.0),
    "side": (90.0, 8.0),
    "back": (180.0, 8.0),
    "rear three-quarter": (142.0, 16.0),
    "top": (0.0, 88.0),
}
CLAY = (0.80, 0.70, 0.58)  # a mesh without colours
SHOWN = "shown colours"  # the attribute that carries them
MARK = (0.80, 0.22, 0.10)  # points
PAPER = (1.0, 1.0, 1.0)
FINER = 2  # pixels of the drawing per pixel of the picture, along each side
LARGEST = 4000  # pixels along a side of a view


def draw_mesh(
    mesh: Mesh,
    path: object,
    views: Sequence[str | tuple[float, float]] = ("front", "three-quarter", "side"),
    title: str | None = None,
    colours: np.ndarray | None = None,
    points: np.ndarray | None = None,
    up: str = "y",
    turn: float = 0.0,
    size: int = 800,
) -> Path:
    """Draw the mesh from each of `views` (names, or azimuth and elevation in degrees) and save the picture.

    `colours` (V, 3) are red, green, blue between 0 and 1; `points` (P, 3) are marked by dots where they are seen; `up`
    is the axis that points upwards, "x", "y" or "z", with a minus sign if it points downwards; `turn` is added to all
    azimuths, for models that look elsewhere; `size` is the side of a view in pixels.
    """
    panels = [shade_mesh(mesh, view, colours=colours, points=points, up=up, turn=turn, size=size) for view in views]
    if not panels:
        raise ConstraintError(f"views={views!r}: expected at least one of {', '.join(VIEWS)}")
    return save_panels([panels], path, title)


def save_panels(rows: Sequence[Sequence[np.ndarray]], path: object, title: str | None = None) -> Path:
    """Save pictures (H, W, 3) of one size, arranged in rows, with a title above."""
    check_pictures()
    from PIL import Image

    image = np.concatenate([np.concatenate(list(row), axis=1) for row in rows], axis=0)
    height, width = image.shape[:2]
    strip = max(36, height // 16) if title else 0
    page = Image.new("RGB", (width, height + strip), "white")
    page.paste(Image.fromarray((255 * image).round().astype(np.uint8)), (0, strip))
    if title:
        _write_title(page, title, strip)
    return write_atomically(path, lambda file: page.save(file, format="PNG"))


def _write_title(page: Any, title: str, strip: int) -> None:
    """In the middle of the strip at the top, half as high, or smaller if it is long.

    Pillow writes it with matplotlib's font: matplotlib itself takes a second and copies of the picture for one line.
    """
    from PIL import ImageDraw, ImageFont

    place = find_spec("matplotlib")
    folder = Path(place.origin).parent if place is not None and place.origin else Path()
    file = folder / "mpl-data" / "fonts" / "ttf" / "DejaVuSans.ttf"

    def font(size: float) -> Any:
        return ImageFont.truetype(str(file), size) if file.exists() else ImageFont.load_default(size)

    drawn = ImageDraw.Draw(page)
    size = 0.5 * strip
    size *= min(1.0, 0.96 * page.width / max(1.0, drawn.textlength(title, font(size))))
    drawn.text((page.width / 2, strip / 2), title, INK, font(max(size, 1.0)), anchor="mm")


def shade_mesh(
    mesh: Mesh,
    view: str | tuple[float, float] = "three-quarter",
    colours: np.ndarray | None = None,
    points: np.ndarray | None = None,
    up: str = "y",
    turn: float = 0.0,
    size: int = 800,
) -> np.ndarray:
    """One view of a mesh as a picture (size, size, 3) with values from 0 to 1."""
    if not len(mesh.faces):
        raise ConstraintError("the mesh has no faces to draw")
    if not 16 <= size <= LARGEST:
        raise ConstraintError(f"size={size}: expected 16 to {LARGEST} pixels")
    if colours is not None and np.shape(colours) != mesh.vertices.shape:
        raise ConstraintError(f"expected colours {mesh.vertices.shape}, got {np.shape(colours)}")
    stand = stand_up(up)
    inside_out = mesh.volume < 0 and mesh.is_watertight
    mesh = part_at_creases(mesh if colours is None else mesh.with_attributes(**{SHOWN: colours}))
    colours = mesh.attributes.get(SHOWN)
    own = mesh.attributes.get("normals")
    normals = own if own is not None and own.shape == mesh.vertices.shape else mesh.vertex_normals
    vertices, normals, faces = mesh.vertices @ stand.T, normals @ stand.T, mesh.faces
    if inside_out:  # inside out: seen from outside all the same
        normals, faces = -normals, faces[:, ::-1]
    azimuth, elevation = _find_view(view)
    camera = aim(vertices[mesh.used], azimuth + turn, elevation, FINER * size)
    hits = cover(camera.project(vertices), faces, FINER * size)
    picture = _shade(hits, camera, vertices, normals, faces, colours)
    if points is not None and len(points):
        _mark(picture, hits, camera, np.asarray(points, dtype=np.float64) @ stand.T)
    return np.clip(shrink(picture, FINER), 0, 1) ** (1 / 2.2)  # light adds up linearly, the screen does not


def _find_view(view: str | tuple[float, float]) -> tuple[float, float]:
    if isinstance(view, str):
        if view not in VIEWS:
            raise ConstraintError(f"unknown view {view!r}; expected {', '.join(VIEWS)}.{nearest(view, VIEWS)}")
        return VIEWS[view]
    azimuth, elevation = view
    return float(azimuth), float(elevation)


def stand_up(up: str) -> np.ndarray:
    """The rotation (3, 3) that makes `up` the y axis; with z up, models look along -y."""
    turns: Mapping[str, list[list[int]]] = {
        "y": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
        "-y": [[1, 0, 0], [0, -1, 0], [0, 0, -1]],
        "z": [[1, 0, 0], [0, 0, 1], [0, -1, 0]],
        "-z": [[1, 0, 0], [0, 0, -1], [0, 1, 0]],
        "x": [[0, -1, 0], [1, 0, 0], [0, 0, 1]],
        "-x": [[0, 1, 0], [-1, 0, 0], [0, 0, 1]],
    }
    if up not in turns:
        raise ConstraintError(f"up={up!r}: expected one of {', '.join(turns)}")
    return np.array(turns[up], dtype=np.float64)


def _shade(
    hits: Hits,
    camera: Camera,
    vertices: np.ndarray,
    normals: np.ndarray,
    faces: np.ndarray,
    colours: np.ndarray | None,
) -> np.ndarray:
    """Linear light (S, S, 3) of the places that were hit, on paper with a soft shadow beneath."""
    side = hits.face.shape[0]
    seen = hits.face >= 0
    number = hits.face[seen]
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    flat = np.cross(b - a, c - a).astype(np.float32)  # only its sign against the eye matters
    places, normals = vertices.astype(np.float32), normals.astype(np.float32)
    colours = None if colours is None else np.asarray(colours, dtype=np.float32)
    light = np.empty((len(number), 3), dtype=np.float32)
    for start in range(0, len(number), CHUNK):
        part = slice(start, start + CHUNK)
        corners, weights = faces[number[part]], hits.weights[part].astype(np.float32)
        eye = _unit(camera.eye.astype(np.float32) - _mix(places, corners, weights))
        normal = _unit(_mix(normals, corners, weights))
        back = dot(flat[number[part]], eye) < 0  # the inner side of an open surface
        base = np.array(CLAY, dtype=np.float32) if colours is None else _mix(colours, corners, weights).clip(0, 1)
        light[part] = _light(normal, eye, back, base, camera)
    light *= _darken_folds(hits.depth, seen)[:, None]
    picture = np.empty((side, side, 3), dtype=np.float32)
    picture[:] = np.array(PAPER, dtype=np.float32)
    picture *= _shadow(camera, vertices, side)[:, :, None]
    picture[seen] = light
    return picture


def _light(normal: np.ndarray, eye: np.ndarray, back: np.ndarray, base: np.ndarray, camera: Camera) -> np.ndarray:
    """Light (n, 3) from places of colour `base`, normals (n, 3), the eye in direction (n, 3); `back`: inner sides."""
    normal[back] *= -1
    beyond = np.minimum(dot(normal, eye), 0)  # interpolated normals may look away at the outline, faces cannot
    normal = _unit(normal - np.float32(1.02) * beyond[:, None] * eye)
    # Lights stand with the camera: the key to the upper left in front, the fill low on the right, the rim behind.
    key, fill, rim = (
        (np.array(light) / np.linalg.norm(light) @ camera.turn).astype(np.float32)
        for light in ([-0.55, 0.75, 0.9], [0.9, 0.1, 0.5], [0.5, 0.6, -0.75])
    )
    strength = np.stack(
        [
            0.80 * np.clip((normal @ key + 0.15) / 1.15, 0, None),  # wrapped a little: soft edge of the shade
            0.22 * np.clip(normal @ fill, 0, None),
            0.27 + 0.11 * normal[:, 1],  # more sky than ground
        ],
        axis=1,
    )
    light = strength @ np.array([[1.0, 0.97, 0.92], [0.85, 0.92, 1.0], [0.93, 0.97, 1.0]], dtype=np.float32)
    light *= base ** np.float32(2.2)
    light *= np.where(back, np.float32(0.55), np.float32(1))[:, None]
    squared = np.square(np.clip(dot(normal, _unit(eye + key)), 0, None))
    eighth = np.square(np.square(squared))  # squares are far cheaper than powers
    grazing = 1 - np.clip(dot(normal, eye), 0, 1)
    gloss = np.square(np.square(eighth)) * eighth  # the cosine to the fortieth
    edge = grazing * grazing * grazing * np.clip(normal @ rim + 0.4, 0, 1)
    return light + (0.10 * gloss + 0.12 * edge)[:, None]


def _mix(rows: np.ndarray, corners: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Values at the corners (n, 3) of `rows` (V, 3), weighted (n, 3), in single precision: (n, 3)."""
    return sum(weights[:, k : k + 1] * rows[corners[:, k]] for k in range(3))


def _unit(vectors: np.ndarray) -> np.ndarray:
    length = np.sqrt(dot(vectors, vectors))
    return (vectors / np.where(length > 0, length, 1)[:, None]).astype(np.float32)


def _darken_folds(depth: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Light that reaches the places that are `seen` (S, S) between what stands nearer to the eye, (n,), 1 in the open.

    The depth is compared with its own blurred picture at several widths: lower than the surroundings is a fold.
    """
    side = depth.shape[0]
    own = depth[seen]
    near, reach = own.min(), max(float(np.ptp(own)), 1e-12)
    relief = np.where(seen, (depth - near) / reach, 0).astype(np.float32)
    there = seen.astype(np.float32)
    shade = np.zeros(len(own), dtype=np.float32)
    for width, strength, coarser in ((side / 200, 0.28, 2), (side / 60, 0.35, 4), (side / 18, 0.22, 8)):
        sigma = width / coarser  # a wide blur needs few pixels
        blurred = gaussian_filter(shrink(relief, coarser), sigma, truncate=3)
        around = blurred / (gaussian_filter(shrink(there, coarser), sigma, truncate=3) + 1e-9)
        lower = enlarge(around, side)
        np.subtract(relief, lower, out=lower)
        lower /= np.float32(0.09)
        lower = np.clip(lower, 0, 1, out=lower)[seen]
        shade += np.float32(strength) * lower
    return np.clip(1 - shade, 0.25, 1)


def shrink(image: np.ndarray, factor: int) -> np.ndarray:
    """Means of blocks of factor x factor pixels; what does not fill a block at the end is left out."""
    rows, columns = image.shape[0] // factor, image.shape[1] // factor
    parts = [
        image[i : rows * factor : factor, j : columns * factor : factor] for i in range(factor) for j in range(factor)
    ]
    return sum(parts[1:], parts[0]) / factor**2


def enlarge(image: np.ndarray, side: int) -> np.ndarray:
    """A square image (n, n) stretched to (side, side), linearly between its pixels."""
    count = len(image)
    steps = (np.arange(side) + 0.5) / side * count - 0.5
    low = np.clip(np.floor(steps).astype(np.int64), 0, count - 2)
    part = np.clip(steps - low, 0, 1).astype(image.dtype)
    rows = image[low] * (1 - part)[:, None] + image[low + 1] * part[:, None]
    found = np.take(rows, low, axis=1)
    found *= 1 - part
    rows = np.take(rows, low + 1, axis=1)
    rows *= part
    found += rows
    return np.asarray(found)


def _shadow(camera: Camera, vertices: np.ndarray, side: int) -> np.ndarray:
    """A soft shadow on the ground below the mesh, (S, S), 1 where there is none."""
    ground = vertices[:, 1].min()
    if camera.turn[2, 1] < 0:  # the eye is below the ground
        return np.ones((side, side), dtype=np.float32)
    flat = vertices.copy()
    height = flat[:, 1] - ground
    flat[:, 0] += 0.25 * height
    flat[:, 1] = ground
    flat[:, 2] -= 0.10 * height
    spots = camera.project(flat)
    cells = 256
    column = np.clip((spots[:, 0] / side * cells).astype(np.int64), 0, cells - 1)
    row = np.clip((spots[:, 1] / side * cells).astype(np.int64), 0, cells - 1)
    share = np.exp(-4 * height / max(float(height.max()), 1e-12))  # what floats high casts little
    mask = np.zeros((cells, cells))
    np.maximum.at(mask, (row, column), share)
    mask = gaussian_filter(1 - minimum_filter(1 - mask, 3), 4.0)
    return 1 - np.float32(0.45) * np.clip(enlarge(mask.astype(np.float32), side), 0, 1)


def _mark(picture: np.ndarray, hits: Hits, camera: Camera, points: np.ndarray) -> None:
    """Dots on the picture (S, S, 3) where points are not hidden."""
    side = picture.shape[0]
    spots = camera.project(points)
    radius = max(2, side // 400)
    slack = 0.004 * float(np.linalg.norm(np.ptp(points, axis=0)) + 1e-12)
    column, row = spots[:, 0].astype(np.int64), spots[:, 1].astype(np.int64)
    inside = (column >= 0) & (column < side) & (row >= 0) & (row < side)
    column, row, depth = column[inside], row[inside], spots[inside, 2]
    visible = depth <= hits.depth[row, column] + slack
    grid = np.arange(-radius, radius + 1)
    disc = [(i, j) for i in grid for j in grid if i * i + j * j <= radius * radius + 1]
    for i, j in disc:
        r, c = np.clip(row[visible] + i, 0, side - 1), np.clip(column[visible] + j, 0, side - 1)
        picture[r, c] = np.array(MARK) ** 2.2
