"""Frames: what the pictures of a sweep show of each case, as its folder has it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cnf.pde.report.map_panels import math_name
from cnf.pde.report.planes import Plane
from cnf.pde.sweeps.solving import PICTURE
from cnf.pde.sweeps.sweep import Row, Sweep

LARGEST = 2**26  # bytes of a picture


@dataclass(frozen=True)
class Curve:
    """Channels along the only coordinate; NaN outside the domain."""

    at: np.ndarray  # (n,)
    values: np.ndarray  # (C, n)


@dataclass(frozen=True)
class Frame:
    """One case, in words and as it looks."""

    row: Row
    words: str
    shown: Curve | Plane


def read_frames(sweep: Sweep) -> list[Frame]:
    """Those of all cases whose conditions hold, in their order: a field that misses them shows nothing."""
    done = [row for row in sweep.rows if row.holds]
    return [Frame(row, name_values(row), _read(row.folder / PICTURE)) for row in done]


def _read(path: Path) -> Curve | Plane:
    with np.load(path, allow_pickle=False) as arrays:
        found = {name: arrays[name] for name in arrays.files}
    if "at" in found:
        return Curve(found["at"], found["values"])
    low, high, bottom, top = map(float, found["extent"])
    fixed = {int(axis): float(value) for axis, value in found["fixed"]}
    return Plane(
        (0, 1), fixed, (low, high, bottom, top), found["inside"], found.get("mask"), found["values"], None, None
    )


def name_values(row: Row) -> str:
    """The values of a case in the notation of mathematics."""
    return ", ".join(f"{name_axis(key)} = {value:.5g}" for key, value in row.values.items())


def name_axis(key: str) -> str:
    """A parameter as in formulas; any other number by its key."""
    return key.replace("_", r"\_") if "." in key else math_name(key)


def choose_evenly(count: int, most: int) -> list[int]:
    """Numbers of at most `most` of so many, from the first to the last."""
    return sorted({round(k) for k in np.linspace(0, count - 1, min(count, most))}) if count else []
