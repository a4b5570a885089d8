"""The viewer: a mesh and its points as one page that turns them, without any other file or address.

In comes a `Scene`, arrays and words; out goes the text of an HTML page. Arrays are in it as base64: positions in 65,536
steps of the longest side, normals as two numbers (the octahedron unfolded), colours as bytes. What is larger than a
page should be is simplified, and the page says so. The page can run its own script and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files

import numpy as np

from cnf.meshes.creased import SHARP, part_at_creases
from cnf.meshes.mesh import Mesh, unit_rows
from cnf.meshes.simplifying import simplify
from cnf.reports.page_style import STYLE

MOST_FACES, MOST_POINTS = 400_000, 200_000  # shown; a page of both has less than 25 MB
VALUE = "distance to points"  # the attribute that carries the values
STEPS = 65535


@dataclass(frozen=True, eq=False)
class Scene:
    """What is shown: a mesh with the attributes `normals` and `colours` if it has any, points, words and numbers."""

    title: str
    mesh: Mesh
    points: np.ndarray  # (P, 3)
    point_normals: np.ndarray  # (P, 3)
    point_colours: np.ndarray | None = None  # (P, 3), 0 to 1
    values: np.ndarray | None = None  # (V,), from 0 on: distances to the points, in their spacings
    limit: float = 1.0  # the value from which on nothing is known
    spacing: float = 0.01  # of the points
    standing: np.ndarray = field(default_factory=lambda: np.eye(3))  # (3, 3): the rotation after which y is up
    turn: float = 0.0  # degrees about it
    lead: str = ""
    verdict: Sequence[tuple[bool | None, str]] = ()  # good, bad or neither, and in words
    facts: Sequence[tuple[str, str]] = ()
    residuals: Sequence[tuple[str, str, str]] = ()  # of the conditions: name, absolute, relative
    notes: Sequence[str] = ()
    footer: str = ""


def make_page(scene: Scene, most_faces: int = MOST_FACES, most_points: int = MOST_POINTS) -> str:
    """The text of the page."""
    attributes = {} if scene.values is None else {VALUE: scene.values}
    kept = {name: scene.mesh.attributes[name] for name in ("normals", "colours") if has_three(scene.mesh, name)}
    kept |= {name: rows for name, rows in scene.mesh.attributes.items() if name == SHARP}
    mesh = simplify(Mesh(scene.mesh.vertices, scene.mesh.faces, {**kept, **attributes}), most_faces)
    mesh = part_at_creases(mesh) if len(mesh.faces) == len(scene.mesh.faces) else mesh
    shown = choose_points(len(scene.points), most_points)
    notes = [*limits(scene, mesh, len(shown)), *scene.notes]
    box = np.concatenate([mesh.vertices, scene.points[shown]])
    low, size = box.min(axis=0), float(np.ptp(box, axis=0).max()) or 1.0
    extent = np.ptp(box, axis=0) / size
    top = max(scene.limit, min(float(np.max(mesh.attributes.get(VALUE, 0), initial=0)), 4 * scene.limit))
    arrays = {f"mesh-{name}": data for name, data in encode_mesh(mesh, low, size, top).items()}
    arrays |= {f"points-{name}": data for name, data in encode_points(scene, shown, low, size).items()}
    wide = len(mesh.vertices) > STEPS
    arrays["faces"] = mesh.faces.astype("<u4" if wide else "<u2")
    described = {
        "mesh": [name.removeprefix("mesh-") for name in arrays if name.startswith("mesh-")],
        "points": [name.removeprefix("points-") for name in arrays if name.startswith("points-")],
        "wide": wide,
        "extent": extent.tolist(),
        "radius": float(np.linalg.norm(2 * (box - low) / size - extent, axis=1).max()),
        "standing": scene.standing.ravel().tolist(),
        "turn": float(scene.turn),
        "limit": float(scene.limit),
        "top": top,
        "dot": 0.4 * scene.spacing / size,
    }
    script = read_part("viewer.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return fill(
        read_part("viewer.html"),
        {
            "hash": f"sha256-{digest}",
            "title": escape(scene.title),
            "style": STYLE,
            "panel": describe(scene, notes),
            "footer": escape(scene.footer),
            "scene": json.dumps(described).replace("<", "\\u003c"),
            "arrays": "\n".join(embed(name, data) for name, data in arrays.items()),
            "script": script,
        },
    )


def read_part(name: str) -> str:
    """A file that lies beside this one."""
    return (files("cnf.reports") / name).read_text(encoding="utf-8")


def fill(template: str, parts: dict[str, str]) -> str:
    """Every {{name}} once, in one pass: what is put in is never looked at again."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def embed(name: str, data: np.ndarray) -> str:
    """An array as text that no browser runs."""
    return f'<script type="text/plain" id="data-{name}">{base64.b64encode(data.tobytes()).decode()}</script>'


