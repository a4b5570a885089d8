"""Jets: the field itself inside an expression, where it is more than a factor.

A `Jet` is a derivative of a channel at a point, as a SymPy function of the coordinates of that point, so that the
product and chain rules of SymPy differentiate and move expressions in it. A `FieldIntegral` is the integral of such an
expression. What is linear in the field is never written so: it stays a sum of terms (`cnf.operators.operator`).
"""

from __future__ import annotations

from functools import cache, lru_cache

import sympy as sp
import torch

from cnf.errors import OperatorError
from cnf.operators.coefficients import DataFunction, RowFunction, _called, simplest
from cnf.operators.evaluation import evaluate_all
from cnf.operators.place import Integral

ROUNDING = 1e-9  # of expressions in float64
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


@lru_cache(maxsize=4096)
def slope(expression: sp.Expr, jet: sp.Expr) -> sp.Expr:
    """d expression / d jet, all others held fixed; at kinks that of one side, and jumps are flat."""
    stand_in = sp.Dummy("jet", real=True)
    found = expression.xreplace({jet: stand_in}).diff(stand_in)
    if found.has(sp.DiracDelta, sp.Heaviside):
        found = found.replace(sp.DiracDelta, lambda *_: sp.S.Zero)
        found = found.replace(sp.Heaviside, lambda z, *_: (1 + sp.sign(z)) / 2)
    return found.xreplace({stand_in: jet})


def affine(expression: sp.Expr) -> tuple[sp.Expr, sp.Expr] | None:
    """(linear, free) if the expression is that sum, as (u + 1)^2 - u^2 is 2u + 1; None if it is not linear in its jets.

    Multiplies out if it may be: how far that goes is to be bounded before.
    """
    unknown = [*jets_in(expression), *outer_integrals(expression)]
    stand_ins = {node: sp.Dummy(f"j{k}", real=True) for k, node in enumerate(unknown)}
    meant, nothing = {v: k for k, v in stand_ins.items()}, dict.fromkeys(stand_ins.values(), sp.S.Zero)
    whole = expression.xreplace(stand_ins)
    free = whole.xreplace(nothing)
    if not _is_finite(free) or not _may_be_affine(whole.xreplace({v: 2 * v for v in meant}), whole, free):
        return None
    linear = sp.Add(*(slope(whole, stand_in).xreplace(nothing) * stand_in for stand_in in meant))
    if not _is_finite(linear) or simplest(whole - linear - free) != 0:
        return None
    return linear.xreplace(meant), free


def _is_finite(expression: sp.Expr) -> bool:
    """Whether it is a real number wherever its symbols are, as far as SymPy sees: ln(u - 2) is none at u = 0."""
    return not expression.has(sp.zoo, sp.nan, sp.oo, -sp.oo, sp.I)


def _may_be_affine(twice: sp.Expr, once: sp.Expr, free: sp.Expr) -> bool:
    """Whether at one point as much is added from once to twice the jets as from none to once; mostly it is not."""
    found = (twice, once, free)
    data = sorted({f for e in found for f in e.atoms(DataFunction, RowFunction)}, key=sp.default_sort_key)
    change = {node: sp.Dummy(f"d{k}", real=True) for k, node in enumerate(data)}
    plain = [e.xreplace(change) for e in found]
    names = sorted({s for e in plain for s in e.free_symbols}, key=str)
    values = {name: torch.tensor((3 + 2 * k) / (7 + k), dtype=torch.float64) for k, name in enumerate(names)}
    at_twice, at_once, at_none = (
        float(v) for v in evaluate_all(plain, values, {}, torch.zeros((), dtype=torch.float64))
    )
    size = abs(at_twice) + 2 * abs(at_once) + abs(at_none)
    return abs(at_twice - 2 * at_once + at_none) <= ROUNDING * size  # not where it is not a number


def outer_integrals(expression: sp.Expr) -> list[FieldIntegral]:
    """The integrals of an expression that stand under no other."""
    found = expression.atoms(FieldIntegral)
    inner = {node for other in found for node in other.args[0].atoms(FieldIntegral)}
    return sorted(found - inner, key=sp.default_sort_key)
