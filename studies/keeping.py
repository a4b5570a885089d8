"""Rows kept on disk: one file per finished case, written whole and at once, so that a study can be stopped anywhere.

`cases/NAME.json` in the study's folder holds the settings, the case and its row. A file that is damaged, of another
case, or has lost a file that belongs to it counts as not there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cnf.errors import CnfError, FileError
from cnf.files import read_text, write_text
from cnf.reading.arrays import read_arrays
from studies.machine import describe_machine
from studies.study import UNFINISHED, Case, Desk, Row, Study, as_plain

LARGEST, LARGEST_ARRAYS = 64 * 2**20, 2**28  # bytes of a file


def keep_row(study: Study, case: Case, row: Row, desk: Desk) -> None:
    """Write a row, finished or failed."""
    files = {name: _digest(desk.folder / name) for name in desk.files}
    kept = {"study": study.name, "settings": study.settings(), "case": case, "files": files, "row": row}
    kept["machine"] = describe_machine(study.threads)
    write_text(_place(desk.folder, desk.name), json.dumps(kept, indent=1) + "\n")
    desk.unfinished(study.settings()).unlink(missing_ok=True)  # of a case that failed too: it may be why


def find_rows(study: Study, folder: Path, restart: bool = False) -> dict[str, Row]:
    """What earlier runs finished, by the names of the cases; results of other settings are refused, or removed."""
    wanted, found = as_plain(study.settings()), {}
    if restart:
        for path in (folder / "cases").glob(f"{study.name}_*{UNFINISHED}"):
            path.unlink()
    for path, kept in list(_read_all(study, folder)):
        if restart:
            path.unlink()
        elif kept["settings"] != wanted:
            raise CnfError(
                f"{folder} has results of other settings ({compare(kept['settings'], wanted)}); choose another --out, "
                "or give --restart to remove them"
            )
        elif "failed" not in kept["row"] and all(
            _digest(folder / name) == digest for name, digest in kept["files"].items()
        ):
            found[path.stem] = {**kept["row"], "case": kept["case"]}
    cases = {study.name_case(case): as_plain(case) for case in study.cases()}
    return {name: row for name, row in found.items() if row.pop("case") == cases.get(name)}


def compare(found: dict[str, Any], wanted: dict[str, Any]) -> str:
    """Where two settings differ, in words."""
    names = [name for name in {**found, **wanted} if found.get(name) != wanted.get(name)]
    return ", ".join(f"{name} {found.get(name)}, now {wanted.get(name)}" for name in names)


def find_arrays(study: Study, folder: Path, row: Row) -> dict[str, np.ndarray]:
    """The arrays that `Desk.keep` kept with a row."""
    return read_arrays(folder / "cases" / f"{study.name_case(row)}.npz", LARGEST_ARRAYS)


def _digest(path: Path) -> str | None:
    """What a file holds, in short; None if it is not there."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def _place(folder: Path, name: str) -> Path:
    return folder / "cases" / f"{name}.json"


def _read_all(study: Study, folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    return read_kept(study.name, folder)


def read_kept(name: str, folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """What is kept of a study, by its name: those files that are whole."""
    for path in sorted((folder / "cases").glob(f"{name}_*.json")):
        try:
            kept = json.loads(read_text(path, LARGEST))
            whole = kept["study"] == name and isinstance(kept["row"], dict) and isinstance(kept["files"], dict)
            if whole and isinstance(kept["settings"], dict) and isinstance(kept["case"], dict):
                yield path, kept
        except (FileError, ValueError, KeyError, TypeError, RecursionError):
            continue  # it is run again
