"""The comparison with other packages: problems, formulas, measuring and table, with no peer installed."""

from __future__ import annotations

import ast
import csv
import json
import stat
from pathlib import Path

import numpy as np
import pytest
import sympy as sp
import torch

import cnf
from benchmarks import peers
from benchmarks.peer_scripts import cnf_peer, hard_forms, scipy_peer, siren_peer
from benchmarks.peer_scripts.differentiating import derive
from benchmarks.peer_scripts.measuring import Solved, measure
from benchmarks.peer_scripts.problems import DOES_NOT_APPLY, METHODS, PROBLEMS, halton, square_boundary

x, y, t = sp.symbols("x y t")
pi = sp.pi
SCRIPTS = Path(peers.__file__).parent / "peer_scripts"
EQUATIONS = [name for name, p in PROBLEMS.items() if p.source is not None]
every_equation = pytest.mark.parametrize("name", EQUATIONS)

# Coordinates, exact solution, left-hand side, right-hand side: written down here a second time, in symbols.
SYMBOLS = {
    "poisson1d": (
        (x,),
        x + sum(sp.sin(i * x) / i for i in (1, 2, 3, 4, 8)),
        lambda u: -u.diff(x, 2),
        sum(i * sp.sin(i * x) for i in range(1, 5)) + 8 * sp.sin(8 * x),
    ),
    "poisson2d": (
        (x, y),
        sp.sin(2 * pi * x) * sp.sin(2 * pi * y),
        lambda u: -u.diff(x, 2) - u.diff(y, 2),
        8 * pi**2 * sp.sin(2 * pi * x) * sp.sin(2 * pi * y),
    ),
    "helmholtz": (
        (x, y),
        sp.sin(4 * pi * x) * sp.sin(4 * pi * y),
        lambda u: u.diff(x, 2) + u.diff(y, 2) + (4 * pi) ** 2 * u,
        -((4 * pi) ** 2) * sp.sin(4 * pi * x) * sp.sin(4 * pi * y),
    ),
    "wave": (
        (x, t),
        sp.sin(pi * x) * sp.cos(2 * pi * t) + sp.sin(4 * pi * x) * sp.cos(8 * pi * t) / 2,
        lambda u: u.diff(t, 2) - 4 * u.diff(x, 2),
        sp.Integer(0),
    ),
    "advection": (
        (x, t),
        sp.sin(2 * pi * (x - t / 10)),
        lambda u: u.diff(t) + u.diff(x) / 10,
        sp.Integer(0),
    ),
}
HILL = 16 * x * (1 - x) * y * (1 - y) * sp.exp(-20 * ((x - sp.Rational(2, 5)) ** 2 + (y - sp.Rational(3, 5)) ** 2))
SYMBOLS["peak"] = ((x, y), HILL, lambda u: -u.diff(x, 2) - u.diff(y, 2), -HILL.diff(x, 2) - HILL.diff(y, 2))


def values_of(expression: sp.Expr, names: tuple, points: np.ndarray) -> np.ndarray:
    return np.broadcast_to(sp.lambdify(names, expression, "numpy")(*points.T), (len(points),))


def differentiated(expression: sp.Expr, names: tuple, index: tuple[int, ...]) -> sp.Expr:
    for name, order in zip(names, index, strict=True):
        expression = expression.diff(name, order) if order else expression
    return expression


def exactly(name: str):
    """Derivatives of the exact solution in the form that `measure` takes."""
    names, u, _, _ = SYMBOLS[name]
    return lambda points, index: values_of(differentiated(u, names, index), names, points)


# -- the problems ---------------------------------------------------------------------------------------------------


@every_equation
def test_problem_is_the_one_in_symbols(name: str):
    """Solution, operator, source and every condition agree with SymPy's, and the solution solves the equation."""
    problem, (names, u, left, right) = PROBLEMS[name], SYMBOLS[name]
    assert tuple(map(str, names)) == problem.coordinates
    grid = problem.grid()
    assert problem.exact(grid) == pytest.approx(values_of(u, names, grid), abs=1e-12)
    assert problem.source(grid) == pytest.approx(values_of(right, names, grid), abs=1e-10 * problem.size)
    assert values_of(left(u), names, grid) == pytest.approx(problem.source(grid), abs=1e-10 * problem.size)
    probe = sp.exp(sum((k + 2) * name / 3 for k, name in enumerate(names)))  # no two operators agree on it
    table = sum(c * differentiated(probe, names, index) for index, c in problem.operator.items())
    assert values_of(table, names, grid) == pytest.approx(values_of(left(probe), names, grid), rel=1e-12)
    for condition in problem.conditions:
        for points in (condition.points, condition.between):
            wanted = values_of(differentiated(u, names, condition.derivative), names, points)
            assert condition.values(points) == pytest.approx(wanted, abs=1e-12)


