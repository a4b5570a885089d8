"""Reflectance: tables of reflectance on MERL's grid, looked up, made from other materials, read and written.

The grid has 90 x 90 x 180 nodes in theta_h, theta_d, phi_d, denser towards theta_h = 0 where highlights are:

    "nodes"    theta_h = (i / 90)^2 pi / 2,        theta_d = j / 90 pi / 2,         phi_d = k / 180 pi
    "centers"  theta_h = ((i + 0.5) / 90)^2 pi / 2, theta_d = (j + 0.5) / 90 pi / 2, phi_d = (k + 0.5) / 180 pi

Both conventions are in use for the same files, half a cell apart. phi_d covers half a turn, since swapping light and
eye turns it by pi and leaves measured reflectance as it is.

A `.binary` file is int32 (90, 90, 180) and then float64 [3, 90, 90, 180], little-endian: reflectance in units of
(1, 1.15, 1.66) / 1500 for red, green and blue; negative entries were not measured.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cnf.errors import ConstraintError, FileError, nearest
from cnf.files import write_atomically
from cnf.materials.reflectance.angles import above_horizon, check_columns, encode
from cnf.materials.reflectance.checksums import find_name
from cnf.materials.reflectance.material import Material, check_name, evaluate_in_chunks, simplify_name
from cnf.reading.sources import check_source

SHAPE = (90, 90, 180)
UNITS = (1.0 / 1500, 1.15 / 1500, 1.66 / 1500)  # what 1 in a file means, for red, green and blue
HEADER = 3 * 4
SIZE = HEADER + 3 * math.prod(SHAPE) * 8  # bytes: 34,992,012
HORIZON = 1e-9  # least cosine of a node that is used
OFFSETS = {"nodes": 0.0, "centers": 0.5}  # of an entry from the corner of its cell


@dataclass(frozen=True, eq=False)
class Table(Material):
    """Reflectance on MERL's grid, interpolated linearly in index space.

    Nodes that are not known (any channel NaN) are left out of the mean; beyond the outermost nodes the nearest counts.
    """

    name: str
    label: str
    values: Tensor  # (90, 90, 180, 3) float32 or float64, NaN where not known
    convention: str = "nodes"

    def __post_init__(self) -> None:
        check_name(self.name)
        check_convention(self.convention)
        values = self.values
        if not isinstance(values, Tensor) or tuple(values.shape) != (*SHAPE, 3):
            given = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
            raise ConstraintError(f"the table {self.name} has shape {given}; expected {(*SHAPE, 3)}")
        if values.dtype not in (torch.float32, torch.float64):
            raise ConstraintError(f"the table {self.name} has {values.dtype}; expected float32 or float64")
        if torch.isinf(values).any() or (values < 0).any():
            raise ConstraintError(f"the table {self.name} has negative or infinite entries; mark unknown ones with NaN")

    def __call__(self, angles: Tensor) -> Tensor:
        """Linear RGB reflectance (P, 3); 0 below the horizon and where no node around is known."""

        def evaluate(part: Tensor) -> Tensor:
            mean = self.average(part)
            known = above_horizon(part) & (mean[:, 3] > 0)
            share = torch.where(known, mean[:, 3], 1.0)[:, None]
            return torch.where(known[:, None], mean[:, :3] / share, 0.0)

        return evaluate_in_chunks(evaluate, angles)

    def valid(self, angles: Tensor) -> Tensor:
        """Above the horizon, and at least one node that counts there is known; (P,) bool."""
        return evaluate_in_chunks(lambda part: above_horizon(part) & (self.average(part)[:, 3] > 0), angles)

    def average(self, angles: Tensor) -> Tensor:
        """Weighted sums over the eight nodes around, (P, 4): red, green, blue, and the weight of the known nodes."""
        nodes, weights = surround(angles, self.convention, self.rows.dtype)
        mean = torch.nn.functional.embedding_bag(nodes, self.rows, mode="sum", per_sample_weights=weights)
        return mean.to(angles.dtype)

    @cached_property
    def rows(self) -> Tensor:
        """All nodes in a row, (90 * 90 * 180, 4): red, green, blue and 1, or zeros where not known."""
        flat = self.values.reshape(-1, 3)
        known = torch.isfinite(flat).all(-1, keepdim=True)
        return torch.cat([torch.where(known, flat, 0.0), known.to(flat)], -1)


def surround(angles: Tensor, convention: str, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Numbers of the eight nodes around each point, and their weights in `dtype`, (P, 8) each."""
    check_columns(angles, 3, "angles")
    angles = angles.nan_to_num(0.0, 0.0, 0.0)  # never valid, but their nodes must be some that exist
    offset = OFFSETS[convention]
    along_h = (angles[:, 0].clamp(0, math.pi / 2) * (2 / math.pi)).sqrt() * SHAPE[0] - offset
    along_d = angles[:, 1] * (2 / math.pi * SHAPE[1]) - offset
    around = angles[:, 2] * (SHAPE[2] / math.pi) - offset
    i, upper_h = split_place(along_h.clamp(0, SHAPE[0] - 1), SHAPE[0] - 2)
    j, upper_d = split_place(along_d.clamp(0, SHAPE[1] - 1), SHAPE[1] - 2)
    k, upper_p = split_place(around)
    k = k.remainder(SHAPE[2])
    first = ((i * SHAPE[1] + j) * SHAPE[2] + k).long()  # exact: all numbers are below 2^24
    after = first + torch.where(k < SHAPE[2] - 1, 1, 1 - SHAPE[2])  # after the last node comes the first
    row, column = SHAPE[1] * SHAPE[2], SHAPE[2]
    numbers = torch.stack([node + step for step in (0, column, row, row + column) for node in (first, after)])
    upper_h, upper_d, upper_p = upper_h.to(dtype), upper_d.to(dtype), upper_p.to(dtype)
    shares = [h * d for h in (1 - upper_h, upper_h) for d in (1 - upper_d, upper_d)]
    weights = torch.stack([share * part for share in shares for part in (1 - upper_p, upper_p)])
    return numbers.T.contiguous(), weights.T.contiguous()  # along the points until here: long loops are fast ones


