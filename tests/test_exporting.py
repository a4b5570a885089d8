"""`cnf export`: what it writes is read by other programs, which give the values of the field."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

import cnf
from cnf.cli.main import run
from cnf.errors import CnfError
from cnf.exporting import write_model, write_sample
from cnf.reports.results import publish
from cnf.reports.vtk import write_vtk

SPACE = cnf.Space("x y", "u v")
POINTS = torch.from_numpy(np.random.default_rng(0).random((20, 2)) * [1.0, 2.0])


def make_field() -> cnf.ConstrainedField:
    conditions = [
        SPACE.constraint("u", at=POINTS, equals=lambda x: x[:, 0].sin(), name="u"),
        SPACE.constraint("v", at=POINTS, equals=lambda x: x[:, 1].cos(), name="v"),
    ]
    return cnf.ConstrainedField(cnf.bases.RandomFourier(SPACE, 64, 0.7), conditions).eval()


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> tuple[cnf.ConstrainedField, Path]:
    field, path = make_field(), tmp_path_factory.mktemp("exporting") / "solution.pt"
    field.save(path)
    return field, path


def ask(count: int) -> torch.Tensor:
    return POINTS.new_tensor(np.random.default_rng(count).random((count, 2)))


@pytest.mark.parametrize(("to", "load"), [("torchscript", torch.jit.load), ("pt2", torch.export.load)])
def test_models_of_torch(saved, tmp_path, to: str, load):
    """Read back by torch alone, for any number of points, in the precision of the field."""
    field, path = saved
    target = tmp_path / "model.pt2"
    assert run(["export", str(path), "--to", to, "--out", str(target)]) == 0
    found = load(target)
    model = found.module() if to == "pt2" else found
    for count in (1, 3, 50):
        assert (model(ask(count)) - field(ask(count))).abs().max() <= 1e-12


@pytest.mark.parametrize("basis", ["waves", "kernel", "networks"])
def test_onnx(tmp_path, basis: str):
    """Run by onnxruntime, in single precision: within its rounding of the field, which is about 1e-6 of its sums."""
    runtime = pytest.importorskip("onnxruntime", reason="onnx, onnxscript and onnxruntime are not installed")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    torch.manual_seed(0)
    chosen = {
        "waves": lambda: cnf.bases.RandomFourier(SPACE, 64, 0.7),
        "kernel": lambda: cnf.bases.Kernel(SPACE, POINTS, cnf.kernels.Matern(2.5, 0.3)),
        "networks": lambda: cnf.bases.Hypernet(SPACE, cnf.encoders.SIREN(2, 1, hidden=(12,), omega=4.0), 40),
    }[basis]()
    conditions = [SPACE.constraint(c, at=POINTS, equals=0.5, name=c) for c in SPACE.channels]
    field = cnf.ConstrainedField(chosen, conditions).eval()
    target = write_model(field.solution, tmp_path / "model.onnx", "onnx")
    session = runtime.InferenceSession(target)
    (given,), (values,) = session.get_inputs(), session.get_outputs()
    assert (given.name, values.name) == ("points", "values")
    size = 1 + float(field.solution.weights.abs().sum()) if basis != "kernel" else 10.0
    for count in (1, 3, 50):
        (found,) = session.run(None, {"points": ask(count).float().numpy()})
        assert np.abs(found - field(ask(count).float().double()).detach().numpy()).max() <= 1e-6 * size


def test_arrays(saved, tmp_path):
    """The axes and every channel on the grid that the conditions span."""
    field, path = saved
    assert run(["export", str(path), "--to", "npz", "--points", "9", "-o", str(tmp_path / "grid.npz")]) == 0
    with np.load(tmp_path / "grid.npz") as arrays:
        x, y = np.meshgrid(arrays["x"], arrays["y"], indexing="ij")
        want = field(torch.from_numpy(np.stack([x.ravel(), y.ravel()], axis=1))).detach().numpy()
        assert arrays["x"][[0, -1]] == pytest.approx([float(POINTS[:, 0].min()), float(POINTS[:, 0].max())])
        for k, name in enumerate("uv"):
            assert np.abs(arrays[name].ravel() - want[:, k]).max() <= 1e-12


def test_vtk(saved, tmp_path):
    """The same numbers as the writer of grids makes of values from elsewhere: NumPy's meshgrid and the field."""
    field, path = saved
    assert run(["export", str(path), "--to", "vtk", "--points", "5", "-o", str(tmp_path / "grid.vti")]) == 0
    axes = [np.linspace(float(c.min()), float(c.max()), 5) for c in POINTS.T]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    values = field(torch.from_numpy(grid)).detach().numpy().reshape(5, 5, 2)
    write_vtk(tmp_path / "want", axes, np.ones((5, 5), dtype=bool), {"u": values[..., 0], "v": values[..., 1]})
    assert (tmp_path / "grid.vti").read_bytes() == (tmp_path / "want.vti").read_bytes()


