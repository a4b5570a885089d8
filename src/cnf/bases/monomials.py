"""Monomials: the exponents of all products of powers up to a total degree."""

from __future__ import annotations

from math import comb

from cnf.errors import BasisError

LARGEST = 100_000  # monomials


def list_exponents(dimension: int, degree: int) -> list[tuple[int, ...]]:
    """One tuple of `dimension` exponents per monomial, in lexicographic order; refused before there are too many."""
    if not isinstance(degree, int) or degree < 0:
        raise BasisError(f"the degree is a whole number of at least 0; got {degree!r}")
    if degree > LARGEST or dimension > LARGEST or comb(dimension + degree, dimension) > LARGEST:
        raise BasisError(f"all monomials of {dimension} coordinates up to degree {degree} are more than {LARGEST}")
    exponents: list[tuple[int, ...]] = [()]
    for _ in range(dimension):
        exponents = [(*e, n) for e in exponents for n in range(degree + 1 - sum(e))]
    return exponents
