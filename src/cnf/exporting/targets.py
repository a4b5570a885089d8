"""Targets: where an export goes, and what it must not replace: the field it reads, and the files of any run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from cnf.errors import FileError
from cnf.files import as_path, check_writable
from cnf.reports.staging import RECORD, read_own_record, read_records

NUMBERS = ".json"  # of a surface: its record is in a file of its name
OTHER = "field"  # the name where a run has taken that of its field


def choose_target(source: Path, ending: str, out: Path | None) -> Path:
    """The file to write: `out`, or one beside the source that no run has written."""
    if out is not None:
        target = as_path(out)
    else:
        target = source.with_suffix(ending)
        if not is_same(target, source) and is_of_a_run(target):
            target = source.with_name(OTHER + ending)
    if is_same(target, source):
        raise FileError(f"{target} would replace the field itself; say where to write with --out")
    if is_of_a_run(target):
        raise FileError(f"{target} belongs to the results of a run and would be replaced; write elsewhere with --out")
    return check_writable(target)


def is_same(one: Path, other: Path) -> bool:
    """True for one file by two names: links, other spellings, file systems that know no capitals."""
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them is not there yet
        return os.path.realpath(one) == os.path.realpath(other)


def is_of_a_run(target: Path) -> bool:
    """True if the file is there, and the record of a run beside it, or in a folder above, has it."""
    return target.is_file() and any(is_same(target, file) for file in files_of_runs(target))


def files_of_runs(target: Path) -> Iterator[Path]:
    """Files of the runs that may have written `target`, and their records."""
    place = Path(os.path.realpath(target))
    for folder in place.parents:
        yield folder / RECORD
        yield from (folder / name for record in read_records(folder).values() for name in record["files"])
    numbers = place.with_suffix(NUMBERS)
    found = read_own_record(numbers)
    yield from (place.with_name(name) for name in found)
    if found:
        yield numbers
