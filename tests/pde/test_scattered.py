"""Scattered points from files: a table of numbers is read, anything else is refused in one line that says where.

The tables are written here as text or with numpy; the expected values are those written.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

import cnf.pde.problems.scattered
from cnf.errors import FileError
from cnf.pde.problems.scattered import Scattered, read_scattered


def read(tmp_path: Path, text: str | bytes, coordinates: str = "x y") -> Scattered:
    path = tmp_path / "points.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_scattered(path, coordinates.split())


def refuse(tmp_path: Path, text: str | bytes, *parts: str, coordinates: str = "x y") -> None:
    """The message is one line, names the file, and has all parts."""
    with pytest.raises(FileError) as caught:
        read(tmp_path, text, coordinates)
    message = str(caught.value)
    assert "points.csv" in message and "\n" not in message
    for part in parts:
        assert part in message, message


GOOD = {
    "plain": "x,y,d\n1,2,3\n4,5,6\n",
    "no last line end": "x,y,d\n1,2,3\n4,5,6",
    "windows": "x,y,d\r\n1,2,3\r\n4,5,6\r\n",
    "semicolons": "x;y;d\n1;2;3\n4;5;6\n",
    "tabs": "x\ty\td\n1\t2\t3\n4\t5\t6\n",
    "spaces": " x , y , d \n 1 , 2 , 3 \n 4, 5, 6\n",
    "quoted header": '"x","y","d"\n1,2,3\n4,5,6\n',
    "blank lines": "\nx,y,d\n1,2,3\n\n4,5,6\n\n",
    "byte order mark": b"\xef\xbb\xbfx,y,d\n1,2,3\n4,5,6\n",
    "other order": "d,y,x\n3,2,1\n6,5,4\n",
    "exponents": "x,y,d\n1e0,2.0,+3\n40e-1,.5e1,6.\n",
}


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_ways_to_write_a_table(text: str | bytes, tmp_path: Path):
    """All of them are the points (1, 2) and (4, 5) with d = 3 and 6, in float64."""
    found = read(tmp_path, text)
    assert found.points.dtype == torch.float64
    assert found.points.tolist() == [[1, 2], [4, 5]]
    assert {name: values.tolist() for name, values in found.columns.items()} == {"d": [3, 6]}


def test_only_coordinates(tmp_path: Path):
    assert read(tmp_path, "x\n0.25\n0.5\n", "x").points.tolist() == [[0.25], [0.5]]
    assert read(tmp_path, "x\n0.25\n0.5\n", "x").columns == {}


def test_one_point(tmp_path: Path):
    found = read(tmp_path, "x,y,d\n1,2,3\n")
    assert found.points.tolist() == [[1, 2]] and found.columns["d"].tolist() == [3]


def test_digits_are_kept(tmp_path: Path):
    """The shortest text of a float gives back the same float, bit for bit."""
    values = np.random.default_rng(0).normal(size=(50, 3)) * 10.0 ** np.arange(-20, 31)[:50, None]
    text = "x,y,d\n" + "\n".join(",".join(repr(float(v)) for v in row) for row in values)
    found = read(tmp_path, text)
    np.testing.assert_array_equal(found.points.numpy(), values[:, :2])
    np.testing.assert_array_equal(found.columns["d"].numpy(), values[:, 2])


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ("empty", "x,y")),
        ("\n\n", ("empty",)),
        ("x,y,d\n", ("no points",)),
        ("1,2,3\n4,5,6\n", ("no header", "x,y")),
        ("x,d\n1,2\n", ("no column 'y'", "x, d")),
        ("x,Y,d\n1,2,3\n", ("no column 'y'", "Y")),
        ("x,y,y\n1,2,3\n", ("two columns", "'y'")),
        ("x,y,d,d\n1,2,3,4\n", ("two columns", "'d'")),
        ("x,y,d\n1,2,3\n4,five,6\n", ("line 3", "'five'", "'y'")),
        ("x,y,d\n1,2,3\n4,,6\n", ("line 3", "'y'")),
        ("x,y,d\n1,2,3\n4,5\n", ("line 3", "2 entries", "3 columns")),
        ("x,y,d\n1,2,3,4\n", ("line 2", "4 entries", "3 columns")),
        ("x,y,d\n1,2\n3,4\n", ("line 2", "2 entries", "3 columns")),
        ("x,y,d\n1,2,nan\n4,5,6\n", ("NaN", "1 of 2", "row 1", "'d'")),
        ("x,y,d\n1,2,3\n4,inf,6\n7,-inf,9\n", ("infinite", "2 of 3", "row 2", "'y'")),
        ("x,y,d\n1;2;3\n", ("line 2",)),
        ("x;y;d\n1,5;2,5;3\n", ("line 2", "'1,5'")),  # decimal commas
        ("x,y,d\n0x10,2,3\n", ("line 2", "'0x10'")),
        ("x,y,d\n1+2j,2,3\n", ("line 2",)),
        (b"x,y,d\n1,2,\xff\xfe\n", ("UTF-8",)),
        (b"\x00\x01\x02\x03", ("points.csv",)),
    ],
)
def test_what_is_no_table_is_refused(text: str | bytes, parts: tuple[str, ...], tmp_path: Path):
    """Each with the line or row and the column at fault."""
    refuse(tmp_path, text, *parts)


def test_line_numbers_count_the_lines_of_the_file(tmp_path: Path):
    """Blank lines before the header count as an editor counts them: the fault is on line 5."""
    refuse(tmp_path, "\n\nx,y\n1,2\n3,oops\n", "line 5", "'oops'")


@pytest.mark.parametrize("name", ["", "a b", "1d", "d-1", "\\d"])
def test_odd_column_names_do_no_harm(name: str, tmp_path: Path):
    """A column that no equation can name is either refused or left alone; the points are right."""
    try:
        found = read(tmp_path, f"x,y,{name}\n1,2,3\n")
    except FileError:
        return
    assert found.points.tolist() == [[1, 2]]


def test_code_in_a_table_is_text(tmp_path: Path):
    refuse(tmp_path, "x,y\n1,__import__('os').getcwd()\n", "line 2", "not a number")


def test_missing_file_and_folder(tmp_path: Path):
    for name in ("nothing.csv", "nothing.npy"):
        with pytest.raises(FileError, match="there is no file"):
            read_scattered(tmp_path / name, ["x"])
    for name in ("folder.csv", "folder.npy"):
        (tmp_path / name).mkdir()
        with pytest.raises(FileError):
            read_scattered(tmp_path / name, ["x"])


@pytest.mark.parametrize("name", ["points.csv", "points.npy"])
def test_huge_files_are_refused_before_they_are_read(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The size on disk decides; a sparse file of a terabyte takes no room and must not be read."""
    path = tmp_path / name
    with path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(FileError, match="at most"):
        read_scattered(path, ["x"])
    assert cnf.pde.problems.scattered.LARGEST < 2**40


