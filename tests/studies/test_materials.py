"""The study of materials: what it writes and says, what it takes from earlier runs, and how it chooses materials."""

from __future__ import annotations

import csv
import functools
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from cnf.materials.fitting.fitted import FittedMaterial
from cnf.materials.fitting.measuring import held_out_error
from cnf.materials.reflectance import GGX, Lambert, Material, read_material
from cnf.materials.rendering.environments import studio
from cnf.materials.rendering.stage import Stage
from studies import paper
from studies.__main__ import run
from studies.keeping import find_arrays
from studies.materials import cases, subjects
from studies.materials import study as studies
from studies.materials.study import Materials
from studies.materials.subjects import Subject
from tests.materials.small import (
    GOLD,
    RED,
    SMALL,
    check_refusal,
    count_fits,
    is_picture,
    measure_little,
    pack_networks,
)

refused = functools.partial(check_refusal, run)


@pytest.fixture(scope="module", autouse=True)
def one_light():
    with pytest.MonkeyPatch.context() as patch:
        measure_little(patch, cases)
        yield


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    return pack_networks(tmp_path)


def study(out: Path, *more: str, methods: str = "nbrdf") -> list[str]:
    return ["materials", *SMALL, "--methods", methods, "--workers", "1", "--out", str(out), *more]


