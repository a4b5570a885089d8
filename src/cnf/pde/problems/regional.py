"""Regional: the regions of a problem as written, and parameters and equations that differ from one to the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import torch

from cnf.constraints import Space
from cnf.errors import CnfError, LatexError, ProblemError
from cnf.operators.latex import NO_FIELD, read_equation, used_coefficients
from cnf.pde.domains import Domain
from cnf.pde.domains.part_names import INTERFACE
from cnf.pde.domains.regions import Regions
from cnf.pde.problems.entries import shown
from cnf.pde.problems.equation import Equation, read_equations
from cnf.pde.problems.jumps import NOTHING, Jump, check_jumps, read_places, split_jump
from cnf.pde.problems.misspelt import refuse_unknown_regions
from cnf.pde.problems.parameters import Parameter, read_parameters
from cnf.pde.problems.places import on_boundary, other_faces, read_place

if TYPE_CHECKING:
    from cnf.pde.problems.problem import Problem

WHERE = ("regions",)


def read_regions(
    given: object, domain: Domain, read: Callable[[Mapping, tuple[str | int, ...]], Domain]
) -> Regions | None:
    """{name: shape}, shapes as objects or tables that `read` takes; None if there are none."""
    if given is None:
        return None
    if not isinstance(given, Mapping) or not given:
        raise ProblemError(f"expected a table of regions, name = {{ type = 'disk', ... }}; got {shown(given)}", WHERE)
    shapes = {}
    for name, value in given.items():
        where = (*WHERE, str(name))
        if not isinstance(value, Domain | Mapping):
            raise ProblemError(f"expected a shape, {{ type = 'disk', ... }}; got {shown(value)}", where)
        shapes[name] = value if isinstance(value, Domain) else read(value, where)
    try:
        return Regions(domain, shapes)
    except CnfError as error:
        raise ProblemError(str(error), WHERE) from None


@dataclass(frozen=True)
class RegionalParameters:
    """`common` are the same everywhere, `by_region` all parameters of every region."""

    common: dict[str, Parameter]
    by_region: dict[str, dict[str, Parameter]]

    @staticmethod
    def read(given: Mapping[str, object], space: Space, regions: Sequence[str]) -> RegionalParameters:
        """A table {region: value} stands for one value per region; `regions` are the names of those that have some."""
        several = {name: value for name, value in given.items() if isinstance(value, Mapping)}
        if not regions:
            for name in several:
                raise ProblemError(
                    "a value for each region needs regions: [regions] with name = { type = 'disk', ... }",
                    ("parameters", name),
                )
            return RegionalParameters(read_parameters(given, space), {})
        refuse_unknown_regions(given, dict.fromkeys(regions))
        by_region = {}
        for region in regions:
            own = {name: _of(name, value, region) for name, value in given.items()}
            by_region[region] = read_parameters(own, space)
        first, *others = by_region.values()
        same = {n: v for n, v in first.items() if n not in several and all(o[n] == v for o in others)}
        return RegionalParameters(same, by_region)

    def of(self, region: str | None) -> dict[str, Parameter]:
        return self.common if region is None else self.by_region[region]

    @property
    def any(self) -> dict[str, Parameter]:
        """Those of some region: enough to know which names there are."""
        return next(iter(self.by_region.values()), self.common)

    @property
    def varying(self) -> set[str]:
        return set(self.any) - set(self.common)


def _of(name: str, value: object, region: str) -> object:
    if not isinstance(value, Mapping):
        return value
    where = ("parameters", name)
    if region not in value:
        raise ProblemError(f"the parameter {name!r} has no value for the region {region!r}; add {region} = ...", where)
    return value[region]


def is_interface(equation: Equation) -> bool:
    return equation.on is not None and equation.on.split()[:1] == [INTERFACE]


def expand_equations(
    equations: Sequence[Equation], regions: Regions, touched: Callable[[Equation], Sequence[str]]
) -> list[Equation]:
    """Equations with the region they hold in; those of the interior hold in every region.

    Equations on the boundary with parameters that vary are one for every region that has some of it, by `touched`.
    """
    found: list[Equation] = []
    for equation in equations:
        if equation.on in regions.names:
            found.append(replace(equation, on="interior", region=equation.on))
            continue
        own = regions.names if equation.on == "interior" else touched(equation)
        found += [replace(equation, region=name, name=f"{equation.name} in {name}") for name in own] or [equation]
    for name in regions.names:
        if not any(e.on == "interior" and e.region == name for e in found):
            raise ProblemError(
                f"no equation holds in the region {name!r}; give one with on = {name!r}, or for all on = 'interior'",
                ("equations",),
            )
    return found


def refuse_varying(problem: Problem, latex: str, where: tuple, extra: Mapping[str, object] | None = None) -> None:
    """What holds for no region in particular cannot have parameters with a value for each."""
    for name in sorted(problem.used_in(latex, extra or {}, where) & problem.regional.varying):
        raise ProblemError(f"{name!r} has a value for each region; this belongs to none of them", where)


def refuse_vanishing(problem: Problem, equations: Sequence[Equation]) -> None:
    """A parameter that is 0 in a region may leave nothing of the equation there."""
    for equation in equations:
        for region, own in problem.regional.by_region.items():
            zero = [name for name in sorted(problem.regional.varying) if own[name] == 0]
            if not zero or equation.on not in ("interior", region):
                continue
            frame, vectors = problem.space.frame, problem.space.vectors
            try:
                used = used_coefficients(equation.latex, frame, own, vectors)
                read_equation(equation.latex, frame, {name: own[name] for name in used}, vectors)
            except LatexError as error:
                if NO_FIELD not in str(error):
                    continue  # it is reported with all that is known of the equation
                raise ProblemError(
                    f"in the region {region!r} nothing is left of this equation, since {', '.join(zero)} = 0 there; "
                    "what has no field is no region: cut it out of the domain (type = 'difference'), or give it a "
                    f"small {zero[0]}",
                    ("equations", equation.number, "equation"),
                ) from None


def split_faces(problem: Problem, equations: Sequence[Equation]) -> tuple[Equation, ...]:
    """Equations on "boundary except x = 0" as one for every other face of the box."""
    found: list[Equation] = []
    for equation in equations:
        where = ("equations", equation.number, "on")
        read = partial(problem.number, where=where)
        faces = other_faces(equation.on or "", problem.domain, problem.space.coordinates, read, where)
        found += [replace(equation, on=face, name=f"{equation.name}: {face}") for face in faces] or [equation]
    return tuple(found)


def read_equations_in(problem: Problem, given: object) -> tuple[tuple[Equation, ...], tuple[Jump, ...]]:
    """All equations with their regions, and the conditions on interfaces."""
    written, regions = split_faces(problem, read_equations(given)), problem.regions
    normal = {"n": torch.ones(2, len(problem.space.frame.spatial), dtype=torch.float64)}
    extra = {k: v for k, v in normal.items() if k not in (*problem.regional.any, *problem.space.frame.coordinates)}
    refuse_vanishing(problem, written)
    jumps = []
    for equation in written:
        if is_interface(equation):
            inner, side = split_jump(equation)
            where = ("equations", equation.number, "equation")
            names = [frozenset(problem.used_in(f"{inner} = {s}", extra, where)) for s in (side, NOTHING)]
            places = read_places(equation, regions)
            assert regions is not None
            known = problem.regional.by_region
            jumps.append(Jump(equation, inner, side, places, problem.space, regions, known, *names))
    if regions is None:
        return written, ()
    check_jumps(jumps, problem.space, regions)

    def touched(equation: Equation) -> list[str]:
        """The regions that an equation on the boundary is to be split into; none if all have the same."""
        if equation.on is None or equation.file is not None:
            return []
        used = problem.used_in(equation.latex, extra, ("equations", equation.number, "equation"))
        if not used & problem.regional.varying:
            return []
        where = ("equations", equation.number, "on")
        coordinates = problem.space.coordinates
        place = read_place(
            equation.on, problem.domain, coordinates, partial(problem.number, where=where), where, regions.names
        )
        found = {int(k) for _, _, own in on_boundary(place, problem.domain, regions) for k in own}
        return [regions.names[k] for k in sorted(found)]

    return tuple(expand_equations([e for e in written if not is_interface(e)], regions, touched)), tuple(jumps)
