"""What inertia makes of a flow next to the end of a sliding lid, against Taylor's closed form of it without inertia."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cnf
from cnf.bases.corner_functions import AngularMaps
from cnf.pde.patches.corners import functions_at
from cnf.pde.patches.driven import AtCorner, driven_rows
from cnf.pde.patches.orders import Orders
from cnf.pde.patches.question import Question
from cnf.pde.patches.sectors import Corner, corners_of
from cnf.pde.problems.asking_patches import lowered, question_of

INERTIA = 30.0


def cavity(momentum: str) -> Question:
    equations = [
        {"name": "momentum", "on": "interior", "equation": momentum},
        {"name": "mass", "on": "interior", "equation": r"\nabla\cdot\mathbf{u} = 0"},
        {"name": "walls", "on": "boundary except lid", "equation": r"\mathbf{u} = 0"},
        {"name": "lid", "on": "lid", "equation": "u = 1"},
        {"name": "lid does not lift", "on": "lid", "equation": "v = 0"},
        {"name": "level", "equation": "p(0.5, 0.5) = 0"},
    ]
    square = {
        "type": "polygon",
        "vertices": [[0, 0], [1, 0], [1, 1], [0, 1]],
        "edges": ["floor", "right", "lid", "left"],
    }
    problem = cnf.Problem("x y", channels="u v p", domain=square, equations=equations)
    return lowered(question_of(problem))


def corner_at(question: Question, x: float, y: float) -> Corner:
    return next(c for c in corners_of(question.domain, None) if np.allclose(c.centre, [x, y]))


def scraped(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Velocity (2, P) of Stokes flow below a lid y = 1 of speed 1, beside a wall x = 0: psi = r f(theta).

    With the angle t from the wall at -pi/2 to the lid at 0, f = a t cos t + b t sin t + c sin t + d cos t, and
    (u, v) = (psi_y, -psi_x): no slip on the wall, speed 1 along the lid.
    """

    def shapes(t: float) -> np.ndarray:
        return np.array([t * np.cos(t), t * np.sin(t), np.sin(t), np.cos(t)])

    def slopes(t: float) -> np.ndarray:
        own = [np.cos(t) - t * np.sin(t), np.sin(t) + t * np.cos(t), np.cos(t), -np.sin(t)]
        return np.array(own)

    wall = -np.pi / 2
    a = np.linalg.solve([shapes(0.0), slopes(0.0), shapes(wall), slopes(wall)], [0.0, 1.0, 0.0, 0.0])
    t = np.arctan2(y - 1, x)
    f, df = (sum(w * s for w, s in zip(a, of(t), strict=True)) for of in (shapes, slopes))
    return np.stack([np.sin(t) * f + np.cos(t) * df, -np.cos(t) * f + np.sin(t) * df])


def test_inertia_next_to_the_lid():
    """R (u0 . grad) u0 = -grad p1 + Laplace u1 with u1 of degree one: at points that are no nodes, to 1e-6."""
    question = cavity(rf"{INERTIA} (\mathbf{{u}}\cdot\nabla)\mathbf{{u}} + \nabla p = \Delta\mathbf{{u}}")
    (functions,) = functions_at(question, corner_at(question, 0, 1))
    plain = cavity(r"\nabla p = \Delta\mathbf{u}")
    (without,) = functions_at(plain, corner_at(plain, 0, 1))
    assert list(functions.exponents).count(1) == 1 and list(without.exponents).count(1) == 0
    k = list(functions.exponents).index(1)
    draw = np.random.default_rng(0)
    radius, angle = draw.uniform(0.1, 0.5, 60), draw.uniform(-1.4, -0.1, 60)
    x, y = radius * np.cos(angle), 1 + radius * np.sin(angle)
    h = 1e-5
    u, v = scraped(x, y)
    along, up = ((scraped(x + a, y + b) - scraped(x - a, y - b)) / (2 * h) for a, b in ((h, 0), (0, h)))
    carried = INERTIA * (u * along + v * up)  # (2, P)

    one = type(functions)(
        functions.centre,
        functions.start,
        functions.end,
        functions.exponents[k : k + 1],
        functions.profiles[k : k + 1],
        functions.parts[k : k + 1],
        functions.lower,
    )
    points = torch.from_numpy(np.stack([x, y], axis=1))
    jets = {i: d.numpy() for i, d in AtCorner(one).derivatives(points, [(1, 0), (0, 1), (2, 0), (0, 2)]).items()}
    curl = jets[2, 0][:, :2] + jets[0, 2][:, :2]
    answered = (np.stack([jets[1, 0][:, 2], jets[0, 1][:, 2]], axis=1) - curl).T  # grad p1 - Laplace u1, (2, P)
    amplitude = (answered * -carried).sum() / (answered**2).sum()
    assert abs(amplitude) > 1
    assert np.abs(amplitude * answered + carried).max() < 1e-6 * np.abs(carried).max()
    assert np.ptp(jets[1, 0][:, 0] + jets[0, 1][:, 1]) < 1e-9  # volume is made as a polynomial makes it, if at all


@pytest.mark.parametrize(("x", "y"), [(0, 0), (1, 0)])
def test_nothing_is_driven_where_nothing_jumps(x: float, y: float):
    """In the lower corners of the cavity the data are zero, and the functions those of Stokes flow."""
    question = cavity(rf"{INERTIA} (\mathbf{{u}}\cdot\nabla)\mathbf{{u}} + \nabla p = \Delta\mathbf{{u}}")
    (functions,) = functions_at(question, corner_at(question, x, y))
    assert functions.exponents.real.min() > 2


def test_terms_that_are_no_power_drive_nothing():
    """u^2 of a field that jumps is bounded and drives r^2 psi; with a logarithm it is no power, and drives nothing."""
    equations = {"interior": r"-\Delta u + u^2 = 0", "x = 0": "u = 1", "boundary except x = 0": "u = 0"}
    square = {"type": "box", "lower": [0, 0], "upper": [1, 1]}
    question = lowered(question_of(cnf.Problem("x y", domain=square, equations=equations)))
    corner = corner_at(question, 0, 0)
    orders = Orders.of([question.constraints[k] for k in question.inside], None)
    sector = corner.sectors[0]
    angles = AngularMaps.of(sector.start, sector.end, 5).angles
    ramp = (angles - sector.start) / (sector.end - sector.start)
    profile = np.stack([ramp, 0 * ramp])[:, None]
    found = driven_rows(question, orders, corner, angles, profile)
    assert found is not None and found[0] == 2 and np.allclose(found[1][0], -(ramp**2), atol=1e-6)
    profile[1] = 1.0  # a logarithm
    assert driven_rows(question, orders, corner, angles, profile) is None
