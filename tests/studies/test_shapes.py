"""The study of shapes: rows survive a file, finished work is not repeated, and what goes wrong is one line."""

from __future__ import annotations

import csv
import math
import sys
from pathlib import Path

import numpy as np
import pytest

import studies.shapes.commands  # noqa: F401  (registers the two commands)
from cnf.errors import CnfError, FileError
from cnf.shapes.clouds.mesh import Mesh
from cnf.shapes.files.writing import write_mesh
from studies.__main__ import run
from studies.shapes import scaling, study
from studies.shapes.measures import Measures
from studies.shapes.rows import Row, Setting, read_rows, write_rows

PEERS_PYTHON = Path(__file__).parents[2] / ".venv-peers" / "shapes" / "bin" / "python"

# Writes a tetrahedron through the first four points, and a line per start into a file beside itself.
STAND_IN = """
import json, pathlib, sys, time
import numpy as np
name, given, made = sys.argv[1:4]
with (pathlib.Path(__file__).parent / "starts.txt").open("a") as file:
    file.write(name + "\\n")
if name == "broken":
    sys.exit("no surface today")
if name == "silent":
    sys.exit(0)
if name == "slow":
    time.sleep(60)
points = np.load(given)["points"]
report = json.dumps({"seconds": 1.5, "megabytes": 20.0, "setting": "four points", "value_error": 1e-14})
np.savez(made, vertices=points[:4], faces=np.array([[0, 1, 2], [0, 2, 3], [0, 3, 1], [1, 3, 2]]), report=report)
"""


def make_ball(longest: float = 1.0, across: int = 24) -> Mesh:
    """An ellipsoid of half axes (longest, 0.8, 0.6) around (3, 0, 0), from a grid of angles."""
    turn = np.linspace(0, 2 * np.pi, 2 * across, endpoint=False)
    rise = np.linspace(0, np.pi, across + 1)[1:-1]
    rings = [[np.sin(r) * np.cos(t), np.sin(r) * np.sin(t), np.cos(r)] for r in rise for t in turn]
    vertices = np.array([*rings, [0, 0, 1], [0, 0, -1]]) * [longest, 0.8, 0.6] + [3, 0, 0]
    count, top, bottom = len(turn), len(rings), len(rings) + 1
    faces = []
    for k in range(count):
        after = (k + 1) % count
        faces += [[top, k, after], [bottom, len(rings) - count + after, len(rings) - count + k]]
        for ring in range(len(rise) - 1):
            a, b, c, d = (ring * count + k, ring * count + after, (ring + 1) * count + k, (ring + 1) * count + after)
            faces += [[a, c, b], [b, c, d]]
    return Mesh(vertices, np.array(faces))


@pytest.fixture
def stand_in(tmp_path: Path) -> tuple[Path, Path]:
    """(script, file with a line per start)."""
    script = tmp_path / "stand_in.py"
    script.write_text(STAND_IN)
    return script, tmp_path / "starts.txt"


def method(name: str, script: Path) -> study.Method:
    return study.Method(name, (sys.executable, str(script)))


def test_finished_rows_are_not_run_again(tmp_path: Path, stand_in: tuple[Path, Path]) -> None:
    """Two runs with one setting start the method once; another setting, or a failure, starts it again."""
    script, starts = stand_in
    truth = [("ball", study.fit_to_cube(make_ball()))]
    setting = Setting(points=50, resolution=16, samples=1000)
    both = [method("good", script), method("broken", script)]
    told: list[tuple[str, bool]] = []
    first = study.run_study(truth, both, setting, tmp_path, report=lambda row, known: told.append((row.method, known)))
    again = study.run_study(truth, both, setting, tmp_path, report=lambda row, known: told.append((row.method, known)))
    assert starts.read_text().split() == ["good", "broken", "broken"]
    assert told == [("good", False), ("broken", False), ("good", True), ("broken", False)]
    assert again[0] == first[0]  # every number, through the file and back
    assert first[0].finished and first[0].measures is not None
    assert (first[0].measures.faces, first[0].measures.euler, first[0].measures.watertight) == (4, 2, True)
    assert (first[0].seconds, first[0].value_error, first[0].how) == (1.5, 1e-14, "four points")
    assert study.mesh_path(tmp_path, first[0]).is_file()
    assert not first[1].finished and first[1].note == "failed: no surface today"
    finer = Setting(points=50, resolution=17, samples=1000)
    study.run_study(truth, both[:1], finer, tmp_path)
    assert starts.read_text().split()[3:] == ["good"]
    assert len(read_rows(tmp_path / "shapes.csv")) == 3  # the rows of both settings


