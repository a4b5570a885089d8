"""Problems: what is written becomes the constraints it says, from Python and from a file; mistakes name their line.

Points, normals and values are compared with what follows by hand from the domain and the formulas, with numpy.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import cnf
from cnf.errors import CnfError, ProblemError
from cnf.pde.domains import Box, Difference, Disk, Interval, Timed
from cnf.pde.problems.check import read_back

BOX = {"type": "box", "lower": [0, 0], "upper": [2, 1]}
HOLED = {
    "type": "difference",
    "of": {"type": "box", "name": "square", "lower": [-1, -1], "upper": [1, 1]},
    "minus": [{"type": "disk", "name": "hole", "center": [0.25, 0], "radius": 0.5}],
}

FILE = r"""title = "Two ways to say it"
coordinates = "x y"
seed = 4

[parameters]
k = '\frac{\pi}{2}'
b = [1.0, 'k x']
f = 'k^2 \cos(k y)'

[domain]
type = "box"
lower = [0, 0]
upper = [2, 1]

[[equations]]
name = "pde"
on = "interior"
equation = '-\Delta u + \mathbf{b} \cdot \nabla u = f'

[[equations]]
on = "boundary"
equation = '\partial_n u + u = 0'
points = 24

[[equations]]
on = "x = 1, y = 0"
equation = 'u = k'

[points]
count = 40
layout = "poisson"

