"""Files of environment maps, read as data from strangers.

In: the name of a Radiance picture (`.hdr`) or of a NumPy archive (`.npz`, key `L`).
Out: linear RGB radiance (H, W, 3) as float32, finite and not negative.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from cnf.errors import FileError
from cnf.files import as_path
from cnf.reading.arrays import read_arrays
from cnf.reading.sources import check_source, read_bytes

LARGEST_FILE = 2**28  # bytes
LARGEST_PIXELS = 2**26  # 8192 x 8192
HEADER = 16384  # bytes within which the picture must start


def read_radiance(path: object) -> np.ndarray:
    """The radiance (H, W, 3) of a `.hdr` or `.npz` file."""
    source = as_path(path)
    readers = {".hdr": read_hdr, ".pic": read_hdr, ".npz": read_npz}
    reader = readers.get(source.suffix.lower())
    if reader is None:
        raise FileError(f"{source} is not a known environment map; expected one of {', '.join(readers)}")
    return reader(check_source(source, LARGEST_FILE))


def read_npz(source: Path) -> np.ndarray:
    """Key `L` of a NumPy archive."""
    arrays = read_arrays(source, 8 * 3 * LARGEST_PIXELS)
    if "L" not in arrays:
        raise FileError(f"{source} has no array 'L' (rows, columns, 3); it holds {', '.join(sorted(arrays)[:8])}")
    values = arrays["L"]
    if values.ndim != 3 or values.shape[2] != 3 or not np.issubdtype(values.dtype, np.floating):
        raise FileError(f"{source}: 'L' is {values.dtype} of shape {values.shape}; expected floats (rows, columns, 3)")
    values = values.astype(np.float32)
    if not np.isfinite(values).all() or (values < 0).any():
        raise FileError(f"{source}: 'L' must be finite and not negative")
    return values


def read_hdr(source: Path) -> np.ndarray:
    """A Radiance picture: text header, resolution line, then scanlines of shared-exponent pixels, packed or flat."""
    data = read_bytes(source)
    if not data.startswith(b"#?"):
        raise FileError(f"{source} is not a Radiance picture: it must begin with '#?RADIANCE'")
    head = re.search(rb"\n\r?\n", data[:HEADER])
    if head is None:
        raise FileError(f"{source} is damaged: its header does not end")
    header = data[: head.start()].decode("latin-1")
    form = re.search(r"^FORMAT=(\S+)", header, re.MULTILINE)
    if form is not None and form.group(1) != "32-bit_rle_rgbe":
        raise FileError(f"{source} has pixels of format {form.group(1)}; only 32-bit_rle_rgbe is read")
    size = re.match(rb"-Y (\d{1,6}) \+X (\d{1,6})\r?\n", data[head.end() : head.end() + 64])
    if size is None:
        raise FileError(f"{source} has no resolution line '-Y rows +X columns'; other orientations are not read")
    rows, columns = int(size.group(1)), int(size.group(2))
    if not 2 <= rows * columns <= LARGEST_PIXELS or rows < 2 or columns < 4:
        raise FileError(f"{source} has {rows} x {columns} pixels; expected 2 x 4 to {LARGEST_PIXELS} in all")
    pixels = _scanlines(source, data, head.end() + size.end(), rows, columns)
    scale = np.ldexp(np.float32(1.0), pixels[..., 3:].astype(np.int32) - 136)  # mantissa / 256 times 2^(e - 128)
    values = pixels[..., :3].astype(np.float32) * np.where(pixels[..., 3:] > 0, scale, np.float32(0))
    values /= np.float32(_exposure(source, header))
    if not np.isfinite(values).all():
        raise FileError(f"{source} has radiance too large for single precision")
    return values


def _exposure(source: Path, header: str) -> float:
    """The product of all exposures in the header: what the pixels have been multiplied with."""
    product = 1.0
    for word in re.findall(r"^EXPOSURE=[ \t]*(\S{0,40})", header, re.MULTILINE):
        try:
            product *= float(word)
        except ValueError:
            product = 0.0
    if not 1e-20 < product < 1e20:
        raise FileError(f"{source} has an exposure that is not a positive number")
    return product


def _scanlines(source: Path, data: bytes, start: int, rows: int, columns: int) -> np.ndarray:
    """Pixels (rows, columns, 4) of bytes."""
    flat = rows * columns * 4
    packed = 8 <= columns < 32768 and data[start : start + 2] == b"\x02\x02"
    if not packed:
        if len(data) - start < flat:
            raise FileError(
                f"{source} is cut short: {rows} x {columns} pixels need {flat} bytes, {len(data) - start} left"
            )
        return np.frombuffer(data, np.uint8, flat, start).reshape(rows, columns, 4)
    pixels = np.empty((rows, 4, columns), np.uint8)
    at = start
    for row in range(rows):
        if data[at : at + 2] != b"\x02\x02" or int.from_bytes(data[at + 2 : at + 4], "big") != columns:
            raise FileError(f"{source} is damaged or cut short at row {row + 1} of {rows}")
        at += 4
        for channel in range(4):
            at = _run_lengths(source, data, at, pixels[row, channel], row, rows)
    return pixels.transpose(0, 2, 1)


def _run_lengths(source: Path, data: bytes, at: int, line: np.ndarray, row: int, rows: int) -> int:
    """Fill one channel of one row from runs and copies; returns where the next begins."""
    done, columns = 0, len(line)
    while done < columns:
        count = data[at] if at < len(data) else 0
        run = count > 128
        count -= 128 * run
        need = 1 if run else count
        if count == 0 or done + count > columns or at + 1 + need > len(data):
            raise FileError(f"{source} is damaged or cut short at row {row + 1} of {rows}")
        line[done : done + count] = data[at + 1] if run else np.frombuffer(data, np.uint8, count, at + 1)
        at += 1 + need
        done += count
    return at
