"""Places: where an equation holds, from its text: "interior", "boundary", "x = 0", "hole1", or the points of a file."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cnf.errors import CnfError, DomainError, ProblemError, nearest
from cnf.pde.domains import Domain, Timed
from cnf.pde.domains.boundary import STEP, Curve, by_shape, spread
from cnf.pde.domains.domain import Sample, named_parts
from cnf.pde.domains.part_names import PARTS, known_parts, unknown_part
from cnf.pde.domains.regions import Regions, at_times
from cnf.pde.patches.question import holds_along
from cnf.pde.problems.scattered import Scattered

TOUCH = 1e-9  # of the extent: points that far outside count as on the boundary
HELD_OUT, HELD_OUT_FACE = 400, 120  # points of a check
ON_PIECE = 400  # points of a piece of the boundary of a region


@dataclass(frozen=True)
class Place:
    """A part of the domain: its kind, the fixed coordinates of a slice {axis: value}, or the name of a shape."""

    kind: str  # "interior", "boundary", "shape", "slice", "file" or "nowhere"
    text: str
    shape: str | None = None
    fixed: Mapping[int, float] | None = None
    file: Scattered | None = None
    region: int | None = None  # the number of the one it is restricted to

    @property
    def dimension_lost(self) -> int:
        """How many dimensions the part has less than the domain."""
        if self.kind == "slice":
            return len(self.fixed or {})
        return {"interior": 0, "file": 0}.get(self.kind, 1)


def read_place(
    text: str | None,
    domain: Domain,
    coordinates: tuple[str, ...],
    number: Callable[[str], float],
    where: tuple,
    regions: Sequence[str] = (),
) -> Place:
    """The part of the domain that the text of `on` names; `regions` are those it could have named as well."""
    if text is None:
        return Place("nowhere", "everywhere")
    cleaned = " ".join(text.split())
    if cleaned in PARTS:
        return Place(cleaned, cleaned)
    but, names = named_parts(cleaned)
    if all(name in domain.parts for name in names):
        try:
            domain.boundary_measure(cleaned)
        except DomainError as error:
            raise ProblemError(str(error), where) from None
        return Place("shape", cleaned, shape=cleaned)
    if but:
        wrong = next(name for name in names if name not in domain.parts)
        listed = f"known are {', '.join(domain.parts)}" if domain.parts else "none has a name"
        faces = "; faces such as x = 0 can be left out on boxes" if "=" in wrong else ""
        raise ProblemError(
            f"no part of the boundary is called {wrong!r}; {listed}{faces}.{nearest(wrong, domain.parts)}", where
        )
    pieces = [piece.strip() for piece in cleaned.split(",")]
    if all(re.match(r"[A-Za-z][A-Za-z0-9_]*\s*=", piece) for piece in pieces):
        fixed: dict[int, float] = {}
        for piece in pieces:
            name, _, value = (part.strip() for part in piece.partition("="))
            if name not in coordinates:
                raise ProblemError(
                    f"{name!r} is not a coordinate; they are {', '.join(coordinates)}.{nearest(name, coordinates)}",
                    where,
                )
            axis = coordinates.index(name)
            if axis in fixed:
                ends = {fixed[axis], number(value)} == {domain.lower[axis], domain.upper[axis]}
                both = (
                    f"'{_all_but(axis, domain, coordinates)}', or "
                    if ends and domain._is_box and not _is_time(axis, domain)
                    else ""
                )
                raise ProblemError(
                    f"{name!r} is given twice, and a comma means that all of these hold at once; for both places write "
                    f"{both}two entries",
                    where,
                )
            fixed[axis] = _within(number(value), domain, axis, name, where)
        return Place("slice", cleaned, fixed=fixed)
    raise ProblemError(unknown_part(cleaned, known_parts(regions, domain.parts, coordinates)), where)


def other_faces(
    text: str, domain: Domain, coordinates: tuple[str, ...], number: Callable[[str], float], where: tuple
) -> list[str]:
    """The faces of a box that "boundary except x = 0, y = 1" leaves, as the texts of slices; none for other texts."""
    but, names = named_parts(text)
    if not but or not domain._is_box or not all("=" in name for name in names):
        return []
    spatial = range(domain.dimension - isinstance(domain, Timed))
    faces = {(k, end): f"{coordinates[k]} = {end!r}" for k in spatial for end in (domain.lower[k], domain.upper[k])}
    for name in names:
        ((axis, value),) = (read_place(name, domain, coordinates, number, where).fixed or {}).items()
        if (axis, value) not in faces:
            raise ProblemError(
                f"{name} is no face of the box; they are {', '.join(map(_plain, faces.values()))}", where
            )
        del faces[axis, value]
    if not faces:
        raise ProblemError("nothing is left of the boundary without these faces", where)
    return [_plain(face) for face in faces.values()]


def _is_time(axis: int, domain: Domain) -> bool:
    return isinstance(domain, Timed) and axis == domain.dimension - 1


def _all_but(axis: int, domain: Domain, coordinates: tuple[str, ...]) -> str:
    """The text of the two faces of a box where a coordinate ends: all others are left out."""
    spatial = [k for k in range(domain.dimension - isinstance(domain, Timed)) if k != axis]
    others = [f"{coordinates[k]} = {end:g}" for k in spatial for end in (domain.lower[k], domain.upper[k])]
    return f"boundary except {', '.join(others)}" if others else "boundary"


def _plain(face: str) -> str:
    return face.removesuffix(".0")


def _within(value: float, domain: Domain, axis: int, name: str, where: tuple) -> float:
    low, high = domain.lower[axis], domain.upper[axis]
    slack = TOUCH * (high - low)
    if not low - slack <= value <= high + slack:
        raise ProblemError(
            f"{name} = {value:g} lies outside the domain, where {name} runs from {low:g} to {high:g}", where
        )
    return low if abs(value - low) <= slack else high if abs(value - high) <= slack else value


def sample_in(
    place: Place, domain: Domain, regions: Regions | None, count: int, layout: str, seed: int
) -> Sample | None:
    """Points of the part within its region, if it is restricted to one; None if that has none of it."""
    if regions is None or place.region is None:
        return sample(place, domain, count, layout, seed)
    if place.kind == "interior":
        return Sample(regions.part(place.region).fill(count, layout, seed), None)
    if _is_instant(place, domain):
        ((axis, value),) = (place.fixed or {}).items()
        return regions.part(place.region).slice_points(axis, value, count, layout, seed)
    pieces = on_boundary(place, domain, regions, seed)
    found = [(x[own == place.region], n[own == place.region]) for x, n, own in pieces]
    points, normals = (np.concatenate([part[k] for part in found]) for k in (0, 1))
    if regions.during is not None and len(points):
        points, normals = at_times(points, normals, count, regions.during, seed)
    kept = np.random.default_rng(seed).permutation(len(points))[:count]
    return Sample(torch.from_numpy(points[kept]), torch.from_numpy(normals[kept])) if len(points) else None


def on_boundary(
    place: Place, domain: Domain, regions: Regions, seed: int = 0
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Points of a part of the boundary of space, the normals and the regions, piece by piece; thin ones have some."""
    if _is_instant(place, domain):
        instant = [regions.in_space(k).fill(4, "halton", 0).numpy() for k in range(len(regions.names))]
        return [(x, np.zeros_like(x), np.full(len(x), k)) for k, x in enumerate(instant)]
    if regions.space.dimension != 2:
        return _on_pieces(place, regions, seed)
    curves = [c for c in domain._pieces if isinstance(c, Curve)]
    middle = np.array([0.3, 0.7])
    own = [c for c in curves if holds_along(place, c, c.at(c.start + c.measure * middle)[0])]
    return [regions.on_boundary(curve) for curve in own]


