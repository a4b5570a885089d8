"""Records: the rows of a job as the repository keeps them, small enough to be committed and careful to be read.

`rows/NAME.csv` has a row per finished case, `rows/NAME_curves.csv` learning curves thinned to at most a hundred points,
`rows/NAME.json` the settings of the study and the machines that measured. The page is written from these alone.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cnf.errors import FileError
from cnf.files import as_csv, read_text, write_text
from studies.study import Row, Study, as_plain

LARGEST = 4 * 2**20  # bytes of a file
MOST_ROWS, MOST_COLUMNS = 100_000, 200
CURVE_POINTS = 100  # of one curve
ALL_POINTS = 30_000  # of all curves of a job: many curves have fewer points each
DIGITS = 6  # of a number that was measured
SPENT = ("case_seconds", "case_processor_seconds")  # of a whole case, by clock and by processor
FACTS = {"processor": str, "cores": int, "threads": int, "python": str, "torch": str, "cnf": str}


@dataclass(frozen=True)
class Records:
    """Finished rows of a job, the settings they depend on, and the machines they were measured on."""

    job: str
    settings: dict[str, Any]
    rows: list[Row]
    machines: list[dict[str, Any]] = field(default_factory=list)


def settle_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as a record keeps them: plain, and files by their names, for folders differ from machine to machine."""
    plain = as_plain({name: str(v) if isinstance(v, Path) else v for name, v in settings.items()})
    return {name: v.replace("\\", "/").rpartition("/")[2] if isinstance(v, str) else v for name, v in plain.items()}


