"""`cnf new`, `cnf check` and `cnf solve`: the files they write, their exit codes, and one line for everything wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

import cnf
from cnf.cli.main import run
from cnf.pde import commands as problems
from cnf.pde.problems.templates import TEMPLATES

LINE = r"""title = "Sine"
coordinates = "x"
[domain]
type = "interval"
from = 0
to = 1
[[equations]]
on = "interior"
equation = '-u_{xx} = \pi^2 \sin(\pi x)'
[[equations]]
on = "boundary"
equation = 'u = 0'
[points]
count = 20
[exact]
u = '\sin(\pi x)'
"""


@pytest.fixture
def line(tmp_path: Path) -> Path:
    path = tmp_path / "line.toml"
    path.write_text(LINE)
    return path


def refused(arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on stderr."""
    assert run(arguments) == code
    shown = capsys.readouterr().err
    assert shown.startswith("error: ") and shown.count("\n") == 1 and "Traceback" not in shown
    return shown


# -- new ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_new_then_check(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Every template is a file that checks as it is."""
    monkeypatch.chdir(tmp_path)
    assert run(["new", name]) == 0
    assert f"{name}.toml written" in capsys.readouterr().out
    assert run(["check", f"{name}.toml"]) == 0
    shown = capsys.readouterr()
    assert "conditions in all" in shown.out and shown.err == ""
    assert all(equation.name in shown.out for equation in cnf.Problem.read(f"{name}.toml").equations)


def test_new_lists_its_examples(capsys: pytest.CaptureFixture[str]):
    assert run(["new"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in TEMPLATES)


def test_new_does_not_overwrite(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The old content stays, unless --force is given."""
    path = tmp_path / "mine.toml"
    path.write_text("my work")
    assert "exists already" in refused(["new", "ode", str(path)], 1, capsys)
    assert path.read_text() == "my work"
    assert run(["new", "ode", str(path), "--force"]) == 0
    assert "Forced oscillator" in path.read_text()


def test_new_says_which_folder_it_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A folder is made if it is not there, as it is for results, but not in silence."""
    assert run(["new", "ode", str(tmp_path / "new" / "a.toml")]) == 0
    assert f"in the folder {tmp_path / 'new'}, which was made" in capsys.readouterr().out
    assert run(["new", "ode", str(tmp_path / "new" / "b.toml")]) == 0
    assert "was made" not in capsys.readouterr().out


def test_new_of_an_unknown_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert "Did you mean 'poisson'?" in refused(["new", "poison", str(tmp_path / "a.toml")], 1, capsys)
    assert not (tmp_path / "a.toml").exists()


def test_new_where_nothing_can_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert "cannot write" in refused(["new", "ode", "/proc/nowhere/a.toml"], 1, capsys)
    refused(["new", "ode", str(tmp_path)], 1, capsys)


# -- check -------------------------------------------------------------------------------------------------------------


def test_check_shows_hints(line: Path, capsys: pytest.CaptureFixture[str]):
    line.write_text(LINE.replace('on = "boundary"', 'on = "x = 0"'))
    assert run(["check", str(line)]) == 0
    assert "hint: the equation for u is of order 2, which takes 2 conditions" in capsys.readouterr().out


def test_check_of_a_good_file(line: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["check", str(line)]) == 0
    text = capsys.readouterr().out
    assert "Sine" in text and "22 conditions in all" in text and "hint" not in text
    assert r"-\partial_{x}^{2} u" in text.replace(" ", "").replace(r"-\partial_{x}^{2}u", r"-\partial_{x}^{2} u")


@pytest.mark.parametrize("command", ["check", "solve"])
@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("title", "tilte", ("line 1", "'title'")),
        ("from = 0", "from = 2", ("line 3",)),
        ("count = 20", "count = -1", ("line 14", "whole number")),
        ('on = "boundary"', 'on = "boundry"', ("line 11", "'boundary'")),
        ('coordinates = "x"\n', "", ("'coordinates' is missing",)),
        ("to = 1", "to = = 1", ("line 6",)),
        ("'-u_{xx}", '"-\\Delta', ("single quotes",)),
    ],
)
def test_mistakes_are_one_line(
    command: str, old: str, new: str, parts: tuple[str, ...], line: Path, capsys: pytest.CaptureFixture[str]
):
    assert LINE.count(old) >= 1
    line.write_text(LINE.replace(old, new, 1))
    shown = refused([command, str(line)], 1, capsys)
    assert str(line) in shown
    assert all(part in shown for part in parts), shown