[exact]
u = '\cos(k y)'
"""

PYTHON: dict[str, Any] = {
    "coordinates": ["x", "y"],
    "domain": Box((0, 0), (2, 1)),
    "equations": [
        {"name": "pde", "on": "interior", "equation": r"-\Delta u + \mathbf{b} \cdot \nabla u = f"},
        {"on": "boundary", "equation": r"\partial_n u + u = 0", "points": 24},
        {"on": "x = 1, y = 0", "equation": "u = k"},
    ],
    "parameters": {"k": r"\frac{\pi}{2}", "b": [1.0, "k x"], "f": r"k^2 \cos(k y)"},
    "points": {"count": 40, "layout": "poisson"},
    "exact": {"u": r"\cos(k y)"},
    "title": "Two ways to say it",
    "seed": 4,
}


def pose(**changes: Any) -> cnf.Problem:
    """A Poisson problem on [0, 2] x [0, 1] with few points, changed."""
    given: dict[str, Any] = {
        "coordinates": "x y",
        "domain": BOX,
        "equations": [
            {"on": "interior", "equation": r"-\Delta u = 1"},
            {"on": "boundary", "equation": "u = 0"},
        ],
        "points": {"count": 20},
    }
    return cnf.Problem(**{**given, **changes})


def refuse(*parts: str, **changes: Any) -> str:
    """The message of the refusal, which has all parts."""
    with pytest.raises(ProblemError) as caught:
        pose(**changes).constraints  # noqa: B018
    for part in parts:
        assert part in str(caught.value), str(caught.value)
    return str(caught.value)


def on(place: str, latex: str = "u = 0", **more: Any) -> list[dict[str, Any]]:
    return [{"on": place, "equation": latex, **more}]


def columns(points: Tensor) -> list[np.ndarray]:
    return list(points.numpy().T)


# -- Python and files --------------------------------------------------------------------------------------------------


def test_python_and_file_are_the_same_problem(tmp_path: Path):
    """Names, operators, points and values equal bit for bit, and so do the solutions."""
    path = tmp_path / "problem.toml"
    path.write_text(FILE)
    written, spoken = cnf.Problem.read(path), cnf.Problem(**PYTHON)
    assert [c.name for c in written.constraints] == ["pde", "boundary", "x = 1, y = 0"]
    for a, b in zip(written.constraints, spoken.constraints, strict=True):
        assert a.name == b.name and a.operator.to_latex() == b.operator.to_latex()
        assert torch.equal(a.points, b.points) and torch.equal(a.values, b.values)
    points = written.domain.random(50, torch.Generator().manual_seed(0))
    first, second = written.solve(), spoken.solve()
    assert torch.equal(first(points), second(points))
    assert first.tuning.best.settings == second.tuning.best.settings
    assert first.errors == second.errors


def test_same_seed_same_bits_other_seed_other_points():
    """Solved twice with one seed: equal bit for bit; another seed puts other points and gives another field."""
    poisson = [{"on": "interior", "equation": r"-\Delta u = x"}, {"on": "boundary", "equation": "u = 0"}]
    first, again, other = (pose(equations=poisson, seed=s, points=30) for s in (3, 3, 8))
    assert torch.equal(first.constraints[0].points, again.constraints[0].points)
    assert not torch.equal(first.constraints[0].points, other.constraints[0].points)
    probe = first.domain.random(40, torch.Generator().manual_seed(1))
    a, b, c = (p.solve()(probe) for p in (first, again, other))
    assert torch.equal(a, b) and not torch.equal(a, c)


def test_solving_leaves_the_global_random_numbers_alone():
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    pose(points=12).solve()
    assert torch.equal(torch.rand(3), wanted)


def test_changes_to_a_file(tmp_path: Path):
    """A table changes only the entries it has: the layout of the file stays."""
    path = tmp_path / "problem.toml"
    path.write_text(FILE)
    problem = cnf.Problem.read(path, points={"count": 10}, seed=1)
    assert problem.points.count == 10 and problem.points.layout == "poisson" and problem.seed == 1
    assert problem.constraints[0].points.shape[0] == 10


def test_mapping_of_parts_to_equations():
    problem = pose(equations={"interior": r"-\Delta u = 1", "boundary": "u = 0"})
    assert [(e.on, e.latex) for e in problem.equations] == [("interior", r"-\Delta u = 1"), ("boundary", "u = 0")]


def test_names_of_channels_and_coordinates():
    problem = pose(coordinates="x, y", channels="u v", equations={"interior": r"\nabla \cdot \mathbf{u} = 0"})
    assert problem.space.coordinates == ("x", "y") and problem.space.channels == ("u", "v")
    named = pose(channels="a b", vectors={"w": "a b"}, equations={"interior": r"\nabla \cdot \mathbf{w} = 0"})
    assert named.constraints[0].operator.to_latex() == r"\partial_{x} a + \partial_{y} b"


# -- mistakes in files -------------------------------------------------------------------------------------------------


def spoil(tmp_path: Path, old: str, new: str, text: str = FILE) -> tuple[Path, int]:
    """The file with one text replaced, and the line on which the new one stands."""
    assert text.count(old) == 1
    spoiled = text.replace(old, new)
    path = tmp_path / "spoiled.toml"
    path.write_text(spoiled)
    return path, spoiled[: spoiled.index(new)].count("\n") + 1


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("seed = 4", "sead = 4", "Did you mean 'seed'?"),
        ("count = 40", "cuont = 40", "Did you mean 'count'?"),
        ("points = 24", "point = 24", "Did you mean 'points'?"),
        ('name = "pde"', 'nmae = "pde"', "Did you mean 'name'?"),
        ("lower = [0, 0]", "lowr = [0, 0]", "Did you mean 'lower'?"),
        ('on = "boundary"', 'on = "boundry"', "Did you mean 'boundary'?"),
        ('layout = "poisson"', 'layout = "poison"', "Did you mean 'poisson'?"),
        ("seed = 4", "seed = -4", "whole number"),
        ("seed = 4", "seed = 1.5", "whole number"),
        ("count = 40", "count = 0", "whole number"),
        ("count = 40", "count = true", "whole number"),
        ("points = 24", "points = '24'", "whole number"),
        ("upper = [2, 1]", "upper = [2, 0]", "must lie below"),
        ('on = "x = 1, y = 0"', 'on = "x = 7, y = 0"', "outside the domain"),
        ('on = "x = 1, y = 0"', 'on = "z = 1, y = 0"', "not a coordinate"),
        ("k = '\\frac{\\pi}{2}'", "k = '\\frac{\\pi}{'", "\\frac{\\pi}{"),
        ("u = '\\cos(k y)'", "u = '\\cos(q y)'", "q is not known"),
        ("u = '\\cos(k y)'", "v = '\\cos(k y)'", "'v'"),
    ],
)
def test_mistakes_name_their_line(old: str, new: str, part: str, tmp_path: Path):
    """File, line and advice; entries of the domain may name the line of the domain's own table."""
    path, line = spoil(tmp_path, old, new)
    with pytest.raises(ProblemError) as caught:
        cnf.Problem.read(path)
    message = str(caught.value)
    table = FILE[: FILE.index("[domain]")].count("\n") + 1
    lines = [line, table] if new.startswith(("low", "upp")) else [line]
    assert any(message.startswith(f"{path}, line {at}: ") for at in lines), message
    assert part in message


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("\\partial_n u + u = 0", "\\partial_n u + u", "equals"),
        ("equation = 'u = k'", "equation = 'u = k \\log(-1 - x^2)'", "NaN"),
        ('on = "boundary"\n', "", "on ="),
    ],
)
def test_late_mistakes_name_their_line(old: str, new: str, part: str, tmp_path: Path):
    """What only shows at the points (no right-hand side, no number, no points) names the line of the equation too."""
    text = FILE.replace("\\partial_n u + u = 0", "u = 0") if "on =" in old else FILE
    wanted = new or "equation = 'u = 0'"
    assert text.count(old) == 1
    spoiled = text.replace(old, new)
    path = tmp_path / "late.toml"
    path.write_text(spoiled)
    with pytest.raises(ProblemError) as caught:
        cnf.Problem.read(path).constraints  # noqa: B018
    assert part in str(caught.value)
    assert f"line {spoiled[: spoiled.index(wanted)].count(chr(10)) + 1}" in str(caught.value)


