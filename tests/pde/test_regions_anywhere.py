"""Regions in one dimension, in space and during time: the same interfaces, along cells or across them."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import cnf
from cnf.domains import Ball, Box, Difference, Disk, Interval, Timed
from cnf.errors import CnfWarning, ProblemError
from cnf.pde.domains.regions import Regions
from cnf.pde.patches.aligned import borders_of
from cnf.pde.patches.building import Mesh, build_field, orders_of
from cnf.pde.patches.interfaces import stiffness_of
from cnf.pde.patches.layout import Seam
from cnf.pde.patches.shaped import first_cells
from cnf.pde.patches.solid import Solid
from cnf.pde.patches.solid_cells import first_solid_cells
from cnf.pde.problems.on_patches import question_of

CUBE = Box((0, 0, 0), (1, 1, 1))
HEAT = r"u_t - \nabla\cdot(k \nabla u) = f"


def solve(coordinates: str, target: float, **entries: object) -> cnf.Answer:
    with warnings.catch_warnings():
        warnings.simplefilter("error", CnfWarning)
        return cnf.Problem(coordinates, solve={"target": target}, **entries).solve()


def error(answer: cnf.Answer) -> float:
    return max(answer.errors.values())


ROD = {
    "domain": Interval(0, 1),
    "regions": {"left": Interval(0, 0.3), "middle": Interval(0.3, 0.7)},
    "parameters": {"k": {"left": 1, "middle": 100, "rest": 5}},
}


def test_rod_of_three_layers():
    """Heat through layers, linear in each: what flows, 1 / (0.3 / 1 + 0.4 / 100 + 0.3 / 5), is alike in all."""
    flow = 1 / (0.3 + 0.004 + 0.06)
    answer = solve(
        "x",
        1e-10,
        **ROD,
        equations={"interior": r"-\nabla\cdot(k \nabla u) = 0", "x = 0": "u = 0", "x = 1": "u = 1"},
        exact={
            "left": f"{flow} x",
            "middle": f"{0.3 * flow} + {flow / 100} (x - 0.3)",
            "rest": f"1 - {flow / 5} (1 - x)",
        },
    )
    assert answer.certificate.exact and error(answer) < 1e-14
    assert answer.field.basis.cells.count == 3
    assert {"[u] between left and middle", "[flux] between middle and rest"} <= set(answer.held_out)


def test_rod_with_given_jumps_seen_from_either_side():
    """u = x^2 on the left, e^x on the right: jumps at 0.4, with the normal of the region that is named first."""
    for on, sign in (("interface a", 1), ("interface rest, a", -1)):
        value, flux = (sign * v for v in (math.exp(0.4) - 0.16, 3 * math.exp(0.4) - 0.8))
        answer = solve(
            "x",
            1e-10,
            domain=Interval(0, 1),
            regions={"a": Interval(0, 0.4)},
            parameters={"k": {"a": 1, "rest": 3}, "f": {"a": "2", "rest": "3 e^x"}},
            equations=[
                {"on": "interior", "equation": r"\nabla\cdot(k \nabla u) = f"},
                {"on": "x = 0", "equation": "u = 0"},
                {"on": "x = 1", "equation": "u = e^x"},
                {"on": on, "equation": f"[u] = {value!r}"},
                {"on": on, "equation": rf"[k \partial_n u] = {sign * flux!r}"},
            ],
            exact={"a": "x^2", "rest": "e^x"},
        )
        assert answer.certificate.exact and error(answer) < 1e-12
        at_interface = torch.tensor([[0.4]], dtype=torch.float64)
        assert float(answer(at_interface)) == pytest.approx(0.16)  # it belongs to the region that comes first


def test_slopes_only_leave_one_equation_out():
    """u = cos(pi x) with k = 1 and 2, slopes given and the value in one place: one equation follows from the others.

    One in all, not one per region: with one too few the field would be off by the equation that is missing.
    """
    problem = cnf.Problem(
        "x",
        domain=Interval(0, 1),
        regions={"a": Interval(0, 0.5)},
        parameters={"k": {"a": 1, "rest": 2}, "f": {"a": r"-\pi^2 \cos(\pi x)", "rest": r"-2\pi^2 \cos(\pi x)"}},
        equations=[
            {"on": "interior", "equation": r"\nabla\cdot(k \nabla u) = f"},
            {"on": "boundary", "equation": r"\partial_n u = 0"},
            {"on": "interface a", "equation": r"[k \partial_n u] = -\pi"},
        ],
    )
    question = question_of(problem)
    cells = first_cells(problem.domain).cut([0], 0)
    mesh = Mesh.of(cells, (8,), problem.domain, regions=problem.regions, stiffness=stiffness_of(question))
    field = build_field(question, orders_of(question), mesh)
    assert field.basis.size - sum(c.rows for c in field.constraints) - field.basis.brought_conditions == 1


def test_box_of_two_layers(tmp_path: Path):
    """sin(pi x) sin(pi y) Z(z) with Z'' = 2 pi^2 Z; Z and k Z' are continuous at 0.4. Saved, it is the same field."""
    rate = math.sqrt(2) * math.pi
    a, b = math.sinh(0.4 * rate), math.cosh(0.4 * rate) / 50
    wave = r"\sin(\pi x)\sin(\pi y)"
    above = rf"{wave}({a!r} \cosh({rate!r} (z - 0.4)) + {b!r} \sinh({rate!r} (z - 0.4)))"
    answer = solve(
        "x y z",
        1e-4,
        domain=CUBE,
        regions={"lower": Box((0, 0, 0), (1, 1, 0.4))},
        parameters={"k": {"lower": 1, "rest": 50}, "g": {"lower": rf"{wave}\sinh({rate!r} z)", "rest": above}},
        equations={"interior": r"-\nabla\cdot(k \nabla u) = 0", "boundary": "u = g"},
        exact={"lower": rf"{wave}\sinh({rate!r} z)", "rest": above},
    )
    assert answer.certificate.exact and error(answer) < 1e-4
    assert error(answer) / 3 < answer.estimate < 30 * error(answer)
    assert {"boundary in lower", "boundary in rest"} <= set(answer.certificate.residuals)
    answer.field.save(tmp_path / "field.pt")
    x = CUBE.random(200, torch.Generator().manual_seed(0))
    x[:20, 2] = 0.4
    assert torch.equal(cnf.load(tmp_path / "field.pt").eval()(x), answer.field(x))


