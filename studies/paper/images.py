"""Images: pictures made small enough for a repository, and looked at before they are kept."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from cnf.files import write_atomically

LARGEST = 400_000  # bytes
WIDEST, NARROWEST = 1800, 800  # pixels
COLOURS = 256


def shrink_picture(path: Path, largest: int = LARGEST) -> Path:
    """Write a PNG file again, no wider than WIDEST, and narrower as long as it is too large.

    A palette comes last: of renderings and maps it leaves bands.
    """
    from PIL import Image

    with Image.open(path) as opened:
        picture = opened.convert("RGB")
    width = min(picture.width, WIDEST)
    data = _pack(_scale(picture, width))
    while len(data) > largest and width > NARROWEST:
        width = int(0.93 * width)
        data = _pack(_scale(picture, width))
    if len(data) > largest:
        data = _pack(_scale(picture, width).quantize(COLOURS, dither=Image.Dither.FLOYDSTEINBERG))
    return write_atomically(path, lambda file: file.write_bytes(data))


def _scale(picture: Any, width: int) -> Any:
    from PIL import Image

    if width == picture.width:
        return picture
    return picture.resize((width, max(1, round(picture.height * width / picture.width))), Image.Resampling.LANCZOS)


def _pack(picture: Any) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, "PNG", optimize=True)
    return stream.getvalue()