def test_bad_equation_shows_line_and_caret(tmp_path: Path):
    r"""The caret stands under \gamm of the equation, on its own line below it."""
    path, line = spoil(tmp_path, "'u = k'", "'u = \\gamm k'")
    with pytest.raises(ProblemError) as caught:
        cnf.Problem.read(path)
    message, source, mark = str(caught.value).splitlines()
    assert message.startswith(f"{path}, line {line}: ")
    assert source.strip() == r"u = \gamm k" and mark.strip() == "^"
    assert mark.index("^") == source.index(r"\gamm")


@pytest.mark.parametrize("key", ["coordinates", "domain", "equations"])
def test_what_is_missing_is_named(key: str, tmp_path: Path):
    parts = {
        "coordinates": 'coordinates = "x"\n',
        "domain": 'domain = { type = "interval", from = 0, to = 1 }\n',
        "equations": "equations = [{ on = 'interior', equation = 'u = 0' }]\n",
    }
    path = tmp_path / "missing.toml"
    path.write_text("".join(text for name, text in parts.items() if name != key))
    with pytest.raises(ProblemError, match=f"'{key}' is missing"):
        cnf.Problem.read(path)
    path.write_text("".join(parts.values()))
    assert cnf.Problem.read(path).constraints[0].name == "interior"


def test_equation_without_itself(tmp_path: Path):
    path, line = spoil(tmp_path, "equation = 'u = k'\n", "# nothing\n")
    with pytest.raises(ProblemError, match=f"line {line - 2}: the equation itself is missing"):
        cnf.Problem.read(path)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"equations": []}, "at least one equation"),
        ({"equations": "u = 0"}, "at least one equation"),
        ({"equations": ["u = 0"]}, "table"),
        ({"equations": on("interior", r"u \int_0^1 u \, dx = 1")}, "function of an integral"),
        ({"equations": on("interior", "0 = 1")}, "no field"),
        ({"equations": on("interior", "u = 0", on=3)}, "name of a part"),
        ({"equations": on("interior", "u = 0", layout="gird")}, "'grid'"),
        ({"equations": on("interior", "u = 0", file="a.csv")}, "not both"),
        ({"equations": [{"equation": "u = d", "file": "a.csv", "points": 3}]}, "as they are"),
        ({"equations": [*on("interior", name="a"), *on("boundary", name="a")]}, "two equations are called 'a'"),
        ({"points": {"count": 3, "file": "a.csv"}}, "as they are"),
        ({"points": 30_000}, "conditions in all"),
        ({"basis": "rbff"}, "'rbf'"),
        ({"basis": {"type": "rbf", "size": 2}}, "leave size out"),
        ({"basis": {"size": 0.5}}, "from 1 to 20"),
        ({"basis": {"bandwidth": [1, 2, 3]}}, "one per coordinate"),
        ({"basis": {"bandwidth": 0}}, "larger than 0"),
        ({"basis": {"bandwidth": math.nan}}, "number"),
        ({"tuning": "best"}, "held-out"),
        ({"tuning": {"steps": -1}}, "whole number"),
        ({"solve": {"tolerance": 0}}, "larger than 0"),
        ({"solve": {"underdetermined": "guess"}}, "minimum-norm"),
        ({"exact": {"u": [1]}}, "LaTeX"),
        ({"channels": "u v", "exact": "x"}, "each of u, v"),
        ({"coordinates": "x y z"}, "2 dimensions"),
        ({"coordinates": "x x"}, "twice"),
        ({"coordinates": ""}, "at least one name"),
        ({"coordinates": 3}, "names"),
        ({"coordinates": "x t"}, "time"),
        ({"domain": "box"}, "domain or a table"),
        ({"domain": {"type": "bx"}}, "'box'"),
        ({"domain": {**BOX, "time": [1, 0]}, "coordinates": "x y t"}, "start"),
        ({"seed": True}, "whole number"),
    ],
)
def test_mistakes_in_python(changes: dict[str, Any], part: str):
    assert "\n\n" not in refuse(part, **changes)