def read_csv(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def test_study_of_generated_materials(tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch):
    """Tables, pictures and curves; stopped by Ctrl-C it reports what is finished, and goes on from there."""
    made = count_fits(monkeypatch, studies)
    command = study(tmp_path, "--material", GOLD, "--material", RED, methods="nbrdf,kernel-siren")
    counted = studies.fit_material

    def stop_at_third(material, method, *others, **more):
        if len(made) == 2:
            raise KeyboardInterrupt
        return counted(material, method, *others, **more)

    with monkeypatch.context() as stopping:
        stopping.setattr(studies, "fit_material", stop_at_third)
        assert run(command) == 130
    said = capsys.readouterr().out
    assert "interrupted" in said and "Generated (1 material)" in said and "Kernel SIREN" in said
    assert run(command) == 0
    said = capsys.readouterr().out
    assert len(made) == len(set(made)) == 4
    assert "(from an earlier run)" in said and "Generated (2 materials)" in said and "highest PSNR on" in said
    assert all(is_picture(tmp_path / name) for name in ("study.png", "curves.png", "pictures_1.png"))
    rows = read_csv(tmp_path / "study.csv")
    assert len(rows) == 4 and all(float(row["psnr"]) > 0 for row in rows)
    assert [row["residual"] == "" for row in rows] == [True, False] * 2
    assert all(float(row["residual"]) <= 1e-10 for row in rows if row["method"] == "kernel-siren")


def test_errors_are_those_of_the_pictures(tmp_path: Path):
    """RMSE and PSNR recomputed in NumPy from the pictures kept, over the disc of the sphere."""
    assert run(study(tmp_path, "--material", GOLD, "--no-pictures")) == 0
    (row,) = read_csv(tmp_path / "study.csv")
    kept = find_arrays(Materials(material=[GOLD]), tmp_path, row)
    mask = Stage.of(read_material(GOLD), studio(), 32).scene.mask.numpy()
    error = math.sqrt(np.mean((kept["image"] - kept["reference"])[mask] ** 2))
    assert float(row["rmse"]) == pytest.approx(error, rel=1e-4)
    assert float(row["psnr"]) == pytest.approx(-20 * math.log10(error), rel=1e-4)


def test_a_file_that_was_changed_is_fitted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A list of measurements ten times as bright under the same path, then lamps in another place; and not again."""
    made = count_fits(monkeypatch, studies)
    lamps = torch.rand(16, 32, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).numpy()
    command = study(tmp_path / "a", "--material", str(tmp_path / "list.csv"), "--env", str(tmp_path / "map.npz"))
    angles = np.random.default_rng(0).uniform(0.05, 0.7, (40, 3))
    for level, turned in ((0.5, 0), (5.0, 0), (5.0, 0), (5.0, 8)):
        rows = [",".join(f"{v:.9f}" for v in [*row, level, level, level]) for row in angles]
        (tmp_path / "list.csv").write_text("\n".join(["theta_h,theta_d,phi_d,r,g,b", *rows]))
        np.savez(tmp_path / "map.npz", L=np.roll(lamps, turned, axis=1))
        assert run([*command, "--no-pictures"]) == 0
    assert made == ["list nbrdf"] * 3


def test_settings_are_those_of_rows_that_are_there():
    """Conditions between nodes, as in the paper, whatever the library prefers; only who asks for others says more than
    committed rows do, which would be rows of other settings."""
    kept = json.loads((Path(paper.__file__).parent / "rows" / "materials.json").read_text())["settings"]
    asked = Materials(material=[GOLD])
    assert asked.budget.on_nodes == "no" and asked.settings().keys() == kept.keys()
    assert Materials(material=[GOLD], on_nodes="yes").settings() == {**asked.settings(), "on_nodes": "yes"}


def test_a_material_that_fails_does_not_stop_the_others(tmp_path: Path, capsys: pytest.CaptureFixture):
    """A black material cannot be exposed: told, and exit code 1, after the other one is reported."""
    command = study(tmp_path, "--material", "lambert:0", "--material", GOLD, "--no-pictures")
    assert run(command) == 1
    told = capsys.readouterr()
    assert "failed: an exposure needs light" in told.out and "1 of 2 cases failed" in told.err
    assert [row["label"] for row in read_csv(tmp_path / "study.csv")] == ["", "GGX gold 0.2"]


def test_study_of_data(packed: Path, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch):
    """Names from the folder of CNF_DATA; groups say what the materials are: networks of MERL, never MERL."""
    monkeypatch.setenv("CNF_DATA", str(packed.parent.parent))
    assert run(study(tmp_path / "a", "--materials", "dull", "--no-pictures")) == 0
    assert "NBRDF of MERL, ten most specular (1 material)" in capsys.readouterr().out
    refused(capsys, study(tmp_path / "a", "--materials", "dull", "--seed", "1"), "seed 0, now 1")
    refused(capsys, study(tmp_path / "b", "--materials", "dul"), "Did you mean 'dull'")
    refused(capsys, study(tmp_path / "b", "--materials", "dull", "--count", "2"), "--count")
    refused(capsys, study(tmp_path / "b", "--count", "4"), "holds 3 materials")
    refused(capsys, study(tmp_path / "b", "--materials", "dull", "--material", f"{packed}:dull"), "both called dull")
    refused(capsys, study(tmp_path / "b", "--data", str(tmp_path)), "set --data")
    monkeypatch.delenv("CNF_DATA")
    refused(capsys, study(tmp_path / "b"), "CNF_DATA")
    refused(capsys, study(tmp_path / "b", "--material", "ggx:a:b:c"), "no generated material")
    refused(capsys, study(tmp_path / "b", "--material", GOLD, methods="mlp"), "no method 'mlp'")
    assert not (tmp_path / "b").exists()


def test_subjects_are_spread_over_specularity(packed: Path, monkeypatch: pytest.MonkeyPatch):
    """With one specular place and two of 98 others, these are a quarter and three quarters down the list."""
    ranked = [subjects.Chosen(Subject("x", str(k), "g"), str(k), str(k)) for k in range(100)]
    monkeypatch.setattr(subjects, "rank_networks", lambda data: ranked)
    monkeypatch.setattr(subjects, "find_tables", lambda data: [])
    names = [int(one.name) for one in subjects.choose_subjects(packed.parent, 12)]
    assert names[:10] == list(range(10)) and names[10:] == [32, 77]
    assert len(subjects.choose_subjects(packed.parent, 100)) == len(set(subjects.choose_subjects(packed.parent, 100)))


def test_the_most_specular_come_first(packed: Path):
    """Ranked by the mean reflectance in the mirror direction, worked out here from the networks."""
    theta = torch.linspace(0, np.pi / 3, 25, dtype=torch.float64)
    mirror = torch.stack([0 * theta, theta, 0 * theta + np.pi / 2], dim=1)
    size = {name: float(read_material(packed, name)(mirror).mean()) for name in ("bright", "dull", "medium")}
    assert [one.name for one in subjects.rank_networks(packed.parent.parent)] == sorted(size, key=lambda n: -size[n])


class Shifted(FittedMaterial):
    """A reference with log(1 + f) raised by 0.25 where valid."""

    def __init__(self, reference: Material):
        self.name, self.label, self.reference = "shifted", "Shifted", reference

    def __call__(self, angles: Tensor) -> Tensor:
        assert self.reference is not None
        return torch.expm1(torch.log1p(self.reference(angles)) + 0.25)


def test_held_out_error():
    """A logarithm raised by 0.25 everywhere is off by 0.25 on average."""
    assert held_out_error(Shifted(GGX("gold", 0.2)), GGX("gold", 0.2)) == pytest.approx(0.25, rel=1e-6)


def test_specularity():
    """Lambert: albedo / pi in any direction; a metal more the smoother it is (peak about 1 / alpha^2)."""
    assert subjects.specularity(Lambert((0.2, 0.4, 0.9))) == pytest.approx(0.5 / math.pi, rel=1e-12)
    found = [subjects.specularity(GGX("chrome", alpha)) for alpha in (0.05, 0.1, 0.2)]
    assert found[0] / found[1] == pytest.approx(4, rel=0.05) and found[1] / found[2] == pytest.approx(4, rel=0.1)
