"""Data files of an answer: read back by other means than they were written with, number for number."""

from __future__ import annotations

import base64
import csv
import json
import math
import xml.etree.ElementTree as ElementTree
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch

from cnf.pde.report.exports import export_columns, grid_counts, write_csv, write_npz, write_vtk_files
from cnf.pde.report.folder import summary_text
from tests.pde import stand_in

TYPES = {"Float64": "<f8", "Int64": "<i8", "UInt8": "u1"}


def read_vtk(path: Path) -> tuple[ElementTree.Element, dict[str, np.ndarray]]:
    """The XML and its arrays by name, decoded as the VTK file format document says."""
    root = ElementTree.parse(path).getroot()
    arrays = {}
    for node in root.iter("DataArray"):
        if node.get("format") == "ascii":
            continue
        text = node.text or ""
        blocks, size, last, packed = np.frombuffer(base64.b64decode(text[:44]), "<u8")
        raw = zlib.decompress(base64.b64decode(text[44:]))
        assert (blocks, last, size) == (1, 0, len(raw)) and packed == len(base64.b64decode(text[44:]))
        values = np.frombuffer(raw, TYPES[node.get("type", "")])
        width = int(node.get("NumberOfComponents", "1"))
        arrays[node.get("Name", "")] = values.reshape(-1, width) if width > 1 else values
    return root, arrays


def read_csv(path: Path) -> dict[str, np.ndarray]:
    with path.open() as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def test_csv_has_every_digit(tmp_path):
    """The table holds the solution at its own coordinates, bit for bit; here u = sin(2 pi x)."""
    answer = stand_in.wave_1d()
    grid = answer.grid((33,))
    columns = read_csv(write_csv(answer, grid, tmp_path / "a.csv"))
    assert list(columns) == ["x", "u", "exact_u"]
    assert np.array_equal(columns["x"], np.linspace(0, 1, 33))
    with torch.no_grad():
        again = answer.solution(torch.from_numpy(columns["x"])[:, None])[:, 0].numpy()
    assert np.allclose(columns["u"], again, rtol=1e-12, atol=1e-14)
    assert np.array_equal(columns["u"], grid.values[:, 0].numpy())
    assert np.abs(columns["u"] - np.sin(2 * np.pi * columns["x"])).max() < 1e-9


def test_csv_only_inside(tmp_path):
    """Between the circles: no row beyond radius 1, none in the hole around (0.2, 0.1)."""
    answer = stand_in.ring_2d()
    columns = read_csv(write_csv(answer, answer.grid((41, 41)), tmp_path / "a.csv"))
    radius = np.hypot(columns["x"], columns["y"])
    hole = np.hypot(columns["x"] - 0.2, columns["y"] - 0.1)
    x, y = np.meshgrid(np.linspace(-1, 1, 41), np.linspace(-1, 1, 41))
    expected = ((np.hypot(x, y) <= 1 + 1e-9) & (np.hypot(x - 0.2, y - 0.1) >= 0.3 - 1e-9)).sum()
    assert len(radius) == expected
    assert radius.max() <= 1 + 1e-8 and hole.min() >= 0.3 - 1e-8


def test_npz_on_the_whole_grid(tmp_path):
    """Axes and arrays (n_x, n_y); NaN exactly where `inside` is false; readable without pickle."""
    answer = stand_in.ring_2d()
    grid = answer.grid((21, 31))
    with np.load(write_npz(answer, grid, tmp_path / "a.npz"), allow_pickle=False) as data:
        assert sorted(data.files) == ["inside", "u", "x", "y"]
        assert data["u"].shape == data["inside"].shape == (21, 31)
        assert np.array_equal(np.isnan(data["u"]), ~data["inside"])
        assert 0 < data["inside"].sum() < 21 * 31
        k, m = 15, 15  # x = 0.5, y = 0
        assert data["x"][k] == 0.5 and abs(data["y"][m]) < 1e-15
        with torch.no_grad():
            here = answer.solution(torch.tensor([[0.5, 0.0]], dtype=torch.float64)).item()
        assert math.isclose(data["u"][k, m], here, rel_tol=1e-6)


