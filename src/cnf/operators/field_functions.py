"""Jets: the field itself inside an expression, where it is more than a factor.

A `Jet` is a derivative of a channel at a point, as a SymPy function of the coordinates of that point, so that the
product and chain rules of SymPy differentiate and move expressions in it. A `FieldIntegral` is the integral of such an
expression. What is linear in the field is never written so: it stays a sum of terms (`cnf.operators.operator`).
"""

from __future__ import annotations

from functools import cache

import sympy as sp

from cnf.errors import OperatorError
from cnf.operators.coefficients import DataFunction, _called
from cnf.operators.place import Integral

PREFIX = "field "  # of the names under which a state is bound to the jets of a channel


class Jet(DataFunction):
    """Base of the functions that stand for the derivative `orders` of the channel `channel`."""

    channel: str = ""
    knows_derivatives = True
    is_real = True

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        orders = tuple(order + (k == argindex - 1) for k, order in enumerate(self.orders))
        return jet_function(self.channel, orders)(*self.args)

    def __reduce_ex__(self, protocol: object) -> tuple:
        return _called, (jet_function, (self.channel, self.orders), self.args)


@cache
def jet_function(channel: str, orders: tuple[int, ...]) -> type[sp.Function]:
    """The SymPy function for the derivative `orders` of the channel."""
    label = channel + "".join(f"_{order}" for order in orders)
    entries = {"channel": channel, "data": PREFIX + channel, "orders": orders, "nargs": len(orders)}
    return type(label, (Jet,), entries)


class FieldIntegral(sp.Function):
    """The integral of the first argument over the variable, from the lower to the upper limit."""

    nargs = 4

    @property
    def span(self) -> Integral:
        return Integral(*self.args[1:])

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        raise OperatorError("an integral of a nonlinear expression cannot be differentiated; write the result yourself")

    def _eval_derivative(self, s: sp.Symbol) -> sp.Expr:
        return sp.S.Zero if s not in self.free_symbols else self.fdiff()


def has_jets(expression: sp.Expr) -> bool:
    """Whether the field itself is in the expression."""
    return expression.has(Jet)


def jets_in(expression: sp.Expr) -> list[Jet]:
    """The jets of an expression outside its integrals, in a fixed order."""
    found: set[Jet] = set()
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Jet):
            if any(has_jets(argument) for argument in node.args):
                raise OperatorError("the field at a point that depends on the field cannot be used")
            found.add(node)
        elif not isinstance(node, FieldIntegral):
            waiting += node.args
    return sorted(found, key=sp.default_sort_key)


def slope(expression: sp.Expr, jet: sp.Expr) -> sp.Expr:
    """d expression / d jet, all others held fixed."""
    stand_in = sp.Dummy("jet", real=True)
    return expression.xreplace({jet: stand_in}).diff(stand_in).xreplace({stand_in: jet})
