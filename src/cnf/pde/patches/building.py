"""Building: the equations of a problem on given cells, as a field to be solved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from cnf.bases.cells import Face
from cnf.bases.piecewise import Piecewise
from cnf.bases.ties import Tie
from cnf.constraints import Constraint
from cnf.constraints.constraint import RightHandSide, make_constraint
from cnf.errors import OverdeterminedError
from cnf.field import ConstrainedField
from cnf.operators import partial
from cnf.operators.operator import Operator
from cnf.pde.domains.domain import Sample
from cnf.pde.patches.aligned import borders_of
from cnf.pde.patches.first_order import wanted_on_boundary
from cnf.pde.patches.fitted import arc_sample, guide_strengths, make_guides, make_loose_ties
from cnf.pde.patches.following import following, free_motions
from cnf.pde.patches.interfaces import interface_ties
from cnf.pde.patches.layout import Counts, Seam, face_points, interior_points, seams
from cnf.pde.patches.local_bases import local_basis
from cnf.pde.patches.mesh import Mesh
from cnf.pde.patches.orders import Orders
from cnf.pde.patches.question import Part, Question
from cnf.pde.patches.shaped import Shaped
from cnf.pde.patches.shaped_layout import joined_borders


def orders_of(question: Question, area: int | None = None) -> Orders:
    """Of the equations of the interior; of those of a region, by default the first: all have the same orders."""
    numbers = question.inside_of(0 if area is None else area)
    return Orders.of([question.constraints[k] for k in numbers], question.time)


def orders_by_region(question: Question) -> list[Orders]:
    return [orders_of(question, area) for area in range(question.areas)]


@threadpool_limits.wrap(limits=1, user_api="blas")  # points are picked by many small factorisations
def build_field(question: Question, orders: Orders, mesh: Mesh) -> ConstrainedField:
    """The field on these cells with all conditions."""
    counts = Counts(orders, mesh.degree)
    constraints = place_conditions(question, mesh, counts)
    ties = make_ties(question, orders, mesh, counts)
    local = None if question.local is None else local_basis(question.local, question.space, counts)
    basis = Piecewise(
        question.space,
        mesh.patches,
        list(mesh.degree),
        ties,
        counts.circular,
        orders.time,
        corners=mesh.corners,
        at_corner=mesh.at_corner,
        channel_degrees=counts.by_channel,
        guides=make_guides(question, mesh),
        guide_strength=mesh.strength,
        local=local,
        corner_depth=max(1, counts.depth),
        loose=loose_ties(question, orders, mesh),
        strengths=guide_strengths(mesh),
    )
    given, functions = sum(c.rows for c in constraints) + basis.brought_conditions, int(basis.active().sum())
    twice = said_twice(question, orders, mesh)
    if mesh.shaped_layout is not None and (given > functions or twice):  # laid out to be as many, or fewer with guides
        raise OverdeterminedError(f"{given} conditions for {functions} functions")
    settings = {"tolerance": question.tolerance, "on_violation": "warn"}
    return ConstrainedField(basis, constraints, mesh.base, start=question.start, **settings)  # type: ignore[arg-type]


def place_conditions(question: Question, mesh: Mesh, counts: Counts) -> list[Constraint]:
    """Every equation at the points that the cells give it; what follows from the others is left out."""
    samples = boundary_samples(question, mesh, counts)
    for k, (own, left_out) in zip(question.inside, points_inside(question, mesh, counts), strict=True):
        samples[k] = Sample(_tensor(own[~left_out]), None)
    return [question.at(k, samples[k]) if k in samples else c for k, c in enumerate(question.constraints)]


def boundary_samples(question: Question, mesh: Mesh, counts: Counts) -> dict[int, Sample]:
    """By the number of the equation; inner slices, single points, files, integrals have none: they stay as they are."""
    found: dict[int, Sample] = {}
    for k, place in enumerate(question.places):
        if place.kind == "interior":
            continue
        if mesh.shaped_layout is None:
            own = [f for f in mesh.faces if f.second < 0 and holds_on(place, f, counts.orders)]
            own = [f for f in own if place.region in (None, mesh.region[f.first])]
            sample = face_sample(own, counts) if own else None
        elif mesh.shaped_layout.start is not None and (place.fixed or {}) == {question.time: question.domain.lower[-1]}:
            start = mesh.shaped_layout.start
            here = place.region is None or question.regions is None or question.regions.number(start) == place.region
            sample = Sample(_tensor(start[here].reshape(-1, start.shape[1])), None)
        else:
            arcs = mesh.shaped_layout.arcs
            sample = arc_sample([a for a in arcs if question.holds(k, a.curve, a.points, a.normals)])
        if sample is not None:
            found[k] = sample
    return found


def said_twice(question: Question, orders: Orders, mesh: Mesh) -> bool:
    """Whether parts of the boundary of a planar shape have more conditions than its equations take."""
    if not isinstance(mesh.shaped, Shaped) or mesh.shaped_layout is None:
        return False
    for arc in mesh.shaped_layout.arcs:
        most = len(orders.channels) - sum(orders.multipliers)
        if mesh.first is not None:
            most = int(wanted_on_boundary(orders, arc.points, arc.normals).max())
        own = [k for k in range(len(question.places)) if question.holds(k, arc.curve, arc.points, arc.normals)]
        if sum(len(question.constraints[k].operator.rows) for k in own) > most:
            return True
    return False


def conditions_wanted(question: Question, orders: Orders, mesh: Mesh) -> int:
    """How many conditions there are inside and on the boundary of a planar shape if none is missing, of first order."""
    assert mesh.shaped_layout is not None
    inside = (len(interior(mesh, Counts(orders, mesh.degree), e, 0)) * len(e.operator.rows) for e in orders.equations)
    return sum(inside) + sum(
        int(wanted_on_boundary(orders, arc.points, arc.normals).sum()) for arc in mesh.shaped_layout.arcs
    )


def points_inside(question: Question, mesh: Mesh, counts: Counts) -> list[tuple[np.ndarray, np.ndarray]]:
    """For every equation inside its points (P, D), and which of them are left out as they follow from the rest."""
    motions = None
    if counts.orders.time is None:
        holding = [question.constraints[k] for k in (*question.inside, *boundary_samples(question, mesh, counts))]
        motions = free_motions(holding, question.domain.lower, question.domain.upper)
    found: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {k: [] for k in question.inside}
    for area in range(question.areas):
        own = Counts(orders_of(question, area), mesh.degree)
        points = [interior(mesh, own, equation, area) for equation in own.orders.equations]
        left_out = [np.zeros(len(p), dtype=bool) for p in points]
        if motions is not None and area == 0:  # what is free is free in all regions together: values are tied
            left_out = following(motions, own.orders, mesh.patches, points)
        for k, part in zip(question.inside_of(area), zip(points, left_out, strict=True), strict=True):
            found[k].append(part)
    # An equation of no region in particular, such as the meaning of a rate, has parts in all of them.
    parts = (zip(*found[k], strict=True) for k in question.inside)
    return [(np.concatenate(points), np.concatenate(left_out)) for points, left_out in parts]


def interior(mesh: Mesh, counts: Counts, equation: Constraint, area: int) -> np.ndarray:
    """The points of an equation inside, (P, D), of one region."""
    if mesh.shaped_layout is not None:
        layout = mesh.shaped_layout
        restrains = any(counts.orders.restrains(equation))
        points, owner = layout.restrained if restrains else layout.interior, layout.owners[restrains]
        if layout.local is not None and counts.orders.is_local(equation):
            points, owner = layout.local
        if mesh.first is not None:
            points, owner = layout.by_orders[tuple(counts.orders.counted(equation))]
        return points[mesh.region[owner] == area]
    placed = interior_points(mesh.cells, counts, counts.orders.counted(equation))
    return placed[mesh.region == area].reshape(-1, mesh.cells.dimension)


def holds_on(place: Part, face: Face, orders: Orders) -> bool:
    """Whether an equation of this place holds on a face of the boundary."""
    if place.kind in ("boundary", "shape"):
        return face.axis != orders.time
    fixed = place.fixed or {}
    return place.kind == "slice" and len(fixed) == 1 and fixed.get(face.axis) == face.position


def face_sample(faces: Sequence[Face], counts: Counts) -> Sample:
    """The points of faces on the boundary and the outward normals, of space only."""
    points, normals = [], []
    for axis, side in sorted({(f.axis, f.side) for f in faces}):
        own = [f for f in faces if (f.axis, f.side) == (axis, side)]
        low, high = (np.stack([getattr(f, name) for f in own]) for name in ("lower", "upper"))
        fewer = side == 0 and axis in counts.circular
        placed = face_points(low, high, axis, counts, fewer).reshape(-1, low.shape[1])
        unit = np.zeros_like(placed)
        unit[:, axis] = 2.0 * side - 1.0
        points.append(placed)
        normals.append(unit[:, counts.orders.spatial])
    return Sample(_tensor(np.concatenate(points)), _tensor(np.concatenate(normals)))


def make_ties(question: Question, orders: Orders, mesh: Mesh, counts: Counts) -> list[Tie]:
    """What must agree across faces, coordinate by coordinate, and on the interfaces of regions."""
    layout = mesh.shaped_layout
    known = seams(mesh.cells, mesh.faces, counts) if layout is None else layout.seams
    if question.regions is None:
        return seam_ties(question, orders, known)
    found: list[Tie] = []
    by_region = orders_by_region(question)
    for area, name in enumerate(question.regions.names):
        inside = {key: [mesh.region[side] == area for side in (s.first, s.second)] for key, s in known.items()}
        own = {key: seam.where(np.logical_and(*inside[key])) for key, seam in known.items()}
        kept = {key: seam for key, seam in own.items() if len(seam.points)}
        found += seam_ties(question, by_region[area], kept, f" in {name}")
    borders = borders_of(question.regions, known, mesh.region)
    for key, border in layout.borders.items() if layout is not None else ():
        borders.setdefault(key, []).append(border)
    for (number, kind), parts in borders.items():
        border = joined_borders(parts)
        if len(border.points):
            found += interface_ties(question, by_region, number, kind, border)
    return found


def seam_ties(question: Question, orders: Orders, known: Mapping[tuple[int, str], Seam], label: str = "") -> list[Tie]:
    """What must agree across faces between cells of one region."""
    found: list[Tie] = []
    for axis, name in enumerate(question.space.coordinates):
        fluxes = orders.fluxes(axis)
        for channel, order in orders.normal_derivatives(axis):
            coarse = axis != orders.time and (channel, order) in orders.tied_at_coarse(axis)
            kind = "coarse" if coarse else "fine"
            if (axis, kind) not in known or (fluxes and kind == "coarse"):
                continue
            operator = question.space.operator(partial(name, order, channel))
            found.append(_tie(operator, known[axis, kind], f"{_shown(channel, name, order)} across {name}{label}"))
        for k, flux in enumerate(fluxes if (axis, "coarse") in known else ()):
            number = "" if len(fluxes) == 1 else f" {k + 1}"
            found.append(_tie(flux, known[axis, "coarse"], f"flux{number} across {name}{label}"))
    return found


def loose_ties(question: Question, orders: Orders, mesh: Mesh) -> list[Tie]:
    """What must agree at more points than exact ties have: to come close to."""
    found = make_loose_ties(question, orders_by_region(question), mesh)
    if mesh.shaped_layout is not None and mesh.shaped_layout.guiding_seams:
        found += seam_ties(question, orders, mesh.shaped_layout.guiding_seams)
    return found


def _shown(channel: str, name: str, order: int) -> str:
    return channel if not order else f"{channel}_{name * order}"


def _tie(operator: Operator, seam: Seam, name: str) -> Tie:
    side = RightHandSide(0.0, operator._needs_frame())
    condition = make_constraint(name, operator, _tensor(seam.points), side)
    return Tie(condition, torch.from_numpy(seam.first), torch.from_numpy(seam.second))


def _tensor(points: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(points, dtype=np.float64))
