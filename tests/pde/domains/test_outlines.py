"""Outlines: curves from path data, SVG, GeoJSON and CSV; names, holes, smoothing; bad files in one line each."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import cnf
from cnf.errors import CnfError, DomainError, FileError, ProblemError
from cnf.pde.domains import Box, Difference, Disk, Outline, Polygon, to_text
from cnf.pde.domains.boundary import Curve
from cnf.pde.domains.regions import Regions

RING = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 30"><defs><path d="M0 0"/></defs>'
    '<g transform="translate(10, 5) scale(2)"><rect id="frame" width="10" height="8"/>'
    '<circle id="hole" cx="5" cy="3" r="2"/></g></svg>'
)


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_every_kind_of_stroke():
    r"""Areas by Green's theorem: a cubic S-curve closed by lines (SymPy: 3/2), a quadratic (2/3), half an ellipse."""
    assert Outline("M0 0 C 1 1 2 -1 3 0 S 4 1 5 0 V 2 H 0 Z").volume == pytest.approx(_area_by_points(), rel=1e-6)
    assert Outline("M 0 0 Q 0.5 2 1 0 Z").volume == pytest.approx(2 / 3, rel=1e-13)
    assert Outline("M -2 0 A 2 1 0 0 0 2 0 Z").volume == pytest.approx(math.pi, rel=1e-13)
    assert Outline("m1 1 h1 v1 h-1 z").volume == pytest.approx(1)


