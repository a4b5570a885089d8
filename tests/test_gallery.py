"""Every problem file in examples/pde is solved as a user would, and its error is held against a bound per file.

The exact solutions stand in the files and were derived by hand; the errors are measured here anew, on points of this
test's own, so that neither the file nor the answer is believed.
"""

from __future__ import annotations

import math
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

import cnf
from benchmarks.gallery import DOCS, MEASURES, REFERENCES, Row, rewritten
from cnf.errors import CnfWarning

FOLDER = Path(__file__).parent.parent / "examples" / "pde"
FILES = sorted(path.stem for path in FOLDER.glob("*.toml"))

# Relative L2 error of every channel.
BOUNDS: dict[str, dict[str, float]] = {
    "advection": {"u": 1e-10},
    "allen_cahn": {"u": 1e-6},
    "annulus": {"u": 1e-9},
    "ball": {"u": 1e-10},
    "biharmonic": {"w": 1e-11},
    "block": {"u": 1e-6},
    "bratu": {"u": 1e-10},
    "breather": {"u": 1e-6, "v": 1e-6},
    "burgers": {"u": 1e-8},
    "cantilever": {"u": 1e-6, "v": 1e-6},
    "cavity": {"u": 1e-5, "v": 1e-5},
    "convection_diffusion": {"u": 1e-11},
    "corner": {"u": 1e-4},  # singular: the gradient is infinite in the corner
    "cube": {"u": 1e-6},
    "cubic": {"u": 1e-11},
    "darcy": {"p": 1e-6},
    "drawing": {"u": 1e-10},
    "driven_cavity": {"u": 1e-4, "v": 1e-4},
    "flame_front": {"u": 1e-4},
    "flower": {"u": 1e-12},
    "heat": {"u": 1e-8},
    "helmholtz": {"u": 1e-10},
    "inclusion": {"u": 1e-8},
    "hot_spot": {"u": 1e-8},
    "inverse_source": {"u": 1e-8, "q": 1e-6},
    "jump": {"u": 1e-9},
    "kovasznay": {"u": 1e-9, "v": 1e-9, "p": 1e-9},
    "lane_emden": {"u": 1e-10},
    "layer": {"u": 1e-9},
    "layered_wall": {"u": 1e-8},
    "lotka_volterra": {"u": 1e-10, "v": 1e-10},
    "lshape": {"u": 1e-5},
    "minimal_surface": {"u": 1e-8},
    "neumann": {"u": 1e-11},
    "pendulum": {"u": 1e-10},
    "periodic": {"u": 1e-10},
    "plate_cooling": {"u": 1e-6},
    "plate_with_hole": {"u": 1e-6, "v": 1e-6},
    "poisson_1d": {"u": 1e-12},
    "poisson_2d": {"u": 1e-11},
    "poisson_holes": {"u": 1e-11},
    "quench": {"u": 1e-9},
    "radiation": {"u": 1e-10},
    "sensors": {"u": 1e-8},
    "soliton": {"u": 1e-8, "v": 1e-8},
    "stokes": {"u": 1e-9, "v": 1e-9, "p": 1e-7},
    "unit_mass": {"p": 1e-12},
    "unknown_field": {"u": 1e-10, "k": 1e-8},
    "unknown_numbers": {"u": 1e-8},
    "van_der_pol": {"u": 1e-9},
    "wave": {"u": 1e-7},
}
RESIDUAL = {"poisson_1d": 1e-13}  # of the conditions, relative; others:
USUAL_RESIDUAL = 1e-10
# Relative residual between the points: at corners second derivatives are infinite, on patches the estimate says more.
HELD_OUT = {
    "cavity": 1e-2,
    "driven_cavity": 1e-2,
    "corner": 1e-3,
    "inclusion": 1e-4,
    "cantilever": 1e-2,
    "lshape": 1e-2,
    "darcy": 1e-4,
}
HELD_OUT |= {"allen_cahn": 0.1}  # the slope of its start jumps where the ends meet
USUAL_HELD_OUT = 1e-5
SLOW = (
    "allen_cahn",
    "annulus",
    "ball",
    "biharmonic",
    "block",
    "breather",
    "burgers",
    "cantilever",
    "convection_diffusion",
    "cubic",
    "darcy",
    "corner",
    "drawing",
    "driven_cavity",
    "flame_front",
    "heat",
    "helmholtz",
    "hot_spot",
    "inverse_source",
    "kovasznay",
    "lshape",
    "minimal_surface",
    "periodic",
    "plate_cooling",
    "plate_with_hole",
    "poisson_holes",
    "radiation",
    "stokes",
    "unknown_numbers",
    "van_der_pol",
    "wave",
)


