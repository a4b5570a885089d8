"""Operators built in Python, without LaTeX.

`partial("x", 2)` names its coordinate and can be used at once. Operators whose shape depends on the space (how many
coordinates nabla has, which channels a divergence sums) are *recipes* until a space is known: pass `frame=` (any
`Space` will do) to get the operator now, or leave it out and let `space.operator`, `space.constraint` or
`solution.apply` bind it. Recipes add, subtract, scale and compose like operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import sympy as sp

from cnf.errors import OperatorError
from cnf.operators.frame import Frame
from cnf.operators.operator import Operator, Term, stacked
from cnf.operators.place import over, point


@dataclass(frozen=True)
class Recipe:
    r"""An operator that waits for its space; `text` says what it is.

    >>> recipe = cnf.operators.laplacian()  # of which coordinates, a space says
    >>> recipe.text
    '\\Delta'
    """

    text: str
    build: Callable[[Frame], Operator]

    def bind(self, frame: Frame) -> Operator:
        """The operator in the space of `frame`."""
        return self.build(frame)

    def _combined(self, other: object, sign: str, join: Callable[[Operator, Operator], Operator]) -> Recipe:
        if not isinstance(other, Recipe | Operator):
            return NotImplemented
        text = other.text if isinstance(other, Recipe) else other.to_latex()
        return Recipe(f"({self.text} {sign} {text})", lambda frame: join(self.bind(frame), other.bind(frame)))

    def __add__(self, other: object) -> Recipe:
        return self._combined(other, "+", lambda a, b: a + b)

    def __radd__(self, other: object) -> Recipe:
        return self._combined(other, "+", lambda a, b: b + a)

    def __sub__(self, other: object) -> Recipe:
        return self._combined(other, "-", lambda a, b: a - b)

    def __rsub__(self, other: object) -> Recipe:
        return (-self)._combined(other, "+", lambda a, b: b + a)

    def __matmul__(self, other: object) -> Recipe:
        return self._combined(other, "@", lambda a, b: a @ b)

    def __rmatmul__(self, other: object) -> Recipe:
        return self._combined(other, "after", lambda a, b: b @ a)

    def __mul__(self, factor: float | sp.Expr) -> Recipe:
        return Recipe(f"{factor} * {self.text}", lambda frame: self.bind(frame) * factor)

    __rmul__ = __mul__

    def __neg__(self) -> Recipe:
        return self * -1

    def __pow__(self, exponent: int) -> Recipe:
        return Recipe(f"{self.text}^{exponent}", lambda frame: self.bind(frame) ** exponent)

    def __repr__(self) -> str:
        return f"Recipe({self.text})"


Buildable = Operator | Recipe


def identity(channel: str | None = None) -> Operator:
    """The value of the field (one row per channel), or of one channel.

    >>> space = cnf.Space("x y", "u v")
    >>> print(space.operator(cnf.operators.identity("v")).to_latex())
    v
    """
    return Operator.of([[Term(channel)]])


def partial(coordinate: str, order: int = 1, channel: str | None = None) -> Operator:
    r"""d^order / d coordinate^order.

    >>> space = cnf.Space("x y", "u v")
    >>> print(space.operator(cnf.operators.partial("x", 2, "u")).to_latex())
    \partial_{x}^{2} u
    """
    if not isinstance(order, int) or order < 0:
        raise OperatorError(f"the order of a derivative is a whole number of at least 0, not {order!r}")
    return Operator.of([[Term(channel, derivatives=((coordinate, order),) if order else ())]])


def gradient(channel: str | None = None, frame: Frame | None = None) -> Buildable:
    r"""One row per spatial coordinate (for every channel, or for one).

    >>> space = cnf.Space("x y", "u v")
    >>> print(space.operator(cnf.operators.gradient("u")).to_latex())
    \partial_{x} u; \partial_{y} u
    """
    return _recipe(r"\nabla", frame, lambda f: stacked([partial(c, channel=channel) for c in f.spatial]).bind(f))


def laplacian(channel: str | None = None, frame: Frame | None = None) -> Buildable:
    r"""Sum of the second derivatives along the spatial coordinates.

    >>> space = cnf.Space("x y", "u v")
    >>> print(space.operator(cnf.operators.laplacian("u")).to_latex())
    \partial_{x}^{2} u + \partial_{y}^{2} u
    """
    return _recipe(r"\Delta", frame, lambda f: _sum(partial(c, 2, channel) for c in f.spatial).bind(f))


def biharmonic(channel: str | None = None, frame: Frame | None = None) -> Buildable:
    r"""The Laplacian of the Laplacian.

    >>> space = cnf.Space("x y", "u v")
    >>> print(space.operator(cnf.operators.biharmonic("u")).to_latex())
    2 \partial_{x}^{2} \partial_{y}^{2} u + \partial_{x}^{4} u + \partial_{y}^{4} u
    """

    def build(f: Frame) -> Operator:
        lap = _sum(partial(c, 2) for c in f.spatial)
        return (lap @ lap @ identity(channel)).bind(f)

    return _recipe(r"\Delta^2", frame, build)


def divergence(channels: Sequence[str] | None = None, frame: Frame | None = None) -> Buildable:
    r"""Sum over spatial coordinates of d u_i / d x_i; by default of the first channels, as many as coordinates.

    >>> space = cnf.Space("x y", "u v")
    >>> print(space.operator(cnf.operators.divergence()).to_latex())
    \partial_{x} u + \partial_{y} v
    """

    def build(f: Frame) -> Operator:
        return _sum(partial(c, channel=u) for c, u in zip(f.spatial, vector(f, channels), strict=True)).bind(f)

    return _recipe(r"\nabla\cdot", frame, build)


def curl(channels: Sequence[str] | None = None, frame: Frame | None = None) -> Buildable:
    r"""Curl in three dimensions (three rows) or in two (one row, dv/dx - du/dy).

    >>> space = cnf.Space("x y", "u v")
    >>> print(space.operator(cnf.operators.curl()).to_latex())
    -\partial_{y} u + \partial_{x} v
    """

    def build(f: Frame) -> Operator:
        u = vector(f, channels)
        x = f.spatial
        if len(x) == 2:
            return (partial(x[0], channel=u[1]) - partial(x[1], channel=u[0])).bind(f)
        if len(x) == 3:
            cycles = [(1, 2), (2, 0), (0, 1)]
            return stacked([partial(x[i], channel=u[j]) - partial(x[j], channel=u[i]) for i, j in cycles]).bind(f)
        raise OperatorError(f"curl needs two or three spatial coordinates; the space has {len(x)}: {', '.join(x)}")

    return _recipe(r"\nabla\times", frame, build)


def directional(
    direction: Sequence[float | sp.Expr], channel: str | None = None, frame: Frame | None = None
) -> Buildable:
    r"""(b . nabla) for a direction with one entry (number or expression) per spatial coordinate.

    >>> space = cnf.Space("x y", "u v")
    >>> print(space.operator(cnf.operators.directional([1, 2], "u")).to_latex())
    \partial_{x} u + 2 \partial_{y} u
    """

    def build(f: Frame) -> Operator:
        if len(direction) != len(f.spatial):
            raise OperatorError(f"the direction has {len(direction)} entries for {len(f.spatial)} spatial coordinates")
        return _sum(partial(c, channel=channel) * b for c, b in zip(f.spatial, direction, strict=True)).bind(f)

    return _recipe(r"\mathbf{b}\cdot\nabla", frame, build)


def value_at(channel: str | None = None, **coordinates: float | sp.Expr) -> Operator:
    """The field at a substituted point: value_at(x=0) is u(0, t).

    >>> space = cnf.Space("x y", "u v")
    >>> print(space.operator(cnf.operators.value_at("u", x=0)).to_latex())
    u(0, y)
    """
    return Operator.of([[Term(channel, place=point(**coordinates))]])


def integral(coordinate: str, lower: float | sp.Expr, upper: float | sp.Expr, channel: str | None = None) -> Operator:
    r"""Integral of the field over one coordinate; compose for several: integral("x", 0, 1) @ integral("y", 0, 1).

    >>> space = cnf.Space("x y", "u v")
    >>> print(space.operator(cnf.operators.integral("x", 0, 1, "u")).to_latex())
    \int_{0}^{1} u \, dx
    """
    return Operator.of([[Term(channel, place=over(coordinate, lower, upper))]])


def vector(frame: Frame, channels: Sequence[str] | None = None) -> tuple[str, ...]:
    """The channels that make up a vector field: those named, or the first ones, one per spatial coordinate."""
    need = len(frame.spatial)
    chosen = tuple(channels) if channels is not None else frame.channels[:need]
    for name in chosen:
        frame.channel(name)
    if len(chosen) != need:
        raise OperatorError(
            f"a vector in the coordinates {', '.join(frame.spatial)} needs {need} channels, but "
            f"{'the field has only' if channels is None else 'got'} {', '.join(chosen)}"
        )
    return chosen


def _sum(operators: Iterable[Operator]) -> Operator:
    first, *rest = operators
    return sum(rest, first)


def _recipe(text: str, frame: Frame | None, build: Callable[[Frame], Operator]) -> Buildable:
    frame = getattr(frame, "frame", frame)  # a Space serves as well
    return Recipe(text, build) if frame is None else build(frame)
