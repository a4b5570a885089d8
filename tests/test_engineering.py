"""The engineering problems and their runner: references that solve what is asked, ladders, figures, files."""

from __future__ import annotations

import ast
import json
import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks import engineering, engineering_running
from benchmarks import engineering_tables as tables
from benchmarks.engineering_problems import EVERY, PROBLEMS, corners, elastic, flow, holes, layers, sources
from benchmarks.engineering_problems.problem import COUNT, relative_errors

SCRIPTS = Path(engineering.__file__).parent


def slopes(function, points: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray]:
    """Laplacian and gradient by central differences of fourth order, (P,) and (P, D)."""
    laplacian, gradient = 0.0, []
    for k in range(points.shape[1]):
        at = [function(points + s * step * np.eye(points.shape[1])[k])[:, 0] for s in (-2, -1, 0, 1, 2)]
        laplacian = laplacian + (-at[0] + 16 * at[1] - 30 * at[2] + 16 * at[3] - at[4]) / (12 * step**2)
        gradient.append((at[0] - 8 * at[1] + 8 * at[3] - at[4]) / (12 * step))
    return laplacian, np.stack(gradient, axis=1)


def interior(name: str, margin: float, count: int = 40) -> np.ndarray:
    """Points of a problem on the unit box that are away from its faces."""
    points = PROBLEMS[name].points
    return points[(points > margin).all(axis=1) & (points < 0.8 - margin).all(axis=1)][:count]


@pytest.mark.parametrize("name", list(EVERY))
def test_every_problem_keeps_the_contract(name: str):
    """Plain entries, as many points as all, finite values, no more compared channels than there are."""
    problem = EVERY[name]
    json.dumps(problem.entries)
    values = problem.reference(problem.points)
    assert problem.points.shape == (COUNT, len(str(problem.entries["coordinates"]).split()))
    assert values.shape[0] == COUNT and values.shape[1] <= len(problem.channels)
    assert np.isfinite(values).all() and relative_errors(values, values) == [0.0] * values.shape[1]


def test_references_by_least_squares_meet_the_boundary():
    """What they miss between the points of the fit: at most 1e-10 of fields of size one (the beam bends by 60)."""
    for fitted in (corners.torsion(False), corners.torsion(True), elastic.bent(), flow.stirred(), holes.drained()):
        assert fitted[1] < 1e-11


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("lshape", lambda u, lap, grad, x: -lap - 1),
        ("holes", lambda u, lap, grad, x: -lap - 1),
        ("cube", lambda u, lap, grad, x: -lap - 1),
        ("helmholtz", lambda u, lap, grad, x: -lap - 1600 * u - helmholtz_source(x)),
        ("balls", lambda u, lap, grad, x: -lap + 64 * u - (67 + np.pi**2) * u),
        ("layer-0.01", lambda u, lap, grad, x: -0.01 * lap + grad[:, 0] - layer_source(x)),
        ("moving", lambda u, lap, grad, x: None),
    ],
)
def test_references_solve_their_equations(name: str, left):
    """By finite differences of fourth order, inside: residuals of 1e-4 of what the terms are."""
    x = interior(name, 0.1)
    if name == "holes":
        x = x[np.min([np.hypot(x[:, 0] - c.real, x[:, 1] - c.imag) - r for c, r in holes.HOLES], axis=0) > 0.01]
    if name == "balls":
        x = x[np.min([np.linalg.norm(x - np.array(c), axis=1) - r for c, r in holes.BALLS], axis=0) > 0.01]
    reference = PROBLEMS[name].reference
    lap, grad = slopes(reference, x, 2e-3)
    residual = left(reference(x)[:, 0], lap, grad, x)
    if residual is None:  # u_t - 0.02 Laplace u, from the entries' own formula
        step, w2 = np.array([0, 0, 1e-3]), sources.MOVING**2
        rate = (reference(x + step) - reference(x - step))[:, 0] / 2e-3
        second = (reference(x + step) - 2 * reference(x) + reference(x - step))[:, 0] / 1e-6
        X, Y = x[:, 0] - 0.5 - 0.2 * np.cos(2 * np.pi * x[:, 2]), x[:, 1] - 0.5 - 0.2 * np.sin(2 * np.pi * x[:, 2])
        g = np.exp(-(X**2 + Y**2) / (2 * w2))
        turn = 0.4 * np.pi * (Y * np.cos(2 * np.pi * x[:, 2]) - X * np.sin(2 * np.pi * x[:, 2]))
        asked = g / w2 * (turn - sources.DIFFUSION * ((X**2 + Y**2) / w2 - 2))
        residual, lap = rate - sources.DIFFUSION * (lap - second) - asked, rate
    assert np.abs(residual).max() < 2e-4 * max(1.0, np.abs(lap).max())