@cache
def solved(name: str) -> cnf.Answer:
    """The answer to a file, solved once whatever the number of tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)  # a test below asks for what a warning would say
        return cnf.Problem.read(FOLDER / f"{name}.toml").solve()


every_file = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in FILES]
)


def test_every_file_has_a_bound():
    """A new file without an entry fails here; so does an entry without a file."""
    assert sorted(BOUNDS) == FILES


def test_the_table_in_the_docs_takes_new_numbers():
    """Every file has its line there; numbers change, what the file shows does not, other lines neither."""
    text = DOCS.read_text()
    row = Row(1234, 5.6e-7, 8.9e-7, True, 1.0)
    changed = rewritten(text, dict.fromkeys(FILES, row))
    before, after = text.splitlines(), changed.splitlines()
    new = [line for line, old in zip(after, before, strict=True) if line != old]
    assert len(new) == len(FILES) and all(line.endswith(" | 1234 | 6e-07 | 9e-07 |") for line in new)
    assert "| `wave.toml` | two modes, four periods of the faster | 1234 | 6e-07 | 9e-07 |" in after
    with pytest.raises(SystemExit, match="no line in the table of the gallery for unheard"):
        rewritten(text, {"unheard": row})


def check_reference(name: str):
    """Files without an exact solution, against one that is computed otherwise."""
    answer = solved(name)
    points = answer.problem.domain.random(2000, torch.Generator().manual_seed(1))
    wanted = torch.from_numpy(REFERENCES[name](points.numpy()))
    errors = (answer(points)[:, : wanted.shape[1]] - wanted).norm(dim=0) / wanted.norm(dim=0)
    for channel, error in zip(BOUNDS[name], errors.tolist(), strict=True):
        assert error <= BOUNDS[name][channel], channel
    assert float(errors.max()) <= 3 * answer.estimate


def check_known_numbers(name: str):
    """Fields of which a few numbers are known, against these."""
    for channel, error in MEASURES[name](solved(name)).items():
        assert error <= BOUNDS[name][channel], channel


def check_error(name: str):
    """Relative L2 error against the exact solution at 2000 uniform random points of the domain."""
    answer = solved(name)
    points = answer.problem.domain.random(2000, torch.Generator().manual_seed(1))
    assert answer.problem.exact is not None and set(answer.problem.exact) == set(BOUNDS[name])
    for k, channel in enumerate(answer.problem.space.channels):
        wanted = answer.problem.exact[channel](points)
        error = float((answer(points)[:, k] - wanted).norm() / wanted.norm())
        assert error <= BOUNDS[name][channel], channel
        assert answer.errors is not None
        assert answer.errors[channel] <= BOUNDS[name][channel], "the error that the answer reports"


def check_conditions(name: str):
    """The certificate is exact and full of numbers; the residuals are measured anew with the solution's operators."""
    answer = solved(name)
    certificate = answer.certificate
    bound = RESIDUAL.get(name, USUAL_RESIDUAL)
    assert certificate.exact and certificate.worst <= bound
    asked = {equation.name for equation in answer.problem.equations}
    ties = {name for name in certificate.residuals if {"across", "between"} & set(name.split())}
    assert asked == set(certificate.residuals) - ties
    assert all(math.isfinite(r.absolute) and r.relative <= bound for r in certificate.residuals.values())
    for constraint in answer.solution.constraints:
        again = float(answer.solution.residual(constraint).abs().max())
        assert again <= 10 * certificate.residuals[constraint.name].absolute + 1e-10, constraint.name


def check_estimate(name: str):
    """What is shown as the estimate is at least a hundredth of the true error, rounding apart."""
    answer = solved(name)
    assert answer.errors is not None
    assert max(answer.errors.values()) <= 1e2 * max(answer.estimate, 1e-13)


def check_between_the_points(name: str):
    """No file is reported as unresolved, and the verdict has nothing bad to say."""
    answer = solved(name)
    assert answer.resolved and answer.worst_held_out <= HELD_OUT.get(name, USUAL_HELD_OUT)
    assert not any(line.startswith("NOT") for line in answer.verdict())


