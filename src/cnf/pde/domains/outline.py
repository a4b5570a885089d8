"""Outline: the region inside closed curves that were drawn: polygons with holes, Bezier curves, arcs; from files."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cnf.errors import DomainError, nearest
from cnf.pde.domains.boundary import Curve, Piece
from cnf.pde.domains.domain import Domain, as_number, check_name, settle
from cnf.pde.domains.drawn import Drawn, Label, refuse_crossings
from cnf.pde.domains.loops import Loops
from cnf.pde.domains.part_names import EXCEPT, PARTS
from cnf.reading.outlines.files import read_outline
from cnf.reading.outlines.strokes import Stroke, chain_of, path_text, read_path

SMOOTH_BELOW = 25.0  # degrees
MOST = 1000  # curves


@dataclass(frozen=True)
class Outline(Domain):
    """What lies inside an odd number of closed curves: a curve within another is a hole, one within a hole an island.

    `paths`: path data of SVG ("M 0 0 L 1 0 L 0 1 Z"), or points (V, 2) of a polygon, or a list of these. `names` of the
    curves, "" for none; those of one name are one part of the boundary, "NAME 1", "NAME 2" each of them. Curves without
    a name are called "curve 1", "curve 2", ..., the pieces between corners of a curve "edge 1", "edge 2", ... after
    its name; `edges` gives each stroke of each curve a name of its own instead. `smooth`: chains of lines that bend by
    less than 25 degrees (or by less than the number given) are replaced by smooth curves through their points; without
    it they are the polygons they say.

    >>> domain = cnf.domains.Outline("M 0 0 L 1 0 L 1 1 L 0 1 Z")
    >>> cnf.domains.to_text(domain), round(domain.volume, 6)
    ('outline of 1 closed curve, 4 straight edges', 1.0)
    """

    paths: tuple[str, ...]
    names: tuple[str, ...]
    smooth: float = 0.0
    name: str | None = None
    edges: tuple[tuple[str, ...], ...] = ()

    def __init__(
        self,
        paths: str | np.ndarray | Sequence[object],
        names: Sequence[str] | None = None,
        smooth: bool | float = False,
        name: str | None = None,
        edges: Sequence[Sequence[str]] = (),
    ):
        check_name(name)
        angle = SMOOTH_BELOW if smooth is True else as_number(smooth or 0.0, "`smooth`")
        if not 0 <= angle < 180:
            raise DomainError(f"`smooth` is true, or an angle in degrees below 180, got {angle:g}")
        curves = _read_paths(paths)
        if not 0 < len(curves) <= MOST:
            raise DomainError(f"an outline has between 1 and {MOST} closed curves, got {len(curves)}")
        labels = [""] * len(curves) if names is None else list(names)
        if len(labels) != len(curves):
            raise DomainError(f"an outline has one name for every curve, {len(curves)}, got {len(labels)}")
        named = tuple(map(tuple, edges))
        if named and [len(own) for own in named] != [len(strokes) for strokes in curves]:
            raise DomainError(
                "the edges of an outline are named by one list for every curve, with a text for every stroke"
            )
        for label in (*labels, *set(itertools.chain.from_iterable(named))):
            if label != "":
                check_name(label)
            if label is None or "," in label or label == name:
                raise DomainError(f"a curve cannot be called {label!r}; a text without commas, not that of the outline")
        texts = tuple(path_text(strokes) for strokes in curves)
        settle(self, paths=texts, names=tuple(labels), smooth=angle, name=name, edges=named)
        low, high = self._loops.bounds
        settle(self, lower=tuple(map(float, low)), upper=tuple(map(float, high)))

    @staticmethod
    def read(
        path: object,
        smooth: bool | float = False,
        scale: float = 1.0,
        only: Sequence[str] = (),
        name: str | None = None,
    ) -> Outline:
        """The curves of an SVG, GeoJSON or CSV file, all or `only` those of these names, coordinates times `scale`.

        Names are the `id`s of elements, the names of features, the column `curve`. The y axis points up.
        """
        factor = as_number(scale, "`scale`")
        if factor == 0:
            raise DomainError("`scale` must not be 0")
        drawing = read_outline(path)
        groups = [(tidied(label), curves) for label, curves in drawing.groups]
        known = [label for label, _ in groups if label]
        for wanted in only:
            if wanted not in known:
                listed = ", ".join(known[:20]) or "none"
                raise DomainError(
                    f"{drawing.source} has no curve called {wanted!r}; known are {listed}.{nearest(wanted, known)}"
                )
        chosen = [(label, curve) for label, curves in groups if not only or label in only for curve in curves]
        matrix = (factor, 0.0, 0.0, factor, 0.0, 0.0)
        texts = [path_text([stroke.moved(matrix) for stroke in curve]) for _, curve in chosen]
        try:
            return Outline(texts, [label if label != name else "" for label, _ in chosen], smooth, name)
        except DomainError as error:
            raise DomainError(f"{drawing.source}: {error}") from None

    @property
    def volume(self) -> float:
        return self._loops.content

    @cached_property
    def _loops(self) -> Loops:
        curves = [read_path(text)[0] for text in self.paths]
        labels = []
        for k, names in enumerate(self._curve_names):
            prefix = f"{names[-1]} " if names else ""
            labels.append(Label(names, self.edges[k] if self.edges else (), prefix))
        return _arranged(curves, labels, self.smooth)

    @property
    def _curve_names(self) -> list[tuple[str, ...]]:
        """All names of every curve, the most special one last."""
        own = () if self.name is None else (self.name,)
        found: list[tuple[str, ...]] = []
        for k, label in enumerate(self.names):
            several = self.names.count(label) > 1
            if label:
                number = self.names[: k + 1].count(label)
                found.append((*own, label, *([f"{label} {number}"] if several else [])))
            else:
                found.append((*own, f"curve {k + 1}") if len(self.names) > 1 else own)
        return found

    def polygons(self) -> list[np.ndarray] | None:
        """The corners (V, 2) of every curve, with the inside to the left; None if one is not a polygon."""
        curves = self._loops.curves
        if self.smooth or not all(stroke.is_line for text in self.paths for stroke in read_path(text)[0]):
            return None
        return [curve.at(curve.knots[:-1])[0] for curve in curves]

    def _inside(self, points: np.ndarray) -> np.ndarray:
        return self._loops.inside(points)

    def _bound(self, points: np.ndarray) -> np.ndarray:
        distance = self._loops.distance(points)
        return np.where(self._inside(points), distance, -distance)

    def _outline(self) -> list[Piece]:
        return list(self._loops.curves)

    @property
    def _pieces(self) -> list[Piece]:
        return list(self._loops.pieces)

    def _section(self, axis: int, value: float) -> Domain | None:
        return self._loops.section(axis, value)


def _read_paths(paths: object) -> list[list[Stroke]]:
    if isinstance(paths, str):
        found = read_path(paths)
        if not found:
            raise DomainError(f"the path {paths[:60]!r} encloses nothing")
        return found
    try:
        array = np.asarray(paths, dtype=np.float64)
    except (TypeError, ValueError):
        if not isinstance(paths, list | tuple):
            raise DomainError(
                f"the paths of an outline are texts or points (V, 2), got {type(paths).__name__}"
            ) from None
        return list(itertools.chain.from_iterable(_read_paths(path) for path in paths))
    if array.ndim == 3:
        return [curve for part in array for curve in _read_paths(part)]
    if array.ndim != 2 or array.shape[1] != 2 or not np.isfinite(array).all():
        raise DomainError(f"the points of an outline are finite numbers (V, 2), got shape {array.shape}")
    strokes = chain_of((array[:, 0] + 1j * array[:, 1]).tolist())
    if not strokes:
        raise DomainError(f"a curve of an outline has at least three different points, got {len(array)}")
    return [strokes]


def tidied(label: str) -> str:
    """A name from a file as one that conditions can refer to."""
    text = " ".join(label.replace(",", " ").replace("=", " ").split())
    return f"{text} curve" if text in PARTS or text.startswith(EXCEPT) else text


def _arranged(curves: list[list[Stroke]], labels: list[Label], smooth: float) -> Loops:
    """The curves with the inside to the left of each, checked."""
    ends = np.array([p for strokes in curves for stroke in strokes for p in (stroke.start, stroke.end)])
    size = float(max(np.ptp(ends.real), np.ptp(ends.imag)))
    if not 0 < size < np.inf:
        raise DomainError("an outline has no size: all its points are the same, or they are not finite")
    built: list[tuple[Drawn, Label, Curve]] = []
    for strokes, label in zip(curves, labels, strict=True):
        drawn = Drawn.of(strokes, smooth)
        built.append((drawn, label, drawn.curve(label, size, backward=False)))
    refuse_crossings(Loops(tuple(curve for *_, curve in built)))
    single = [Loops((curve,)) for *_, curve in built]
    found = []
    for k, (drawn, label, curve) in enumerate(built):
        area = single[k].content
        if abs(area) <= 1e-12 * size**2:
            called = f", {label.names[-1]!r}," if label.names else ""
            raise DomainError(f"a curve of the outline{called} encloses nothing")
        probe = curve.at(np.array([0.37 * curve.measure]))[0]
        depth = sum(bool(other.inside(probe)[0]) for j, other in enumerate(single) if j != k)
        if (area > 0) == (depth % 2 == 0):
            found.append(curve)
        else:
            found.append(drawn.curve(label, size, backward=True))
    return Loops(tuple(found))
