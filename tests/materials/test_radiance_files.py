"""Linear pictures: Radiance files read back by our reader, OpenEXR ones byte by byte and, where it is, by OpenEXR."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import torch

from cnf.errors import ConstraintError, FileError
from cnf.materials.rendering.environment_files import read_radiance
from cnf.materials.rendering.radiance_files import save_radiance


def light(rows: int = 12, columns: int = 300) -> torch.Tensor:
    """Radiance from 1e-9 to 1e9, black, one channel only, and a mantissa that rounds up to the next power of 2."""
    values = torch.exp(6 * torch.randn(rows, columns, 3, generator=torch.Generator().manual_seed(0))).double()
    values[0, 0], values[0, 1], values[0, 2] = 0.0, torch.tensor([0.0, 3.0, 0.0]), torch.tensor([255.9, 1.0, 2.0])
    return values


@pytest.mark.parametrize("columns", [5, 8, 300])
def test_radiance_pictures_come_back(columns, tmp_path):
    """Every channel to half a unit of the 8 bits that the brightest has; lines of more than 128 pixels, and short."""
    values = light(columns=columns)
    found = read_radiance(save_radiance(values, tmp_path / "a.hdr"))
    brightest = values.amax(-1, keepdim=True).numpy()
    assert found.shape == values.shape and (np.abs(found - values.numpy()) <= brightest / 256 * 1.001).all()
    assert (found[0, 0] == 0).all() and found[0, 1].tolist() == [0, 3, 0]


def test_openexr_pictures_byte_by_byte(tmp_path):
    """As the format's description has it: magic number, version 2, places of lines, and in each B, G, R in float32."""
    values = light(3, 4)
    content = save_radiance(values, tmp_path / "a.exr").read_bytes()
    assert struct.unpack("<2i", content[:8]) == (20000630, 2)
    start = len(content) - 3 * (8 + 4 * 4 * 3)
    assert struct.unpack("<3Q", content[start - 24 : start]) == tuple(start + k * 56 for k in range(3))
    for row in range(3):
        line = content[start + 56 * row : start + 56 * (row + 1)]
        assert struct.unpack("<2i", line[:8]) == (row, 48)
        pixels = np.frombuffer(line[8:], "<f4").reshape(3, 4)
        np.testing.assert_array_equal(pixels, values[row].numpy().astype(np.float32).T[::-1])


def test_openexr_pictures_by_openexr(tmp_path):
    """The library itself reads every pixel back."""
    package = pytest.importorskip("OpenEXR")
    values = light()
    found = package.File(str(save_radiance(values, tmp_path / "a.exr"))).channels()["RGB"].pixels
    np.testing.assert_array_equal(found, values.numpy().astype(np.float32))


def test_what_is_not_written(tmp_path):
    """Other endings, other shapes, and light that is not finite; a little below 0, as of a path tracer, is 0."""
    with pytest.raises(FileError, match=r"\.hdr or \.exr"):
        save_radiance(light(), tmp_path / "a.png")
    for wrong in (
        torch.zeros(4, 4),
        torch.full((4, 4, 3), torch.nan),
        torch.full((4, 4, 3), 1e300, dtype=torch.float64),
    ):
        with pytest.raises(ConstraintError):
            save_radiance(wrong, tmp_path / "a.exr")
    assert (read_radiance(save_radiance(torch.full((4, 8, 3), -1e-6), tmp_path / "a.hdr")) == 0).all()
    assert [path.name for path in tmp_path.iterdir()] == ["a.hdr"]