def test_gltf(saved, tmp_path):
    """A plane field as triangles with a number per channel at every corner, in a folder of results too."""
    field, path = saved
    assert run(["export", str(path.parent), "--to", "gltf", "--points", "4", "-o", str(tmp_path / "field.glb")]) == 0
    content = (tmp_path / "field.glb").read_bytes()
    length = struct.unpack("<I", content[12:16])[0]
    scene = json.loads(content[20 : 20 + length])
    attributes = scene["meshes"][0]["primitives"][0]["attributes"]
    assert {"POSITION", "COLOR_0", "_u", "_v"} <= set(attributes)
    view = scene["bufferViews"][attributes["_u"]]
    start = 28 + length + view["byteOffset"]
    found = np.frombuffer(content[start : start + view["byteLength"]], "<f4")
    axes = [np.linspace(float(c.min()), float(c.max()), 4) for c in POINTS.T]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    assert np.abs(found - field(torch.from_numpy(grid)).detach().numpy()[:, 0]).max() <= 1e-6


def test_meshes(tmp_path):
    """The mesh of a reconstruction as glTF and as arrays; as a model it is refused."""
    mesh = tmp_path / "mesh.obj"
    mesh.write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    assert run(["export", str(mesh), "--to", "npz"]) == 0
    with np.load(tmp_path / "mesh.npz") as arrays:
        assert arrays["faces"].tolist() == [[0, 1, 2]] and arrays["points"][1].tolist() == [1, 0, 0]
    assert run(["export", str(mesh), "--to", "gltf"]) == 0 and (tmp_path / "mesh.glb").stat().st_size > 100
    assert run(["export", str(mesh), "--to", "onnx"]) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--to", "pdf"], "--to is one of onnx"),
        (["--to", "npz", "--precision", "float32"], "--precision is"),
        (["--to", "onnx", "--points", "4"], "--points is of a grid"),
        (["--to", "gltf", "-o", "picture.gltf"], "end in .glb"),
        (["--to", "vtk", "-o", "grid.VTI"], "end in .vti"),
        (["--to", "torchscript"], "would replace the field itself"),
    ],
)
def test_mistakes(saved, tmp_path, monkeypatch, capsys, arguments: list[str], said: str):
    """One line each, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    assert run(["export", str(saved[1]), *arguments]) == 1
    assert said in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_the_command_says_how_far_off_a_model_is(tmp_path, capsys):
    """In single precision, by what was measured: a note if that is much, and the last line in any case."""
    space, points = cnf.Space("x", "u"), torch.linspace(0, 1, 9, dtype=torch.float64)[:, None]
    condition = space.constraint("u", at=points, equals=lambda x: (3 * x[:, 0]).sin())
    source, target = tmp_path / "solution.pt", tmp_path / "model.pt"
    cnf.ConstrainedField(cnf.bases.Kernel(space, points, cnf.kernels.Gaussian(0.8)), [condition]).eval().save(source)
    for precision, noted in (("float32", True), ("float64", False)):
        asked = ["export", str(source), "--to", "torchscript", "-o", str(target), "--precision", precision]
        assert run(asked) == 0
        told = capsys.readouterr()
        off = float((torch.jit.load(target)(points).double() - (3 * points).sin()).abs().max())
        said = float(told.out.split("; measured ")[1].split(" off the field")[0])
        assert (off > 1e-3) == noted and ("note: in torch.float32 the module is" in told.err) == noted
        assert not noted or off <= 1.1 * said <= 20 * off
        assert noted or said <= 1e-8


def folder_of_a_run(folder: Path) -> tuple[Path, dict[str, bytes]]:
    """What `cnf solve` leaves: a field, its arrays, files in a folder of their own; and all bytes."""
    with publish(folder / "run", "answer") as results:
        make_field().save(results.folder / "solution.pt")
        (results.folder / "solution.npz").write_bytes(b"arrays of the run")
        (results.folder / "solution").mkdir()
        (results.folder / "solution" / "0000.vti").write_bytes(b"grid of the run")
    return folder / "run", bytes_in(folder / "run")


def bytes_in(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize(
    "spelling", ["{run}/../run/solution.pt", "run/solution.pt", "link.pt", "elsewhere/solution.pt"]
)
@pytest.mark.parametrize("given", ["{run}", "{run}/solution.pt"])
def test_the_field_is_not_replaced(tmp_path, monkeypatch, capsys, spelling: str, given: str):
    """However --out spells it: by dots, relative, through links to the file and to its folder."""
    run_folder, before = folder_of_a_run(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.pt").symlink_to(run_folder / "solution.pt")
    (tmp_path / "elsewhere").symlink_to(run_folder)
    source, out = given.format(run=run_folder), spelling.format(run=run_folder)
    assert run(["export", source, "--to", "torchscript", "--out", out]) == 1
    assert "would replace the field itself" in capsys.readouterr().err
    assert bytes_in(run_folder) == before and (tmp_path / "link.pt").is_symlink()


@pytest.mark.parametrize("name", ["solution.npz", "solution/0000.vti", "run.json", "solution/../solution.npz"])
def test_files_of_a_run_are_not_replaced(saved, tmp_path, capsys, name: str):
    """Neither by an export of this run's field nor by that of another."""
    run_folder, before = folder_of_a_run(tmp_path)
    for source in (run_folder, saved[1]):
        to = "vtk" if name.endswith("vti") else "npz"
        assert run(["export", str(source), "--to", to, "--points", "3", "-o", str(run_folder / name)]) == 1
        assert "belongs to the results of a run" in capsys.readouterr().err
    assert bytes_in(run_folder) == before