def test_npz_with_awkward_names(tmp_path):
    """A channel called `file` and one called `inside` are stored; np.savez could not take the first."""
    answer = stand_in.flow_2d()
    object.__setattr__(answer.problem.space.frame, "channels", ("file", "inside"))
    answer.problem.exact = None
    with np.load(write_npz(answer, answer.grid((3, 3)), tmp_path / "a.npz"), allow_pickle=False) as data:
        assert sorted(data.files) == ["file", "inside", "inside_", "x", "y"]
        assert data["inside_"].all() and np.allclose(data["file"][:, 0], [-1, 0, 1], atol=1e-9)


def test_vti_of_a_box(tmp_path):
    """ImageData runs through x fastest: value i + 3 j belongs to (x_i, y_j). Here u = x and v = -y."""
    answer = stand_in.flow_2d()
    (path,) = write_vtk_files(answer, answer.grid((3, 5)), tmp_path)
    assert path.name == "solution.vti"
    root, arrays = read_vtk(path)
    image = root.find("ImageData")
    assert image is not None
    assert image.get("WholeExtent") == "0 2 0 4 0 0"
    assert image.get("Origin") == "-1 -1 0" and image.get("Spacing") == "1 0.5 1"
    assert np.allclose(arrays["u"], np.tile([-1, 0, 1], 5), atol=1e-9)
    assert np.allclose(arrays["v"], -np.repeat([-1, -0.5, 0, 0.5, 1], 3), atol=1e-9)
    assert np.array_equal(arrays["w"], np.stack([arrays["u"], arrays["v"], np.zeros(15)], axis=1))
    assert np.array_equal(arrays["error_u"], np.abs(arrays["u"] - arrays["exact_u"]))


@pytest.mark.parametrize(("make", "counts", "corners"), [("ring_2d", (41, 41), 4), ("potential_3d", (11, 11, 11), 8)])
def test_vtu_has_only_cells_inside(tmp_path, make, counts, corners):
    """Every cell is a small square or cube of the grid, right way round, with all corners inside; the volume is right.

    The area between the circles is 0.91 pi, that of the cube without the ball 1 - pi / 48; cells along the edge are
    left out, so less is written, but not much less.
    """
    answer = stand_in.ALL[make]()
    (path,) = write_vtk_files(answer, answer.grid(counts), tmp_path)
    assert path.name == "solution.vtu"
    _, arrays = read_vtk(path)
    points, name = arrays["Points"], answer.problem.space.channels[0]
    cells = arrays["connectivity"].reshape(-1, corners)
    assert np.array_equal(arrays["offsets"], corners * np.arange(1, len(cells) + 1))
    assert set(arrays["types"]) == {9 if corners == 4 else 12}
    dimension = len(counts)
    assert answer.problem.domain.contains(torch.tensor(points[:, :dimension]), margin=-1e-8).all()
    assert np.isfinite(arrays[name]).all() and len(arrays[name]) == len(points)
    first, second, fourth = (points[cells[:, 1]] - points[cells[:, 0]]), points[cells[:, 2]], points[cells[:, 3]]
    area = np.cross(first, fourth - points[cells[:, 0]])[:, 2]
    assert (area > 0).all() and np.allclose(second, points[cells[:, 1]] + fourth - points[cells[:, 0]])
    if corners == 8:
        up = points[cells[:, 4:]] - points[cells[:, :4]]
        assert np.allclose(up[..., :2], 0) and np.allclose(up[..., 2], 0.1)
        area = 0.1 * area
    whole = 0.91 * math.pi if corners == 4 else 1 - math.pi / 48
    assert 0.8 * whole < area.sum() < whole
    with torch.no_grad():
        again = answer.solution(torch.tensor(points[:, :dimension]))[:, 0].numpy()
    assert np.allclose(arrays[name], again, rtol=1e-9, atol=1e-11)