def helmholtz_source(x: np.ndarray) -> np.ndarray:
    (a, b), w2 = sources.SOURCE, 2 * sources.SPOT**2
    return 1000 * np.exp(-((x[:, 0] - a) ** 2 + (x[:, 1] - b) ** 2) / w2)


def layer_source(x: np.ndarray) -> np.ndarray:
    return (1 + 0.04 * (x[:, 0] - np.exp((x[:, 0] - 1) / 0.01))) * np.cos(2 * x[:, 1])


def test_the_narrow_source_has_unit_mass():
    """The flux of u through a square around the source is -1, whatever its width."""
    (a, b), half = sources.PLACE, 0.05
    s, w = np.polynomial.legendre.leggauss(60)
    total = 0.0
    for k, sign in ((0, 1), (0, -1), (1, 1), (1, -1)):
        side = np.tile([a, b], (60, 1))
        side[:, k] += sign * half
        side[:, 1 - k] += half * s
        step = 1e-4 * np.eye(2)[k]
        slope = (sources.narrow_at(*(side + step).T) - sources.narrow_at(*(side - step).T)) / 2e-4
        total += sign * half * float(w @ slope)
    assert total == pytest.approx(-1, abs=1e-5)


def test_the_inclusion_passes_on_values_and_fluxes():
    """On both sides of the circle: u equal, k u_r equal, by one-sided differences."""
    angle, step = np.linspace(0, 6, 30), 1e-6
    u = [
        layers.inclusion(*(layers.CIRCLE + d) * np.array([np.cos(angle), np.sin(angle)]))
        for d in (-2 * step, -step, step, 2 * step)
    ]
    assert np.abs(u[1] - u[2]).max() < 1e-4
    inner, outer = layers.CONDUCTIVITY
    assert inner * (u[1] - u[0]) / step == pytest.approx(outer * (u[3] - u[2]) / step, abs=1e-3)


