"""Names that are imported when somebody asks: nothing large is loaded for help, or to answer a mistake in writing."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import cnf
from cnf.errors import ProblemError
from cnf.late import whole_imports
from cnf.operators.reader.expressions import FUNCTIONS
from cnf.operators.reader.vocabulary import FUNCTION_NAMES
from cnf.pde.domains.layouts import LAYOUTS
from cnf.pde.domains.tables import LAYOUT_NAMES
from cnf.pde.problems.first_look import look_over

FILE = r"""
coordinates = "x y"
[domain]
type = "box"
lower = [0, 0]
upper = [1, 1]
[[equations]]
on = "interior"
equation = '\Delta u = 1'
[[equations]]
on = "boundary"
equation = 'u = 0'
"""
PART = "no part 'bondary' of the domain; known are interior, boundary, x = ..., y = .... Did you mean 'boundary'?"
MISTAKES = {
    "toml": ("[domain]", "[domain", "line 3"),
    "entry": ("on = ", "onn = ", "no entry 'onn'"),
    "shape": ("upper", "uper", "uper is unknown"),
    "latex command": (r"\Delta", r"\Delt", "Did you mean 'Delta'?"),
    "latex bracket": ("u = 0", "u = (0", "never closed"),
    "part": ('"boundary"', '"bondary"', PART),
    "symbol": (r"\Delta u = 1", r"\Delta u = q", "the symbol q is not known"),
    "region": (
        "[domain]",
        "[regions]\na = {type = 'box', lower = [0, 0], upper = [1, 0.5]}\n[parameters]\nk = {b = 1}\n[domain]",
        "'b', which is no region",
    ),
    "option": ("[domain]", "[solve]\nmethod = 'wave'\n[domain]", "Did you mean 'waves'?"),
}


@pytest.mark.parametrize(("right", "wrong", "part"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_in_writing_need_no_mathematics(right: str, wrong: str, part: str, tmp_path: Path):
    """`cnf solve` answers each with its reason, and has imported neither torch nor SymPy nor SciPy by then."""
    file = tmp_path / "problem.toml"
    file.write_text(FILE.replace(right, wrong, 1))
    code = (
        "import sys; from cnf.cli.main import run; code = run(['solve', sys.argv[1]]);"
        "print([m for m in ('torch', 'sympy', 'scipy', 'numpy') if m in sys.modules], code)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True, timeout=120)
    assert done.stdout == "[] 1\n", done.stderr
    assert part in done.stderr and str(file) in done.stderr


NAMES = {  # each means something, though not by itself
    "a name among the shapes": ('type = "box"', 'type = "box"\nname = "boundry"', '"boundary"', '"boundry"'),
    "a variable of an integral": ("u = 0", r"\\int_0^1 u \\, ds = \\int_0^1 s \\, ds", "", ""),
    "a component, a power, a function": (
        "u = 0",
        r"n_x u_x + k_1^2 \\sin(x) = e^x",
        "[domain]",
        "parameters.k_1 = 2\n[domain]",
    ),
}


@pytest.mark.parametrize(("first", "as_first", "second", "as_second"), NAMES.values(), ids=NAMES.keys())
def test_names_that_mean_something_pass_the_first_look(first, as_first, second, as_second, tmp_path: Path):
    """What only the finished problem can tell is left to it."""
    file = tmp_path / "problem.toml"
    file.write_text(FILE.replace(first, as_first.replace("\\\\", "\\"), 1).replace(second, as_second, 1))
    assert look_over(file, {})[1]["coordinates"] == "x y"


def test_a_part_that_is_not_there_is_refused_alike(tmp_path: Path):
    """By the first look at a file and by the problem in Python: regions, names of shapes and coordinates are listed."""
    file = tmp_path / "problem.toml"
    regions = "[regions]\ncore = {type = 'disk', center = [0.5, 0.5], radius = 0.2}\n[domain]\nname = 'wall'"
    file.write_text(FILE.replace("[domain]", regions, 1).replace('"boundary"', '"bondary"', 1))
    said = "no part 'bondary' of the domain; known are interior, boundary, core, rest, wall, x = ..., y = .... Did"
    with pytest.raises(ProblemError, match=re.escape(said)):
        look_over(file, {})
    with pytest.raises(ProblemError, match=re.escape(said)):
        cnf.Problem(
            "x y",
            domain=cnf.Box((0, 0), (1, 1), name="wall"),
            regions={"core": cnf.domains.Disk((0.5, 0.5), 0.2)},
            equations={"interior": r"\Delta u = 1", "bondary": "u = 0"},
        )


def test_help_needs_nothing_large():
    code = (
        "import sys; from cnf.cli.main import run; code = run(['solve', '--help']);"
        "assert code == 0 and not {'torch', 'sympy', 'scipy', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, stdout=subprocess.DEVNULL)


def test_names_are_all_there():
    """Every public name is found, the same object the second time; those from elsewhere are listed."""
    for package in (cnf, cnf.operators, cnf.pde, cnf.pde.domains, cnf.pde.problems, cnf.pde.tuning):
        for name in package.__all__:
            assert getattr(package, name) is getattr(package, name)
    assert {"Box", "Problem", "fit"} <= set(dir(cnf)) and cnf.pde.problems.Problem is cnf.Problem
    with pytest.raises(AttributeError, match="no attribute 'Boxx'"):
        cnf.Boxx  # noqa: B018


def test_words_that_stand_twice_agree():
    """Names kept apart from what they name, for the sake of speed, are those of what they name."""
    assert set(FUNCTIONS) == FUNCTION_NAMES and set(LAYOUTS) == set(LAYOUT_NAMES)


def test_an_interrupt_waits_for_whole_imports():
    """SIGINT in the middle: the block is finished, then KeyboardInterrupt comes, and the handler is the old one."""
    before, done = signal.getsignal(signal.SIGINT), []
    with pytest.raises(KeyboardInterrupt), whole_imports():
        signal.raise_signal(signal.SIGINT)
        done.append(True)
    assert done and signal.getsignal(signal.SIGINT) == before