def test_time_series(tmp_path):
    """Two space coordinates and time: a collection names one file per time; u decays like exp(-0.1 pi^2 t)."""
    answer = stand_in.heat_2d()
    paths = write_vtk_files(answer, answer.grid((5, 5, 3)), tmp_path)
    assert [p.relative_to(tmp_path).as_posix() for p in paths] == ["solution.pvd"] + [
        f"solution/000{k}.vti" for k in range(3)
    ]
    entries = ElementTree.parse(paths[0]).getroot().findall("Collection/DataSet")
    assert [float(e.get("timestep", "")) for e in entries] == [0.0, 0.5, 1.0]
    for entry in entries:
        root, arrays = read_vtk(tmp_path / entry.get("file", ""))
        time = float(entry.get("timestep", ""))
        assert root.findtext(".//FieldData/DataArray") == f"{time:.17g}"
        assert abs(arrays["u"].reshape(5, 5)[2, 2] - math.exp(-0.1 * math.pi**2 * time)) < 1e-4


def test_vtk_reads_it(tmp_path):
    """VTK itself finds the points and values (only where it is installed)."""
    vtk = pytest.importorskip("vtk")
    from vtk.util.numpy_support import vtk_to_numpy

    answer = stand_in.ring_2d()
    grid = answer.grid((41, 41))
    (path,) = write_vtk_files(answer, grid, tmp_path)
    reader = vtk.vtkXMLUnstructuredGridReader()
    reader.SetFileName(str(path))
    reader.Update()
    _, arrays = read_vtk(path)
    assert np.array_equal(vtk_to_numpy(reader.GetOutput().GetPointData().GetArray("u")), arrays["u"])
    assert reader.GetOutput().GetNumberOfCells() == len(arrays["types"])


def test_grids_are_bounded():
    """1D 1001 points; 2D 101 each; 3D 41 each; 2D and time 41 x 41 x 21; more coordinates never above 70 000."""
    assert grid_counts(stand_in.wave_1d()) == (1001,)
    assert grid_counts(stand_in.advection_1d()) == (101, 101)
    assert grid_counts(stand_in.heat_2d()) == (41, 41, 21)
    assert grid_counts(stand_in.potential_3d()) == (41, 41, 41)
    for names in ("a b c d", "x y z t", "a b c d e f", "a b c d e f g t"):
        answer = stand_in.wave_1d()
        answer.problem.space = stand_in.cnf.Space(names, "u")
        counts = grid_counts(answer)
        assert len(counts) == len(names.split()) and math.prod(counts) <= 70_000


def test_summary_is_strict_json():
    """What is NaN or infinite is null; the numbers are those of the certificate."""
    answer = stand_in.poisson_2d()

    def refuse(text: str) -> None:
        raise AssertionError(text)

    summary = json.loads(summary_text(answer), parse_constant=refuse)
    assert summary["exact"] is True and summary["rank"] == answer.certificate.rank
    pde, edge = summary["equations"]
    assert pde["relative_residual"] == answer.certificate.residuals["pde"].relative
    assert pde["held_out_relative_residual"] == 1e-6 and edge["held_out_relative_residual"] is None
    assert summary["tuning"]["trials"][-1]["loss"] is None
    assert summary["tuning"]["best"]["settings"] == answer.tuning.best.settings
    assert summary["errors"] == {"u": 1.25e-8} and summary["seed"] == 0


def test_exact_of_some_channels_only():
    """A channel without exact solution has no exact column."""
    answer = stand_in.flow_2d()
    grid = answer.grid((3, 3))
    grid.exact[:, 1] = math.nan
    assert list(export_columns(answer, grid)) == ["u", "v", "exact_u"]
