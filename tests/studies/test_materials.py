"""The study: cases kept and gone on with, failures told and passed over, several processes, errors measured rightly."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from cnf.errors import CnfError, FileError
from cnf.materials.comparison import cases
from cnf.materials.comparison.cases import Case, case_file, held_out_error, picture_file, read_case, read_picture
from cnf.materials.comparison.stage import Light, Stage, Subject
from cnf.materials.fitting import fit as fitting
from cnf.materials.fitting.fit import Settings
from cnf.materials.fitting.fitted import FittedMaterial
from cnf.materials.reflectance import GGX, Lambert, Material
from cnf.materials.rendering.environments import Environment
from studies.materials import study
from studies.materials.study import run_material, run_study, specularity

TINY = Settings(samples=1000, epochs=1, batch=200, conditions=10, parameters=1000, log_every=2)
LIGHT = Light(size=10)
METHODS = ("nbrdf", "kernel-siren")
LAMPS = Environment(torch.rand(16, 32, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))
GOLD, RED = Subject("ggx:gold:0.2", None, "metals"), Subject("plastic:0.8,0.1,0.1:0.3", None, "plastics")
NAMES = [subject.read().name for subject in (GOLD, RED)]


def hasten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer held-out samples, no timing, a small map and a coarse quadrature."""
    whole = Stage.of
    monkeypatch.setattr(cases, "HELD_OUT", 500)
    monkeypatch.setattr(cases, "time_inference", lambda fitted: 1.0)
    monkeypatch.setattr(Stage, "of", staticmethod(lambda reference, _, size: whole(reference, LAMPS, size, 8)))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch):
    hasten(monkeypatch)
    yield
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study of two materials and two methods; copy it to change it."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        hasten(patch)
        run(folder)
    return folder


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copied"))


def run(folder: Path, subjects=(GOLD, RED), methods=METHODS, settings: Settings = TINY, light: Light = LIGHT, **more):
    return run_study(subjects, methods, settings, light, folder, **{"processes": 1, **more})


def forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments, **named):
        raise AssertionError("a finished case was run again")

    monkeypatch.setattr(study, "fit_material", fail)


def count_fits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    done: list[tuple[str, str]] = []
    fit = study.fit_material

    def counted(material, method, settings):
        done.append((material.name, method))
        return fit(material, method, settings)

    monkeypatch.setattr(study, "fit_material", counted)
    return done


def test_all_cases_and_their_files(quick, tmp_path: Path):
    """Two materials, two methods: four cases in order, each in a file that reads back the same, with its picture."""
    heard = []
    cases = run(tmp_path, report=lambda *told: heard.append(told))
    assert [(c.material, c.method) for c in cases] == [(n, m) for n in NAMES for m in METHODS]
    assert [c.group for c in cases] == ["metals", "metals", "plastics", "plastics"]
    assert [(s, len(found), problem) for s, found, problem in heard] == [(GOLD, 2, ""), (RED, 2, "")]
    for case in cases:
        assert read_case(case_file(tmp_path, case.material, case.method)) == case
        assert case.settings == asdict(TINY) and case.light == {"path": None, "size": 10}
        assert all(math.isfinite(v) for v in (case.rmse, case.psnr, case.ssim, case.log_error, case.seconds))
        assert len(case.steps) == len(case.losses) == len(case.times) == 3
    soft, hard = cases[:2]
    assert soft.residual is None and hard.residual is not None and hard.residual <= 1e-10
    assert not [p for p in (tmp_path / "cases").iterdir() if p.suffix not in (".json", ".npz")]


def test_errors_are_those_of_the_pictures(quick, tmp_path: Path):
    """RMSE and PSNR recomputed in NumPy from the pictures kept, over the disc of the sphere; the reference is whole."""
    (case,) = run(tmp_path, [GOLD], ["nbrdf"])
    pictures = [read_picture(picture_file(tmp_path, case.material, which)).numpy() for which in ("reference", "nbrdf")]
    assert all(p.shape == (10, 10, 3) and p.min() >= 0 and p.max() <= 1 for p in pictures)
    mask = Stage.of(GOLD.read(), LAMPS, 10).scene.mask.numpy()
    error = math.sqrt(np.mean((pictures[1] - pictures[0])[mask] ** 2))
    assert case.rmse == pytest.approx(error, rel=1e-4)
    assert case.psnr == pytest.approx(-20 * math.log10(error), rel=1e-4)
    assert case.rmse > 0


