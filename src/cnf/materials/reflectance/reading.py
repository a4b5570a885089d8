"""Reflectance, reading: `read_material` and `list_materials` choose the decoder by a file's ending and content.

In comes a path, or words for a generated material such as "ggx:gold:0.1"; out goes a `Material`, and a `FileError` of
one line for whatever is wrong. Nothing is unpickled; sizes are bounded before memory is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import torch

from cnf.errors import ConstraintError, FileError, nearest
from cnf.files import as_path
from cnf.materials.reflectance.analytic import GGX, Colour, Lambert, plastic
from cnf.materials.reflectance.material import Material, simplify_name
from cnf.materials.reflectance.merl import SHAPE, Table, read_merl
from cnf.materials.reflectance.nbrdf import is_packed, unpack
from cnf.materials.reflectance.scattered import decode_scattered, is_scattered, read_scattered
from cnf.reading.arrays import read_arrays
from cnf.reading.sources import check_source

LARGEST = 1 << 28  # bytes of an archive, unpacked
WORDS = ("lambert", "ggx", "plastic")
USES = "lambert:0.5, ggx:gold:0.1, ggx:0.9,0.5,0.2:0.1 or plastic:0.8,0.1,0.1:0.1"
ENDINGS = (".binary", ".bsdf", ".npz", ".csv")


def read_material(path: object, name: str | None = None) -> Material:
    """Read one material: MERL `.binary`, RGL `.bsdf`, `.npz` (networks, a table, scattered), `.csv` (scattered).

    `name` chooses from an archive of several. Words make a generated material: "lambert:0.5", "ggx:gold:0.1".

    >>> cnf.materials.read_material("lambert:0.5").label
    'Lambert 0.5'
    """
    if is_generated(path):
        return generate(str(path))
    source, ending = check_ending(path)
    if ending == ".npz":
        return choose(decode_archive(source), name, source)
    return choose({name_single(source): lambda: read_single(source, ending)}, name, source)


def list_materials(path: object) -> list[str]:
    """Names of the materials in a file, sorted.

    >>> cnf.materials.list_materials("missing.npz")
    Traceback (most recent call last):
        ...
    cnf.errors.FileError: ...
    """
    if is_generated(path):
        return [generate(str(path)).name]
    source, ending = check_ending(path)
    return sorted(decode_archive(source)) if ending == ".npz" else [name_single(source)]


def name_single(source: Path) -> str:
    """The name of the only material in a file."""
    return simplify_name(source.stem.removesuffix("_rgb"))


def read_single(source: Path, ending: str) -> Material:
    """A file that holds one material."""
    if ending == ".bsdf":
        from cnf.materials.reflectance.rgl import read_rgl

        return read_rgl(source)
    return read_merl(source) if ending == ".binary" else read_scattered(source)


def decode_archive(source: Path) -> dict[str, Callable[[], Material]]:
    """How to make each material of an NPZ archive, by name."""
    arrays = read_arrays(source, LARGEST)
    if is_packed(arrays):
        return dict(unpack(arrays, source))
    if "f" in arrays and arrays["f"].shape == (*SHAPE, 3):
        return {name_table(source): partial(decode_table, arrays["f"], source)}
    if is_scattered(arrays):
        return dict(decode_scattered(arrays, source))
    raise FileError(
        f"{source} holds no material this can read; its arrays are {', '.join(sorted(arrays))[:200] or 'none'}; "
        f"expected networks (names, W1, b1, ...), a table f {(*SHAPE, 3)}, or scattered measurements (angles, values)"
    )


def decode_table(values: np.ndarray, source: Path) -> Table:
    """A table on MERL's grid, negative where not known, labelled by the file's name."""
    if values.dtype.kind != "f":
        raise FileError(f"{source}: its array 'f' has {values.dtype}; expected floating-point numbers")
    numbers = torch.from_numpy(values.astype(np.float64 if values.dtype.itemsize > 4 else np.float32))
    if not torch.isfinite(numbers).all():
        raise FileError(f"{source}: its array 'f' has entries that are not finite; mark unknown ones with -1")
    if not (numbers >= 0).any():
        raise FileError(f"{source}: all entries of its array 'f' are marked as unknown")
    name = name_table(source)
    return Table(
        name,
        f"RGL {name}" if source.stem.startswith("rgl_") else f"table {name}",
        torch.where(numbers < 0, torch.nan, numbers),
    )


def name_table(source: Path) -> str:
    """cg_sunflower for rgl_cg_sunflower_merlgrid.npz."""
    return simplify_name(source.stem.removesuffix("_merlgrid").removeprefix("rgl_"))


def choose(found: Mapping[str, Callable[[], Material]], name: str | None, source: Path) -> Material:
    """The material of that name, or the only one."""
    if name is None:
        if len(found) == 1:
            return next(iter(found.values()))()
        some = ", ".join(sorted(found)[:5])
        raise FileError(
            f"{source} holds {len(found)} materials ({some}, ...); choose one with --name, such as "
            f"{source.name} --name {min(found)}"
        )
    wanted = name if name in found else name.removesuffix("_rgb")
    if wanted not in found:
        some = ", ".join(sorted(found)[:5]) + (", ..." if len(found) > 5 else "")
        raise FileError(f"{source} holds no material {name!r}; it has {some}.{nearest(name, found)}")
    return found[wanted]()


def check_ending(path: object) -> tuple[Path, str]:
    """A file that is there, and its ending, which is one that can be read."""
    target = as_path(path)
    ending = target.suffix.lower()
    try:
        missing = not target.exists()
    except (OSError, ValueError):  # a name too long, or with a null byte in it
        missing = True
    if missing and ending not in ENDINGS:
        raise FileError(f"there is no file {target}; a generated material is written {USES}")
    source = check_source(target)
    if ending not in ENDINGS:
        raise FileError(f"{source}: no reader for materials ending in {ending!r}; expected {', '.join(ENDINGS)}")
    return source, ending


def is_generated(path: object) -> bool:
    """Whether the words name a generated material: lambert, ggx or plastic, perhaps with parameters."""
    return isinstance(path, str) and path.split(":")[0].lower() in WORDS


def generate(words: str) -> Material:
    """A generated material from words such as "lambert:0.5", "ggx:gold:0.1" or "plastic:0.8,0.1,0.1:0.1"."""
    kind, *parts = words.lower().split(":")
    try:
        if kind == "lambert" and len(parts) <= 1:
            return Lambert(parse_colour(parts[0])) if parts else Lambert()
        if kind in ("ggx", "plastic") and len(parts) <= 2:
            alpha = float(parts[1]) if len(parts) > 1 else 0.1
            if kind == "plastic":
                return plastic(parse_colour(parts[0]) if parts else (0.8, 0.1, 0.1), alpha)
            look: Colour | str = (parts[0] if parts[0].isalpha() else parse_colour(parts[0])) if parts else "chrome"
            return GGX(look, alpha)
    except ValueError:
        pass
    except ConstraintError as error:
        raise FileError(f"{words!r}: {error}") from None
    raise FileError(f"{words!r} is no generated material; expected {USES}")


def parse_colour(text: str) -> Colour:
    """'0.5' or '0.8,0.1,0.1'."""
    values = [float(part) for part in text.split(",")]
    if len(values) == 1:
        values *= 3
    if len(values) != 3:
        raise ValueError(text)
    return values[0], values[1], values[2]
