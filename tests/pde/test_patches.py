"""Patches: cells that are cut, tied and refined, on problems with known solutions."""

from __future__ import annotations

import math
import re
import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

import cnf
from cnf.bases import Cells, Piecewise
from cnf.bases.ties import Tie
from cnf.errors import BasisError, CnfWarning, ProblemError, UnderdeterminedError
from cnf.pde.patches.asked import asked_formulas
from cnf.pde.patches.building import Mesh, build_field, orders_of
from cnf.pde.patches.formulas import follow
from cnf.pde.problems.on_patches import question_of
from cnf.solvers.null_space import TiedFactor, Ties
from cnf.systems.tied import Tied

SQUARE = cnf.Box((0, 0), (1, 1))


def quartered(cells: Cells, chosen: list[int]) -> Cells:
    count = cells.count
    cells = cells.cut(chosen, 0)
    return cells.cut([*chosen, *range(count, cells.count)], 1)


def hanging() -> Cells:
    """Three sizes side by side, coarser cells on either side of finer ones in both directions."""
    cells = quartered(Cells([0, 0], [1, 1]), [0])
    cells = quartered(cells, [0, 3])
    return quartered(cells, [int(cells.locate(np.array([[0.3, 0.3]]))[0])])


def solve(**entries: object) -> cnf.Answer:
    problem = cnf.Problem(solve={"method": "patches", **entries.pop("solve", {})}, **entries)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CnfWarning)
        return problem.solve()


# -- cells ---------------------------------------------------------------------------------------------------------


def test_cells_cover_the_box_once():
    """Volumes add up; every point lies in the cell it is located in; a saved table makes the same cells."""
    cells = hanging()
    assert np.prod(cells.upper - cells.lower, axis=1).sum() == pytest.approx(1.0, rel=1e-15)
    points = np.random.default_rng(0).random((500, 2))
    own = cells.locate(points)
    assert ((cells.lower[own] <= points) & (points <= cells.upper[own])).all()
    again = Cells.from_table(cells.table(), 2)
    assert np.array_equal(again.lower, cells.lower) and np.array_equal(again.locate(points), own)


def test_faces_are_shared_by_two_cells_or_on_the_boundary():
    """Areas of the faces: the boundary has length 4, and every side of every cell is covered exactly once."""
    cells = hanging()
    covered = np.zeros((cells.count, 2, 2))
    outside = 0.0
    for face in cells.faces():
        length = (face.upper - face.lower).sum()
        covered[face.first, face.axis, face.side] += length
        if face.second < 0:
            outside += length
        else:
            covered[face.second, face.axis, 0] += length
    assert outside == pytest.approx(4.0)
    for axis in (0, 1):
        side = (cells.upper - cells.lower)[:, 1 - axis]
        assert np.allclose(covered[:, axis], side[:, None], rtol=1e-14)


@pytest.mark.parametrize("change", ["corner", "order", "cell", "axis", "nan"])
def test_damaged_tables_are_refused(change: str):
    table = quartered(Cells([0, 0], [1, 1]), [0]).table()
    if change == "corner":
        table[1] = -1
    elif change == "order":
        table[-1, 0] = -5
    elif change == "cell":
        table[-1, 1] = 99
    elif change == "axis":
        table[-1, 2] = 7
    else:
        table[-1, 3] = math.nan
    with pytest.raises(BasisError):
        Cells.from_table(table, 2)


