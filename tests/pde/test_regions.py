"""Regions: subdomains with coefficients and equations of their own, tied on their interfaces."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import cnf
from cnf.bases import Cells, Cover, Partition
from cnf.domains import Box, Difference, Disk, Intersection, Polygon, Union
from cnf.errors import BasisError, CnfWarning, DomainError, ProblemError
from cnf.pde.domains.regions import Regions
from cnf.pde.patches.building import Mesh, build_field, orders_of
from cnf.pde.patches.interfaces import stiffness_of
from cnf.pde.patches.shaped import Shaped, first_cells
from cnf.pde.problems.check import jump_read_back
from cnf.pde.problems.on_patches import question_of
from cnf.pde.report.check import check_text

SQUARE = Box((-1, -1), (1, 1))
CONDUCTION = r"-\nabla\cdot(k \nabla u) = f"
INNER, OUTER = "x^2 y + 1", r"\sin(2x)\cos(3y)"  # a field in pieces; its slopes:
INNER_SLOPES, OUTER_SLOPES = ("2 x y", "x^2"), (r"2\cos(2x)\cos(3y)", r"-3\sin(2x)\sin(3y)")


def solve(target: float = 1e-7, **entries: object) -> cnf.Answer:
    with warnings.catch_warnings():
        warnings.simplefilter("error", CnfWarning)
        return cnf.Problem("x y", solve={"target": target}, **entries).solve()


def dipole(ratio: float, radius: float, centre: tuple[float, float]) -> dict[str, object]:
    """A disk in a uniform flow: A x inside, x + B x / r^2 outside, A = 2 / (1 + k), B = radius^2 (1 - k) / (1 + k)."""
    x, square = f"(x - {centre[0]})", f"((x - {centre[0]})^2 + (y - {centre[1]})^2)"
    inside = f"{2 / (1 + ratio)!r} {x}"
    outside = f"{x} + {radius**2 * (1 - ratio) / (1 + ratio)!r} {x} / {square}"
    return {
        "domain": SQUARE,
        "regions": {"disk": Disk(centre, radius)},
        "parameters": {"k": {"disk": ratio, "rest": 1}},
        "equations": {"interior": r"-\nabla\cdot(k \nabla u) = 0", "boundary": f"u = {outside}"},
        "exact": {"disk": inside, "rest": outside},
    }


def in_pieces(shape: cnf.domains.Domain, ratio: float = 10.0, on: str = "interface a", sign: str = "") -> dict:
    """INNER in the shape, OUTER around it; values and fluxes jump by what these differ, `sign` for the other normal."""
    inner, outer = (f"{k} (n_x ({s[0]}) + n_y ({s[1]}))" for k, s in ((ratio, INNER_SLOPES), (1, OUTER_SLOPES)))
    source = {"a": f"-{2 * ratio} y", "rest": f"13 {OUTER}"}
    return {
        "domain": SQUARE,
        "regions": {"a": shape},
        "parameters": {"k": {"a": ratio, "rest": 1}, "f": source, "g": {"a": INNER, "rest": OUTER}},
        "equations": [
            {"on": "interior", "equation": CONDUCTION},
            {"on": "boundary", "equation": "u = g"},
            {"on": on, "equation": f"[u] = {sign}({OUTER} - ({INNER}))"},
            {"on": on, "equation": rf"[k \partial_n u] = {sign}({outer} - {inner})"},
        ],
        "exact": {"u": {"a": INNER, "rest": OUTER}},
    }


@pytest.mark.parametrize("ratio", [100.0, 1e-4])
def test_disk_in_a_uniform_flow(ratio: float):
    """Values and fluxes do not jump unless something else is said; the field is known, and the estimate is right."""
    answer = solve(1e-6, **dipole(ratio, 0.4, (0.11, -0.07)))
    error = max(answer.errors.values())
    assert answer.certificate.exact and error < 1e-6
    assert error / 3 < answer.estimate < 30 * error
    assert answer.held_out["[u] between disk and rest"] < 1e-5


def test_layers_are_cells_of_their_own():
    """Heat through three layers, linear in each: what flows, 1 / (0.3 / 1 + 0.4 / 100 + 0.3 / 5), is alike in all."""
    flow = 1 / (0.3 + 0.004 + 0.06)
    answer = solve(
        domain=Box((0, 0), (1, 1)),
        regions={"lower": Box((0, 0), (1, 0.3)), "middle": Box((0, 0.3), (1, 0.7))},
        parameters={"k": {"lower": 1, "middle": 100, "rest": 5}},
        equations=[
            {"on": "interior", "equation": r"-\nabla\cdot(k \nabla u) = 0"},
            {"on": "y = 0", "equation": "u = 0"},
            {"on": "y = 1", "equation": "u = 1"},
            {"on": "x = 0", "equation": r"k \partial_n u = 0"},
            {"on": "x = 1", "equation": r"\partial_n u = 0"},
        ],
        exact={
            "lower": f"{flow} y",
            "middle": f"{0.3 * flow} + {flow / 100} (y - 0.3)",
            "rest": f"1 - {flow / 5} (1 - y)",
        },
    )
    assert answer.certificate.exact and max(answer.errors.values()) < 1e-13
    assert answer.field.basis.cells.count == 6
    assert {"x = 0 in lower", "x = 0 in middle", "x = 0 in rest", "x = 1"} <= set(answer.certificate.residuals)


def test_thin_layers_reach_the_boundary():
    """A layer of 0.001: its two ends have conditions of their own, and cells are cut along it, none is left beside."""
    problem = cnf.Problem("x y", **in_pieces(Box((-1, -0.0005), (1, 0.0005))))
    assert {"boundary in a", "boundary in rest"} <= {e.name for e in problem.equations}
    question = question_of(problem)
    cells = first_cells(SQUARE, (), problem.regions)
    mesh = Mesh.of(cells, (6, 6), SQUARE, regions=problem.regions, stiffness=stiffness_of(question))
    field = build_field(question, orders_of(question), mesh)
    assert mesh.shaped.whole.all() and mesh.patches.count == 6
    assert sum(c.rows for c in field.constraints) + field.basis.brought_conditions == field.basis.size


SHAPES = {
    "disk": Disk((0.1, 0.15), 0.4),
    "polygon": Polygon([(-0.5, -0.4), (0.6, -0.3), (0.2, 0.55)]),
    "at the boundary": Intersection([Disk((-1, 0), 0.8), Box((-1, -1), (1, 1))]),
    "ring": Difference(Disk((0.1, 0), 0.7), Disk((0.1, 0), 0.4)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_given_jumps(name: str):
    """Two different fields inside and outside of a shape come out, if their jumps are given."""
    answer = solve(1e-7, **in_pieces(SHAPES[name]))
    assert answer.certificate.exact and max(answer.errors.values()) < 1e-7


def test_normals_point_out_of_the_region_named_first():
    """Seen from the rest, the normal and the jumps have the other sign; the field is the same."""
    shape = Disk((0.1, 0.15), 0.4)
    turned = in_pieces(shape, on="interface rest, a", sign="-")
    both = [cnf.Problem("x y", **entries) for entries in (in_pieces(shape), turned)]
    points, normals = (torch.from_numpy(a) for a in both[0].regions.interfaces[0].sample(7, 0))
    outward = (points - torch.tensor([0.1, 0.15], dtype=torch.float64)) / 0.4
    assert torch.allclose(normals, outward, atol=1e-12)
    for first, second in zip(*(problem.jumps for problem in both), strict=True):
        a, b = (jump.at(0, points, normals)[0] for jump in (first, second))
        from_a, from_rest = jump_read_back(first, 0), jump_read_back(second, 0)
        assert from_rest.startswith("[u]") == from_a.startswith("[u]") == (a.operator.order == 0)
        assert a.operator.order == 0 or (")_{\\mathrm{rest}} - (10" in from_a and from_rest.startswith("(10.0"))
        sign = -1 if a.operator.order else 1  # both sides of a turned flux change their sign
        assert torch.allclose(a.values, sign * b.values, atol=1e-14)
        assert float(a.values.abs().max()) > 0.1


def test_elastic_inclusion():
    """Plane elasticity, u = (x y, x^2 - y) inside, (sin x, cos y) outside, Lame constants (3, 2) and (1.5, 1).

    The traction is (l (u_x + v_y) + 2 m u_x) n_x + m (u_y + v_x) n_y and alike for y: it must be given, for u_xy and
    v_xy do not say which flux they belong to.
    """
    parameters = {
        "l": {"a": 3, "rest": 1.5},
        "m": {"a": 2, "rest": 1},
        "p": {"a": "0", "rest": r"3.5 \sin x"},
        "q": {"a": "-9", "rest": r"3.5 \cos y"},
        "s": r"3.5 \cos x - 1.5 \sin y - (7 y - 3)",
        "w": "-3 x",
        "r": r"1.5 \cos x - 3.5 \sin y - (3 y - 7)",
    }
    equations = [
        {"on": "interior", "equation": "-(l + 2m) u_{xx} - m u_{yy} - (l + m) v_{xy} = p"},
        {"on": "interior", "equation": "-m v_{xx} - (l + 2m) v_{yy} - (l + m) u_{xy} = q"},
        {"on": "boundary", "equation": r"u = \sin x"},
        {"on": "boundary", "equation": r"v = \cos y"},
        {"on": "interface a", "equation": r"[u] = \sin x - x y"},
        {"on": "interface a", "equation": r"[v] = \cos y - x^2 + y"},
        {"on": "interface a", "equation": "[n_x ((l + 2m) u_x + l v_y) + n_y m (u_y + v_x)] = s n_x + 2 w n_y"},
        {"on": "interface a", "equation": "[n_x m (u_y + v_x) + n_y ((l + 2m) v_y + l u_x)] = 2 w n_x + r n_y"},
    ]
    entries = {
        "channels": "u v",
        "domain": SQUARE,
        "regions": {"a": Disk((0.1, 0.05), 0.45)},
        "exact": {"u": {"a": "x y", "rest": r"\sin x"}, "v": {"a": "x^2 - y", "rest": r"\cos y"}},
    }
    answer = solve(1e-7, parameters=parameters, equations=equations, **entries)
    assert answer.certificate.exact and max(answer.errors.values()) < 1e-8
    with pytest.raises(ProblemError, match="traction"):
        solve(parameters={k: parameters[k] for k in "lmpq"}, equations=equations[:4], **entries)


def test_saved_and_loaded(tmp_path: Path):
    """A field with two patches in one cell comes back bit for bit, on both sides of the interface."""
    problem = cnf.Problem("x y", **in_pieces(Disk((0.1, 0.15), 0.4)))
    question = question_of(problem)
    cells = first_cells(SQUARE, (), problem.regions)
    mesh = Mesh.of(cells, (6, 6), SQUARE, regions=problem.regions, stiffness=stiffness_of(question))
    field = build_field(question, orders_of(question), mesh).eval()
    assert field.solution.certificate.exact and len(field.basis.guides) == 3
    field.save(tmp_path / "field.pt")
    x = SQUARE.random(500, torch.Generator().manual_seed(0))
    loaded = cnf.load(tmp_path / "field.pt").eval()
    assert torch.equal(loaded(x), field(x)) and len(loaded.basis.guides) == 3


@pytest.mark.parametrize("name", SHAPES)
def test_patches_belong_to_one_region(name: str):
    """Every point has a patch of its region; interfaces belong as a whole to the patches on either side."""
    regions = Regions(SQUARE, {"a": SHAPES[name]})
    shaped = Shaped.of(SQUARE, first_cells(SQUARE, (), regions), regions)
    points = SQUARE.random(2000, torch.Generator().manual_seed(0)).numpy()
    inside = SHAPES[name].contains(points).numpy()
    assert (shaped.cover.region[shaped.cover.locate(points)] == np.where(inside, 0, 1)).all()
    long = [0.0, 0.0]
    for runs, region in zip(shaped.runs, shaped.cover.region, strict=True):
        long[region] += sum(run.length for run in runs if run.interface >= 0)
    interface = sum(piece.measure for piece in regions.interfaces[0].pieces)
    assert long == pytest.approx([interface, interface], rel=1e-9)


def test_partition():
    """The plain data of shapes tells points apart as the shapes do; what is damaged is refused."""
    shapes = [Box((-1, -1), (-0.2, 0.1)), Polygon([(0, 0), (1, 0.2), (0.3, 1)]), Union([Disk((0.5, -0.5), 0.3)])]
    regions = Regions(SQUARE, dict(zip("abc", shapes, strict=True)))
    points = SQUARE.random(3000, torch.Generator().manual_seed(1)).numpy()
    expected = np.select([s.contains(points).numpy() for s in shapes], [0, 1, 2], 3)
    assert (regions.number(points) == expected).all()
    assert Partition([["ball", [0, 0], 1]], 2).number(np.array([[1.0, 0.0], [1.1, 0.0]])).tolist() == [0, 1]
    deep: list = ["ball", [0, 0], 1]
    for _ in range(20):
        deep = ["union", [deep]]
    for damaged in (
        [],
        ["ball"],
        [["ball", [0, 0], -1]],
        [["ball", [0, math.nan], 1]],
        [["box", [0, 0], [0, 1]]],
        [["polygon", [[0, 0], [1, 1]]]],
        [["union", []]],
        [["torus", 1]],
        [deep],
        [["ball", [0, 0, 0], 1]],
    ):
        with pytest.raises(BasisError):
            Partition(damaged, 2)
    with pytest.raises(BasisError, match="patch"):
        Cover(
            Cells([0, 0], [1, 1]), np.array([0]), np.zeros((1, 2)), np.ones((1, 2)), Partition([["ball", [0, 0], 1]], 2)
        )


DISK, SAME = {"a": Disk((0, 0), 0.5)}, {"k": 1, "f": 1}
MISTAKES = {
    "reaches beyond the domain": {"regions": {"a": Disk((0.8, 0), 0.5)}},
    "lies outside the domain": {"regions": {"a": Disk((3, 0), 0.5)}},
    "'a' and 'b' overlap": {"regions": {**DISK, "b": Box((0, 0), (0.9, 0.9))}, "parameters": SAME},
    "touches the boundary at": {"regions": {"a": Disk((-0.5, 0.1), 0.5)}},
    "touches the region 'b' at": {"regions": {"a": Disk((-0.4, 0), 0.4), "b": Disk((0.3, 0), 0.3)}, "parameters": SAME},
    "cannot be called 'rest'": {"regions": {"rest": DISK["a"]}, "parameters": SAME},
    "cannot be called 'boundary'": {"regions": {"boundary": DISK["a"]}, "parameters": SAME},
    "expected a table of regions": {"regions": 3, "parameters": SAME},
    "expected a shape": {"regions": {"a": 3}},
    "no value for the region 'rest'": {"parameters": {"k": {"a": 1}}},
    "no value for the region 'a'": {"parameters": {"k": {"rest": 1}}},
    "which is no region": {"parameters": {"k": {"a": 1, "rest": 1, "c": 2}}},
    "needs regions": {"regions": None},
    "no equation holds in the region 'rest'": {"equations": {"a": CONDUCTION, "boundary": "u = 0"}},
    "2 equations for 1 channels": {"equations": {"interior": CONDUCTION, "a": r"k \Delta u = f", "boundary": "u = 0"}},
    "there is no region 'b'": {"more": [{"on": "interface b", "equation": "[u] = 0"}]},
    "between brackets": {"more": [{"on": "interface a", "equation": "u = 0"}]},
    "given twice": {
        "more": [{"on": "interface a", "equation": "[u] = 0"}, {"on": "interface a", "equation": "[u] = 1"}]
    },
    "belongs to both regions": {"more": [{"on": "interface a", "equation": "[u] = k"}]},
    "2 for fluxes": {"more": [{"on": "interface a", "equation": f"[{w}] = 0"} for w in ("u_x", "u_y")]},
    "no interface in common": {"more": [{"on": "interface a, a", "equation": "[u] = 0"}]},
    "smooth where regions meet": {"solve": {"method": "waves"}},
    "leave this out": {"points": 500},
    "has a value for each region": {"domain": {"type": "disk", "center": [0, 0], "radius": "k"}},
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_named(message: str):
    entries: dict = {
        "domain": SQUARE,
        "regions": DISK,
        "parameters": {"k": {"a": 1, "rest": 2}, "f": 1},
        "equations": {"interior": CONDUCTION, "boundary": "u = 0"},
        **MISTAKES[message],
    }
    equations = [{"on": on, "equation": equation} for on, equation in entries["equations"].items()]
    entries["equations"] = [*equations, *entries.pop("more", [])]
    with pytest.raises(ProblemError, match=message) as caught:
        cnf.Problem("x y", **entries).solve()
    assert "\n" not in str(caught.value)


def test_regions_of_other_kinds_are_refused():
    with pytest.raises(DomainError, match="1 to 100 regions"):
        Regions(SQUARE, {})


def test_from_a_file(tmp_path: Path):
    """The notation of files: a table of regions, values by region, conditions on the interface; mistakes have lines."""
    text = r"""
