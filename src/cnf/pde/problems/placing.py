"""Placing: the equations of a problem at points, as constraints: all of them, fewer of them, or elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from cnf.constraints import Constraint
from cnf.errors import CnfError, ProblemError
from cnf.pde.domains.corners import crowd
from cnf.pde.domains.domain import Sample, belongs_to
from cnf.pde.problems.equation import Equation
from cnf.pde.problems.options import COUNTS, LARGEST, MANY_COORDINATES
from cnf.pde.problems.parameters import in_file
from cnf.pde.problems.places import (
    HELD_OUT,
    HELD_OUT_FACE,
    TOUCH,
    Place,
    default_count,
    interior_spacing,
    read_place,
    refuse_outside,
    sample,
    sample_in,
)
from cnf.pde.problems.regional import refuse_varying
from cnf.pde.problems.scattered import Scattered, read_scattered

if TYPE_CHECKING:
    from cnf.pde.problems.problem import Problem

ELSEWHERE = 7919  # added to the seed for the points of checks
FRESH = 15485863  # and for those of the figures that are reported
DRAWN, DRAWN_FACE = 1000, 400
NORMAL = "n"
FACE_LAYOUT = "grid"


class Placing:
    """Where each of some equations of a problem holds, and which names it uses."""

    def __init__(self, problem: Problem, equations: Sequence[Equation]):
        self.problem, self.equations = problem, equations
        self.used: set[str] = set()
        self._files: dict[str, Scattered] = {}
        self._read: dict[int, Constraint] = {}  # equations that are the same at all points, read once
        self.cloud = self._read_cloud()
        self.places = tuple(self._place(e) for e in equations)
        self.names = tuple(self._names(k) for k in range(len(self.places)))
        for names in self.names:
            self.used |= names & set(problem.regional.any)

    # -- constraints -----------------------------------------------------------------------------------------------

    def constraints(self, share: float = 1.0, seed: int | None = None) -> tuple[Constraint, ...]:
        """All equations; with `share` below one at that part of the points of the interior.

        With a `seed`, as many other points of the same parts; what is known at its own points only keeps them.
        """
        kept: dict[tuple, Sample] = {}
        found = []
        for k, (equation, place) in enumerate(zip(self.equations, self.places, strict=True)):
            if place.kind == "nowhere":
                found.append(self._constraint(k, None, {}))
                continue
            count, layout = self.count(equation, place, share), self.layout(equation, place)
            layout = layout if seed is None or layout != "grid" else "halton"  # a grid has no seed
            key = (place.text, place.region, count, layout)
            if key not in kept:
                kept[key] = self._sampled(place, count, layout, share, self.problem.seed if seed is None else seed)
            found.append(self._constraint(k, kept[key], self._columns(place, share)))
        rows = sum(c.rows for c in found)
        if rows > LARGEST:
            raise ProblemError(
                f"{rows} conditions in all; up to {LARGEST} are solved densely. Use fewer points", ("points",)
            )
        return tuple(found)

    def checks(self) -> tuple[Constraint, ...]:
        """Every equation that means something elsewhere on its part, at points of another seed."""
        found = []
        for k, place in enumerate(self.places):
            if place.kind in ("file", "nowhere") or place.dimension_lost >= self.problem.domain.dimension:
                continue
            count = HELD_OUT if place.kind == "interior" else HELD_OUT_FACE
            layout = FACE_LAYOUT if place.kind == "slice" else "halton"
            seed = self.problem.seed + ELSEWHERE
            other = sample_in(place, self.problem.domain, self.problem.regions, count, layout, seed)
            if other is not None:
                found.append(self.at(k, other))
        return tuple(found)

    def drawn(self) -> tuple[Constraint, ...]:
        """The same equations at points drawn uniformly from their parts, which took no part in anything before."""
        found, seed = [], self.problem.seed + FRESH
        generator = torch.Generator().manual_seed(seed)
        for k, place in enumerate(self.places):
            if place.kind in ("file", "nowhere") or place.dimension_lost >= self.problem.domain.dimension:
                continue
            count = DRAWN if place.kind == "interior" else DRAWN_FACE
            many = count if place.kind in ("interior", "slice") else 8 * count  # those of a boundary are spread evenly
            at = sample_in(place, self.problem.domain, self.problem.regions, many, "random", seed)
            if at is None:
                continue
            chosen = torch.randperm(at.points.shape[0], generator=generator)[:count]
            at = Sample(at.points[chosen], None if at.normals is None else at.normals[chosen])
            found.append(self.at(k, at))
        return tuple(found)

    def interior(self) -> int:
        """How many points the interior gets."""
        if self.cloud is not None:
            return self.cloud.points.shape[0]
        return self.problem.points.count or COUNTS.get(self.problem.domain.dimension, MANY_COORDINATES)

    def count(self, equation: Equation, place: Place, share: float) -> int:
        """How many points an equation gets."""
        domain, dimension = self.problem.domain, self.problem.domain.dimension
        left = dimension - place.dimension_lost
        if place.kind == "interior":
            full = equation.points or self.interior()
        elif equation.points is not None:
            full = equation.points
        elif place.kind == "file" or left <= 0:
            return 2
        else:
            full = default_count(place, domain, interior_spacing(domain, self.interior()))
            if dimension > 3:  # most of a box is near its boundary: with the same spacing it would take all the points
                whole = default_count(Place("boundary", ""), domain, interior_spacing(domain, self.interior()))
                full = max(4, round(full * min(1.0, self.interior() / whole)))
            if place.kind in ("boundary", "shape") and self.problem.points.boundary is not None:
                part = domain.boundary_measure(place.shape) / domain.boundary_measure()
                full = max(1, round(self.problem.points.boundary * part))
        return full if share >= 1 else max(min(full, 8), round(full * share ** (left / dimension)))

    def layout(self, equation: Equation, place: Place) -> str:
        """As asked; faces and slices are covered evenly unless the equation itself says otherwise."""
        return equation.layout or (FACE_LAYOUT if place.kind == "slice" else self.problem.points.layout)

    def _sampled(self, place: Place, count: int, layout: str, share: float, seed: int) -> Sample:
        if place.kind == "interior" and self.cloud is not None:
            return Sample(_thinned(self.cloud.points, share, self.problem.seed), None)
        if place.kind == "file":
            assert place.file is not None
            return Sample(_thinned(place.file.points, share, self.problem.seed), None)
        problem = self.problem
        found = sample_in(place, problem.domain, problem.regions, count, layout, seed)
        assert found is not None  # equations of a region that has none of the part are left out
        return self._crowded(found, place) if problem.has_poles else found

    def spacing(self) -> float:
        """The distance between neighbouring points."""
        return interior_spacing(self.problem.domain, self.interior())

    def _crowded(self, found: Sample, place: Place) -> Sample:
        """The points of a boundary part with more of them near corners and on holes, where poles are placed too."""
        extra = []
        for names, points, normals in crowd(self.problem.domain, self.spacing()):
            if place.kind == "boundary" or (place.kind == "shape" and belongs_to(place.shape or "", names)):
                extra.append((points, normals))
            elif place.kind == "slice" and place.fixed is not None:
                on = torch.stack([(points[:, k] - v).abs() <= TOUCH for k, v in place.fixed.items()]).all(dim=0)
                extra.append((points[on], normals[on]))
        more = sum(len(points) for points, _ in extra)
        if not more or (place.kind == "slice" and found.normals is None):
            return found
        turned = None if found.normals is None else torch.cat([found.normals, *(n for _, n in extra)])
        return Sample(torch.cat([found.points, *(p for p, _ in extra)]), turned)

    def _columns(self, place: Place, share: float) -> dict[str, Tensor]:
        if place.file is None:
            return {}
        return {name: _thinned(values, share, self.problem.seed) for name, values in place.file.columns.items()}

    def at(self, k: int, sample: Sample) -> Constraint:
        """Equation k at any points of its part."""
        return self._constraint(k, sample, {})

    def _constraint(self, k: int, at: Sample | None, columns: Mapping[str, Tensor]) -> Constraint:
        equation, problem = self.equations[k], self.problem
        names, parameters = self.names[k], problem.parameters_in(equation.region)
        where = ("equations", equation.number, "equation")
        if at is not None and k in self._read:
            try:
                return self._read[k].at(at.points)
            except CnfError as error:
                raise ProblemError(in_file(error), where) from None
        given: dict[str, object] = {name: v for name, v in parameters.items() if name in names}
        given |= {name: v for name, v in columns.items() if name in names}
        if NORMAL in names and NORMAL not in parameters and at is not None and NORMAL not in columns:
            given[NORMAL] = at.normals
        try:
            found = problem.space.constraint(
                equation.latex, at=None if at is None else at.points, name=equation.name, **given
            )
        except CnfError as error:
            advice = ""
            if at is None and "give the points" in str(error):
                advice = "; say where it holds, on = 'interior' for instance"
            raise ProblemError(f"{in_file(error)}{advice}", where) from None
        self._refuse_outside(found, where)
        local = all(term.place.is_here for row in found.operator.rows for term in row)
        if local and not any(isinstance(v, Tensor) for v in given.values()):
            self._read[k] = found
        return found

    def _refuse_outside(self, constraint: Constraint, where: tuple[str | int, ...]) -> None:
        """Conditions look at the domain only: u(5) = 0 and integrals beyond it are mistakes in writing."""
        domain = self.problem.domain
        low, high = (torch.tensor(v, dtype=torch.float64) for v in (domain.lower, domain.upper))
        slack = 1e-6 * (high - low)
        for probe in constraint.expanded():
            beyond = ((probe.points < low - slack) | (probe.points > high + slack)).any(dim=1)
            if bool(beyond.any()):
                at = ", ".join(f"{v:g}" for v in probe.points[beyond.nonzero()[0, 0]].tolist())
                raise ProblemError(f"this looks at the field at ({at}), outside the domain", where)

    # -- reading ---------------------------------------------------------------------------------------------------

    def _place(self, equation: Equation) -> Place:
        problem, k = self.problem, equation.number
        if equation.file is not None:
            scattered = self._read_file(equation.file, ("equations", k, "file"))
            refuse_outside(scattered.points, problem.domain, equation.file, ("equations", k, "file"))
            for name in scattered.columns:
                if name in problem.regional.any:
                    raise ProblemError(
                        f"the column {name!r} of {equation.file} has the name of a parameter; rename one",
                        ("equations", k, "file"),
                    )
            return Place("file", equation.file, file=scattered)
        where = ("equations", k, "on")
        number = partial(problem.number, where=where)
        regions = () if problem.regions is None else problem.regions.names
        found = read_place(equation.on, problem.domain, problem.space.coordinates, number, where, regions)
        if problem.regions is None or equation.region is None:
            return found
        text = equation.region if found.kind == "interior" else f"{found.text} of {equation.region}"
        return replace(found, text=text, region=problem.regions.names.index(equation.region))

    def _names(self, k: int) -> set[str]:
        """Parameters, columns and the normal that the equation uses."""
        equation, place, problem = self.equations[k], self.places[k], self.problem
        where = ("equations", equation.number, "equation")
        parameters = problem.parameters_in(equation.region)
        extra: dict[str, object] = dict(place.file.columns) if place.file is not None else {}
        free = NORMAL not in (*parameters, *extra, *problem.space.coordinates, *problem.space.channels)
        if free:
            width = len(problem.space.frame.spatial)
            extra[NORMAL] = torch.ones(2, width, dtype=torch.float64)
        try:
            names = problem.used_in(equation.latex, {**parameters, **extra}, where)  # as they are in this region
        except ProblemError as error:
            if place.file is None:
                raise
            known = ", ".join(place.file.columns) or "none"
            raise ProblemError(
                f"{error.message}\n(the columns of {place.text} besides coordinates: {known})", where
            ) from None
        if equation.region is None:
            refuse_varying(problem, equation.latex, where, extra)
        if free and NORMAL in names and not self._has_normal(place):
            raise ProblemError(
                f"there is no outward normal on {place.text!r}; \\mathbf{{n}} and \\partial_n mean something on "
                "'boundary', on the boundary of a shape and on faces such as 'x = 0'",
                where,
            )
        return names

    def _has_normal(self, place: Place) -> bool:
        if place.kind in ("boundary", "shape"):
            return True
        if place.kind != "slice" or len(place.fixed or {}) != 1:
            return False
        return sample(place, self.problem.domain, 4, "halton", 0).normals is not None

    def _read_cloud(self) -> Scattered | None:
        file = self.problem.points.file
        if file is None:
            return None
        found = self._read_file(file, ("points", "file"))
        refuse_outside(found.points, self.problem.domain, file, ("points", "file"))
        return found

    def _read_file(self, name: str, where: tuple[str | int, ...]) -> Scattered:
        if name not in self._files:
            try:
                self._files[name] = read_scattered(self.problem.folder / name, self.problem.space.coordinates)
            except CnfError as error:
                raise ProblemError(str(error), where) from None
        return self._files[name]


def _thinned(values: Tensor, share: float, seed: int) -> Tensor:
    """A random part of the rows, the same rows for the same seed and number."""
    if share >= 1 or values.shape[0] <= 8:
        return values
    keep = torch.randperm(values.shape[0], generator=torch.Generator().manual_seed(seed))
    return values[keep[: max(8, round(share * values.shape[0]))].sort().values]
