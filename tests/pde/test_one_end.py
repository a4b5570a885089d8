"""Ordinary equations with all conditions at one end: too few are refused at once, and nothing that is well-posed is."""

from __future__ import annotations

from pathlib import Path

import pytest

import cnf
from cnf.errors import UnderdeterminedError
from cnf.pde.problems.one_end import missing_at_end

GALLERY = sorted((Path(__file__).parent.parent.parent / "examples" / "pde").glob("*.toml"))


def problem(interior: str | list[str], *others: tuple[str | None, str], channels: str = "u", **more: object):
    inside = [interior] if isinstance(interior, str) else interior
    equations: list[dict] = [{"on": "interior", "equation": latex} for latex in inside]
    equations += [{"equation": latex} if on is None else {"on": on, "equation": latex} for on, latex in others]
    domain = {"type": "interval", "from": 0, "to": 2}
    return cnf.Problem("t", channels, domain=domain, equations=equations, **more)


@pytest.mark.parametrize(
    ("interior", "others", "channels", "says"),
    [
        (r"u'' = -\sin(u)", [("t = 0", "u = 0.5")], "u", r"order 2.*at t = 0, and there is 1.*1 more there.*u' = "),
        (r"u'' = -\sin(u)", [("t = 2", r"u' = 1")], "u", r"at t = 2, and there is 1\. Give 1 more there.*u = "),
        ("2 u'' + t u = 1", [("t = 0", "u = 0.5")], "u", "order 2"),
        ("u''' + u u'' = e^t", [("t = 0", "u = 0"), ("t = 0", "u' = 0")], "u", "there are 2.*u'' = "),
        (["u' = u - u w", "w' = u w - w"], [("t = 0", "u = 2")], "u w", "order 2 together.*w = "),
        (r"u'' = k(u)", [("t = 0", "u = 0.5")], "u", "order 2"),
    ],
)
def test_too_few_conditions_at_an_end(interior, others, channels: str, says: str):
    """The error says how many there are, where, and what is missing; nothing is solved."""
    more = {"parameters": {"k": "1 - u^3"}} if "k(u)" in interior else {}
    with pytest.raises(UnderdeterminedError, match=says):
        problem(interior, *others, channels=channels, **more).solve(report=lambda _: pytest.fail("it was tried"))


@pytest.mark.parametrize(
    ("interior", "others"),
    [
        (r"u'' = -\sin(u)", [("t = 0", "u = 0.5"), ("t = 0", "u' = 0")]),
        (r"u'' = -\sin(u)", [("t = 0", "u = 0.5"), ("t = 2", "u = 0.5")]),
        (r"u'' = -\sin(u)", [("t = 0", "u = 0.5"), ("t = 1", "u = 0.6")]),
        (r"u'' = -\sin(u)", [("t = 0", "u = 0.5"), (None, r"\int_0^2 u \, dt = 1")]),
        (r"u'' = -\sin(u)", [("t = 0", "u(0) = u(2)"), ("boundary", "u' = 0")]),
        (r"u'' = -u", [("t = 0", "u(0) = u(2)"), ("t = 0", "u = 1")]),
        (r"u'' + \frac{2}{t} u' + u^5 = 0", [("t = 0", "u = 1")]),  # the centre is singular: u' = 0 follows
        (r"t u'' + 2 u' + t u^5 = 0", [("t = 0", "u = 1")]),
        (r"u u'' + u'^2 = 3", [("t = 0", "u = 0")]),
        ("(u')^2 + u^2 = 1", [("t = 0", "u = 0")]),
        (r"u'' = \sqrt{u'}", [("t = 0", "u = 0")]),
        (r"u'' = -\sin(u)", [("t = 0", "(u - 1)^2 + (u')^2 = 0")]),
        (r"u'' = \frac{u'}{u}", [("t = 0", "u = 0")]),
        (r"u'' = |u|", [("t = 0", "u = 0")]),
        (r"u' = -u + \int_0^2 u \, dt", [("t = 0", "u = 1")]),
    ],
)
def test_nothing_is_said_of_what_may_be_determined(interior: str, others):
    assert missing_at_end(problem(interior, *others)) is None


def test_the_smoothest_field_is_no_mistake():
    asked = problem("u'' = -u", ("t = 0", "u = 0.5"), solve={"underdetermined": "minimum-norm"})
    assert asked.solve().certificate.exact


def test_files_and_unknowns_may_make_up_for_it(tmp_path: Path):
    (tmp_path / "data.csv").write_text("t,d\n1.0,0.3\n")
    equations = [
        {"on": "interior", "equation": "u'' = -u"},
        {"on": "t = 0", "equation": "u = 0.5"},
        {"file": "data.csv", "equation": "u = d"},
    ]
    domain = {"type": "interval", "from": 0, "to": 2}
    assert missing_at_end(cnf.Problem("t", domain=domain, equations=equations, folder=tmp_path)) is None


@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_nothing_is_missing_in_the_gallery(path: Path):
    assert missing_at_end(cnf.Problem.read(path)) is None
