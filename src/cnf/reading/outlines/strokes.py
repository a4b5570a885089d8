"""Strokes: what plane curves are drawn with, and the text that says so: the path data of SVG.

In comes text such as "M 0 0 L 1 0 C 1 1 0 1 0 0 Z"; out go strokes, each a line, a Bezier curve or a part of an
ellipse, one list for every curve. Points are complex numbers.
"""

from __future__ import annotations

import cmath
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cnf.errors import FileError

MOST_STROKES = 20_000
LONGEST = 4_000_000  # characters of path data
TOUCH = 1e-9  # of the size: ends that near are meant to meet
ROUNDING = 4e-15  # half circles are meant where rounding makes them a little more or less
NUMBER = re.compile(r"[\s,]*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)")
COMMAND = re.compile(r"[\s,]*([A-Za-z])")
FLAG = re.compile(r"[\s,]*([01])")
NOTHING = re.compile(r"[\s,]*\Z")
ARGUMENTS = {"M": 2, "L": 2, "H": 1, "V": 1, "C": 6, "S": 4, "Q": 4, "T": 2, "A": 7, "Z": 0}


@dataclass(frozen=True)
class Stroke:
    """A Bezier curve by two to four `points`, or an arc: centre and two axes as `points`, and angles on the ellipse."""

    points: tuple[complex, ...]
    angles: tuple[float, float] | None = None  # from, and by how much

    @property
    def start(self) -> complex:
        return self.points[0] if self.angles is None else self._on_ellipse(self.angles[0])

    @property
    def end(self) -> complex:
        return self.points[-1] if self.angles is None else self._on_ellipse(sum(self.angles))

    @property
    def is_line(self) -> bool:
        return self.angles is None and len(self.points) == 2

    def _on_ellipse(self, angle: float) -> complex:
        centre, u, v = self.points
        return centre + u * math.cos(angle) + v * math.sin(angle)

    def moved(self, matrix: Sequence[float]) -> Stroke:
        """After the affine map (a, b, c, d, e, f) of SVG: x' = a x + c y + e, y' = b x + d y + f."""
        a, b, c, d, e, f = matrix

        def turn(p: complex) -> complex:
            return complex(a * p.real + c * p.imag, b * p.real + d * p.imag)

        if self.angles is None:
            return Stroke(tuple(turn(p) + complex(e, f) for p in self.points))
        return Stroke((turn(self.points[0]) + complex(e, f), *(turn(p) for p in self.points[1:])), self.angles)

    def parts(self) -> list[Stroke]:
        """Arcs in pieces of less than half a turn: the centre of a longer one is badly determined by its ends."""
        if self.angles is None:
            return [self]
        start, by = self.angles
        count = math.ceil(abs(by) / 2.2)
        return [Stroke(self.points, (start + by * k / count, by / count)) for k in range(count)]

    def text(self) -> str:
        """As a command of path data that begins where the last one ended."""
        if self.angles is not None:
            return self._arc_text()
        letter = {2: "L", 3: "Q", 4: "C"}[len(self.points)]
        return f"{letter} {' '.join(_pair(p) for p in self.points[1:])}"

    def _arc_text(self) -> str:
        """An arc by its ends."""
        assert self.angles is not None
        _, u, v = self.points
        # Axes of the ellipse u cos t + v sin t: turn the angle until they are at right angles.
        turn = 0.5 * math.atan2(2 * (u * v.conjugate()).real, abs(u) ** 2 - abs(v) ** 2)
        along = u * math.cos(turn) + v * math.sin(turn)
        across = v * math.cos(turn) - u * math.sin(turn)
        turned = (along.conjugate() * across).imag > 0
        large, sweep = abs(self.angles[1]) > math.pi, (self.angles[1] > 0) == turned
        tilt = math.degrees(cmath.phase(along))
        return f"A {abs(along)!r} {abs(across)!r} {tilt!r} {large:d} {sweep:d} {_pair(self.end)}"


def line(start: complex, end: complex) -> Stroke:
    return Stroke((start, end))


def ellipse(centre: complex, rx: float, ry: float) -> list[Stroke]:
    """All around."""
    return [Stroke((centre, complex(rx), complex(0, ry)), (0.0, 2 * math.pi))]


def chain_of(points: Iterable[complex]) -> list[Stroke]:
    """The closed polygon through points; a repeated last point is left out."""
    around = list(points)
    size = max((abs(p - around[0]) for p in around), default=0.0)
    around = [p for k, p in enumerate(around) if abs(p - around[k - 1]) > 1e-14 * size or len(around) == 1]
    return [line(a, b) for a, b in zip(around, [*around[1:], *around[:1]], strict=True)] if len(around) > 2 else []


def path_text(strokes: Sequence[Stroke]) -> str:
    """A closed curve as path data that `read_path` turns back into the same strokes."""
    drawn = [part.text() for stroke in strokes for part in stroke.parts()]
    return f"M {_pair(strokes[0].start)} {' '.join(drawn)} Z"


def _pair(p: complex) -> str:
    return f"{p.real!r} {p.imag!r}"


def read_path(text: str, what: str = "the path") -> list[list[Stroke]]:
    """The closed curves that path data describe; curves that are not closed are refused."""
    if len(text) > LONGEST:
        raise FileError(f"{what} has {len(text)} characters of path data; at most {LONGEST} are read")
    return _Scanner(text, what).curves()


