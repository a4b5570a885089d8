"""Environment maps: files read exactly, directions where they belong, blurring that keeps the light."""

from __future__ import annotations

import io
import math
import os
import pathlib
import zipfile

import numpy as np
import pytest
import torch

from cnf.errors import ConstraintError, FileError
from cnf.materials.rendering.environments import Environment, polar_levels, polar_lookup, read_environment, studio

DATA = pathlib.Path(os.environ.get("CNF_DATA", pathlib.Path(__file__).parents[2] / "../shared/data"))


def pack_runs(line: bytes) -> bytes:
    """One channel of a scanline: runs of four or more equal bytes, the rest copied, as the format describes."""
    out, at = b"", 0
    while at < len(line):
        run = 1
        while at + run < len(line) and run < 127 and line[at + run] == line[at]:
            run += 1
        if run >= 4:
            out += bytes([128 + run, line[at]])
        else:
            run = min(3, len(line) - at)
            out += bytes([run]) + line[at : at + run]
        at += run
    return out


def radiance_file(pixels: np.ndarray, packed: bool, header: str = "#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n") -> bytes:
    """The bytes of a Radiance picture of pixels (rows, columns, 4) of red, green, blue, exponent."""
    rows, columns = pixels.shape[:2]
    data = header.encode() + f"-Y {rows} +X {columns}\n".encode()
    for line in pixels:
        if packed:
            data += bytes([2, 2]) + columns.to_bytes(2, "big")
            data += b"".join(pack_runs(line[:, channel].tobytes()) for channel in range(4))
        else:
            data += line.tobytes()
    return data


def some_pixels() -> np.ndarray:
    """6 x 12 pixels with runs, single values, black (exponent 0) and a very bright one."""
    pixels = np.random.default_rng(0).integers(1, 255, (6, 12, 4), dtype=np.uint8)
    pixels[..., 3] = 128
    pixels[1, 2:11] = (10, 20, 30, 129)
    pixels[2, 5] = (200, 100, 50, 0)
    pixels[3, 7] = (255, 128, 1, 140)
    return pixels


@pytest.mark.parametrize("packed", [True, False])
def test_radiance_pictures_are_read_exactly(tmp_path, packed):
    """A pixel (r, g, b, e) is (r, g, b) 2^(e - 136), and black for e = 0, packed in runs or flat."""
    pixels = some_pixels()
    path = tmp_path / "map.hdr"
    path.write_bytes(radiance_file(pixels, packed))
    expected = pixels[..., :3] * np.where(pixels[..., 3:] == 0, 0.0, 2.0 ** (pixels[..., 3:].astype(float) - 136))
    environment = read_environment(path)
    assert environment.name == "map"
    assert np.array_equal(environment.radiance.numpy(), expected)


def test_exposure_in_the_header_is_undone(tmp_path):
    """Pixels of a picture with EXPOSURE=2 and again EXPOSURE=4 are 8 times the radiance."""
    path = tmp_path / "map.hdr"
    path.write_bytes(radiance_file(some_pixels(), False))
    plain = read_environment(path).radiance
    path.write_bytes(radiance_file(some_pixels(), False, "#?RGBE\nEXPOSURE=2\nEXPOSURE= 4.0\n\n"))
    assert torch.equal(read_environment(path).radiance, plain / 8)