def write_records(records: Records, study: type[Study], folder: Path) -> list[Path]:
    """The files of a job; rows that failed are no records."""
    done = [row for row in records.rows if "failed" not in row]
    columns = [*study.key, *(n for n in (*study.columns, *SPENT) if any(row.get(n) is not None for row in done))]
    table = [
        [_short(row.get(name)) if k >= len(study.key) else row[name] for k, name in enumerate(columns)] for row in done
    ]
    made = [write_text(folder / f"{records.job}.csv", as_csv(columns, table))]
    curves = [row for row in done if row.get("curve")]
    if curves:
        most = max(8, min(CURVE_POINTS, ALL_POINTS // len(curves)))
        points: list[list[Any]] = []
        for row in curves:
            lists = [row["curve"][name] for name in study.curve]
            points += [
                [*(row[name] for name in study.key), *(_short(values[k]) for values in lists)]
                for k in thin(len(lists[0]), most)
            ]
        made.append(write_text(folder / f"{records.job}_curves.csv", as_csv([*study.key, *study.curve], points)))
    facts = {"job": records.job, "settings": records.settings, "machines": records.machines}
    made.append(write_text(folder / f"{records.job}.json", json.dumps(facts, indent=1, sort_keys=True) + "\n"))
    return made


def read_records(study: type[Study], folder: Path, job: str = "") -> Records | None:
    """What is kept of a job, by default the one called as its study; None if nothing is."""
    job = job or study.name
    place = folder / f"{job}.csv"
    if not place.exists():
        return None
    rows = list(_read_table(place, study.key))
    _check_distinct(rows, study.key, place)
    curves = folder / f"{job}_curves.csv"
    if study.curve and curves.exists():
        _add_curves(rows, study, curves)
    about = _read_facts(folder / f"{job}.json", job)
    return Records(job, about["settings"], rows, about["machines"])


def merge_records(old: Records | None, new: Records, key: Sequence[str]) -> Records:
    """Rows of the same settings together, the new ones first in case of two."""
    if old is None:
        return new
    found = {tuple(row[name] for name in key): row for row in [*old.rows, *new.rows]}
    machines = [*old.machines, *(m for m in new.machines if m not in old.machines)]
    return Records(new.job, new.settings, list(found.values()), machines)


def thin(count: int, most: int) -> list[int]:
    """At most so many places of a list, the first and the last among them; close together at the beginning."""
    if count <= most + 1:  # a curve of a hundred steps has a point before the first
        return list(range(count))
    even = np.linspace(0, count - 1, most - most // 3)
    early = np.geomspace(1, count - 1, most // 3)
    return sorted({round(float(place)) for place in [*even, *early]})


def _short(value: Any) -> Any:
    """A measured number with the digits that are worth keeping."""
    if isinstance(value, float | np.floating) and math.isfinite(value):
        return float(f"{value:.{DIGITS}g}")
    return value


# -- reading -------------------------------------------------------------------------------------------------------


def _advise(path: Path) -> str:
    name = path.stem.removesuffix("_curves")
    return f"take it from git again (git checkout {path}), or measure anew: python -m studies paper --only {name}"


def _read_table(path: Path, needed: Sequence[str]) -> Iterable[Row]:
    """Rows of a CSV file by the names of its columns, numbers as numbers."""
    try:
        lines = list(csv.reader(read_text(path, LARGEST).splitlines(), strict=True))
    except csv.Error as error:
        raise FileError(f"{path} is damaged: {error}; {_advise(path)}") from None
    if len(lines) > MOST_ROWS or (lines and len(lines[0]) > MOST_COLUMNS):
        raise FileError(f"{path} has more rows or columns than a study writes; {_advise(path)}")
    header = lines[0] if lines else []
    lacking = [name for name in needed if name not in header]
    if lacking or len(set(header)) < len(header):
        what = f"it has no column {', '.join(lacking)}" if lacking else "a column is there twice"
        raise FileError(f"{path} is damaged or of another version: {what}; {_advise(path)}")
    for number, cells in enumerate(lines[1:], start=2):
        if len(cells) != len(header):
            raise FileError(
                f"{path} is damaged: line {number} has {len(cells)} entries instead of {len(header)}; {_advise(path)}"
            )
        row = {name: read_cell(cell) for name, cell in zip(header, cells, strict=True)}
        if any(row[name] is None for name in needed):
            raise FileError(f"{path} is damaged: line {number} does not say which case it is; {_advise(path)}")
        yield row


def read_cell(text: str) -> Any:
    """A cell as what it was: nothing, a truth value, a number or a word."""
    if text in ("", "True", "False"):
        return None if not text else text == "True"
    if re.fullmatch(r"[+-]?\d{1,18}", text):
        return int(text)
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?|[+-]?inf|nan", text):
        return float(text)
    return text


def _check_distinct(rows: Sequence[Row], key: Sequence[str], path: Path) -> None:
    seen = set()
    for row in rows:
        case = tuple(row[name] for name in key)
        if case in seen:
            raise FileError(f"{path} is damaged: the case {' '.join(map(str, case))} is there twice; {_advise(path)}")
        seen.add(case)


def _add_curves(rows: Sequence[Row], study: type[Study], path: Path) -> None:
    found: dict[tuple[Any, ...], dict[str, list[Any]]] = {}
    for point in _read_table(path, study.key):
        lists = found.setdefault(tuple(point[name] for name in study.key), {name: [] for name in study.curve})
        for name in study.curve:
            if name not in point:
                raise FileError(f"{path} is damaged: it has no column {name}; {_advise(path)}")
            lists[name].append(point[name])
    for row in rows:
        row["curve"] = found.pop(tuple(row[name] for name in study.key), {name: [] for name in study.curve})
    if found:
        case = " ".join(map(str, next(iter(found))))
        raise FileError(f"{path} has a curve of {case}, which has no row of its own; {_advise(path)}")


def _read_facts(path: Path, name: str) -> dict[str, Any]:
    """Settings and machines, each of the kind that is written."""
    try:
        found = json.loads(read_text(path, LARGEST))
        settings, machines = found["settings"], found["machines"]
        right = found["job"] == name and isinstance(settings, dict) and isinstance(machines, list)
        right = right and all(type(m[fact]) is kind for m in machines for fact, kind in FACTS.items())
    except (ValueError, KeyError, TypeError, RecursionError):
        right = False
    if not right:
        raise FileError(f"{path} is damaged or of another job; {_advise(path)}")
    return {"settings": settings, "machines": machines}
