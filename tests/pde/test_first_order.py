"""Equations of first order on patches: what is carried along, and systems such as fluxes beside a pressure."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cnf
from cnf.bases import Cells
from cnf.domains import Timed
from cnf.pde.patches.building import Mesh, build_field, orders_of
from cnf.pde.patches.layout import Counts, seams
from cnf.pde.problems.on_patches import question_of

SQUARE = cnf.Box((0, 0), (1, 1))
WAVY, ALONG_X, ALONG_Y = (
    r"\sin(2x + 1) \cos(3y)",
    r"2 \cos(2x + 1) \cos(3y)",
    r"-3 \sin(2x + 1) \sin(3y)",
)


def hanging() -> list[Cells]:
    """Four cells with one of them cut in four, at either end of the diagonal, and one cut in two."""
    four = Cells([0, 0], [1, 1]).cut([0], 0).cut([0, 1], 1)
    return [four.cut([k], 0).cut([k, 4], 1) for k in (0, 3)] + [four.cut([1], 0)]


def errors_of(problem: cnf.Problem, degree: int) -> list[float]:
    """The largest errors of the channels over all meshes; every condition holds, and none is one too many."""
    question = question_of(problem)
    x = SQUARE.random(500, torch.Generator().manual_seed(0))
    wanted = torch.stack([problem.exact[c](x) for c in problem.space.channels], dim=1)
    found = []
    for cells in hanging():
        field = build_field(question, orders_of(question), Mesh.of(cells, (degree, degree), SQUARE)).eval()
        certificate = field.certificate
        assert certificate.exact and certificate.rank >= certificate.conditions - 1
        assert certificate.conditions < int(field.basis.active().sum())
        found.append((field(x) - wanted).abs().amax(dim=0))
    return torch.stack(found).amax(dim=0).tolist()


@pytest.mark.parametrize("speed", [1, -1])
def test_transport_across_hanging_faces(speed: int):
    """b u_x + u_y / 2 + u = f with values where it flows in, whichever way: 1e-11 with degree 12 (2e-4 before)."""
    equations = {
        "interior": rf"{speed} u_x + 0.5 u_y + u = {speed} \cdot {ALONG_X} + 0.5 ({ALONG_Y}) + {WAVY}",
        "x = 0" if speed > 0 else "x = 1": f"u = {WAVY}",
        "y = 0": f"u = {WAVY}",
    }
    (error,) = errors_of(cnf.Problem("x y", domain=SQUARE, equations=equations, exact=WAVY), 12)
    assert error < 1e-11


def test_faces_belong_to_the_cell_downstream():
    """y u_x - x u_y: across x the upper cell has the points, across y the lower one, each as many as it has alone."""
    equations = {"interior": "y u_x - x u_y = 0", "x = 0": "u = y", "y = 1": "u = x"}
    orders = orders_of(question_of(cnf.Problem("x y", domain=SQUARE, equations=equations)))
    cells = hanging()[0]
    found = seams(cells, cells.faces(), Counts(orders, (6, 6)))
    within = ((0, "second", cells.lower[:, 0] > 0), (1, "first", cells.upper[:, 1] < 1))  # not at the inflow
    for axis, downstream, inner in within:
        numbers, counts = np.unique(getattr(found[axis, "fine"], downstream), return_counts=True)
        assert set(counts.tolist()) == {6} and np.array_equal(numbers, np.flatnonzero(inner))


@pytest.mark.parametrize(
    ("channels", "rows", "edge", "exact"),
    [
        (
            "a b p",
            ["a + p_x = 0", "b + p_y = 0", rf"a_x + b_y = 13 {WAVY}"],
            f"p = {WAVY}",
            {"a": f"-{ALONG_X}", "b": f"-({ALONG_Y})", "p": WAVY},
        ),
        (
            "u v",
            [
                rf"u_x + v_y = {ALONG_X} + 2 \cos(x) \cos(2y)",
                rf"v_x - u_y = -\sin(x) \sin(2y) - ({ALONG_Y})",
            ],
            rf"n_x u + n_y v = n_x {WAVY} + n_y \cos(x) \sin(2y)",
            {"u": WAVY, "v": r"\cos(x) \sin(2y)"},
        ),
    ],
    ids=["Darcy", "divergence and curl"],
)
def test_systems_across_hanging_faces(channels: str, rows: list[str], edge: str, exact: dict[str, str]):
    """Of two conditions on a face, one is tied at the points of either side: 1e-10 with degree 12 (1e-7 before)."""
    equations = [{"on": "interior", "equation": row, "name": str(k)} for k, row in enumerate(rows)]
    equations.append({"on": "boundary", "equation": edge, "name": "edge"})
    problem = cnf.Problem("x y", channels, domain=SQUARE, equations=equations, exact=exact)
    assert max(errors_of(problem, 12)) < 1e-10


def test_a_line_of_two_channels():
    """u_t + v_x = 0, v_t + u_x = 0 (fields of a cable with shorted ends) for five periods, by its estimate."""
    equations = [
        {"on": "interior", "equation": "u_t + v_x = 0", "name": "first"},
        {"on": "interior", "equation": "v_t + u_x = 0", "name": "second"},
        {"on": "t = 0", "equation": r"u = \sin(\pi x)"},
        {"on": "t = 0", "equation": "v = 0", "name": "start of v"},
        {"on": "boundary", "equation": "u = 0"},
    ]
    answer = cnf.Problem(
        "x t",
        "u v",
        domain=Timed(cnf.Box(0, 1), 0, 10),
        equations=equations,
        exact={"u": r"\sin(\pi x) \cos(\pi t)", "v": r"-\cos(\pi x) \sin(\pi t)"},
        solve={"method": "patches", "target": 1e-8},
    ).solve()
    assert answer.certificate.exact and max(answer.errors.values()) < 1e-8
    assert max(answer.errors.values()) < 3 * answer.estimate


def test_a_layer_that_is_carried_along():
    """arctan((y - x/2 - 0.2) / 0.05) along u_x + u_y / 2 = 0: cells are cut where it goes, the estimate is right."""
    layer = r"\arctan((y - 0.5 x - 0.2) / 0.05)"
    answer = cnf.Problem(
        "x y",
        domain=SQUARE,
        equations={"interior": "u_x + 0.5 u_y = 0", "x = 0": f"u = {layer}", "y = 0": f"u = {layer}"},
        exact=layer,
        solve={"method": "patches", "target": 1e-5},
    ).solve()
    assert answer.certificate.exact and answer.errors["u"] < 1e-5 and answer.errors["u"] < 3 * answer.estimate
