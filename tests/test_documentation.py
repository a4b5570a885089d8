"""The site: every public name has a docstring with an example that runs, and is on a page; every page has its place.

What is public is read from the packages themselves, so a name that is added without words is found here. The pictures
and links are for `make docs`.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import cnf

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PACKAGES = [
    "cnf",
    *(f"cnf.{name}" for name in cnf.__all__ if isinstance(getattr(cnf, name), ModuleType)),
    *("cnf.pde", "cnf.shapes", "cnf.materials", "cnf.execution", "cnf.training", "cnf.exporting"),
]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def names_of(package: str) -> list[str]:
    """What a package offers: its `__all__`, or, of `cnf.errors`, its errors and warnings."""
    module = importlib.import_module(package)
    if package == "cnf.errors":
        return [name for name, thing in vars(module).items() if inspect.isclass(thing) and thing.__module__ == package]
    return [name for name in module.__all__ if not isinstance(getattr(module, name), ModuleType)]


def public() -> list[tuple[str, object]]:
    """(name, thing) of everything public; what has two names comes once."""
    found: dict[int, tuple[str, object]] = {}
    for package in PACKAGES:
        for name in names_of(package):
            thing = getattr(importlib.import_module(package), name)
            found.setdefault(id(thing), (f"{package}.{name}", thing))
    return list(found.values())


def on_pages() -> set[int]:
    """What the pages of the reference show, by identity."""
    found = set()
    for page in (DOCS / "reference").glob("*.md"):
        for dotted in re.findall(r"^\.\. (?:auto(?:class|function)|py:data):: (\S+)$", page.read_text(), flags=re.M):
            package, name = dotted.rsplit(".", 1)
            found.add(id(getattr(importlib.import_module(package), name)))
    return found


def described(thing: object) -> bool:
    return inspect.isclass(thing) or inspect.isfunction(thing)


def test_every_public_name_is_on_a_page() -> None:
    shown = on_pages()
    missing = sorted(name for name, thing in public() if id(thing) not in shown)
    assert not missing, f"put these on a page in docs/reference: {missing}"


def test_every_public_name_has_a_docstring() -> None:
    """Its own, not one that it inherits; so have the methods and properties that it adds."""
    missing = []
    for name, thing in public():
        if not described(thing):
            continue
        if not (vars(thing).get("__doc__") if inspect.isclass(thing) else thing.__doc__):
            missing.append(name)
        if inspect.isclass(thing):
            missing += [f"{name}.{member}" for member in undescribed(thing)]
    assert not missing, f"these have no docstring: {sorted(missing)}"


def undescribed(kind: type) -> Iterator[str]:
    """Public methods and properties of a class that say nothing, neither themselves nor what they override."""
    for name, member in vars(kind).items():
        plain = getattr(member, "fget", None) or getattr(member, "__func__", None) or getattr(member, "func", member)
        if not name.startswith("_") and inspect.isfunction(plain) and not inspect.getdoc(getattr(kind, name)):
            yield name


def test_every_public_name_has_an_example() -> None:
    missing = sorted(
        name for name, thing in public() if described(thing) and ">>>" not in (inspect.getdoc(thing) or "")
    )
    assert not missing, f"these docstrings have no example: {missing}"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("package", PACKAGES)
def test_examples_of_docstrings(package: str) -> None:
    """Every example of a package prints what it says; examples may use cnf, torch, np, tempfile and warnings."""
    for used in ("pde", "shapes", "materials.fitting.folders", "execution", "training", "exporting"):
        importlib.import_module(f"cnf.{used}")
    known = {"cnf": cnf, "torch": torch, "np": np, "tempfile": tempfile, "warnings": warnings}
    finder, runner = doctest.DocTestFinder(recurse=True), doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    told: list[str] = []
    for name, thing in public():
        if name.rpartition(".")[0] == package and described(thing):
            module = sys.modules[thing.__module__]
            for example in finder.find(thing, name, module=module, globs=known):
                runner.run(example, out=told.append)
    assert not told, "".join(told)


def test_every_page_has_a_place() -> None:
    """Pages of `docs/` that no table of contents names are put under "More" by the build; others are named."""
    sys.path.insert(0, str(DOCS / "_ext"))
    try:
        unplaced = importlib.import_module("unplaced")
    finally:
        sys.path.pop(0)
    assert unplaced.MARK in (DOCS / "index.md").read_text()
    placed, pages = unplaced.placed(), {p.relative_to(DOCS).with_suffix("").as_posix() for p in DOCS.rglob("*.md")}
    assert {page for page in pages if "/" in page} <= placed, "name these pages in the index of their folder"
    generated = {"gallery/index"}
    assert placed <= pages | generated, f"no such pages: {sorted(placed - pages - generated)}"


def links() -> list[tuple[Path, str]]:
    """(page, target) of every link to a file of the repository."""
    pages = [*DOCS.glob("*.md"), *DOCS.glob("*/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    found = []
    for page in pages:
        text = re.sub(r"^(`{3,}).*?^\1|^ {4}.*?$", "", page.read_text(), flags=re.M | re.S)
        targets = re.findall(r"(?<!`)\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text))
        found += [(page, target) for target in targets if not re.match(r"[a-z]+:", target)]
    return found


def anchors(page: Path) -> set[str]:
    """What a heading is called in an address, as forges do."""
    found: set[str] = set()
    for heading in re.findall(
        r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), flags=re.M
    ):
        found.add(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"))
    return found


def test_links_lead_somewhere() -> None:
    """Files exist and pages have the headings that are pointed at: in the repository, where the site is not built."""
    broken = []
    for page, target in links():
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        exists = file.exists() or file == DOCS / "gallery" / "index.rst"
        if not exists or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert not broken, "\n".join(broken)


def blocks() -> list[tuple[str, str]]:
    """(page, code) of every Python block."""
    pages = [*DOCS.glob("*.md"), *DOCS.glob("*/*.md"), ROOT / "README.md"]
    fence = r"^```(?:python|\{code-cell\}[^\n]*)\n(.*?)^```"
    return [(p.name, code) for p in sorted(pages) for code in re.findall(fence, p.read_text(), flags=re.M | re.S)]


def test_code_of_the_pages_is_python() -> None:
    """Also where it needs packages that are not installed here: recipes are read, if not run."""
    assert len(blocks()) > 30
    for page, code in blocks():
        lines = [line for line in code.splitlines() if not line.startswith(":")]
        if any(line.startswith(">>>") for line in lines):
            continue
        try:
            ast.parse("\n".join(lines))
        except SyntaxError as error:
            pytest.fail(f"{page}: {error}\n{code}")


RUN = ["start.md", "concepts.md", "faq.md"]
INSTALLED = {"torch", "cnf", "numpy"}


@pytest.mark.parametrize("name", RUN)
def test_examples_of_pages(name: str) -> None:
    """What a page shows after `>>>` is what comes out, errors and their advice to the letter."""
    text = re.sub(r"^```.*$", "", (DOCS / name).read_text(), flags=re.M)
    test = doctest.DocTestParser().get_doctest(text, {"cnf": cnf, "torch": torch}, name, name, 0)
    told: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=told.append)
    assert not told, "".join(told)


@pytest.mark.parametrize("name", ["start.md", "recipes.md"])
def test_programs_of_pages(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Programs of a page run one after the other, but for those that ask for packages that need not be there."""
    known: dict = {}
    for code in re.findall(r"^```python\n(.*?)^```", (DOCS / name).read_text(), flags=re.M | re.S):
        asked = {n.split(".")[0] for n in re.findall(r"^(?:import|from) (\S+)", code, flags=re.M)}
        if asked <= INSTALLED and "tensorboard" not in code:
            exec(compile(code, name, "exec"), known)
    printed = capsys.readouterr().out
    assert "False" not in printed
    assert "True" in printed
    assert name != "start.md" or "-0.98999" in printed