class _Scanner:
    """Goes through path data once."""

    def __init__(self, text: str, what: str):
        self.text, self.what, self.at = text, what, 0
        self.found: list[list[Stroke]] = []
        self.strokes: list[Stroke] = []
        self.begun: complex | None = None
        self.here = complex(0)
        self.handle: tuple[str, complex] | None = None  # of the last Bezier curve, mirrored by S and T
        self.count = 0

    def curves(self) -> list[list[Stroke]]:
        command = ""
        while not NOTHING.match(self.text, self.at):
            match = COMMAND.match(self.text, self.at)
            if match:
                command, self.at = match[1], match.end()
                if command.upper() not in ARGUMENTS:
                    raise self._error(f"has a command {command!r} that is not known")
            elif command.upper() in ("", "Z"):
                raise self._error("has numbers where a command such as M or L is expected")
            elif command in "Mm":  # more points after the first are lines
                command = "L" if command == "M" else "l"
            self._obey(command, self._arguments(command.upper()))
            if self.begun is None and command.upper() not in "MZ":
                raise self._error("does not begin with M")
        self._finish(closed=False)
        return self.found

    def _arguments(self, command: str) -> list[float]:
        values = []
        for k in range(ARGUMENTS[command]):
            pattern = FLAG if command == "A" and k in (3, 4) else NUMBER
            match = pattern.match(self.text, self.at)
            if not match:
                raise self._error(f"has fewer numbers after {command} than it takes")
            self.at = match.end()
            values.append(float(match[1]))
        if not all(map(math.isfinite, values)):
            raise self._error("has a number that is not finite")
        return values

    def _obey(self, command: str, values: list[float]) -> None:
        kind, origin = command.upper(), self.here if command.islower() else complex(0)
        if kind == "Z":
            self._finish(closed=True)
            return
        if kind == "M":
            self._finish(closed=False)
            self.begun = self.here = origin + complex(*values)
            return
        if kind == "A":
            self._add(_arc(self.here, origin + complex(*values[5:]), *values[:5]))
            return
        if kind in "HV":
            end = complex(values[0] + origin.real, self.here.imag)
            if kind == "V":
                end = complex(self.here.real, values[0] + origin.imag)
            points = [end]
        else:
            points = [origin + complex(x, y) for x, y in zip(values[::2], values[1::2], strict=True)]
        if kind in "ST":
            like = {"S": "CS", "T": "QT"}[kind]
            mirrored = 2 * self.here - self.handle[1] if self.handle and self.handle[0] in like else self.here
            points = [mirrored, *points]
        handle = (kind, points[-2]) if kind in "CSQT" else None
        self._add(Stroke((self.here, *points)))
        self.handle = handle

    def _add(self, stroke: Stroke | None) -> None:
        self.handle = None
        if stroke is None:
            return
        self.count += 1
        if self.count > MOST_STROKES:
            raise self._error(f"has more than {MOST_STROKES} strokes")
        if any(p != stroke.points[0] for p in stroke.points):
            self.strokes.append(stroke)
        self.here = stroke.end

    def _finish(self, closed: bool) -> None:
        """The end of a curve; the last line is drawn if the path says so."""
        strokes, begun = self.strokes, self.begun
        self.strokes, self.handle = [], None
        if begun is None:
            return
        if strokes:
            size = max(abs(p - begun) for s in strokes for p in (s.start, s.end, *(s.points if not s.angles else ())))
            gap = abs(strokes[-1].end - begun)
            if gap > TOUCH * size and not closed:
                raise self._error(
                    f"is open: it ends at {_shown(strokes[-1].end)}, not at {_shown(begun)} where it began; close it"
                )
            if gap > TOUCH * size:
                strokes.append(line(strokes[-1].end, begun))
            if len(strokes) > 1 or not strokes[0].is_line:
                self.found.append(strokes)
        self.here = begun
        if not closed:
            self.begun = None

    def _error(self, problem: str) -> FileError:
        return FileError(f"{self.what} {problem} (character {self.at} of its path data)")


def _arc(start: complex, end: complex, rx: float, ry: float, tilt: float, large: float, sweep: float) -> Stroke | None:
    """An elliptic arc from its ends, by the rules of SVG; a line if a radius is zero."""
    rx, ry = abs(rx), abs(ry)
    if start == end:
        return None
    if rx == 0 or ry == 0:
        return line(start, end)
    turn = cmath.exp(1j * math.radians(tilt))
    half = (start - end) / 2 / turn
    x, y = half.real / rx, half.imag / ry
    beyond = math.hypot(x, y)
    if beyond > 1:  # radii too small to reach are enlarged
        rx, ry, x, y = rx * beyond, ry * beyond, x / beyond, y / beyond
    square = x * x + y * y
    apart = 1 / square - 1
    away = math.sqrt(apart) * (1 if bool(large) == bool(sweep) else -1) if apart > ROUNDING else 0.0
    cx, cy = -away * y, away * x  # of the centre, on the unit circle
    centre = (start + end) / 2 + complex(cx * rx, cy * ry) * turn
    first = math.atan2(y - cy, x - cx)
    by = math.atan2(-y - cy, -x - cx) - first
    if sweep and by < 0:
        by += 2 * math.pi
    elif not sweep and by > 0:
        by -= 2 * math.pi
    return Stroke((centre, rx * turn, 1j * ry * turn), (first, by))


def _shown(p: complex) -> str:
    return f"({p.real:g}, {p.imag:g})"
