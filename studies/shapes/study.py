"""Shapes, the study: meshes of a public collection, sampled, reconstructed by every method, and measured.

In come names of shapes and methods; out go rows of a CSV file and the meshes. One case is one method on one shape: it
runs in a process of its own (`methods.py`, or `peers.py` in an interpreter that has the other packages), so that its
memory is its own, and is measured here. Finished rows are kept, so a study that was stopped goes on where it was.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cnf.errors import CnfError, FileError, nearest
from cnf.shapes.clouds.mesh import Mesh
from studies.shapes import methods as own_methods
from studies.shapes import peers as peer_methods
from studies.shapes.measures import compare, sample_oriented
from studies.shapes.rows import NUMBERS, Row, Setting, read_rows, write_rows


@dataclass(frozen=True)
class Shape:
    """A public model: its file in the folder of meshes, and how to look at it."""

    file: str
    up: str = "y"  # the axis that points upward
    turn: float = 0.0  # degrees about that axis, to see its face


SHAPES = {
    "spot": Shape("spot.obj", turn=180),
    "max-planck": Shape("max-planck_13k.obj", turn=180),
    "horse": Shape("horse.ply", up="z", turn=110),
    "nefertiti": Shape("nefertiti.obj", up="z"),
    "bunny": Shape("stanford-bunny.obj"),
    "armadillo": Shape("armadillo.obj"),
}
PAPER_SHAPES = ("spot", "max-planck", "horse", "nefertiti")  # the others took no part in choosing our defaults
PEERS = tuple(peer_methods.PEERS)
METHODS = (*own_methods.METHODS, *PEERS)
ROOT = Path(__file__).resolve().parents[2]  # of the checkout, where `studies` is found from
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(frozen=True)
class Method:
    """How a method is started: the command that `METHOD-NAME INPUT OUTPUT --threads ...` is added to."""

    name: str
    command: tuple[str, ...]


Report = Callable[[Row, bool], None]  # a row, and whether it was there from an earlier run


# ---- shapes


def find_folder(data: Path | None = None) -> Path:
    """The folder of meshes: `data`/mesh, by default of the environment variable CNF_DATA."""
    named = "--data" if data is not None else "CNF_DATA"
    given = data if data is not None else Path(os.environ["CNF_DATA"]) if os.environ.get("CNF_DATA") else None
    advice = f"a folder with mesh/{SHAPES['spot'].file}, mesh/{SHAPES['horse'].file} and so on"
    if given is None:
        raise FileError(f"cnf brings no shapes: set the environment variable CNF_DATA (or --data) to {advice}")
    folder = given / "mesh"
    if not folder.is_dir():
        raise FileError(f"there is no folder {folder}; set {named} to {advice}")
    return folder


def check_names(names: Sequence[str]) -> None:
    """Refuse shapes that are not known."""
    for name in names:
        if name not in SHAPES:
            raise CnfError(f"there is no shape {name!r}; choose from {', '.join(SHAPES)}.{nearest(name, SHAPES)}")


def read_shape(name: str, folder: Path) -> Mesh:
    """A shape by name: vertices welded, faces turned outward, the box around it centred, its longest side [-1, 1]."""
    from cnf.shapes.files.reading import read_mesh

    check_names([name])
    path = folder / SHAPES[name].file
    if not path.is_file():
        raise FileError(f"there is no file {path} for the shape {name!r}; put it there or leave the shape out")
    return fit_to_cube(read_mesh(path).weld())


def fit_to_cube(mesh: Mesh) -> Mesh:
    """Moved and scaled so that the box around it is centred and its longest side is [-1, 1]; faces look outward."""
    lower, upper = mesh.bounds
    half = float((upper - lower).max()) / 2
    if not half > 0:
        raise CnfError(f"{mesh!r} has no size; it cannot be scaled")
    faces = mesh.faces[:, ::-1] if mesh.volume < 0 else mesh.faces  # horse.ply is inside out
    return Mesh((mesh.vertices - (lower + upper) / 2) / half, faces)


# ---- methods


def find_methods(names: Sequence[str], peers_python: Path | None = None) -> tuple[list[Method], dict[str, str]]:
    """The methods that can be started, and for the others why not."""
    for name in names:
        if name not in METHODS:
            raise CnfError(f"there is no method {name!r}; choose from {', '.join(METHODS)}.{nearest(name, METHODS)}")
    interpreter = str(peers_python) if peers_python is not None else sys.executable
    available = _list_peers(peers_python) if any(name in PEERS for name in names) else []
    found, missing = [], {}
    for name in names:
        if name in own_methods.METHODS:
            found.append(Method(name, (sys.executable, "-m", own_methods.__name__)))
        elif name in available:
            found.append(Method(name, (interpreter, str(Path(peer_methods.__file__).resolve()))))
        else:
            package = peer_methods.PEERS[name][0]
            where = "that interpreter" if peers_python is not None else "this one"
            missing[name] = f"{package} is not in {where}; name an interpreter that has it: --peers-python PATH"
    return found, missing


def _list_peers(interpreter: Path | None) -> list[str]:
    """What an interpreter can run; an interpreter that cannot be started is an error, a missing package is not."""
    if interpreter is None:
        return peer_methods.find_peers()
    command = [str(interpreter), str(Path(peer_methods.__file__).resolve()), "--list"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = getattr(error, "strerror", None) or "it does not answer"
        raise CnfError(f"--peers-python {interpreter} cannot be started: {reason}; give a Python with numpy") from None
    if done.returncode != 0:
        reason = last_line(done.stderr) or f"exit code {done.returncode}"
        raise CnfError(f"--peers-python {interpreter} cannot run the other methods: {reason}; give a Python with numpy")
    return done.stdout.split()


# ---- cases


def run_case(
    shape: str, truth: Mesh, method: Method, setting: Setting, timeout: float = 1800
) -> tuple[Row, Mesh | None]:
    """One method on one shape, in its own process; whatever goes wrong there becomes the note of the row."""
    points, normals = sample_oriented(truth, setting.points, setting.seed)
    with tempfile.TemporaryDirectory(prefix="cnf-study-") as folder:
        given, made = Path(folder) / "cloud.npz", Path(folder) / "mesh.npz"
        np.savez(given, points=points, normals=normals)
        command = [*method.command, method.name, str(given), str(made)]
        command += ["--threads", str(setting.threads), "--resolution", str(setting.resolution)]
        try:
            done = subprocess.run(
                command,
                env=child_environment(setting.threads),
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Row(shape, method.name, setting, note=f"stopped after {timeout:g} s"), None
        except OSError as error:
            return Row(shape, method.name, setting, note=f"failed: {error.strerror or error}"), None
        if done.returncode < 0:
            return Row(shape, method.name, setting, note=f"failed: ended by signal {-done.returncode}"), None
        if done.returncode > 0:
            reason = last_line(done.stderr) or f"exit code {done.returncode}"
            return Row(shape, method.name, setting, note=f"failed: {reason}"), None
        try:
            with np.load(made, allow_pickle=False) as content:
                mesh = Mesh(content["vertices"], content["faces"])
                report = json.loads(str(content["report"]))
            measures = compare(mesh, truth, points, normals, samples=setting.samples, seed=setting.seed + 1)
        except (OSError, ValueError, KeyError, CnfError) as error:
            return Row(shape, method.name, setting, note=f"failed: no mesh to measure ({last_line(str(error))})"), None
    how = str(report.pop("setting", ""))
    known = {name: report.get(name) for name in NUMBERS}
    return Row(shape, method.name, setting, **known, measures=measures, how=how), mesh


def child_environment(threads: int) -> dict[str, str]:
    """What a process of its own is started with: so many threads, and this checkout to import from."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, **dict.fromkeys(THREADS, str(threads)), "PYTHONPATH": path}


