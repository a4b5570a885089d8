"""The studies of shapes: a case from points to pictures, peers in their own processes, the torus, exponents."""

from __future__ import annotations

import csv
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from cnf.errors import CnfError
from cnf.meshes.mesh import Mesh
from cnf.shapes.clouds.cloud import PointCloud
from cnf.shapes.clouds.preparation import prepare_cloud
from cnf.shapes.files.writing import write_mesh
from cnf.shapes.reconstruction.lengths import NEIGHBOURS, typical_reach
from studies.__main__ import run
from studies.shapes import starting, torus, training
from studies.shapes.collection import fit_to_cube
from studies.shapes.scaling import Scaling, fit_exponent
from studies.shapes.tables import make_tables
from tests.studies.ellipsoid import make_ellipsoid

PEERS_PYTHON = Path(__file__).parents[2] / ".venv-peers" / "shapes" / "bin" / "python"
POINTS = np.random.default_rng(0).normal(size=(50, 3))

# Writes a tetrahedron through the first four points.
STAND_IN = """
import json, sys
import numpy as np
name, given, made = sys.argv[1:4]
if name == "broken":
    sys.exit("no surface today")
if name == "silent":
    sys.exit(0)
points = np.load(given)["points"]
report = json.dumps({"seconds": 1.5, "megabytes": 20.0, "setting": "four points"})
np.savez(made, vertices=points[:4], faces=np.array([[0, 1, 2], [0, 2, 3], [0, 3, 1], [1, 3, 2]]), report=report)
"""


def test_whatever_happens_in_a_peer_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mesh and what is said of it; a failure and no output become errors."""
    script = tmp_path / "stand_in.py"
    script.write_text(STAND_IN)
    monkeypatch.setattr(starting, "SCRIPT", str(script))

    def start(name: str):
        return starting.run_peer(name, POINTS, POINTS, 16, 1, Path(sys.executable))

    made = start("good")
    assert (len(made.mesh.faces), made.setting, made.measured) == (
        4,
        "four points",
        {"seconds": 1.5, "megabytes": 20.0},
    )
    with pytest.raises(CnfError, match="no surface today"):
        start("broken")
    with pytest.raises(CnfError, match="no mesh to measure"):
        start("silent")


def test_peers_that_are_not_there() -> None:
    """Missing packages are said, with the methods that need them; an interpreter that is none is refused."""
    (line,) = starting.say_missing(["open3d-poisson-8", "cnf", "open3d-poisson-9"], None)
    assert line.startswith("left out: open3d-poisson-8, open3d-poisson-9: open3d is not in this one")
    with pytest.raises(CnfError, match="cannot be started"):
        starting.list_peers(Path("/no/such/python"))
    with pytest.raises(CnfError, match="cannot run the other methods"):
        starting.list_peers(Path("/bin/false"))


def test_training_the_support_keeps_conditions() -> None:
    """400 points of the unit sphere: along three steps the eikonal loss falls, the support moves, conditions hold.

    Points of the loss are drawn no farther from a data point, in every coordinate, than told.
    """
    points = np.random.default_rng(1).normal(size=(400, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    cloud = prepare_cloud(PointCloud(points, points))
    support, history = training.train_support(cloud, steps=3)
    assert history.best_loss < history.loss[0]
    assert support != pytest.approx(typical_reach(cloud.points, NEIGHBOURS["sparse"]), rel=1e-3)
    assert max(history.residual) <= 1e-10 and len(history) == 3
    shell = training.Shell(points, 0.01)
    drawn = shell.random(50, torch.Generator().manual_seed(0)).numpy()
    assert np.abs(drawn[:, None] - points).max(axis=2).min(axis=1).max() <= 0.01


@pytest.mark.skipif(not PEERS_PYTHON.exists(), reason="no environment with open3d")
def test_a_peer_in_another_interpreter() -> None:
    """Ball pivoting of Open3D on an ellipsoid: every input is a vertex."""
    ball = fit_to_cube(make_ellipsoid())
    points, normals = ball.sample(3000, 0)[:2]
    made = starting.run_peer("open3d-ball-pivoting", points, normals, 40, 1, PEERS_PYTHON)
    assert made.setting.startswith("radii 1, 2, 4 mean distances; open3d ")
    assert 30 < made.measured["megabytes"] < 2000 and len(made.mesh.faces) > 3000


def test_shapes_are_centred_and_scaled() -> None:
    """An ellipsoid of half axes 2, 0.8, 0.6 around (3, 0, 0): the box becomes [-1, 1] x [-0.4, 0.4] x [-0.3, 0.3]."""
    lower, upper = fit_to_cube(make_ellipsoid(longest=2.0)).bounds
    assert upper == pytest.approx([1, 0.4, 0.3], abs=1e-15)
    assert lower == pytest.approx([-1, -0.4, -0.3], abs=1e-15)


def test_a_shape_that_is_inside_out_is_turned() -> None:
    """Reversed faces enclose a negative volume; turned, they enclose that of the ellipsoid, 4/3 pi 0.8 0.6."""
    ball = make_ellipsoid()
    turned = fit_to_cube(Mesh(ball.vertices, ball.faces[:, ::-1]))
    assert turned.volume == pytest.approx(4 / 3 * math.pi * 0.8 * 0.6, rel=0.02)


def test_means_over_shapes() -> None:
    """Only methods that finished on all shapes are in the table of means; Euler numbers that differ have none."""
    row = dict.fromkeys(("hausdorff", "normal_consistency", "f_fine", "f_coarse", "input_mean", "input_max"), 0.5)
    row |= dict.fromkeys(("input_angle_mean", "watertight", "components", "faces", "processor_seconds"), 1)
    row |= {"seconds": None, "megabytes": 10.0, "euler": 2}
    rows = [
        {**row, "shape": "a", "method": "m", "chamfer": 1e-4},
        {**row, "shape": "b", "method": "m", "chamfer": 3e-4, "euler": 0},
        {**row, "shape": "a", "method": "n", "chamfer": 5e-5},
    ]
    first, second, means = make_tables(rows)
    assert [line[0] for line in first.rows] == ["n", "m"] and len(second.rows) == 1
    (line,) = [dict(zip(means.header, cells, strict=True)) for cells in means.rows]
    assert (line["Chamfer e-4"], line["Euler"], line["closed"], line["seconds"]) == ("2.00", "mixed", "yes", "-")


@pytest.mark.slow
def test_the_study_from_points_to_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """SciPy's splines through 1500 points of an ellipsoid: Euler number 2, Chamfer far below a cell of the grid."""
    (tmp_path / "mesh").mkdir()
    write_mesh(make_ellipsoid(), tmp_path / "mesh" / "spot.obj")
    out = tmp_path / "out"
    arguments = ["shapes", "--data", str(tmp_path), "--out", str(out), "--shapes", "spot", "--methods", "scipy-tps"]
    arguments += ["--points", "1500", "--resolution", "40", "--samples", "5000"]
    assert run(arguments) == 0
    assert "Chamfer" in capsys.readouterr().out
    (row,) = csv.DictReader((out / "shapes.csv").read_text().splitlines())
    assert float(row["chamfer"]) < 2e-3 and float(row["seconds"]) > 0 and float(row["megabytes"]) > 30
    assert (row["watertight"], row["euler"], row["components"]) == ("True", "2", "1")
    for name in ("shapes.txt", "shapes.png", "shapes_spot.png", "shapes_spot_errors.png"):
        assert (out / name).stat().st_size > 0
    assert (out / "meshes" / "spot_scipy-tps_1500_40_0.ply").exists()
    assert run([*arguments, "--no-pictures"]) == 0
    assert "from an earlier run" in capsys.readouterr().out