def test_a_study_goes_on(quick, copied: Path, monkeypatch: pytest.MonkeyPatch):
    """The second run reads all cases and fits nothing; a third method adds its own alone."""
    with monkeypatch.context() as patch:
        forbid(patch)
        again = run(copied)
    assert again == [read_case(case_file(copied, name, method)) for name in NAMES for method in METHODS]
    done = count_fits(monkeypatch)
    assert len(run(copied, methods=(*METHODS, "siren"))) == 6
    assert done == [(name, "siren") for name in NAMES]


@pytest.mark.parametrize(
    "change",
    [{"settings": replace(TINY, seed=1)}, {"settings": replace(TINY, rate=1e-3)}, {"light": Light(size=11)}],
    ids=["seed", "rate", "size"],
)
def test_other_settings_are_other_cases(quick, change: dict, copied: Path, monkeypatch: pytest.MonkeyPatch):
    """What was found with other settings, or shown in other light, is not taken for this."""
    done = count_fits(monkeypatch)
    run(copied, [GOLD], ["nbrdf"], **change)
    assert done == [(NAMES[0], "nbrdf")]


@pytest.mark.parametrize("damage", ["cut", "empty", "not a case", "a list", "binary", "no picture", "no file"])
def test_damaged_cases_are_run_again(quick, damage: str, copied: Path, monkeypatch: pytest.MonkeyPatch):
    """Only the damaged one, and afterwards the file is whole."""
    path = case_file(copied, NAMES[0], "nbrdf")
    text, losses = path.read_text(), read_case(path).losses
    if damage == "no picture":
        picture_file(copied, NAMES[0], "nbrdf").unlink()
    elif damage == "no file":
        path.unlink()
    else:
        broken = {"cut": text[: len(text) // 2], "empty": "", "not a case": '{"material": "x"}', "a list": "[1, 2]"}
        path.write_bytes(b"\xff\xfe\x00" if damage == "binary" else broken[damage].encode())
    done = count_fits(monkeypatch)
    again = run(copied, [GOLD])
    assert done == [(NAMES[0], "nbrdf")]
    assert read_case(path).losses == losses == again[0].losses
    assert picture_file(copied, NAMES[0], "nbrdf").exists()


def test_a_lost_reference_is_rendered_again(quick, copied: Path):
    """All cases are there, the reference's picture is not: figures need it, so it is made."""
    path = picture_file(copied, NAMES[0], "reference")
    path.unlink()
    run(copied, [GOLD], ["nbrdf"])
    assert path.exists()


class Named(Subject):
    """Two metals of one name, told apart by their labels."""

    def read(self) -> Material:
        metal = self.path.split(":")[1]
        return GGX(metal, 0.2, name="metal", label=f"GGX {metal}")


def test_two_labels_of_one_name(quick, tmp_path: Path):
    """Gold and silver, both called metal: each has its own results, also when the first is finished already."""
    gold, silver = run(tmp_path, [Named(f"ggx:{metal}", None, metal) for metal in ("gold", "silver")], ["nbrdf"])
    assert (gold.label, silver.label) == ("GGX gold", "GGX silver") and gold.losses != silver.losses


def test_two_materials_of_one_name(quick, tmp_path: Path):
    """Two files list.csv in two folders, dark and bright: the second is not given the results of the first."""
    angles = np.random.default_rng(0).uniform(0.05, 0.7, (40, 3))
    subjects = []
    for level in (0.5, 5.0):
        path = tmp_path / str(level) / "list.csv"
        path.parent.mkdir()
        rows = [",".join(f"{v:.9f}" for v in [*row, level, level, level]) for row in angles]
        path.write_text("\n".join(["theta_h,theta_d,phi_d,r,g,b", *rows]))
        subjects.append(Subject(str(path), None, str(level)))
    try:
        dark, bright = run(tmp_path / "study", subjects, ["nbrdf"])
    except CnfError:
        return  # refused is as good
    assert (dark.group, bright.group) == ("0.5", "5.0")
    assert dark.losses != bright.losses


def test_a_failing_material_does_not_stop_the_others(quick, tmp_path: Path):
    """A missing file first: told with its reason, left out, and the next one is there."""
    heard = []
    missing = Subject(str(tmp_path / "missing.binary"), None, "metals")
    cases = run(tmp_path, [missing, GOLD], ["nbrdf"], report=lambda *told: heard.append(told))
    assert [c.material for c in cases] == NAMES[:1]
    assert heard[0][:2] == (missing, None) and "missing.binary" in heard[0][2]
    assert heard[1][0] == GOLD and heard[1][2] == ""


def test_a_material_that_fails_in_training(quick, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The second method diverges on the first material: told, the case before it kept, the next material run."""
    fit = study.fit_material
    monkeypatch.setattr(fitting, "HIGHEST_RATE", math.inf)  # settings would refuse a rate that diverges

    def diverge(material, method, settings):
        rate = 1e30 if (material.name, method) == (NAMES[0], "nbrdf") else None
        return fit(material, method, replace(settings, rate=rate))

    monkeypatch.setattr(study, "fit_material", diverge)
    heard = []
    cases = run(tmp_path, methods=["siren", "nbrdf"], report=lambda *told: heard.append(told[2]))
    assert "smaller learning rate" in heard[0] and heard[1] == ""
    assert [(c.material, c.method) for c in cases if c.material == NAMES[1]] == [
        (NAMES[1], m) for m in ("siren", "nbrdf")
    ]
    assert case_file(tmp_path, NAMES[0], "siren").exists() and not case_file(tmp_path, NAMES[0], "nbrdf").exists()


def test_ctrl_c_keeps_what_is_finished(quick, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Interrupted in the second fit: the first case is kept, none is written of a training cut short."""
    fit = study.fit_material

    def interrupted(material, method, settings):
        found = fit(material, method, settings)
        if method == METHODS[1]:
            found.course.stopped = "interrupted"
        return found

    with monkeypatch.context() as patch:
        patch.setattr(study, "fit_material", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, [GOLD])
    assert case_file(tmp_path, NAMES[0], METHODS[0]).exists()
    assert not case_file(tmp_path, NAMES[0], METHODS[1]).exists()
    done = count_fits(monkeypatch)
    run(tmp_path, [GOLD])
    assert done == [(NAMES[0], METHODS[1])]


@pytest.mark.slow
def test_two_processes(quick, tmp_path: Path):
    """Three subjects, one of them missing, in two processes: the same losses as in this one, failure told."""
    heard: dict[str, str] = {}
    missing = Subject(str(tmp_path / "missing.binary"), None, "metals")
    cases = run(
        tmp_path / "two",
        [GOLD, missing, RED],
        ["nbrdf"],
        processes=2,
        report=lambda subject, found, problem: heard.update({subject.path: problem}),
    )
    assert [c.material for c in cases] == NAMES
    assert heard[GOLD.path] == heard[RED.path] == "" and "missing.binary" in heard[missing.path]
    here = run(tmp_path / "one", [GOLD, RED], ["nbrdf"])
    assert [c.losses for c in here] == [c.losses for c in cases]


def test_bad_input(tmp_path: Path):
    """No processes, an unknown method, a picture that is none."""
    with pytest.raises(CnfError, match="at least one process; got 0"):
        run(tmp_path, processes=0)
    with pytest.raises(CnfError, match="there is no method 'best'"):
        run_material(GOLD, ["best"], TINY, LIGHT, tmp_path)
    (tmp_path / "x.npz").write_bytes(b"nothing")
    with pytest.raises(FileError, match="remove it to run the case again"):
        read_picture(tmp_path / "x.npz")
    (tmp_path / "x.json").write_text(json.dumps({"material": "x"}))
    with pytest.raises(FileError, match="remove it to run the case again"):
        read_case(tmp_path / "x.json")


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
    assert specularity(Lambert((0.2, 0.4, 0.9))) == pytest.approx(0.5 / math.pi, rel=1e-12)
    found = [specularity(GGX("chrome", alpha)) for alpha in (0.05, 0.1, 0.2)]
    assert found[0] / found[1] == pytest.approx(4, rel=0.05) and found[1] / found[2] == pytest.approx(4, rel=0.1)


def test_cases_hold_plain_numbers(quick, tmp_path: Path):
    """A case goes through JSON without loss."""
    (case,) = run(tmp_path, [GOLD], ["kernel-siren"])
    assert Case(**json.loads(json.dumps(asdict(case)))) == case
