"""Options: how a problem is solved - points, basis, tuning, tolerance - read from their entries, with defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cnf.errors import ProblemError
from cnf.pde.domains.tables import LAYOUT_NAMES
from cnf.pde.problems.entries import check_choice, check_count, check_number, check_table, check_text, shown
from cnf.pde.tuning.choices import OBJECTIVES

if TYPE_CHECKING:  # mistakes in writing are answered before torch is imported
    from cnf.bases.basis import Basis
    from cnf.constraints import Space

BASES = ("random-fourier", "rbf", "skewed-rbf", "hermite")
COUNTS = {1: 80, 2: 500, 3: 900}  # interior points by dimension, unless given
MANY_COORDINATES = 600  # and in four and more: functions are short there, and guides take the place of points
LOOSEST = 1e-2  # relative residual that can be called meeting a condition
METHODS = ("auto", "waves", "patches")
LOCAL = ("polynomials", "waves")
LARGEST = 20_000  # conditions that are solved densely; more would need tens of gigabytes


@dataclass(frozen=True)
class PointOptions:
    """How many points: `count` inside, `boundary` on all of the boundary, in what layout, or from a file."""

    count: int | None = None
    boundary: int | None = None
    layout: str = "halton"
    file: str | None = None


@dataclass(frozen=True)
class BasisOptions:
    """What is summed; `size` (functions per condition) and `bandwidth` are tuned unless given."""

    type: str = "random-fourier"
    size: float | None = None
    bandwidth: tuple[float, ...] | None = None
    poles: bool = True  # whether functions with poles in corners and holes may join


@dataclass(frozen=True)
class TuningOptions:
    """By what the settings are chosen; `steps` of training for the covariances of skewed-rbf."""

    objective: str | None = None  # held-out if any equation can be checked elsewhere, else leave-one-out
    steps: int = 10


@dataclass(frozen=True)
class SolveOptions:
    """Relative residual to reach, what to do if the conditions leave the field open, and how it is solved.

    `target` is the estimate of the error that is good enough: tuning and refinement stop there, and what misses it, or
    1e-3 without one, is a failure. None: the best bandwidth, and the best patches that two minutes buy. `local` are
    the functions of patches; in Python a function from the space and a number of functions to a basis as well.
    """

    tolerance: float = 1e-9
    underdetermined: str = "refuse"
    method: str = "auto"
    target: float | None = None
    local: str | Callable[[Space, int], Basis] = "polynomials"


def read_points(given: object) -> PointOptions:
    """A number of interior points, or a table."""
    if isinstance(given, int) and not isinstance(given, bool):
        given = {"count": given}
    table = check_table({} if given is None else given, ("count", "boundary", "layout", "file"), ("points",))
    if "file" in table:
        check_text(table["file"], ("points", "file"))
        for key in ("count", "layout"):
            if key in table:
                raise ProblemError("the points of a file are taken as they are; leave this out", ("points", key))
    return PointOptions(
        count=check_count(table["count"], ("points", "count")) if "count" in table else None,
        boundary=check_count(table["boundary"], ("points", "boundary")) if "boundary" in table else None,
        layout=check_choice(table.get("layout", "halton"), LAYOUT_NAMES, ("points", "layout")),
        file=table.get("file"),
    )


def read_basis(given: object, dimension: int) -> BasisOptions:
    """The name of a basis, or a table."""
    if isinstance(given, str):
        given = {"type": given}
    table = check_table({} if given is None else given, ("type", "size", "bandwidth", "poles"), ("basis",))
    kind = check_choice(table.get("type", "random-fourier"), BASES, ("basis", "type"))
    size = check_number(table["size"], ("basis", "size")) if "size" in table else None
    if size is not None and kind != "random-fourier":
        raise ProblemError(f"{kind} has one function per condition; leave size out", ("basis", "size"))
    if size is not None and not 1 <= size <= 20:
        raise ProblemError(
            f"size is the number of functions per condition, from 1 to 20; got {size:g}", ("basis", "size")
        )
    poles = table.get("poles", kind == "random-fourier")
    if not isinstance(poles, bool) or (poles and kind != "random-fourier"):
        raise ProblemError("expected true or false; only random-fourier can have poles beside it", ("basis", "poles"))
    bandwidth = _bandwidth(table["bandwidth"], dimension) if "bandwidth" in table else None
    return BasisOptions(kind, size, bandwidth, poles)


def _bandwidth(given: object, dimension: int) -> tuple[float, ...]:
    where = ("basis", "bandwidth")
    if not isinstance(given, list | tuple):
        return (check_number(given, where),) * dimension
    if len(given) != dimension:
        raise ProblemError(f"expected a number or {dimension}, one per coordinate; got {shown(given)}", where)
    return tuple(check_number(v, where) for v in given)


def read_tuning(given: object) -> TuningOptions:
    """The name of an objective, or a table."""
    if isinstance(given, str):
        given = {"objective": given}
    table = check_table({} if given is None else given, ("objective", "steps"), ("tuning",))
    objective = table.get("objective")
    if objective is not None:
        objective = check_choice(objective, (*OBJECTIVES, "none"), ("tuning", "objective"))
    steps = table.get("steps", 10)
    if steps != 0:
        steps = check_count(steps, ("tuning", "steps"), 10_000)
    return TuningOptions(objective, steps)


def read_solve(given: object) -> SolveOptions:
    known = ("tolerance", "underdetermined", "method", "target", "local", "start", "continuation")
    table = check_table({} if given is None else given, known, ("solve",))
    method = check_choice(table.get("method", "auto"), METHODS, ("solve", "method"))
    target = check_number(table["target"], ("solve", "target")) if "target" in table else None
    local = table.get("local", "polynomials")
    if not callable(local):
        local = check_choice(local, LOCAL, ("solve", "local"))
    if local != "polynomials" and method != "patches":
        raise ProblemError("local functions are those of patches; add method = 'patches'", ("solve", "local"))
    return SolveOptions(
        local=local,
        method=method,
        target=target,
        tolerance=_tolerance(table.get("tolerance", 1e-9)),
        underdetermined=check_choice(
            table.get("underdetermined", "refuse"), ("refuse", "minimum-norm"), ("solve", "underdetermined")
        ),
    )


def _tolerance(given: object) -> float:
    found = check_number(given, ("solve", "tolerance"))
    if found > LOOSEST:
        raise ProblemError(f"a tolerance above {LOOSEST:g} means nothing; got {found:g}", ("solve", "tolerance"))
    return found


def read_exact(given: object, channels: tuple[str, ...]) -> dict[str, object]:
    """{channel: LaTeX or callable}; a single expression serves a single channel."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        if len(channels) > 1:
            raise ProblemError(f"expected a table with an expression for each of {', '.join(channels)}", ("exact",))
        given = {channels[0]: given}
    return check_table(given, channels, ("exact",))
