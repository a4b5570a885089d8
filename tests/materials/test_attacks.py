"""Hostile or unlucky input: files changed between runs, mixed, damaged, edited by hand, values out of all bounds."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cnf.cli.main import run
from cnf.errors import CnfError, ConstraintError, FileError
from cnf.materials.commands import single as commands
from cnf.materials.fitting import measuring
from cnf.materials.fitting.fit import Fit, Settings, fit_material
from cnf.materials.fitting.folders import Source, load_fit, save_fit
from cnf.materials.reflectance import GGX, read_material
from cnf.materials.rendering import environments
from cnf.materials.rendering.environments import Environment
from cnf.materials.rendering.stage import Stage

TINY = Settings(samples=1000, epochs=1, batch=500, conditions=10, parameters=1000)
GOLD = GGX("gold", 0.2)
LAMPS = Environment(torch.rand(16, 32, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))


def hasten(patch: pytest.MonkeyPatch) -> None:
    """Fewer held-out samples, no timing, a small map instead of the studio and a coarse quadrature."""
    whole = Stage.of
    patch.setattr(measuring, "HELD_OUT", 500)
    patch.setattr(measuring, "time_inference", lambda fitted: 1.0)
    patch.setattr(environments, "studio", lambda: LAMPS)
    patch.setattr(Stage, "of", staticmethod(lambda reference, lamps, size: whole(reference, lamps, size, 8)))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch):
    hasten(monkeypatch)
    yield
    torch.set_num_threads(1)


def write_list(path: Path, level: float, count: int = 40) -> Path:
    """Scattered measurements, all of one value."""
    rows = np.random.default_rng(0).uniform(0.05, 0.7, (count, 3))
    lines = [",".join(f"{v:.9g}" for v in [*row, level, level, level]) for row in rows]
    path.write_text("\n".join(["theta_h,theta_d,phi_d,r,g,b", *lines]))
    return path


def change_bytes(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(change(path.read_bytes()))

    return write


def change_fields(**fields: object) -> Callable[[Path], None]:
    return change_bytes(lambda text: json.dumps({**json.loads(text), **fields}).encode())


# ---- values and settings out of bounds


def test_values_that_no_prediction_reaches_are_refused(tmp_path: Path):
    """Predictions end at exp(30) = 1.07e13: 1e14 could never be met and is refused in one line; 1e12 is taken."""
    with pytest.raises(ConstraintError, match=r"list is not finite, or above 1e\+13") as caught:
        fit_material(read_material(write_list(tmp_path / "list.csv", 1e14)), "nbrdf", TINY)
    assert "\n" not in str(caught.value)
    fit = fit_material(read_material(write_list(tmp_path / "list.csv", 1e12)), "kernel-siren", TINY)
    assert fit.conditions.logs.max() == pytest.approx(math.log(1e12), rel=1e-9)


@pytest.mark.parametrize("rate", [1e300, 11.0, 0.0, -1.0, math.inf, math.nan])
def test_learning_rates_out_of_bounds(rate: float):
    with pytest.raises(CnfError, match="the learning rate is a number above 0, up to 10; got"):
        Settings(rate=rate)


def test_the_highest_learning_rate():
    assert Settings(rate=10.0).rate == 10.0


# ---- fits edited by hand


@pytest.fixture(scope="module")
def exact() -> Fit:
    return fit_material(GOLD, "kernel-siren", TINY)


FIELDS: dict[str, Callable[[Path], None]] = {
    "name that leads elsewhere": change_fields(name="../x"),
    "name of a folder": change_fields(name="a/b"),
    "hidden name": change_fields(name=".x"),
    "name a number": change_fields(name=3),
    "endless parameters": change_fields(parameters=math.inf),
    "deep": change_bytes(lambda text: b"[" * 200_000),
    "deep inside": change_bytes(lambda text: text.replace(b'"source": ', b'"source": ' + b'{"a":' * 200_000)),
    "no checksum": change_bytes(lambda text: text.replace(b'"model"', b'"other"')),
}


@pytest.mark.parametrize("damage", FIELDS)
def test_an_edited_summary_is_refused(damage: str, exact: Fit, tmp_path: Path):
    """A FileError of one line, whatever was written into fit.json."""
    save_fit(exact, tmp_path, Source("ggx:gold:0.2"), {})
    assert load_fit(tmp_path).fit.name == GOLD.name
    FIELDS[damage](tmp_path / "fit.json")
    with pytest.raises(FileError, match="damaged or of another version") as caught:
        load_fit(tmp_path)
    assert "\n" not in str(caught.value)


def test_the_model_of_another_fit_is_refused(exact: Fit, tmp_path: Path):
    """Same method, same size, another seed: only its content tells that it is not the one of this summary."""
    other = fit_material(GOLD, "kernel-siren", replace(TINY, seed=1))
    assert other.parameters == exact.parameters
    save_fit(exact, tmp_path / "a", Source("ggx:gold:0.2"), {})
    save_fit(other, tmp_path / "b", Source("ggx:gold:0.2"), {})
    shutil.copy(tmp_path / "b" / "model.pt", tmp_path / "a" / "model.pt")
    with pytest.raises(FileError, match="files of two fits are mixed"):
        load_fit(tmp_path / "a")


# ---- the command


def test_an_interrupted_fit_does_not_replace_a_finished_one(quick, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Ctrl-C in a second fit into the folder: all files of the first are as they were, the second has its own place."""
    budget = ["--samples", "1000", "--epochs", "1", "--batch", "500", "--parameters", "1000", "--size", "16"]
    command = ["material", "fit", "ggx:gold:0.2", "--out", str(tmp_path), "--no-picture", *budget]
    assert run(command) == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "show_step", interrupt)
    assert run([*command, "--seed", "1"]) == 130
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before
    reached = load_fit(tmp_path / "interrupted").fit
    assert (reached.course.stopped, reached.settings.seed) == ("interrupted", 1)
    assert load_fit(tmp_path).fit.course.stopped != "interrupted"


