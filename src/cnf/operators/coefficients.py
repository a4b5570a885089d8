"""Coefficients: SymPy expressions in the coordinates and in named data, and their evaluation on tensors.

Numbers become SymPy numbers. Named data that is not a number stays symbolic and is looked up when evaluated:

- a one-element tensor (a learnable physical constant, say) is a plain symbol;
- a callable, points (P, D) -> (P,) or (P, 1), is a function of the coordinates; its derivatives are taken by forward
  mode, so the product rule may differentiate it;
- a tensor with one value per point is a function of the row: it may multiply, but never be differentiated or moved.

Evaluation walks the expression tree; no code is generated from strings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import sympy as sp
import torch
from torch import Tensor, nn

from cnf.errors import OperatorError
from cnf.operators.forward import derivative
from cnf.operators.frame import Frame, symbol
from cnf.operators.pairs import Pair, halves, plus, times, whole_power, wide, widened

Datum = Tensor | Callable[[Tensor], Tensor]


class DataFunction(sp.Function):
    """Base of the functions that stand for callables: `data` is the name, `orders` the derivative taken."""

    data: str = ""
    orders: tuple[int, ...] = ()

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        orders = tuple(order + (k == argindex - 1) for k, order in enumerate(self.orders))
        return data_function(self.data, orders)(*self.args)

    def __reduce_ex__(self, protocol: object) -> tuple:
        return _called, (data_function, (self.data, self.orders), self.args)  # its class is made on demand


class RowFunction(sp.Function):
    """Base of the functions that stand for one value per point."""

    data: str = ""

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        raise OperatorError(
            f"the coefficient {self.data!r} is known only at the points, so it cannot be differentiated; "
            "give it as an expression in the coordinates or as a callable"
        )

    def __reduce_ex__(self, protocol: object) -> tuple:
        return _called, (row_function, (self.data, len(self.args)), self.args)


def _called(maker: Callable[..., type[sp.Function]], names: tuple, arguments: tuple[sp.Expr, ...]) -> sp.Expr:
    """The function of these names at these arguments: how pickle makes it anew."""
    return maker(*names)(*arguments, evaluate=False)


@cache
def data_function(name: str, orders: tuple[int, ...]) -> type[sp.Function]:
    """The SymPy function for the derivative `orders` of the callable called `name`."""
    label = name + "".join(f"_{order}" for order in orders)
    return type(label, (DataFunction,), {"data": name, "orders": orders, "nargs": len(orders)})


@cache
def row_function(name: str, width: int) -> type[sp.Function]:
    """The SymPy function for the per-point tensor called `name`."""
    return type(f"{name}_row", (RowFunction,), {"data": name, "nargs": width})


def as_coefficient(name: str, value: object, frame: Frame) -> tuple[sp.Expr, Datum | None]:
    """What the user gave for the coefficient `name` -> its expression, and the data to keep beside the operator."""
    coordinates = [symbol(c) for c in frame.coordinates]
    if isinstance(value, bool | str | bytes) or value is None:
        raise OperatorError(f"the coefficient {name!r} is {value!r}; expected a number, a tensor or a callable")
    if isinstance(value, Tensor):
        if not torch.isfinite(value).all():
            raise OperatorError(f"the coefficient {name!r} has values that are not finite")
        if value.numel() == 1:
            if value.requires_grad:
                return symbol(name), value
            number = value.item()
            return sp.Integer(number) if isinstance(number, int) else wide(number), None
        values = value.reshape(value.shape[0]) if value.dim() == 2 and value.shape[1] == 1 else value
        if values.dim() != 1:
            raise OperatorError(
                f"the coefficient {name!r} has shape {tuple(value.shape)}; expected one value per point"
            )
        return row_function(name, len(coordinates))(*coordinates), values
    if isinstance(value, sp.Expr):
        stray = value.free_symbols - set(coordinates)
        by_name = {s: symbol(s.name) for s in stray if s.name in frame.coordinates}
        if stray - set(by_name):
            raise OperatorError(f"the coefficient {name!r} contains unknown symbols {sorted(map(str, stray))}")
        return widened(value.xreplace(by_name)), None
    if callable(value):
        return data_function(name, (0,) * len(coordinates))(*coordinates), value
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise OperatorError(
            f"the coefficient {name!r} is a {type(value).__name__}; expected a number, a tensor, a callable "
            "or a SymPy expression"
        ) from None
    if not math.isfinite(number):
        raise OperatorError(f"the coefficient {name!r} is {number}; expected a finite number")
    return sp.Integer(value) if isinstance(value, int) else wide(number), None


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


FLOATS = (sp.Float("1e-100"), sp.Float("1e100"))  # beyond, a product with an exponential may need its exponent

ARGUMENT = sp.Symbol("_argument", real=True)
SLOPES = {f: sp.S.Zero if f is sp.sign else f(ARGUMENT).diff(ARGUMENT) for f in UNARY}


def simplest(expression: sp.Expr) -> sp.Expr:
    """Zero if it multiplies out to that; otherwise as it stands or multiplied out, whichever takes less to evaluate.

    Functions keep their arguments: SymPy would make e^{-3000 (x - 1/2)^2} a product of 1e-326 and e^{3000 x}, and
    (x - 1/2)^20 a sum whose terms cancel.
    """
    if expression.is_Number or expression.is_Symbol:
        return expression
    if sp.expand(expression) == 0:
        return sp.S.Zero
    expanded = expression.expand(deep=False, power_exp=False, power_base=False, log=False)
    return expression if sp.count_ops(expression) < sp.count_ops(expanded) else expanded


def factors(product: sp.Mul) -> list[sp.Expr]:
    """The factors of a product, exponentials in one: e^{800 x} e^{-800 x^2} is small where e^{800 x} overflows.

    SymPy itself makes e^{1000.0 x - 1000.0} a product of 5e-435 and e^{1000 x}: such numbers go back into the exponent.
    """
    powers = [a.args[0] for a in product.args if isinstance(a, sp.exp)]
    extreme = [a for a in product.args if a.is_Float and not FLOATS[0] < abs(a) < FLOATS[1]] if powers else []
    if len(powers) + len(extreme) < 2:
        return list(product.args)
    rest = [a for a in product.args if not isinstance(a, sp.exp) and a not in extreme]
    powers += [sp.log(abs(a)) for a in extreme]
    return [*rest, *(sp.sign(a) for a in extreme), sp.exp(sp.Add(*powers), evaluate=False)]


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
) -> list[Tensor]:
    """Values of several expressions, as `evaluate` gives them; what they share is evaluated once."""
    inputs = {symbol: value.to(torch.float64) for symbol, value in values.items()}
    shared = repeated(expressions)
    kept: dict[tuple[sp.Expr, bool], Pair] = {}
    found = []
    for expression in expressions:
        pairs = careful and expression.has(sp.Add)
        walk = _Walk(expression, inputs, data, like.to(torch.float64), like.dtype, pairs, shared, kept)
        found.append(walk.value(expression).to(like.dtype))
    return found


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
    """One evaluation: what the symbols stand for, and a visit to every node of the expression.

    Nodes that are `shared` are visited once and `kept`.
    """

    expression: sp.Expr
    values: Mapping[sp.Symbol, Tensor]
    data: Mapping[str, Datum]
    like: Tensor
    given: torch.dtype  # that callables are called in
    careful: bool  # whether what the values lack is kept track of
    shared: frozenset[sp.Expr]
    kept: dict[tuple[sp.Expr, bool], Pair]

    def value(self, node: sp.Expr) -> Tensor:
        return self.pair(node).total

    def pair(self, node: sp.Expr) -> Pair:
        if node not in self.shared:
            return self._visited(node)
        key = (node, self.careful)
        if key not in self.kept:
            self.kept[key] = self._visited(node)
        return self.kept[key]

    def _visited(self, node: sp.Expr) -> Pair:
        if node.is_Number or node.is_NumberSymbol:
            value, rest = halves(node)
            return Pair(self.like.new_tensor(value), self.like.new_tensor(rest) if rest and self.careful else None)
        if node.is_Symbol:
            return Pair(self._symbol(node))
        if isinstance(node, DataFunction):
            return Pair(self._call(node))
        if isinstance(node, RowFunction):
            return Pair(self._row(node))
        if node.is_Pow:
            return self._power(*node.args)
        parts = [self.pair(argument) for argument in (factors(node) if node.is_Mul else node.args)]
        if node.func in FOLDED:
            return _fold(FOLDED[node.func], parts, self.careful)
        if node.func in UNARY:
            return self._function(node.func, parts[0])
        raise OperatorError(f"the function {node.func} in the coefficient {self.expression} is not supported")

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

    def _power(self, base: sp.Expr, exponent: sp.Expr) -> Pair:
        if exponent.is_Integer:
            return whole_power(self.pair(base), int(exponent), self.careful)
        if base == sp.E:
            return self._function(sp.exp, self.pair(exponent))
        below, above = self.pair(base), self.value(exponent)
        value = below.value**above
        return below.moved(value, above * below.value ** (above - 1)) if below.rest is not None else Pair(value)

    def _call(self, node: DataFunction) -> Tensor:
        function = self.data[node.data]
        assert callable(function)
        columns = torch.broadcast_tensors(*[self.value(argument) for argument in node.args])
        points = torch.stack(columns, dim=-1).to(self.given)  # (..., D)
        flat = points.reshape(-1, points.shape[-1])
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
    except TypeError as error:
        raise OperatorError(f"the callable {name!r} cannot be called with points (P, D): {error}") from None
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