@every_equation
def test_size_is_the_largest_term(name: str):
    """`size` is the largest of all terms and the source on a grid, to a tenth."""
    problem = PROBLEMS[name]
    grid = problem.grid()
    terms = [np.abs(c * exactly(name)(grid, a)).max() for a, c in problem.operator.items()]
    assert problem.size == pytest.approx(max(*terms, np.abs(problem.source(grid)).max()), rel=0.1)


def test_points():
    """Halton: 1/2, 1/4, 3/4 ... and 1/3, 2/3, 1/9 ...; corners of the square come once; no interior point on a face."""
    assert halton(4, 2) == pytest.approx(np.array([[1 / 2, 1 / 3], [1 / 4, 2 / 3], [3 / 4, 1 / 9], [1 / 8, 4 / 9]]))
    boundary = square_boundary(21)
    assert len(boundary) == 80 == len(np.unique(boundary, axis=0))
    for problem in PROBLEMS.values():
        inside = problem.interior
        assert ((inside > problem.lower[0]) & (inside < problem.upper[0])).all()
        for c in problem.conditions:
            assert len(np.unique(c.points, axis=0)) == len(c.points)


# -- cnf solves the same problems -----------------------------------------------------------------------------------


@every_equation
def test_cnf_states_the_same_problem(name: str):
    """For any field, the residuals of cnf's constraints are those of the operator table, by autograd."""
    problem = PROBLEMS[name]
    space = cnf_peer.state_space(problem)
    waves = cnf.bases.RandomFourier(space, size=12, bandwidth=0.7, seed=3)
    at = torch.from_numpy(PROBLEMS[name].interior[:6])
    solution = cnf.ConstrainedField(waves, [space.constraint("u = 1 + x", at=at)]).solve()
    equation, *conditions = cnf_peer.state_constraints(problem)
    points = torch.tensor(problem.interior, requires_grad=True)
    terms = sum(c * derive(solution(points), points, a) for a, c in problem.operator.items())
    wanted = terms[:, 0].detach().numpy() - problem.source(problem.interior)
    assert solution.residual(equation)[:, 0].detach().numpy() == pytest.approx(wanted, abs=1e-9 * problem.size)
    assert len(conditions) == len(problem.conditions)
    for stated, condition in zip(conditions, problem.conditions, strict=True):
        points = torch.tensor(condition.points, requires_grad=True)
        wanted = derive(solution(points), points, condition.derivative)[:, 0].detach().numpy()
        wanted = wanted - condition.values(condition.points)
        assert solution.residual(stated)[:, 0].detach().numpy() == pytest.approx(wanted, abs=1e-9)
    for a in problem.operator:
        points = torch.tensor(problem.interior[:9], requires_grad=True)
        wanted = derive(solution(points), points, a)[:, 0].detach().numpy()
        found = cnf_peer.differentiate(solution, problem, problem.interior[:9], a)
        assert found == pytest.approx(wanted, rel=1e-9, abs=1e-9)


def test_cnf_solves_a_problem():
    """Poisson in one dimension: the exact solution is known, and every condition holds to rounding."""
    problem = PROBLEMS["poisson1d"]
    solution, setting = cnf_peer.solve_with_cnf(problem)
    found = Solved(lambda p, a: cnf_peer.differentiate(solution, problem, p, a), problem.interior, (1.0, 1.0), setting)
    measured = measure(problem, found)
    assert measured["error"] < 1e-9
    assert measured["conditions"] < 1e-9 and measured["equation"] < 1e-9


# -- the peers' formulas --------------------------------------------------------------------------------------------


def free(*coordinates: torch.Tensor) -> torch.Tensor:
    """Any smooth function."""
    return torch.cos(sum((k + 1.3) * c + 0.4 for k, c in enumerate(coordinates))) + coordinates[0] ** 3


