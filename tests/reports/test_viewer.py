"""The page that turns a mesh around: what is in it is what was given, to the steps it says; and nothing else.

The arrays are decoded as the page's script does it, and compared with the mesh. How the page looks and moves was tried
in a browser, which tests do not have.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re

import numpy as np
import pytest

from cnf.meshes.mesh import Mesh
from cnf.meshes.simplifying import simplify
from cnf.reports.viewer import Scene, fold, make_page
from tests.shapes.known_clouds import sphere, torus_mesh

KINDS = {"position": ("<u2", 3), "normal": ("<i2", 2), "colour": ("u1", 3), "value": ("<u2", 1)}


def decode(page: str, name: str, kind: str, width: int) -> np.ndarray:
    """An array of the page, (rows, width)."""
    (text,) = re.findall(rf'<script type="text/plain" id="data-{name}">([^<]*)</script>', page)
    return np.frombuffer(base64.b64decode(text, validate=True), kind).reshape(-1, width)


def unfold(codes: np.ndarray) -> np.ndarray:
    """Normals as the vertex shader makes them."""
    e = codes / 32767
    z = 1 - np.abs(e).sum(axis=1)
    signs = np.where(e >= 0, 1, -1)
    xy = np.where(z[:, None] < 0, (1 - np.abs(e[:, ::-1])) * signs, e)
    n = np.c_[xy, z]
    return n / np.linalg.norm(n, axis=1, keepdims=True)


def ring(across: int = 30, around: int = 15, **more: object) -> Scene:
    mesh = torus_mesh(across, around)
    shades = np.random.default_rng(0).random(mesh.vertices.shape)
    mesh = mesh.with_attributes(normals=mesh.vertex_normals, colours=shades)
    points = mesh.vertices[::3] + 0.01
    values = np.abs(mesh.vertices[:, 0])
    settings = {"title": "ring", "point_normals": mesh.vertex_normals[::3], "values": values, "limit": 0.5, **more}
    return Scene(mesh=mesh, points=points, **settings)


def test_the_arrays_are_the_mesh():
    """Positions to half a step of the longest side, normals to 1e-4, colours to half a byte, values, all faces."""
    scene = ring()
    page, mesh = make_page(scene), scene.mesh
    box = np.concatenate([mesh.vertices, scene.points])
    low, size = box.min(axis=0), np.ptp(box, axis=0).max()
    for part, places, normals in (
        ("mesh", mesh.vertices, mesh.attributes["normals"]),
        ("points", scene.points, scene.point_normals),
    ):
        found = decode(page, f"{part}-position", *KINDS["position"]) / 65535 * size + low
        assert np.abs(found - places).max() <= 0.5001 * size / 65535
        assert np.abs(unfold(decode(page, f"{part}-normal", *KINDS["normal"])) - normals).max() < 1e-4
    np.testing.assert_array_equal(decode(page, "faces", "<u2", 3), mesh.faces)
    shades = decode(page, "mesh-colour", *KINDS["colour"]) / 255
    assert np.abs(shades - mesh.attributes["colours"]).max() <= 0.5001 / 255
    told = json.loads(re.findall(r'id="scene">([^<]*)</script>', page)[0])
    values = decode(page, "mesh-value", *KINDS["value"])[:, 0] / 65535 * told["top"]
    assert np.abs(values - scene.values).max() <= told["top"] / 65535 and told["limit"] == 0.5
    assert told["mesh"] == ["position", "normal", "colour", "value"] and told["points"] == ["position", "normal"]


def test_normals_to_all_sides_are_folded_and_unfolded():
    directions = np.concatenate([sphere(2000)[0], np.eye(3), -np.eye(3)])
    assert np.abs(unfold(fold(directions)) - directions).max() < 1e-4


def test_nothing_is_loaded_and_nothing_else_runs():
    """No address but those of `href`-less words; the policy allows one script, whose checksum is that of the script."""
    page = make_page(ring())
    assert not re.search(r"(src|href)\s*=|https?:|//[a-z]+\.|@import|url\(|fetch\(|XMLHttp|import\(", page)
    (script,) = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in page


def test_words_are_words():
    """Markup in titles, notes and names of conditions is shown, not obeyed; braces of the template are no template."""
    evil = "</script><script>alert(1)</script><img onerror=x> {{script}} &"
    page = make_page(
        ring(title=evil, lead=evil, notes=[evil], facts=[(evil, evil)], residuals=[(evil, evil, evil)], footer=evil)
    )
    assert page.count("<script>") == 1 and "<img" not in page and "alert(1)</script>" not in page
    assert page.count("{{script}} &amp;") >= 7


def test_what_is_large_is_simplified_and_told():
    """180,000 faces to at most 20,000, points to 1000: still near the ring, and the page says both."""
    scene = ring(300, 300)
    page = make_page(scene, most_faces=20_000, most_points=1000)
    faces = decode(page, "faces", "<u2", 3)
    assert 8000 < len(faces) <= 20_000 and len(decode(page, "points-position", *KINDS["position"])) == 1000
    assert f"{len(faces):,} faces instead of 180,000" in page and "1,000 of the 30,000 points" in page
    made = simplify(scene.mesh, 20_000)
    away = np.hypot(np.hypot(made.vertices[:, 0], made.vertices[:, 1]) - 1, made.vertices[:, 2])
    assert np.abs(away - 0.35).max() < 0.01 and made.area == pytest.approx(scene.mesh.area, rel=0.02)


def test_the_largest_page():
    """As many faces and points as are ever shown, each vertex in one face only: below 25 MB."""
    from cnf.reports.viewer import MOST_FACES, MOST_POINTS

    random = np.random.default_rng(0)
    vertices = random.random((3 * MOST_FACES // 4, 3))
    soup = Mesh(vertices, np.arange(len(vertices)).reshape(-1, 3), {"colours": vertices})
    points = random.random((MOST_POINTS, 3))
    page = make_page(Scene("soup", soup, points, points, points, vertices[:, 0]))
    per_vertex, per_point = 6 + 4 + 3 + 2, 6 + 4 + 3
    bound = 4 / 3 * (MOST_FACES * (per_vertex + 12) + MOST_POINTS * per_point) + 1e5
    assert len(page) <= bound < 25e6