def check_stokes_flow_keeps_its_volume():
    """The divergence of the velocity at the points where it was asked for, absolute: 1e-11 for speeds of one."""
    answer = solved("stokes")
    divergence = next(c for c in answer.problem.constraints if c.name == "divergence")
    assert divergence.points.shape[0] >= 400
    assert float(answer.solution.residual(divergence).abs().max()) <= 1e-11
    assert answer.certificate.residuals["divergence"].absolute <= 1e-11


def check_cavity_turns_as_known():
    """The stream function in the middle of the eddy: -0.10007627, by Gauss points up the centre line."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    height = 0.765 * (nodes + 1) / 2
    points = torch.from_numpy(np.stack([np.full_like(height, 0.5), height], axis=1))
    values = solved("cavity")(points)[:, 0].detach().numpy()
    assert float(0.765 / 2 * weights @ values) == pytest.approx(-0.10007627, abs=2e-7)


def check_sensors_pass_through_every_measurement():
    """The field equals the column d of the file at its points."""
    lines = (FOLDER / "sensors.csv").read_text().splitlines()
    table = torch.tensor([[float(v) for v in line.split(",")] for line in lines[1:]], dtype=torch.float64)
    assert lines[0] == "x,y,d" and len(table) >= 20
    assert float((solved("sensors")(table[:, :2])[:, 0] - table[:, 2]).abs().max()) <= 1e-11


def check_unit_mass_has_unit_mass():
    """Gauss-Legendre quadrature of this test's own, 200 nodes on [-4, 4]."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    values = solved("unit_mass")(torch.from_numpy(4 * nodes)[:, None])[:, 0].numpy()
    assert float(4 * (weights * values).sum()) == pytest.approx(1, abs=1e-12)


def check_periodic_meets_itself():
    """Value and slope at both ends, at times that are no points of the problem."""
    times = torch.linspace(0.013, 0.987, 31, dtype=torch.float64)
    left, right = (torch.stack([torch.full_like(times, x), times], dim=1) for x in (0.0, 1.0))
    solution = solved("periodic").solution
    for latex in ("u", "u_x"):
        assert float((solution.apply(latex, left) - solution.apply(latex, right)).abs().max()) <= 1e-8


def check_unknown_numbers_are_found():
    """Growth 3 and diffusion 0.05, which the counts in the file were made with: to 1e-8, and within what is claimed."""
    found = solved("unknown_numbers").recovered
    assert found is not None and set(found.values) == {"D", "r"}
    for name, wanted in (("D", 0.05), ("r", 3.0)):
        off = abs(found.values[name] - wanted)
        assert off <= 1e-8 * wanted
        assert off <= 10 * (found.deviations[name] + found.numerical[name])


def check_conductivity_is_one_of_many():
    """Temperatures hold exactly, and the estimate does not claim what they leave open."""
    answer = solved("unknown_field")
    assert "temperatures" in answer.certificate.residuals and "leave open" in answer.source


def check_prey_and_predators_keep_their_balance():
    """u - ln u + v - ln v stays what it was, 3 - ln 2."""
    values = solved("lotka_volterra")(torch.linspace(0, 8, 201, dtype=torch.float64)[:, None]).detach()
    assert float(((values - values.log()).sum(dim=1) - (3 - math.log(2))).abs().max()) <= 1e-10


OWN = {
    "lotka_volterra": check_prey_and_predators_keep_their_balance,
    "unknown_field": check_conductivity_is_one_of_many,
    "unknown_numbers": check_unknown_numbers_are_found,
    "cavity": check_cavity_turns_as_known,
    "stokes": check_stokes_flow_keeps_its_volume,
    "sensors": check_sensors_pass_through_every_measurement,
    "unit_mass": check_unit_mass_has_unit_mass,
    "periodic": check_periodic_meets_itself,
}


@every_file
def test_file(name: str):
    """All that is promised of a file, in one test: processes that share the tests would solve it more than once."""
    truth = (check_reference,) if name in REFERENCES else (check_error, check_estimate)
    truth = (check_known_numbers,) if name in MEASURES else truth
    for check in (*truth, check_conditions, check_between_the_points):
        check(name)
    if name in OWN:
        OWN[name]()
