"""Domains as plain tables and as text."""

from __future__ import annotations

import math
import tomllib

import numpy as np
import pytest
import torch

from cnf.errors import DomainError, LatexError
from cnf.pde.domains import (
    Box,
    Difference,
    Disk,
    Domain,
    Interval,
    Polygon,
    Timed,
    Union,
    describe,
    domain_from,
    to_text,
)
from tests.pde.domains.shapes import ALL

DISK = {"type": "disk", "center": [0, 0], "radius": 1}


@pytest.mark.parametrize("domain", [known.domain for known in ALL.values()], ids=list(ALL))
def test_there_and_back(domain: Domain):
    """A description builds an equal domain, and is made of lists, numbers and texts only."""
    table = describe(domain)
    assert domain_from(table) == domain
    assert plain(table)


def plain(value: object) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and plain(entry) for key, entry in value.items())
    return all(map(plain, value)) if isinstance(value, list) else type(value) in (float, int, str)


def test_a_file():
    """The table of a problem file."""
    table = tomllib.loads("""
        [domain]
        type = "difference"
        of = { type = "box", lower = [0, 0], upper = [1, 1] }
        minus = [
            { type = "disk", name = "hole1", center = [0.3, 0.3], radius = 0.1 },
            { type = "polygon", vertices = [[0.6, 0.6], [0.8, 0.6], [0.6, 0.8]] },
        ]
        time = [0, 1]
    """)
    holes = [Disk((0.3, 0.3), 0.1, name="hole1"), Polygon([(0.6, 0.6), (0.8, 0.6), (0.6, 0.8)])]
    assert domain_from(table["domain"]) == Timed(Difference(Box((0, 0), (1, 1)), holes), 0, 1)


def test_other_entries():
    """One hole without a list, corners that are numbers, arrays and tensors."""
    table = {"type": "difference", "of": DISK, "minus": {**DISK, "radius": 0.5}}
    assert domain_from(table) == Difference(Disk((0, 0), 1), [Disk((0, 0), 0.5)])
    assert domain_from({"type": "box", "lower": 0, "upper": 2.0}) == Box(0, 2)
    assert domain_from({"type": "box", "lower": np.zeros(2), "upper": torch.ones(2)}) == Box((0, 0), (1, 1))


def test_own_numbers():
    r"""`number` reads every entry: '\pi' where a number is expected."""

    def number(value: object) -> float:
        if value == r"\pi":
            return math.pi
        if isinstance(value, str):
            raise LatexError("cannot be read")
        return float(value)  # type: ignore[arg-type]

    assert domain_from({"type": "interval", "from": 0, "to": r"\pi"}, number) == Interval(0, math.pi)
    table = {"type": "disk", "center": [r"\pi", 0], "radius": r"\pi", "time": [0, r"\pi"]}
    assert domain_from(table, number) == Timed(Disk((math.pi, 0), math.pi), 0, math.pi)
    with pytest.raises(LatexError, match="cannot be read"):
        domain_from({"type": "interval", "from": 0, "to": r"\po"}, number)
    with pytest.raises(DomainError, match=r"domain.to is not a number: 'x' \(could not convert"):
        domain_from({"type": "interval", "from": 0, "to": "x"}, float)  # type: ignore[arg-type]
    with pytest.raises(DomainError, match=r"domain.to is nan; it must be finite"):
        domain_from({"type": "interval", "from": 0, "to": "x"}, lambda value: math.nan if value else 0.0)


def nested(depth: int) -> dict:
    return DISK if depth == 1 else {"type": "union", "of": [nested(depth - 1)]}


BAD = {
    "no table": ([1, 2], r"domain must be a table"),
    "no type": ({"lower": [0]}, "domain.type is missing; expected one of interval, box, disk"),
    "unknown type": ({"type": "bocks"}, r"domain.type is 'bocks'; .* Did you mean 'box'\?"),
    "type a number": ({"type": 3}, "domain.type is 3; expected one of"),
    "unknown key": ({**DISK, "radios": 1}, r"domain.radios is unknown; a disk has .* Did you mean 'radius'\?"),
    "missing key": ({"type": "interval", "from": 0}, "domain.to is missing; an interval needs from and to"),
    "a truth value": ({**DISK, "radius": True}, "domain.radius must be a number, got True"),
    "a text": ({**DISK, "center": [0, "1"]}, r"domain.center\[1\] must be a number, got '1'"),
    "no list": ({**DISK, "center": "01"}, "domain.center must be a list, got '01'"),
    "nan": ({**DISK, "radius": math.nan}, "domain.radius is nan; it must be finite"),
    "no shape": ({"type": "union", "of": [DISK, 3]}, r"domain.of\[1\] must be a table"),
    "inner key": ({"type": "union", "of": [{**DISK, "r": 1}]}, r"domain.of\[0\].r is unknown"),
    "inner value": (
        {"type": "difference", "of": DISK, "minus": [{**DISK, "radius": -1}]},
        r"domain.minus\[0\]: the radius of a disk must be positive, got -1",
    ),
    "outer value": (
        {"type": "difference", "of": DISK, "minus": [{**DISK, "radius": 2}]},
        "domain: .* cover everything",
    ),
    "inner time": (
        {"type": "union", "of": [{**DISK, "time": [0, 1]}]},
        r"domain.of\[0\].time: time belongs to the whole domain",
    ),
    "time of one": ({**DISK, "time": [0]}, "domain.time must be two numbers, start and end, got 1"),
    "time backwards": ({**DISK, "time": [1, 0]}, "domain: the start of time 1 must lie before its end 0"),
    "name": ({**DISK, "name": 3}, "domain.name must be a text, got 3"),
    "empty list": ({"type": "union", "of": []}, "domain.of must have between 1 and 1000 entries, got 0"),
    "many vertices": ({"type": "polygon", "vertices": [[0, 0]] * 1001}, "between 1 and 1000 entries, got 1001"),
    "deep": (nested(9), "nested more than 8 deep"),
    "many shapes": (
        {"type": "union", "of": [{"type": "union", "of": [DISK] * 40}] * 40},
        "more than 1000 shapes",
    ),
}


@pytest.mark.parametrize(("table", "message"), BAD.values(), ids=BAD)
def test_refused(table: object, message: str):
    with pytest.raises(DomainError, match=message):
        domain_from(table)  # type: ignore[arg-type]


def test_eight_deep():
    assert domain_from(nested(8)).volume == pytest.approx(math.pi)


def test_text():
    """Plain English, one line."""
    plate = Difference(Box((0, 0), (1, 1)), [Disk((0.3, 0.3), 0.1, name="hole1")])
    line = "box [0, 1] x [0, 1] minus disk 'hole1' at (0.3, 0.3) of radius 0.1"
    assert to_text(Timed(plate, 0, 1)) == f"{line}, t in [0, 1]"
    assert to_text(Interval(-1, 0.5)) == "interval [-1, 0.5]"
    assert to_text(Polygon([(0, 0), (1, 0), (0, 1)])) == "polygon through (0, 0), (1, 0), (0, 1)"
    island = Disk((5, 5), 1)
    assert to_text(Union([plate, island])) == f"union of ({line}) and disk at (5, 5) of radius 1"
    many = Union([Interval(3 * k, 3 * k + 1) for k in range(9)], name="all")
    assert to_text(many).startswith("union 'all' of interval [0, 1], ") and to_text(many).endswith(" and 3 more")


class Own(Domain):
    name = None


def test_unknown_kind():
    for ask in (describe, to_text):
        with pytest.raises(DomainError, match="a Own cannot be described"):
            ask(Own())
