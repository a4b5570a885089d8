"""What the names in a LaTeX string stand for: channels, coordinates, coefficients given as keywords, vectors of either.

Plain names are looked up as integration variable, coordinate, channel, coefficient, component of a vector coefficient
(n_x), and constant (pi, e), in this order. Bold names are vectors of channels or vector coefficients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import sympy as sp
import torch
from torch import Tensor

from cnf.errors import OperatorError, nearest
from cnf.operators.coefficients import DataFunction, Datum, RowFunction, as_coefficient
from cnf.operators.frame import NAME, Frame, symbol
from cnf.operators.operator import Term
from cnf.operators.reader.expressions import FUNCTIONS, supported
from cnf.operators.reader.values import Affine, Value, scalar, vector
from cnf.operators.reader.vocabulary import GREEK, similar_symbol, unknown_symbol

WHOLE_FIELD = "f"  # \\mathbf{f} is the vector of all channels
CONSTANTS = {"pi": sp.pi, "e": sp.E}


@dataclass(frozen=True)
class Component:
    """One column of a callable that returns a vector per point: points (P, D) -> (P,)."""

    function: Callable[[Tensor], Tensor]
    index: int

    def __call__(self, points: Tensor) -> Tensor:
        return self.function(points)[:, self.index]


class Names:
    """The names one string may use; remembers which coefficients it did use and their data."""

    def __init__(self, frame: Frame, coefficients: Mapping[str, object], vectors: Mapping[str, Sequence[str]]):
        self.frame = frame
        self.given = _normalised(coefficients, frame)
        self.vectors = _checked_vectors(vectors, frame)
        self.bound: dict[str, sp.Symbol] = {}  # integration variables in scope
        self.used: set[str] = set()
        self.data: dict[str, Datum] = {}

    @property
    def words(self) -> set[str]:
        """Names longer than a letter that can be written without a font."""
        return {n for n in (*self.frame.coordinates, *self.frame.channels, *self.given) if len(n) > 1 and "_" not in n}

    def is_known(self, name: str, upright: bool = False) -> bool:
        """Whether `name` means something; `upright` if it was written as one word, \\mathrm{b_x}.

        With a subscript, the x of a callable b is its derivative; only as one word, as printed, is it a component.
        """
        known = name in self.bound or name in self.frame.coordinates or name in self.frame.channels
        if known or name in self.given:
            return True
        component = self._component_of(name)
        return component is not None and (upright or not callable(self.given[component[0]]))

    # -- plain names ------------------------------------------------------------------------------------------

    def value(self, name: str, at: int) -> Value:
        """The scalar a plain name stands for."""
        if name in self.bound:
            return scalar(self.bound[name], at)
        if name in self.frame.coordinates:
            return scalar(symbol(name), at)
        if name in self.frame.channels:
            return self.field([name], (), at)
        if name in self.given:
            return self._coefficient(name, at)
        component = self._component_of(name)
        if component is not None:
            base, index = component
            return self._kinded(self.direction(base)[index], at)
        if name in CONSTANTS:
            return scalar(CONSTANTS[name], at)
        raise OperatorError(self.unknown(name, name))

    def field(self, channels: Sequence[str], shape: tuple[int, ...], at: int) -> Value:
        return Value(tuple(Affine((Term(c),), sp.S.Zero, at) for c in channels), shape, at, "field")

    def _coefficient(self, name: str, at: int) -> Value:
        given = self.given[name]
        is_list = isinstance(given, list | tuple | sp.MatrixBase)
        if is_list or (isinstance(given, Tensor) and given.dim() == 2 and given.shape[1] > 1):
            raise OperatorError(f"{name!r} is a vector; write \\mathbf{{{name}}} for it, or {name}_x for a component")
        self.used.add(name)
        return self._kinded(self._converted(name, given), at)

    def is_callable(self, name: str) -> bool:
        """Whether a name stands for a function, of points or of the field."""
        given = self.given.get(name)
        return callable(given) and not isinstance(given, sp.Basic | Tensor)

    def use_law(self, name: str) -> None:
        """Take note of a function that is called with the field."""
        if name in self.given:
            self.used.add(name)
            self.data[name] = self.given[name]  # type: ignore[assignment]

    def _kinded(self, expression: sp.Expr, at: int) -> Value:
        """The coefficient, with how a bracket behind it is to be read."""
        if expression.has(DataFunction):
            return scalar(expression, at, "callable")
        if expression.has(RowFunction):
            return scalar(expression, at, "rows")
        coordinates = {symbol(c) for c in self.frame.coordinates}
        return scalar(expression, at, "expression" if expression.free_symbols & coordinates else "number")

    def _converted(self, name: str, given: object) -> sp.Expr:
        others = self._others(name, given) if isinstance(given, sp.Expr) else ()
        expression, datum = as_coefficient(name, given, self.frame, others)
        if datum is not None:
            self.data[name] = datum
        return supported(expression)

    def _others(self, name: str, given: sp.Expr) -> list[str]:
        """Coefficients that another one is an expression in: learnable numbers and callables."""
        inside = {s.name for s in given.free_symbols} | {f.func.data for f in given.atoms(DataFunction)}
        found = [other for other in sorted(inside) if other in self.given and other != name]
        for other in found:
            self.used.add(other)
            self._converted(other, self.given[other])
        return found

    # -- vectors ----------------------------------------------------------------------------------------------

    def bold(self, name: str, at: int) -> Value:
        """The vector a bold name stands for."""
        channels = self._channels_of(name)
        if channels and name in self.given:
            raise OperatorError(
                f"\\mathbf{{{name}}} is ambiguous: it is the coefficient {name!r} and the channels "
                f"{', '.join(channels)}; rename one"
            )
        if channels:
            return self.field(channels, (len(channels),), at)
        if name in self.given:
            return vector(self.direction(name), at)
        if name in self.frame.channels:
            need = len(self.frame.spatial)
            following = self.frame.channels[self.frame.channel(name) :][:need]
            if len(following) < need:
                raise OperatorError(
                    f"\\mathbf{{{name}}} would be {need} channels from {name!r} on, but there are only "
                    f"{', '.join(following)}; say which channels it has, such as vectors={{'{name}': ['u', 'v']}}"
                )
            return self.field(following, (len(following),), at)
        if name == WHOLE_FIELD:
            return self.field(self.frame.channels, (len(self.frame.channels),), at)
        raise OperatorError(
            f"\\mathbf{{{name}}} is not known. If it is a coefficient, give it as a keyword: {name}=[...]; "
            "if it is a vector of "
            f"channels, say which: vectors={{'{name}': [...]}}; all channels together are \\mathbf{{{WHOLE_FIELD}}}"
        )

    def _channels_of(self, name: str) -> tuple[str, ...]:
        if name in self.vectors:
            return self.vectors[name]
        spatial = tuple(f"{name}_{c}" for c in self.frame.spatial)
        if spatial and set(spatial) <= set(self.frame.channels):
            return spatial
        numbered: list[str] = []
        while f"{name}_{len(numbered) + 1}" in self.frame.channels:
            numbered.append(f"{name}_{len(numbered) + 1}")
        return tuple(numbered)

    def is_direction(self, name: str) -> bool:
        """Whether \\partial_name can be the derivative along a vector coefficient."""
        return name in self.given and name not in self.frame.coordinates

    def direction(self, name: str) -> tuple[sp.Expr, ...]:
        """The components of the vector coefficient `name`, one per spatial coordinate."""
        given = self.given[name]
        self.used.add(name)
        entries = self._entries(name, given)
        if len(entries) != len(self.frame.spatial):
            raise OperatorError(
                f"the vector {name!r} has {len(entries)} components; expected {len(self.frame.spatial)}, one for each "
                f"of {', '.join(self.frame.spatial)}"
            )
        for coordinate in self.frame.spatial:
            full = f"{name}_{coordinate}"
            if full in self.given:
                raise OperatorError(f"{full} is a coefficient and a component of the vector {name!r}; rename one")
        return tuple(self._converted(f"{name}_{c}", e) for c, e in zip(self.frame.spatial, entries, strict=True))

    def _entries(self, name: str, given: object) -> Sequence[object]:
        if isinstance(given, sp.MatrixBase):
            return list(given)
        if isinstance(given, list | tuple):
            return given
        if isinstance(given, Tensor) and given.dim() == 1:
            return [given[i] for i in range(given.shape[0])]
        if isinstance(given, Tensor) and given.dim() == 2:
            return list(given[0]) if given.shape[0] == 1 else [given[:, i] for i in range(given.shape[1])]
        if callable(given) and not isinstance(given, sp.Basic):
            return [Component(given, i) for i in range(len(self.frame.spatial))]
        if len(self.frame.spatial) == 1:
            return [given]
        raise OperatorError(
            f"the coefficient {name!r} is used as a vector; give a list with one entry for each of "
            f"{', '.join(self.frame.spatial)}, or a tensor with one vector per point"
        )

    def _component_of(self, name: str) -> tuple[str, int] | None:
        """n_x or n_1 -> the vector coefficient n and the index of the component."""
        base, _, suffix = name.partition("_")
        if base not in self.given or not suffix or not self._is_vector(self.given[base]):
            return None
        if suffix in self.frame.spatial:
            return base, self.frame.spatial.index(suffix)
        if suffix.isdigit() and 1 <= int(suffix) <= len(self.frame.spatial):
            return base, int(suffix) - 1
        return None

    def _is_vector(self, given: object) -> bool:
        # A one-dimensional tensor may be a vector or one value per point; a callable may return either.
        is_function = callable(given) and not isinstance(given, sp.Basic)
        return isinstance(given, list | tuple | sp.MatrixBase | Tensor) or is_function

    # -- errors -----------------------------------------------------------------------------------------------

    def unknown(self, name: str, run: str) -> str:
        """What to say about an unknown name that stands at the start of the run of letters `run`."""
        valid = [*self.frame.coordinates, *self.frame.channels, *self.given]
        keyword = f"{name}_" if name == "lambda" else name
        advice = similar_symbol(name, valid)
        if run in FUNCTIONS or run in GREEK or run in CONSTANTS:
            advice += f" Write \\{run}." if run != name else ""
        elif run != name:
            advice += nearest(run, [v for v in valid if len(v) > 1])
        if NAME.match(name):
            advice += f" If it is a coefficient, give it as a keyword: {keyword}=..."
        return unknown_symbol(name, self.frame.coordinates, self.frame.channels, advice)

    def refuse_unused(self, written: Sequence[str]) -> None:
        for name in self.given:
            if name not in self.used:
                raise OperatorError(f"the coefficient {name!r} is given but not used.{nearest(name, written)}")


def _normalised(coefficients: Mapping[str, object], frame: Frame) -> dict[str, object]:
    """Keywords by name (`lambda_` stands for lambda), arrays as tensors."""
    given: dict[str, object] = {}
    for keyword, value in coefficients.items():
        name = keyword.rstrip("_") if isinstance(keyword, str) else keyword
        if not isinstance(name, str) or not NAME.match(name):
            raise OperatorError(f"{keyword!r} cannot name a coefficient; use letters, digits and one underscore")
        if name in frame.coordinates:
            raise OperatorError(f"the coefficient {name!r} has the name of a coordinate; rename it")
        is_vector = isinstance(value, list | tuple | np.ndarray | Tensor | sp.MatrixBase) or callable(value)
        if name in frame.channels and not is_vector:
            raise OperatorError(f"the coefficient {name!r} has the name of a channel; rename it")
        given[name] = torch.as_tensor(value) if isinstance(value, np.ndarray) and value.dtype != object else value
    return given


def _checked_vectors(vectors: Mapping[str, Sequence[str]], frame: Frame) -> dict[str, tuple[str, ...]]:
    checked = {}
    for name, channels in vectors.items():
        parts = tuple(channels.split()) if isinstance(channels, str) else tuple(channels)
        if not parts:
            raise OperatorError(f"the vector {name!r} has no channels")
        for channel in parts:
            frame.channel(channel)
        checked[name] = parts
    return checked
