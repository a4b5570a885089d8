"""Equation: one condition of a problem, read from its entry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cnf.errors import ProblemError
from cnf.pde.domains.tables import LAYOUT_NAMES
from cnf.pde.problems.entries import check_choice, check_count, check_table, check_text, shown

KEYS = ("on", "equation", "name", "points", "layout", "file", "fitted")


@dataclass(frozen=True)
class Equation:
    """As written: `latex` must hold on the part `on` of the domain (None: it needs no points)."""

    latex: str
    on: str | None
    name: str
    points: int | None = None  # how many, if not as many as the others
    layout: str | None = None
    file: str | None = None  # of scattered points, instead of a part
    number: int = 0  # of its entry
    region: str | None = None  # where it holds, if not everywhere
    fitted: bool | None = None  # by the unknowns of the problem, instead of exact; None: as is usual


def read_equations(given: object) -> tuple[Equation, ...]:
    """Entries with `on` and `equation`; a mapping {part: equation} serves as well, and lists of equations do."""
    if isinstance(given, Mapping):
        given = [{"on": on, "equation": latex} for on, latex in given.items()]
    if not isinstance(given, list | tuple) or not given:
        raise ProblemError(
            "expected at least one equation: [[equations]] with on = 'interior' and equation = '...'", ("equations",)
        )
    found: list[Equation] = []
    for index, item in enumerate(given):
        found.append(replace(item, number=index) if isinstance(item, Equation) else _read(item, index, found))
    names = [e.name for e in found]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise ProblemError(f"two equations are called {name!r}; rename one", ("equations", index, "name"))
    return tuple(found)


def _read(item: object, index: int, before: list[Equation]) -> Equation:
    where = ("equations", index)
    table = check_table(item, KEYS, where)
    if "equation" not in table:
        raise ProblemError("the equation itself is missing: equation = '...' in LaTeX", where)
    latex = _read_latex(table["equation"], (*where, "equation"))
    on = table.get("on")
    if on is not None and not isinstance(on, str):
        raise ProblemError(
            f"expected the name of a part such as 'interior' or 'x = 0', got {shown(on)}", (*where, "on")
        )
    file = table.get("file")
    if on is None and file is None and ("points" in table or "layout" in table):
        raise ProblemError(
            "a condition without a part has no points to place; add on = 'interior' or the like, or leave out points "
            "and layout",
            (*where, "equation"),
        )
    if file is not None:
        check_text(file, (*where, "file"))
        if on is not None:
            raise ProblemError("give the points by a file or by a part of the domain (on), not both", (*where, "on"))
        for key in ("points", "layout"):
            if key in table:
                raise ProblemError("the points of a file are taken as they are; leave this out", (*where, key))
    return Equation(
        latex=latex,
        on=None if on is None else " ".join(on.split()),
        name=check_text(table["name"], (*where, "name")) if "name" in table else _free_name(on or file, before),
        points=check_count(table["points"], (*where, "points")) if "points" in table else None,
        layout=check_choice(table["layout"], LAYOUT_NAMES, (*where, "layout")) if "layout" in table else None,
        file=file,
        number=index,
        fitted=_fitted(table, (*where, "fitted")),
    )


def _read_latex(given: object, where: tuple) -> str:
    """One text; several equations, in a list or with semicolons between them, are rows of one."""
    if not isinstance(given, list | tuple):
        return check_text(given, where)
    if not given:
        raise ProblemError("expected an equation in LaTeX, or a list of them, got an empty list", where)
    return "; ".join(check_text(latex, where) for latex in given)


def _fitted(table: Mapping[str, object], where: tuple) -> bool | None:
    given = table.get("fitted")
    if given is not None and not isinstance(given, bool):
        raise ProblemError(f"expected true or false, got {shown(given)}", where)
    return given


def _free_name(base: str | None, before: list[Equation]) -> str:
    """The part it holds on, numbered if an earlier equation has that name."""
    stem = base or "everywhere"
    taken = {e.name for e in before}
    name, number = stem, 2
    while name in taken:
        name, number = f"{stem} ({number})", number + 1
    return name