def run_study(
    shapes: Iterable[tuple[str, Mesh]],
    methods: Sequence[Method],
    setting: Setting,
    folder: Path,
    *,
    timeout: float = 1800,
    report: Report | None = None,
) -> list[Row]:
    """Every method on every shape, `shapes.csv` and the mesh written after each; finished ones are not run again."""
    table = folder / "shapes.csv"
    kept = {row.key: row for row in read_rows(table)} if table.exists() else {}
    rows: list[Row] = []
    for shape, truth in shapes:
        for method in methods:
            key = (shape, method.name, setting)
            known = key in kept and kept[key].finished
            if not known:
                kept[key], mesh = run_case(shape, truth, method, setting, timeout)
                if mesh is not None:
                    write_mesh_of(mesh, mesh_path(folder, kept[key]))
                write_rows(list(kept.values()), table)
            rows.append(kept[key])
            if report is not None:
                report(kept[key], known)
    return rows


def mesh_path(folder: Path, row: Row) -> Path:
    """Where the mesh of a row is kept."""
    s = row.setting
    return folder / "meshes" / f"{row.shape}_{row.method}_{s.points}_{s.resolution}_{s.seed}.ply"


def write_mesh_of(mesh: Mesh, path: Path) -> None:
    """Keep a mesh for pictures and for whoever wants to look at it."""
    from cnf.shapes.files.writing import write_mesh

    write_mesh(mesh, path)


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