# ---- scaling


def test_the_torus_has_exact_normals_and_uniform_samples() -> None:
    """Normals are perpendicular to differences of the surface; symmetric parts hold equal shares of the area."""
    random = np.random.default_rng(0)
    u, v = random.uniform(0, 2 * np.pi, size=(2, 200))
    step = 1e-6
    normals = torus._surface(u, v)[1]
    for du, dv in ((step, 0), (0, step)):
        change = torus._surface(u + du, v + dv)[0] - torus._surface(u - du, v - dv)[0]
        assert np.abs((change / (2 * step) * normals).sum(axis=1)).max() < 1e-9
    points, unit = torus.sample_torus(40_000, seed=1)
    assert np.abs(np.linalg.norm(unit, axis=1) - 1).max() < 1e-15
    outward = points[:, :2] - torus.RADIUS * points[:, :2] / np.linalg.norm(points[:, :2], axis=1, keepdims=True)
    assert ((np.column_stack([outward, points[:, 2]]) * unit).sum(axis=1) > 0).all()
    # Above and below are mirror images; so are the six ripples around: a sixth each.
    assert (points[:, 2] > 0).mean() == pytest.approx(0.5, abs=5 * 0.5 / 200)
    sixth = np.floor(np.arctan2(points[:, 1], points[:, 0]) / (np.pi / 3)).astype(int) % 6
    assert np.bincount(sixth) / 40_000 == pytest.approx(np.full(6, 1 / 6), abs=5 * math.sqrt(5 / 36) / 200)


def test_the_share_of_the_inside_of_the_torus() -> None:
    """The half turned to the axis holds less area: its share by quadrature of |x_u x x_v| over the angles."""
    angles = (np.arange(400) + 0.5) * 2 * np.pi / 400
    u, v = (grid.ravel() for grid in np.meshgrid(angles, angles))
    places, crosses = torus._surface(u, v)
    area = np.linalg.norm(crosses, axis=1)
    inner = np.linalg.norm(places[:, :2], axis=1) < torus.RADIUS
    points, _ = torus.sample_torus(40_000, seed=2)
    share = (np.linalg.norm(points[:, :2], axis=1) < torus.RADIUS).mean()
    assert share == pytest.approx(area[inner].sum() / area.sum(), abs=5 * 0.5 / 200)
    assert share < 0.45


def test_exponents() -> None:
    """3 points^1.5 gives 1.5; from 10,000 on only the later rows count; one size gives none; notes say both."""
    rows = [{"size": size, "seconds": 3 * size**1.5, "megabytes": None} for size in (100, 1000, 10_000)]
    assert fit_exponent(rows) == pytest.approx(1.5, abs=1e-12)
    bent = [*rows, {"size": 100_000, "seconds": 3e7}]
    assert fit_exponent(bent, least=10_000) == pytest.approx(1.0, abs=1e-12)
    assert fit_exponent(rows[:1]) is None
    assert fit_exponent(rows, "megabytes") is None
    assert "all       grows as points^1.50 over all sizes" in Scaling().notes(rows)


def test_two_sizes_of_the_torus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values and normals exact, the mesh a torus, a table with two rows, and the picture; here in this process."""
    assert Scaling.alone
    monkeypatch.setattr(Scaling, "alone", False)
    assert run(["scaling", "--sizes", "300,600", "--resolution", "40", "--out", str(tmp_path)]) == 0
    rows = list(csv.DictReader((tmp_path / "scaling_blend.csv").read_text().splitlines()))
    assert [row["size"] for row in rows] == ["300", "600"]
    assert all(float(row["value_error"]) < 1e-9 and float(row["normal_error"]) < 1e-9 for row in rows)
    assert all((tmp_path / f"scaling_blend.{kind}").stat().st_size > 0 for kind in ("txt", "md", "tex", "png"))