def test_another_name_beside_files_of_a_run(tmp_path):
    """Without --out the arrays of the run stay, and so does everything else; again, the export replaces itself."""
    run_folder, before = folder_of_a_run(tmp_path)
    for count in (3, 4):
        assert run(["export", str(run_folder), "--to", "npz", "--points", str(count)]) == 0
        after = bytes_in(run_folder)
        with np.load(run_folder / "field.npz") as arrays:
            assert arrays["u"].shape == (count, count)
        del after["field.npz"]
        assert after == before


def test_files_of_a_surface_are_not_replaced(tmp_path, capsys):
    """A reconstruction has its records beside the mesh; and no grid, so that --points says nothing of it."""
    mesh, page = tmp_path / "mesh.obj", tmp_path / "mesh.html"
    mesh.write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    page.write_text("page")
    (tmp_path / "mesh.json").write_text(json.dumps({"run": {"files": {"mesh.obj": "1", "mesh.html": "2"}}}))
    before = bytes_in(tmp_path)
    for file in (page, tmp_path / "mesh.json"):
        assert run(["export", str(mesh), "--to", "npz", "-o", str(file)]) == 1
        assert "belongs to the results of a run" in capsys.readouterr().err
    assert run(["export", str(mesh), "--to", "npz", "--points", "3"]) == 1
    assert "--points is of the grid of a field" in capsys.readouterr().err
    assert bytes_in(tmp_path) == before


def test_samples_say_what_they_hold(saved, tmp_path):
    with pytest.raises(CnfError, match="npz, vtk or gltf"):
        write_sample(saved[0].solution, tmp_path / "x", "stl")
    with pytest.raises(CnfError, match="onnx, torchscript, pt2"):
        write_model(saved[0].solution, tmp_path / "x", "tflite")