def split_place(place: Tensor, last: int | None = None) -> tuple[Tensor, Tensor]:
    """The whole number below a place, at most `last`, and the rest of it."""
    low = place.detach().floor()
    if last is not None:
        low = low.clamp(max=last)
    return low, place - low


def grid_angles(convention: str = "nodes", rows: slice | None = None) -> Tensor:
    """Angles of all nodes in the order of the table, (90 * 90 * 180, 3) float64, or of some `rows` of that list."""
    offset = OFFSETS[check_convention(convention)]
    start, stop, _ = (rows or slice(None)).indices(math.prod(SHAPE))
    number = torch.arange(start, max(start, stop))
    k = number % SHAPE[2] + offset
    j = number // SHAPE[2] % SHAPE[1] + offset
    i = number // (SHAPE[1] * SHAPE[2]) + offset
    theta_h = (i.double() / SHAPE[0]).square() * (math.pi / 2)
    return torch.stack([theta_h, j.double() / SHAPE[1] * (math.pi / 2), k.double() / SHAPE[2] * math.pi], -1)


def node_numbers(angles: Tensor, convention: str = "nodes") -> Tensor:
    """The node nearest to each of the angles (P, 3), counted along the grid, as its place in the table's list, (P,)."""
    i, j, k = _nearest_places(angles, check_convention(convention)).unbind(-1)
    return (i * SHAPE[1] + j) * SHAPE[2] + k


