"""Images: pictures made small enough for a repository, and looked at before they are kept."""

from __future__ import annotations

import io
from pathlib import Path

from cnf.files import write_atomically

LARGEST = 400_000  # bytes
WIDEST, NARROWEST = 1800, 400  # pixels
COLOURS = 256


def shrink_picture(path: Path, largest: int = LARGEST) -> Path:
    """Write a PNG file again, no wider than WIDEST and with a palette; narrower still until it is small enough."""
    from PIL import Image

    with Image.open(path) as opened:
        picture = opened.convert("RGB")
    width = min(WIDEST, picture.width)
    while True:
        height = max(1, round(picture.height * width / picture.width))
        scaled = picture if width == picture.width else picture.resize((width, height), Image.Resampling.LANCZOS)
        stream = io.BytesIO()
        scaled.quantize(COLOURS, dither=Image.Dither.NONE).save(stream, "PNG", optimize=True)
        if stream.tell() <= largest or width <= NARROWEST:
            break
        width = int(width * 0.9)
    data = stream.getvalue()
    return write_atomically(path, lambda file: file.write_bytes(data))
