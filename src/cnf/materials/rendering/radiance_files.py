"""Files of linear radiance: pictures as light, for compositing, other tone curves and measurements.

In: linear RGB radiance (H, W, 3), not negative. Out: a Radiance picture (`.hdr`: 8 bits per channel and a shared
exponent, right to 0.4 % of a pixel's brightest channel) or an OpenEXR one (`.exr`: float32, not compressed). Both take
linear sRGB primaries for granted, as we do.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
from torch import Tensor

from cnf.errors import ConstraintError, FileError
from cnf.files import as_path, write_atomically

LONGEST_COPY = 128  # bytes that are written as they are, in a packed line of a Radiance picture
FLOAT = 2  # OpenEXR's number for float32
SMALLEST, LARGEST = 2.0**-127, 2.0**127  # brightest channels that a shared exponent can hold


def save_radiance(radiance: Tensor, path: object) -> Path:
    """Write linear radiance (H, W, 3) as `.hdr` or `.exr`, whole or not at all."""
    target = as_path(path)
    encoders: dict[str, Callable[[np.ndarray], bytes]] = {".hdr": encode_hdr, ".exr": encode_exr}
    encode = encoders.get(target.suffix.lower())
    if encode is None:
        raise FileError(f"linear radiance is written as {' or '.join(encoders)}; got {str(target)!r}")
    if not isinstance(radiance, Tensor) or radiance.ndim != 3 or radiance.shape[2] != 3 or 0 in radiance.shape:
        shape = tuple(radiance.shape) if isinstance(radiance, Tensor) else type(radiance).__name__
        raise ConstraintError(f"radiance must be a tensor of shape (H, W, 3), got {shape}")
    values = radiance.detach().cpu().double().numpy()
    if not np.isfinite(values).all() or values.max() >= LARGEST:
        raise ConstraintError("radiance must be finite, and in the range of single precision, to be written")
    content = encode(np.maximum(values, 0.0))
    return write_atomically(target, lambda temporary: Path(temporary).write_bytes(content))


def encode_hdr(values: np.ndarray) -> bytes:
    """A Radiance picture of (H, W, 3), in packed lines that hold copies only; short lines are not packed."""
    rows, columns = values.shape[:2]
    head = f"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y {rows} +X {columns}\n".encode()
    pixels = share_exponents(values)
    if not 8 <= columns < 2**15:
        return head + pixels.tobytes()
    parts = [head]
    for line in pixels:
        parts.append(b"\x02\x02" + columns.to_bytes(2, "big"))
        for channel in line.T:
            for start in range(0, columns, LONGEST_COPY):
                some = channel[start : start + LONGEST_COPY].tobytes()
                parts += [bytes([len(some)]), some]
    return b"".join(parts)


def share_exponents(values: np.ndarray) -> np.ndarray:
    """Red, green, blue and exponent (H, W, 4) in bytes: mantissas of 8 bits, rounded, for one power of 2."""
    brightest = values.max(axis=-1)
    _, power = np.frexp(brightest)  # brightest = m 2^power, 1/2 <= m < 1
    power = power + (np.rint(np.ldexp(brightest, 8 - power)) > 255)  # 255.7 would need nine bits
    mantissas = np.rint(np.ldexp(values, 8 - power[..., None]))
    pixels = np.concatenate([mantissas, power[..., None] + 128.0], axis=-1)
    return np.where((brightest > SMALLEST)[..., None], pixels, 0).clip(0, 255).astype(np.uint8)


def encode_exr(values: np.ndarray) -> bytes:
    """An OpenEXR picture of (H, W, 3): one part, lines from the top, channels B, G, R in float32."""
    rows, columns = values.shape[:2]
    window = struct.pack("<4i", 0, 0, columns - 1, rows - 1)
    channels = b"".join(name + b"\0" + struct.pack("<iIii", FLOAT, 0, 1, 1) for name in (b"B", b"G", b"R")) + b"\0"
    attributes = (
        (b"channels", b"chlist", channels),
        (b"compression", b"compression", b"\0"),  # none
        (b"dataWindow", b"box2i", window),
        (b"displayWindow", b"box2i", window),
        (b"lineOrder", b"lineOrder", b"\0"),  # downwards
        (b"pixelAspectRatio", b"float", struct.pack("<f", 1.0)),
        (b"screenWindowCenter", b"v2f", struct.pack("<2f", 0.0, 0.0)),
        (b"screenWindowWidth", b"float", struct.pack("<f", 1.0)),
    )
    parts = [name + b"\0" + kind + b"\0" + struct.pack("<i", len(value)) + value for name, kind, value in attributes]
    head = struct.pack("<2i", 20000630, 2) + b"".join(parts) + b"\0"
    size = 3 * 4 * columns
    first = len(head) + 8 * rows  # after the places of all lines, each 8 bytes of heading and its pixels
    places = np.arange(rows, dtype="<u8") * (8 + size) + first
    lines = np.empty(rows, dtype=[("row", "<i4"), ("size", "<i4"), ("pixels", "<f4", (3, columns))])
    lines["row"], lines["size"] = np.arange(rows), size
    lines["pixels"] = values[:, :, ::-1].transpose(0, 2, 1)
    return head + places.tobytes() + lines.tobytes()