def test_whatever_happens_in_a_run_becomes_a_note(stand_in: tuple[Path, Path]) -> None:
    """No output, too slow, a program that is not there: a row without measures each."""
    script, _ = stand_in
    truth, setting = study.fit_to_cube(make_ball()), Setting(points=50, samples=100)
    silent, mesh = study.run_case("ball", truth, method("silent", script), setting)
    assert mesh is None and silent.note.startswith("failed: no mesh to measure")
    slow, _ = study.run_case("ball", truth, method("slow", script), setting, timeout=1)
    assert slow.note == "stopped after 1 s"
    nowhere, _ = study.run_case("ball", truth, study.Method("x", ("/no/such/program",)), setting)
    assert nowhere.note == "failed: No such file or directory"


def test_rows_survive_a_file(tmp_path: Path) -> None:
    """Numbers that have no short decimal form, commas, missing ones: the same rows come back."""
    measures = Measures(1 / 3, 0.1, 0.2, 0.5, 1.0, 1e-17, math.pi, 2.0, 90.0, False, 3, -4, 10, 20)
    rows = [
        Row("spot", "cnf", Setting(), 1 / 7, 2.0, 300.0, None, 1e-300, measures, how='a, "b"'),
        Row("spot", "paper", Setting(threads=2), note="failed: no, nothing"),
    ]
    assert read_rows(write_rows(rows, tmp_path / "rows.csv")) == rows


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "\x00\x01"])
def test_a_foreign_table_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "shapes.csv").write_text(text)
    with pytest.raises(FileError, match="not a table"):
        read_rows(tmp_path / "shapes.csv")


def test_a_damaged_table_is_refused(tmp_path: Path) -> None:
    path = write_rows([Row("spot", "cnf", Setting())], tmp_path / "shapes.csv")
    path.write_text(path.read_text().replace("10000", "many"))
    with pytest.raises(FileError, match="damaged"):
        read_rows(path)


def test_shapes_are_centred_and_scaled() -> None:
    """An ellipsoid of half axes 2, 0.8, 0.6 around (3, 0, 0): the box becomes [-1, 1] x [-0.4, 0.4] x [-0.3, 0.3]."""
    lower, upper = study.fit_to_cube(make_ball(longest=2.0)).bounds
    assert upper == pytest.approx([1, 0.4, 0.3], abs=1e-15)
    assert lower == pytest.approx([-1, -0.4, -0.3], abs=1e-15)


def test_a_shape_that_is_inside_out_is_turned() -> None:
    """Reversed faces enclose a negative volume; turned, they enclose that of the ellipsoid, 4/3 pi 0.8 0.6."""
    ball = make_ball()
    turned = study.fit_to_cube(Mesh(ball.vertices, ball.faces[:, ::-1]))
    assert turned.volume == pytest.approx(4 / 3 * math.pi * 0.8 * 0.6, rel=0.02)


