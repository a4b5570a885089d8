"""Layout: which conditions and which unknowns belong together, decided once per field.

Channels that no condition couples are solved apart, and channels that see the same matrix are solved with one
factorisation and several right-hand sides. A row is named (constraint, operator row); it stands for all points of the
constraint, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cnf.bases.basis import Basis
from cnf.constraints import Constraint

RowName = tuple[int, int]  # index of the constraint, index of the operator row


@dataclass(frozen=True)
class Copy:
    """One right-hand side of a block: the rows it takes its values from and the channels it gives weights to."""

    rows: tuple[RowName, ...]
    channels: tuple[int, ...]
    groups: tuple[RowName, ...] = ()  # Hermite with several channels: the functions, by condition, it gives weights to


@dataclass(frozen=True)
class BlockLayout:
    """One matrix; it is assembled for the first copy and solved for all of them."""

    copies: tuple[Copy, ...]

    @property
    def first(self) -> Copy:
        return self.copies[0]


def lay_out(basis: Basis, constraints: Sequence[Constraint]) -> tuple[BlockLayout, ...]:
    """Blocks of the system, coupled channels together, equal blocks merged."""
    channels = range(len(basis.space.channels))
    rows = {(i, r): _channels(c, r) for i, c in enumerate(constraints) for r in range(len(c.operator.rows))}
    groups: dict[RowName, frozenset[int]] = {}
    links = list(rows.values())
    if basis.joint and basis.sources:
        groups = {(i, r): _channels(c, r) for i, c in enumerate(basis.sources) for r in range(len(c.operator.rows))}
        links += groups.values()
    elif basis.joint:  # which channels its functions touch is not known: one block
        links.append(frozenset(channels))
    merged: dict[tuple, list[Copy]] = {}
    for component in _components(len(channels), links):
        own = tuple(name for name, touched in rows.items() if touched & component)
        if not own:
            continue
        copy = Copy(own, tuple(sorted(component)), tuple(n for n, touched in groups.items() if touched & component))
        merged.setdefault(_signature(basis, constraints, copy), []).append(copy)
    return tuple(BlockLayout(tuple(copies)) for copies in merged.values())


def _channels(constraint: Constraint, row: int) -> frozenset[int]:
    frame = constraint.operator._needs_frame()
    return frozenset(frame.channel(term.channel) for term in constraint.operator.rows[row] if term.channel is not None)


def _components(count: int, links: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """Connected components of the channels."""
    groups = [{c} for c in range(count)]
    for link in links:
        touched = [g for g in groups if g & link]
        if len(touched) > 1:
            groups = [g for g in groups if not g & link] + [set().union(*touched)]
    return sorted((frozenset(g) for g in groups), key=min)


def _signature(basis: Basis, constraints: Sequence[Constraint], copy: Copy) -> tuple:
    """Equal for blocks that have equal matrices; unique where that cannot be known."""
    if len(copy.channels) > 1 or not (basis.shared or basis.joint):
        return ("own", copy.channels)
    return (
        "shared",
        tuple(_row_signature(constraints[i], r) for i, r in copy.rows),
        tuple(_row_signature(basis.sources[i], r) for i, r in copy.groups),
    )


def _row_signature(constraint: Constraint, row: int) -> tuple:
    terms = tuple((t.coefficient, t.derivatives, t.place) for t in constraint.operator.rows[row])
    data = tuple((name, id(value)) for name, value in constraint.operator.data)
    points = constraint.points.detach().cpu().contiguous()
    return (terms, data, tuple(points.shape), hash(points.numpy().tobytes()))