coordinates = "x y"

[domain]
type = "box"
lower = [-1, -1]
upper = [1, 1]

[regions]
disk = { type = "disk", center = [0, 0], radius = 0.5 }

[parameters]
k = { disk = 100, rest = 1 }
c = '\frac{k}{2}'

[[equations]]
on = "disk"
equation = '-\nabla\cdot(c \nabla u) = 1'

[[equations]]
on = "rest"
equation = '-\nabla\cdot(c \nabla u) = 0'

[[equations]]
on = "boundary"
equation = 'u = 0'

[[equations]]
name = "film"
on = "interface disk"
equation = '[c \partial_n u] = 1'
"""
    file = tmp_path / "problem.toml"
    file.write_text(text)
    problem = cnf.Problem.read(file)
    assert [e.region for e in problem.equations] == ["disk", "rest", None]
    assert "'disk' disk" in problem.domain_text
    readings = problem.check().readings
    assert [reading.name for reading in readings] == ["disk", "rest", "boundary", "film"]
    inside = r"50 \mathrm{n_x} \partial_{x} u + 50 \mathrm{n_y} \partial_{y} u"
    outside = r"\frac{\mathrm{n_x}}{2} \partial_{x} u + \frac{\mathrm{n_y}}{2} \partial_{y} u"
    assert readings[-1].read == rf"({outside})_{{\mathrm{{rest}}}} - ({inside})_{{\mathrm{{disk}}}} = 1"
    assert (readings[-1].points, readings[-1].rows) == (None, None)
    assert " -           -\n" in check_text(problem.check())
    file.write_text(text.replace("interface disk", "interface disc"))
    with pytest.raises(ProblemError, match=r"line 30: there is no region 'disc'.*'disk'"):
        cnf.Problem.read(file)