def _nearest_places(angles: Tensor, convention: str) -> Tensor:
    """Rows, columns and layers (P, 3) of the nearest nodes, whole numbers; half a turn of phi_d leads back."""
    check_columns(angles, 3, "angles")
    share = angles.double() / angles.new_tensor([math.pi / 2, math.pi / 2, math.pi], dtype=torch.float64)
    along = torch.stack([share[:, 0].clamp(0, 1).sqrt(), share[:, 1], share[:, 2]], -1)
    places = (along * along.new_tensor(SHAPE) - OFFSETS[convention]).round().long()
    rows, columns = (places[:, axis].clamp(0, SHAPE[axis] - 1) for axis in (0, 1))
    return torch.stack([rows, columns, places[:, 2] % SHAPE[2]], -1)


def snap_to_nodes(angles: Tensor, convention: str = "nodes", material: Material | None = None) -> Tensor:
    """The angles (P, 3) moved to nodes of the grid, (K, 3) with K <= P: conditions there are entries of a table.

    Each goes to the nearest of the 27 nodes around it that is above the horizon, known to the material (an entry of the
    table itself, if it is one) and not taken. phi_d is then in [0, pi): light and eye may change places. Two nodes that
    are one pair of directions (theta_h or theta_d is 0, and the azimuths differ) count as one, that of azimuth 0 if
    theta_d is 0, as everywhere. A point without such a node is left out.
    """
    middle = _nearest_places(angles, check_convention(convention))  # (P, 3)
    turned = angles.double() + angles.new_tensor([0.0, 0.0, math.pi], dtype=torch.float64)  # light and eye swapped
    steps = torch.cartesian_prod(*[torch.arange(-1, 2)] * 3)  # (27, 3)
    around = middle[:, None] + steps
    around[..., 2] %= SHAPE[2]
    if OFFSETS[convention] == 0:
        around[..., 2].masked_fill_(around[..., 1] == 0, 0)  # what `decode` gives back, and so the entry that is meant
    inside = (around >= 0).all(-1) & (around < around.new_tensor(SHAPE)).all(-1)
    nodes = grid_angles(convention)
    numbers = (around * around.new_tensor([SHAPE[1] * SHAPE[2], SHAPE[2], 1])).sum(-1).clamp(0, len(nodes) - 1)
    there = nodes[numbers.reshape(-1)]  # (27 P, 3)
    usable = inside & _known_nodes(there, numbers.reshape(-1), convention, material).reshape(inside.shape)
    encoded = encode(there).reshape(*numbers.shape, 6)
    either = [(encoded - encode(given)[:, None]).square().sum(-1) for given in (angles.double(), turned)]
    far = torch.minimum(*either).masked_fill(~usable, math.inf)  # (P, 27)
    taken: set[tuple[int, ...]] = set()
    chosen: list[int] = []
    for row in range(len(angles)):
        for place in far[row].argsort().tolist():
            if not usable[row, place]:
                break
            i, j, k = around[row, place].tolist()
            pole = nodes[numbers[row, place], :2].min() == 0  # the azimuth says nothing there
            if (pair := (i, j, -1 if pole else k)) not in taken:
                taken.add(pair)
                chosen.append(int(numbers[row, place]))
                break
    return nodes[chosen]


def _known_nodes(nodes: Tensor, numbers: Tensor, convention: str, material: Material | None) -> Tensor:
    """Whether nodes (P, 3) are above the horizon by more than rounding, and known, (P,) bool."""
    known = above_horizon(nodes, HORIZON)
    if isinstance(material, Table) and material.convention == convention:
        return known & (material.rows[numbers, 3] > 0)  # interpolation would let a neighbour speak for it
    return known if material is None else known & material.valid(nodes)


