"""Kernels at their centres: what keeps derivatives finite and right where the distance vanishes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from cnf.bases.looked_into import is_looked_into
from cnf.fetching import is_here

FACTORIAL = tuple(math.factorial(n) for n in range(33))  # a table, which compilers can read
LEAST = 1e-32  # stands in for s = 0: the slope of the root must be finite


def away_from_zero(s: Tensor, power: int) -> Tensor:
    """s not smaller than it may be if r^-power is to stay within the range of its precision, and no larger than that.

    What is kept away from zero is wrong: a derivative of the kernel at r below the bound comes out as if it were there.
    """
    return s.clamp_min(least_square(s.dtype, power))


def least_square(dtype: torch.dtype, power: int) -> float:
    """The smallest s of which r^-power is taken; `LEAST` where nothing is divided by r."""
    return max(LEAST, torch.finfo(dtype).tiny ** (1.8 / max(1, power)))


def smooth_at_centre(s: Tensor, found: list[Tensor], at_zero: list[float]) -> list[Tensor]:
    """k and its derivatives with their Taylor polynomials at s = 0 put in where s is clamped.

    A clamped s is constant to automatic differentiation, so second derivatives at a centre would come out as zero.
    Where others will differentiate k, they divide by r what is rounded to eps: there the polynomial takes over from
    the r on at which it is as exact, s^(nu - 1/2) = eps with the first odd power r^(2 nu) that it leaves out.
    """
    least = LEAST
    if not is_looked_into():
        if not s.numel() or (is_here(s) and bool(s.detach().min() > LEAST)):  # not even a table of which are near
            return found
    elif len(found) == 1 and len(at_zero) > 1:
        least = torch.finfo(s.dtype).eps ** (1 / (len(at_zero) - 1))
    near = s <= least
    result = list(found)
    for m in range(min(len(found), len(at_zero))):
        taylor = torch.full_like(s, at_zero[-1] / FACTORIAL[len(at_zero) - 1 - m])
        for j in range(len(at_zero) - 2 - m, -1, -1):
            taylor = taylor * s + at_zero[m + j] / FACTORIAL[j]
        result[m] = torch.where(near, taylor, found[m])
    return result