def test_losses_that_are_all_zero(quick, tmp_path: Path, capsys: pytest.CaptureFixture):
    """Measurements of zero, which a kernel interpolates by zero: pictures without a curve, as log 0 is nowhere."""
    fit = fit_material(read_material(write_list(tmp_path / "list.csv", 0.0)), "kernel-siren", TINY)
    assert fit.course.loss and not any(fit.course.loss)
    stage = Stage.of(GOLD, LAMPS, 16)
    commands.finish_fit(fit, stage, tmp_path / "a", Source(str(tmp_path / "list.csv")), picture=True)
    assert "the 10 measurements are exact" in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "a").glob("*.png")) == ["lobes.png", "render.png"]


def test_a_file_name_that_looks_like_a_formula(tmp_path: Path):
    """a$^{$b.binary, a constant of 0.5: its label is drawn as text and not set as a broken formula."""
    from cnf.materials.report.pictures import Panel, draw_comparison

    path = tmp_path / "a$^{$b.binary"
    stored = np.repeat(0.5 / np.array([1 / 1500, 1.15 / 1500, 1.66 / 1500]), 90 * 90 * 180)
    path.write_bytes(np.array([90, 90, 180], "<i4").tobytes() + stored.astype("<f8").tobytes())
    material = read_material(path)
    assert torch.allclose(material(torch.tensor([[0.1, 0.2, 0.3]])), torch.tensor(0.5), rtol=1e-6)
    image = torch.full((10, 10, 3), 0.5, dtype=torch.float64)
    drawn = draw_comparison([(material.label, [Panel("Reference", image), Panel("SIREN", image)])], tmp_path / "a.png")
    assert drawn.read_bytes().startswith(b"\x89PNG")
