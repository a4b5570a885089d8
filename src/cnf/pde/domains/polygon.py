"""Polygon: the region of the plane inside a chain of edges that does not cross itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cnf.errors import DomainError
from cnf.pde.domains.boundary import Curve, Piece, trace_chain
from cnf.pde.domains.box import Interval
from cnf.pde.domains.domain import Domain, as_point, check_name, settle

CHUNK = 2**18  # points times edges at a time
NUMBERED = 64  # edges of a polygon with more are too many to be called by number


@dataclass(frozen=True)
class Polygon(Domain):
    """The polygon through `vertices` (V, 2), in either direction; the last edge leads back to the first vertex.

    `edges` names them, one text per edge from the first vertex on, "" for none; edges of one name are one part of the
    boundary. Without names they are called "edge 1" to "edge V", after the name of the polygon if it has one.

    >>> domain = cnf.domains.Polygon([[0, 0], [1, 0], [0, 1]])
    >>> cnf.domains.to_text(domain), round(domain.volume, 6)
    ('polygon through (0, 0), (1, 0), (0, 1)', 0.5)
    """

    vertices: tuple[tuple[float, float], ...]
    name: str | None = None
    edges: tuple[str, ...] | None = None

    def __init__(
        self, vertices: Sequence[Sequence[float]], name: str | None = None, edges: Sequence[str] | None = None
    ):
        check_name(name)
        settle(self, vertices=_checked_vertices(vertices), name=name)
        settle(self, edges=None if edges is None else _checked_edges(edges, len(self.vertices), name))
        corners = np.array(self.vertices)
        low, high = corners.min(axis=0), corners.max(axis=0)
        settle(self, lower=tuple(map(float, low)), upper=tuple(map(float, high)))
        if np.linalg.svd(corners - corners.mean(axis=0), compute_uv=False)[1] <= 1e-12 * (high - low).max():
            raise DomainError("the vertices of this polygon lie on a line: it has no inside")
        _check_simple(corners)

    @property
    def volume(self) -> float:
        return abs(_signed_area(np.array(self.vertices)))

    @cached_property
    def _corners(self) -> np.ndarray:
        """The vertices counterclockwise."""
        corners = np.array(self.vertices)
        return corners if _signed_area(corners) > 0 else corners[::-1].copy()

    def _inside(self, points: np.ndarray) -> np.ndarray:
        """Whether a ray to the right crosses the edges an odd number of times."""
        order = np.argsort(points[:, 1], kind="stable")
        x, y = points[order].T
        ends = np.roll(self._corners, -1, axis=0)
        odd = np.zeros(len(points), dtype=bool)
        low = np.searchsorted(y, np.minimum(self._corners[:, 1], ends[:, 1]))
        high = np.searchsorted(y, np.maximum(self._corners[:, 1], ends[:, 1]))
        for edge in np.nonzero(low < high)[0]:  # only the points at the height of the edge
            (x0, y0), (x1, y1) = self._corners[edge], ends[edge]
            level = slice(low[edge], high[edge])
            odd[level] ^= x[level] < x0 + (y[level] - y0) * ((x1 - x0) / (y1 - y0))
        inside = np.empty_like(odd)
        inside[order] = odd
        return inside

    def _bound(self, points: np.ndarray) -> np.ndarray:
        starts = self._corners
        edges = np.roll(starts, -1, axis=0) - starts
        squares = (edges**2).sum(axis=1)
        distance = np.empty(len(points))
        step = max(1, CHUNK // len(starts))
        for begin in range(0, len(points), step):
            x = points[begin : begin + step, :1] - starts[:, 0]
            y = points[begin : begin + step, 1:] - starts[:, 1]
            along = np.clip((x * edges[:, 0] + y * edges[:, 1]) / squares, 0, 1)
            x -= along * edges[:, 0]
            y -= along * edges[:, 1]
            distance[begin : begin + step] = np.sqrt((x * x + y * y).min(axis=1))
        return np.where(self._inside(points), distance, -distance)

    def _outline(self) -> list[Piece]:
        """Without numbers, if the polygon has no name: beside other shapes, nobody knows whose they are."""
        if self.edges is None and self.name is None:
            return [trace_chain(self._corners, ())]
        return [self._chain]

    @property
    def _pieces(self) -> list[Curve]:
        return self._chain.split()

    @cached_property
    def _chain(self) -> Curve:
        return trace_chain(self._corners, (self.name,) if self.name is not None else (), self._edge_names)

    @property
    def _edge_names(self) -> tuple[str, ...]:
        """Along the chain, which may run against the order of the vertices."""
        count = len(self.vertices)
        names = self.edges
        if names is None:
            if count > NUMBERED:
                return ()
            prefix = "" if self.name is None else f"{self.name} "
            names = tuple(f"{prefix}edge {k + 1}" for k in range(count))
        if _signed_area(np.array(self.vertices)) > 0:
            return names
        return tuple(names[(count - 2 - k) % count] for k in range(count))

    def _section(self, axis: int, value: float) -> Domain | None:
        """The line cut at every edge it meets; edges that lie on the line belong to it."""
        from cnf.pde.domains.combinations import unite

        start, end = self._corners, np.roll(self._corners, -1, axis=0)
        (across0, along0), (across1, along1) = ((p[:, axis] - value, p[:, 1 - axis]) for p in (start, end))
        meets = (np.minimum(across0, across1) <= 0) & (np.maximum(across0, across1) >= 0)
        flat = meets & (across0 == across1)
        crossing = meets & ~flat
        share = across0[crossing] / (across0[crossing] - across1[crossing])
        cuts = np.concatenate(
            [along0[flat], along1[flat], along0[crossing] + share * (along1[crossing] - along0[crossing])]
        )
        scale = max(self.upper[1 - axis] - self.lower[1 - axis], self._size)
        cuts = np.unique(cuts)
        cuts = cuts[np.diff(cuts, prepend=-np.inf) > 1e-12 * scale]
        if len(cuts) < 2:
            return None
        middle = np.insert(((cuts[:-1] + cuts[1:]) / 2)[:, None], axis, value, axis=1)
        kept = self._bound(middle) >= -1e-12 * scale
        runs: list[list[float]] = []
        for a, b in zip(cuts[:-1][kept], cuts[1:][kept], strict=True):
            if runs and runs[-1][1] == a:
                runs[-1][1] = b
            else:
                runs.append([a, b])
        return unite([Interval(float(a), float(b)) for a, b in runs])


def _signed_area(corners: np.ndarray) -> float:
    x, y = (corners - corners[0]).T
    return float((x * np.roll(y, -1) - y * np.roll(x, -1)).sum() / 2)


def _checked_vertices(vertices: object) -> tuple[tuple[float, float], ...]:
    try:
        if isinstance(vertices, str | bytes | dict):
            raise TypeError
        rows = [as_point(row, f"vertex {k} of a polygon") for k, row in enumerate(vertices)]  # type: ignore[arg-type, var-annotated]
    except TypeError:
        raise DomainError(f"the vertices of a polygon are a list of points, got {vertices!r}") from None
    for k, row in enumerate(rows):
        if len(row) != 2:
            raise DomainError(f"a polygon lies in the plane: vertex {k} must be two numbers, got {len(row)}")
    if len(rows) > 1 and rows[0] == rows[-1]:
        rows = rows[:-1]
    if len(rows) < 3:
        raise DomainError(f"a polygon has at least three different vertices, got {len(rows)}")
    for k, row in enumerate(rows):
        if row == rows[k - 1]:
            raise DomainError(f"vertex {k} of the polygon repeats the one before it, {row}; leave it out")
    return tuple((row[0], row[1]) for row in rows)


def _checked_edges(edges: object, count: int, name: str | None) -> tuple[str, ...]:
    if isinstance(edges, str | bytes) or not isinstance(edges, Sequence) or len(edges) != count:
        raise DomainError(f"`edges` names the edges of the polygon, {count} texts, got {edges!r}")
    for edge in edges:
        if edge != "":
            check_name(edge)
        if edge is None or "," in edge or edge == name:
            raise DomainError(
                f"an edge cannot be called {edge!r}; a text without commas that is not the polygon's name"
            )
    return tuple(edges)


def _check_simple(corners: np.ndarray) -> None:
    """Raise if two edges meet that are not neighbours, or neighbours run back over each other."""
    count, ends = len(corners), np.roll(corners, -1, axis=0)
    edges = ends - corners
    following = np.roll(edges, -1, axis=0)
    turn = edges[:, 0] * following[:, 1] - edges[:, 1] * following[:, 0]
    lengths = np.linalg.norm(edges, axis=1)
    flat = np.abs(turn) <= 1e-12 * lengths * np.roll(lengths, -1)
    for k in np.nonzero(flat & ((edges * following).sum(axis=1) < 0))[0]:
        raise DomainError(f"the polygon doubles back on itself at vertex {(k + 1) % count}, {tuple(ends[k].tolist())}")

    def side(origin: np.ndarray, direction: np.ndarray, points: np.ndarray) -> np.ndarray:
        """On which side of edge i (rows) point j (columns) lies: -1, 0, 1."""
        offset = points[None] - origin[:, None]
        value = direction[:, None, 0] * offset[..., 1] - direction[:, None, 1] * offset[..., 0]
        return np.where(np.abs(value) <= 1e-14 * np.ptp(corners, axis=0).max() * lengths[:, None], 0, np.sign(value))

    of_starts, of_ends = side(corners, edges, corners), side(corners, edges, ends)
    crosses = (of_starts * of_ends <= 0) & (of_starts * of_ends <= 0).T
    low, high = np.minimum(corners, ends), np.maximum(corners, ends)
    crosses &= ((low[:, None] <= high[None]) & (low[None] <= high[:, None])).all(axis=-1)
    index = np.arange(count)
    gap = (index[:, None] - index[None]) % count
    crosses &= (gap > 1) & (gap < count - 1)
    if crosses.any():
        i, j = (int(k) for k in np.argwhere(crosses)[0])
        raise DomainError(
            f"the polygon crosses or touches itself: the edge from vertex {i} meets the one from vertex {j}; "
            "order the vertices along the outline, or build the shape by Union or Difference"
        )