# -- parameters --------------------------------------------------------------------------------------------------------


def test_missing_parameter_is_named_with_a_caret():
    message = refuse("f is not known", equations=on("interior", r"-\Delta u = f"))
    _, source, mark = message.splitlines()
    assert mark.index("^") == source.index("= f") + 2


def test_unused_parameter_is_refused():
    refuse("'k'", "nothing uses it", parameters={"k": 2})


def test_circular_parameters_are_refused():
    refuse("need each other", "a", "b", parameters={"a": "b", "b": "a"}, equations=on("interior", "u = a"))


@pytest.mark.parametrize(
    ("parameters", "part"),
    [
        ({"f": "k (x + 1)", "g": "f + 1", "k": "1 + x y"}, r"\cdot before the bracket"),
        ({"g": "f + 1", "f": "c x"}, "c is not known"),
        ({"g": "n_x x"}, r"\partial_n are there only in equations on the boundary or on interfaces"),
    ],
    ids=["call", "unknown", "normal"],
)
def test_parameters_that_others_wait_for(parameters: dict, part: str):
    """Only one is wrong, and nothing goes round: that one is told of, and no circle."""
    with pytest.raises(ProblemError) as caught:
        pose(parameters=parameters)
    assert part in str(caught.value) and "each other" not in str(caught.value)


def test_parameter_that_uses_itself():
    refuse("a is not known", parameters={"a": "a + 1"}, equations=on("interior", "u = a"))


@pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "b", "a"), ("b", "c", "a"), ("b", "a", "c")])
def test_parameters_in_any_order(order: tuple[str, ...]):
    """c = 2, b = c^2, a = b + c x: the value is 4 + 2 x, however they are sorted."""
    given = {"a": "b + c x", "b": "c^2", "c": 2}
    problem = pose(parameters={name: given[name] for name in order}, equations=on("interior", "u = a"))
    (constraint,) = problem.constraints
    np.testing.assert_allclose(constraint.values[:, 0], 4 + 2 * constraint.points[:, 0], rtol=1e-15)


def test_vector_parameters():
    """b = (2, x y): b . grad(x^2 + y) = 4 x + x y at every point."""
    problem = pose(parameters={"b": [2, "x y"]}, equations=on("interior", r"\mathbf{b} \cdot \nabla u = 1"))
    assert problem.constraints[0].operator.to_latex().replace(" ", "") in (
        r"2\partial_{x}u+xy\partial_{y}u",
        r"2\partial_{x}u+x\cdoty\partial_{y}u",
    )


@pytest.mark.parametrize(
    ("parameters", "part"),
    [
        ({"x": 1}, "coordinate already"),
        ({"u": 1}, "channel already"),
        ({"a b": 1}, "cannot name"),
        ({"2": 1}, "cannot name"),
        ({"k": []}, "at least one entry"),
        ({"k": [[1], [2]]}, "not vectors"),
        ({"k": math.inf}, "number"),
        ({"k": True}, "number"),
        ({"k": None}, "number"),
        ({"k": "u + w"}, "the symbol w is not known"),
        ({f"k_{i}": 1 for i in range(300)}, "at most"),
    ],
)
def test_bad_parameters(parameters: dict[str, object], part: str):
    refuse(part, parameters=parameters, equations=on("interior", "u = k"))


def test_parameter_used_only_by_the_domain_or_a_place():
    """They count as used, and their numbers are exact: r = 3/2, the face x = r."""
    problem = pose(
        parameters={"r": r"\frac{3}{2}"}, domain={**BOX, "upper": ["r", 1]}, equations=on("x = r", r"\partial_n u = 0")
    )
    assert problem.domain.upper == (1.5, 1.0)
    assert (problem.constraints[0].points[:, 0] == 1.5).all()


def test_latex_numbers_in_the_domain():
    """[0, 2 pi] x [-sqrt 2, 1/3] x time [0, e^-1], to the last bit but one."""
    problem = cnf.Problem(
        "x y t",
        domain={
            "type": "box",
            "lower": [0, r"-\sqrt{2}"],
            "upper": [r"2\pi", r"\frac{1}{3}"],
            "time": [0, r"\exp(-1)"],
        },
        equations=on("interior"),
        points=5,
    )
    assert problem.domain.lower == pytest.approx((0, -math.sqrt(2), 0), rel=1e-15)
    assert problem.domain.upper == pytest.approx((2 * math.pi, 1 / 3, math.exp(-1)), rel=1e-15)