def test_solid_cut_by_an_interface():
    """A ball-shaped hole across z = 0.45: patches belong to one region, no sliver joins one of the other.

    u = x y + z below, and a quarter of that slope above, where k is four times as large: the flux of 1 goes through.
    """
    solid = Difference(CUBE, Ball((0.5, 0.5, 0.5), 0.25))
    lower = Difference(Box((0, 0, 0), (1, 1, 0.45)), Ball((0.5, 0.5, 0.5), 0.25))
    field = {"lower": "x y + z", "rest": "x y + 0.45 + (z - 0.45)/4"}
    problem = cnf.Problem(
        "x y z",
        domain=solid,
        regions={"lower": lower},
        parameters={"k": {"lower": 1, "rest": 4}, "g": field},
        equations={"interior": r"\nabla\cdot(k \nabla u) = 0", "boundary": "u = g"},
        exact=field,
    )
    assert problem.regions.flat_at == [[], [], [0.45]]
    mesh_of = Solid.of(solid, first_solid_cells(solid, problem.regions), problem.regions)
    x = solid.fill(3000, "random", 0).numpy()
    assert (mesh_of.cover.region[mesh_of.cover.locate(x)] == (x[:, 2] > 0.45)).all()
    question = question_of(problem)
    mesh = Mesh.of(mesh_of.cells, (3, 3, 3), solid, regions=problem.regions, stiffness=stiffness_of(question))
    solution = build_field(question, orders_of(question), mesh).eval().solution
    points = torch.from_numpy(x)
    wanted = torch.as_tensor(problem.exact["u"](points)).reshape(-1, 1)
    assert solution.certificate.exact and float((solution(points) - wanted).abs().max()) < 2e-3


def wall(domain: cnf.domains.Domain, layer: cnf.domains.Domain) -> dict:
    """e^-t X(x): X = sin x in the layer up to 0.4 where k = 1, and k X'' = -X with k = 4 beyond it."""
    a, b = math.sin(0.4), math.cos(0.4) / 2
    field = {
        "a": r"e^{-t} \sin x",
        "rest": rf"e^{{-t}} ({a!r} \cos(0.5 (x - 0.4)) + {b!r} \sin(0.5 (x - 0.4)))",
    }
    return {
        "domain": Timed(domain, 0, 0.5),
        "regions": {"a": layer},
        "parameters": {"k": {"a": 1, "rest": 4}, "g": field},
        "equations": {"interior": HEAT.replace("f", "0"), "t = 0": "u = g", "boundary": "u = g"},
        "exact": field,
    }


