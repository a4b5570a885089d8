"""Hints of a check: what textbooks ask for is missed when it is missing, and nothing is said of well-posed problems."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import cnf
from cnf.pde.problems.templates import TEMPLATES, read_template
from cnf.pde.report.check import check_text

GALLERY = sorted((Path(__file__).parent.parent.parent / "examples" / "pde").glob("*.toml"))
SQUARE = {"type": "box", "lower": [0, 0], "upper": [1, 1]}
STRING = {"type": "interval", "from": 0, "to": 1, "time": [0, 1]}
WAVE = {"interior": "u_{tt} = u_{xx}", "boundary": "u = 0"}


def check(coordinates: str, domain: dict[str, Any], *equations: tuple[str | None, str], channels: str = "u"):
    given = [{"equation": latex} if place is None else {"on": place, "equation": latex} for place, latex in equations]
    return cnf.Problem(coordinates, channels, domain=domain, equations=given, points=120).check()


@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_the_gallery_is_well_posed(path: Path):
    """Every file was solved to many digits: a hint about one of them would be wrong."""
    found = cnf.Problem.read(path).check()
    if (
        path.stem == "sensors"
    ):  # the boundary is not known there; to say so is right, to say that it has too much is not
        assert found.surplus == ()
    else:
        assert found.hints == ()


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_the_templates_are_well_posed(name: str, tmp_path: Path):
    (tmp_path / "sensors.csv").write_text("x,y,d\n0.2,0.3,1.25\n")
    path = tmp_path / f"{name}.toml"
    path.write_text(read_template(name))
    hints = cnf.Problem.read(path).check().hints
    assert (hints == ()) == (name != "sensors")


def test_readings_say_what_was_read():
    """Names, parts, texts as written, normal forms and counts; the conditions are their sum."""
    found = check("x", {"type": "interval", "from": 0, "to": 1}, ("interior", "u'' = x"), ("boundary", "u = 2"))
    assert [r.name for r in found.readings] == ["interior", "boundary"]
    assert [r.written for r in found.readings] == ["u'' = x", "u = 2"]
    assert [r.points for r in found.readings] == [120, 2]
    assert found.conditions == 122 == sum(r.rows for r in found.readings)
    assert found.readings[0].read == r"\partial_{x}^{2} u = x"
    text = check_text(found)
    assert all(part in text for part in ("u'' = x", "interior", "boundary", "122 conditions", "interval [0, 1]"))


# -- time --------------------------------------------------------------------------------------------------------------


def test_wave_without_velocity():
    """Second order in time takes two conditions at the start."""
    found = check("x t", STRING, *WAVE.items(), ("t = 0", "u = 0"))
    (hint,) = found.missing
    assert "time derivative of order 2" in hint and "takes 2 conditions at t = 0" in hint and "there is 1" in hint


def test_wave_without_anything_at_the_start():
    (hint,) = check("x t", STRING, *WAVE.items()).missing
    assert "time derivative of order 2" in hint and "none" in hint


def test_wave_with_both():
    assert check("x t", STRING, *WAVE.items(), ("t = 0", "u = 0"), ("t = 0", "u_t = 0")).hints == ()


def test_heat_without_start():
    (hint,) = check("x t", STRING, ("interior", "u_t = u_{xx}"), ("boundary", "u = 0")).missing
    assert "order 1" in hint and "1 condition at t = 0" in hint


def test_heat_with_start_and_one_end():
    (hint,) = check("x t", STRING, ("interior", "u_t = u_{xx}"), ("t = 0", "u = 0"), ("x = 0", "u = 0")).missing
    assert "order 2 in space" in hint and "50 %" in hint


def test_advection_wants_no_outflow_condition():
    start, inflow = ("t = 0", "u = 0"), ("x = 0", "u = 0")
    assert check("x t", STRING, ("interior", "u_t + u_x = 0"), start, inflow).hints == ()


# -- boundaries --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["x = 0", "x = 1", "y = 0", "y = 1"])
def test_side_of_a_square_that_is_missing(side: str):
    """About a quarter of the boundary has none (less near its ends), and the place named lies on that side."""
    others = [(place, "u = 0") for place in ("x = 0", "x = 1", "y = 0", "y = 1") if place != side]
    (hint,) = check("x y", SQUARE, ("interior", r"\Delta u = 0"), *others).missing
    share = int(hint.split(" % of")[0].split()[-1])
    assert 10 <= share <= 27
    place = [float(v) for v in hint[hint.index("near (") + 6 : hint.rindex(")")].split(",")]
    axis, value = "xy".index(side[0]), float(side[-1])
    assert place[axis] == value


def test_all_sides_one_by_one():
    sides = [(place, "u = 0") for place in ("x = 0", "x = 1", "y = 0")]
    assert check("x y", SQUARE, ("interior", r"\Delta u = 0"), *sides, ("y = 1", r"\partial_n u = 1")).hints == ()


def test_hole_that_is_forgotten():
    domain = {
        "type": "difference",
        "of": {**SQUARE, "name": "square"},
        "minus": [{"type": "disk", "name": "hole", "center": [0.5, 0.5], "radius": 0.2}],
    }
    (hint,) = check("x y", domain, ("interior", r"\Delta u = 0"), ("square", "u = 0")).missing
    assert "boundary" in hint
    assert check("x y", domain, ("interior", r"\Delta u = 0"), ("square", "u = 0"), ("hole", "u = 1")).hints == ()


def test_plate_with_only_its_deflection():
    """Fourth order takes two conditions on all of the boundary."""
    (hint,) = check("x y", SQUARE, ("interior", r"\Delta^2 u = 1"), ("boundary", "u = 0")).missing
    assert "order 4" in hint and "takes 2 conditions" in hint and "100 %" in hint


def test_nothing_on_the_boundary():
    assert any("100 %" in hint for hint in check("x y", SQUARE, ("interior", r"\Delta u = 0")).missing)


@pytest.mark.parametrize(
    ("conditions", "count"), [([], "none"), ([("x = 0", "u = 0")], "1"), ([("x = 0.5", "u_x = 0")], "1")]
)
def test_ordinary_equation_with_too_few(conditions: list[tuple[str, str]], count: str):
    (hint,) = check("x", {"type": "interval", "from": 0, "to": 1}, ("interior", "u'' + u = 0"), *conditions).missing
    assert "takes 2 conditions" in hint and hint.endswith(count)


@pytest.mark.parametrize(
    "conditions",
    [
        [("boundary", "u = 0")],
        [("x = 0", "u = 0"), ("x = 0", "u_x = 1")],
        [("x = 0", "u = 0"), (None, r"\int_0^1 u \, dx = 1")],
    ],
)
def test_ordinary_equation_with_enough(conditions: list[tuple[str | None, str]]):
    """Two conditions, wherever they are."""
    assert check("x", {"type": "interval", "from": 0, "to": 1}, ("interior", "u'' + u = 0"), *conditions).hints == ()


def test_surplus():
    """Value and slope on all of the boundary are one too many for a second-order equation."""
    found = check(
        "x y", SQUARE, ("interior", r"\Delta u = 0"), ("boundary", "u = 0"), ("boundary", r"\partial_n u = 0")
    )
    assert found.missing == ()
    (hint,) = found.surplus
    assert "more than 1 condition on u" in hint and "contradict" in hint


# -- channels that equations couple ------------------------------------------------------------------------------------

LINE = {"type": "interval", "from": 0, "to": 1}
EIGENVALUE = [("interior", "u_x = w"), ("interior", "w_x = -l u"), ("interior", "l_x = 0")]
SIZE = (None, r"\int_0^1 u^2 \, dx = 1")


def test_eigenvalue_takes_conditions_on_its_field_alone():
    """u'' = -l u of a given size, written in first order: three conditions on u determine w and l as well."""
    assert check("x", LINE, *EIGENVALUE, ("boundary", "u = 0"), SIZE, channels="u w l").hints == ()


@pytest.mark.parametrize("left", [[("x = 0", "u = 0"), SIZE], [("boundary", "u = 0")]])
def test_eigenvalue_with_a_condition_too_few(left: list[tuple[str | None, str]]):
    (hint,) = check("x", LINE, *EIGENVALUE, *left, channels="u w l").missing
    assert hint.startswith("the equations for u, w, l are of order 3 together, which takes 3 conditions besides them")
    assert hint.endswith("there are 2")


@pytest.mark.parametrize("places", [("x = 0", "x = 0"), ("x = 0", "x = 1")])
def test_conditions_that_do_not_see_a_channel_do_not_determine_it(places: tuple[str, str]):
    """u' = 1, v' = u: two values of u say nothing of v; two of v determine u = x + a as well."""
    equations = [("interior", "u_x = 1"), ("interior", "v_x = u")]
    (hint,) = check("x", LINE, *equations, ("x = 0", "u = 0"), ("x = 1", "u = 1"), channels="u v").missing[:1]
    assert hint.startswith("the equation for v is of order 1, which takes 1 condition") and hint.endswith("none")
    on_v = [(places[0], "v = 0"), (places[1], "v = 0.5" if places[1] == "x = 1" else "v_x = 0")]
    assert check("x", LINE, *equations, *on_v, channels="u v").hints == ()


PLATE = [("interior", r"\Delta u = w"), ("interior", r"\Delta w = 1")]


@pytest.mark.parametrize("second", [r"\partial_n u = 0", "w = 0"])
def test_plate_of_second_order_clamped_or_supported(second: str):
    """Two conditions on all of the boundary, as for the plate in one equation; both may be on its deflection."""
    assert check("x y", SQUARE, *PLATE, ("boundary", "u = 0"), ("boundary", second), channels="u w").hints == ()


def test_plate_of_second_order_with_too_few_and_too_many():
    (hint,) = check("x y", SQUARE, *PLATE, ("boundary", "u = 0"), channels="u w").missing
    assert "equations for u, w are of order 4 in space together, which takes 2 conditions" in hint and "100 %" in hint
    three = [("boundary", latex) for latex in ("u = 0", r"\partial_n u = 0", "w = 0")]
    (hint,) = check("x y", SQUARE, *PLATE, *three, channels="u w").surplus
    assert "more than 2 conditions on u, w" in hint
    twice = [("boundary", "w = 0"), ("boundary", r"\partial_n w = 0")]
    hint = check("x y", SQUARE, *PLATE, *twice, channels="u w").surplus[0]
    assert "more than 1 condition on w;" in hint


def test_flow_out_of_a_channel():
    """Where the pressure is given, one velocity is not: there are two conditions for u, v and p together."""
    flow = [("interior", r"\Delta u = p_x"), ("interior", r"\Delta v = p_y"), ("interior", "u_x + v_y = 0")]
    walls = [(side, f"{c} = 0") for side in ("y = 0", "y = 1", "x = 0") for c in "uv"]
    out = [("x = 1", "p = 0"), ("x = 1", "v = 0")]
    assert check("x y", SQUARE, *flow, *walls, *out, channels="u v p").hints == ()
    assert any("25 %" in hint for hint in check("x y", SQUARE, *flow, *walls, out[1], channels="u v p").missing)


# -- constants ---------------------------------------------------------------------------------------------------------


def test_neumann_up_to_a_constant():
    (hint,) = check("x y", SQUARE, ("interior", r"\Delta u = 0"), ("boundary", r"\partial_n u = 0")).missing
    assert "u appears only through its derivatives" in hint


STOKES = [
    ("interior", r"-\Delta \mathbf{u} + \nabla p = 0"),
    ("interior", r"\nabla \cdot \mathbf{u} = 0"),
    ("boundary", r"\mathbf{u} = 0"),
]


def test_pressure_up_to_a_constant():
    (hint,) = check("x y", SQUARE, *STOKES, channels="u v p").missing
    assert hint.startswith("p appears only through its derivatives")


@pytest.mark.parametrize("fixed", [("x = 0, y = 0", "p = 0"), (None, r"\int_0^1 \int_0^1 p \, dx \, dy = 0")])
def test_pressure_that_is_fixed(fixed: tuple[str | None, str]):
    assert check("x y", SQUARE, *STOKES, fixed, channels="u v p").hints == ()


def test_channel_without_equation():
    found = check("x y", SQUARE, ("interior", r"\Delta u = 0"), ("boundary", "u = 0"), channels="u v")
    assert found.missing == ("no equation has v",)
