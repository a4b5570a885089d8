"""VTK files: values on a regular grid in the XML formats that ParaView and VisIt open.

A grid that is inside the domain everywhere is written as ImageData (`.vti`); otherwise only the cells inside are
written, as an UnstructuredGrid (`.vtu`), so that holes are holes. Numbers are float64, compressed and
base64 coded: nothing is rounded. Written here instead of with a package because these two formats take a page.
"""

from __future__ import annotations

import base64
import itertools
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np

from cnf.files import write_text

CELL_TYPES = {1: 3, 2: 9, 3: 12}  # line, quadrilateral, hexahedron
# Corners of a cell in VTK's order: once around, and for a hexahedron once around again on top.
CORNERS: dict[int, list[tuple[int, ...]]] = {
    1: [(0,), (1,)],
    2: [(0, 0), (1, 0), (1, 1), (0, 1)],
    3: [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1)],
}
TYPES = {"f8": "Float64", "i8": "Int64", "u1": "UInt8"}


def write_vtk(
    stem: Path, axes: Sequence[np.ndarray], inside: np.ndarray, arrays: Mapping[str, np.ndarray], fields: str = ""
) -> Path:
    """Write `stem`.vti or `stem`.vtu and return its path.

    `axes`: one to three evenly spaced 1D arrays; `inside`: bool of shape (n_1, ...); `arrays`: name -> values of the
    same shape, or with one more axis of three components for vectors; `fields`: FieldData elements such as the time.
    """
    if bool(inside.all()):
        return _write(stem.with_name(stem.name + ".vti"), "ImageData", _image(axes, arrays, fields))
    return _write(stem.with_name(stem.name + ".vtu"), "UnstructuredGrid", _cells(axes, inside, arrays, fields))


def write_collection(path: Path, times: Sequence[float], files: Sequence[Path]) -> Path:
    """A `.pvd` file: ParaView opens it as one data set that changes with time."""
    lines = [
        f'    <DataSet timestep="{time:.17g}" group="" part="0" '
        f"file={quoteattr(file.relative_to(path.parent).as_posix())}/>"
        for time, file in zip(times, files, strict=True)
    ]
    return _write(path, "Collection", ["  <Collection>", *lines, "  </Collection>"])


def time_field(time: float) -> str:
    """FieldData that tells a reader of a single file which time it belongs to."""
    return f'<FieldData><DataArray type="Float64" Name="TimeValue" NumberOfTuples="1" format="ascii">{time:.17g}\
</DataArray></FieldData>'


def _image(axes: Sequence[np.ndarray], arrays: Mapping[str, np.ndarray], fields: str) -> list[str]:
    counts = [len(a) for a in axes] + [1] * (3 - len(axes))
    origin = [float(a[0]) for a in axes] + [0.0] * (3 - len(axes))
    spacing = [float(a[-1] - a[0]) / (len(a) - 1) for a in axes] + [1.0] * (3 - len(axes))
    extent = " ".join(f"0 {n - 1}" for n in counts)
    grid = f'WholeExtent="{extent}" Origin="{_numbers(origin)}" Spacing="{_numbers(spacing)}"'
    return [
        f"  <ImageData {grid}>",
        f"    {fields}",
        f'    <Piece Extent="{extent}">',
        *_point_data({name: _x_fastest(values, len(axes)) for name, values in arrays.items()}),
        "      <CellData/>",
        "    </Piece>",
        "  </ImageData>",
    ]


def _cells(axes: Sequence[np.ndarray], inside: np.ndarray, arrays: Mapping[str, np.ndarray], fields: str) -> list[str]:
    """Cells with all corners inside, and only the points that they use."""
    dimension = len(axes)
    number = np.arange(inside.size).reshape(inside.shape)
    lower = tuple(slice(0, n - 1) for n in inside.shape)
    whole = np.ones([n - 1 for n in inside.shape], dtype=bool)
    for corner in itertools.product((0, 1), repeat=dimension):
        whole &= inside[_moved(lower, corner)]
    cells = np.stack(
        [number[_moved(lower, corner)][whole] for corner in CORNERS[dimension]], axis=1
    )  # (cells, corners)
    used, connectivity = np.unique(cells, return_inverse=True)
    points = np.zeros((used.size, 3))
    for k, along in enumerate(np.meshgrid(*axes, indexing="ij")):
        points[:, k] = along.reshape(-1)[used]
    kept = {
        name: values.reshape(inside.size, -1)[used].reshape(used.size, *values.shape[dimension:])
        for name, values in arrays.items()
    }
    count, corners = cells.shape
    offsets = corners * np.arange(1, count + 1, dtype=np.int64)
    kinds = np.full(count, CELL_TYPES[dimension], dtype=np.uint8)
    return [
        "  <UnstructuredGrid>",
        f"    {fields}",
        f'    <Piece NumberOfPoints="{used.size}" NumberOfCells="{count}">',
        *_point_data(kept),
        "      <CellData/>",
        f"      <Points>{_array('Points', points)}</Points>",
        f"      <Cells>{_array('connectivity', connectivity.reshape(-1).astype(np.int64))}"
        f"{_array('offsets', offsets)}{_array('types', kinds)}</Cells>",
        "    </Piece>",
        "  </UnstructuredGrid>",
    ]


def _moved(lower: tuple[slice, ...], corner: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(s.start + k, s.stop + k) for s, k in zip(lower, corner, strict=True))


def _x_fastest(values: np.ndarray, dimension: int) -> np.ndarray:
    """Grid values to VTK's order: (n_1, ..., [3]) -> (points, [3]) with the first axis running fastest."""
    order = (*reversed(range(dimension)), *range(dimension, values.ndim))
    return values.transpose(order).reshape(-1, *values.shape[dimension:])


def _point_data(arrays: Mapping[str, np.ndarray]) -> list[str]:
    first = next((name for name, values in arrays.items() if values.ndim == 1), "")
    body = [f"        {_array(name, values)}" for name, values in arrays.items()]
    return [f"      <PointData Scalars={quoteattr(first)}>", *body, "      </PointData>"]


def _array(name: str, values: np.ndarray) -> str:
    """A DataArray: number and sizes of compressed blocks as UInt64 (here one block), then the block, both base64."""
    data = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<"))
    raw = data.tobytes()
    packed = zlib.compress(raw, 6)
    sizes = np.array([1, len(raw), 0, len(packed)] if raw else [0, 0, 0], dtype="<u8").tobytes()
    text = (base64.b64encode(sizes) + (base64.b64encode(packed) if raw else b"")).decode("ascii")
    parts = f' NumberOfComponents="{data.shape[1]}"' if data.ndim == 2 else ""
    kind = f'type="{TYPES[data.dtype.str[1:]]}" Name={quoteattr(name)}{parts}'
    return f'<DataArray {kind} format="binary">{text}</DataArray>'


def _numbers(values: Sequence[float]) -> str:
    return " ".join(f"{v:.17g}" for v in values)


def _write(path: Path, kind: str, body: Sequence[str]) -> Path:
    head = f'<VTKFile type="{kind}" version="1.0" byte_order="LittleEndian" header_type="UInt64"'
    head += ' compressor="vtkZLibDataCompressor">'
    text = "\n".join(['<?xml version="1.0"?>', head, *(line for line in body if line.strip()), "</VTKFile>", ""])
    return write_text(path, text)
