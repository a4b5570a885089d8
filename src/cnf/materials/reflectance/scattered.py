"""Reflectance: reflectance measured at scattered pairs of directions, from CSV or NPZ.

In come columns by name, one row per measurement, angles in radians:

    theta_h, theta_d, phi_d, r, g, b                      half and difference angles
    theta_i, phi_i, theta_o, phi_o, r, g, b               directions to the light and to the eye as angles
    wix, wiy, wiz, wox, woy, woz, r, g, b                 the same as unit vectors, z along the normal

Out goes a `Scattered`: mainly conditions and training data, and a material that interpolates well enough to look at.
An NPZ archive has arrays of these names, or `angles` (P, 3) or (P, 4), or `directions` (P, 6), and `values` (P, 3); or,
for several materials, `<name>_angles` and spectra `<name>_f` (P, W) at `wavelengths_nm` (W,).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from cnf.errors import ConstraintError, FileError, NumericalWarning
from cnf.materials.reflectance.angles import above_horizon, check_columns, encode, half_difference
from cnf.materials.reflectance.material import Material, check_name, evaluate_in_chunks, simplify_name
from cnf.materials.reflectance.spectra import convert_spectra
from cnf.reading.sheets import open_sheet

LARGEST = 1 << 28  # bytes of a CSV file
HALF, POLAR = ("theta_h", "theta_d", "phi_d"), ("theta_i", "phi_i", "theta_o", "phi_o")
VECTORS, COLOURS = ("wix", "wiy", "wiz", "wox", "woy", "woz"), ("r", "g", "b")
ALIASES = {"red": "r", "green": "g", "blue": "b"}
LAYOUTS = (HALF, POLAR, VECTORS)
EXPECTED = "; or ".join(", ".join((*names, *COLOURS)) for names in LAYOUTS)
SLACK = 1e-3  # how far angles may pass a right angle, and lengths may miss 1, by rounding in a text file


@dataclass(frozen=True, eq=False)
class Scattered(Material):
    """Measurements at pairs of directions; in between, a mean of the nearest, weighted by 1 / distance^2.

    Distance is that of encoded pairs. Each measurement also counts with light and eye swapped.
    """

    name: str
    label: str
    angles: Tensor  # (P, 3) float64, all above the horizon
    values: Tensor  # (P, 3) float64, linear RGB, not negative
    neighbours: int = 8
    standing: ClassVar[str] = "Measurements, interpolated"  # most of such a picture was never measured

    def __post_init__(self) -> None:
        check_name(self.name)
        check_columns(self.angles, 3, f"angles of {self.name}")
        check_columns(self.values, 3, f"values of {self.name}")
        if len(self.angles) != len(self.values) or not len(self.angles):
            raise ConstraintError(f"{self.name} has {len(self.angles)} angles and {len(self.values)} values")
        if not (torch.isfinite(self.angles).all() and torch.isfinite(self.values).all()):
            raise ConstraintError(f"{self.name} has angles or values that are not finite; remove them")
        if not above_horizon(self.angles).all() or (self.values < 0).any():
            raise ConstraintError(f"{self.name} has measurements below the horizon or negative values; remove them")
        if self.neighbours < 1:
            raise ConstraintError(f"{self.name} needs at least one neighbour, got {self.neighbours}")

    def __call__(self, angles: Tensor) -> Tensor:
        """Linear RGB reflectance (P, 3); 0 below the horizon. Gradients do not pass."""
        check_columns(angles, 3, "angles")
        return evaluate_in_chunks(self.interpolate, angles.detach())

    def interpolate(self, angles: Tensor) -> Tensor:
        """All rows at once."""
        values = self.values.cpu().numpy()
        count = min(self.neighbours, self.tree.n)
        queries = encode(angles.nan_to_num(0.0, 0.0, 0.0)).double().cpu().numpy()  # not valid, but looked up too
        distance, near = (a.reshape(len(angles), count) for a in self.tree.query(queries, k=count))
        square = np.maximum(distance / np.maximum(distance[:, -1:], 1e-300), 1e-12) ** 2  # finite, at a measurement too
        weights = 1 / square
        mean = (weights[:, :, None] * values[near % len(values)]).sum(1) / weights.sum(1, keepdims=True)
        f = torch.from_numpy(mean).to(angles)
        return torch.where(above_horizon(angles)[:, None], f, 0.0)

    @cached_property
    def tree(self) -> cKDTree:
        """Encoded measurements, (2 P, 6): as they are, then with light and eye swapped."""
        swapped = self.angles + self.angles.new_tensor([0.0, 0.0, math.pi])
        return cKDTree(encode(torch.cat([self.angles, swapped])).double().cpu().numpy())


def read_scattered(source: Path) -> Scattered:
    """Read a CSV file whose first line names the columns."""
    sheet = open_sheet(source, LARGEST)
    header = [ALIASES.get(word.lower(), word.lower()) for word in sheet.names]
    if not any({*names, *COLOURS} <= set(header) for names in LAYOUTS):
        raise FileError(f"{source}: its first line names {', '.join(header)[:200] or 'nothing'}; expected {EXPECTED}")
    if len(set(header)) != len(header):
        raise FileError(f"{source}: a column is named twice in its header: {', '.join(header)[:200]}")
    rows = sheet.numbers()
    columns = {name: rows[:, number] for number, name in enumerate(header)} if rows.size else {}
    name = simplify_name(source.stem)
    return build(name, name, *join_columns(columns, source), source)


def is_scattered(arrays: dict[str, np.ndarray]) -> bool:
    """Whether the arrays of an archive are scattered measurements."""
    return (
        any({*names, *COLOURS} <= set(arrays) for names in LAYOUTS)
        or ("values" in arrays and bool({"angles", "directions"} & set(arrays)))
        or ("wavelengths_nm" in arrays and bool(spectral_names(arrays)))
    )


def spectral_names(arrays: dict[str, np.ndarray]) -> list[str]:
    """Names of the materials given by spectra."""
    return [key.removesuffix("_f") for key in arrays if key.endswith("_f") and f"{key[:-1]}angles" in arrays]


def decode_scattered(arrays: dict[str, np.ndarray], source: Path) -> dict[str, Callable[[], Scattered]]:
    """How to make each material of an archive, by name."""
    for key, array in arrays.items():
        if array.dtype.kind not in "fiu":
            raise FileError(f"{source}: its array {key[:40]!r} has {array.dtype}; expected numbers")
    if "wavelengths_nm" in arrays and spectral_names(arrays):
        return {
            simplify_name(given): partial(decode_spectra, arrays, given, source) for given in spectral_names(arrays)
        }
    name = simplify_name(source.stem)
    if "values" in arrays:
        pairs = arrays["directions"] if "directions" in arrays else arrays["angles"]
        return {name: partial(build, name, name, pairs, arrays["values"], source)}
    return {name: partial(build, name, name, *join_columns(arrays, source), source)}


def decode_spectra(arrays: dict[str, np.ndarray], given: str, source: Path) -> Scattered:
    """One of the materials given by spectra, in linear sRGB; a colour too pure for sRGB loses its negative part."""
    try:
        values = convert_spectra(arrays[f"{given}_f"], arrays["wavelengths_nm"])
    except ConstraintError as error:
        raise FileError(f"{source}: {given}: {error}") from None
    name = simplify_name(given)
    label = f"Cornell {name}" if source.stem.startswith("cornell") else name
    return build(name, label, arrays[f"{given}_angles"], values, source)


def join_columns(columns: dict[str, np.ndarray], source: Path) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of directions (P, 3), (P, 4) or (P, 6), and values (P, 3), from columns (P,) by name."""
    if not columns:
        raise FileError(f"{source} holds no measurements")
    layout = next(names for names in LAYOUTS if {*names, *COLOURS} <= set(columns))
    used = [np.asarray(columns[name], dtype=np.float64) for name in (*layout, *COLOURS)]
    if any(column.shape != (len(used[0].ravel()),) for column in used):
        raise FileError(f"{source}: its columns have different lengths or more than one axis")
    table = np.stack(used, -1)
    return table[:, :-3], table[:, -3:]