def free_slope(first: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
    """d free / d last: the first enters with 1.3, the last with 2.3."""
    return -2.3 * torch.sin(1.3 * first + 2.3 * last + 0.8)


@every_equation
@pytest.mark.parametrize("form", ["transform", "connect"])
def test_hard_forms_meet_the_conditions(name: str, form: str):
    """Whatever network or free function goes in, all conditions hold on whole faces, velocities too."""
    problem = PROBLEMS[name]
    for condition in problem.conditions:
        points = torch.tensor(condition.between, requires_grad=True)
        columns = [points[:, k : k + 1] for k in range(problem.dimension)]
        if form == "transform":
            u = hard_forms.transform(name, columns, free(*columns), torch)
        else:
            u = hard_forms.connect(name, free, free_slope, torch)(*columns)
        found = derive(u, points, condition.derivative)[:, 0].detach().numpy()
        assert found == pytest.approx(condition.values(condition.between), abs=1e-12)


@every_equation
def test_hard_forms_leave_the_inside_free(name: str):
    """Two free functions give two fields inside: the formulas restrict the boundary only."""
    problem = PROBLEMS[name]
    columns = [torch.from_numpy(problem.interior[:, k : k + 1]) for k in range(problem.dimension)]
    first = hard_forms.transform(name, columns, free(*columns), torch)
    second = hard_forms.transform(name, columns, 2 * free(*columns), torch)
    assert float((first - second).abs().max()) > 1e-3
    bent = hard_forms.connect(name, lambda *c: free(*c) ** 2, lambda a, b: 2 * free(a, b) * free_slope(a, b), torch)
    assert float((hard_forms.connect(name, free, free_slope, torch)(*columns) - bent(*columns)).abs().max()) > 1e-3


@every_equation
def test_siren_loss_vanishes_at_the_solution(name: str):
    """The soft loss is zero for the exact solution and 10 d^2 too large on values if it is moved by d."""
    names, u, _, _ = SYMBOLS[name]
    functions = {"sin": torch.sin, "cos": torch.cos, "exp": torch.exp}
    exact = sp.lambdify(names, u.evalf(20), [functions, "math"])
    net = torch.nn.Module()
    net.forward = lambda p: exact(*(p[:, k : k + 1] for k in range(len(names))))  # type: ignore[method-assign]
    assert float(siren_peer.build_loss(PROBLEMS[name], net)().detach()) < 1e-20
    net.forward = lambda p: exact(*(p[:, k : k + 1] for k in range(len(names)))) + 0.1  # type: ignore[method-assign]
    values = sum(not any(c.derivative) for c in PROBLEMS[name].conditions)
    share = PROBLEMS[name].operator.get((0,) * len(names), 0.0) * 0.1 / PROBLEMS[name].size
    moved = float(siren_peer.build_loss(PROBLEMS[name], net)().detach())
    assert moved == pytest.approx(10 * 0.01 * values + share**2, rel=1e-6)


@pytest.mark.parametrize("method", ["scipy-thin-plate", "scipy-gaussian"])
def test_scipy_meets_the_values(method: str):
    """An interpolant: values at the points to rounding of its system, and Franke's function to a percent."""
    asked = type("Asked", (), {"method": method, "seed": 0})
    measured = measure(PROBLEMS["scattered"], scipy_peer.solve(PROBLEMS["scattered"], asked))
    assert measured["conditions"] < 1e-5
    assert measured["error"] < 1e-2
    assert measured["equation"] is None and measured["conditions_between"] is None


# -- measuring ------------------------------------------------------------------------------------------------------


@every_equation
def test_measuring_the_exact_solution(name: str):
    """The exact solution has no error and no residual."""
    measured = measure(PROBLEMS[name], Solved(exactly(name), PROBLEMS[name].interior, (1.0, 1.0), ""))
    assert max(measured.values()) < 1e-12


def test_measuring_a_wrong_solution():
    """Helmholtz, the solution plus 0.01: conditions are missed by 0.01, the equation by k^2 0.01 / k^2, error 0.02.

    The mean square of sin sin is 1/4 on the square, on the 101 x 101 grid 1/4 (100/101)^2.
    """
    problem, exact = PROBLEMS["helmholtz"], exactly("helmholtz")

    def moved(points: np.ndarray, index: tuple[int, ...]) -> np.ndarray:
        return exact(points, index) + (0.0 if any(index) else 0.01)

    measured = measure(problem, Solved(moved, problem.interior[:5], (1.0, 1.0), ""))
    assert measured["error"] == pytest.approx(0.01 / (0.5 * 100 / 101), rel=1e-6)
    for where in ("conditions", "conditions_between", "equation", "equation_between"):
        assert measured[where] == pytest.approx(0.01, rel=1e-9)


def test_measuring_looks_at_the_velocity():
    """The wave plus 0.01 t x (1 - x): every value that is asked for stays, its velocity is wrong by 0.01 / 4."""
    problem, exact = PROBLEMS["wave"], exactly("wave")

    def moved(points: np.ndarray, index: tuple[int, ...]) -> np.ndarray:
        extra = {(0, 0): points[:, 1] * points[:, 0] * (1 - points[:, 0]), (0, 1): points[:, 0] * (1 - points[:, 0])}
        return exact(points, index) + 0.01 * extra.get(index, 0.0)

    measured = measure(problem, Solved(moved, problem.interior, (1.0, 1.0), ""))
    assert measured["conditions"] == pytest.approx(0.01 / 4, rel=1e-6)


# -- the scripts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.py")), ids=lambda p: p.name)
def test_scripts_do_not_need_cnf(path: Path):
    """They run in environments without cnf, so only the script for cnf itself may import it."""
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {a.name.split(".")[0] for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").split(".")[0])
    assert ("cnf" in imported) == path.name.endswith("cnf_peer.py")


@pytest.mark.parametrize(
    ("chosen", "script", "table", "method"),
    [
        ("linear", "deepxde_peer", "RECIPES", "deepxde"),
        ("linear", "tfc_peer", "DEGREES", "tfc"),
        ("nonlinear", "nonlinear_deepxde_peer", "RECIPES", "deepxde"),
        ("nonlinear", "nonlinear_tfc_peer", "DEGREES", "tfc"),
        ("nonlinear", "nonlinear_fastlsq_peer", "OWN", "fastlsq"),
    ],
)
def test_every_problem_is_solved_or_excused(chosen: str, script: str, table: str, method: str):
    """A peer has a setting for exactly the problems of a set that are not said to be out of its reach."""
    selection, tree = peers.SETS[chosen], ast.parse((SCRIPTS / f"{script}.py").read_text())
    (found,) = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == table and isinstance(node.value, ast.Dict)
    ]
    names = {ast.literal_eval(k) for k in found.keys if k is not None}
    assert names == {p for p in selection.problems if (method, p) not in selection.excuses}


def test_excuses_name_methods_and_problems():
    assert all(method in METHODS and problem in PROBLEMS for method, problem in DOES_NOT_APPLY)
    assert {m for m, _ in DOES_NOT_APPLY}.isdisjoint({"cnf", "siren"})


# -- running and the table ------------------------------------------------------------------------------------------

RESULT = {
    "method": "tfc",
    "problem": "wave",
    "seed": 0,
    "threads": 1,
    "budget": "fair",
    "error": 2.5e-12,
    "max_error": 3.5e-12,
    "conditions": 0.0,
    "conditions_between": 0.0,
    "equation": 4e-11,
    "equation_between": None,
    "seconds": 15.25,
    "processor_seconds": 7.5,
    "setting": "degree | 48",
}


@pytest.fixture
def environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A folder of environments; `install(name, script)` puts a shell script in the place of its Python."""
    folder = tmp_path / "environments"
    monkeypatch.setattr(peers, "ENVIRONMENTS", folder)

    def install(name: str, script: str) -> None:
        python = folder / name / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(python.stat().st_mode | stat.S_IXUSR)
        (folder / name / ".installed").touch()

    return install


def run_wave(timeout: float = 60) -> peers.Row:
    return peers.run_method("tfc", "wave", threads=3, seed=5, budget="quick", timeout=timeout)


def test_a_peer_that_is_missing_is_a_row(environments):
    assert run_wave().note == "not installed: make bench-peers"
    assert run_wave().error is None


def test_a_peer_that_cannot_is_a_row_with_the_reason(environments):
    row = peers.run_method("scipy-gaussian", "wave", 1, 0, "fair", 1)
    assert row.note == "does not apply: RBFInterpolator takes values only, no derivatives"


def test_a_peer_that_fails_shows_its_last_line(environments):
    environments("tfc", "echo first >&2; echo 'ValueError: no such degree' >&2; echo >&2; exit 3")
    assert run_wave().note == "failed: ValueError: no such degree"


def test_a_peer_without_result_or_words(environments):
    environments("tfc", "echo nothing to see")
    assert run_wave().note == "failed: no result in its output, which ends 'nothing to see'"
    assert peers.read_result("wave", "tfc", 3, "", "").note == "failed: exit code 3"
    assert peers.read_result("wave", "tfc", -9, "", "some advice\n").note == "failed: ended by signal 9"


def test_a_peer_that_takes_too_long_is_stopped(environments):
    environments("tfc", "exec sleep 60")
    assert run_wave(timeout=0.3).note == "stopped after 0.3 s"


def test_threads_and_settings_reach_the_peer(environments):
    """The arguments come as one line, the threads in the variables that the libraries read."""
    result = json.dumps({**RESULT, "setting": "SETTING"}).replace("SETTING", "$OMP_NUM_THREADS $MKL_NUM_THREADS $*")
    environments("tfc", "cat <<END\nchatter\n" + result + "\nEND")
    row = run_wave()
    wanted = "-m benchmarks.peer_scripts.tfc_peer wave --method tfc --threads 3 --seed 5 --budget quick"
    assert row.note == f"3 3 {wanted}"
    assert (row.error, row.seconds) == (2.5e-12, 15.25)


def test_tables(environments, tmp_path: Path):
    """Numbers in columns, zeros as 0, missing ones as a dash, and a bar in a setting does not break the markdown."""
    rows = [
        peers.read_result("wave", "tfc", 0, json.dumps(RESULT), ""),
        peers.Row("wave", "scipy-gaussian", note="does not apply: values only"),
    ]
    header, _, first, second = peers.make_table(rows).text().splitlines()
    assert header.split()[:3] == ["problem", "method", "error"]
    assert first.split()[:10] == ["wave", "tfc", "2.5e-12", "3.5e-12", "0", "0", "4.0e-11", "-", "15.2", "7.5"]
    assert second.split()[2:10] == ["-"] * 8 and second.endswith("does not apply: values only")
    lines = peers.make_table(rows).markdown().splitlines()
    assert len({line.replace(r"\|", "").count("|") for line in lines}) == 1
    assert r"degree \| 48" in lines[2]
    peers.save_tables(rows, tmp_path)
    read = list(csv.DictReader((tmp_path / "peers.csv").read_text().splitlines()))
    assert float(read[0]["error"]) == 2.5e-12 and read[1]["error"] == ""
    assert read[0]["note"] == "degree | 48"


def test_the_whole_run(environments, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """One peer that works, one that is missing: a table, three files, no crash."""
    environments("tfc", "cat <<'END'\n" + json.dumps(RESULT) + "\nEND")
    out = tmp_path / "out"
    rows = peers.main(["--problems", "wave", "--methods", "tfc", "deepxde", "--threads", "1", "--out", str(out)])
    assert [r.note for r in rows] == ["degree | 48", "not installed: make bench-peers"]
    assert sorted(p.name for p in out.iterdir()) == ["peers.csv", "peers.md", "peers.png"]
    assert (out / "peers.png").read_bytes().startswith(b"\x89PNG")
    assert "not installed: make bench-peers" in capsys.readouterr().out


def test_every_method_and_problem_has_a_mark_and_a_colour():
    assert peers.SETS["linear"].methods == METHODS
    for selection in peers.SETS.values():
        assert len(selection.methods) <= len(set(peers.MARKERS)) == len(peers.MARKERS)
        assert len(selection.problems) <= len(set(peers.COLOURS)) == len(peers.COLOURS)
        assert "cnf" in selection.methods and not any(method == "cnf" for method, _ in selection.excuses)


def test_names_of_another_set_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """What the set does not have is an error that says what it has, before anything runs."""
    with pytest.raises(SystemExit):
        peers.main(["--set", "nonlinear", "--problems", "wave", "--out", str(tmp_path)])
    assert "the nonlinear set has no problems wave; it has nl-poisson" in capsys.readouterr().err
