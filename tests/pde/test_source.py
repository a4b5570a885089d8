"""Problem files as text: what is not TOML is refused in one line, and every entry is found on the line it is written.

The expected lines are marked in the texts themselves by a comment `# here`, never counted by the code under test.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cnf.errors import FileError, ProblemError
from cnf.pde.problems.source import find_line, read_source

TABLES = r"""
title = "A title"  {title}
coordinates = ["x", "y"]  {coordinates}
channels = "u"  {channels}
seed = 3  {seed}

[parameters]  {parameters}
k = 2  {k}
on = 5  {parameter on}
b = [1.0, 2.0]  {b}

[domain]  {domain}
type = "box"  {type}
lower = [0, 0]  {lower}
upper = [1, 1]  {upper}
time = [0, 1]  {time}

[[equations]]  {equation 1}
on = "interior"  {on 1}
equation = '-\Delta u = f'  {latex 1}

[[equations]]  {equation 2}
name = "walls"  {name 2}
on = "boundary"  {on 2}
points = 7  {points 2}
equation = 'u = 0'  {latex 2}

[[equations]]  {equation 3}
equation = 'u = d'  {latex 3}
file = "sensors.csv"  {file 3}

[points]  {points}
count = 400  {count}
layout = "grid"  {layout}

[basis]  {basis}
bandwidth = 0.2  {bandwidth}

[tuning]  {tuning}
objective = "none"  {objective}

[solve]  {solve}
tolerance = 1e-9  {tolerance}

[exact]  {exact}
u = 'x'  {exact u}
"""

PLACES: list[tuple[str, tuple[str | int, ...]]] = [
    ("title", ("title",)),
    ("coordinates", ("coordinates",)),
    ("channels", ("channels",)),
    ("seed", ("seed",)),
    ("parameters", ("parameters",)),
    ("k", ("parameters", "k")),
    ("parameter on", ("parameters", "on")),
    ("b", ("parameters", "b")),
    ("domain", ("domain",)),
    ("type", ("domain", "type")),
    ("lower", ("domain", "lower")),
    ("upper", ("domain", "upper")),
    ("time", ("domain", "time")),
    ("equation 1", ("equations", 0)),
    ("on 1", ("equations", 0, "on")),
    ("latex 1", ("equations", 0, "equation")),
    ("equation 2", ("equations", 1)),
    ("name 2", ("equations", 1, "name")),
    ("on 2", ("equations", 1, "on")),
    ("points 2", ("equations", 1, "points")),
    ("latex 2", ("equations", 1, "equation")),
    ("equation 3", ("equations", 2)),
    ("latex 3", ("equations", 2, "equation")),
    ("file 3", ("equations", 2, "file")),
    ("points", ("points",)),
    ("count", ("points", "count")),
    ("layout", ("points", "layout")),
    ("basis", ("basis",)),
    ("bandwidth", ("basis", "bandwidth")),
    ("tuning", ("tuning",)),
    ("objective", ("tuning", "objective")),
    ("solve", ("solve",)),
    ("tolerance", ("solve", "tolerance")),
    ("exact", ("exact",)),
    ("exact u", ("exact", "u")),
]


def marked(template: str, label: str) -> tuple[str, int]:
    """The text with every `{label}` taken out, and the line, from one, on which the wanted one stood."""
    lines = template.splitlines()
    found = [k + 1 for k, line in enumerate(lines) if line.endswith("{" + label + "}")]
    assert len(found) == 1, label
    cleaned = [line[: line.rindex("  {")] if line.endswith("}") and "  {" in line else line for line in lines]
    return "\n".join(cleaned) + "\n", found[0]


@pytest.mark.parametrize(("label", "where"), PLACES, ids=[label for label, _ in PLACES])
def test_entries_of_tables_are_found(label: str, where: tuple[str | int, ...]):
    """Every kind of entry in a file written with [tables] and [[equations]]."""
    text, line = marked(TABLES, label)
    assert find_line(text, where) == line


INLINE = r"""
coordinates = "x y"  {coordinates}
parameters = { k = 1, c = 2 }  {parameters}
equations = [  {equations}
    { on = "interior", equation = '-\Delta u = f' },  {one}
    { on = "x = 0", equation = 'u = 0' },  {two}
    { equation = 'u = 1',  {three}
      on = "y = 0" },  {three on}
]
points = { count = 20 }  {points}

