"""Evaluation: coefficients, which are SymPy expressions, on tensors.

An expression is taken apart once, into steps, and the steps are walked whenever it is evaluated; no code is generated
from strings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import sympy as sp
import torch
from torch import Tensor, nn

from cnf.errors import OperatorError
from cnf.fetching import placed
from cnf.operators.coefficients import DataFunction, Datum, RowFunction, factors
from cnf.operators.forward import derivative
from cnf.operators.pairs import Pair, halves, plus, times, whole_power

UNARY: dict[type[sp.Function], Callable[[Tensor], Tensor]] = {
    sp.sin: torch.sin,
    sp.cos: torch.cos,
    sp.tan: torch.tan,
    sp.asin: torch.asin,
    sp.acos: torch.acos,
    sp.atan: torch.atan,
    sp.sinh: torch.sinh,
    sp.cosh: torch.cosh,
    sp.tanh: torch.tanh,
    sp.exp: torch.exp,
    sp.log: torch.log,
    sp.Abs: torch.abs,
    sp.sign: torch.sign,
    sp.erf: torch.erf,
    sp.cot: lambda x: 1 / torch.tan(x),
    sp.sec: lambda x: 1 / torch.cos(x),
    sp.csc: lambda x: 1 / torch.sin(x),
}

FOLDED: dict[type[sp.Expr], Callable[[Pair, Pair, bool], Pair]] = {
    sp.Add: plus,
    sp.Mul: times,
    sp.Max: lambda a, b, careful: _either(a.value >= b.value, a, b),
    sp.Min: lambda a, b, careful: _either(a.value <= b.value, a, b),
    sp.atan2: lambda a, b, careful: _angle(a, b),
}


def _either(first: Tensor, a: Pair, b: Pair) -> Pair:
    value = torch.where(first, a.value, b.value)
    if a.rest is None and b.rest is None:
        return Pair(value)
    none = torch.zeros_like(value)
    return Pair(value, torch.where(first, none if a.rest is None else a.rest, none if b.rest is None else b.rest))


def _angle(a: Pair, b: Pair) -> Pair:
    return Pair(torch.atan2(a.total, b.total))


ARGUMENT = sp.Symbol("_argument", real=True)
SLOPES = {f: sp.S.Zero if f is sp.sign else f(ARGUMENT).diff(ARGUMENT) for f in UNARY}


def evaluate(
    expression: sp.Expr,
    values: Mapping[sp.Symbol, Tensor],
    data: Mapping[str, Datum],
    like: Tensor,
    careful: bool = True,
) -> Tensor:
    """Value of `expression` with its symbols bound to tensors that broadcast together.

    `like` gives dtype and device; per-point tensors in `data` must broadcast along its first axis. What comes between
    is in float64, so that only a result beyond the range of float32 overflows there; where sums may cancel, in pairs,
    unless that is not asked for.
    """
    return evaluate_all([expression], values, data, like, careful)[0]


def evaluate_all(
    expressions: Sequence[sp.Expr],
    values: Mapping[sp.Symbol, Tensor],
    data: Mapping[str, Datum],
    like: Tensor,
    careful: bool = True,
    numbers_here: bool = False,
) -> list[Tensor]:
    """Values of several expressions, as `evaluate` gives them; what they share is evaluated once.

    With `numbers_here`, those that no tensor has a part in stay on the host: any device takes single numbers so.
    """
    inputs = {symbol: value.to(torch.float64) for symbol, value in values.items()}
    kept: dict[tuple[Step, bool], Pair] = {}
    found = []
    for step, has_sums in steps_of(tuple(expressions)):
        walk = _Walk(step.node, inputs, data, like.to(torch.float64), like.dtype, careful and has_sums, kept)
        value = walk.value(step).to(like.dtype)
        found.append(value if numbers_here else placed(value, like))
    return found


@dataclass(frozen=True, eq=False)
class Step:
    """A node of an expression, looked at once: SymPy takes longer to say what it is than to evaluate it.

    `kind` is number, symbol, callable, row, power, whole power, function, or fold of several parts.
    """

    kind: str
    node: sp.Expr
    parts: tuple[Step, ...] = ()
    number: tuple[float, float] = (0.0, 0.0)  # and what float64 lacks of it
    exponent: int = 0  # a whole one
    function: type[sp.Expr] | None = None
    shared: bool = False  # whether it occurs several times


@lru_cache(maxsize=1024)
def steps_of(expressions: tuple[sp.Expr, ...]) -> tuple[tuple[Step, bool], ...]:
    """The expressions step by step, each with whether there are sums in it; what they share is one step."""
    twice = repeated(expressions)
    known: dict[sp.Expr, Step] = {}

    def step_of(node: sp.Expr) -> Step:
        if node in twice and node in known:
            return known[node]
        made = replace(_step(node, step_of), shared=node in twice)
        if made.shared:
            known[node] = made
        return made

    return tuple((step_of(expression), expression.has(sp.Add)) for expression in expressions)


def _step(node: sp.Expr, step_of: Callable[[sp.Expr], Step]) -> Step:
    if node.is_Number or node.is_NumberSymbol:
        return Step("number", node, number=halves(node))
    if node.is_Symbol:
        return Step("symbol", node)
    if isinstance(node, DataFunction):
        return Step("callable", node, tuple(map(step_of, node.args)))
    if isinstance(node, RowFunction):
        return Step("row", node)
    if node.is_Pow:
        base, exponent = node.args
        if exponent.is_Integer:
            return Step("whole power", node, (step_of(base),), exponent=int(exponent))
        if base == sp.E:
            return Step("function", node, (step_of(exponent),), function=sp.exp)
        return Step("power", node, (step_of(base), step_of(exponent)))
    parts = tuple(map(step_of, factors(node) if node.is_Mul else node.args))
    if node.func in FOLDED:
        return Step("fold", node, parts, function=node.func)
    return Step("function", node, parts, function=node.func)


def repeated(expressions: Sequence[sp.Expr]) -> frozenset[sp.Expr]:
    """What occurs more than once in the expressions, numbers and symbols apart."""
    seen: set[sp.Expr] = set()
    twice: set[sp.Expr] = set()
    waiting = list(expressions)
    while waiting:
        node = waiting.pop()
        if node.is_Atom:
            continue
        if node in seen:
            twice.add(node)  # and what is below it need not be kept
        else:
            seen.add(node)
            waiting += node.args
    return frozenset(twice)


@dataclass(frozen=True)
class _Walk:
    """One evaluation: what the symbols stand for, and a visit to every step; those that are shared are `kept`."""

    expression: sp.Expr
    values: Mapping[sp.Symbol, Tensor]
    data: Mapping[str, Datum]
    like: Tensor
    given: torch.dtype  # that callables are called in
    careful: bool  # whether what the values lack is kept track of
    kept: dict[tuple[Step, bool], Pair]

    def value(self, step: Step) -> Tensor:
        return self.pair(step).total

    def pair(self, step: Step) -> Pair:
        if not step.shared:
            return self._visited(step)
        key = (step, self.careful)
        if key not in self.kept:
            self.kept[key] = self._visited(step)
        return self.kept[key]

    def _visited(self, step: Step) -> Pair:
        if step.kind == "number":
            value, rest = step.number
            return Pair(_number(value), _number(rest) if rest and self.careful else None)
        if step.kind == "symbol":
            return Pair(self._symbol(step.node))
        if step.kind == "callable":
            return Pair(self._call(step.node, step.parts))
        if step.kind == "row":
            return Pair(self._row(step.node))
        parts = [self.pair(part) for part in step.parts]
        if step.kind == "whole power":
            return whole_power(parts[0], step.exponent, self.careful)
        if step.kind == "power":
            return self._power(*parts)
        if step.function in FOLDED:
            return _fold(FOLDED[step.function], parts, self.careful)
        if step.function in UNARY:
            return self._function(step.function, parts[0])
        raise OperatorError(f"the function {step.node.func} in the coefficient {self.expression} is not supported")

    def _function(self, function: type[sp.Function], argument: Pair) -> Pair:
        value = UNARY[function](argument.value)
        if argument.rest is None:
            return Pair(value)
        return argument.moved(value, evaluate(SLOPES[function], {ARGUMENT: argument.value}, {}, argument.value))

    def _symbol(self, node: sp.Symbol) -> Tensor:
        if node in self.values:
            return self.values[node]
        datum = self.data.get(node.name)
        if isinstance(datum, Tensor):
            return datum.reshape(()).to(self.like)
        raise OperatorError(f"no value is known for {node.name!r} in the coefficient {self.expression}")

    def _power(self, below: Pair, exponent: Pair) -> Pair:
        above = exponent.total
        value = below.value**above
        return below.moved(value, above * below.value ** (above - 1)) if below.rest is not None else Pair(value)

    def _call(self, node: DataFunction, arguments: Sequence[Step]) -> Tensor:
        function = self.data[node.data]
        assert callable(function)
        columns = torch.broadcast_tensors(*[placed(self.value(argument), self.like) for argument in arguments])
        points = torch.stack(columns, dim=-1).to(self.given)  # (..., D)
        flat = points.reshape(-1, points.shape[-1])
        if node.knows_derivatives:
            found = function.derivative(flat, node.orders)  # type: ignore[attr-defined]
            return found.reshape(points.shape[:-1]).to(self.like)
        result = derivative(lambda x: _column(_answer(function, x, node.data), node.data, x), flat, node.orders)
        return result.reshape(points.shape[:-1]).to(self.like)

    def _row(self, node: RowFunction) -> Tensor:
        datum, like = self.data[node.data], self.like
        if not all(a.is_Symbol and not a.name.startswith("_") for a in node.args):
            raise OperatorError(
                f"the coefficient {node.data!r} is known only at the points, so it cannot be used inside an integral "
                "or at a substituted point; give it as an expression or a callable"
            )
        assert isinstance(datum, Tensor)
        if datum.shape[0] != like.shape[0]:
            raise OperatorError(
                f"the coefficient {node.data!r} has {datum.shape[0]} values for {like.shape[0]} points; "
                "one per point is needed"
            )
        return datum.to(like).reshape((-1,) + (1,) * (like.dim() - 1))


def _number(value: float) -> Tensor:
    """On the host: tensors of any device take single numbers from there, and nothing has to be sent or waited for."""
    return torch.tensor(value, dtype=torch.float64)


def called(function: Callable[[Tensor], Tensor], points: Tensor) -> Tensor:
    """A callable at the points; a network in its own precision, whatever that of the points."""
    like = next(function.parameters(), None) if isinstance(function, nn.Module) else None
    return function(points if like is None else points.to(like.dtype))


def _fold(operation: Callable[[Pair, Pair, bool], Pair], parts: list[Pair], careful: bool) -> Pair:
    total = parts[0]
    for part in parts[1:]:
        total = operation(total, part, careful)
    return total


def _answer(function: Callable[[Tensor], Tensor], x: Tensor, name: str) -> Tensor:
    """What a callable coefficient says at the points, as a tensor."""
    try:
        found = called(function, x)
    except (TypeError, IndexError, RuntimeError) as error:
        raise OperatorError(
            f"the callable {name!r} cannot be called with points (P, {x.shape[1]}), one column for each of its "
            f"arguments: {error}"
        ) from error
    if isinstance(found, int | float):
        return torch.full_like(x[:, 0], float(found))
    if not isinstance(found, Tensor):
        raise OperatorError(
            f"the callable {name!r} returned a {type(found).__name__}; expected a tensor with one value per point"
        )
    return found


def _column(result: Tensor, name: str, points: Tensor) -> Tensor:
    if result.numel() != points.shape[0]:
        raise OperatorError(
            f"the callable {name!r} returned shape {tuple(result.shape)} for {points.shape[0]} points; "
            "expected one value per point"
        )
    return result.reshape(-1)