def _area_by_points() -> float:
    """The shoelace formula on 20000 points of the two cubic curves, S mirroring the handle to (4, 1)."""
    t = np.linspace(0, 1, 10001)[:, None]
    found = []
    for p in ([(0, 0), (1, 1), (2, -1), (3, 0)], [(3, 0), (4, 1), (4, 1), (5, 0)]):
        a, b, c, d = (np.array(q, dtype=float) for q in p)
        found.append((1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * b + 3 * (1 - t) * t**2 * c + t**3 * d)
    x, y = np.concatenate([*found, [[5, 2], [0, 2]]]).T
    return float((x * np.roll(y, -1) - y * np.roll(x, -1)).sum() / 2)


def test_svg(tmp_path: Path):
    """A rectangle with a hole, moved and scaled: the picture is 30 high, so y = 5 in it is y = 25 here."""
    plate = Outline.read(write(tmp_path, "ring.svg", RING), scale=0.1)
    assert plate.lower == pytest.approx((1, 0.9)) and plate.upper == pytest.approx((3, 2.5))
    assert plate.volume == pytest.approx(3.2 - math.pi * 0.16, rel=1e-12)
    assert plate.boundary_measure("hole") == pytest.approx(0.8 * math.pi, rel=1e-12)
    points = plate.boundary_points(40, part="hole").points.numpy()
    np.testing.assert_allclose(np.hypot(points[:, 0] - 2, points[:, 1] - 1.9), 0.4, rtol=1e-12)
    assert {"frame", "frame edge 1", "hole"} <= set(plate.parts)
    disk = Outline.read(tmp_path / "ring.svg", only=["hole"])
    assert disk.volume == pytest.approx(16 * math.pi, rel=1e-12)
    assert to_text(disk) == "outline of 1 closed curve"
    tilted = '<svg><rect width="2" height="1" rx="0.5" transform="rotate(30) skewX(10)"/></svg>'
    assert Outline.read(write(tmp_path, "t.svg", tilted)).volume == pytest.approx(1 + math.pi / 4, rel=1e-12)


def feature(kind: str, coordinates: object, **entries: object) -> dict[str, object]:
    return {"type": "Feature", "geometry": {"type": kind, "coordinates": coordinates}, **entries}


def test_geojson(tmp_path: Path):
    """A square with a square hole and a triangle beside it, as features with a name and an id."""
    square = [[0, 0], [4, 0], [4, 4], [0, 4], [0, 0]], [[1, 1], [1, 2], [2, 2], [2, 1], [1, 1]]
    table = {
        "type": "FeatureCollection",
        "features": [
            feature("Polygon", square, properties={"name": "lake, big"}),
            feature("MultiPolygon", [[[[5, 0], [7, 0], [5, 1]]]], id=7, properties=None),
            feature("Point", [0, 0], properties={}),
        ],
    }
    both = Outline.read(write(tmp_path, "a.geojson", json.dumps(table)))
    assert both.volume == pytest.approx(15 + 1)
    assert both.boundary_measure("lake big") == pytest.approx(20)
    assert both.boundary_measure("lake big 2") == pytest.approx(4)  # the hole
    assert both.boundary_measure("7") == pytest.approx(3 + math.sqrt(5))


@pytest.mark.parametrize("text", ["x,y\n0,0\n2,0\n0,1\n0,0\n", "0 0\n2 0\n# a comment\n0 1\n", "y;x\n0;0\n0;2\n1;0"])
def test_csv(tmp_path: Path, text: str):
    """A triangle with and without header, a repeated last point, columns in another order."""
    triangle = Outline.read(write(tmp_path, "a.csv", text))
    assert triangle.volume == pytest.approx(1) and triangle.parts == ("edge 1", "edge 2", "edge 3")


def test_csv_of_several_curves(tmp_path: Path):
    """By a column, or by empty lines; names become parts."""
    named = "curve,x,y\nouter,0,0\nouter,3,0\nouter,3,3\nouter,0,3\ninner,1,1\ninner,2,1\ninner,1,2\n"
    assert Outline.read(write(tmp_path, "a.csv", named)).boundary_measure("inner") == pytest.approx(2 + math.sqrt(2))
    apart = "0 0\n3 0\n3 3\n0 3\n\n1 1\n2 1\n1 2\n"
    assert Outline.read(write(tmp_path, "b.csv", apart)).boundary_measure("curve 2") == pytest.approx(2 + math.sqrt(2))


def test_a_polygon_unless_told_smooth():
    """300 points of a circle: the polygon's area, or that of the circle to 1e-12; half a disk keeps its corners."""
    angle = np.linspace(0, 2 * np.pi, 300, endpoint=False)
    points = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    assert Outline(points).volume == pytest.approx(150 * math.sin(2 * math.pi / 300), rel=1e-12)
    assert Outline(points) != Outline(points, smooth=True)
    assert Outline(points, smooth=True).volume == pytest.approx(math.pi, rel=1e-12)
    half = Outline(points[:151], smooth=True)
    pieces = [piece for piece in half._pieces if isinstance(piece, Curve)]
    assert len(pieces) == 2 and half.volume == pytest.approx(math.pi / 2, rel=1e-9)
    assert to_text(Outline(points)) == "outline of 1 closed curve, 300 straight edges"
    rough = Outline(points[::20], smooth=True)  # 24 degrees at every point
    assert len(rough._pieces) == 1 and rough.volume == pytest.approx(math.pi, rel=1e-3)
    assert len(Outline(points[::30])._pieces) == 10 and len(Outline(points[::30], smooth=40)._pieces) == 1


def test_as_part_of_a_combination():
    """A drawn frame without a disk is the same as a box without it; thousands of edges are no trouble."""
    frame = Outline("M 0 0 H 4 V 3 H 0 Z", names=["frame"])
    plate = Difference(frame, [Disk((2, 1.5), 1, name="hole")])
    assert plate.volume == pytest.approx(12 - math.pi, rel=1e-9)
    assert set(plate.parts) >= {"frame", "hole", "frame edge 2"}
    angle = np.linspace(0, 2 * np.pi, 5000, endpoint=False)
    star = Outline((1 + 0.3 * np.cos(7 * angle))[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1))
    points = Box((-1.4, -1.4), (1.4, 1.4)).random(2000).numpy()
    radius = np.hypot(*points.T) - 1 - 0.3 * np.cos(7 * np.arctan2(points[:, 1], points[:, 0]))
    clear = np.abs(radius) > 1e-4
    np.testing.assert_array_equal(star.contains(points).numpy()[clear], (radius < 0)[clear])


def test_distance_against_a_polygon():
    """The exact distances of `Polygon`, which looks at all edges."""
    corners = [(0, 0), (4, 0), (4, 1), (1, 1.2), (1, 3), (0, 3)]
    points = np.random.default_rng(0).uniform(-1, 5, (2000, 2))
    found, exact = Outline(corners)._bound(points), Polygon(corners)._bound(points)
    np.testing.assert_allclose(found, exact, atol=1e-6)  # chords of 1/4096 of the length are looked at, not all edges
    near = np.abs(exact) < 0.01
    np.testing.assert_allclose(found[near], exact[near], rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ("M 0 0 L 1 1 L 1 0 L 0 1 Z", "crosses or touches itself"),
        ("M 0 0 H 2 V 2 H 0 Z M 1 1 H 3 V 3 H 1 Z", "crosses or touches another curve"),
        ("M 0 0 H 1 V 1 H 0 Z M 1 0 H 2 V 1 H 1 Z", "crosses or touches another curve"),
        ("M 0 0 L 1 0 Z", "doubles back"),
        ("M 0 0 L 1 0 L 1 1", "is open: it ends at"),
        ("M 0 0", "encloses nothing"),
        ("M 0 0 L", "fewer numbers after L"),
        ("M 0 0 X 1", "command 'X'"),
        ([[0, 0], [1, 0], [math.nan, 1]], "finite numbers"),
        ([[0, 0], [1, 0]], "at least three"),
        (7, "points of an outline"),
    ],
)
def test_bad_paths(paths, message: str):
    with pytest.raises((DomainError, FileError), match=message) as caught:
        Outline(paths)
    assert "\n" not in str(caught.value)