@pytest.mark.parametrize("bad", ["x", r"\frac{1}{0}", r"\sqrt{-1}", "q", "", r"\log(0)"])
def test_domain_numbers_that_are_none(bad: str):
    with pytest.raises(CnfError):
        pose(domain={**BOX, "upper": [bad, 1]})


# -- parts -------------------------------------------------------------------------------------------------------------


def test_interior():
    (constraint,) = pose(equations=on("interior")).constraints
    x, y = columns(constraint.points)
    assert len(x) == 20 and ((x > 0) & (x < 2) & (y > 0) & (y < 1)).all()


def test_boundary_with_normals():
    r"""u = x^2/2 + 3 y has n . grad u = n_x x + 3 n_y: 2 at x = 2, 0 at x = 0, -3 at y = 0, 3 at y = 1."""
    problem = pose(equations=on("boundary", r"\partial_n u = n_x x + 3 n_y", points=60))
    (constraint,) = problem.constraints
    x, y = columns(constraint.points)
    wanted = np.select([x == 0, x == 2, y == 0, y == 1], [0, 2, -3, 3], np.nan)
    np.testing.assert_allclose(constraint.values[:, 0], wanted, atol=1e-14)
    assert all((side).sum() >= 5 for side in (x == 0, x == 2, y == 0, y == 1))


@pytest.mark.parametrize(
    ("place", "axis", "value", "normal"),
    [("x = 0", 0, 0, (-1, 0)), ("x = 2", 0, 2, (1, 0)), ("y = 0", 1, 0, (0, -1)), ("y=1", 1, 1, (0, 1))],
)
def test_faces_have_outward_normals(place: str, axis: int, value: float, normal: tuple[int, int]):
    """By hand: the outward normal of a face of a box is plus or minus one along its axis; n itself is 5 n_x + 7 n_y."""
    (constraint,) = pose(equations=on(place, r"\partial_n u = 5 n_x + 7 n_y")).constraints
    assert (constraint.points[:, axis] == value).all() and constraint.points.shape[0] >= 4
    assert (constraint.values == 5 * normal[0] + 7 * normal[1]).all()
    assert float(plane_field().residual(constraint).abs().max()) <= 1e-12


def plane_field() -> cnf.Solution:
    """u = 5 x + 7 y, by a polynomial through three points."""
    space = cnf.Space("x y", "u")
    corners = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    return cnf.ConstrainedField(
        cnf.bases.Polynomial(space, 1), [space.constraint("u = 5 x + 7 y", at=corners)]
    ).solution


def test_faces_of_a_domain_with_time():
    """The normal is of space: at x = 0 it is -1 at all times; t = 0 has none."""
    timed = Timed(Interval(0, 1), 0, 3)
    problem = pose(coordinates="x t", domain=timed, equations=on("x = 0", r"\partial_n u = n_x"))
    (constraint,) = problem.constraints
    assert (constraint.points[:, 0] == 0).all() and (constraint.values == -1).all()
    (start,) = pose(coordinates="x t", domain=timed, equations=on("t = 0")).constraints
    assert (start.points[:, 1] == 0).all() and start.points[:, 0].min() >= 0 and start.points[:, 0].max() <= 1
    refuse("no outward normal", "t = 0", coordinates="x t", domain=timed, equations=on("t = 0", r"\partial_n u = 0"))


def test_boundary_of_a_domain_with_time_is_that_of_space():
    """Both ends at all times, not the first and last instant."""
    problem = pose(coordinates="x t", domain=Timed(Interval(0, 1), 0, 3), equations=on("boundary", points=40))
    x, t = columns(problem.constraints[0].points)
    assert ((x == 0) | (x == 1)).all() and (x == 0).sum() == (x == 1).sum() >= 10
    assert t.min() >= 0 and t.max() <= 3 and t.max() - t.min() > 2.5


def test_boundary_of_a_named_shape():
    """Points on the circle of radius 1/2 around (1/4, 0), normals towards its center: out of the domain."""
    (constraint,) = pose(domain=HOLED, equations=on("hole", r"\partial_n u = n_x + 2 n_y", points=30)).constraints
    x, y = columns(constraint.points)
    np.testing.assert_allclose(np.hypot(x - 0.25, y), 0.5, rtol=1e-12)
    np.testing.assert_allclose(constraint.values[:, 0], (0.25 - x) / 0.5 - 2 * y / 0.5, atol=1e-12)
    (outer,) = pose(domain=HOLED, equations=on("square")).constraints
    assert (outer.points.abs().amax(dim=1) == 1).all()
    (both,) = pose(domain=HOLED, equations=on("boundary", points=200)).constraints
    assert {"outer", "hole"} == {"outer" if p.abs().max() == 1 else "hole" for p in both.points}


