"""Fronts: two parts of tied cells merged into one, by the ties that neither has with any other.

In come the ties of both parts as rows over their null coordinates; out goes the factor of those that are finished, and
the others as rows over the null coordinates of the whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cnf.solvers.local_factor import LocalFactor

ROOM = 1.25  # null coordinates per row from which on they are reduced to those that rows see


@dataclass(frozen=True)
class Outstanding:
    """Ties (l,) of a part, of which so many entries are `met` (l,) there and `total` (l,) anywhere, as `rows` (l, k).

    These are over the null coordinates of the part.
    """

    ties: np.ndarray
    met: np.ndarray
    total: np.ndarray
    rows: np.ndarray


@dataclass(frozen=True)
class Front:
    """Two parts merged: `factor` of the ties they finish, in their null coordinates, and what that does to the others.

    `held` (outstanding, r) are the ties that reach beyond, in the r directions that the finished ones determine. Their
    rest goes on to the next merge: kept in full, they would be most of the memory that cells in space take.
    """

    parts: tuple[int, int]  # numbers of the parts: cells first, then fronts in order
    width: int  # null coordinates of the first part
    finished: np.ndarray  # ties
    outstanding: np.ndarray
    factor: LocalFactor
    held: np.ndarray


def merged(numbers: tuple[int, int], parts: list[Outstanding]) -> tuple[Front, Outstanding]:
    """The front of two parts with these numbers, and what is left to be merged. Takes the parts, which are large."""
    first, second = parts
    width, ties = first.rows.shape[1], np.union1d(first.ties, second.ties)
    shape = len(ties), width + second.rows.shape[1]
    both = np.zeros(shape, np.result_type(first.rows, second.rows))
    met, total = np.zeros((2, len(ties)), dtype=np.int64)
    for part, at in ((first, 0), (second, width)):
        where = np.searchsorted(ties, part.ties)
        both[where, at : at + part.rows.shape[1]] = part.rows
        met[where] += part.met
        total[where] = part.total
    done = met == total
    finished, both = both[done], both[~done]
    parts.clear()
    del first, second, part
    factor = LocalFactor.of(finished)
    left = factor.in_directions(both)
    del finished, both
    held = left[:, : factor.rank].copy()
    front = Front(numbers, width, ties[done], ties[~done], factor, held)
    return front, Outstanding(ties[~done], met[~done], total[~done], left[:, factor.rank :])


def as_seen(part: Outstanding) -> tuple[Outstanding, np.ndarray | None]:
    """A part over those of its null coordinates (k,) that its ties see, if they are much fewer: l of them, by a basis.

    That is orthonormal, (k, l); None: they stay as they are.
    """
    if part.rows.shape[1] <= ROOM * part.rows.shape[0]:
        return part, None
    basis, triangle = np.linalg.qr(part.rows.conj().T)
    return Outstanding(part.ties, part.met, part.total, triangle.conj().T), basis