BOMB = '<!DOCTYPE svg [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;">]><svg><title>&b;</title></svg>'


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.svg", "", "is empty"),
        ("a.svg", b"\x00\xff" * 50, "not an SVG file"),
        ("a.svg", RING[:150], "not an SVG file"),
        ("a.svg", BOMB, "declares entities"),
        ("a.svg", "<html></html>", "begins with <html>"),
        ("a.svg", "<svg></svg>", "no closed curves"),
        ("a.svg", '<svg><use href="#a"/></svg>', "<use>"),
        ("a.svg", '<svg><path id="p" d="M0 0 L 1 0 L 1 1"/></svg>', "'p' is open"),
        ("a.svg", '<svg><circle r="1cm"/></svg>', "'1cm' is not a number"),
        ("a.svg", '<svg><g transform="turn(3)"><circle r="1"/></g></svg>', "cannot be read"),
        ("a.svg", '<svg><g transform="scale()"><circle r="1"/></g></svg>', "wrong numbers"),
        ("a.geojson", "{", "not a JSON file"),
        ("a.geojson", "[" * 100_000, "not a JSON file"),
        ("a.geojson", "[]", "expected a GeoJSON object"),
        ("a.geojson", '{"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [NaN, 1]]]}', "two finite numbers"),
        ("a.geojson", '{"type": "Polygon", "coordinates": [[[0, 0], [1, 0]]]}', "three different ones"),
        ("a.geojson", '{"type": "Point", "coordinates": [0, 0]}', "no polygons"),
        ("a.geojson", '{"type": "Topology"}', "no type of GeoJSON"),
        ("a.csv", "x,y\n", "three different|no closed"),
        ("a.csv", "x,y\n0,0\n1,nan\n1,1", "line 3: 'nan' is not a finite number"),
        ("a.csv", "x,y\n0,0\n1\n1,1", "line 3: 1 entries"),
        ("a.csv", b"\xff\xfe\x00", "not a text file"),
        ("a.csv", "a,x\n1,2", "have no x and y"),
        ("a.dxf", "0", "no outline is read"),
    ],
)  # fmt: skip
def test_bad_files(tmp_path: Path, name: str, content: str | bytes, message: str):
    """Empty, cut short, binary, exploding, open and unreadable files: one line that names the file."""
    path = write(tmp_path, name, content)
    with pytest.raises(FileError, match=message) as caught:
        Outline.read(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_in_a_problem_file(tmp_path: Path):
    """The file is looked for beside the problem's; parts are named by their ids; mistakes name the entry."""
    write(tmp_path, "ring.svg", RING)
    text = r"""
        coordinates = "x y"
        domain = { type = "outline", file = "ring.svg", scale = 0.1 }
        equations = [
            { on = "interior", equation = '\Delta u = 0' },
            { on = "frame", equation = "u = x y" },
            { on = "hole", equation = '\partial_n u = y n_x + x n_y' },
        ]
        [solve]
        method = "patches"
        [exact]
        u = "x y"
    """
    answer = cnf.Problem.read(write(tmp_path, "p.toml", text)).solve()
    assert answer.certificate.exact and answer.errors is not None and answer.errors["u"] < 1e-8
    for old, new, message in [
        ("ring.svg", "missing.svg", "line 3: domain: there is no file"),
        ("scale = 0.1", "only = ['hull']", "no curve called 'hull'"),
        ("scale = 0.1", "smooth = 'x'", "line 3: expected a number"),
        ("scale = 0.1", "paths = 'M 0 0'", "either a file"),
        ('file = "ring.svg", scale = 0.1', "paths = 'M 0 0 H 1 V 1 Z', scale = 2", "scale is for outlines from files"),
        ('file = "ring.svg"', "file = 3", "must be the name of a file"),
    ]:
        with pytest.raises(ProblemError, match=message):
            cnf.Problem.read(write(tmp_path, "q.toml", text.replace(old, new)))


def test_outlines_as_regions():
    """Twenty holes and an island in one of them: the partition of a problem with regions has them all."""
    text = "M 0 0 H 21 V 4 H 0 Z" + "".join(f"M {k + 0.6} 1 h 0.8 v 2 h -0.8 z" for k in range(20))
    outline = Outline(text + "M 0.8 1.5 h 0.4 v 0.5 h -0.4 z")
    regions = Regions(Box((0, 0), (21, 4)), {"grid": outline})
    points = np.array([[0.3, 2], [1, 2.5], [1, 1.7], [20, 2], [20.9, 2]])
    assert regions.number(points).tolist() == [0, 1, 0, 1, 0]
    with pytest.raises(DomainError, match="straight outlines"):
        Regions(Box((-2, -2), (2, 2)), {"disk": Outline("M -1 0 A 1 1 0 0 0 1 0 Z")})


def test_names_of_curves():
    with pytest.raises(CnfError, match="one name for every curve, 1, got 2"):
        Outline("M 0 0 H 1 V 1 Z", names=["a", "b"])
    with pytest.raises(CnfError, match="cannot be called 'a, b'"):
        Outline("M 0 0 H 1 V 1 Z", names=["a, b"])
    with pytest.raises(CnfError, match="`smooth`"):
        Outline("M 0 0 H 1 V 1 Z", smooth=200)
