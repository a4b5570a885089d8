"""Data that jump, and diffusion: expansions around the place, and problems with known solutions."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
from scipy.special import erfc

import cnf
from cnf.bases.diffused_jumps import DiffusedJumps
from cnf.domains import Timed
from cnf.errors import BasisError, CnfWarning
from cnf.operators.forward import derivatives
from cnf.pde.patches.expansions import Edge, Equation, diffused, made_up, smooth_solution
from cnf.pde.patches.layout import radau

ORDERS = 6


def series(**entries: float) -> np.ndarray:
    """x2t1=3.0 is 3 x^2 t."""
    found = np.zeros((ORDERS + 1, ORDERS // 2 + 1))
    for name, value in entries.items():
        j, k = name[1:].split("t")
        found[int(j), int(k)] = value
    return found


EQUATION = Equation(
    series(x0t0=0.7, x1t0=0.5, x0t1=0.3), series(x0t0=1.5, x1t0=0.4), series(x0t0=-2.0, x0t1=3.0), series(x0t0=1.0)
)
JUMP = np.array([1.0, 0.5, -0.3, 0.2, 0.1, 0.05, 0.3])


def known_part(side: float, jump: np.ndarray = JUMP) -> DiffusedJumps:
    place = torch.tensor([[0.2, 0.1, 0.7, side]], dtype=torch.float64)
    return DiffusedJumps(place, torch.from_numpy(diffused(EQUATION, jump, side))[None])


def value(of: np.ndarray, x: np.ndarray, t: float) -> np.ndarray:
    return sum(of[j, k] * x**j * t**k for j in range(of.shape[0]) for k in range(of.shape[1]))


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_expansions_solve_the_equation_to_their_order(side: float):
    """What the equation leaves around the place falls like tau^(M - 1); the start is the jump."""
    base, left = known_part(side), []
    for t in (1e-4, 1e-6):
        x = np.linspace(-3, 3, 50) * math.sqrt(t)
        at = torch.from_numpy(np.stack([x + 0.2, np.full(50, t + 0.1)], axis=1))
        d = {k: v[:, 0].numpy() for k, v in base.derivatives(at, [(0, 0), (1, 0), (2, 0), (0, 1)]).items()}
        right = value(EQUATION.second, x, t) * d[2, 0] + value(EQUATION.first, x, t) * d[1, 0]
        left.append(np.abs(d[0, 1] - right - value(EQUATION.zeroth, x, t) * d[0, 0]).max())
    assert left[1] < 0.2 * left[0] * 1e-2 ** ((ORDERS - 1) / 2) + 1e-9
    x = np.array([-0.4, 0.3])
    start = base(torch.from_numpy(np.stack([x + 0.2, np.full(2, 0.1)], axis=1)))[:, 0].numpy()
    assert np.allclose(start, np.where(side * x < 0, np.polyval(JUMP[::-1], x), 0.0), rtol=1e-14, atol=1e-300)
    assert not base(torch.tensor([[0.2, 0.0999]], dtype=torch.float64)).any()


def test_derivatives_are_those_of_the_values():
    """By nested forward differentiation of the values, mixed and up to third order."""
    x = torch.tensor([[0.3, 0.11], [0.15, 0.12], [0.2, 0.3]], dtype=torch.float64)
    indices = [(1, 0), (2, 0), (0, 1), (1, 1), (3, 0), (0, 2)]
    base = known_part(-1.0)
    wanted, found = derivatives(base, x, indices), base.derivatives(x, indices)
    for index in indices:
        assert torch.allclose(found[index], wanted[index], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("slope", [0.0, 1.0])
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_corners_make_up_for_the_boundary(slope: float, side: float):
    """Smooth solution and expansion together meet a(t) u_x + (2 + t) u = 1 + 3 t, to what their order leaves open."""
    edge = Edge(*(np.array(v) for v in ([slope, slope, 0, 0], [2.0, 1, 0, 0], [1.0, 3, 0, 0])))
    smooth = smooth_solution(EQUATION, np.array([1.0, 2, 0.3, 0, 0, 0, 1]))
    base = known_part(side, made_up(EQUATION, edge, smooth, side))
    missed = []
    for t in (1e-2, 1e-4):
        d = base.derivatives(torch.tensor([[0.2, 0.1 + t]], dtype=torch.float64), [(0, 0), (1, 0)])
        u, ux = (float(d[k, 0]) + sum(smooth[k] * t ** np.arange(4)) for k in (0, 1))
        missed.append(abs(slope * (1 + t) * ux + (2 + t) * u - 1 - 3 * t))
    assert missed[1] < 1e-9 and missed[1] < 1e-4 * missed[0] + 1e-12


@pytest.mark.parametrize("change", ["shape", "orders", "diffusion", "side", "nan"])
def test_damaged_jumps_are_refused(change: str):
    places, powers = torch.tensor([[0.0, 0.0, 1.0, 1.0]]), torch.zeros(1, 2, 3, 4)
    if change == "shape":
        powers = powers[:, :1]
    elif change == "orders":
        powers = torch.zeros(1, 2, 41, 1)
    elif change == "nan":
        powers[0, 0, 0, 0] = math.nan
    else:
        places[0, 2 if change == "diffusion" else 3] = 0.0
    with pytest.raises(BasisError):
        DiffusedJumps(places, powers)


def test_collocation_in_time_damps():
    """u' = z u by collocation at Radau's points: e^z for small z, nothing for z = -1e6 (symmetric points leave 1)."""
    nodes = radau(6)
    powers = np.vander((nodes + 1) / 2, 7, increasing=True)
    slopes = np.hstack([np.zeros((6, 1)), powers[:, :-1] * np.arange(1, 7)])
    start = np.eye(1, 7)
    for z, wanted, off in ((-0.5, math.exp(-0.5), 1e-12), (-1e6, 0.0, 1e-5)):
        found = np.linalg.solve(np.vstack([start, slopes - z * powers]), np.eye(7)[0])
        assert abs(found.sum() - wanted) < off


# -- problems ------------------------------------------------------------------------------------------------------


def cooled(x: np.ndarray, t: np.ndarray) -> np.ndarray:
    """u = 1 at the start, 0 at both ends: the sine series."""
    n = np.arange(1, 2000, 2)
    return (4 / (np.pi * n) * np.sin(np.pi * n * x) * np.exp(-((np.pi * n) ** 2) * t)).sum(axis=1)


def switched_on(x: np.ndarray, t: np.ndarray) -> np.ndarray:
    """A source of 1 from t = 0.1 on, 0 at both ends."""
    n = np.arange(1, 3000, 2)
    grown = 1 - np.exp(-((np.pi * n) ** 2) * np.maximum(t - 0.1, 0))
    return (4 / (np.pi * n) ** 3 * np.sin(np.pi * n * x) * grown).sum(axis=1)


def stretched(x: np.ndarray, t: np.ndarray) -> np.ndarray:
    """u = erfc(y / sqrt(4 k t)) with y = log(1 + x) solves u_t = k ((1 + x)^2 u_xx + (1 + x) u_x); k = 0.002."""
    return erfc(np.log(1 + x) / np.sqrt(0.008 * t))[:, 0]


def heated_later(x: np.ndarray, t: np.ndarray) -> np.ndarray:
    """e^{x - t} times the half line heated from t = 0.3 on; k = 0.01."""
    return (np.exp(x - t) * erfc(x / np.sqrt(0.04 * np.maximum(t - 0.3, 1e-300))) * (t > 0.3))[:, 0]


DIFFUSION = "u_t = u_{xx}"
PROBLEMS = {
    "cooled at both ends, for long": (20.0, cooled, {"interior": DIFFUSION, "boundary": "u = 0", "t = 0": "u = 1"}),
    "a source switched on": (
        0.3,
        switched_on,
        {"interior": rf"{DIFFUSION} + 0.5 + 0.5\operatorname{{sign}}(t - 0.1)", "boundary": "u = 0", "t = 0": "u = 0"},
    ),
    "coefficients that vary": (
        0.5,
        stretched,
        {
            "interior": "u_t = 0.002((1 + x)^2 u_{xx} + (1 + x) u_x)",
            "x = 0": "u = 1",
            "x = 1": "u = 0",
            "t = 0": "u = 0",
        },
    ),
    "the boundary jumps later": (
        1.0,
        heated_later,
        {
            "interior": "u_t = 0.01 u_{xx} - 0.02 u_x - 0.99 u",
            "x = 0": r"u = e^{-t} \max(0, \operatorname{sign}(t - 0.3))",
            "x = 1": "u = 0",
            "t = 0": "u = 0",
        },
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_heat_with_jumping_data(name: str, tmp_path):
    """Known solutions to 1e-7, every condition exact, the estimate right; a saved field comes back bit for bit."""
    until, exact, equations = PROBLEMS[name]
    problem = cnf.Problem(
        coordinates="x t",
        domain=Timed(cnf.Box(0, 1), 0, until),
        equations=equations,
        solve={"method": "patches", "target": 1e-7},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", CnfWarning)
        answer = problem.solve()
    x = problem.domain.random(2000, torch.Generator().manual_seed(0))
    wanted = exact(*x.numpy().T[:, :, None])
    with torch.no_grad():
        error = np.linalg.norm(answer(x)[:, 0].numpy() - wanted) / np.linalg.norm(wanted)
    assert error < 1e-7 and error < 3 * answer.estimate + 1e-13, (error, answer.estimate)
    assert answer.certificate.exact and answer.certificate.worst < 1e-11
    answer.field.save(tmp_path / "field.pt")
    assert torch.equal(cnf.load(tmp_path / "field.pt").eval()(x), answer(x))


def test_cells_are_cut_where_sources_jump():
    """-u'' = sign(x - 0.3), u(0) = u(1) = 0: parabolas on either side of 0.3, found with two cells to rounding."""
    answer = cnf.Problem(
        coordinates="x",
        domain=cnf.Box(0, 1),
        equations={"interior": r"-u_{xx} = \operatorname{sign}(x - 0.3)", "boundary": "u = 0"},
        solve={"method": "patches", "target": 1e-10},
    ).solve()
    x = torch.linspace(0, 1, 101, dtype=torch.float64)[:, None]
    wanted = x**2 / 2 - 0.01 * x - (x - 0.3).clamp_min(0.0).square()
    assert float((answer(x) - wanted).abs().max()) < 1e-13
    assert answer.field.basis.cells.count == 2