# -- solving -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("repeated", [False, True])
def test_tied_systems_are_pseudo_inverses(repeated: bool):
    """Random rows of five cells and random ties: the solution and its transpose are those of NumPy's pseudo-inverse.

    Rows and ties that say what others say are left out of the rank; met they are all the same.
    """
    rng = np.random.default_rng(1)
    cells, n, starts, ties = 5, 6, np.array([0, 3, 5, 9, 9, 11]), 8
    table = rng.standard_normal((11, n))
    rows = np.concatenate([np.arange(ties), np.arange(ties)])
    places = np.concatenate([rng.integers(0, 2, ties), rng.integers(2, cells, ties)])
    vectors = rng.standard_normal((2 * ties, n))
    if repeated:
        table[8] = table[5] - 2 * table[6]
        places[[1, ties + 1]], vectors[[1, ties + 1]] = places[[0, ties]], 3 * vectors[[0, ties]]
    whole = np.zeros((11 + ties, cells * n))
    for cell, (a, b) in enumerate(pairwise(starts)):
        whole[a:b, cell * n : (cell + 1) * n] = table[a:b]
    for row, cell, vector in zip(rows, places, vectors, strict=True):
        whole[11 + row, cell * n : (cell + 1) * n] += vector
    factor = TiedFactor(table, starts, Ties(ties, rows, places, vectors), rng.random((cells, 2)))
    right, z = whole @ rng.standard_normal(cells * n), rng.standard_normal((cells, n))
    inverse = np.linalg.pinv(whole)
    assert factor.rank == 11 + ties - 2 * repeated
    assert np.allclose(factor.solve(right[:11], right[11:]).ravel(), inverse @ right, rtol=0, atol=1e-11)
    multipliers = np.concatenate(factor.solve_transposed(z))  # of repeated rows, only what they do together counts
    assert np.allclose(whole.T @ multipliers, whole.T @ inverse.T @ z.ravel(), rtol=0, atol=1e-11)
    assert repeated or np.allclose(multipliers, inverse.T @ z.ravel(), rtol=0, atol=1e-11)


POISSON = {
    "coordinates": "x y",
    "domain": SQUARE,
    "equations": {"interior": r"-\Delta u = 74 \sin(5x + 1)\cos(7y)", "boundary": r"u = \sin(5x + 1)\cos(7y)"},
    "exact": r"\sin(5x + 1)\cos(7y)",
}


def on_cells(cells: Cells, degree: int) -> cnf.ConstrainedField:
    question = question_of(cnf.Problem(**POISSON))
    return build_field(question, orders_of(question), Mesh.of(cells, (degree, degree)))