@pytest.mark.parametrize(
    ("names", "domain", "layer", "asked"),
    [
        ("x t", Interval(0, 1), Interval(0, 0.4), 1e-9),
        ("x y t", Box((0, 0), (1, 0.5)), Box((0, 0), (0.4, 0.5)), 1e-6),
    ],
)
def test_wall_during_time(names: str, domain: cnf.domains.Domain, layer: cnf.domains.Domain, asked: float):
    """Data of every region at the start and on the boundary, and a flux that is tied at all times."""
    answer = solve(names, asked, **wall(domain, layer))
    assert answer.certificate.exact and error(answer) < asked
    assert {"t = 0 in a", "t = 0 in rest", "[flux] between a and rest"} <= set(answer.certificate.residuals)
    assert answer.held_out["[flux] between a and rest"] < 100 * asked


def test_two_strings_joined():
    """A pulse f(t - x) meets a string on which waves are twice as fast: a third comes back upside down.

    u = f(t - x) - f(t + x) / 3 where k = 1, and 2/3 f(t - x / 2) where k = 4; u and k u_x do not jump.
    """
    field = {
        "slow": r"e^{-15 (t - x - 0.8)^2} - \frac13 e^{-15 (t + x - 0.8)^2}",
        "rest": r"\frac23 e^{-15 (t - x / 2 - 0.8)^2}",
    }
    rate = {
        "slow": r"30 (x + 0.8) e^{-15 (x + 0.8)^2} + 10 (x - 0.8) e^{-15 (x - 0.8)^2}",
        "rest": r"20 (x / 2 + 0.8) e^{-15 (x / 2 + 0.8)^2}",
    }
    answer = solve(
        "x t",
        1e-5,
        domain=Timed(Interval(-1, 1), 0, 1.2),
        regions={"slow": Interval(-1, 0)},
        parameters={"k": {"slow": 1, "rest": 4}, "g": field, "v": rate},
        equations=[
            {"on": "interior", "equation": "u_{tt} = k u_{xx}"},
            {"on": "boundary", "equation": "u = g"},
            {"on": "t = 0", "equation": "u = g"},
            {"on": "t = 0", "equation": "u_t = v"},
        ],
        exact=field,
    )
    assert answer.certificate.exact and error(answer) < 1e-5 and answer.estimate < 10 * error(answer)
    assert "[flux] between slow and rest" in answer.certificate.residuals


def test_given_jumps_with_rates():
    """u = x cos t, and 1 + x / 2 cos t where k = 4: the value jumps by 1, the flux by cos t, the rate by nothing."""
    field = {"a": r"x \cos t", "rest": r"1 + \frac{x}{2} \cos t"}
    answer = solve(
        "x t",
        1e-8,
        domain=Timed(Interval(-1, 1), 0, 1),
        regions={"a": Interval(-1, 0)},
        parameters={"k": {"a": 1, "rest": 4}, "g": field, "f": {"a": r"-x \cos t", "rest": r"-\frac{x}{2} \cos t"}},
        equations=[
            {"on": "interior", "equation": "u_{tt} = k u_{xx} + f"},
            {"on": "boundary", "equation": "u = g"},
            {"on": "t = 0", "equation": "u = g"},
            {"on": "t = 0", "equation": "u_t = 0"},
            {"on": "interface a", "equation": "[u] = 1"},
            {"on": "interface a", "equation": r"[k \partial_n u] = \cos t"},
        ],
        exact=field,
    )
    assert answer.certificate.exact and error(answer) < 1e-8


def test_disk_during_time():
    """A curved interface in every slab: e^-t x^2 y + 1 in a disk, e^-t (x - y) around it, their jumps given."""
    inside, outside = "e^{-t} x^2 y + 1", "e^{-t} (x - y)"
    answer = solve(
        "x y t",
        1e-3,
        domain=Timed(Box((-1, -1), (1, 1)), 0, 0.25),
        regions={"a": Disk((0.1, 0.15), 0.4)},
        parameters={
            "k": {"a": 10, "rest": 1},
            "g": {"a": inside, "rest": outside},
            "f": {"a": "-e^{-t} (x^2 y + 20 y)", "rest": "-e^{-t} (x - y)"},
        },
        equations=[
            {"on": "interior", "equation": HEAT},
            {"on": "boundary", "equation": "u = g"},
            {"on": "t = 0", "equation": "u = g"},
            {"on": "interface a", "equation": f"[u] = {outside} - ({inside})"},
            {
                "on": "interface a",
                "equation": r"[k \partial_n u] = e^{-t} (n_x - n_y - 10 (2 x y n_x + x^2 n_y))",
            },
        ],
        exact={"u": {"a": inside, "rest": outside}},
    )
    assert answer.certificate.exact and error(answer) < 1e-6


