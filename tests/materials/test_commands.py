"""`cnf material` as it is typed: what it writes, what it says, and how it refuses."""

from __future__ import annotations

import csv
import functools
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from cnf.cli.main import run
from cnf.materials.commands import single as commands
from cnf.materials.fitting import fit as fitting
from cnf.materials.fitting.folders import load_fit
from cnf.materials.fitting.methods import METHODS
from cnf.materials.reflectance import checksums, read_material
from cnf.materials.rendering.environment_files import read_radiance
from cnf.materials.report import outcome
from tests.materials.small import (
    GOLD,
    SMALL,
    check_refusal,
    is_picture,
    know,
    measure_little,
    pack_networks,
    write_table,
)

refused = functools.partial(check_refusal, run)


@pytest.fixture(scope="module", autouse=True)
def one_light():
    with pytest.MonkeyPatch.context() as patch:
        measure_little(patch)
        yield


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    return pack_networks(tmp_path)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fit with all its files; tests read it, none changes it."""
    folder = tmp_path_factory.mktemp("fits") / "gold"
    assert run(["material", "fit", GOLD, "--out", str(folder), *SMALL]) == 0
    return folder


# ---- fit


def test_fit_writes_all_its_files(fitted: Path):
    """Pictures, numbers and the conditions: measured values are those of the material, fitted ones equal to 1e-11."""
    names = "certificate.txt conditions.csv course.csv curve.png fit.json lobes.png model.pt render.png run.json"
    assert sorted(path.name for path in fitted.iterdir()) == names.split()
    assert all(is_picture(fitted / f"{name}.png") for name in ("render", "lobes", "curve"))
    told = json.loads((fitted / "fit.json").read_text())
    assert told["method"] == "kernel-grid" and told["source"] == {"path": GOLD, "name": None}
    assert told["certificate"]["exact"] and told["certificate"]["conditions"] == 60  # 20 in three channels
    assert set(told["numbers"]) >= {"psnr", "ssim", "rmse", "log_error"}
    with (fitted / "conditions.csv").open() as file:
        rows = np.array([[float(value) for value in row.values()] for row in csv.DictReader(file)])
    angles = torch.deg2rad(torch.from_numpy(rows[:, :3]))
    np.testing.assert_allclose(rows[:, 6:9], read_material(GOLD)(angles).numpy(), rtol=1e-11, atol=1e-12)


def test_fit_says_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture):
    """Constrained: certificate, and that the values are exact. Soft: how far it is from them; no certificate.

    Nobody measured a generated material: they are not called measurements.
    """
    assert run(["material", "fit", GOLD, "--out", str(tmp_path), "--no-picture", *SMALL]) == 0
    said = capsys.readouterr().out
    assert "certificate: exact" in said and "the 20 given values are exact" in said and "PSNR" in said
    assert run(["material", "fit", GOLD, "--basis", "nbrdf", "--out", str(tmp_path), "--no-picture", *SMALL]) == 0
    said = capsys.readouterr().out
    assert "certificate" not in said and "no conditions" in said
    assert not (tmp_path / "certificate.txt").exists()  # of the first fit
    assert json.loads((tmp_path / "fit.json").read_text())["method"] == "nbrdf"


def test_interrupted_fit_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch):
    """Ctrl-C in the first step logged: its model is written, exact as any other; exit code 130."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "show_step", interrupt)
    assert run(["material", "fit", GOLD, "--out", str(tmp_path), "--no-picture", *SMALL]) == 130
    assert "interrupted soon after step 1" in capsys.readouterr().out
    told = json.loads((tmp_path / "fit.json").read_text())
    assert told["stopped"] == "interrupted" and told["certificate"]["exact"]
    assert load_fit(tmp_path).fit.certificate.exact


def test_fit_is_kept_if_it_cannot_be_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A second Ctrl-C while the fit is measured: the model is there all the same."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(outcome, "held_out_error", interrupt)
    assert run(["material", "fit", GOLD, "--out", str(tmp_path), *SMALL]) == 130
    assert json.loads((tmp_path / "fit.json").read_text())["numbers"] == {}


