"""The study of materials on MERL's own files: verified, called what they are, chosen from, and nothing else taken."""

from __future__ import annotations

import csv
import functools
import math
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cnf.materials.reflectance import GGX, Lambert, checksums
from studies.__main__ import run
from studies.materials import cases
from studies.materials import study as studies
from studies.materials.study import Materials
from tests.materials.small import GOLD, SMALL, check_refusal, know, measure_little, write_table

refused = functools.partial(check_refusal, run)


@pytest.fixture(scope="module")
def merl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with two of three files that stand for MERL's: chrome, and chalk under a name of its own; no brass."""
    folder = tmp_path_factory.mktemp("merl")
    files = {
        "chrome": write_table(folder / "chrome.binary", GGX("chrome", 0.2)),
        "chalk": write_table(folder / "Zb.binary", Lambert(0.5)),
    }
    known = {name: know(path) for name, path in files.items()}
    known["brass"] = checksums.Known(known["chrome"].size, 64 * "0")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checksums, "list_known", lambda: known)
        patch.setattr(studies, "list_known", lambda: known)
        measure_little(patch, cases)
        yield folder


def study(out: Path, *more: str) -> list[str]:
    return ["materials", *SMALL, "--methods", "nbrdf", "--workers", "1", "--out", str(out), "--no-pictures", *more]


def test_the_table_on_merl(merl: Path, tmp_path: Path, capsys: pytest.CaptureFixture):
    """All files without another word; groups and labels say MERL, and nothing says that these are networks of it.

    Settings were chosen in view of chrome's network, so chrome is not held out. Cases have names of their own: those of
    the networks may lie in the same folder.
    """
    assert run(study(tmp_path, "--merl", str(merl))) == 0
    said = capsys.readouterr().out
    assert "2 of MERL's 3 files, each verified by its SHA-256\n2 materials, 1 method of" in said
    assert "MERL (2 materials)" in said and "Held out (1 material)" in said
    assert "NBRDF of" not in said
    rows = list(csv.DictReader((tmp_path / "study.csv").read_text().splitlines()))
    assert [(row["material"], row["label"], row["group"]) for row in rows] == [
        ("merl-chalk", "MERL chalk", "MERL"),
        ("merl-chrome", "MERL chrome", "MERL"),
    ]
    assert [row["held_out"] for row in rows] == ["True", "False"]
    assert float(rows[0]["glossiness"]) == pytest.approx(0.5 / math.pi)  # Lambert's, in every direction
    assert run(study(tmp_path, "--merl", str(merl))) == 0
    assert capsys.readouterr().out.count("(from an earlier run)") == 2


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"materials": ["chalk"]}, ["merl-chalk"]),
        ({"materials": ["merl-chrome,chalk"]}, ["merl-chalk", "merl-chrome"]),
        ({"count": 1}, ["merl-chrome"]),
        ({"count": 2}, ["merl-chrome", "merl-chalk"]),
        ({"materials": ["chrome"], "material": [GOLD]}, ["merl-chrome", "ggx-gold-0.2"]),
    ],
)
def test_some_of_them(merl: Path, options: dict, names: list[str]):
    """By MERL's names or the study's; or so many, the metal before the chalk; beside materials of one's own."""
    asked = Materials(merl=merl, **options)
    assert list(asked.chosen) == names and asked.introduce().startswith("2 of MERL's 3 files")


def test_files_are_read_once(merl: Path, monkeypatch: pytest.MonkeyPatch):
    """However many methods there are, and however often somebody asks for the cases."""
    asked: list[str | None] = []

    def count(path: str | None) -> str:
        asked.append(path)
        return "digest"

    monkeypatch.setattr(studies, "hash_source", count)
    study = Materials(merl=merl, methods=["nbrdf,ffn,siren"])
    assert len(study.cases()) == len(study.cases()) == 6
    assert sorted(Path(path).name for path in asked if path is not None) == ["Zb.binary", "chrome.binary"]


def test_what_is_refused(merl: Path, tmp_path: Path, capsys: pytest.CaptureFixture):
    """No folder, a file for one, no files, damaged and exchanged ones, strangers, choices that exclude each other."""
    out, chrome = tmp_path / "out", merl / "chrome.binary"

    def refuse(words: str, *options: str, folder: Path = merl) -> None:
        refused(capsys, study(out, "--merl", str(folder), *options), words)

    refuse("nowhere is not there; give the folder", folder=tmp_path / "nowhere")
    refuse("is not there; give the folder", folder=tmp_path / ("n" * 5000))
    refuse("is a file; give the folder", folder=chrome)
    bad = tmp_path / "bad"
    bad.mkdir()
    refuse("no file ending in .binary", folder=bad)
    os.link(chrome, bad / "mine.binary")  # true bytes, whatever the name
    (bad / "brass.binary").write_bytes(b"cut short")
    refuse("1 of 2 files in", folder=bad)
    refuse("brass.binary (wrong size); fetch them again", folder=bad)
    (bad / "brass.binary").unlink()
    os.link(chrome, bad / "brass.binary")
    refuse("brass.binary (changed); fetch them again", folder=bad)
    (bad / "brass.binary").unlink()
    (bad / "stranger.binary").write_bytes(b"my own")
    refuse("stranger.binary; take them out (--material takes tables of your own)", folder=bad)
    refuse("Did you mean 'chrome'", "--materials", "crome")
    refuse("holds 2 materials; 3 were asked for", "--count", "3")
    refuse("give one of them", "--count", "1", "--materials", "chalk")
    refuse("--merl takes MERL's own files, --everything takes all networks", "--everything")
    refuse("--merl takes MERL's own files, --data is the folder of networks", "--data", str(tmp_path))
    assert not out.exists()