@pytest.mark.parametrize("command", ["check", "solve"])
def test_mistake_in_latex_has_its_caret(command: str, line: Path, capsys: pytest.CaptureFixture[str]):
    """Three lines: the message with the line of the file, the equation, the caret."""
    line.write_text(LINE.replace("'u = 0'", "'u = \\gamm'"))
    assert run([command, str(line)]) == 1
    message, source, mark = capsys.readouterr().err.splitlines()
    assert message.startswith(f"error: {line}, line 12: ")
    assert mark.index("^") == source.index(r"\gamm")


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("u = 0'", r"u = \nu'", "Did you mean 'mu'? Give it in [parameters]: nu = ..."),
        ("u = 0'", r"u = \eta'", "channels u. Give it in [parameters]: eta = ..."),
    ],
)
def test_advice_for_equations_suits_the_file(
    old: str, new: str, part: str, line: Path, capsys: pytest.CaptureFixture[str]
):
    """mu is given and nothing uses it: it may be meant; u and x are too short to stand for a Greek letter."""
    line.write_text(LINE.replace(old, new, 1) + "[parameters]\nmu = 0.3\n")
    assert run(["check", str(line)]) == 1
    assert part in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "solve"])
def test_files_that_are_none(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert "there is no file" in refused([command, str(tmp_path / "no.toml")], 1, capsys)
    refused([command, str(tmp_path)], 1, capsys)
    (tmp_path / "binary.toml").write_bytes(bytes(range(256)))
    assert "UTF-8" in refused([command, str(tmp_path / "binary.toml")], 1, capsys)
    (tmp_path / "empty.toml").write_text("")
    assert "missing" in refused([command, str(tmp_path / "empty.toml")], 1, capsys)
    refused([command], 2, capsys)


# -- solve -------------------------------------------------------------------------------------------------------------


def test_solve_shows_the_answer(line: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["solve", str(line)]) == 0
    shown = capsys.readouterr()
    assert "every condition holds" in shown.out and "relative L2" in shown.out and "--out" in shown.out
    assert shown.err == ""


def test_solve_writes_everything(line: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Every file that is announced is there and not empty; the solution loads and has the same values, bit for bit."""
    out = tmp_path / "a" / "b"
    assert run(["solve", str(line), "--out", str(out)]) == 0
    text = capsys.readouterr().out.replace("\n", " ")
    names = {path.name for path in out.iterdir()}
    wanted = {"solution.pt", "certificate.txt", "summary.json", "solution.csv", "solution.npz", "report.html"}
    assert wanted | {"field.png", "tuning.png"} <= names
    assert all(name in text for name in names)
    assert all(path.stat().st_size > 0 for path in out.iterdir())
    x = torch.linspace(0, 1, 50, dtype=torch.float64)[:, None]
    loaded = cnf.load(out / "solution.pt")
    assert torch.equal(loaded.eval()(x), cnf.Problem.read(line).solve()(x))
    assert float((loaded(x) - torch.sin(torch.pi * x)).abs().max()) <= 1e-8
    summary = json.loads((out / "summary.json").read_text())
    assert summary["exact"] is True and summary["conditions"] == 22
    assert "certificate: exact" in (out / "certificate.txt").read_text()


def test_solve_with_other_settings(line: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    arguments = ["--points", "12", "--basis", "rbf", "--objective", "leave-one-out", "--seed", "7"]
    assert run(["solve", str(line), *arguments, "--out", str(tmp_path / "out")]) == 0
    assert "14 conditions" in capsys.readouterr().out
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["conditions"] == 14 and summary["seed"] == 7
    assert summary["tuning"]["objective"] == "leave-one-out"


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["--points", "0"], 2, "--points"),
        (["--seed", "-1"], 2, "--seed"),
        (["--basis", "rbff"], 1, "'rbf'"),
        (["--objective", "best"], 1, "held-out"),
        (["--bogus"], 2, "--bogus"),
    ],
)
def test_bad_options(arguments: list[str], code: int, part: str, line: Path, capsys: pytest.CaptureFixture[str]):
    shown = refused(["solve", str(line), *arguments], code, capsys)
    assert part in shown


def test_option_for_an_entry_the_file_lacks_names_no_wrong_line(line: Path, capsys: pytest.CaptureFixture[str]):
    """The mistake is on the command line, not in the file: no line of the file is blamed."""
    assert ", line" not in refused(["solve", str(line), "--basis", "rbff"], 1, capsys)


def test_out_that_cannot_be_written_is_told_before_the_work(
    line: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def unexpected(*_: object) -> None:
        raise AssertionError("the work began")

    monkeypatch.setattr(problems, "run_problem", unexpected)
    assert "cannot write" in refused(["solve", str(line), "--out", "/proc/nowhere"], 1, capsys)
    (tmp_path / "taken").write_text("")
    assert "is a file" in refused(["solve", str(line), "--out", str(tmp_path / "taken")], 1, capsys)
    if os.geteuid() != 0:
        (tmp_path / "closed").mkdir(mode=0o500)
        assert "cannot write" in refused(["solve", str(line), "--out", str(tmp_path / "closed")], 1, capsys)


def test_contradiction_is_exit_code_one(line: Path, capsys: pytest.CaptureFixture[str]):
    """u = 0 and u = 1 at both ends: one line that names both, and the table is shown all the same."""
    both = '[[equations]]\nname = "one"\non = "boundary"\nequation = \'u = 1\'\n[points]'
    line.write_text(LINE.replace("[points]", both))
    assert run(["solve", str(line)]) == 1
    shown = capsys.readouterr()
    assert "NOT EXACT" in shown.out
    assert shown.err.startswith("error: ") and shown.err.count("\n") == 1
    assert "'boundary'" in shown.err and "'one'" in shown.err


def test_open_problem_is_refused_and_solved_when_asked(line: Path, capsys: pytest.CaptureFixture[str]):
    line.write_text(LINE.replace('on = "boundary"', 'on = "x = 0"'))
    assert "takes 2 conditions" in refused(["solve", str(line)], 1, capsys)
    assert run(["solve", str(line), "--minimum-norm"]) == 0


def test_interrupt_is_130(line: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Ctrl-C before any trial has ended."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cnf.pde.problems.planning.build_field", interrupted)
    assert run(["solve", str(line)]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_interrupted_tuning_still_answers(
    line: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Ctrl-C after two trials: exit code 130, the verdict says so, and the answer that was there is not replaced."""
    from cnf.reports.progress import Part

    told: list[object] = []

    def tell(self: Part, trial: object) -> None:
        told.append(trial)
        if len(told) == 2:
            raise KeyboardInterrupt

    out = line.parent / "out"
    assert run(["solve", str(line), "--out", str(out)]) == 0
    before = (out / "run.json").read_bytes()
    monkeypatch.setattr(Part, "tell", tell)
    assert run(["solve", str(line), "--out", str(out)]) == 130
    shown = capsys.readouterr()
    assert "tuning was interrupted" in shown.out and shown.err == "interrupted\n"
    assert (out / "run.json").read_bytes() == before and (out / "interrupted" / "solution.pt").exists()


def test_help_of_every_command(capsys: pytest.CaptureFixture[str]):
    for name in ("solve", "check", "new"):
        assert run([name, "--help"]) == 0
        assert f"Usage: cnf {name}" in capsys.readouterr().out


def test_sensors_come_with_their_data(tmp_path, monkeypatch, capsys):
    """The example of measurements runs as written: u = 20 + 5x - 3(x^2 - y^2) at 25 points, to twelve digits."""
    monkeypatch.chdir(tmp_path)
    assert run(["new", "sensors"]) == 0
    assert (tmp_path / "sensors.csv").exists()
    assert run(["solve", "sensors.toml", "--points", "100"]) == 0
    assert "every condition holds" in capsys.readouterr().out
    (tmp_path / "sensors.csv").write_text("x,y,d\n0,0,1\n")
    assert run(["new", "sensors", "--force"]) == 0
    assert (tmp_path / "sensors.csv").read_text() == "x,y,d\n0,0,1\n"  # the user's data stay
