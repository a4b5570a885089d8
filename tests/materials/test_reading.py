"""Choosing a reader by a file's ending and content, generated materials from words, and what cannot be read."""

from __future__ import annotations

import math
import warnings
import zipfile

import numpy as np
import pytest
import torch

from cnf.errors import FileError, NumericalWarning
from cnf.materials.reflectance import GGX, Lambert, Table, list_materials, plastic, read_material, tabulate, write_merl
from cnf.materials.reflectance.nbrdf import SOURCES

SHAPE = (90, 90, 180, 3)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("lambert", Lambert()),
        ("lambert:0.25", Lambert(0.25)),
        ("Lambert:0.1,0.2,0.3", Lambert((0.1, 0.2, 0.3))),
        ("ggx", GGX("chrome", 0.1)),
        ("ggx:gold", GGX("gold", 0.1)),
        ("ggx:gold:0.05", GGX("gold", 0.05)),
        ("ggx:0.9,0.5,0.2:0.3", GGX((0.9, 0.5, 0.2), 0.3)),
        ("plastic:0.8,0.1,0.1:0.2", plastic((0.8, 0.1, 0.1), 0.2)),
    ],
)
def test_words_make_materials(words, expected):
    """The words stand for the material made by hand."""
    assert read_material(words) == expected
    assert list_materials(words) == [expected.name]


@pytest.mark.parametrize(
    "words", ["ggx:wood", "ggx:gold:rough", "ggx:gold:0.1:2", "lambert:2", "lambert:0.1,0.2", "ggx::", "ggx:gold:nan"]
)
def test_words_that_make_none(words):
    """One line that shows the words."""
    with pytest.raises(FileError, match=words):
        read_material(words)


def test_a_table_in_an_archive(tmp_path):
    """Negative entries are unknown, half precision is widened, the label follows the file's name."""
    values = np.full(SHAPE, 0.5, np.float16)
    values[3, 4, 5] = -1
    path = tmp_path / "rgl_chalk_merlgrid.npz"
    np.savez_compressed(path, f=values)
    table = read_material(path)
    assert isinstance(table, Table) and table.label == "RGL chalk" and list_materials(path) == ["chalk"]
    assert table.values[3, 4, 5].isnan().all() and int(table.values.isnan().sum()) == 3
    assert table.values[0, 0, 0, 0] == 0.5 and table.values.dtype == torch.float32
    other = tmp_path / "mine.npz"
    np.savez_compressed(other, f=values)
    assert read_material(other).label == "table mine"
    with pytest.raises(FileError, match="holds no material 'slate'; it has mine"):
        read_material(other, "slate")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.full(SHAPE, -1, np.float16), "marked as unknown"),
        (np.full(SHAPE, np.inf, np.float16), "not finite"),
        (np.zeros(SHAPE, np.int8), "floating-point"),
        (np.zeros((9, 9, 18, 3)), "holds no material"),
    ],
)
def test_tables_that_cannot_be_used(tmp_path, values, message):
    """All unknown, infinite, whole numbers, another grid."""
    np.savez_compressed(tmp_path / "bad.npz", f=values)
    with pytest.raises(FileError, match=message):
        read_material(tmp_path / "bad.npz")


def test_binary_files_are_read(tmp_path):
    """A `.binary` file by its ending, in any case."""
    path = write_merl(tmp_path / "grey.BINARY", tabulate(Lambert(0.5)))
    assert read_material(path).label == "table grey"
    known = read_material(path)(torch.tensor([[0.1, 0.2, 0.3]], dtype=torch.float64))
    assert torch.allclose(known, torch.tensor(0.5 / math.pi, dtype=torch.float64), rtol=1e-6)


