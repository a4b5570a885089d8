"""Asked: the formulas of a question, each with the cells in which it has to be followed.

In: equations inside, on faces and curves of the boundary, and on interfaces. Out: what is known of them as formulas.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch

from cnf.bases.cells import Cells
from cnf.pde.domains.boundary import Curve
from cnf.pde.patches.aligned import meets_faces
from cnf.pde.patches.building import holds_on
from cnf.pde.patches.formulas import Formula, Meets, known_formulas
from cnf.pde.patches.meeting import meets_curves, meets_domain
from cnf.pde.patches.mesh import is_aligned
from cnf.pde.patches.orders import Orders
from cnf.pde.patches.outline import curves_of
from cnf.pde.patches.question import Question, holds_along
from cnf.pde.patches.solid import is_curved_solid, shapes_of, space_of
from cnf.pde.patches.solid_surface import meets_surface

INNER = np.array([0.3, 0.7])  # where a curve is asked whether a condition holds on it


def asked_formulas(question: Question, orders: Orders) -> list[Formula]:
    """Of the equations inside, of those on the faces of the box or on the boundary, and of those on interfaces."""
    domain, regions = question.domain, question.regions
    found: list[Formula] = interface_formulas(question)
    for k in question.inside:
        found += known_formulas(question.constraints[k], meets=_within(question, k))
    if is_curved_solid(domain, regions):
        for place, condition in zip(question.places, question.constraints, strict=True):
            if orders.time is not None and orders.time in (place.fixed or {}):
                found += known_formulas(condition, orders.time, domain.lower[orders.time])
            elif place.kind != "interior":
                shapes = shapes_of(space_of(domain), place.shape if place.kind == "shape" else None)
                curved = [shape for shape in shapes if not shape._is_box]
                if curved:
                    found += known_formulas(condition, meets=partial(meets_surface, curved), sides_only=True)
                for face in (f for shape in shapes if shape._is_box for f in Cells(shape.lower, shape.upper).faces()):
                    if place.kind != "slice" or holds_on(place, face, orders):
                        found += known_formulas(condition, face.axis, face.position)
        return found
    if not domain._is_box or (regions is not None and not is_aligned(domain, regions)):
        for k, condition in enumerate(question.constraints):
            if orders.time is not None and orders.time in (question.places[k].fixed or {}):
                found += known_formulas(condition, orders.time, domain.lower[orders.time])
                continue
            own = [c for c in curves_of(domain) if holds_somewhere(question, k, c)]
            found += known_formulas(condition, meets=partial(meets_curves, own), sides_only=True) if own else []
        return found
    for face in Cells(domain.lower, domain.upper).faces():
        for k, (place, condition) in enumerate(zip(question.places, question.constraints, strict=True)):
            if place.kind != "interior" and holds_on(place, face, orders):
                found += known_formulas(condition, face.axis, face.position, _within(question, k))
    return found


def holds_somewhere(question: Question, k: int, curve: Curve) -> bool:
    """Whether equation k holds on a curve of the boundary, or on that part of it which its region has."""
    area, regions = question.places[k].region, question.regions
    inner, _ = curve.at(curve.start + curve.measure * INNER)
    if question.places[k].kind == "interior" or not holds_along(question.places[k], curve, inner):
        return False
    return regions is None or area is None or area in regions.on_boundary(curve)[2]


def _within(question: Question, k: int) -> Meets:
    """Which cells have a part of the region that equation k is restricted to, or of the domain."""
    area, regions = question.places[k].region, question.regions
    return partial(meets_domain, question.domain if regions is None or area is None else regions.part(area))


def interface_formulas(question: Question) -> list[Formula]:
    """Of the conditions given on interfaces."""
    found: list[Formula] = []
    regions = question.regions
    for number, face in enumerate(regions.interfaces if regions is not None else ()):
        curves = [piece for piece in face.pieces if isinstance(piece, Curve)]
        meets = partial(meets_curves, curves) if curves else partial(meets_faces, face)
        if not curves and face.flat_at is None and regions is not None:
            meets = partial(meets_surface, shapes_of(regions.in_space(face.first), None))
        points, normals = (torch.from_numpy(a) for a in face.sample(4, 0))
        for jump in (j for j in question.jumps if number in j.interfaces):
            for condition in jump.at(number, points, normals):
                found += known_formulas(condition, meets=meets, sides_only=True)
    return found