def has_three(mesh: Mesh, name: str) -> bool:
    return name in mesh.attributes and mesh.attributes[name].shape[1] == 3


# ---- less than there is


def choose_points(count: int, most: int) -> np.ndarray:
    """Numbers of at most `most` points, drawn evenly at random."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).permutation(count)[:most])


def limits(scene: Scene, mesh: Mesh, points: int) -> list[str]:
    """What is not shown."""
    notes = []
    if len(mesh.faces) < len(scene.mesh.faces):
        notes.append(
            f"this page shows the mesh simplified, with {len(mesh.faces):,} faces instead of "
            f"{len(scene.mesh.faces):,}, so that it can be opened anywhere; the file of the mesh has all of them"
        )
    if points < len(scene.points):
        notes.append(f"this page shows {points:,} of the {len(scene.points):,} points, drawn at random")
    return notes


# ---- arrays


def encode_mesh(mesh: Mesh, low: np.ndarray, size: float, top: float) -> dict[str, np.ndarray]:
    """Positions, normals, and colours and values if there are any."""
    own = mesh.attributes.get("normals")
    found = {
        "position": quantise((mesh.vertices - low) / size),
        "normal": fold(mesh.vertex_normals if own is None else unit_rows(own)),
    }
    if "colours" in mesh.attributes:
        found["colour"] = np.rint(np.clip(mesh.attributes["colours"], 0, 1) * 255).astype(np.uint8)
    if VALUE in mesh.attributes:
        found["value"] = quantise(mesh.attributes[VALUE] / top)
    return found


def encode_points(scene: Scene, shown: np.ndarray, low: np.ndarray, size: float) -> dict[str, np.ndarray]:
    """Positions, normals and colours of the points that are shown."""
    if not len(shown):
        return {}
    found = {
        "position": quantise((scene.points[shown] - low) / size),
        "normal": fold(unit_rows(scene.point_normals[shown])),
    }
    if scene.point_colours is not None:
        found["colour"] = np.rint(np.clip(scene.point_colours[shown], 0, 1) * 255).astype(np.uint8)
    return found


def quantise(shares: np.ndarray) -> np.ndarray:
    """0 to 1 in steps of 1 / 65535."""
    return np.rint(np.clip(shares, 0, 1) * STEPS).astype("<u2")


def fold(normals: np.ndarray) -> np.ndarray:
    """Unit vectors (V, 3) as two numbers (V, 2): on the octahedron, its lower half folded out; steps of 1 / 32767."""
    flat = normals / np.maximum(np.abs(normals).sum(axis=1, keepdims=True), 1e-300)
    sign = np.where(flat[:, :2] >= 0, 1.0, -1.0)
    lower = (1 - np.abs(flat[:, 1::-1])) * sign
    return np.rint(np.where(flat[:, 2:] < 0, lower, flat[:, :2]) * 32767).astype("<i2")


# ---- words


def describe(scene: Scene, notes: Sequence[str]) -> str:
    """What stands beside the picture."""
    classes = {True: "good", False: "bad", None: ""}
    parts = [f"<h1>{escape(scene.title)}</h1>"]
    if scene.lead:
        parts.append(f'<p class="lead">{escape(scene.lead)}</p>')
    if scene.verdict:
        listed = "".join(f'<li class="{classes[good]}">{escape(text)}</li>' for good, text in scene.verdict)
        parts.append(f'<ul class="verdict">{listed}</ul>')
    if notes:
        listed = "".join(f"<li>{escape(note[:1].upper() + note[1:])}.</li>" for note in notes)
        parts.append(f'<h2>Notes</h2><ul class="notes">{listed}</ul>')
    if scene.facts:
        rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in scene.facts)
        parts.append(f"<h2>Numbers</h2><dl>{rows}</dl>")
    if scene.residuals:
        head = '<thead><tr><th>condition</th><th class="number">worst</th><th class="number">relative</th></tr></thead>'
        rows = "".join(
            f'<tr><th scope="row">{escape(name)}</th><td class="number">{escape(worst)}</td>'
            f'<td class="number">{escape(relative)}</td></tr>'
            for name, worst, relative in scene.residuals
        )
        parts.append(f'<h2>Certificate</h2><div class="wide"><table>{head}<tbody>{rows}</tbody></table></div>')
    return "\n".join(parts)