def build(name: str, label: str, pairs: np.ndarray, values: np.ndarray, source: Path) -> Scattered:
    """Checked measurements at half and difference angles; what cannot be used is left out, with a warning."""
    if pairs.ndim != 2 or pairs.shape[1] not in (3, 4, 6) or values.shape != (len(pairs), 3):
        raise FileError(
            f"{source}: {name} has directions of shape {pairs.shape} and values of shape {values.shape}; expected "
            "(P, 3), (P, 4) or (P, 6), and (P, 3)"
        )
    if not len(pairs):
        raise FileError(f"{source}: {name} holds no measurements")
    pairs, values = pairs.astype(np.float64), values.astype(np.float64)
    bad = np.flatnonzero(~(np.isfinite(pairs).all(1) & np.isfinite(values).all(1)))
    if len(bad):
        raise FileError(
            f"{source}: {name} has {len(bad)} rows that are not finite, the first is number {bad[0]} (from 0)"
        )
    angles = convert_pairs(pairs, name, source)
    usable = above_horizon(angles)
    if not usable.any():
        raise FileError(f"{source}: no measurement of {name} is above the horizon")
    dark = int((values < 0).any(1).sum())
    if dark or not usable.all():
        warnings.warn(
            f"{source.name}: of {len(values)} measurements of {name}, {int((~usable).sum())} are not above the horizon "
            f"and were left out, {dark} have negative values (noise, or too pure a colour), which were set to 0",
            NumericalWarning,
            stacklevel=2,
        )
    return Scattered(name, label, angles[usable], torch.from_numpy(np.maximum(values, 0))[usable])


def convert_pairs(pairs: np.ndarray, name: str, source: Path) -> Tensor:
    """Half and difference angles (P, 3) of pairs given as in `LAYOUTS`."""
    given = torch.from_numpy(pairs)
    if pairs.shape[1] == 6:
        lengths = given.reshape(-1, 2, 3).norm(dim=-1)
        if ((lengths - 1).abs() > SLACK).any():
            worst = float(lengths.flatten()[(lengths - 1).abs().argmax()])
            raise FileError(f"{source}: {name} has a direction of length {worst:.4g}; expected unit vectors")
        return half_difference(given[:, :3] / lengths[:, :1], given[:, 3:] / lengths[:, 1:])
    columns = [0, 1] if pairs.shape[1] == 3 else [0, 2]
    theta = given[:, columns]
    if theta.min() < -SLACK or theta.max() > math.pi / 2 + SLACK:
        raise FileError(
            f"{source}: {name} has polar angles from {theta.min():.4g} to {theta.max():.4g}; expected radians from 0 "
            "to pi / 2 (multiply degrees by pi / 180)"
        )
    if pairs.shape[1] == 3:
        return given.clone()
    wi, wo = (
        torch.stack(
            [given[:, a].sin() * given[:, a + 1].cos(), given[:, a].sin() * given[:, a + 1].sin(), given[:, a].cos()],
            -1,
        )
        for a in (0, 2)
    )
    return half_difference(wi, wo)
