"""Shapes, the study: its rows, and the CSV file that keeps them.

A `Row` is one method on one shape under one `Setting`; `write_rows` and `read_rows` take it through a file and back,
every number in full, so that a study can go on where it was stopped.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from cnf.errors import CnfError, FileError
from cnf.files import read_text, write_atomically
from studies.shapes.measures import Measures

LARGEST_TABLE = 64 * 2**20  # bytes


@dataclass(frozen=True)
class Setting:
    """What every method of a study is given."""

    points: int = 10_000  # drawn from the true mesh, with interpolated vertex normals
    resolution: int = 160  # of the methods that mesh on a grid
    seed: int = 0
    threads: int = 1
    samples: int = 100_000  # of each surface, for measuring

    def __post_init__(self) -> None:
        if self.points < 4 or self.resolution < 8 or self.seed < 0 or self.threads < 1 or self.samples < 1:
            raise CnfError(
                "a study needs at least 4 points, resolution 8, seed 0, 1 thread and 1 sample; got "
                f"{self.points}, {self.resolution}, {self.seed}, {self.threads} and {self.samples}"
            )


@dataclass(frozen=True)
class Row:
    """One case; what could not be measured is None, and `note` says why."""

    shape: str
    method: str
    setting: Setting
    seconds: float | None = None  # wall, without imports and files
    processor_seconds: float | None = None  # of all threads
    megabytes: float | None = None  # peak resident memory, imports included
    value_error: float | None = None  # worst |d| at the inputs, of the field
    normal_error: float | None = None  # worst |grad d - n| at the inputs, of the field
    measures: Measures | None = None
    how: str = ""
    note: str = ""

    @property
    def finished(self) -> bool:
        """Whether there is a mesh that was measured."""
        return self.measures is not None

    @property
    def key(self) -> tuple[str, str, Setting]:
        """What makes two rows the same case."""
        return self.shape, self.method, self.setting

    def value(self, name: str) -> float | None:
        """A number of the row or of its measures by name, None if it is not known."""
        found = getattr(self, name) if name in NUMBERS else getattr(self.measures, name, None)
        return None if found is None else float(found)


NUMBERS = ("seconds", "processor_seconds", "megabytes", "value_error", "normal_error")
_SETTING = tuple(f.name for f in fields(Setting))
_MEASURES = {f.name: str(f.type) for f in fields(Measures)}
COLUMNS = ("shape", "method", *_SETTING, *NUMBERS, *_MEASURES, "how", "note")


def write_rows(rows: Sequence[Row], path: Path) -> Path:
    """All rows as CSV, numbers in full."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        measured = asdict(row.measures) if row.measures is not None else dict.fromkeys(_MEASURES)
        numbers = {name: getattr(row, name) for name in NUMBERS}
        words = {"shape": row.shape, "method": row.method, "how": row.how, "note": row.note}
        line = {**words, **asdict(row.setting), **numbers, **measured}
        writer.writerow({name: "" if value is None else value for name, value in line.items()})
    return write_atomically(path, lambda file: file.write_text(text.getvalue(), encoding="utf-8"))


def read_rows(path: Path) -> list[Row]:
    """The rows that `write_rows` wrote."""
    lines = csv.DictReader(io.StringIO(read_text(path, LARGEST_TABLE)))
    if tuple(lines.fieldnames or ()) != COLUMNS:
        raise FileError(f"{path} is not a table of this study, or an older one; move it, or choose another --out")
    try:
        return [_read_row(line) for line in lines]
    except (ValueError, TypeError, KeyError, CnfError) as error:
        raise FileError(f"{path} is damaged ({error}); move it away or choose another --out") from None


def _read_row(line: dict[str, str]) -> Row:
    numbers = {name: float(line[name]) if line[name] else None for name in NUMBERS}
    measures = None
    if line["faces"]:
        readers: dict[str, Callable[[str], object]] = {"float": float, "int": int, "bool": lambda word: word == "True"}
        measures = Measures(**{name: readers[kind](line[name]) for name, kind in _MEASURES.items()})  # type: ignore[arg-type]
    setting = Setting(**{name: int(line[name]) for name in _SETTING})
    return Row(line["shape"], line["method"], setting, **numbers, measures=measures, how=line["how"], note=line["note"])