def test_conditions_that_do_not_hold(tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch):
    """A tolerance that rounding cannot meet: written, told in one line, exit code 1."""
    monkeypatch.setattr(fitting, "TOLERANCE", {torch.float64: 1e-30})
    refused(capsys, ["material", "fit", GOLD, "--out", str(tmp_path), "--no-picture", *SMALL], "the fit was written")
    told = json.loads((tmp_path / "fit.json").read_text())
    assert not told["certificate"]["exact"]
    assert "NOT EXACT" in (tmp_path / "certificate.txt").read_text()


@pytest.mark.parametrize(
    ("more", "words", "code"),
    [
        (["--basis", "kernal-siren"], "Did you mean 'kernel-siren'", 1),
        (["--name", "chrome"], "--name", 1),
        (["--loss", "l2"], "plain, weighted, cosine", 1),
        (["--sampling", "all"], "sampling", 1),
        (["--placement", "best"], "placement", 1),
        (["--on-nodes", "maybe"], "on_nodes is one of auto, yes, no", 1),
        (["--precision", "float16"], "precision", 1),
        (["--rate", "nan"], "rate", 1),
        (["--env", "nowhere.hdr"], "nowhere.hdr", 1),
        (["--samples", "0"], "--samples", 2),
        (["--size", "4"], "--size", 2),
    ],
)
def test_fit_refuses(tmp_path: Path, capsys: pytest.CaptureFixture, more: list[str], words: str, code: int):
    """Before any work: nothing is written, not even the folder."""
    refused(capsys, ["material", "fit", GOLD, "--out", str(tmp_path / "a"), *SMALL, *more], words, code)
    assert not (tmp_path / "a").exists()


def test_fit_refuses_files(tmp_path: Path, packed: Path, capsys: pytest.CaptureFixture):
    """A file that is not there, an archive without a name, a file as folder, a material without any light."""
    out = ["--out", str(tmp_path / "a"), *SMALL]
    refused(capsys, ["material", "fit", str(tmp_path / "b.npz"), *out], "there is no file")
    refused(capsys, ["material", "fit", str(packed), *out], "--name bright")
    refused(capsys, ["material", "fit", str(packed), "--name", "brigt", *out], "Did you mean 'bright'")
    refused(capsys, ["material", "fit", GOLD, "--out", str(packed), *SMALL], "is a file")
    refused(capsys, ["material", "fit", "lambert:0", *out], "needs light")
    assert not (tmp_path / "a").exists()


