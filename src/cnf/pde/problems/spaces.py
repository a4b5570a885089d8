"""Spaces: the coordinates and channels of a problem and its domain, from the plain values it is written in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cnf.constraints import Space
from cnf.errors import CnfError, ProblemError
from cnf.pde.domains import Domain, Timed
from cnf.pde.domains.description import domain_from
from cnf.pde.problems.entries import any_table, check_names, shown

if TYPE_CHECKING:
    from cnf.pde.problems.problem import Problem


def read_space(coordinates: object, channels: object, vectors: Mapping[str, object] | None) -> Space:
    """Names of coordinates and channels, and which channels are vectors."""
    names, fields = check_names(coordinates, ("coordinates",)), check_names(channels, ("channels",))
    groups = any_table(vectors, "vectors")
    parts = {name: check_names(value, ("vectors", name)) for name, value in groups.items()}
    try:
        return Space(names, fields, vectors=parts)
    except CnfError as error:
        raise ProblemError(str(error), ("coordinates",)) from None


def read_domain(problem: Problem, given: Domain | Mapping[str, object]) -> Domain:
    """The domain, which must fit the coordinates."""
    where = ("domain",)
    if isinstance(given, Domain):
        domain = given
    elif isinstance(given, Mapping):
        domain = read_shape(problem, given, where)
    else:
        raise ProblemError(f"expected a domain or a table, got {shown(given)}", where)
    names = problem.space.coordinates
    if domain.dimension != len(names):
        timed = ", time included" if isinstance(domain, Timed) else ""
        advice = "; for the time t write time = [0, 1] in the domain" if "t" in names and not timed else ""
        raise ProblemError(
            f"the domain has {domain.dimension} dimensions{timed}, but the coordinates are {', '.join(names)}{advice}",
            where,
        )
    if "t" in names[:-1] or ("t" in names and len(names) > 1 and not isinstance(domain, Timed)):
        raise ProblemError(
            "the time t is the last coordinate and has an interval of its own: coordinates = 'x t' and, in the "
            "domain, time = [0, 1]",
            where,
        )
    return domain


def read_shape(problem: Problem, given: Mapping[str, object], where: tuple[str | int, ...]) -> Domain:
    """A shape in the coordinates of a problem, from a table."""
    try:
        return domain_from(
            given,
            number=lambda value: problem.number(value, where),
            expression=lambda latex: problem.expression(latex, where),
            coordinates=problem.space.coordinates,
            folder=problem.folder,
        )
    except ProblemError:
        raise
    except CnfError as error:
        raise ProblemError(str(error), where) from None
    except (ArithmeticError, ValueError):
        raise ProblemError("this is too large or too small for its numbers; use other units", where) from None