def test_too_many_columns(tmp_path: Path):
    names = ",".join(["x", "y", *(f"c{k}" for k in range(200))])
    refuse(tmp_path, f"{names}\n", "202 columns")


def test_many_rows(tmp_path: Path):
    """A hundred thousand rows arrive all, in order."""
    table = np.arange(300_000, dtype=np.float64).reshape(-1, 3)
    body = "\n".join(f"{a:.1f},{b:.1f},{c:.1f}" for a, b, c in table)
    found = read(tmp_path, f"x,y,d\n{body}\n")
    np.testing.assert_array_equal(found.points.numpy(), table[:, :2])
    np.testing.assert_array_equal(found.columns["d"].numpy(), table[:, 2])


# -- NPY ---------------------------------------------------------------------------------------------------------------


def save(tmp_path: Path, array: np.ndarray, **options) -> Path:
    path = tmp_path / "points.npy"
    np.save(path, array, **options)
    return path


@pytest.mark.parametrize("dtype", ["<f8", ">f8", "f4", "i4", "u1"])
def test_arrays_of_numbers(dtype: str, tmp_path: Path):
    """Any real kind becomes float64; the third column is called d."""
    found = read_scattered(save(tmp_path, np.array([[1, 2, 3], [4, 5, 6]], dtype=dtype)), ["x", "y"])
    assert found.points.dtype == torch.float64
    assert found.points.tolist() == [[1, 2], [4, 5]]
    assert found.columns["d"].tolist() == [3, 6]


