"""Coefficients: SymPy expressions in the coordinates and in named data, and their evaluation on tensors.

Numbers become SymPy numbers. Named data that is not a number stays symbolic and is looked up when evaluated:

- a one-element tensor (a learnable physical constant, say) is a plain symbol;
- a callable, points (P, D) -> (P,) or (P, 1), is a function of the coordinates; its derivatives are taken by forward
  mode, so the product rule may differentiate it;
- a tensor with one value per point is a function of the row: it may multiply, but never be differentiated or moved.

`evaluation` puts numbers in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from functools import cache, lru_cache

import sympy as sp
import torch
from torch import Tensor

from cnf.errors import OperatorError
from cnf.operators.frame import Frame, symbol
from cnf.operators.pairs import wide, widened

Datum = Tensor | Callable[[Tensor], Tensor]


class DataFunction(sp.Function):
    """Base of the functions that stand for callables: `data` is the name, `orders` the derivative taken."""

    data: str = ""
    orders: tuple[int, ...] = ()
    knows_derivatives: bool = False  # whether its data are asked for the derivative, instead of being differentiated

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


def as_coefficient(
    name: str, value: object, frame: Frame, others: Collection[str] = ()
) -> tuple[sp.Expr, Datum | None]:
    """What the user gave for the coefficient `name` -> its expression, and the data to keep beside the operator.

    An expression may use the `others`.
    """
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
        stray = {s for s in value.free_symbols - set(coordinates) if s.name not in others}
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


CLEARLY = 1e-9  # numbers of expressions have 34 digits: what multiplies out to zero comes out smaller than that
FLOATS = (sp.Float("1e-100"), sp.Float("1e100"))  # beyond, a product with an exponential may need its exponent


@lru_cache(maxsize=1024)
def simplest(expression: sp.Expr) -> sp.Expr:
    """Zero if it multiplies out to that; otherwise as it stands or multiplied out, whichever takes less to evaluate.

    Functions keep their arguments: SymPy would make e^{-3000 (x - 1/2)^2} a product of 1e-326 and e^{3000 x}, and
    (x - 1/2)^20 a sum whose terms cancel.
    """
    if expression.is_Number or expression.is_Symbol:
        return expression
    if not _differs_from_zero(expression) and sp.expand(expression) == 0:
        return sp.S.Zero
    expanded = expression.expand(deep=False, power_exp=False, power_base=False, log=False)
    return expression if sp.count_ops(expression) < sp.count_ops(expanded) else expanded


def _differs_from_zero(expression: sp.Expr) -> bool:
    """Whether it does at one point, clearly: then there is no need to multiply it out to see."""
    if any(isinstance(f, DataFunction | RowFunction) for f in expression.atoms(sp.Function)):
        return False
    names = sorted(expression.free_symbols, key=str)
    try:
        value = expression.evalf(15, subs={name: sp.Rational(3 + 2 * k, 7 + k) for k, name in enumerate(names)})
        return bool(CLEARLY < abs(value) < 1 / CLEARLY)
    except (ArithmeticError, TypeError, ValueError, AttributeError, RecursionError):
        return False


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
