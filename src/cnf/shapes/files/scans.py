"""Files, reading scans: LAS and LAZ by `laspy`, E57 by `pye57`, which are optional. A path comes in, `Decoded` out.

These packages trust the counts that they find, so the headers are looked at here first: no more points than the file
has room for. Of what else is said of a point, colours, intensity and normals are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from cnf.errors import FileError, MissingExtraError
from cnf.meshes.decoded import Decoded
from cnf.reading.sources import show

SHORTEST, HEAD = 227, 375  # bytes of the headers of LAS 1.0 and 1.4
PER_BYTE = 4  # packed points: real ones take several bytes each, and two bits are less than any has
CHUNK = 1 << 20  # points at a time
COLOURS, NORMALS = ("red", "green", "blue"), ("normalx", "normaly", "normalz")


def read_las(source: Path) -> Decoded:
    """Decode a LAS or LAZ file that `check_source` has passed."""
    count = check_las(source)
    laspy = find_package("laspy", f"{source}: LAS and LAZ files need laspy", "'laspy[lazrs]'")
    return guarded(lambda: decode_las(laspy, source, count), source, "LAS or LAZ")


def read_e57(source: Path) -> Decoded:
    """Decode an E57 file that `check_source` has passed: all of its scans, each where its pose puts it."""
    with source.open("rb") as file:
        opening = file.read(48)
    if not opening.startswith(b"ASTM-E57"):
        raise FileError(f"{source} is not an E57 file: it starts with {show(opening[:12])}, not with 'ASTM-E57'")
    length = int.from_bytes(opening[16:24], "little")
    if length > source.stat().st_size:
        raise FileError(f"{source} promises {length} bytes, but has {source.stat().st_size}: it was cut short")
    pye57 = find_package("pye57", f"{source}: E57 files need pye57", "pye57")
    return guarded(lambda: decode_e57(pye57, source), source, "E57")


def find_package(name: str, need: str, installed: str) -> ModuleType:
    """An optional package, or how to get it."""
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtraError.of(need, installed, "formats") from None


def guarded(decode: Callable[[], Decoded], source: Path, what: str) -> Decoded:
    """What `decode` finds; whatever else happens in the package, one line."""
    try:
        return decode()
    except (FileError, MissingExtraError, MemoryError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # panics of compiled code are no `Exception`
        reason = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
        raise FileError(f"{source} is damaged, or no {what} file that can be read ({reason})") from None


# ---- LAS and LAZ


def check_las(source: Path) -> int:
    """How many points a file promises, if it has room for them; its lists of records are held against its size too."""
    size = source.stat().st_size
    with source.open("rb") as file:
        head = file.read(HEAD)
        if head[:4] != b"LASF":
            raise FileError(f"{source} is not a LAS file: it starts with {show(head[:8])}, not with 'LASF'")
        if len(head) < SHORTEST:
            raise FileError(f"{source} ends in its header, after {len(head)} bytes: it was cut short")

        def number(start: int, width: int) -> int:
            return int.from_bytes(head[start : start + width], "little")

        version, length, start, records = (head[24], head[25]), number(94, 2), number(96, 4), number(100, 4)
        packed, row, count = bool(head[104] & 0xC0), number(105, 2), number(107, 4)
        extended, later = 0, 0
        if version >= (1, 4):
            count, extended, later = number(247, 8) or count, number(243, 4), number(235, 8)
        if length < SHORTEST or start < length or start > size or start - length < 54 * records or row < 20:
            raise FileError(f"{source}: its header does not fit its {size} bytes; it was cut short or is damaged")
        room = PER_BYTE * (size - start) if packed else (size - start) // row
        if count > room or (extended and later + 60 * extended > size):
            raise FileError(
                f"{source} promises {count} points, but has room for {room}: it was cut short or is damaged"
            )
        if packed:  # the table of its pieces, of which none is empty
            file.seek(start)
            table = int.from_bytes(file.read(8), "little")
            if start < table < size - 8:
                file.seek(table + 4)
                if int.from_bytes(file.read(4), "little") > count + 1:
                    raise FileError(f"{source} promises more pieces than points; it is damaged")
    return count


def decode_las(laspy: Any, source: Path, count: int) -> Decoded:
    """Points, colours and intensity; normals where an extra column of that name has them."""
    parts = list(_las_columns(laspy, source, CHUNK))
    if sum(len(place) for place, _ in parts) != count:
        raise FileError(f"{source} promises {count} points, but has fewer: it was cut short or is damaged")
    if not parts:
        raise FileError(f"{source} holds no points")
    found = {key: np.concatenate([values[key] for _, values in parts]) for key in parts[0][1]}
    normals = stack(found, *NORMALS)
    return Decoded(np.concatenate([place for place, _ in parts]), normals, None, attributes_of(found))


def iterate_las(laspy: Any, source: Path, most: int) -> Iterator[Decoded]:
    """The same, at most so many points at a time; columns that are zero in all of the file are left out."""
    used: dict[str, float] = {}
    for _, values in _las_columns(laspy, source, most):
        used |= {name: max(used.get(name, 0.0), float(column.max(initial=0))) for name, column in values.items()}
    largest = max((used.get(name, 0.0) for name in COLOURS), default=0.0)
    for place, values in _las_columns(laspy, source, most):
        attributes = {}
        if largest and all(name in values for name in COLOURS):
            attributes["colours"] = np.stack([values[name] for name in COLOURS], axis=1) / (
                65535 if largest > 255 else 255
            )
        if used.get("intensity"):
            attributes["intensity"] = values["intensity"]
        yield Decoded(place, stack(values, *NORMALS), None, attributes)


def _las_columns(laspy: Any, source: Path, most: int) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
    """Places (n, 3) and what is used of the rest, by lower-case names (n,)."""
    with laspy.open(str(source)) as file:
        if file.header.are_points_compressed and not laspy.LazBackend.detect_available():
            raise MissingExtraError.of(f"{source}: LAZ files need a package that unpacks them", "lazrs", "formats")
        names = {name.lower().replace("_", ""): name for name in file.header.point_format.dimension_names}
        wanted = [key for key in (*COLOURS, "intensity", *NORMALS) if key in names]
        for points in file.chunk_iterator(most):
            place = np.stack([np.asarray(points[axis], dtype=np.float64) for axis in "xyz"], axis=1)
            yield place, {key: np.asarray(points[names[key]]).astype(np.float64) for key in wanted}


# ---- E57


def decode_e57(pye57: Any, source: Path) -> Decoded:
    """Points, colours and intensity of all scans; what only some of them have is left out."""
    size, total = source.stat().st_size, 0
    places: list[np.ndarray] = []
    values: list[dict[str, np.ndarray]] = []
    file = pye57.E57(str(source))
    try:
        for number in range(file.scan_count):
            total += file.get_header(number).point_count
            if total > PER_BYTE * size:
                raise FileError(f"{source} promises {total} points in {size} bytes; it is damaged")
        for number in range(file.scan_count):
            if not file.get_header(number).point_count:
                continue
            scan = file.read_scan(number, intensity=True, colors=True, ignore_missing_fields=True)
            places.append(np.stack([scan.pop(f"cartesian{axis}") for axis in "XYZ"], axis=1))
            values.append({name.lower().removeprefix("color"): column for name, column in scan.items()})
    finally:
        file.close()
    if not places:
        raise FileError(f"{source} holds no points")
    shared = [name for name in (*COLOURS, "intensity") if all(name in scan for scan in values)]
    found = {name: np.concatenate([scan[name] for scan in values]).astype(np.float64) for name in shared}
    notes = (f"the points of {len(places)} scans were put together",) if len(places) > 1 else ()
    return Decoded(np.concatenate(places), None, None, attributes_of(found), notes)


def attributes_of(found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Colours and intensity, if any: columns that are zero throughout are what scanners write for nothing."""
    attributes = {}
    colours = stack(found, *COLOURS)
    if colours is not None and colours.any():
        attributes["colours"] = colours / (65535 if colours.max() > 255 else 255)
    if "intensity" in found and found["intensity"].any():
        attributes["intensity"] = found["intensity"]
    return attributes


def stack(found: dict[str, np.ndarray], *names: str) -> np.ndarray | None:
    """Columns (P,) side by side (P, k), if all are there."""
    return np.stack([found[name] for name in names], axis=1) if all(name in found for name in names) else None