def test_scripts_of_others_do_not_need_cnf():
    """They run in environments without cnf."""
    for path in (*(SCRIPTS / "engineering_peers").glob("*.py"), *(SCRIPTS / "engineering_problems").glob("*.py")):
        imported = {
            name.split(".")[0]
            for node in ast.walk(ast.parse(path.read_text()))
            for name in (
                [a.name for a in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
        assert ("cnf" in imported) == (path.name == "cnf_peer.py"), path.name


# -- ladders and figures --------------------------------------------------------------------------------------------


def rung(seconds: float, error: float, **more: object) -> dict[str, object]:
    return {"processor_seconds": seconds, "error": error, "memory": 0.1, "unknowns": 10, **more}


def test_ladders_are_read_between_their_rungs():
    """A method of error = 1e-2 / s^2: 1e-4 takes 10 s, and 5 s give 4e-4; a failed rung counts for nothing."""
    ladder = [rung(s, 1e-2 / s**2) for s in (1.0, 4.0, 16.0)] + [{"note": "failed: memory"}]
    assert engineering_running.time_to(1e-4, ladder) == pytest.approx(10)
    assert engineering_running.time_to(1e-6, ladder) == math.inf
    assert engineering_running.error_at(5, ladder) == pytest.approx(4e-4)
    assert engineering_running.error_at(100, ladder) == pytest.approx(1e-2 / 256)  # nothing finer was measured
    assert engineering_running.error_at(0.5, ladder) == math.inf


def test_figures_count_what_is_reached():
    """Faster at 1e-6 only, closer in equal time, an estimate four times too small: the figures say so."""
    ours = {t: rung(2.0, e, problem="cube", estimate=e / 4, exact=True) for t, e in (("1e-4", 1e-5), ("1e-6", 1e-7))}
    line = tables.Line("cube", ours, [rung(s, 1e-4 / s**2) for s in (1.0, 4.0, 16.0)])
    assert not line.faster_at(1e-4) and line.faster_at(1e-6) and line.closer_at_equal_time
    figures = dict(tables.judge([line]))
    assert [reached for _, reached in tables.judge([line])] == [False, True, True, True, False, True]
    assert any("more than 3 times too small: 2" in text for text in figures)


def test_the_better_of_two_ways_is_compared_and_a_ladder_that_ends_says_so():
    """Graded meshes end at 6.3e-5 after 4 s, adaptive ones have 1e-5 in 2 s and end there: 1e-6 is never reached."""
    ours = {t: rung(3.0, 1e-7, problem="lshape", estimate=1e-7, exact=True) for t in ("1e-4", "1e-6")}
    graded, adaptive = [rung(s, 1e-3 / s**2) for s in (1.0, 4.0)], [rung(2.0, 1e-5)]
    line = tables.Line("lshape", ours, graded, adaptive=adaptive)
    assert line.theirs_at(1.5) == pytest.approx(1e-3 / 1.5**2) and line.theirs_at(3.0) == 1e-5
    assert not line.faster_at(1e-4) and line.faster_at(1e-6)
    assert tables.reached(line, 1e-4) == "2.00" and tables.reached(line, 1e-6) == "never: 1.0e-05 in 2.00"
    slow = {t: {**case, "processor_seconds": 30.0} for t, case in ours.items()}
    short = tables.Line("lshape", slow, graded, adaptive=adaptive)
    assert not short.faster_at(1e-6) and not short.closer_at_equal_time  # four seconds decide nothing about thirty
    assert "never: 1.0e-05" in tables.answers_table([line]).markdown() and tables.ladders_table([line]).rows


def test_a_ladder_goes_on_beyond_our_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Fine enough after 4 s; compared with 10 s of ours it needs the next rung as well."""
    monkeypatch.setattr(
        engineering.Runner, "_solve", lambda self, a, b, c, level: rung(2.0 ** int(level), 1e-5 / 16 ** int(level))
    )
    steps = [len(engineering.Runner(tmp_path, 1e9, True).climb("skfem", "cube", "quadratic", 8, 1, t)) for t in (0, 10)]
    assert steps == [2, 3]


def test_results_stand_between_their_marks():
    text = "a\n<!-- answers -->\nold\n<!-- end answers -->\nb\n"
    assert tables.with_sections(text, {"answers": "new\n"}) == text.replace("old", "new")
    with pytest.raises(ValueError, match="expected one <!-- figures -->"):
        tables.with_sections(text, {"figures": ""})
    for name in ("answers", "ladders", "deepxde", "fastlsq", "figures", "settings"):
        assert f"<!-- end {name} -->" in engineering.DOCS.read_text()


def test_fastlsq_is_beaten_by_error_and_time_together():
    """Smaller error in less time counts, either alone does not: one of three, and six of seven would be three."""
    theirs = rung(10.0, 1e-6, problem="maxwell")
    pairs = [(rung(s, e, problem="maxwell"), theirs) for s, e in ((5.0, 1e-7), (5.0, 1e-5), (20.0, 1e-7))]
    ((text, reached),) = tables.judge_smooth(pairs)
    assert "1 of 3 (asked 3)" in text and not reached
    assert tables.judge_smooth([]) == []
    assert "Maxwell" in tables.smooth_table(pairs).text()


@pytest.mark.slow
def test_the_runner_solves_keeps_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The cheapest problem without peers: an error below the target, files, and nothing run twice."""
    arguments = ["--only", "layer-0.01", "--peers", "", "--out", str(tmp_path)]
    engineering.main(arguments)
    kept = {p.name: json.loads(p.read_text()) for p in (tmp_path / "cases").iterdir()}
    assert set(kept) == {f"layer-0.01--cnf--patches--{t}.json" for t in ("1e-4", "1e-6", "1e-8")}
    for case in kept.values():
        assert case["error"] <= float(case["setting"]) and case["exact"] and case["memory"] > 0.05
    assert "boundary layer of 0.01" in (tmp_path / "engineering.md").read_text()
    assert (tmp_path / "engineering.csv").read_text().count("\n") == 4
    capsys.readouterr()
    engineering.main(arguments)
    shown = capsys.readouterr().out
    assert "cnf      patches" not in shown and "quadratic elements" not in shown  # kept, and nobody to compare with


def test_a_package_that_is_missing_or_fails_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(engineering_running, "ENVIRONMENTS", tmp_path / "none")
    assert engineering.Runner(tmp_path, 60, kept=True).run("cnf", "cube", "patches", "1e-4")["note"] == "not run"
    runner = engineering.Runner(tmp_path, 60)
    assert runner.run("skfem", "cube", "quadratic", "0")["note"] == "not installed: make bench-engineering"
    assert "could not convert" in runner.run("cnf", "cube", "patches", "many")["note"]
