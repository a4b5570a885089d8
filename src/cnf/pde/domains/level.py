"""Level: the function whose zeros are a boundary, an expression or one of Python; its gradients, its zeros on lines."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import sympy as sp
import torch
from torch import Tensor

from cnf.errors import CnfError, DomainError
from cnf.operators.evaluation import evaluate
from cnf.operators.frame import Frame, symbol
from cnf.operators.latex import read_expression
from cnf.operators.printing import CoefficientPrinter
from cnf.operators.ranges import Ranges

CHUNK = 2**18
SEARCHES = 60  # steps of a search on a line
SETTLED = 1e-14  # of the line


@dataclass(frozen=True)
class Level:
    """Negative inside: an expression in the coordinates `names`, or a function of points (P, D) that gives (P,)."""

    formula: sp.Expr | Callable[[Tensor], Tensor]
    names: tuple[str, ...] = ()
    size: float = 1.0  # of the box it is looked at in

    @staticmethod
    def read(latex: str, names: tuple[str, ...], size: float) -> Level:
        """From LaTeX, such as "x^2 + 4 y^2 - 1"."""
        field = next(name for name in "uvwfghqpabc" if name not in names)
        return Level(read_expression(latex, Frame(names, (field,))), names, size)

    def fixed(self, axis: int, value: float) -> Level:
        """The level function where a coordinate has a value."""
        names = self.names[:axis] + self.names[axis + 1 :]
        if isinstance(self.formula, sp.Expr):
            return Level(self.formula.subs(symbol(self.names[axis]), sp.Float(value, 17)), names, self.size)
        whole = self.formula

        def at(points: Tensor) -> Tensor:
            column = torch.full((points.shape[0], 1), value, dtype=points.dtype)
            return whole(torch.cat([points[:, :axis], column, points[:, axis:]], dim=1))

        return Level(at, names, self.size)

    @property
    def latex(self) -> str | None:
        """The expression as LaTeX that reads back; None for a function."""
        if not isinstance(self.formula, sp.Expr):
            return None
        return str(CoefficientPrinter(None, {}).doprint(self.formula))

    def values(self, points: np.ndarray) -> np.ndarray:
        """(P, D) -> (P,)."""
        with torch.no_grad():
            parts = [self._at(torch.from_numpy(part)) for part in _chunks(points)]
        return torch.cat(parts).numpy()

    def gradients(self, points: np.ndarray) -> np.ndarray:
        """(P, D) -> (P, D), by automatic differentiation, or by differences of a function without it."""
        return np.concatenate([self._gradients(part) for part in _chunks(points)])

    def bounds(self, expression: sp.Expr, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What an expression in the coordinates does not leave in boxes with corners (n, D), by interval arithmetic."""
        like = torch.zeros(1, 1, dtype=torch.float64)
        found = Ranges([symbol(name) for name in self.names], low, high, {}, {}, like).of(expression)
        lower, upper = (np.broadcast_to(b, low.shape[:1]) for b in (found.lower, found.upper))
        return np.nan_to_num(lower, nan=-np.inf), np.nan_to_num(upper, nan=np.inf)

    def zeros(self, low: np.ndarray, high: np.ndarray, inside_first: np.ndarray) -> np.ndarray:
        """A zero on every segment from `low` to `high` (n, D), as a share of it (n,), by Ridders' method.

        The ends have different signs, `inside_first` (n,) where `low` is inside.
        """
        a, b = np.zeros(len(low)), np.ones(len(low))
        found = np.full(len(low), np.inf)
        turn = np.where(inside_first, 1.0, -1.0)  # so that values go from negative to positive

        def at(share: np.ndarray, rows: np.ndarray) -> np.ndarray:
            points = low[rows] + share[:, None] * (high[rows] - low[rows])
            return np.clip(turn[rows] * self.values(points), -1e300, 1e300)

        rows = np.arange(len(low))
        fa, fb = np.minimum(at(a, rows), 0.0), np.maximum(at(b, rows), 0.0)
        for _ in range(SEARCHES):
            middle = (a[rows] + b[rows]) / 2
            fm = at(middle, rows)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                scale = np.maximum(np.maximum(-fa[rows], fb[rows]), 1e-300)
                root = np.sqrt((fm / scale) ** 2 - (fa[rows] / scale) * (fb[rows] / scale))
                guess = middle - (middle - a[rows]) * (fm / scale) / root
            guess = np.where(np.isfinite(guess), np.clip(guess, a[rows], b[rows]), middle)
            for place, value in ((middle, fm), (guess, at(guess, rows))):
                between = (place >= a[rows]) & (place <= b[rows])
                lower, upper = between & (value <= 0), between & (value > 0)
                a[rows[lower]], fa[rows[lower]] = place[lower], value[lower]
                b[rows[upper]], fb[rows[upper]] = place[upper], value[upper]
            last = found[rows]
            found[rows] = np.where(-fa[rows] <= fb[rows], a[rows], b[rows])
            rows = rows[(np.abs(found[rows] - last) > SETTLED) & (fa[rows] < 0) & (b[rows] - a[rows] > 4e-16)]
            if not len(rows):
                break
        return found

    def _at(self, points: Tensor) -> Tensor:
        if isinstance(self.formula, sp.Expr):
            values = {symbol(name): points[:, k] for k, name in enumerate(self.names)}
            return evaluate(self.formula, values, {}, points[:, 0]).expand(points.shape[0])
        try:
            result = self.formula(points)
            found = torch.as_tensor(result, dtype=torch.float64)
        except CnfError:
            raise
        except Exception as error:
            raise DomainError(
                f"the function of a level set failed at points of shape {tuple(points.shape)}: "
                f"{type(error).__name__}: {error}"
            ) from None
        if found.shape != points.shape[:1]:
            raise DomainError(
                f"the function of a level set gave shape {tuple(found.shape)} for points of shape "
                f"{tuple(points.shape)}; one number per point is expected, ({points.shape[0]},)"
            )
        return found

    def _gradients(self, points: np.ndarray) -> np.ndarray:
        at = torch.from_numpy(points.copy()).requires_grad_(True)
        with torch.enable_grad(), contextlib.suppress(DomainError):  # NumPy refuses tensors that ask for gradients
            values = self._at(at)
            if values.requires_grad:
                return torch.autograd.grad(values.sum(), at)[0].numpy()
        step = 2e-3 * self.size  # errors of step^6 and of rounding / step, both about 1e-13
        found = np.zeros_like(points)
        for axis in range(points.shape[1]):
            for k, weight in ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60)):
                away = np.zeros(points.shape[1])
                away[axis] = k * step
                found[:, axis] += weight * (self.values(points + away) - self.values(points - away)) / step
        return found


def _chunks(points: np.ndarray) -> list[np.ndarray]:
    points = np.ascontiguousarray(points)
    return [points[k : k + CHUNK] for k in range(0, max(len(points), 1), CHUNK)]
