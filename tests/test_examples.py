"""Every example runs and gives its number; the README's example runs as printed; the language reference is true."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
import sympy
import torch

import cnf
from cnf.cli.main import run
from cnf.operators.latex import read_operator

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))
EXPECTED = {
    "01_first_field": lambda error: error < 1e-8,
    "02_own_basis": lambda error: error < 1e-5,
    "03_correct_a_network": lambda miss: miss < 1e-12,
    "04_values_and_gradients": lambda error: error < 1e-4,
    "05_unknown_coefficient": lambda nu: abs(nu - 0.05) < 1e-6,
    "06_surface_through_points": lambda mesh: (
        mesh["watertight"] and mesh["euler"] == 0 and mesh["normals"] <= 1e-9 and mesh["distance"] < 1e-12
    ),
    "07_large_sparse_field": lambda found: found["residual"] < 1e-12 and found["error"] < 1e-3,
    "08_material_with_exact_highlight": lambda found: found["measurements"] < 1e-10 and found["psnr"] > 45,
}
SLOW = {"07_large_sparse_field"}


def test_every_example_has_its_number() -> None:
    assert {path.stem for path in EXAMPLES} == set(EXPECTED)


@pytest.mark.filterwarnings("error", "ignore:.torch.jit.script. is deprecated:DeprecationWarning")
@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=pytest.mark.slow if path.stem in SLOW else (), id=path.stem) for path in EXAMPLES]
)
def test_example(path: Path) -> None:
    specification = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    number = module.main()
    assert EXPECTED[path.stem](number), number


def code_blocks(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), flags=re.DOTALL)


@pytest.mark.filterwarnings("error", "ignore:.torch.jit.script. is deprecated:DeprecationWarning")
def test_readme_example_runs_as_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """The code prints what the README shows below it, up to times and the last digits of rounding errors."""
    text = (ROOT / "README.md").read_text()
    first, own_basis = code_blocks("README.md")
    names: dict = {}
    exec(compile(first, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    shown = re.search(r"```\n\n((?:    .*\n)+)", text[text.index(first) :])
    assert shown is not None
    for line, promised in zip(printed.splitlines(), shown.group(1).splitlines(), strict=True):
        assert _words(line) == _words(promised)
    assert names["solution"].certificate.worst < 1e-13
    assert (names["solution"](names["x"])[:, 0] - names["exact"]).abs().max().item() < 1e-8
    exec(compile(own_basis, "README.md", "exec"), names)
    assert names["SoftSteps"](cnf.Space("x", "u"), 5, 2.0).size == 5
    assert len(first.strip().splitlines()) <= 16


@pytest.mark.slow
def test_readme_nonlinear_problem_prints_what_it_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its file is solved as written, and every line shown is printed; against Cole and Hopf it is right to 1e-8."""
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(r"```toml\n(.*?)```.*?\n\n((?:    [^\n]*\n)+)", text, flags=re.DOTALL)
    written, shown = next((file, lines) for file, lines in blocks if "u u_x" in file)
    (tmp_path / "burgers.toml").write_text(written)
    assert run(["solve", str(tmp_path / "burgers.toml"), "--out", str(tmp_path / "out")]) == 0
    printed = [_words(line) for line in capsys.readouterr().out.splitlines()]
    assert all(_words(line) in printed for line in shown.splitlines())
    field, nu = cnf.load(tmp_path / "out" / "solution.pt"), 0.03
    x, t = (grid.reshape(-1) for grid in np.meshgrid(np.linspace(-0.95, 0.95, 21), np.linspace(0.05, 1, 9)))
    nodes, weights = np.polynomial.hermite.hermgauss(200)
    y = x[:, None] - np.sqrt(4 * nu * t)[:, None] * nodes
    kernel = weights * np.exp(-(np.cos(np.pi * y) + 1) / (2 * np.pi * nu))
    exact = -(np.sin(np.pi * y) * kernel).sum(axis=1) / kernel.sum(axis=1)
    found = field(torch.from_numpy(np.stack([x, t], axis=1)))[:, 0].detach().numpy()
    assert np.linalg.norm(found - exact) < 1e-8 * np.linalg.norm(exact)


def _words(line: str) -> list[str]:
    return re.sub(r"[-+.\d]+(e[-+]\d+)?", "#", line).split()


def language_rows() -> list:
    """(space and coefficients as code, written, read as) for every row of the tables."""
    found = []
    for section in (ROOT / "docs" / "operators.md").read_text().split("\n## ")[1:]:
        block = re.search(r"```python\n(space = .*?)```", section, flags=re.DOTALL)
        rows = re.findall(r"^\| `(.*?)` \| `(.*?)` \|$", section, flags=re.MULTILINE)
        if block is not None:
            found += [
                pytest.param(block.group(1), *(cell.replace("\\|", "|") for cell in row), id=row[0]) for row in rows
            ]
    return found


def test_the_language_tables_were_found() -> None:
    assert len(language_rows()) > 35


@pytest.mark.parametrize(("setting", "written", "read_as"), language_rows())
def test_language_table(setting: str, written: str, read_as: str) -> None:
    """Both columns read to the same operator, and the right one is how it prints."""
    names: dict = {"cnf": cnf, "sympy": sympy}
    exec(compile(setting, "docs/operators.md", "exec"), names)
    space = names["space"]
    used = {
        name: value for name, value in names["given"].items() if re.search(rf"(?<![a-zA-Z]){name}(?![a-zA-Z])", written)
    }
    operator = read_operator(written, space.frame, used)
    assert operator.to_latex() == read_as
    assert operator == read_operator(read_as, space.frame)
