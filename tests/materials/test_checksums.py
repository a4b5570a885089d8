"""Checksums of MERL's files: the list itself, and copies that are whole, changed, cut short or of something else."""

from __future__ import annotations

import hashlib
import re

import pytest
import torch

from cnf.errors import FileError, StorageWarning
from cnf.materials.reflectance import Table, check_merl, checksums, find_merl, read_merl, write_merl


@pytest.fixture
def small_list(monkeypatch) -> bytes:
    """A list of two materials, chalk and slate, whose files have few bytes; returns chalk's content."""
    contents = {"chalk": b"c" * 3_000_000, "slate": b"s" * 3_000_000}
    known = {
        name: checksums.Known(len(content), hashlib.sha256(content).hexdigest()) for name, content in contents.items()
    }
    monkeypatch.setattr(checksums, "list_known", lambda: known)
    return contents["chalk"]


def test_the_list():
    """A hundred materials, each with the one size of the format and a SHA-256 of its own."""
    known = checksums.list_known()
    assert len(known) == 100 and {"chrome", "red-fabric", "gold-metallic-paint"} <= set(known)
    assert {entry.size for entry in known.values()} == {12 + 8 * 3 * 90 * 90 * 180}
    assert len({entry.sha256 for entry in known.values()}) == 100
    assert all(re.fullmatch("[0-9a-f]{64}", entry.sha256) for entry in known.values())


@pytest.mark.parametrize(
    ("name", "change", "status", "message"),
    [
        ("chalk", lambda b: b, "ok", "those of MERL's file"),
        ("chalk", lambda b: b[:-1] + b"x", "changed", "not that of MERL's file"),
        ("slate", lambda b: b, "changed", "the bytes of MERL's chalk"),
        ("chalk", lambda b: b[:-1], "wrong size", "2999999 bytes instead of 3000000"),
        ("other", lambda b: b"?" + b[1:], "unknown", "none of MERL's 2 materials"),
        ("slat", lambda b: b"?" + b[1:], "unknown", "Did you mean 'slate'"),
        ("renamed", lambda b: b, "ok", "MERL's chalk, under another name"),
    ],
)
def test_one_file(small_list, tmp_path, name, change, status, message):
    """Each fate of a copy has its status and a line."""
    path = tmp_path / f"{name}.binary"
    path.write_bytes(change(small_list))
    (found,) = check_merl(path)
    assert (found.name, found.status) == (name, status) and message in found.message


def test_a_folder(small_list, tmp_path):
    """All .binary files of a folder in order of their names, whatever else is there."""
    (tmp_path / "slate.binary").write_bytes(b"short")
    (tmp_path / "chalk.binary").write_bytes(small_list)
    (tmp_path / "README.txt").write_text("not a material")
    assert [(c.name, c.status) for c in check_merl(tmp_path)] == [("chalk", "ok"), ("slate", "wrong size")]


def test_nothing_there(tmp_path):
    """A missing file and a folder without .binary files."""
    with pytest.raises(FileError, match="there is no file"):
        check_merl(tmp_path / "none.binary")
    with pytest.raises(FileError, match="cannot be read"):
        check_merl(tmp_path / ("n" * 5000))
    with pytest.raises(FileError, match=r"no file ending in \.binary"):
        check_merl(tmp_path)


def test_only_the_true_bytes_are_called_merl(tmp_path, monkeypatch):
    """A table is labelled as MERL's if its bytes are on the list, whatever the file is called, and only then."""
    import numpy as np

    content = np.array([90, 90, 180], "<i4").tobytes() + np.ones(3 * 90 * 90 * 180).tobytes()
    path = tmp_path / "chrome.binary"
    path.write_bytes(content)
    assert read_merl(path).label == "table chrome"
    known = {"flat": checksums.Known(len(content), hashlib.sha256(content).hexdigest())}
    monkeypatch.setattr(checksums, "list_known", lambda: known)
    assert read_merl(path).label == "MERL flat"


# Finding what a table about MERL may be made from


def test_finding_merl(small_list, tmp_path):
    """Verified files by MERL's own names, under whatever name they lie there; others are left out with a warning."""
    (tmp_path / "b.binary").write_bytes(small_list)
    (tmp_path / "slate.binary").write_bytes(b"s" * 3_000_000)
    assert [(f.path.name, f.label) for f in find_merl(tmp_path)] == [
        ("b.binary", "MERL chalk"),
        ("slate.binary", "MERL slate"),
    ]
    (tmp_path / "chalk.binary").write_bytes(small_list)
    (tmp_path / "mine.binary").write_bytes(b"mine")
    with pytest.warns(StorageWarning, match=r"chalk\.binary \(a second copy\), mine\.binary \(not one of them\)"):
        assert [f.name for f in find_merl(tmp_path)] == ["chalk", "slate"]


def test_finding_merl_refuses_damage(small_list, tmp_path):
    """A changed file and a short one, in one line; and a folder that holds nothing of MERL's."""
    (tmp_path / "chalk.binary").write_bytes(small_list[:-1])
    (tmp_path / "slate.binary").write_bytes(small_list)
    with pytest.raises(FileError, match=r"2 of 2 files.*chalk\.binary \(wrong size\), slate\.binary \(changed\)"):
        find_merl(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.binary").write_bytes(b"mine")
    with pytest.raises(FileError, match="none of the 1"):
        find_merl(tmp_path / "other")


def test_finding_merl_alone(small_list, tmp_path):
    """Strictly, a file that nobody published is refused by its name, and a second copy is still left out."""
    for name, content in {"chalk": small_list, "copy": small_list, "mine": b"mine"}.items():
        (tmp_path / f"{name}.binary").write_bytes(content)
    with pytest.raises(FileError, match=r"1 of 3 files.*none of MERL's 2.*: mine\.binary; take them out"):
        find_merl(tmp_path, strict=True)
    (tmp_path / "mine.binary").unlink()
    with pytest.warns(StorageWarning, match=r"copy\.binary \(a second copy\)"):
        assert [f.name for f in find_merl(tmp_path, strict=True)] == ["chalk"]


def test_a_verified_file_of_full_size_is_read_as_merl(tmp_path, monkeypatch):
    """A generated table under a checksum of its own: found, verified, and labelled as MERL's when it is read."""
    file = write_merl(tmp_path / "grey.binary", Table("grey", "grey", torch.full((90, 90, 180, 3), 0.25)))
    known = {"grey": checksums.Known(file.stat().st_size, hashlib.sha256(file.read_bytes()).hexdigest())}
    monkeypatch.setattr(checksums, "list_known", lambda: known)
    (found,) = find_merl(tmp_path)
    assert (found.path, found.label) == (file, "MERL grey") == (file, read_merl(found.path).label)