def test_single_points():
    """Text with any spaces; one condition each."""
    (constraint,) = pose(equations=on(" x = 0,  y=1 ", "u = 2 y")).constraints
    assert constraint.points.tolist() == [[0, 1]] and constraint.values.tolist() == [[2]]


def test_inner_slice():
    (constraint,) = pose(equations=on(r"x = \frac{1}{2}", "u = y")).constraints
    assert (constraint.points[:, 0] == 0.5).all()
    np.testing.assert_array_equal(constraint.values[:, 0], constraint.points[:, 1])
    refuse("no outward normal", equations=on("x = 1", r"\partial_n u = 0"))


def test_edges_in_space():
    """In three dimensions two fixed coordinates leave a line."""
    problem = cnf.Problem("x y z", domain=Box((0, 0, 0), (1, 1, 1)), equations=on("x = 0, z = 1", points=7), points=30)
    x, y, z = columns(problem.constraints[0].points)
    assert len(x) == 7 and (x == 0).all() and (z == 1).all() and len(set(y)) == 7


def test_ends_of_an_interval():
    problem = cnf.Problem("x", domain=Interval(-1, 2), equations=on("boundary", r"\partial_n u = n_x"), points=10)
    x = problem.constraints[0].points[:, 0]
    assert sorted(x.tolist()) == [-1, 2]
    np.testing.assert_array_equal(problem.constraints[0].values[:, 0], np.sign(x.numpy()))


@pytest.mark.parametrize(
    ("place", "part"),
    [
        ("nowhere", "known are interior, boundary"),
        ("interiour", "'interior'"),
        ("hole", "no part 'hole'"),
        ("", "no part"),
        ("z = 0", "not a coordinate"),
        ("x = 5", "outside the domain"),
        ("x = 0, x = 1", "twice"),
        ("x = y", "number"),
        ("x = 0 and y = 1", "x"),
        ("x", "no part"),
        ("x = ", "x"),
    ],
)
def test_unknown_parts(place: str, part: str):
    refuse("equations[1]", part, equations=on(place))


def test_slice_through_a_hole():
    """x = 1/4 crosses the disk: points only where the domain is, |y| > 1/2."""
    (constraint,) = pose(domain=HOLED, equations=on("x = 0.25", points=20)).constraints
    assert (constraint.points[:, 1].abs() >= 0.5).all()


@pytest.mark.parametrize("latex", [r"\partial_n u = 0", r"\mathbf{n} \cdot \nabla u = 0", "u = n_x"])
@pytest.mark.parametrize("place", ["interior", "x = 1", "x = 0, y = 0"])
def test_normals_where_there_are_none(place: str, latex: str):
    refuse("no outward normal", place, equations=on(place, latex))


def test_own_direction_called_n():
    """A parameter n is the user's own vector, in the interior too: n = (0, 2) gives 2 u_y."""
    (constraint,) = pose(
        parameters={"n": [0, 2]}, equations=on("interior", r"\mathbf{n} \cdot \nabla u = 0")
    ).constraints
    assert constraint.operator.to_latex() == r"2 \partial_{y} u"


def test_domain_without_interior():
    refuse("domain", domain={"type": "box", "lower": [0, 0], "upper": [0, 1]})
    disk = {"type": "disk", "center": [0, 0], "radius": 1}
    refuse("no inside", domain={"type": "difference", "of": disk, "minus": [{**disk, "radius": 2}]})
    refuse("no inside", domain={"type": "intersection", "of": [disk, {**disk, "center": [5, 0]}]})


def test_integrals_need_no_place():
    """One condition, whatever the number of points: the integral of 1 over [0, 2] x [0, 1] is 2."""
    problem = pose(equations=[*on("interior"), {"equation": r"\int_0^1 \int_0^2 u \, dx \, dy = 2", "name": "mean"}])
    mean = problem.constraints[1]
    assert mean.rows == 1 and mean.values.tolist() == [[2]]
    fit = cnf.ConstrainedField(cnf.bases.Polynomial(cnf.Space("x y", "u"), 0), [mean]).solution
    assert float(fit(torch.zeros(1, 2, dtype=torch.float64))) == pytest.approx(1, rel=1e-12)


def test_condition_without_place_that_needs_one():
    refuse("on = ", equations=[{"equation": "u = 0"}])


