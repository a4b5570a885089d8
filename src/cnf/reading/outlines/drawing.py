"""Drawing: the closed curves of a file with the names they have there."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from cnf.errors import FileError
from cnf.reading.outlines.strokes import MOST_STROKES, Stroke


@dataclass
class Drawing:
    """`groups`: what belongs together in the file, such as an element or a feature, with its name ("" for none)."""

    source: Path
    groups: list[tuple[str, list[list[Stroke]]]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, name: str, curves: list[list[Stroke]]) -> None:
        """The curves of one element; empty ones are left out."""
        kept = [curve for curve in curves if curve]
        self.count += sum(map(len, kept))
        if self.count > MOST_STROKES:
            raise FileError(f"{self.source} has more than {MOST_STROKES} strokes; simplify it")
        if kept:
            self.groups.append((name.strip(), kept))
