"""Terms of an operator as expressions in jets, and back."""

from __future__ import annotations

import sympy as sp

from cnf.operators.field_functions import FieldIntegral, Jet, jet_function
from cnf.operators.frame import Frame, symbol
from cnf.operators.operator import Term
from cnf.operators.place import Place


def as_jet(term: Term, frame: Frame) -> sp.Expr:
    """The term as an expression in jets."""
    assert term.channel is not None
    place = [term.place.at(name) for name in frame.coordinates]
    found = term.coefficient * jet_function(term.channel, frame.multi_index(term.derivatives))(*place)
    for span in reversed(term.place.integrals):
        found = FieldIntegral(found, span.variable, span.lower, span.upper)
    return found


def as_term(jet: Jet, frame: Frame) -> Term:
    """A term with the derivative, channel and place of the jet."""
    orders = tuple((name, k) for name, k in zip(frame.coordinates, jet.orders, strict=True) if k)
    moved = [(name, e) for name, e in zip(frame.coordinates, jet.args, strict=True) if e != symbol(name)]
    return Term(jet.channel, sp.S.One, tuple(sorted(orders)), Place(tuple(sorted(moved, key=lambda pair: pair[0]))))