def test_hanging_systems_are_square_and_regular():
    """As many conditions as functions, none redundant, and the field does not depend on how weights are weighed."""
    field = on_cells(hanging(), 10)
    solution = field.eval().solution
    certificate = solution.certificate
    assert certificate.exact and certificate.worst < 1e-11
    assert certificate.rank == certificate.conditions == field.basis.size
    targets = [c.values for c in field.constraints]
    flat = Tied((), smooth=1.0).plan(field.basis, field.constraints).solve(targets)
    x = torch.rand(300, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(flat.values(x), solution(x), rtol=0, atol=1e-9)


def test_errors_fall_with_the_degree():
    """Two degrees more: the known solution comes out at least 50 times better on cells of three sizes."""
    x = torch.rand(500, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    exact = (torch.sin(5 * x[:, 0] + 1) * torch.cos(7 * x[:, 1]))[:, None]
    errors = [float((on_cells(hanging(), p).eval()(x) - exact).abs().max()) for p in (6, 8, 10)]
    assert errors[0] > 50 * errors[1] > 2500 * errors[2], errors


def test_ties_are_conditions_of_the_certificate():
    """Weights of one cell off by 1e-3: the jumps across its faces are found and named."""
    solution = on_cells(hanging(), 8).eval().solution
    names = set(solution.certificate.residuals)
    assert {"u across x", "flux across x", "u across y", "flux across y"} <= names
    broken = solution.expansion.weights.clone()
    broken[0] += 1e-3
    off = type(solution.expansion)(
        solution.expansion.evaluator, broken, solution.expansion.ties, solution.expansion.account
    )
    assert float(off.jumps()["u across x"].off.abs().max()) == pytest.approx(1e-3, rel=1e-6)


def test_gradients_through_cells():
    """d/dk of a loss on -k Laplace u = f, by the adjoint and by central differences."""
    basis = on_cells(hanging(), 6).basis
    space, points = basis.space, SQUARE.fill(60, "halton", 3)
    edge = SQUARE.boundary_points(16).points
    x = torch.rand(50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def loss(k: torch.Tensor) -> torch.Tensor:
        equation = space.constraint(r"-k \Delta u = 1", at=points, k=k, name="equation")
        field = cnf.ConstrainedField(basis, [equation, space.constraint("u = 0", at=edge, name="edge")])
        return field.solve()(x).square().sum()

    k = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    loss(k).backward()
    step = 1e-5
    with torch.no_grad():
        wanted = (loss(k + step) - loss(k - step)) / (2 * step)
    assert float(k.grad) == pytest.approx(float(wanted), rel=1e-6)


def test_saved_and_loaded(tmp_path):
    """A field on cells comes back bit for bit, ties and all."""
    field = on_cells(hanging(), 5).eval()
    x = torch.rand(40, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)
        field.save(tmp_path / "field.pt")
        again = cnf.load(tmp_path / "field.pt").eval()
        assert torch.equal(again(x), field(x))
        assert set(again.certificate.residuals) == set(field.certificate.residuals)


# -- problems ------------------------------------------------------------------------------------------------------

LAYER = {
    "coordinates": "x y",
    "domain": SQUARE,
    "parameters": {"a": 0.001},
    "equations": {"interior": r"-a \Delta u + u_x = 1", "boundary": r"u = x - e^{(x-1)/a}"},
    "exact": r"x - e^{(x-1)/a}",
    "solve": {"target": 1e-8},
}
HEAT = {
    "coordinates": "x t",
    "domain": cnf.domains.Timed(cnf.Box(0, 1), 0, 0.5),
    "equations": {"interior": "u_t = u_{xx}", "boundary": "u = 0", "t = 0": r"u = \sin(\pi x)"},
    "exact": r"e^{-\pi^2 t} \sin(\pi x)",
    "solve": {"target": 1e-7},
}
PERIODIC = {
    "coordinates": "x t",
    "domain": cnf.domains.Timed(cnf.Box(0, 1), 0, 1),
    "equations": {"interior": "u_t + u_x = 0", "x = 0": "u - u(1, t) = 0", "t = 0": r"u = \sin(2 \pi x)"},
    "exact": r"\sin(2 \pi (x - t))",
    "solve": {"target": 1e-7},
}
WAVE = {
    "coordinates": "x t",
    "channels": "u v",
    "domain": cnf.domains.Timed(cnf.Box(0, 1), 0, 4),
    "equations": [
        {"on": "interior", "equation": "u_t - v = 0"},
        {"on": "interior", "equation": "v_t = u_{xx}"},
        {"on": "boundary", "equation": "u = 0"},
        {"on": "t = 0", "equation": r"u = \sin(\pi x)"},
        {"on": "t = 0", "equation": "v = 0"},
    ],
    "exact": {"u": r"\sin(\pi x) \cos(\pi t)", "v": r"-\pi \sin(\pi x) \sin(\pi t)"},
    "solve": {"target": 1e-6},
}
ROBIN = {
    "coordinates": "x y",
    "domain": SQUARE,
    "equations": [
        {"on": "interior", "equation": r"-\Delta u = 3 e^x \cos(2y)"},
        {"on": "x = 0", "equation": r"\partial_n u = -\cos(2y)"},
        {"on": "x = 1", "equation": r"u + \partial_n u = 2 \exp(1) \cos(2y)"},
        {"on": "y = 0", "equation": "u = e^x"},
        {"on": "y = 1", "equation": r"u = e^x \cos(2)"},
    ],
    "exact": r"e^x \cos(2y)",
    "solve": {"target": 1e-9},
}
PLATE = {
    "coordinates": "x y",
    "domain": SQUARE,
    "equations": [
        {"on": "interior", "equation": r"\Delta^2 u = 169 \sin(2x)\sin(3y)"},
        {"on": "boundary", "equation": r"u = \sin(2x)\sin(3y)"},
        {"on": "boundary", "equation": r"\Delta u = -13 \sin(2x)\sin(3y)"},
    ],
    "exact": r"\sin(2x)\sin(3y)",
    "solve": {"target": 1e-6},
}
ELASTIC = {  # u = sin(2x) cos(y), v = cos(x) sin(y) with Lame constants 1 and 1, traction on the upper side
    "coordinates": "x y",
    "channels": "u v",
    "domain": SQUARE,
    "equations": [
        {"on": "interior", "equation": r"-3 u_{xx} - u_{yy} - 2 v_{xy} = 13 \sin(2x)\cos(y) + 2 \sin(x)\cos(y)"},
        {"on": "interior", "equation": r"-v_{xx} - 3 v_{yy} - 2 u_{xy} = 4 \cos(x)\sin(y) + 4 \cos(2x)\sin(y)"},
        *({"on": side, "equation": r"u = \sin(2x)\cos(y)"} for side in ("x = 0", "x = 1", "y = 0")),
        *({"on": side, "equation": r"v = \cos(x)\sin(y)"} for side in ("x = 0", "x = 1", "y = 0")),
        {"on": "y = 1", "equation": r"u_y + v_x = -\sin(2x)\sin(1) - \sin(x)\sin(1)"},
        {"on": "y = 1", "equation": r"3 v_y + u_x = 3\cos(x)\cos(1) + 2\cos(2x)\cos(1)"},
    ],
    "exact": {"u": r"\sin(2x)\cos(y)", "v": r"\cos(x)\sin(y)"},
    "solve": {"target": 1e-8},
}
SPACE = {
    "coordinates": "x y z",
    "domain": cnf.Box((0, 0, 0), (1, 1, 1)),
    "equations": {"interior": r"-\Delta u = 3 \sin(x)\cos(y)\sin(z)", "boundary": r"u = \sin(x)\cos(y)\sin(z)"},
    "exact": r"\sin(x)\cos(y)\sin(z)",
    "solve": {"target": 1e-5},
}
KNOWN = {
    "layer": LAYER,
    "heat": HEAT,
    "periodic": PERIODIC,
    "wave": WAVE,
    "robin": ROBIN,
    "plate": PLATE,
    "elastic": ELASTIC,
    "space": SPACE,
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_solutions(name: str):
    """All conditions exact, the error below the target, the estimate neither 3 times too small nor 10 too large."""
    answer = solve(**KNOWN[name])
    error = max(answer.errors.values())
    assert answer.certificate.exact
    assert error < KNOWN[name]["solve"]["target"]
    assert error / 3 < answer.estimate, (error, answer.estimate)
    assert answer.estimate < 10 * max(error, 1e-13), (error, answer.estimate)
    assert not answer.tuning.interrupted and answer.tuning.objective == "refinement"


def test_narrow_sources_are_seen():
    """-Laplace u = a Gaussian of width 0.004, u = 0 around: far away, u is that of the same mass spread twice as wide.

    Seen from outside, radially symmetric sources of one mass are the same; a source that all points miss gives 0.
    """

    def source(width: float) -> dict:
        peak = rf"\frac{{1}}{{{2 * math.pi * width**2!r}}} e^{{-((x - 0.31)^2 + (y - 0.67)^2) / {2 * width**2!r}}}"
        return {
            "coordinates": "x y",
            "domain": SQUARE,
            "equations": {"interior": rf"-\Delta u = {peak}", "boundary": "u = 0"},
            "solve": {"target": 1e-4},
        }

    narrow, wide = (solve(**source(width)) for width in (0.004, 0.008))
    far = torch.tensor([[0.8, 0.2], [0.1, 0.1], [0.9, 0.9], [0.6, 0.4]], dtype=torch.float64)
    assert torch.allclose(narrow(far), wide(far), rtol=1e-4, atol=0)
    assert float(narrow(far).abs().min()) > 1e-3


BUMPS = {
    "on the boundary": {"interior": r"\Delta u = 0", "x = 0": r"u = BUMP{y}{0.537}", "x = 1": "u = 0"},
    "second inside": {"interior": r"-\Delta u = 1 + BUMP{x}{0.3137} BUMP{y}{0.67} + \frac{1}{2} BUMP{x}{0.812}"},
    "in a coefficient": {"interior": r"-\Delta u + 1000 BUMP{x}{0.3137} u = 1"},
}


@pytest.mark.parametrize("name", BUMPS)
def test_no_bump_is_narrow_enough_to_hide(name: str):
    """Widths of 3e-5 fall between all samples; interval arithmetic sees them, and cells are cut down to them."""
    sides = dict.fromkeys(("x = 0", "x = 1", "y = 0", "y = 1"), "u = 0")
    equations = {
        side: re.sub(r"BUMP\{(.)\}\{(.*?)\}", r"e^{-((\1 - \2)/0.00003)^2}", latex)
        for side, latex in (sides | BUMPS[name]).items()
    }
    question = question_of(cnf.Problem("x y", domain=SQUARE, equations=equations))
    orders = orders_of(question)
    cells = follow(Cells([0, 0], [1, 1]), [8, 8], asked_formulas(question, orders), 1e-6, 0, None)
    at = {"on the boundary": [(1, 0.537)], "second inside": [(0, 0.3137), (0, 0.812)]}.get(name, [(0, 0.3137)])
    for axis, place in at:
        near = (cells.lower[:, axis] <= place) & (place < cells.upper[:, axis])
        assert (cells.upper - cells.lower)[near, axis].min() < 2e-4, (axis, place)


def test_cells_of_a_slab_are_cut_together():
    """A source that is narrow in time and space: cells that follow it still come in slabs."""
    domain = cnf.domains.Timed(cnf.Box(0, 1), 0, 1)
    source = r"e^{-((x - 0.3)/0.01)^2 - ((t - 0.6)/0.01)^2}"
    equations = {"interior": rf"u_t = u_{{xx}} + {source}", "boundary": "u = 0", "t = 0": "u = 0"}
    question = question_of(cnf.Problem("x t", domain=domain, equations=equations))
    orders = orders_of(question)
    cells = follow(Cells([0, 0], [1, 1]), [8, 8], asked_formulas(question, orders), 1e-6, 0, orders.time)
    slabs = np.unique(np.stack([cells.lower[:, 1], cells.upper[:, 1]], axis=1), axis=0)
    assert len(slabs) > 4 and (slabs[1:, 0] == slabs[:-1, 1]).all()


def test_large_channels_hide_no_jump_of_small_ones():
    """v of 1e8 beside u of 1: a jump of 1e-6 in u is 1e-6 in the certificate."""
    space = cnf.Space("x", "u v")
    cells = Cells([0.0], [1.0]).cut([0], 0)
    here, sides = torch.tensor([[0.5]], dtype=torch.float64), (torch.tensor([0]), torch.tensor([1]))
    tie = Tie(space.constraint("u = 0", at=here, name="u across x"), *sides)
    basis = Piecewise(space, cells, 1, [tie])
    ends = torch.tensor([[0.1], [0.4], [0.9]], dtype=torch.float64)
    given = [space.constraint("u = 1", at=ends, name="u"), space.constraint("v = 100000000", at=ends, name="v")]
    solution = cnf.ConstrainedField(basis, given).eval().solution
    assert solution.certificate.residuals["u across x"].relative < 1e-12
    broken = solution.expansion.weights.clone()
    broken[0, 0] += 1e-6
    off = replace(solution, expansion=replace(solution.expansion, weights=broken), spot_check=None)
    with pytest.warns(CnfWarning):
        certificate = off.certificate
    assert not certificate.exact
    assert certificate.residuals["u across x"].relative == pytest.approx(1e-6, rel=1e-3)


def test_unfit_problems_are_refused():
    """What patches cannot do is said before anything is solved, with what to do instead."""
    laplace = {"interior": r"\Delta u = 0", "boundary": "u = 1"}
    disk = cnf.domains.Disk((0, 0), 1)
    with pytest.raises(ProblemError, match="formulas without t"):
        heat = {"interior": r"u_t = (1 + t) \Delta u", "boundary": "u = 1", "t = 0": "u = 1"}
        ball = cnf.domains.Timed(cnf.domains.Ball((0, 0, 0), 1), 0, 1)
        solve(coordinates="x y z t", domain=ball, equations=heat)
    with pytest.raises(ProblemError, match="where it flows in alone"):
        solve(coordinates="x y", domain=disk, equations={"interior": "u_x + u_y = 0", "boundary": "u = 1"})
    with pytest.raises(ProblemError, match="through the inside"):
        solve(coordinates="x y", domain=disk, equations={**laplace, "x = 0": "u = 1"})
    with pytest.raises(ProblemError, match="leave this out"):
        solve(coordinates="x y", domain=SQUARE, equations=laplace, points=50)
    wave = {"interior": "u_{tt} = u_{xx}", "boundary": "u = 0", "t = 0": "u = x"}
    with pytest.raises(UnderdeterminedError, match="2 conditions at t = 0"):
        solve(coordinates="x t", domain=cnf.domains.Timed(cnf.Box(0, 1), 0, 1), equations=wave)
    twice = [{"on": "interior", "equation": r"\Delta u = 0"}, {"on": "boundary", "equation": "u = 1"}]
    with pytest.raises(ProblemError, match="more conditions"):
        solve(coordinates="x y", domain=SQUARE, equations=[*twice, {"on": "x = 0", "equation": "u = 2"}])
    with pytest.raises(UnderdeterminedError):
        solve(
            coordinates="x y",
            domain=SQUARE,
            equations={"interior": r"-\Delta u = 1", "x = 0": "u = 0"},
            solve={"target": 1e-3},
        )


def test_the_choice_is_measured():
    """Waves where they resolve the field; patches where they do not, or come down to rounding; waves if told."""
    smooth = cnf.Problem(**{**POISSON, "domain": cnf.domains.Disk((0.5, 0.5), 0.5)}).solve()
    assert smooth.measured is None and not smooth.choice and max(smooth.errors.values()) < 1e-9
    box = cnf.Problem(**POISSON).solve()
    assert box.measured is not None and "exact to rounding" in box.choice and max(box.errors.values()) < 1e-13
    layer = {key: value for key, value in LAYER.items() if key != "solve"} | {"parameters": {"a": 0.01}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)
        answer = cnf.Problem(**layer, solve={"target": 1e-6}).solve()
        assert answer.measured is not None and answer.certificate.exact and max(answer.errors.values()) < 1e-6
        assert any("solved on patches: its equations have a length of 0.01" in line for line in answer.verdict())
        told = cnf.Problem(**layer, points=60).solve()
    assert told.measured is None and not told.choice


def test_a_choice_without_patches_is_that_of_waves(monkeypatch: pytest.MonkeyPatch):
    """If patches fail too, the answer or the error is that of waves."""

    def fail(*_: object, **__: object) -> None:
        raise ProblemError("no")

    monkeypatch.setattr("cnf.pde.problems.choosing.solve_on_patches", fail)
    monkeypatch.setattr("cnf.pde.problems.choosing.good_enough", lambda answer: False)
    few = cnf.Problem("x", domain=cnf.Box(0, 1), equations={"interior": "u_{xx} = 1", "boundary": "u = 0"})
    assert few.solve().measured is None
    with pytest.raises(UnderdeterminedError):
        cnf.Problem("x", domain=cnf.Box(0, 1), equations={"interior": "u_{xx} = 1"}).solve()

    fates = iter((ProblemError("no"), KeyboardInterrupt()))  # a look fails, and Ctrl-C comes after waves

    def interrupt(*_: object, **__: object) -> None:
        raise next(fates)

    monkeypatch.setattr("cnf.pde.problems.choosing.solve_on_patches", interrupt)
    kept = few.solve()
    assert kept.measured is None and kept.tuning.interrupted


def test_open_problems_have_no_second_try(monkeypatch: pytest.MonkeyPatch):
    """What conditions leave open is refused by patches, which have a look first; waves are not asked then."""
    asked: list[object] = []
    monkeypatch.setattr("cnf.pde.problems.choosing.solve_problem", lambda *given: asked.append(given))
    with pytest.raises(UnderdeterminedError):
        cnf.Problem("x", domain=cnf.Box(0, 1), equations={"interior": "u_{xx} = 1"}).solve()
    assert not asked


def test_degrees_are_checked():
    with pytest.raises(BasisError, match="degree"):
        Piecewise(cnf.Space("x y", "u"), Cells([0, 0], [1, 1]), 1000)
    with pytest.raises(BasisError, match="coordinates"):
        Piecewise(cnf.Space("x", "u"), Cells([0, 0], [1, 1]), 3)
