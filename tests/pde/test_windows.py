"""A problem during time solved window by window, each from the field that the one before ended with."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cnf
from cnf.bases import Cells
from cnf.domains import Disk, Timed
from cnf.pde.patches.building import orders_of
from cnf.pde.patches.mesh import Mesh
from cnf.pde.patches.rounds import solve_round
from cnf.pde.patches.windows import can_be_continued, cells_by_windows, continued, followed, solve_window
from cnf.pde.problems.on_patches import lowered, question_of

SPREAD = r"\frac{0.0072}{0.0072 + 0.02 t} e^{-(x - 0.25 - 0.5 t)^2 / (0.0072 + 0.02 t)}"
HEAT = {"interior": r"u_t = 0.1 \Delta u", "boundary": "u = 0", "t = 0": r"u = \sin(\pi x) \sin(\pi y)"}
WAVE = [
    {"on": "interior", "equation": "u_{tt} = u_{xx}"},
    {"on": "boundary", "equation": "u = 0"},
    {"on": "t = 0", "equation": r"u = \sin(\pi x)"},
    {"on": "t = 0", "equation": "u_t = 0"},
]


def asked(equations: object, space: cnf.domains.Domain, names: str, end: float = 1.0):
    return lowered(question_of(cnf.Problem(coordinates=names, domain=Timed(space, 0, end), equations=equations)))


def in_slab(start: float, end: float, space: int) -> Cells:
    return Cells([0.0] * space + [start], [1.0] * space + [end]).cut([0], 0)


@pytest.mark.parametrize(
    ("equations", "names", "degree"),
    [(HEAT, "x y t", (6, 6, 4)), (WAVE, "x t", (8, 8))],
    ids=["heat", "a wave, with its rate"],
)
def test_windows_are_slabs(equations: object, names: str, degree: tuple[int, ...]):
    """Two windows, the second from the field of the first, are the field of two slabs solved together, to rounding.

    The cells of the second differ from those of the first.
    """
    space = cnf.Box((0,) * len(names.split()[1:]), (1,) * len(names.split()[1:]))
    question = asked(equations, space, names)
    orders = orders_of(question)
    parts = [in_slab(0.0, 0.4, space.dimension), in_slab(0.4, 1.0, space.dimension).cut([1], 0)]
    first = solve_window(continued(question, 0.0, 0.4, None), orders, parts[0], degree)
    second = solve_window(continued(question, 0.4, 1.0, first.solution), orders, parts[1], degree)
    whole = solve_round(question, orders, Mesh.of(Cells.stacked(parts, space.dimension), degree, question.domain))
    x = question.domain.fill(300, "halton", 3)
    late = x[:, -1] > 0.4
    assert 0 < late.sum() < len(x)
    for window, own in ((first, x[~late]), (second, x[late])):
        assert window.certificate.exact
        assert torch.allclose(window.solution(own), whole.solution(own), rtol=0, atol=1e-10)


def test_cells_one_on_top_of_the_other():
    """Parts with cuts of their own, along all coordinates: every cell of theirs is there, and no other."""
    parts = [
        Cells([0, 0], [1, 2]).cut([0], 0, [0.3]).cut([1], 1),
        Cells([0, 2], [1, 3]),
        Cells([0, 3], [1, 7]).cut([0], 0),
    ]
    found = Cells.stacked(parts, 1)
    boxes = {(*a, *b) for part in parts for a, b in zip(part.lower, part.upper, strict=True)}
    assert {(*a, *b) for a, b in zip(found.lower, found.upper, strict=True)} == boxes and found.count == 6
    points = np.random.default_rng(0).uniform([0, 0], [1, 7], (50, 2))
    own = found.locate(points)
    assert ((found.lower[own] <= points) & (points <= found.upper[own])).all()


def test_cells_follow_what_moves():
    """A Gaussian that is carried along and spreads, of which no formula tells: fine cells are where it is.

    u_t + 0.5 u_x = 0.005 u_xx from a width of 0.06, at 0.25 in the beginning and at 0.65 in the end.
    """
    equations = {"interior": r"u_t + 0.5 u_x - 0.005 u_{xx} = 0", "boundary": "u = 0", "t = 0": f"u = {SPREAD}"}
    question = asked(equations, cnf.Box(0, 1), "x t", 0.8)
    orders = orders_of(question)
    known = Cells([0, 0], [1, 0.8])
    found = cells_by_windows(question, orders, known, (8, 8), 1e-4, lambda count: count > 500)
    assert found is not None
    field = solve_round(question, orders, Mesh.of(found, (8, 8), question.domain)).solution
    window = continued(question, 0.8, 1.0, field)
    cells = followed(window, orders, Cells([0, 0.8], [1, 1.0]), (8, 8), 1e-2, field)
    width = (cells.upper - cells.lower)[:, 0]
    at = cells.locate(np.array([[0.65, 0.9], [0.05, 0.9]]))
    assert width[at[0]] < width[at[1]]
    assert cells_by_windows(question, orders, known, (8, 8), 1e-4, lambda count: count > 1) is None


@pytest.mark.parametrize(
    ("equations", "space", "can"),
    [
        (HEAT, cnf.Box((0, 0), (1, 1)), True),
        (HEAT, Disk((0, 0), 1), False),
        (HEAT | {"t = 1": "u = 0"}, cnf.Box((0, 0), (1, 1)), False),
    ],
    ids=["heat", "a disk", "something at the end"],
)
def test_what_can_be_continued(equations: dict, space: cnf.domains.Domain, can: bool):
    question = asked(equations, space, "x y t")
    assert can_be_continued(question, orders_of(question)) == can
