"""What is shown of a solve: Newton's iteration, values passed through, windows of time and what each brings."""

from __future__ import annotations

import itertools
import json
import math
import warnings
from pathlib import Path

import pytest

import cnf
from cnf.cli.main import run
from cnf.pde.problems.answer import Answer
from cnf.pde.report.check import check_text
from cnf.pde.report.folder import certificate_text, summary_text, write_answer
from cnf.pde.report.table import answer_table
from cnf.telling import during, listening, tell

LOGISTIC = r"""title = "Growth"
coordinates = "t"
[domain]
type = "box"
lower = [0]
upper = [8]
[[equations]]
on = "interior"
equation = "u' = u - u^2"
[[equations]]
on = "t = 0"
equation = 'u = 0.1'
[exact]
u = '\frac{1}{1 + 9 e^{-t}}'
[solve]
target = 1e-9
"""


def heat(**options: object) -> cnf.Problem:
    return cnf.Problem(
        "x t",
        domain={"type": "box", "lower": [0], "upper": [1], "time": [0, 0.5]},
        equations={"interior": "u_t = u_{xx}", "t = 0": r"u = \sin(\pi x)", "boundary": "u = 0"},
        exact={"u": r"e^{-\pi^2 t} \sin(\pi x)"},
        **options,
    )


@pytest.fixture(scope="module")
def growth(tmp_path_factory: pytest.TempPathFactory) -> Answer:
    path = tmp_path_factory.mktemp("growth") / "growth.toml"
    path.write_text(LOGISTIC)
    return cnf.Problem.read(path).solve()


def is_whole(answer: Answer) -> None:
    """Windows follow one another, their shares add up, the squares of their estimates to that of the whole."""
    course, domain = answer.course, answer.problem.domain
    assert course is not None
    first, last = domain.lower[-1], domain.upper[-1]
    windows = course.windows
    assert windows[0].start == first and windows[-1].end == last
    assert all(a.end == b.start for a, b in itertools.pairwise(windows))
    assert math.fsum(w.share for w in windows) == pytest.approx(1)
    squares = math.fsum(w.estimate**2 * (w.end - w.start) / (last - first) for w in windows)
    assert math.sqrt(squares) == pytest.approx(answer.estimate, rel=0.3)  # windows have the probes that fall there
    assert list(course.moments) == sorted(course.moments) and first < course.moments[0] < course.moments[-1] < last


def test_a_linear_problem_in_time_says_where_its_error_is():
    """Heat on patches, whose field decays: slabs with their cells; every error within three times its estimate."""
    answer = heat(solve={"method": "patches", "target": 1e-7}).solve()
    is_whole(answer)
    course = answer.course
    assert course is not None and not course.followed and all(w.steps is None for w in course.windows)
    assert sum(w.cells or 0 for w in course.windows) == answer.mesh.patches.count  # type: ignore[union-attr]
    assert all(w.error <= 3 * w.estimate for w in course.windows if w.error > 1e-14)
    assert answer.convergence is None and "newton" not in answer_table(answer)


def test_waves_in_time_say_so_too():
    """The same by waves over the whole domain: even windows without cells, the error found in each."""
    answer = heat(solve={"method": "waves"}, points=150).solve()
    is_whole(answer)
    course = answer.course
    assert course is not None and len(course.windows) == 8 and course.windows[0].cells is None
    assert all(math.isfinite(w.error) and math.isfinite(w.between) for w in course.windows)


def test_a_steady_problem_has_no_windows():
    equations = {"interior": "u'' = 1", "boundary": "u = 0"}
    answer = cnf.Problem("x", domain={"type": "interval", "from": 0, "to": 1}, equations=equations, points=20).solve()
    assert answer.course is None and json.loads(summary_text(answer))["course"] is None


def test_windows_that_are_followed_say_what_they_took(growth: Answer):
    """u' = u - u^2 from 0.1 is known: windows with Newton's steps, and errors within three times their estimates."""
    is_whole(growth)
    course = growth.course
    assert course is not None and course.followed and course.coordinate == "t"
    assert all((w.steps or 0) >= 1 and w.between < 1e-6 for w in course.windows)
    assert all(w.error <= 3 * w.estimate for w in course.windows if w.error > 1e-13)


def test_the_files_of_an_answer_say_what_newton_did(growth: Answer, tmp_path: Path):
    """Terminal, certificate.txt, summary.json and the page have the steps, the start, the verdict and the windows."""
    shown, steps = answer_table(growth), growth.convergence.steps  # type: ignore[union-attr]
    assert "newton" in shown and "followed in" in shown and "locally unique" in shown
    write_answer(growth, tmp_path / "out")
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["newton"]["steps"] == steps and summary["newton"]["stopped"] == ""
    assert len(summary["course"]["windows"]) == len(growth.course.windows)  # type: ignore[union-attr]
    assert summary["course"]["windows"][0].keys() >= {"start", "end", "cells", "steps", "between", "estimate", "share"}
    assert "followed in" in (tmp_path / "out" / "certificate.txt").read_text()
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Newton’s iteration" in page and "Over time" in page and "of the whole" in page
    assert (tmp_path / "out" / "course.png").is_file() and "The error as time goes on" in page