def test_missing_packages_are_said_not_raised() -> None:
    """A peer whose package is not importable is left out with its reason; our own methods always are there."""
    found, missing = study.find_methods(["scipy-tps", "open3d-poisson-8"])
    names = [m.name for m in found]
    assert names[0] == "scipy-tps"
    assert ("open3d-poisson-8" in names) != ("open3d-poisson-8" in missing)
    with pytest.raises(CnfError, match="Did you mean 'open3d-poisson-8'"):
        study.find_methods(["open3d-poison-8"])
    with pytest.raises(CnfError, match="cannot be started"):
        study.find_methods(["open3d-poisson-8"], Path("/no/such/python"))
    with pytest.raises(CnfError, match="cannot run the other methods"):
        study.find_methods(["open3d-poisson-8"], Path("/bin/false"))


@pytest.mark.skipif(not PEERS_PYTHON.exists(), reason="no environment with open3d")
def test_a_peer_in_another_interpreter() -> None:
    """Ball pivoting of Open3D on an ellipsoid: every input is a vertex, the surface is near."""
    (ball,), missing = study.find_methods(["open3d-ball-pivoting"], PEERS_PYTHON)
    assert not missing
    row, mesh = study.run_case("ball", study.fit_to_cube(make_ball()), ball, Setting(points=3000, samples=5000))
    assert mesh is not None and row.measures is not None
    assert row.measures.input_mean < 1e-3
    assert row.measures.chamfer < 5e-3
    assert row.megabytes is not None and 30 < row.megabytes < 2000
    assert row.how.startswith("radii 1, 2, 4 mean distances; open3d ")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder whose `spot` is an ellipsoid."""
    (tmp_path / "data" / "mesh").mkdir(parents=True)
    write_mesh(make_ball(), tmp_path / "data" / "mesh" / "spot.obj")
    return tmp_path / "data"


@pytest.mark.slow
def test_the_command_from_points_to_pictures(tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """SciPy's splines through 1500 points of an ellipsoid: Euler number 2, Chamfer far below a cell of the grid."""
    out = tmp_path / "out"
    arguments = [
        "shapes",
        "--data",
        str(data),
        "--out",
        str(out),
        "--shapes",
        "spot",
        "--methods",
        "scipy-tps",
    ]
    arguments += ["--points", "1500", "--resolution", "40", "--samples", "5000"]
    assert run(arguments) == 0
    assert "Chamfer" in capsys.readouterr().out
    (row,) = read_rows(out / "shapes.csv")
    assert row.measures is not None and row.seconds is not None and row.megabytes is not None
    assert row.measures.chamfer < 2e-3
    assert row.measures.watertight and row.measures.euler == 2 and row.measures.components == 1
    for name in ("shapes.txt", "shapes.png", "shapes_spot.png", "shapes_spot_errors.png"):
        assert (out / name).stat().st_size > 0
    assert run([*arguments, "--no-pictures"]) == 0
    assert "from an earlier run" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["shapes", "--shapes", "cow"], "there is no shape 'cow'"),
        (["shapes", "--shapes", "horse"], "for the shape 'horse'"),
        (["shapes", "--shapes", "spot", "--methods", "cnff"], "Did you mean 'cnf'"),
        (["shapes", "--shapes", "spot", "--data", "nowhere"], "set --data to a folder"),
        (["shapes", "--shapes", "spot", "--methods", "open3d-poisson-8", "--peers-python", "/no"], "cannot be started"),
        (["scaling", "--sizes", "1000,many"], "--sizes takes whole numbers"),
        (["scaling", "--sizes", "3"], "from 100 to"),
        (["scaling", "--mode", "magic"], "there is no mode 'magic'"),
    ],
)
def test_bad_input_is_one_line_before_any_work(
    arguments: list[str], part: str, data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CNF_DATA", str(data))
    monkeypatch.chdir(data)
    assert run(arguments) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ") and shown.err.count("\n") == 1
    assert part in shown.err


def test_without_data_the_error_says_what_to_set(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CNF_DATA", raising=False)
    assert run(["shapes"]) == 1
    assert "set the environment variable CNF_DATA" in capsys.readouterr().err


# ---- scaling


def test_the_torus_has_exact_normals_and_uniform_samples() -> None:
    """Normals are perpendicular to differences of the surface; symmetric parts hold equal shares of the area."""
    random = np.random.default_rng(0)
    u, v = random.uniform(0, 2 * np.pi, size=(2, 200))
    step = 1e-6
    normals = scaling._surface(u, v)[1]
    for du, dv in ((step, 0), (0, step)):
        change = scaling._surface(u + du, v + dv)[0] - scaling._surface(u - du, v - dv)[0]
        assert np.abs((change / (2 * step) * normals).sum(axis=1)).max() < 1e-9
    points, unit = scaling.sample_torus(40_000, seed=1)
    assert np.abs(np.linalg.norm(unit, axis=1) - 1).max() < 1e-15
    outward = points[:, :2] - scaling.RADIUS * points[:, :2] / np.linalg.norm(points[:, :2], axis=1, keepdims=True)
    assert ((np.column_stack([outward, points[:, 2]]) * unit).sum(axis=1) > 0).all()
    # Above and below are mirror images; so are the six ripples around: a sixth each.
    assert (points[:, 2] > 0).mean() == pytest.approx(0.5, abs=5 * 0.5 / 200)
    sixth = np.floor(np.arctan2(points[:, 1], points[:, 0]) / (np.pi / 3)).astype(int) % 6
    assert np.bincount(sixth) / 40_000 == pytest.approx(np.full(6, 1 / 6), abs=5 * math.sqrt(5 / 36) / 200)


def test_the_share_of_the_inside_of_the_torus() -> None:
    """The half turned to the axis holds less area: its share by quadrature of |x_u x x_v| over the angles."""
    angles = (np.arange(400) + 0.5) * 2 * np.pi / 400
    u, v = (grid.ravel() for grid in np.meshgrid(angles, angles))
    places, crosses = scaling._surface(u, v)
    area = np.linalg.norm(crosses, axis=1)
    inner = np.linalg.norm(places[:, :2], axis=1) < scaling.RADIUS
    points, _ = scaling.sample_torus(40_000, seed=2)
    share = (np.linalg.norm(points[:, :2], axis=1) < scaling.RADIUS).mean()
    assert share == pytest.approx(area[inner].sum() / area.sum(), abs=5 * 0.5 / 200)
    assert share < 0.45


def test_exponents() -> None:
    """3 points^1.5 gives 1.5; from 10,000 on only the later runs count; one size or a failure gives none."""
    runs = [scaling.Run(size, "blend", 16, 1, seconds=3 * size**1.5) for size in (100, 1000, 10_000)]
    assert scaling.fit_exponent(runs) == pytest.approx(1.5, abs=1e-12)
    bent = [*runs, scaling.Run(100_000, "blend", 16, 1, seconds=3e7), scaling.Run(10**6, "blend", 16, 1, note="failed")]
    assert scaling.fit_exponent(bent, least=10_000) == pytest.approx(1.0, abs=1e-12)
    assert scaling.fit_exponent(runs[:1]) is None
    assert scaling.fit_exponent(runs, "megabytes") is None


def test_scaling_reports(tmp_path: Path) -> None:
    """Table, CSV and picture of two runs and a failure, the exponents of 2 among them."""
    from studies.shapes import scaling_report as reports

    runs = [scaling.Run(s, "blend", 16, 1, seconds=s**2 / 1e8, megabytes=s / 10) for s in (10_000, 20_000)]
    runs.append(scaling.Run(40_000, "blend", 16, 1, note="stopped after 9 s"))
    text = reports.scaling_text(runs)
    assert "points^2.00 over all sizes, points^2.00 from 10000 on" in text
    assert "40000 points: stopped after 9 s" in text
    rows = list(csv.DictReader(reports.write_scaling(runs, tmp_path / "a.csv").read_text().splitlines()))
    assert [float(row["seconds"] or "nan") for row in rows[:2]] == [1.0, 4.0]
    assert reports.plot_scaling(runs, tmp_path / "a.png").stat().st_size > 0
