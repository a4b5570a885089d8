"""The command line: help, one line per error, exit codes, and the files it promises."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer import Typer

import cnf
from cnf.cli import gathering
from cnf.cli.main import run, run_app

COMMANDS = ("demo", "advection", "light-path", "read", "version")


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], []):
        assert run(list(arguments)) == 0
        text = capsys.readouterr().out
        assert all(name in text for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    assert "Usage: cnf " + name in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--version"], ["version"]):
        assert run(list(arguments)) == 0
        assert capsys.readouterr().out == f"cnf {cnf.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["advection", "--perturbation", "-1"], 1, "at least 0"),
        (["advection", "--perturbation", "nan"], 1, "finite"),
        (["advection", "--perturbation", "much"], 2, "--perturbation"),
        (["advection", "--method", "rbff"], 1, "Did you mean 'rbf'?"),
        (["advection", "--seeds", "0"], 2, "--seeds"),
        (["light-path", "--steps", "0"], 2, "--steps"),
        (["light-path", "--out", "/proc/nowhere"], 1, "cannot write"),
        (["read", "u", "--set", "beta"], 1, "NAME=NUMBER"),
        (["read", "u", "--set", "beta=inf"], 1, "NAME=NUMBER"),
        (["read", "u", "--coordinates", ""], 1, "coordinate"),
        (["read"], 2, "latex"),
        (["nonsense"], 2, "nonsense"),
        (["demo", "--foo"], 2, "No such option: --foo (cnf demo --help"),
        (["demo", "--ouut"], 2, "--ouut (Possible options: --out)"),
        (["study", "advection", "--help"], 2, "python -m studies NAME"),
    ],
)
def test_bad_input_is_one_line_on_stderr(
    arguments: list[str], code: int, part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert shown.err.count("\n") == 1
    assert part.lower() in shown.err.lower()


def test_out_that_is_a_file_is_refused_before_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").write_text("")
    assert run(["demo", "--out", str(tmp_path / "taken")]) == 1
    assert "is a file" in capsys.readouterr().err


def test_the_demo_says_at_once_what_comes_and_how_long_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Interrupted before its first problem is solved, it has said so already, and leaves no folder."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cnf.demo.running.run_advection", interrupted)
    assert run(["demo", "--out", str(tmp_path / "out")]) == 130
    first, second = (line for line in capsys.readouterr().out.splitlines() if " about " in line)
    assert first.startswith("5 parts, about 70 s in all") and second.startswith("1 of 5, about 30 s: Advection")
    assert not (tmp_path / "out").exists()


def test_read_shows_the_normal_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["read", r"u_t + \beta u_x = \sin(x)", "--set", "beta=0.5"]) == 0
    text = capsys.readouterr().out
    assert r"\partial_{t} u + 0.5 \partial_{x} u = \sin{\left(x \right)}" in text
    assert "order     1, 1 row per point, 2 terms" in text


def test_the_example_in_the_help_of_read_works(capsys: pytest.CaptureFixture[str]) -> None:
    """Cut out of the help as anyone would, line breaks included."""
    assert run(["read", "--help"]) == 0
    found = re.search(r"such as '([^']+)'", capsys.readouterr().out)
    assert found is not None
    assert run(["read", found[1]]) == 0


def test_read_says_how_to_give_a_coefficient(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["read", r"u_t + \beta u_x = 0"]) == 1
    assert "--set beta=" in capsys.readouterr().err


def test_read_shows_the_rows_of_a_vector(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["read", r"\nabla u", "--coordinates", "x y"]) == 0
    text = capsys.readouterr().out
    assert "row 1" in text
    assert "row 2" in text


def test_read_points_at_the_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["read", r"\partial_t u + \gamm u"]) == 1
    message, source, mark = capsys.readouterr().err.splitlines()
    assert message.startswith("error: ")
    assert mark.index("^") == source.index(r"\gamm")


def test_light_path_writes_its_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["light-path", "--steps", "5", "--out", str(tmp_path)]) == 0
    assert "travel time" in capsys.readouterr().out
    for name in ("light_path.png", "light_path_learning.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_interrupt_is_130_without_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(gathering, "say", interrupted)
    assert run(["version"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_sigterm_is_143_without_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(gathering, "say", lambda _: signal.raise_signal(signal.SIGTERM))
    assert run(["version"]) == 143
    assert capsys.readouterr().err == "terminated\n"
    assert signal.getsignal(signal.SIGTERM) is before


SIGNALLED = """
import signal, sys
module, number = sys.argv[1:]
class Finder:
    def find_spec(self, name, *_):
        if name == module:
            signal.raise_signal(int(number))
sys.meta_path.insert(0, Finder())
sys.argv = ["cnf", "read", "u"]
from cnf_command import main
main()
"""


@pytest.mark.parametrize(("number", "word"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")])
@pytest.mark.parametrize("module", ["cnf", "numpy", "torch"])
def test_signals_while_python_imports_are_one_line(module: str, number: int, word: str) -> None:
    """Ctrl-C while the package is still being loaded, or what a command needs."""
    done = subprocess.run(
        [sys.executable, "-c", SIGNALLED, module, str(int(number))], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr, done.stdout) == (128 + number, f"{word}\n", "")


def test_interrupt_while_the_commands_are_gathered(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> Typer:
        raise KeyboardInterrupt

    assert run_app("cnf", interrupted, ["version"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_missing_extra_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "typer", None)
    assert run(["version"]) == 1
    shown = capsys.readouterr().err
    assert "pip install typer rich" in shown and shown.count("\n") == 1


def test_missing_matplotlib_names_its_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from cnf.reports.plots import draw

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(cnf.errors.MissingExtraError, match="pip install matplotlib"):
        draw(tmp_path / "a.png", (1, 1), lambda figure: None)


def test_as_a_process() -> None:
    """The exit code and stderr as a shell sees them."""
    done = subprocess.run(
        [sys.executable, "-m", "cnf_command", "read", "u^"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