# -- counts and layouts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["halton", "poisson", "random", "grid", "jittered"])
def test_counts_and_layouts(layout: str):
    """All points inside, exactly as many as asked where the layout allows; a grid is one."""
    problem = pose(equations=[*on("interior"), *on("interior", points=7)], points={"count": 50, "layout": layout})
    first, own = (c.points for c in problem.constraints)
    assert problem.domain.contains(first).all()
    if layout in ("halton", "poisson", "random"):
        assert len(first) == 50 and len(own) == 7
    else:
        assert 35 <= len(first) <= 65
    if layout == "grid":
        assert len(set(first[:, 0].tolist())) * len(set(first[:, 1].tolist())) == len(first)


def test_equation_has_its_own_layout():
    problem = pose(equations=[*on("interior", layout="grid", points=16), *on("interior")], points=30)
    grid = problem.constraints[0].points
    assert len(set(grid[:, 0].tolist())) * len(set(grid[:, 1].tolist())) == len(grid)
    assert problem.constraints[1].points.shape[0] == 30


def test_equations_on_the_same_part_share_their_points():
    problem = pose(equations=[*on("interior", "u = 0"), *on("interior", "u_x = 0")])
    assert torch.equal(problem.constraints[0].points, problem.constraints[1].points)
    assert [c.name for c in problem.constraints] == ["interior", "interior (2)"]


def test_boundary_count_and_its_default():
    """`boundary` is for all of it; left out, the spacing is that of the interior, such as 6 / sqrt(2 / 200)."""
    given = pose(domain={"type": "disk", "center": [0, 0], "radius": 1}, points={"count": 50, "boundary": 33})
    assert given.constraints[1].points.shape[0] == 33
    default = pose(points=200).constraints[1].points.shape[0]
    assert default >= 0.8 * 6 / math.sqrt(2 / 200)
    circle = pose(domain={"type": "disk", "center": [0, 0], "radius": 1}, points=200).constraints[1].points.shape[0]
    assert circle == pytest.approx(2 * math.pi / math.sqrt(math.pi / 200), rel=0.1)


def test_one_point_only():
    assert pose(equations=on("interior"), points=1).constraints[0].points.shape == (1, 2)


# -- files of points ---------------------------------------------------------------------------------------------------


def test_measurements_from_a_file(tmp_path: Path):
    """Columns that are no coordinates go by their names, with parameters beside them: values are d + 3 s."""
    (tmp_path / "data.csv").write_text("s,y,x,d\n1,0.5,0.25,10\n2,0.75,1.5,20\n")
    problem = pose(
        equations=[{"file": "data.csv", "equation": "u = d + k s"}], parameters={"k": 3}, folder=str(tmp_path)
    )
    (constraint,) = problem.constraints
    assert constraint.points.tolist() == [[0.25, 0.5], [1.5, 0.75]]
    assert constraint.values.tolist() == [[13], [26]]
    assert constraint.name == "data.csv" and problem.checks() == ()


def test_interior_points_from_a_file(tmp_path: Path):
    """Taken as they are, in their order, and `count` is theirs."""
    points = np.random.default_rng(2).uniform(0.1, 0.9, size=(17, 2))
    np.save(tmp_path / "cloud.npy", points)
    problem = pose(points={"file": "cloud.npy"}, folder=str(tmp_path))
    np.testing.assert_array_equal(problem.constraints[0].points, points)
    assert problem.constraints[1].points.shape[0] >= 10