def cells(row: str) -> int:
    """How many cells forges and Sphinx see in a row of a table: bars count inside code too, unless escaped."""
    return len(re.findall(r"(?<!\\)\|", row.strip())) - 1


def test_tables_have_whole_rows() -> None:
    """A bar that is not escaped cuts a cell in two, and what is beyond the last column is not shown."""
    broken = []
    for page in [*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        for table in re.findall(r"(?:^\|.*\|\n)+", page.read_text(), flags=re.M):
            rows = table.splitlines()
            broken += [f"{page.name}: {row}" for row in rows if cells(row) != cells(rows[0])]
    assert not broken, "\n".join(broken)


def nonlinear() -> list[str]:
    """The conditions of the table in docs/operators.md under "Nonlinear conditions"."""
    section = (DOCS / "operators.md").read_text().split("## Nonlinear conditions")[1]
    rows = re.findall(r"^\| (`.*`) \| [^`]*\|$", section, flags=re.M)
    return [written.replace(r"\|", "|") for row in rows for written in re.findall(r"`([^`]*)`", row)]


@pytest.mark.parametrize("written", nonlinear())
def test_nonlinear_conditions_are_read(written: str) -> None:
    """As they stand there, each in the coordinates it speaks of: a condition that is not linear in the field."""
    line = "'" in written or "u(0)" in written or "dx" in written
    space = cnf.Space("x" if line else "x t" if "u_t" in written else "x y", "u v p" if "mathbf" in written else "u")
    known = {"f": lambda x: x[:, 0], "nu": 0.1, "n": [0.6, 0.8]}
    used = {name: value for name, value in known.items() if re.search(rf"(?<![a-z]){name}(?![a-z])", written)}
    at = cnf.Box([0] * len(space.coordinates), [1] * len(space.coordinates)).random(5)
    assert space.constraint(written, at=at, equals=None if "=" in written else 0.0, **used).nonlinear is not None