GOOD = radiance_file(some_pixels(), True)
DAMAGED = {
    "empty": b"",
    "not a picture": b"P6 10 10 255\n" + bytes(300),
    "endless header": b"#?RADIANCE\n" + b"A=1\n" * 20000,
    "cut in a row": GOOD[:-9],
    "cut after the header": GOOD[: GOOD.index(b"+X 12\n") + 6],
    "flat and cut": radiance_file(some_pixels(), False)[:-1],
    "other orientation": GOOD.replace(b"-Y 6 +X 12", b"+X 12 -Y 6"),
    "other pixels": GOOD.replace(b"rle_rgbe", b"rle_xyze"),
    "huge": GOOD.replace(b"-Y 6 +X 12", b"-Y 999999 +X 999999"),
    "no rows": GOOD.replace(b"-Y 6 +X 12", b"-Y 0 +X 12"),
    "row of another length": GOOD.replace(bytes([2, 2, 0, 12]), bytes([2, 2, 0, 13]), 1),
    "run over the end": GOOD.replace(bytes([2, 2, 0, 12]), bytes([2, 2, 0, 12, 255, 7]), 1),
    "exposure zero": GOOD.replace(b"FORMAT", b"EXPOSURE=0\nFORMAT"),
    "exposure no number": GOOD.replace(b"FORMAT", b"EXPOSURE=1e+-\nFORMAT"),
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED.keys())
def test_damaged_pictures_are_refused_in_one_line(tmp_path, data):
    """Whatever the bytes: a FileError that names the file."""
    path = tmp_path / "map.hdr"
    path.write_bytes(data)
    with pytest.raises(FileError, match=r"map\.hdr") as caught:
        read_environment(path)
    assert "\n" not in str(caught.value)


def test_archives_are_read_and_bad_ones_refused(tmp_path):
    """Key L as it was stored; anything else is one clear line."""
    values = np.random.default_rng(1).random((4, 8, 3)).astype(np.float16)
    np.savez(tmp_path / "good.npz", L=values)
    assert np.array_equal(read_environment(tmp_path / "good.npz").radiance.numpy(), values.astype(np.float32))
    np.savez(tmp_path / "key.npz", M=values)
    np.savez(tmp_path / "shape.npz", L=values[..., :2])
    np.savez(tmp_path / "whole.npz", L=np.ones((4, 8, 3), int))
    np.savez(tmp_path / "negative.npz", L=-values)
    np.savez(tmp_path / "infinite.npz", L=values * np.float16(np.inf))
    np.savez(tmp_path / "objects.npz", L=np.array([{}], dtype=object))
    (tmp_path / "garbage.npz").write_bytes(b"PK\x03\x04" + bytes(100))
    (tmp_path / "folder.npz").mkdir()
    (tmp_path / "picture.png").write_bytes(b"")
    bad = ["key", "shape", "whole", "negative", "infinite", "objects", "garbage", "folder", "missing"]
    for name in [*(f"{stem}.npz" for stem in bad), "picture.png", "missing.hdr"]:
        with pytest.raises(FileError, match=name.replace(".", r"\.")) as caught:
            read_environment(tmp_path / name)
        assert "\n" not in str(caught.value)


LIT = np.random.default_rng(2).random((4, 8, 3)).astype(np.float32)


def map_archive(header: bytes | None = None) -> bytes:
    """The bytes of an archive with the map LIT, its array's header replaced by one of the same length if given."""
    array, packed = io.BytesIO(), io.BytesIO()
    np.save(array, LIT)
    content = array.getvalue()
    if header is not None:
        content = content[:10] + header.ljust(118)[:117] + b"\n" + content[128:]
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("L.npy", content)
    return packed.getvalue()


def object_archive() -> bytes:
    packed = io.BytesIO()
    np.savez(packed, L=np.array([[[print, len, 1.0]]], dtype=object))
    return packed.getvalue()


def change_entry(at: int, value: int) -> bytes:
    """The archive with one byte of its central directory's entry changed."""
    data = bytearray(map_archive())
    data[data.rindex(b"PK\x01\x02") + at] = value
    return bytes(data)


