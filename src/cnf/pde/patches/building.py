"""Building: the equations of a problem on given cells, as a field to be solved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cnf.bases.cells import Cells, Face
from cnf.bases.piecewise import Piecewise, Tie
from cnf.constraints import Constraint
from cnf.constraints.constraint import RightHandSide, make_constraint
from cnf.field import ConstrainedField
from cnf.operators import partial
from cnf.operators.operator import Operator
from cnf.pde.domains.domain import Sample
from cnf.pde.patches.layout import Counts, Seam, face_points, interior_points, seams
from cnf.pde.patches.orders import Orders, orders_along
from cnf.pde.patches.question import Part, Question


@dataclass(frozen=True)
class Mesh:
    """Cells, the degree on them, and their faces."""

    cells: Cells
    degree: tuple[int, ...]
    faces: tuple[Face, ...]

    @staticmethod
    def of(cells: Cells, degree: Sequence[int]) -> Mesh:
        return Mesh(cells, tuple(degree), tuple(cells.faces()))


def orders_of(question: Question) -> Orders:
    """Of the equations of the interior."""
    return Orders.of([question.constraints[k] for k in question.inside], question.time)


def build_field(question: Question, orders: Orders, mesh: Mesh) -> ConstrainedField:
    """The field on these cells with all conditions."""
    counts = Counts(orders, mesh.degree)
    constraints = place_conditions(question, mesh, counts)
    ties = make_ties(question, orders, mesh, counts)
    basis = Piecewise(question.space, mesh.cells, list(mesh.degree), ties, counts.circular, orders.time)
    return ConstrainedField(basis, constraints, tolerance=question.tolerance, on_violation="warn")


def place_conditions(question: Question, mesh: Mesh, counts: Counts) -> list[Constraint]:
    """Every equation at the points that the cells give it."""
    found = []
    for k, place in enumerate(question.places):
        if place.kind == "interior":
            points = interior_points(mesh.cells, counts, orders_along(question.constraints[k]))
            found.append(question.at(k, Sample(_tensor(points.reshape(-1, points.shape[2])), None)))
            continue
        own = [f for f in mesh.faces if f.second < 0 and holds_on(place, f, counts.orders)]
        if own:
            found.append(question.at(k, face_sample(own, counts)))
        else:
            found.append(question.constraints[k])  # inside slices, single points, files, integrals: as they are
    return found


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
        fewer = side == 0 and axis == min(counts.circular, default=-1)
        placed = face_points(low, high, axis, counts, fewer).reshape(-1, low.shape[1])
        unit = np.zeros_like(placed)
        unit[:, axis] = 2.0 * side - 1.0
        points.append(placed)
        normals.append(unit[:, counts.orders.spatial])
    return Sample(_tensor(np.concatenate(points)), _tensor(np.concatenate(normals)))


def make_ties(question: Question, orders: Orders, mesh: Mesh, counts: Counts) -> list[Tie]:
    """What must agree across faces, coordinate by coordinate."""
    found: list[Tie] = []
    known = seams(mesh.cells, mesh.faces, counts)
    for axis, name in enumerate(question.space.coordinates):
        fluxes = orders.fluxes(axis)
        for channel, order in orders.normal_derivatives(axis):
            half = -(-orders.along(axis) // 2)
            kind = "fine" if axis == orders.time or order < half else "coarse"
            if (axis, kind) not in known or (fluxes and kind == "coarse"):
                continue
            operator = question.space.operator(partial(name, order, channel))
            found.append(_tie(operator, known[axis, kind], f"{_shown(channel, name, order)} across {name}"))
        for k, flux in enumerate(fluxes if (axis, "coarse") in known else ()):
            number = "" if len(fluxes) == 1 else f" {k + 1}"
            found.append(_tie(flux, known[axis, "coarse"], f"flux{number} across {name}"))
    return found


def _shown(channel: str, name: str, order: int) -> str:
    return channel if not order else f"{channel}_{name * order}"


def _tie(operator: Operator, seam: Seam, name: str) -> Tie:
    side = RightHandSide(0.0, operator._needs_frame())
    condition = make_constraint(name, operator, _tensor(seam.points), side)
    return Tie(condition, torch.from_numpy(seam.first), torch.from_numpy(seam.second))


def _tensor(points: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(points, dtype=np.float64))
