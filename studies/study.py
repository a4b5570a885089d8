"""The contract of a study: what it is asked, what its cases are, what one case gives, and what is shown of all.

A study is a frozen dataclass. Its fields are its options, on the command line and in Python; it refuses in
`__post_init__` what cannot be run. `run` turns one case into plain numbers and words. The rest is free: rows are kept
as they are finished (`keeping`), run here or in processes (`running`, `processes`), and written as text, Markdown,
LaTeX and CSV (`reporting`); `python -m studies NAME` makes a command of it (`command`).
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from cnf.files import write_atomically
from studies.tables import Table

Case = Mapping[str, Any]  # what tells it from the others, in plain values
UNFINISHED = ".unfinished.pt"
Row = dict[str, Any]  # a case and what was found, in plain values; of one that failed, `failed` says why


@dataclass(frozen=True)
class Desk:
    """Where a case is run: how it says how far it is, where its files go, and what the cases of a process share."""

    folder: Path  # of the study
    name: str  # of the case, as its files are called
    tell: Callable[[str], object] = lambda text: None
    shared: dict[str, Any] = field(default_factory=dict)  # what is made once and serves later cases; never a result
    files: list[str] = field(default_factory=list)  # beside the row; if one is lost, the case is run again

    def file(self, name: str) -> Path:
        """A file of this case, by its name in the folder."""
        self.files.append(name)
        return self.folder / name

    def unfinished(self, settings: Mapping[str, Any]) -> Path:
        """Where a case that takes long may keep how far it is, for a later run with the same settings to go on from."""
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]
        return self.folder / "cases" / f"{self.name}.{digest}{UNFINISHED}"

    def keep(self, **arrays: np.ndarray) -> None:
        """Arrays that pictures need, for `Study.arrays`."""

        def write(path: Path) -> None:
            with path.open("wb") as stream:
                np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]

        write_atomically(self.file(f"cases/{self.name}.npz"), write)


class Study(ABC):
    """One experiment; subclasses are frozen dataclasses of options, and the first line of their docstring is the help.

    A row depends on `settings()` and its case alone, so that a study that was stopped goes on with what is missing.
    """

    name: ClassVar[str]
    key: ClassVar[tuple[str, ...]]  # the names that tell cases apart, such as ("shape", "method")
    columns: ClassVar[tuple[str, ...]]  # of the CSV file, after those
    curve: ClassVar[tuple[str, ...]] = ()  # the lists of row["curve"], if cases have learning curves
    workers: ClassVar[int] = 1  # processes unless asked for others
    alone: ClassVar[bool] = False  # every case in a process of its own, for its memory and its time limit
    timeout: float | None = None  # seconds, for cases in processes
    threads: int = 1  # of a process

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What all rows depend on, in plain values; which cases are asked for is no part of it."""

    @abstractmethod
    def cases(self) -> Sequence[Case]:
        """What is to be run, in the order of the tables."""

    @abstractmethod
    def run(self, case: Case, desk: Desk) -> Row:
        """One case, from the beginning: what was found, without the case itself."""

    @abstractmethod
    def tables(self, rows: Sequence[Row]) -> list[Table]:
        """What is shown of finished rows."""

    def introduce(self) -> str:
        """What is said before anything is run."""
        return ""

    def count_steps(self, case: Case) -> int:
        """How often `run` will tell something, about."""
        return 0

    def describe(self, row: Row) -> str:
        """A finished row in a few words."""
        return ""

    def notes(self, rows: Sequence[Row]) -> str:
        """What stands below the tables."""
        return ""

    def plots(self, rows: Sequence[Row], folder: Path) -> list[Path]:
        """Pictures of finished rows."""
        return []

    @property
    def stem(self) -> str:
        """What tables and CSV files are called."""
        return self.name

    def name_case(self, case: Case) -> str:
        """What the files of a case are called."""
        words = [f"{case[name]:g}" if isinstance(case[name], float) else str(case[name]) for name in self.key]
        return "_".join([self.name, *(re.sub(r"[^\w.+-]+", "-", word) for word in words)])

    def label_case(self, case: Case) -> str:
        """What a line about a case begins with."""
        return "  ".join(f"{case[name]:g}" if isinstance(case[name], float) else str(case[name]) for name in self.key)


def as_plain(value: Any) -> Any:
    """The value as JSON gives it back: tuples as lists, keys as words."""
    return json.loads(json.dumps(value))