def test_help_names_every_method(capsys: pytest.CaptureFixture):
    assert run(["material", "fit", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split()).replace("- ", "-")
    assert all(name in said for name in METHODS)


# ---- render and export


def test_render(fitted: Path, packed: Path, tmp_path: Path, capsys: pytest.CaptureFixture):
    """A fit's folder, one of an archive, words; a longer exposure is brighter, a background fills the corners."""
    from PIL import Image

    def picture(*arguments: str) -> np.ndarray:
        path = tmp_path / "a.png"
        assert run(["material", "render", *arguments, "--size", "24", "-o", str(path)]) == 0
        return np.asarray(Image.open(path)).astype(float)

    dark, bright = (picture(str(fitted), "--exposure", e) for e in ("0.01", "0.02"))
    assert dark.shape == (24, 24, 3) and dark[0, 0].max() == 0 and bright.sum() > 1.1 * dark.sum() > 0
    assert picture(GOLD, "--background")[0, 0].max() > 0
    assert picture(str(packed), "--name", "bright")[12, 12].max() > 0
    assert "bright" in capsys.readouterr().out
    for more, words in [
        (["--backend", "other"], "cnf or mitsuba"),
        (["--samples", "4"], "--samples"),
        (["--exposure", "0"], "--exposure"),
        (["-o", "a.jpg"], ".png"),
        (["--shape", "a.ply"], "--shape"),
        (["--name", "a"], "--name"),
    ]:
        refused(capsys, ["material", "render", str(fitted), *more], words)
    refused(capsys, ["material", "render", str(tmp_path)], "holds no fit")


@pytest.mark.parametrize("ending", ["hdr", "exr"])
def test_render_light(ending: str, tmp_path: Path):
    """Linear light of a grey sphere under light of 1: the albedo itself in the middle, whatever suits a display."""
    np.savez(tmp_path / "white.npz", L=np.ones((8, 16, 3), np.float32))
    out = tmp_path / f"light.{ending}"
    command = ["material", "render", "lambert:0.25", "--env", str(tmp_path / "white.npz"), "--size", "32"]
    assert run([*command, "-o", str(out)]) == 0
    if ending == "hdr":
        found = read_radiance(out)[16, 16]
    else:  # line 16 of 32: number and size, then blue, green and red
        found = np.frombuffer(out.read_bytes()[-16 * (8 + 32 * 12) :], "<f4")[2:98].reshape(3, 32)[:, 16]
    assert found.tolist() == pytest.approx([0.25] * 3, rel=5e-3)


def test_inspect(fitted: Path, capsys: pytest.CaptureFixture):
    """A fit beside its reference, a material alone, and all of it as JSON; the fit's folder keeps the same numbers."""
    assert run(["material", "inspect", str(fitted), "--size", "32"]) == 0
    words = capsys.readouterr().out
    for expected in ("20 conditions", "reference", "albedo for light at 0°", "within 4°", "faces the viewer"):
        assert expected in words
    assert run(["material", "inspect", "lambert:0.5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["albedo"][0] == pytest.approx([0.5] * 3)
    assert run(["material", "inspect", str(fitted), "--size", "32", "--json"]) == 0
    found, kept = json.loads(capsys.readouterr().out), json.loads((fitted / "fit.json").read_text())["inspection"]
    assert found["conditions"]["worst_relative_residual"] <= 1e-10
    assert found["fitted"]["reciprocity_mean"] == pytest.approx(kept["fitted"]["reciprocity_mean"], rel=1e-3)
    assert found["lobe"]["mean"] == pytest.approx(kept["lobe"]["mean"], rel=1e-3)
    refused(capsys, ["material", "inspect", str(fitted), "--name", "a"], "--name")


def test_export(fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture):
    """A constant reflectance of 0.5 / pi is the same in the table; a fit's table has the model's values at nodes."""
    from cnf.materials.fitting.fitted import as_material
    from cnf.materials.reflectance.merl import grid_angles

    out = tmp_path / "a.binary"
    assert run(["material", "export", "lambert:0.5", str(out), "--convention", "centers"]) == 0
    mean, largest = (
        float(number) for number in re.findall(r"(?:mean|largest) (\S+e-\d+)", capsys.readouterr().out)[:2]
    )
    assert mean <= largest < 1e-12
    found = read_material(out)(torch.tensor([[0.1, 0.2, 0.3], [0.5, 0.4, 2.0]], dtype=torch.float64))
    np.testing.assert_allclose(found.numpy(), 0.5 / np.pi, rtol=1e-12)
    assert run(["material", "export", str(fitted), str(out)]) == 0
    said = capsys.readouterr().out
    assert "table against model" in said and "0 of the 20 conditions are entries of the table" in said
    nodes = grid_angles("nodes", slice(180 * 5, 180 * 40))
    model = as_material(load_fit(fitted).fit, torch.float64)
    known = model.valid(nodes)
    np.testing.assert_allclose(read_material(out)(nodes)[known].numpy(), model(nodes)[known].numpy(), rtol=1e-9)
    refused(capsys, ["material", "export", str(out), str(out)], "the input itself")
    refused(capsys, ["material", "export", GOLD, str(tmp_path / "a.merl")], ".binary")
    refused(capsys, ["material", "export", GOLD, str(out), "--convention", "middle"], "nodes or centers")
    refused(capsys, ["material", "export", GOLD, str(tmp_path / "a.bsdf"), "--convention", "nodes"], "--convention")


def test_a_table_goes_in_and_its_measurements_come_out(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    """A file of MERL's, fitted and exported: at the 20 conditions both files have the same numbers.

    float64 holds the units of a file to two roundings; the conditions themselves are asked to hold to 1e-10.
    """
    given, out = write_table(tmp_path / "brass.binary"), tmp_path / "out.binary"
    monkeypatch.setattr(checksums, "list_known", lambda: {"brass": know(given)})
    assert run(["material", "fit", str(given), "--out", str(tmp_path / "fit"), "--no-picture", *SMALL]) == 0
    assert "MERL brass" in capsys.readouterr().out
    assert run(["material", "export", str(tmp_path / "fit"), str(out)]) == 0
    assert "20 of the 20 conditions are entries of the table" in capsys.readouterr().out
    before, after = (np.fromfile(path, "<f8", offset=12).reshape(3, 90, 90, 180) for path in (given, out))
    rows = csv.DictReader((tmp_path / "fit" / "conditions.csv").read_text().splitlines())
    angles = np.array([[float(row[f"{name}_degrees"]) for name in ("theta_h", "theta_d", "phi_d")] for row in rows])
    places = np.stack([90 * np.sqrt(angles[:, 0] / 90), angles[:, 1], angles[:, 2]], axis=1)
    i, j, k = places.round().astype(int).T
    assert np.abs(places - places.round()).max() < 1e-6 and k.max() < 180
    np.testing.assert_allclose(after[:, i, j, k], before[:, i, j, k], rtol=1e-9)
    assert np.abs(after / before - 1).max() > 0.01  # elsewhere the model is a model


def test_export_for_mitsuba(tmp_path: Path, capsys: pytest.CaptureFixture):
    """The `.bsdf` file of a constant reflectance has that constant."""
    assert run(["material", "export", "lambert:0.5", str(tmp_path / "a.bsdf")]) == 0
    found = read_material(tmp_path / "a.bsdf")(torch.tensor([[0.1, 0.2, 0.3], [0.5, 0.4, 2.0]], dtype=torch.float64))
    np.testing.assert_allclose(found.numpy(), 0.5 / np.pi, rtol=1e-3)


# ---- list and check


def test_list(packed: Path, capsys: pytest.CaptureFixture):
    assert run(["material", "list", str(packed)]) == 0
    assert capsys.readouterr().out.split() == ["bright", "dull", "medium"]
    refused(capsys, ["material", "list", "nowhere.npz"], "there is no file")


def test_check(tmp_path: Path, capsys: pytest.CaptureFixture):
    """A file under another name is only not known; one called chrome with other bytes ends with exit code 1."""
    (tmp_path / "mine.binary").write_bytes(b"abc")
    assert run(["material", "check", str(tmp_path)]) == 0
    assert "unknown" in capsys.readouterr().out
    (tmp_path / "chrome.binary").write_bytes(b"abc")
    refused(capsys, ["material", "check", str(tmp_path)], "1 of 2 files")
    refused(capsys, ["material", "check", str(tmp_path / "nowhere")], "there is no file")


def test_compare_says_where_it_is(capsys: pytest.CaptureFixture):
    """What was typed before is answered in one line, whatever its options."""
    command = ["material", "compare", GOLD, "--out", "a", "--methods", "siren"]
    refused(capsys, command, "python -m studies compare-materials")


def test_scattered_measurements_are_not_called_a_reference(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """40 measurements of a grey: between them the picture is an interpolation, and is called so."""
    turns = np.random.default_rng(0).uniform([0, 0, 0], [0.7, 0.7, np.pi], (40, 3))
    rows = [",".join(f"{value:.6f}" for value in (*row, 0.3, 0.3, 0.3)) for row in turns]
    (tmp_path / "grey.csv").write_text("\n".join(["theta_h,theta_d,phi_d,r,g,b", *rows]))
    seen: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        real = outcome.draw_comparison
        patch.setattr(
            outcome, "draw_comparison", lambda rows, path: seen.extend(p.title for p in rows[0][1]) or real(rows, path)
        )
        assert run(["material", "fit", str(tmp_path / "grey.csv"), "--out", str(tmp_path / "out"), *SMALL]) == 0
    assert seen[0] == "Measurements, interpolated"
    assert "against measurements, interpolated: PSNR" in capsys.readouterr().out