def test_array_in_column_order_and_long_suffix(tmp_path: Path):
    path = tmp_path / "POINTS.NPY"
    with path.open("wb") as file:
        np.save(file, np.asfortranarray([[1.0, 2.0], [3.0, 4.0]]))
    assert read_scattered(path, ["x", "y"]).points.tolist() == [[1, 2], [3, 4]]


def test_flat_array_in_one_dimension(tmp_path: Path):
    assert read_scattered(save(tmp_path, np.array([0.1, 0.2])), ["x"]).points.tolist() == [[0.1], [0.2]]


def test_several_measured_columns(tmp_path: Path):
    found = read_scattered(save(tmp_path, np.array([[1.0, 2.0, 3.0, 4.0]])), ["x", "y"])
    assert {k: v.tolist() for k, v in found.columns.items()} == {"d1": [3], "d2": [4]}


@pytest.mark.parametrize(
    ("array", "part"),
    [
        (np.zeros((3, 1)), "shape"),
        (np.zeros(3), "shape"),
        (np.zeros((2, 2, 2)), "shape"),
        (np.array(1.0), "shape"),
        (np.zeros((2, 101)), "shape"),
        (np.zeros((0, 2)), "no points"),
        (np.array([[1.0, np.nan]]), "NaN"),
        (np.array([[1.0, np.inf]]), "infinite"),
        (np.array([["1", "2"]]), "real numbers"),
        (np.array([[1j, 2]]), "real numbers"),
        (np.array([[True, False]]), "real numbers"),
        (np.zeros(2, dtype=[("x", "f8"), ("y", "f8")]), "real numbers"),
    ],
)
def test_arrays_that_are_no_points(array: np.ndarray, part: str, tmp_path: Path):
    with pytest.raises(FileError, match=part) as caught:
        read_scattered(save(tmp_path, array), ["x", "y"])
    assert "\n" not in str(caught.value)


class Trap:
    """Unpickling this leaves a trace."""

    def __init__(self, trace: Path):
        self.trace = trace

    def __reduce__(self):
        return Path.touch, (self.trace,)


def test_pickled_objects_are_refused_and_never_run(tmp_path: Path):
    """Neither an array of objects nor a bare pickle with the suffix of an array runs its code."""
    trace = tmp_path / "trace"
    with pytest.raises(FileError):
        read_scattered(save(tmp_path, np.array([[Trap(trace), 1]], dtype=object), allow_pickle=True), ["x", "y"])
    bare = tmp_path / "bare.npy"
    bare.write_bytes(pickle.dumps(Trap(trace)))
    with pytest.raises(FileError):
        read_scattered(bare, ["x", "y"])
    assert not trace.exists()


def test_damaged_arrays(tmp_path: Path):
    """Cut short, empty, text, a zip archive of arrays."""
    whole = save(tmp_path, np.ones((10, 2))).read_bytes()
    path = tmp_path / "damaged.npy"
    archive = tmp_path / "several.npz"
    np.savez(archive, a=np.ones(2))
    for content in (whole[:-8], whole[:20], b"", b"x,y\n1,2\n", archive.read_bytes()):
        path.write_bytes(content)
        with pytest.raises(FileError, match=r"damaged\.npy") as caught:
            read_scattered(path, ["x", "y"])
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("header", [b"(10, 2, }  ", b"(10, -2), }", b"('a', 2), }", b"\x00\xff\x00\xff,  }   "])
def test_damaged_header(header: bytes, tmp_path: Path):
    """The header of an array is text in Python's syntax; damaged, it is refused like any other damage."""
    path = save(tmp_path, np.ones((10, 2)))
    content = path.read_bytes()
    path.write_bytes(content.replace(b"(10, 2), } "[: len(header)], header[: len(b"(10, 2), } ")]))
    assert path.read_bytes() != content
    with pytest.raises(FileError, match=r"points\.npy"):
        read_scattered(path, ["x", "y"])


def test_array_whose_header_promises_too_much(tmp_path: Path):
    """A file of 200 bytes that claims 10^14 rows must not ask for the memory, nor end in a MemoryError."""
    path = tmp_path / "greedy.npy"
    with path.open("wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (10**14, 2)}
        np.lib.format.write_array_header_1_0(file, header)
        file.write(b"\0" * 64)
    with pytest.raises(FileError):
        read_scattered(path, ["x", "y"])
