"""Patches on domains that are no boxes: cut cells, joined slivers, corners, and names of edges."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import cnf
from cnf.bases.corner_functions import AngularMaps, CornerFunctions
from cnf.domains import Box, Difference, Disk, Intersection, Polygon, Union
from cnf.errors import BasisError, CnfWarning, DomainError, ProblemError, UnderdeterminedError
from cnf.pde.patches.building import Mesh, build_field, orders_of
from cnf.pde.patches.corners import functions_at
from cnf.pde.patches.sectors import corners_of
from cnf.pde.patches.shaped import Shaped, first_cells
from cnf.pde.problems.on_patches import question_of

SQUARE = Box((0, 0), (1, 1))
EXACT = r"\sin(5x + 1)\cos(7y)"
POISSON = {"interior": rf"-\Delta u = 74 {EXACT}", "boundary": f"u = {EXACT}"}
NORMAL = r"\mathbf{n}\cdot\nabla u = n_x 5\cos(5x + 1)\cos(7y) - n_y 7\sin(5x + 1)\sin(7y)"
L_SHAPE = Polygon([(-1, -1), (1, -1), (1, 1), (0, 1), (0, 0), (-1, 0)])
TANGENT = Difference(SQUARE, Disk((0.45, 0.53), 0.2, name="hole"))  # touches a line between cells
SHAPES = {
    "disk": Disk((0, 0), 1),
    "tangent": TANGENT,
    "triangle": Polygon([(0, 0), (2, 0.3), (0.7, 1.5)]),
    "holes": Difference(SQUARE, [Disk((0.3, 0.3), 0.1), Disk((0.7, 0.6), 0.15), Disk((0.513, 0.93), 0.01)]),
    "L": L_SHAPE,
    "lens": Intersection([Disk((0, 0), 1), Disk((0.8163837910949103, 0), 1)]),
    "keyhole": Union([Disk((-0.188, -0.077), 0.731), Box((-1, -0.3), (0.668, 0.3))]),
}


def solve(target: float = 1e-7, **entries: object) -> cnf.Answer:
    with warnings.catch_warnings():
        warnings.simplefilter("error", CnfWarning)
        return cnf.Problem("x y", solve={"method": "patches", "target": target}, **entries).solve()


def points_in(domain: cnf.domains.Domain, count: int) -> torch.Tensor:
    return domain.random(count, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", SHAPES)
def test_patches_cover_the_domain(name: str):
    """Every point inside belongs to a patch whose frame holds it; the boundary belongs to patches as a whole."""
    domain = SHAPES[name]
    shaped = Shaped.of(domain, first_cells(domain))
    points = points_in(domain, 2000).numpy()
    own = shaped.cover.locate(points)
    slack = 0.1 * (shaped.cover.upper - shaped.cover.lower)[own]
    assert ((shaped.cover.lower[own] - slack <= points) & (points <= shaped.cover.upper[own] + slack)).all()
    length = sum(run.length for runs in shaped.runs for run in runs)
    assert length == pytest.approx(domain.boundary_measure(), rel=1e-9)
    assert shaped.cover.count < 100


@pytest.mark.parametrize("name", [name for name in SHAPES if name != "keyhole"])
def test_few_conditions_and_guides(name: str):
    """No more conditions than functions, none redundant; the known field comes out, better with a higher degree."""
    domain = SHAPES[name]
    question = question_of(cnf.Problem("x y", domain=domain, equations=POISSON))
    x = points_in(domain, 500)
    exact = (torch.sin(5 * x[:, 0] + 1) * torch.cos(7 * x[:, 1]))[:, None]
    errors = []
    for degree in (8, 12):
        mesh = Mesh.of(first_cells(domain), (degree, degree), domain)
        field = build_field(question, orders_of(question), mesh).eval()
        certificate = field.solution.certificate
        assert certificate.exact and certificate.rank == certificate.conditions <= field.basis.active().sum()
        errors.append(float((field(x) - exact).abs().max()))
    assert errors[1] < 1e-2 * errors[0] and errors[1] < 1e-5, errors


@pytest.mark.parametrize("name", ["disk", "tangent", "holes", "keyhole"])
def test_known_solutions(name: str):
    target = 1e-6 if name == "keyhole" else 1e-7  # inner corners between a line and an arc
    answer = solve(target, domain=SHAPES[name], equations=POISSON, exact=EXACT)
    error = max(answer.errors.values())
    assert answer.certificate.exact and error < target
    assert error / 3 < answer.estimate < max(30 * error, 1e-10), (error, answer.estimate)


def test_normal_derivatives_on_a_hole():
    equations = {"interior": POISSON["interior"], "hole": NORMAL, "boundary except hole": f"u = {EXACT}"}
    answer = solve(domain=TANGENT, equations=equations, exact=EXACT)
    assert answer.certificate.exact and max(answer.errors.values()) < 1e-8


def test_saved_and_loaded(tmp_path):
    """A cover with joined slivers and the functions of a corner come back bit for bit."""
    question = question_of(
        cnf.Problem("x y", domain=L_SHAPE, equations={"interior": r"-\Delta u = 1", "boundary": "u = 0"})
    )
    corners = [f for c in corners_of(L_SHAPE) for f in functions_at(question, c)]
    mesh = Mesh.of(first_cells(L_SHAPE), (6, 6), L_SHAPE, corners)
    field = build_field(question, orders_of(question), mesh).eval()
    x = points_in(L_SHAPE, 200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)
        field.save(tmp_path / "field.pt")
        again = cnf.load(tmp_path / "field.pt").eval()
    assert torch.equal(again(x), field(x))


# -- corners -------------------------------------------------------------------------------------------------------


def exponents(domain: cnf.domains.Domain, centre: tuple[float, float], **entries: object) -> np.ndarray:
    question = question_of(cnf.Problem("x y", domain=domain, **entries))
    (corner,) = (c for c in corners_of(domain) if np.allclose(c.centre, centre))
    found = functions_at(question, corner)
    return found[0].exponents if found else np.zeros(0)


def test_exponents_are_those_of_the_literature():
    """270 degrees: multiples of 2/3, of 1/3 if the condition changes; clamped and free at 90 degrees: 0.7112."""
    laplace = {"interior": r"-\Delta u = 1", "boundary": "u = 0"}
    assert np.allclose(exponents(L_SHAPE, (0, 0), equations=laplace)[:4], [2 / 3, 4 / 3, 8 / 3, 10 / 3], atol=1e-8)
    assert not len(exponents(L_SHAPE, (1, 1), equations=laplace))
    assert not len(exponents(Polygon([(0, 0), (1, 0), (0, 1)]), (1, 0), equations=laplace))  # 4 is the first of all
    mixed = {"interior": r"-\Delta u = 1", "edge 4": r"\partial_n u = 0", "boundary except edge 4": "u = 0"}
    assert np.allclose(exponents(L_SHAPE, (0, 0), equations=mixed)[:3], [1 / 3, 5 / 3, 7 / 3], atol=1e-8)
    elastic = exponents(SQUARE, (0, 0), channels="u v", equations=cantilever("1"))
    assert elastic[0].real == pytest.approx(0.7112, abs=1e-4) and abs(elastic[0].imag) < 1e-9
    assert elastic[1].imag > 0.5


def cantilever(load: str) -> list[dict[str, str]]:
    """Lame constants 1.5 and 1: clamped at x = 0, free above and below, pulled down at x = 1 (sigma_xy = -load)."""
    free = [{"on": s, "equation": e} for s in ("y = 0", "y = 1") for e in ("u_y + v_x = 0", "3.5 v_y + 1.5 u_x = 0")]
    return [
        {"on": "interior", "equation": "-3.5 u_{xx} - u_{yy} - 2.5 v_{xy} = 0"},
        {"on": "interior", "equation": "-v_{xx} - 3.5 v_{yy} - 2.5 u_{xy} = 0"},
        {"on": "x = 0", "equation": "u = 0"},
        {"on": "x = 0", "equation": "v = 0"},
        *free,
        {"on": "x = 1", "equation": "3.5 u_x + 1.5 v_y = 0"},
        {"on": "x = 1", "equation": f"u_y + v_x = -{load}"},
    ]


def test_corners_of_combined_shapes_are_where_curves_meet():
    """Boundaries of combinations stop about 1e-7 before their corners; corners are found to rounding."""
    middle = 0.8163837910949103 / 2
    found = sorted(corners_of(SHAPES["lens"]), key=lambda corner: corner.centre[1])
    assert len(found) == 2 and np.allclose(
        [c.centre for c in found], [[middle, -1], [middle, 1]] * np.array([1, math.sqrt(1 - middle**2)]), atol=1e-13
    )
    assert all(c.end - c.start == pytest.approx(2 * math.acos(middle), abs=1e-5) for c in found)


def test_derivatives_of_corner_functions():
    """By central differences, value, slope and curvature, across the whole range of angles."""
    rng = np.random.default_rng(0)
    angles = AngularMaps.of(math.pi, 2.5 * math.pi, 25).angles
    profiles = np.exp(1j * np.outer([0.7, 1.3, 0.2, 0.4], angles)).reshape(2, 2, 1, 25)
    functions = CornerFunctions(
        (0.2, -0.1), math.pi, 2.5 * math.pi, np.array([0.7, 1.6 + 0.5j]), profiles, np.array([0, 1])
    )
    angle, unit = torch.from_numpy(rng.uniform(3.3, 7.6, 40)), torch.full((40,), 0.5, dtype=torch.float64)
    x = torch.tensor([0.2, -0.1]) + 0.4 * torch.stack([angle.cos(), angle.sin()], dim=1)
    step = 1e-5

    def at(points: torch.Tensor, index: tuple[int, ...]) -> torch.Tensor:
        return functions.columns(functions.around(points, unit), functions.derivative(index, 0))

    for axis, index in ((0, (1, 0)), (1, (0, 1))):
        move = torch.zeros(2, dtype=torch.float64)
        move[axis] = step
        for before, after in (((0, 0), index), (index, tuple(2 * i for i in index))):
            slope = (at(x + move, before) - at(x - move, before)) / (2 * step)
            assert torch.allclose(slope, at(x, after), rtol=1e-5, atol=1e-5)


def test_jumps_in_corners():
    """u = 1 on one wall and 0 on the next: the angle solves it; in the corner itself the value lies between."""
    answer = cnf.Problem.read(Path(__file__).parents[2] / "examples" / "pde" / "jump.toml").solve()
    assert answer.certificate.exact and max(answer.errors.values()) < 1e-9 and answer.estimate < 1e-9
    near = torch.tensor([[0.0, 0.0], [1e-9, 0.0], [0.0, 1e-9], [1e-9, 1e-9]], dtype=torch.float64)
    assert torch.allclose(answer(near)[:, 0], torch.tensor([0.5, 0.0, 1.0, 0.5]).double(), atol=1e-6)


def test_steep_data_is_no_jump():
    """A layer of 0.001 that ends in a corner: no function of a jump, and right in the corner too."""
    equations = {"interior": r"-a \Delta u + u_x = 1", "boundary": r"u = x - e^{(x-1)/a}"}
    problem = cnf.Problem("x y", domain=SQUARE, parameters={"a": 0.001}, equations=equations)
    question = question_of(problem)
    assert not any(functions_at(question, corner) for corner in corners_of(SQUARE))


def test_the_l_shape():
    """-Laplace u = 1: the integral of u is 0.2140758 (the torsion of an L-shaped bar)."""
    answer = solve(1e-6, domain=L_SHAPE, equations={"interior": r"-\Delta u = 1", "boundary": "u = 0"})
    assert answer.certificate.exact and answer.estimate < 1e-6
    nodes, weights = np.polynomial.legendre.leggauss(16)
    cells = answer.field.basis.cells
    total = 0.0
    for low, high in zip(cells.lower, cells.upper, strict=True):
        x, y = ((a + b) / 2 + (b - a) / 2 * nodes for a, b in zip(low, high, strict=True))
        grid = torch.from_numpy(np.stack([g.ravel() for g in np.meshgrid(x, y, indexing="ij")], axis=1))
        with torch.no_grad():
            total += float(answer(grid)[:, 0].numpy() @ np.outer(weights, weights).ravel()) * (high - low).prod() / 4
    assert total == pytest.approx(0.2140758022, rel=1e-6)


def test_a_cantilever():
    """Elasticity with r^0.71 at the clamped corners: the deflection agrees with that on twice as fine patches."""
    answer = solve(1e-5, domain=SQUARE, channels="u v", equations=cantilever("4 y (1 - y)"))
    assert answer.certificate.exact and answer.estimate < 1e-5
    finer = solve(1e-7, domain=SQUARE, channels="u v", equations=cantilever("4 y (1 - y)"))
    end = torch.tensor([[1.0, 0.5], [0.5, 0.9]], dtype=torch.float64)
    assert torch.allclose(answer(end), finer(end), rtol=1e-5, atol=1e-6)


# -- names of edges and bad input ----------------------------------------------------------------------------------


def test_edges_have_numbers_and_names():
    """In either direction of the vertices; edges of one name are one part; combinations keep names."""
    vertices = [(0, 0), (2, 0), (2, 1), (0, 1)]
    for given in (vertices, vertices[::-1]):
        polygon = Polygon(given)
        assert set(polygon.parts) == {f"edge {k}" for k in (1, 2, 3, 4)}
        middle = (np.array(given[0]) + given[1]) / 2
        assert np.allclose(polygon.boundary_points(40, part="edge 1").points.mean(dim=0), middle, atol=0.06)
    named = Polygon(vertices, edges=["wall", "out", "wall", "in"])
    assert named.boundary_measure("wall") == pytest.approx(4) and named.boundary_measure("in, out") == pytest.approx(2)
    assert named.boundary_measure("boundary except wall") == pytest.approx(2)
    holed = Difference(named, Disk((1, 0.5), 0.2, name="hole"))
    assert set(holed.parts) == {"wall", "out", "in", "hole"}
    assert holed.boundary_measure("boundary except hole") == pytest.approx(6, rel=1e-6)
    assert cnf.domains.domain_from(cnf.domains.describe(named)) == named


@pytest.mark.parametrize(
    "edges", ["wall", ["a"], ["a", "b", "c", None], ["interior", "", "", ""], ["a, b", "", "", ""]]
)
def test_wrong_names_of_edges(edges: object):
    with pytest.raises(DomainError):
        Polygon([(0, 0), (2, 0), (2, 1), (0, 1)], edges=edges)


def test_wrong_parts_and_counts():
    """Unknown names, conditions said twice, and conditions that leave the field open."""
    equation = {"interior": r"-\Delta u = 1"}
    with pytest.raises(ProblemError, match="hole"):
        cnf.Problem("x y", domain=TANGENT, equations={**equation, "boundary except holes": "u = 0"})
    with pytest.raises(ProblemError, match="leaves out all"):
        cnf.Problem(
            "x y",
            domain=Polygon([(0, 0), (1, 0), (0, 1)], edges=["a", "a", "b"]),
            equations={**equation, "boundary except a, b": "u = 0"},
        )
    with pytest.raises(ProblemError, match="more conditions"):
        solve(domain=TANGENT, equations={**equation, "boundary": "u = 0", "hole": "u = 1"})
    with pytest.raises(UnderdeterminedError):
        solve(domain=TANGENT, equations={**equation, "hole": "u = 0"})
    with pytest.raises(UnderdeterminedError, match="constant"):
        solve(domain=SHAPES["disk"], equations={"interior": r"\Delta u = 0", "boundary": r"\partial_n u = 0"})


def test_no_smoothest_field_on_patches():
    """An open boundary: patches would say how little degrees differ, not how far the field is off."""
    inside = [{"on": "interior", "equation": r"\Delta u = 0"}, {"on": "x = 0, y = 0", "equation": "u = 1"}]
    options = {"method": "patches", "underdetermined": "minimum-norm"}
    with pytest.raises(ProblemError, match="use method = 'waves'"):
        cnf.Problem("x y", domain=SHAPES["disk"], equations=inside, solve=options).solve()


@pytest.mark.parametrize("change", ["short", "text", "numbers", "nan", "many", "parts"])
def test_damaged_corner_functions_are_refused(change: str):
    """As a file may bring them: every entry is checked before it is used."""
    place, exponents, profiles, parts = [0.0, 0.0, 0.0, 1.5], torch.full((1, 2), 0.5), torch.rand(1, 2, 1, 9, 2), [0]
    given = {
        "short": [place, exponents],
        "text": [["a"] * 4, exponents, profiles, torch.tensor(parts)],
        "numbers": [place, 1, 2, 3],
        "nan": [[math.nan] * 4, exponents, profiles, torch.tensor(parts)],
        "many": [place, exponents.repeat(400, 1), profiles.repeat(400, 1, 1, 1, 1), torch.tensor(parts * 400)],
        "parts": [place, exponents, profiles, torch.zeros(5)],
    }[change]
    with pytest.raises(BasisError):
        cnf.bases.Piecewise(cnf.Space("x y", "u"), cnf.bases.Cells([0, 0], [1, 1]), 3, corners=[given], at_corner=[0])


@pytest.mark.parametrize("change", ["patch", "frame", "nan"])
def test_damaged_covers_are_refused(change: str):
    shaped = Shaped.of(SHAPES["disk"], first_cells(SHAPES["disk"]))
    config = cnf.bases.Piecewise(cnf.Space("x y", "u"), shaped.cover, 3).config()
    if change == "patch":
        config["patch"][0] = 99
    elif change == "frame":
        config["frames"] = config["frames"][:-1]
    else:
        config["frames"][0, 0] = math.nan
    with pytest.raises(BasisError):
        cnf.bases.Piecewise(**config)
