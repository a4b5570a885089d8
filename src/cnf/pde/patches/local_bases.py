"""Local bases: what patches may have instead of polynomials, by name; in Python any function that makes a basis."""

from __future__ import annotations

import math
from collections.abc import Callable

from cnf.bases.basis import Basis
from cnf.bases.fourier import RandomFourier
from cnf.bases.local_functions import Products
from cnf.constraints import Space
from cnf.errors import ProblemError
from cnf.pde.patches.layout import Counts

LocalBasis = Callable[[Space, int], Basis]  # from the number of conditions of a patch to functions of -1 <= z <= 1

MORE = 1.25  # waves per condition: of random ones as many as there are conditions do not tell these apart
FINEST = 4.0  # bandwidth of waves times the degree of as many polynomials: those that polynomials just resolve


def random_waves(space: Space, count: int) -> Basis:
    """Waves about as short as `count` polynomials resolve: better where fields oscillate, worse where they do not."""
    degree = count ** (1 / len(space.coordinates)) - 1
    return RandomFourier(space, math.ceil(MORE * count), FINEST / max(degree, 1.0))


LOCAL_BASES: dict[str, LocalBasis] = {"waves": random_waves}


def local_basis(make: LocalBasis, space: Space, counts: Counts) -> Basis:
    """The functions for conditions that are laid out as for polynomials of a degree; at least as many."""
    if counts.by_channel is not None or counts.orders.time is not None:
        raise ProblemError(
            "local functions other than polynomials are for problems without time whose channels have the same order; "
            "leave local out",
            ("solve", "local"),
        )
    count = len(Products(counts.degree, counts.circular, max(1, counts.depth)).exponents)
    found = make(space, count)
    if not isinstance(found, Basis) or found.size < count:
        size = found.size if isinstance(found, Basis) else type(found).__name__
        raise ProblemError(f"a patch needs a basis of at least {count} local functions; got {size}", ("solve", "local"))
    return found