def tabulate(
    material: Material | Callable[[Tensor], Tensor],
    convention: str = "nodes",
    label: str | None = None,
    batch: int = 2**17,
    dtype: torch.dtype = torch.float32,
) -> Table:
    """The material, or any function of angles (P, 3) -> (P, 3), on MERL's grid; NaN where the material is not valid.

    What a function gives below 0 counts as 0.
    """
    known = material.valid if isinstance(material, Material) else above_horizon
    if label is None:
        label = material.label if isinstance(material, Material) else "table"
    name = material.name if isinstance(material, Material) else simplify_name(label)
    values = torch.empty(math.prod(SHAPE), 3, dtype=dtype)
    with torch.no_grad():
        for start in range(0, len(values), batch):
            rows = slice(start, min(start + batch, len(values)))
            angles = grid_angles(convention, rows)
            f = material(angles)
            check_columns(f, 3, f"values of {label}")
            if len(f) != len(angles):
                raise ConstraintError(f"{label} gave {len(f)} values for {len(angles)} angles")
            where = known(angles)[:, None]
            if not torch.isfinite(torch.where(where, f, 0.0)).all():
                raise ConstraintError(f"{label} is not finite everywhere on the grid, so it makes no table")
            values[rows] = torch.where(where, f.clamp(min=0.0), math.nan).to(values)
    return Table(name, label, values.reshape(*SHAPE, 3), convention)


def read_merl(path: object, convention: str = "nodes") -> Table:
    """Read a `.binary` file; labelled as MERL's only if its bytes are those of MERL's file."""
    check_convention(convention)
    source = check_source(path)
    try:
        size = source.stat().st_size
        with source.open("rb") as file:
            content = file.read(SIZE + 1)  # whatever the file's size, no more than this
    except (OSError, MemoryError) as error:
        raise FileError(f"{source} cannot be read: {getattr(error, 'strerror', None) or 'not enough memory'}") from None
    dimensions = tuple(np.frombuffer(content[:HEADER], "<i4").tolist()) if len(content) >= HEADER else SHAPE
    if dimensions != SHAPE:
        raise FileError(f"{source} is not a MERL file: it starts with {dimensions} instead of the dimensions {SHAPE}")
    if size != SIZE or len(content) != SIZE:
        how = "was cut short" if size < SIZE else "is too long"
        raise FileError(f"{source} {how}: it has {size} bytes, a MERL file has {SIZE}; fetch it again")
    stored = np.frombuffer(content, "<f8", offset=HEADER).reshape(3, *SHAPE)
    if not np.isfinite(stored).all():
        raise FileError(f"{source} is damaged: it has entries that are not finite")
    if not (stored >= 0).all(axis=0).any():
        raise FileError(f"{source} is damaged: no entry of it was measured (none has three values from 0)")
    values = np.empty((*SHAPE, 3))
    for channel, unit in enumerate(UNITS):
        values[..., channel] = np.where(stored[channel] < 0, np.nan, stored[channel] * unit)
    known = find_name(hashlib.sha256(content).hexdigest())
    label = f"MERL {known}" if known else f"table {simplify_name(source.stem)}"
    return Table(simplify_name(source.stem), label, torch.from_numpy(values), convention)


def write_merl(path: object, table: Table) -> Path:
    """Write a table as a `.binary` file, -1 where it is not known; which convention it follows is not in the file."""
    if not isinstance(table, Table):
        raise ConstraintError(
            f"only tables are written to .binary files, got {type(table).__name__}; tabulate it first"
        )
    values = table.values.detach().cpu().double().numpy()
    if not np.isfinite(values).any():
        raise ConstraintError(f"nothing of the table {table.name} is known, so it is not written")

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            file.write(np.array(SHAPE, "<i4").tobytes())
            for channel, unit in enumerate(UNITS):
                scaled = values[..., channel] / unit
                file.write(np.where(np.isnan(scaled), -1.0, scaled).astype("<f8").tobytes())

    return write_atomically(path, write)


def check_convention(convention: str) -> str:
    """The convention, if it is one."""
    if convention not in OFFSETS:
        raise ConstraintError(
            f"no convention {convention!r}; expected nodes or centers.{nearest(str(convention), OFFSETS)}"
        )
    return convention