ARCHIVES = {
    "encrypted": lambda: change_entry(8, 1),
    "needs a later version": lambda: change_entry(6, 173),
    "unknown packing": lambda: change_entry(10, 99),
    "packed by lzma, it says": lambda: change_entry(10, 14),
    "starts elsewhere": lambda: change_entry(42, 250),
    "objects": object_archive,
    "garbage header": lambda: map_archive(b"{" * 100),
    "deep header": lambda: map_archive(b"(" * 117),
    "header that calls": lambda: map_archive(b"{'descr': print(1), 'fortran_order': False, 'shape': (4, 8, 3)}"),
    "header of another type": lambda: map_archive(b"{'descr': '<q9', 'fortran_order': False, 'shape': (4, 8, 3)}"),
    "huge shape": lambda: map_archive(b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999, 999999, 3)}"),
    "negative shape": lambda: map_archive(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-4, -8, 3)}"),
    "objects, it says": lambda: map_archive(b"{'descr': '|O', 'fortran_order': False, 'shape': (4, 4, 3)}"),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_damaged_archives_are_refused_in_one_line(tmp_path, name):
    """Whatever the archive or the array's header says: a FileError that names the file, and nothing is unpickled."""
    path = tmp_path / "map.npz"
    path.write_bytes(map_archive())
    assert np.array_equal(read_environment(path).radiance.numpy(), LIT)
    path.write_bytes(ARCHIVES[name]())
    with pytest.raises(FileError, match=r"map\.npz") as caught:
        read_environment(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [0x01, 0xFF])
def test_bytes_of_an_archive(tmp_path, value):
    """Any single byte changed, every third of them looked at: refused, or the map is the same; no other exception."""
    path = tmp_path / "map.npz"
    data = map_archive()
    refused = 0
    places = range(value % 3, len(data), 3)
    for at in places:
        path.write_bytes(data[:at] + bytes([data[at] ^ value]) + data[at + 1 :])
        try:
            assert np.array_equal(read_environment(path).radiance.numpy(), LIT), at
        except FileError:
            refused += 1
    for length in range(0, len(data), 41):
        path.write_bytes(data[:length])
        with pytest.raises(FileError):
            read_environment(path)
    assert refused > len(places) / 2


def test_maps_that_are_no_light_are_refused():
    """Wrong shape, whole numbers, NaN, negative: ConstraintError."""
    ones = torch.ones(4, 8, 3)
    for wrong in (ones[0], ones[..., :2], ones.long(), ones * math.nan, -ones, ones[:1]):
        with pytest.raises(ConstraintError):
            Environment(wrong)


def spot(rows: int, row: int, column: int) -> Environment:
    """One cell of radiance 1 in the dark."""
    radiance = torch.zeros(rows, 2 * rows, 3, dtype=torch.float64)
    radiance[row, column] = 1
    return Environment(radiance)


def test_directions_of_a_map():
    """Row 0 is up, the middle column is ahead (-z), a quarter further right is +x, the edges are behind the camera."""
    environment = Environment(torch.arange(16 * 32 * 3, dtype=torch.float64).reshape(16, 32, 3))
    found = environment.lookup(environment.directions.reshape(-1, 3)).reshape(16, 32, 3)
    assert torch.allclose(found, environment.radiance, rtol=0, atol=1e-9)
    small = math.pi / 32  # half a cell
    axes = {(0, 15): (0, 1, 0), (7, 15): (0, 0, -1), (7, 23): (1, 0, 0), (7, 7): (-1, 0, 0), (7, 31): (0, 0, 1)}
    for (row, column), axis in axes.items():
        turned = environment.directions[row, column] @ torch.tensor(axis, dtype=torch.float64)
        assert turned > math.cos(1.5 * small), (row, column)


def test_lookup_goes_over_the_pole():
    """Half way between two cells on either side of the pole the light is the mean of the two."""
    environment = spot(8, 0, 3)
    pole = torch.tensor([[0.0, 1.0, 0.0]], dtype=torch.float64)
    first, other = environment.directions[0, 3], environment.directions[0, 3 + 8]
    assert torch.allclose(environment.lookup(other[None]), torch.zeros(1, 3, dtype=torch.float64), atol=1e-12)
    between = torch.nn.functional.normalize(0.8 * first + 0.2 * other, dim=0)[None]
    assert 0.5 < float(environment.lookup(between)[0, 0]) < 1
    assert 0 <= float(environment.lookup(pole)[0, 0]) <= 0.5 + 1e-12


