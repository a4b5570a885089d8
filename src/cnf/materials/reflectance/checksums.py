"""Reflectance: whether a copy of MERL's files is whole and unchanged, by their published sizes and SHA-256.

In comes a `.binary` file or a folder of them; out goes one `Checked` per file. The list of checksums is part of the
package, the measurements are not.
"""

from __future__ import annotations

import csv
import warnings
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from cnf.errors import FileError, StorageWarning, nearest
from cnf.files import as_path, hash_file
from cnf.reading.sources import check_source


@dataclass(frozen=True)
class Checked:
    """One file compared with the list: status "ok", "changed", "wrong size" or "unknown", and a line that explains."""

    name: str
    status: str
    message: str
    material: str | None = None  # MERL's own name of these bytes, if they are MERL's


@dataclass(frozen=True)
class MerlFile:
    """One of MERL's files, its bytes verified: what a table about MERL may be made from."""

    path: Path
    name: str  # MERL's own, whatever the file is called

    @property
    def label(self) -> str:
        return f"MERL {self.name}"


@dataclass(frozen=True)
class Known:
    """What is known of one of MERL's files."""

    size: int  # bytes
    sha256: str


def check_merl(path: object) -> list[Checked]:
    """Compare a `.binary` file, or all of a folder, with the list of MERL's files."""
    return [check_file(file) for file in list_files(path)]


def find_merl(folder: object, strict: bool = False) -> list[MerlFile]:
    """MERL's materials in a folder, in order of their names: the files whose bytes are those of MERL's.

    Files that should be MERL's and are not are refused, all in one line; others are left out with a warning, or refused
    too if `strict`. Second copies are left out with a warning.
    """
    checked = [(file, check_file(file)) for file in list_files(folder)]
    bad = [f"{file.name} ({found.status})" for file, found in checked if found.status in ("changed", "wrong size")]
    if bad:
        raise FileError(
            f"{len(bad)} of {len(checked)} files in {folder} are not as MERL published them: {', '.join(bad)[:500]}; "
            "fetch them again or take them out"
        )
    unknown = [file.name for file, found in checked if found.material is None]
    if strict and unknown:
        raise FileError(
            f"{len(unknown)} of {len(checked)} files in {folder} are none of MERL's {len(list_known())}, by name or by "
            f"contents: {', '.join(unknown)[:500]}; take them out (--material takes tables of your own)"
        )
    verified: dict[str, MerlFile] = {}
    left_out = []
    for file, found in checked:
        if found.material is None or found.material in verified:
            left_out.append(f"{file.name} ({'a second copy' if found.material else 'not one of them'})")
        else:
            verified[found.material] = MerlFile(file, found.material)
    if not verified:
        raise FileError(f"none of the {len(checked)} .binary files in {folder} is one of MERL's materials")
    if left_out:
        warnings.warn(
            f"left out, of MERL's files in {folder}: {', '.join(left_out)[:500]}", StorageWarning, stacklevel=2
        )
    return [verified[name] for name in sorted(verified)]


def list_files(path: object) -> list[Path]:
    """The file itself, or the `.binary` files of a folder, in order of their names."""
    target = as_path(path)
    try:
        if not target.is_dir():
            return [check_source(target)]
        files = sorted(file for file in target.iterdir() if file.suffix.lower() == ".binary")
    except OSError as error:
        raise FileError(f"{target} cannot be read: {error.strerror or error}") from None
    if not files:
        raise FileError(f"there is no file ending in .binary in {target}; give the folder that holds MERL's files")
    return [check_source(file) for file in files]


def check_file(source: Path) -> Checked:
    """Compare one file that is there."""
    name = source.stem
    known = list_known()
    expected = known.get(name)
    try:
        size = source.stat().st_size
        if expected is not None and size != expected.size:
            return Checked(name, "wrong size", f"it has {size} bytes instead of {expected.size}; fetch it again")
        digest = hash_file(source)
    except OSError as error:
        raise FileError(f"{source} cannot be read: {error.strerror or error}") from None
    if expected is not None and digest == expected.sha256:
        return Checked(name, "ok", "size and SHA-256 are those of MERL's file", name)
    other = find_name(digest)
    if expected is None and other is not None:
        return Checked(name, "ok", f"these are the bytes of MERL's {other}, under another name", other)
    if expected is None:
        return Checked(name, "unknown", f"none of MERL's {len(known)} materials.{nearest(name, known)}")
    what = f"these are the bytes of MERL's {other}" if other else "its SHA-256 is not that of MERL's file"
    return Checked(name, "changed", f"{what}; fetch it again")


def find_name(sha256: str) -> str | None:
    """The material whose file has this SHA-256."""
    return next((name for name, known in list_known().items() if known.sha256 == sha256), None)


@cache
def list_known() -> dict[str, Known]:
    """MERL's hundred files by name."""
    text = resources.files("cnf.materials.reflectance").joinpath("merl_checksums.csv").read_text(encoding="utf-8")
    return {row["name"]: Known(int(row["bytes"]), row["sha256"]) for row in csv.DictReader(text.splitlines())}
