"""A fit in its folder: read back as it was, the certificate measured anew, damage told in one line."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cnf.errors import FileError
from cnf.materials.fitting.fit import Fit, Settings, fit_material
from cnf.materials.fitting.fitted import as_material
from cnf.materials.fitting.folders import Source, check_conditions, is_fit, load_fit, save_fit
from cnf.materials.reflectance.analytic import GGX, Lambert
from cnf.materials.reflectance.angles import cosines

TINY = Settings(samples=1000, epochs=1, batch=500, conditions=12, parameters=3000)
GOLD = GGX("gold", 0.2)


@pytest.fixture(scope="module")
def exact() -> Fit:
    return fit_material(GOLD, "kernel-siren", TINY)


@pytest.fixture(scope="module")
def soft() -> Fit:
    return fit_material(GOLD, "nbrdf", TINY)


@pytest.fixture
def angles() -> torch.Tensor:
    return torch.rand(500, 3, dtype=torch.float64) * torch.tensor([1.2, 0.3, 6.0])


@pytest.mark.parametrize("which", ["exact", "soft"])
def test_round_trip(which: str, request: pytest.FixtureRequest, tmp_path: Path, angles: torch.Tensor):
    """Reflectance, settings, course and numbers are the same; the certificate holds again after a fresh solve."""
    fit = request.getfixturevalue(which)
    save_fit(fit, tmp_path / "a", Source("ggx:gold:0.2"), {"psnr": 31.5, "ssim": float("nan")})
    kept = load_fit(tmp_path / "a")
    assert torch.equal(as_material(kept.fit)(angles), as_material(fit)(angles))
    assert kept.source == Source("ggx:gold:0.2", None)
    assert kept.numbers == {"psnr": 31.5, "ssim": None}
    assert (kept.fit.name, kept.fit.label) == (GOLD.name, GOLD.label)
    assert kept.fit.method.name == fit.method.name and kept.fit.settings == TINY
    assert (kept.fit.parameters, kept.fit.seconds) == (fit.parameters, fit.seconds)
    assert (kept.fit.course.step, kept.fit.course.loss) == (fit.course.step, fit.course.loss)
    np.testing.assert_array_equal(kept.fit.course.residual, fit.course.residual)
    torch.testing.assert_close(kept.fit.conditions.points, fit.conditions.points, rtol=0, atol=1e-14)
    torch.testing.assert_close(kept.fit.conditions.logs, fit.conditions.logs, rtol=1e-13, atol=1e-14)
    assert (kept.fit.certificate is None) == (which == "soft")
    assert which == "soft" or kept.fit.certificate.exact
    assert (tmp_path / "a" / "certificate.txt").exists() == (which == "exact")


def read_conditions(folder: Path) -> np.ndarray:
    with (folder / "conditions.csv").open() as file:
        return np.array([[float(value) for value in row.values()] for row in csv.DictReader(file)])


def test_conditions_are_those_of_the_material(exact: Fit, soft: Fit, tmp_path: Path):
    """Measured values are the material's own at the angles in the file; the constrained fit equals them to 1e-12."""
    save_fit(exact, tmp_path / "exact", Source("x"), {})
    save_fit(soft, tmp_path / "soft", Source("x"), {})
    rows = read_conditions(tmp_path / "exact")
    assert rows.shape == (12, 10)
    angles = torch.deg2rad(torch.from_numpy(rows[:, :3]))
    assert min(float(c.min()) for c in cosines(angles)) > 0
    np.testing.assert_allclose(rows[:, 3:6], GOLD(angles).numpy(), rtol=1e-11)
    np.testing.assert_allclose(rows[:, 6:9], rows[:, 3:6], rtol=1e-12, atol=1e-12)
    assert rows[:, 9].max() < 1e-12
    assert read_conditions(tmp_path / "soft")[:, 9].max() > 0.01  # after two steps, a soft fit cannot be near them