def _on_pieces(place: Place, regions: Regions, seed: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The same on ends and surfaces: of every piece of the boundary of a region, what bounds the domain, too."""
    space, found = regions.space, []
    step = STEP * space._size
    for k in range(len(regions.names)):
        for piece in regions.in_space(k)._pieces:
            points, normals = spread([piece], ON_PIECE, seed)
            outer = ~space._inside(points + step * normals)
            points, normals = points[outer], normals[outer]
            for part, own in by_shape(space, points, 2 * step):
                alone = [n for n in np.flatnonzero(own) if holds_along(place, part, points[n : n + 1])]
                found.append((points[alone], normals[alone], np.full(len(alone), k)))
    return found


def _is_instant(place: Place, domain: Domain) -> bool:
    """Whether a part is the whole of space at a moment."""
    return isinstance(domain, Timed) and set(place.fixed or {}) == {domain.dimension - 1}


def sample(place: Place, domain: Domain, count: int, layout: str, seed: int) -> Sample:
    """Points of the part, and outward normals where it is on the boundary."""
    if place.kind == "file":
        assert place.file is not None
        return Sample(place.file.points, None)
    if place.kind == "interior":
        return Sample(domain.fill(count, layout, seed), None)
    if place.kind in ("boundary", "shape"):
        return domain.boundary_points(count, seed, place.shape)
    assert place.fixed is not None
    if len(place.fixed) == 1:  # in one dimension a point, which has a normal at either end
        ((axis, value),) = place.fixed.items()
        return domain.slice_points(axis, value, count, layout, seed)
    if len(place.fixed) == domain.dimension:
        point = [place.fixed[k] for k in range(domain.dimension)]
        return Sample(torch.tensor([point], dtype=torch.float64), None)
    return Sample(_edge_points(place, domain, count, seed), None)


def _edge_points(place: Place, domain: Domain, count: int, seed: int) -> Tensor:
    """Points with several coordinates fixed: the rest of the bounding box, as far as it lies in the domain."""
    from cnf.pde.domains import Box

    assert place.fixed is not None
    free = [k for k in range(domain.dimension) if k not in place.fixed]
    rest = Box([domain.lower[k] for k in free], [domain.upper[k] for k in free]).fill(count, "halton", seed)
    points = torch.empty(rest.shape[0], domain.dimension, dtype=torch.float64)
    points[:, free] = rest
    for axis, value in place.fixed.items():
        points[:, axis] = value
    inside = domain.contains(points, -TOUCH * _extent(domain))
    if not bool(inside.any()):
        raise CnfError(f"{place.text} does not meet the domain")
    return points[inside]


def interior_spacing(domain: Domain, count: int) -> float:
    """The distance between neighbours if `count` points fill the domain evenly, time measured as space is."""
    return (domain.volume * _time_scale(domain) / count) ** (1 / domain.dimension)


def _time_scale(domain: Domain) -> float:
    """What a unit of time counts: the whole of it as much as the mean extent of space."""
    if not isinstance(domain, Timed):
        return 1.0
    extents = [b - a for a, b in zip(domain.lower, domain.upper, strict=True)]
    return math.prod(extents[:-1]) ** (1 / (len(extents) - 1)) / extents[-1]


def default_count(place: Place, domain: Domain, spacing: float) -> int:
    """How many points give the part the spacing of the interior."""
    last = domain.dimension - 1
    dimension = domain.dimension - place.dimension_lost
    if dimension <= 0:
        return 2
    if place.kind in ("boundary", "shape"):
        measure = domain.boundary_measure(place.shape)
    elif place.fixed is not None and len(place.fixed) == 1:
        ((axis, value),) = place.fixed.items()
        measure = domain.slice_measure(axis, value)
    else:
        assert place.fixed is not None
        measure = math.prod(domain.upper[k] - domain.lower[k] for k in range(domain.dimension) if k not in place.fixed)
    if last not in (place.fixed or {}):
        measure *= _time_scale(domain)
    return max(4, round(measure / spacing**dimension))


def refuse_outside(points: Tensor, domain: Domain, what: str, where: tuple) -> None:
    """Points of a file must lie in the domain or on its boundary."""
    inside = domain.contains(points, -1e-6 * _extent(domain))
    outside = (~inside).nonzero()[:, 0]
    if len(outside):
        first = ", ".join(f"{v:g}" for v in points[outside[0]].tolist())
        raise ProblemError(
            f"{len(outside)} of {points.shape[0]} points of {what} lie outside the domain, first ({first}) in row "
            f"{int(outside[0]) + 1}; remove them or enlarge the domain",
            where,
        )


def _extent(domain: Domain) -> float:
    return max(b - a for a, b in zip(domain.lower, domain.upper, strict=True))