def test_where_interfaces_are_flat():
    """Faces across coordinates, with their places; balls and what they cut are not, in whatever company."""
    rod = Regions(Timed(Interval(0, 1), 0, 2), {"a": Interval(0, 0.3), "b": Interval(0.3, 0.7)})
    assert rod.flat_at == [[0.3, 0.7]] and [face.flat_at for face in rod.interfaces] == [((0, 0.3),), ((0, 0.7),)]
    points, normals = rod.interfaces[0].sample(50, 3)
    assert points.shape == (50, 2) and normals.shape == (50, 1) and (normals == 1).all()
    assert (points[:, 0] == 0.3).all() and np.ptp(np.sort(points[:, 1])[[0, -1]]) > 1.9
    assert Regions(CUBE, {"a": Box((0.2, 0, 0), (0.5, 1, 1))}).flat_at == [[0.2, 0.5], [], []]
    assert Regions(CUBE, {"a": Ball((0.5, 0.5, 0.5), 0.2)}).flat_at is None


def test_seams_know_which_way_normals_point():
    """Of two cells, the upper one in the first region: the normal points down, and its side comes first."""
    regions = Regions(Interval(0, 1), {"upper": Interval(0.5, 1)})
    seam = Seam(0, np.array([[0.5]]), np.array([0]), np.array([1]))
    ((key, (border,)),) = borders_of(regions, {(0, "coarse"): seam}, np.array([1, 0])).items()
    assert key == (0, "fluxes") and border.normals.tolist() == [[-1.0]]
    assert (border.first.tolist(), border.second.tolist()) == ([1], [0])


MISTAKES = {
    "'a' and 'b' overlap": ("x", Interval(0, 1), {"a": Interval(0, 0.5), "b": Interval(0.3, 1)}),
    "reaches beyond the domain": ("x t", Timed(Interval(0, 1), 0, 1), {"a": Interval(0.5, 1.5), "b": Interval(0, 0.1)}),
    "no value for the region 'rest'": ("x", Interval(0, 1), {"a": Interval(0, 0.3), "b": Interval(0.6, 1)}),
    "shapes of space": ("x t", Timed(Interval(0, 1), 0, 1), {"a": Box((0, 0), (0.5, 1)), "b": Interval(0.6, 1)}),
    "overlap; cut": ("x y z", CUBE, {"a": Box((0, 0, 0), (1, 1, 0.5)), "b": Box((0, 0, 0.4), (1, 1, 1))}),
}


def test_other_orders_are_refused():
    with pytest.raises(ProblemError, match="second derivatives along all coordinates of space so far"):
        cnf.Problem(
            "x t",
            domain=Timed(Interval(0, 1), 0, 1),
            regions={"a": Interval(0, 0.5)},
            parameters={"k": {"a": 1, "rest": 2}},
            equations={"interior": "u_t + k u_x = 0", "x = 0": "u = 0", "t = 0": "u = 0"},
        ).solve()


def test_rates_across_a_curved_interface_are_refused():
    with pytest.raises(ProblemError, match="flat faces across the coordinates of a box"):
        cnf.Problem(
            "x y t",
            domain=Timed(Box((-1, -1), (1, 1)), 0, 1),
            regions={"a": Disk((0, 0), 0.5)},
            parameters={"k": {"a": 1, "rest": 2}},
            equations=[
                {"on": "interior", "equation": r"u_{tt} = k \Delta u"},
                {"on": "boundary", "equation": "u = 0"},
                {"on": "t = 0", "equation": "u = 0"},
                {"on": "t = 0", "equation": "u_t = 0"},
            ],
        ).solve()


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_named(message: str):
    names, domain, regions = MISTAKES[message]
    values = {name: 1 + k for k, name in enumerate(regions)}
    start = {"t = 0": "u = 0"} if isinstance(domain, Timed) else {}
    with pytest.raises(ProblemError, match=message) as caught:
        cnf.Problem(
            names,
            domain=domain,
            regions={name: shape for name, shape in regions.items() if name != "rest"},
            parameters={"k": values},
            equations={"interior": r"-\nabla\cdot(k \nabla u) = 1", "boundary": "u = 0", **start},
        ).solve()
    assert "\n" not in str(caught.value)


def test_rounding_is_no_overlap_and_no_gap():
    """0.1 + 0.2 is not 0.3: regions that end and begin there meet all the same."""
    for end, begin in ((0.1 + 0.2, 0.3), (0.3, 0.1 + 0.2)):
        regions = Regions(Interval(0, 1), {"a": Interval(0, end), "b": Interval(begin, 1)})
        assert regions.names == ("a", "b") and len(regions.interfaces) == 1