BRATU = {"interior": "u_{xx} + a e^u = 0", "boundary": "u = 0"}


def bratu(**ways: object) -> cnf.Problem:
    domain = {"type": "box", "lower": [0], "upper": [1]}
    solve = {"method": "patches", "target": 1e-6} | ways
    return cnf.Problem("x", domain=domain, parameters={"a": 1.0}, equations=BRATU, solve=solve)


def test_values_of_a_continuation_are_listed():
    """a = 3, 2 and then 1, in order, each with what it took; in the table, the files and the check."""
    problem = bratu(continuation={"a": [3.0, 2.0]})
    assert "a = 3; a = 2; a = 1" in check_text(problem.check())
    told: list[str] = []
    with listening(told.append):
        answer = problem.solve()
    assert [passed.values for passed in answer.passed] == [{"a": 3.0}, {"a": 2.0}, {"a": 1.0}]
    assert all(passed.found and passed.steps > 0 for passed in answer.passed)
    assert answer.seconds >= sum(passed.seconds for passed in answer.passed) > 0
    assert answer.convergence.start == "the field for a = 2"  # type: ignore[union-attr]
    assert any(text.startswith("value 2: a = 2, Newton step 1: ") for text in told)
    assert [row["values"] for row in json.loads(summary_text(answer))["continuation"]] == [
        {"a": 3.0},
        {"a": 2.0},
        {"a": 1.0},
    ]
    assert "continuation" in certificate_text(answer) and "a = 3: " in answer_table(answer)


def test_an_interrupted_continuation_ends():
    """Ctrl-C in the first of three values: the field that there is answers another question and is not taken."""

    def interrupt(trial: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bratu(continuation={"a": [3.0, 2.0]}).solve(report=interrupt)


def test_what_did_not_converge_has_no_estimate():
    """u'' + u^2 = -1000 between zeros has no solution: that two fields stop alike says nothing."""
    domain = {"type": "interval", "from": 0, "to": 1}
    equations = {"interior": "u'' + u^2 = -1000", "boundary": "u = 0"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = cnf.Problem("x", domain=domain, equations=equations, points=20, solve={"method": "waves"}).solve()
    assert answer.convergence is not None and answer.convergence.stopped
    assert answer.estimate == math.inf and not answer.resolved and answer.off_target


def test_ctrl_c_in_a_window_keeps_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """In the second window: exit code 130, one line that says where it was, and the folder as it was before."""
    import cnf.pde.patches.pursuit as pursuit

    file, out = tmp_path / "growth.toml", tmp_path / "out"
    file.write_text(LOGISTIC)
    out.mkdir()
    (out / "earlier.txt").write_text("kept")
    begun: list[object] = []
    solve = pursuit.solve_window

    def interrupted(*given: object) -> object:
        begun.append(given)
        if len(begun) > 1:
            raise KeyboardInterrupt
        return solve(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(pursuit, "solve_window", interrupted)
    assert run(["solve", str(file), "--out", str(out)]) == 130
    shown = capsys.readouterr()
    assert "interrupted before there was an answer (t from 1 to 3 of 8" in shown.out and shown.err == "interrupted\n"
    assert [path.name for path in out.iterdir()] == ["earlier.txt"]


def test_a_check_says_how_a_nonlinear_problem_will_be_solved():
    """Which equation is nonlinear, where the iteration begins, that it goes along t, and where data do not agree."""
    equations = {"interior": "u_t = u_{xx} - u^3", "t = 0": "u = 1", "boundary": "u = 0"}
    domain = {"type": "box", "lower": [0], "upper": [1], "time": [0, 2]}
    found = cnf.Problem("x t", domain=domain, equations=equations).check()
    text = check_text(found)
    assert [reading.nonlinear for reading in found.readings] == [True, False, False]
    assert "interior (nonlinear)" in text and "begins at zero" in text and "windows of t, from 0 to 2" in text
    assert "do not agree: at x = 0, t = 0, 't = 0' gives u = 1 and 'boundary' 0" in text and not found.hints
    started = bratu(start="16 x (1 - x)").check()
    assert any("begins at the start of the file" in note for note in started.notes)


def test_a_check_says_nothing_of_linear_problems_that_agree():
    """sin(pi x) is 1e-16 at x = 1 and no contradiction to 0."""
    assert heat().check().notes == ()


def test_whoever_listens_is_told():
    """Words of what is around come first; nobody listens outside."""
    told: list[str] = []
    tell("nobody hears this")
    with listening(told.append), during("window 2"), during("a = 3"):
        tell("step 1")
    tell("nor this")
    assert told == ["window 2", "window 2, a = 3", "window 2, a = 3, step 1"]