def test_file_is_looked_for_beside_the_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Whatever the current folder is."""
    (tmp_path / "data.csv").write_text("x,d\n0.5,3\n")
    (tmp_path / "problem.toml").write_text(
        'coordinates = "x"\ndomain = { type = "interval", from = 0, to = 1 }\n'
        "equations = [{ file = 'data.csv', equation = 'u = d' }]\n"
    )
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert cnf.Problem.read("../problem.toml").constraints[0].values.tolist() == [[3]]


def test_points_outside_the_domain(tmp_path: Path):
    """Two of four lie outside, the first is row 2; the message names the line of the entry."""
    (tmp_path / "data.csv").write_text("x,y,d\n1,0.5,1\n1,1.5,1\n2,1,1\n-3,0,1\n")
    path, line = spoil(
        tmp_path, "on = \"x = 1, y = 0\"\nequation = 'u = k'", "file = \"data.csv\"\nequation = 'u = k d'"
    )
    with pytest.raises(ProblemError) as caught:
        cnf.Problem.read(path)
    message = str(caught.value)
    assert f"line {line}: 2 of 4 points of data.csv lie outside the domain, first (1, 1.5) in row 2" in message
    refuse("outside the domain", points={"file": "data.csv"}, folder=str(tmp_path))


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (None, "there is no file"),
        ("x,y\n0.5,0.5\n", "d is not known"),
        ("x,d\n0.5,1\n", "no column 'y'"),
        ("x,y,d\n0.5,0.5,nan\n", "NaN"),
        ("x,y,d,k\n0.5,0.5,1,2\n", "name of a parameter"),
    ],
)
def test_bad_files_of_points(content: str | None, part: str, tmp_path: Path):
    if content is not None:
        (tmp_path / "data.csv").write_text(content)
    refuse(
        part,
        equations=[{"file": "data.csv", "equation": "u = k d"}],
        parameters={"k": 2},
        folder=str(tmp_path),
    )


# -- exact solutions and checks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("latex", "formula"),
    [
        (r"\exp(-x) \sin(\pi y)", lambda x, y: np.exp(-x) * np.sin(np.pi * y)),
        (r"\frac{x^2 + 1}{y + 2}", lambda x, y: (x**2 + 1) / (y + 2)),
        (r"\sqrt{x + y} \log(1 + x)", lambda x, y: np.sqrt(x + y) * np.log(1 + x)),
        (r"k x - \tanh(y)", lambda x, y: 2.5 * x - np.tanh(y)),
        ("3", lambda x, y: 3 + 0 * x),
        (7, lambda x, y: 7 + 0 * x),
    ],
)
def test_exact_expressions_against_numpy(latex: object, formula: Any):
    parameters = {"k": 2.5} if "k" in str(latex) else None
    problem = pose(exact={"u": latex}, parameters=parameters)
    points = problem.domain.random(100, torch.Generator().manual_seed(0))
    assert problem.exact is not None
    np.testing.assert_allclose(problem.exact["u"](points), formula(*columns(points)), rtol=1e-14)


def test_exact_as_a_function():
    problem = pose(exact=lambda points: points[:, 0] * points[:, 1])
    points = torch.tensor([[2.0, 3.0]], dtype=torch.float64)
    assert problem.exact is not None and problem.exact["u"](points).tolist() == [6]


@pytest.mark.parametrize("layout", ["halton", "grid", "jittered", "poisson", "random"])
def test_checks_are_at_other_points(layout: str):
    """Every equation on a part that is no point is checked, at points at least 1e-6 from where it is imposed."""
    equations = [*on("interior"), *on("boundary"), *on("hole", "u = x"), *on("x = -1", "u_x = 0"), *on("x = -1, y = 0")]
    problem = pose(domain=HOLED, equations=equations, points={"count": 60, "layout": layout})
    checks = {c.name: c for c in problem.checks()}
    assert set(checks) == {"interior", "boundary", "hole", "x = -1"}
    for constraint in problem.constraints[:4]:
        other = checks[constraint.name]
        distance = torch.cdist(other.points, constraint.points).min()
        assert distance > 1e-6, constraint.name
        assert read_back(other) == read_back(constraint)
    assert checks["interior"].points.shape[0] >= 300
    x, y = columns(checks["hole"].points)
    np.testing.assert_allclose(np.hypot(x - 0.25, y), 0.5, rtol=1e-12)
    np.testing.assert_allclose(checks["hole"].values[:, 0], x, rtol=1e-14)


def test_domain_objects_and_tables_agree():
    table = pose(domain=HOLED)
    made = pose(domain=Difference(Box((-1, -1), (1, 1), name="square"), [Disk((0.25, 0), 0.5, name="hole")]))
    for a, b in zip(table.constraints, made.constraints, strict=True):
        assert torch.equal(a.points, b.points)


def test_repr_is_short():
    assert len(repr(pose(title="A"))) < 100


def test_all_faces_of_a_box_but_some():
    """u = x y with a slope on one face and values on the others; what is no face is refused."""
    box = cnf.Box((0, 0), (1, 2))
    equations = [
        {"on": "interior", "equation": r"\Delta u = 0"},
        {"on": "boundary except x = 1", "equation": "u = x y", "name": "rim"},
        {"on": "x = 1", "equation": "u_x = y"},
    ]
    problem = cnf.Problem("x y", domain=box, equations=equations, exact="x y", solve={"method": "patches"})
    assert [e.name for e in problem.equations] == ["interior", "rim: x = 0", "rim: y = 0", "rim: y = 2", "x = 1"]
    assert problem.solve().errors["u"] < 1e-13
    for faces, message in (("x = 0.5", "no face of the box"), ("x = 0, x = 1, y = 0, y = 2", "nothing is left")):
        with pytest.raises(ProblemError, match=message):
            cnf.Problem("x y", domain=box, equations={"interior": r"\Delta u = 0", f"boundary except {faces}": "u = 0"})
