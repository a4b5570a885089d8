"""Files, reading: bytes packed by LibLZF, as PCD files have them. Packed bytes come in, so many plain ones come out."""

from __future__ import annotations

from pathlib import Path

from cnf.errors import FileError

MOST = 264  # plain bytes that three packed ones can stand for


def unpack_lzf(packed: memoryview, size: int, source: Path) -> bytearray:
    """The plain bytes, which must be `size`; a promise beyond what can be packed so is refused before it is kept."""
    if size > MOST * len(packed):
        raise FileError(f"{source} promises {size} bytes in {len(packed)} packed ones: it is damaged")
    plain, place, end = bytearray(), 0, len(packed)
    while place < end:
        control = packed[place]
        place += 1
        if control < 32:  # bytes as they are
            plain += packed[place : place + control + 1]
            place += control + 1
            damaged = place > end
        else:  # bytes that were there before, from `back` on
            length = control >> 5
            if length == 7 and place < end:
                length += packed[place]
                place += 1
            damaged = place >= end
            back = 0 if damaged else ((control & 31) << 8) + packed[place] + 1
            place += 1
            start = len(plain) - back
            damaged = damaged or start < 0
            if not damaged:
                piece = plain[start : start + length + 2]
                plain += (piece * ((length + 2) // len(piece) + 1))[: length + 2]  # it may run into itself
        if damaged or len(plain) > size:
            break
    if len(plain) != size or place != end:
        raise FileError(f"{source}: its packed bytes do not unpack to the {size} that are promised; it is damaged")
    return plain