[domain]  {domain}
type = "difference"
of = { type = "box", lower = [0, 0], upper = [1, 1] }  {of}
minus = [  {minus}
    { type = "disk", name = "hole", center = [0.6, 0.4], radius = 0.2 },
]
"""


@pytest.mark.parametrize(
    ("label", "where"),
    [
        ("coordinates", ("coordinates",)),
        ("parameters", ("parameters",)),
        ("parameters", ("parameters", "c")),
        ("equations", ("equations",)),
        ("one", ("equations", 0, "on")),
        ("one", ("equations", 0, "equation")),
        ("two", ("equations", 1, "on")),
        ("two", ("equations", 1, "equation")),
        ("three", ("equations", 2, "equation")),
        ("three on", ("equations", 2, "on")),
        ("points", ("points", "count")),
        ("domain", ("domain",)),
        ("of", ("domain", "of")),
        ("minus", ("domain", "minus")),
    ],
)
def test_entries_of_inline_arrays_are_found(label: str, where: tuple[str | int, ...]):
    """The same entries written as inline tables and arrays of them."""
    text, line = marked(INLINE, label)
    assert find_line(text, where) == line


@pytest.mark.parametrize(
    ("text", "where", "line"),
    [
        ("# k = 1\n[parameters]\nk = 2\n", ("parameters", "k"), 3),  # a comment is no entry
        ("title = 'k = 3'\n[parameters]\nk = 2\n", ("parameters", "k"), 3),  # nor is a text
        ("parameters.k = 2\n", ("parameters", "k"), 1),  # dotted keys
        ("[parameters]\n'k' = 2\n", ("parameters", "k"), 2),  # quoted keys
        ('[parameters]\n"k" = 2\n', ("parameters", "k"), 2),
        ("[ parameters ]  # all of them\nk = 2\n", ("parameters", "k"), 2),
        ("[parameters]\nkk = 1\nk = 2\n", ("parameters", "k"), 3),  # not the end of a longer name
        ("[[ equations ]]\nequation = 'u = 0'\n", ("equations", 0, "equation"), 2),
        ("[points]\ncount = 3\n[[equations]]\non = 'x'\n", ("points", "layout"), 1),  # the table around it
        ("title = 'a'\n", ("coordinates",), None),
        ("", ("coordinates",), None),
        ("[parameters]\r\nk = 2\r\n", ("parameters", "k"), 2),
    ],
)
def test_lines_of_odd_ways_to_write(text: str, where: tuple[str | int, ...], line: int | None):
    """TOML has several ways to write one thing."""
    assert find_line(text, where) == line


def test_equation_whose_text_looks_like_an_entry():
    r"""The LaTeX of an equation has equals signs of its own; `on` must not be found in it."""
    text = "[[equations]]\nequation = 'u = 0'\n\n[[equations]]\nname = 'left on = 3'\non = 'x = 0'\n"
    assert find_line(text, ("equations", 1, "on")) == 6


def test_what_is_not_toml_names_file_and_line(tmp_path: Path):
    """tomllib counts lines from one: the fault is on line 2."""
    path = tmp_path / "bad.toml"
    path.write_text('coordinates = "x"\nchannels = = "u"\n')
    with pytest.raises(ProblemError, match=r"bad\.toml, line 2: invalid value .column 12.; .* quotes") as caught:
        read_source(path)
    assert "\n" not in str(caught.value)


def test_latex_between_double_quotes_is_advised(tmp_path: Path):
    r"""\D is no escape of TOML: the advice is single quotes."""
    path = tmp_path / "bad.toml"
    path.write_text('equation = "\\Delta u = 0"\n')
    with pytest.raises(ProblemError, match="single quotes"):
        read_source(path)


@pytest.mark.parametrize("written", ['"\\\\Delta u"', "'\\Delta u'"])
def test_both_right_ways_to_quote(written: str, tmp_path: Path):
    """Doubled backslashes between double quotes, or single quotes: the same text."""
    path = tmp_path / "good.toml"
    path.write_text(f"equation = {written}\n")
    assert read_source(path)[1] == {"equation": "\\Delta u"}


def test_tab_and_return_in_double_quotes_are_not_silently_other_characters(tmp_path: Path):
    r"""TOML reads "\theta" as a tab and "heta": such text must not become an equation without complaint."""
    import cnf

    path = tmp_path / "tab.toml"
    path.write_text(
        'coordinates = "x"\n[parameters]\ntheta = 2\n[domain]\ntype = "interval"\nfrom = 0\nto = 1\n'
        '[[equations]]\non = "interior"\nequation = "\\theta u = 0"\n'
    )
    with pytest.raises(ProblemError, match="line"):
        cnf.Problem.read(path)


def test_byte_order_mark_is_ignored(tmp_path: Path):
    path = tmp_path / "bom.toml"
    path.write_bytes(b"\xef\xbb\xbftitle = 'a'\n")
    assert read_source(path)[1] == {"title": "a"}


def test_windows_line_ends(tmp_path: Path):
    path = tmp_path / "crlf.toml"
    path.write_bytes(b"title = 'a'\r\n[domain]\r\ntype = 'box'\r\n")
    text, entries = read_source(path)
    assert entries == {"title": "a", "domain": {"type": "box"}}
    assert find_line(text, ("domain", "type")) == 3


def test_files_that_cannot_be_read(tmp_path: Path):
    """Missing, a folder, not text, too large, a name that is none."""
    with pytest.raises(FileError, match="there is no file"):
        read_source(tmp_path / "missing.toml")
    with pytest.raises(FileError, match="not a file"):
        read_source(tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(FileError, match="UTF-8"):
        read_source(tmp_path / "binary.toml")
    (tmp_path / "large.toml").write_text("# " + "a" * 2**20)
    with pytest.raises(FileError, match="bytes"):
        read_source(tmp_path / "large.toml")


def test_deep_nesting_is_refused(tmp_path: Path):
    """A million opening brackets must not end in a traceback of the parser."""
    path = tmp_path / "deep.toml"
    path.write_text("a = " + "[" * 100_000 + "]" * 100_000)
    with pytest.raises(ProblemError, match="nested too deeply"):
        read_source(path)


def test_repeated_entry_is_refused(tmp_path: Path):
    path = tmp_path / "twice.toml"
    path.write_text("title = 'a'\ntitle = 'b'\n")
    with pytest.raises(ProblemError, match=r"twice\.toml, line 2: cannot overwrite a value.*; this is given twice"):
        read_source(path)


def test_what_is_open_at_the_end_names_the_last_line(tmp_path: Path):
    path = tmp_path / "open.toml"
    path.write_text("title = 'a'\nlower = [1,\n\n")
    with pytest.raises(ProblemError, match=r"open\.toml, line 2: "):
        read_source(path)
