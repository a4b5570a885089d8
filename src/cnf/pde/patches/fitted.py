"""Fitted: what conditions leave open in patches that are cut is fitted, inside, on the boundary and on interfaces.

In come the points of a layout, out go guides, ties that are loose, and how much those of every patch count.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from cnf.bases.ties import Guide, Tie
from cnf.pde.domains.domain import Sample
from cnf.pde.patches.interfaces import interface_ties
from cnf.pde.patches.mesh import Mesh
from cnf.pde.patches.orders import Orders, is_local
from cnf.pde.patches.question import Question
from cnf.pde.patches.shaped_layout import Arc


def make_guides(question: Question, mesh: Mesh) -> list[Guide]:
    """Every equation at more points of patches that are cut: what its exact points leave open is fitted there."""
    layout = mesh.shaped_layout
    if layout is None or not len(layout.guides):
        return []
    found = []
    owner = mesh.patches.locate(layout.guides)
    for k, place in enumerate(question.places):
        if place.kind == "interior":
            if layout.local is not None and is_local(question.constraints[k], question.time):
                continue  # has as many points as functions
            areas = range(question.areas) if place.region is None else [place.region]
            own = np.flatnonzero(np.isin(mesh.region[owner], areas))
            if len(own):  # regions without a patch that is cut have none
                sample = Sample(_tensor(layout.guides[own]), None)
                found.append(Guide(question.at(k, sample), torch.from_numpy(owner[own])))
            continue
        if question.time is not None and question.time in (place.fixed or {}):
            continue  # the start has as many points as functions
        arcs = [a for a in layout.guiding_arcs if question.holds(k, a.curve, a.points, a.normals)]
        along = arc_sample(arcs)
        if along is not None:
            cells = np.concatenate([np.full(len(a.points), a.patch) for a in arcs])
            found.append(Guide(question.at(k, along), torch.from_numpy(cells)))
    return found


def make_loose_ties(question: Question, orders: Sequence[Orders], mesh: Mesh) -> list[Tie]:
    """What holds on interfaces, at more points: what exact ones leave open there is fitted; `orders` by region."""
    borders = {} if mesh.shaped_layout is None else mesh.shaped_layout.guiding_borders
    return [
        tie for (number, kind), own in borders.items() for tie in interface_ties(question, orders, number, kind, own)
    ]


def guide_strengths(mesh: Mesh) -> np.ndarray | None:
    """How much guides of every patch count, (patches,), where something is fitted across regions.

    What is off in a region is relative to how much the field varies there. In a good conductor that takes its values
    from others it varies little, in one that has values of its own as much as anywhere. The larger its coefficients,
    the less it may vary at most; as long as nothing else is known, something in between.
    """
    if mesh.shaped_layout is None or not mesh.shaped_layout.guiding_borders:
        return None
    most = np.array(mesh.stiffness) / min(mesh.stiffness)
    if not mesh.amplitudes:
        return np.sqrt(most)[mesh.region]
    varying = np.array(mesh.amplitudes)
    return np.clip(varying.max() / np.maximum(varying, 1e-300), 1.0, most)[mesh.region]


def arc_sample(arcs: Sequence[Arc]) -> Sample | None:
    """The points of parts of the boundary and the outward normals."""
    if not arcs:
        return None
    return Sample(*(_tensor(np.concatenate([getattr(a, name) for a in arcs])) for name in ("points", "normals")))


def _tensor(points: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(points, dtype=np.float64))
