"""Quadrature rules: cells that tile the ranges of the integration variables, with Gauss-Legendre nodes in every cell.

A `Rule` belongs to one place of an operator. Its cells are boxes in the space of the V integration variables. At a
point they are clipped to the limits there, so one rule serves limits that move with the point (`\\int_0^x`), and the
outermost cells reach as far as any limit. A variable whose limits or cuts move with outer variables is measured in
shares of its range instead: clipping there would put kinks into the outer integrals. A cut is a place where the
integrand has a kink that moves, such as s = x in |x - s|: every cell is divided there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import sympy as sp

from cnf.errors import OperatorError

NODES = {1: 64, 2: 56, 3: 32}  # Gauss-Legendre nodes per variable where nothing is known of the integrand
IN_CELLS = {1: 20, 2: 14, 3: 10}  # nodes per variable of a cell
MOST_NODES = 2**20  # of a whole rule
MOST_ON_A_LINE = 2**17  # of one with a single variable: more would take long and say little
GOLDEN = 0.3819660112501051  # where the second rule divides cells: halving never does


@dataclass(frozen=True)
class Cut:
    """Divides every cell along `variable` at `where`, an expression in the coordinates and in outer variables."""

    variable: int
    where: sp.Expr


@dataclass(frozen=True, eq=False)
class Rule:
    """`lower` and `upper` (B, V) bound the cells; `nodes` per variable and cell."""

    lower: np.ndarray
    upper: np.ndarray
    nodes: int
    cuts: tuple[Cut, ...] = ()
    relative: tuple[bool, ...] = ()  # variables measured in shares of their range; none if empty
    settled: frozenset[sp.Expr] = frozenset()  # arguments of kinks that the cuts lie along
    needs: np.ndarray | None = None  # (B, V), what the cells had to resolve when they were chosen
    span: tuple[np.ndarray, np.ndarray] | None = None  # (V,) each; of the whole, if these are only some of its cells
    doubt: str = ""  # why two rules may agree and both be wrong; empty: nothing speaks for it

    @staticmethod
    def plain(variables: int) -> Rule:
        """One cell: what is used where nothing is known of the field."""
        return Rule(np.zeros((1, variables)), np.ones((1, variables)), plain_nodes(variables))

    @staticmethod
    def coarse(variables: int) -> Rule:
        """One cell with a few nodes: to look whether coefficients are numbers."""
        return replace(Rule.plain(variables), nodes=min(cell_nodes(variables), plain_nodes(variables)))

    @property
    def count(self) -> int:
        """Nodes in all, Q."""
        return self.lower.shape[0] * 2 ** len(self.cuts) * self.nodes ** self.lower.shape[1]

    @property
    def whole(self) -> tuple[np.ndarray, np.ndarray]:
        """What all cells of the rule span, (V,) each."""
        return (self.lower.min(axis=0), self.upper.max(axis=0)) if self.span is None else self.span

    @property
    def reaching(self) -> tuple[np.ndarray, np.ndarray]:
        """The bounds of the cells, the outermost ones without end: they are clipped to the limits at a point."""
        low, high = self.whole
        return np.where(self.lower == low, -np.inf, self.lower), np.where(self.upper == high, np.inf, self.upper)

    def only(self, cells: slice) -> Rule:
        """Some of the cells."""
        return replace(self, lower=self.lower[cells], upper=self.upper[cells], needs=None, span=self.whole)

    def same_as(self, other: Rule | None) -> bool:
        """True if both have the same nodes."""
        return other is not None and (
            (self.nodes, self.cuts, self.relative) == (other.nodes, other.cuts, other.relative)
            and np.array_equal(self.lower, other.lower)
            and np.array_equal(self.upper, other.upper)
        )

    def checking(self) -> Rule:
        """A rule that shares neither nodes nor inner edges with this one: what the two say differently is in doubt.

        Every cell b is divided along its longest side (that of the whole being 1), at a place that halving never
        reaches; its parts are the cells b and B + b of the result.
        """
        extent = self.whole[1] - self.whole[0]
        side = ((self.upper - self.lower) / np.where(extent > 0, extent, 1.0)).argmax(axis=1)
        rows = np.arange(side.shape[0])
        first, second = self.upper.copy(), self.lower.copy()
        first[rows, side] = second[rows, side] = (self.lower + GOLDEN * (self.upper - self.lower))[rows, side]
        return replace(
            self,
            lower=np.concatenate([self.lower, second]),
            upper=np.concatenate([first, self.upper]),
            nodes=self.nodes + 1,
            needs=None,
            span=self.whole,
        )


def plain_nodes(variables: int) -> int:
    """Nodes per variable of the plain rule, within what a rule may have in all."""
    most = int(most_nodes(variables) ** (1 / variables))
    if most < 8:
        raise OperatorError(f"{variables} nested integrals are more than can be worked out; at most 6")
    return min(NODES.get(variables, 16), most)


def most_nodes(variables: int) -> int:
    """Nodes that a rule may have in all."""
    return MOST_ON_A_LINE if variables == 1 else MOST_NODES


def cell_nodes(variables: int) -> int:
    return IN_CELLS.get(variables, 6)


@lru_cache(maxsize=64)
def unit_nodes(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss' rule on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (nodes + 1) / 2, weights / 2