def test_turning_and_mirroring():
    """A light ahead of the camera goes to its left by a quarter turn; a light at the right is mirrored to the left."""
    ahead, left, right = spot(16, 8, 16), spot(16, 8, 8), spot(16, 8, 23)
    assert torch.equal(ahead.turned(90).radiance, left.radiance)
    assert torch.equal(right.mirrored().radiance, left.radiance)
    assert torch.equal(ahead.turned(360).radiance, ahead.radiance)


def test_solid_angles_and_mean():
    """Cells cover the sphere, 4 pi; the mean of y^2 over the sphere is 1/3 (to the square of a cell's height)."""
    environment = studio(64)
    assert float(environment.solid_angles.sum()) * 128 == pytest.approx(4 * math.pi, rel=1e-12)
    squares = Environment((environment.directions[..., 1:2] ** 2).expand(-1, -1, 3))
    assert torch.allclose(squares.mean, torch.full((3,), 1 / 3, dtype=torch.float64), rtol=(math.pi / 64) ** 2)


def test_blurred_maps_damp_a_harmonic_as_they_must():
    """1 + x is an eigenfunction of every blur on the sphere: mean over a circle of radius r of x' is x cos r.

    Level l is blurred twice more than level l - 1, by 1/4 + 3/4 cos r with r^2 = 4 w^2, w the width so far.
    """
    rows = 64
    environment = Environment(1 + studio(rows).directions[..., :1].expand(-1, -1, 3))
    axis = torch.tensor([[1.0, 0, 0], [-1.0, 0, 0], [0, 0, 1.0], [0, 1.0, 0]], dtype=torch.float64)
    factor = 1.0
    for level, image in enumerate(polar_levels(environment, rows, 4)):
        if level:
            radius = 2 * 0.5 * math.pi / rows * 2 ** (level - 1)
            factor *= (0.25 + 0.75 * math.cos(radius)) ** 2
        expected = 1 + factor * axis[:, :1].expand(-1, 3)
        cell = math.pi / rows * 2**level
        assert torch.allclose(polar_lookup(image, axis), expected, rtol=0, atol=0.5 * cell**2), level


@pytest.mark.parametrize("row", [3, 40, 64, 126])
def test_blurred_maps_keep_the_light(row):
    """The light of a small patch, anywhere, is the same on every level: its integral over the sphere, to 1 percent."""
    radiance = torch.zeros(128, 256, 3, dtype=torch.float64)
    radiance[max(0, row - 2) : row + 3, 60:90] = 100
    environment = Environment(radiance)
    whole = float(environment.mean[0])
    for image in polar_levels(environment, 128, 4):
        assert image.min() >= 0
        assert float(Environment(image).mean[0]) == pytest.approx(whole, rel=0.01)


def test_studio_has_its_lights():
    """The key light is above left of the camera and brighter than the room; nothing is black; more light from above."""
    environment = studio(64)
    towards = torch.nn.functional.normalize(torch.tensor([[-0.75, 0.85, 0.75], [0.0, 0.3, 1.0]]).double(), dim=-1)
    key, wall = environment.lookup(towards)
    assert key.min() > 10 * wall.max()
    assert environment.radiance.min() > 0
    with pytest.raises(ConstraintError):
        studio(2)


@pytest.mark.skipif(not (DATA / "env").is_dir(), reason="needs the shared data, see CNF_DATA")
def test_a_real_map_agrees_with_its_smaller_copy():
    """1024 x 512, brightest value 3568; the stored 2 x 2 means, made by another program, to float16 rounding."""
    picture = read_environment(DATA / "env/studio_small_03_1k.hdr").radiance
    assert picture.shape == (512, 1024, 3) and float(picture.max()) == 3568
    means = picture.reshape(256, 2, 512, 2, 3).mean((1, 3))
    stored = read_environment(DATA / "env/studio_small_03_1k_512x256.npz").radiance
    assert torch.allclose(stored, means, rtol=1e-3, atol=1e-4)