def test_files_that_are_no_materials(tmp_path):
    """Missing, unknown endings, folders, empty, damaged and hollow archives: one line each."""
    (tmp_path / "empty.npz").write_bytes(b"")
    (tmp_path / "text.npz").write_text("not an archive")
    (tmp_path / "picture.png").write_bytes(b"x")
    (tmp_path / "folder.npz").mkdir()
    np.savez(tmp_path / "other.npz", stars=np.zeros(3))
    np.savez(tmp_path / "objects.npz", f=np.array([{}], dtype=object))
    for name, message in {
        "none.npz": "there is no file",
        "n" * 5000: "there is no file",
        "n" * 5000 + ".npz": "cannot be read",
        "none": "a generated material is written lambert",
        "empty.npz": "is empty",
        "text.npz": "damaged or not an NPZ",
        "picture.png": "no reader",
        "folder.npz": "is a folder",
        "other.npz": "its arrays are stars",
        "objects.npz": "Python objects",
    }.items():
        for read in (read_material, list_materials):
            with pytest.raises(FileError, match=message) as caught:
                read(str(tmp_path / name))
            assert "\n" not in str(caught.value)


def test_a_bomb_is_not_unpacked(tmp_path):
    """An archive of a few kilobytes that unpacks to 300 MB is refused by the sizes in its directory."""
    path = tmp_path / "bomb.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("f.npy", "w") as file,
    ):
        for _ in range(300):
            file.write(b"\0" * 2**20)
    with pytest.raises(FileError, match="unpacks to"):
        read_material(path)


def test_damaged_bytes_never_escape(tmp_path):
    """Archives and tables with some bytes replaced, cut or repeated are read, or refused with a `FileError`."""
    rng = np.random.default_rng(0)
    shapes = {"W1": (6, 3), "b1": (3,), "W2": (3, 3), "b2": (3,), "W3": (3, 3), "b3": (3,)}
    packed, scattered, table = tmp_path / "p.npz", tmp_path / "s.npz", tmp_path / "t.csv"
    np.savez(packed, names=np.array(["a", "b"]), **{k: rng.random((2, *s), np.float32) for k, s in shapes.items()})
    np.savez_compressed(scattered, angles=rng.random((20, 3)), values=rng.random((20, 3)))
    rows = "\n".join(",".join(f"{v:.3f}" for v in row) for row in rng.random((20, 6)))
    table.write_text("theta_h,theta_d,phi_d,r,g,b\n" + rows)
    outcomes = set()
    for path in (packed, scattered, table):
        content = path.read_bytes()
        for _ in range(150):
            damaged = bytearray(content)
            start, length = int(rng.integers(len(content))), int(rng.integers(1, 30))
            replacement = [rng.bytes(length), b"", content[start : start + length] * 2][int(rng.integers(3))]
            damaged[start : start + length] = replacement
            path.write_bytes(damaged)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", NumericalWarning)
                    read_material(path, "a" if path == packed else None)
                outcomes.add("read")
            except FileError as error:
                assert "\n" not in str(error)
                outcomes.add("refused")
    assert outcomes == {"read", "refused"}


def test_every_packed_archive(brdf_folder, pairs):
    """All 159 networks are read, finite, and labelled as networks of where they are from."""
    total = 0
    for stem, origin in SOURCES.items():
        names = list_materials(brdf_folder / f"{stem}.npz")
        total += len(names)
        for name in names[::9]:
            material = read_material(brdf_folder / f"{stem}.npz", name)
            f = material(pairs)
            assert material.label == f"NBRDF of {origin} {name}"
            assert torch.isfinite(f).all() and (f >= 0).all() and f.max() > 0
    assert total == 100 + 51 + 8


def test_a_resampled_measurement(brdf_folder):
    """RGL's cg_sunflower on MERL's grid: 27.5 per cent of the nodes are unknown, as known of this file."""
    table = read_material(brdf_folder / "rgl" / "rgl_cg_sunflower_merlgrid.npz")
    assert table.label == "RGL cg_sunflower"
    assert float(table.values.isnan().double().mean()) == pytest.approx(0.275, abs=5e-4)
