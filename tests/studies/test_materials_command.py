"""`python -m studies materials` as it is typed: what it writes, what it says, and how it refuses."""

from __future__ import annotations

import csv
import functools
from pathlib import Path

import numpy as np
import pytest
import torch

from cnf.materials.reflectance import read_material
from studies.__main__ import run
from studies.materials import commands as materials_study
from studies.materials import study as studies
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
        measure_little(patch)
        yield


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    return pack_networks(tmp_path)


def study(out: Path, *more: str, methods: str = "nbrdf") -> list[str]:
    common = ["--methods", methods, "--processes", "1", "--out", str(out)]
    return ["materials", *SMALL, *common, *more]


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
    assert "GGX gold 0.2   (from an earlier run)" in said and "Generated (2 materials)" in said
    for name in ("study.png", "curves.png", "pictures_1.png"):
        assert is_picture(tmp_path / name)
    with (tmp_path / "study.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 4


def test_study_fits_again_with_other_settings_or_another_file(packed: Path, tmp_path: Path, monkeypatch):
    """The same name from a file with another label, or another seed: nothing of the earlier run is taken."""
    made = count_fits(monkeypatch, studies)
    monkeypatch.setattr(materials_study, "report", lambda *_: None)
    command = study(tmp_path / "a")
    other = packed.with_name("dull.csv")
    other.write_text(
        "theta_h,theta_d,phi_d,r,g,b\n" + "".join(f"{k / 40},0.3,{k / 9},0.2,0.3,0.4\n" for k in range(30))
    )
    for more in (["--material", f"{packed}:dull"], ["--material", f"{packed}:dull", "--seed", "1"]):
        assert run([*command, *more]) == 0
        assert run([*command, *more]) == 0
    assert made == ["dull nbrdf"] * 2
    assert run([*command, "--material", str(other), "--seed", "1"]) == 0
    assert made == ["dull nbrdf"] * 3


def test_a_material_that_fails_does_not_stop_the_others(tmp_path: Path, capsys: pytest.CaptureFixture):
    """A black material cannot be exposed: told, and exit code 1, after the other one is reported."""
    command = study(tmp_path, "--material", "lambert:0", "--material", GOLD, "--no-pictures")
    assert run(command) == 1
    told = capsys.readouterr()
    assert "failed: an exposure needs light" in told.out and "1 of 2 materials failed" in told.err
    with (tmp_path / "study.csv").open() as file:
        assert {row["label"] for row in csv.DictReader(file)} == {"GGX gold 0.2"}


def test_study_of_data(packed: Path, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch):
    """Names from the folder of CNF_DATA; groups say what the materials are: networks of MERL, never MERL."""
    monkeypatch.setenv("CNF_DATA", str(packed.parent.parent))
    assert run(study(tmp_path / "a", "--materials", "dull", "--no-pictures")) == 0
    assert "NBRDF of MERL, ten most specular (1 material)" in capsys.readouterr().out
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
    from studies.materials import subjects

    ranked = [subjects.Chosen(studies.Subject("x", str(k), "g"), str(k), str(k)) for k in range(100)]
    monkeypatch.setattr(subjects, "rank_networks", lambda data: ranked)
    monkeypatch.setattr(subjects, "find_tables", lambda data: [])
    names = [int(one.name) for one in subjects.choose_subjects(packed.parent, 12)]
    assert names[:10] == list(range(10)) and names[10:] == [32, 77]
    assert len(subjects.choose_subjects(packed.parent, 100)) == len(set(subjects.choose_subjects(packed.parent, 100)))


def test_the_most_specular_come_first(packed: Path):
    """Ranked by the mean reflectance in the mirror direction, worked out here from the networks."""
    from studies.materials.subjects import rank_networks

    theta = torch.linspace(0, np.pi / 3, 25, dtype=torch.float64)
    mirror = torch.stack([0 * theta, theta, 0 * theta + np.pi / 2], dim=1)
    size = {name: float(read_material(packed, name)(mirror).mean()) for name in ("bright", "dull", "medium")}
    assert [one.name for one in rank_networks(packed.parent.parent)] == sorted(size, key=lambda name: -size[name])