def test_black_channels_have_a_finite_relative_error():
    """Blue is 0 in every measurement: errors there are over the median of the others, not over nothing."""
    fit = fit_material(Lambert((0.5, 0.2, 0.0)), "kernel-siren", TINY)
    check = check_conditions(fit)
    assert float(check.measured[:, 2].abs().max()) == 0
    assert check.worst < 1e-12


def test_a_soft_fit_does_not_inherit_a_certificate(exact: Fit, soft: Fit, tmp_path: Path):
    save_fit(exact, tmp_path, Source("x"), {})
    save_fit(soft, tmp_path, Source("x"), {})
    assert not (tmp_path / "certificate.txt").exists()
    assert load_fit(tmp_path).fit.certificate is None


def test_an_interrupted_fit_before_its_first_log(exact: Fit, tmp_path: Path):
    """No step logged: the file has no rows, and reads back so."""
    from cnf.training import History

    save_fit(replace(exact, course=History(stopped="interrupted")), tmp_path, Source("x"), {})
    course = load_fit(tmp_path).fit.course
    assert (course.step, course.stopped) == ([], "interrupted")


def test_damage_is_told(exact: Fit, soft: Fit, tmp_path: Path):
    """Whatever is cut, mixed or missing: a FileError of one line."""
    with pytest.raises(FileError, match="holds no fit"):
        load_fit(tmp_path)
    assert not is_fit(tmp_path)
    save_fit(exact, tmp_path, Source("x"), {})
    assert is_fit(tmp_path)
    whole = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def refuse(name: str, content: bytes, match: str) -> None:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(FileError, match=match) as error:
            load_fit(tmp_path)
        assert "\n" not in str(error.value)
        (tmp_path / name).write_bytes(whole[name])
        load_fit(tmp_path)

    summary = json.loads(whole["fit.json"])
    refuse("fit.json", whole["fit.json"][:100], "damaged")
    refuse("fit.json", b"[]", "damaged")
    refuse("fit.json", b"\xff\xfe\x00", "UTF-8")
    refuse("fit.json", json.dumps({**summary, "method": "other"}).encode(), "damaged")
    refuse("fit.json", json.dumps({**summary, "settings": {"samples": -1}}).encode(), "damaged")
    refuse("fit.json", json.dumps({**summary, "settings": {"unknown": 1}}).encode(), "damaged")
    refuse("fit.json", json.dumps({**summary, "parameters": summary["parameters"] + 1}).encode(), "mixed")
    refuse("conditions.csv", b"theta_h_degrees\n1\n", "damaged")
    refuse("conditions.csv", b"", "no conditions")
    refuse("course.csv", b"step,loss\n0,a\n", "damaged")
    refuse("model.pt", whole["model.pt"][:1000], "model.pt")
    (tmp_path / "model.pt").unlink()
    with pytest.raises(FileError, match="there is no file"):
        load_fit(tmp_path)


def test_fits_of_before_lay_between_nodes(exact: Fit, tmp_path: Path):
    """A summary that does not say where its conditions lie is of a time when they never were on nodes."""
    save_fit(exact, tmp_path, Source("x"), {})
    summary = json.loads((tmp_path / "fit.json").read_text())
    assert summary["settings"].pop("on_nodes") == "auto"
    (tmp_path / "fit.json").write_text(json.dumps(summary))
    assert load_fit(tmp_path).fit.settings == replace(TINY, on_nodes="no")


def test_the_certificate_is_not_believed_but_measured(exact: Fit, tmp_path: Path):
    """A summary that claims failure changes nothing: the model is solved again."""
    save_fit(exact, tmp_path, Source("x"), {})
    summary = json.loads((tmp_path / "fit.json").read_text())
    assert summary["certificate"]["exact"] and summary["certificate"]["conditions"] == 36
    summary["certificate"]["exact"] = False
    (tmp_path / "fit.json").write_text(json.dumps(summary))
    assert load_fit(tmp_path).fit.certificate.exact
