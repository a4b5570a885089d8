"""Natural sizes of conditions whose terms cancel: neither a wrong alarm beside a narrow source nor a hidden miss."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor, nn

import cnf
from cnf.certificate.sizes import allowed_sizes, amplitudes, cancelled_sizes, whole_amplitudes
from cnf.errors import ViolationWarning
from cnf.systems.base_function import BaseFunction

LINE = cnf.Space("x", "u")
MIDDLE = torch.tensor([[0.5]], dtype=torch.float64)
POINTS = 1 - torch.linspace(0, 1, 61, dtype=torch.float64)[:, None] ** 4  # most of them far from the source


class Wave(nn.Module):
    """sin(20 x) + e^(-30 x), the solution of u'' + 400 u = 1300 e^(-30 x), plus a bump with u'' = -`missed` at 0.5."""

    def __init__(self, missed: float = 0.0):
        super().__init__()
        self.missed = missed

    def forward(self, x: Tensor) -> Tensor:
        bump = 1e-6 * torch.exp(-0.5 * ((x - 0.5) / 1e-3) ** 2)
        return torch.sin(20 * x) + torch.exp(-30 * x) + self.missed * bump


def solve() -> cnf.Solution:
    """The known solution is the base: functions make up nothing but its rounding."""
    points = torch.cat([POINTS, MIDDLE])
    source = LINE.constraint(r"u_{xx} + 400 u = 1300 e^{-30 x}", at=points, name="wave")
    zero = LINE.constraint("u - u(0.5) = 0", at=MIDDLE, name="nothing")
    basis = cnf.bases.RandomFourier(LINE, size=200, bandwidth=0.05)
    return cnf.ConstrainedField(basis, [source, zero], base=Wave()).solve()


@pytest.fixture(scope="module")
def solution() -> cnf.Solution:
    return solve()


def test_a_wave_beside_a_narrow_source_is_exact(solution):
    """The median right-hand side is 1e-9, each of the terms up to 400: misses of 1e-12 are rounding of the terms."""
    sides = torch.cat([constraint.values.reshape(-1) for constraint in solution.constraints])
    assert 0 < float(sides.median()) < 1e-8
    certificate = solution.certificate
    assert certificate.residuals["wave"].absolute > 1e-9 * float(sides.median())
    assert certificate.exact


@pytest.mark.filterwarnings("error::cnf.errors.ViolationWarning")
def test_a_sample_beside_a_narrow_source_raises_no_alarm():
    """What a step of training looks at, one point in eight, holds no point of the source: all are looked at then."""
    assert "NOT EXACT" not in solve().spot_check.summary()


@pytest.mark.parametrize("part", (1e-8, 1e-6))
def test_misses_are_called_out_by_the_terms_at_their_point(solution, part):
    """The same field off by a bump at one point: terms of 218 each there, missed by `part` of them."""
    base = BaseFunction(Wave(missed=part * 2 * 400 * 0.544), 1, MIDDLE)
    with pytest.warns(ViolationWarning):
        certificate = dataclasses.replace(solution, base=base, spot_check=None).certificate
    assert certificate.violated == ("wave",)


def test_what_asks_is_not_excused_by_the_whole():
    """U = 1e-7 is asked for typically, V = 0.1 of the whole: V counts where nothing is asked, and for a sum of terms
    that cancel in a tail, as far as these and the peak reach; a value of 1e-6 from one term is not excused by it."""
    asked = torch.tensor([[1e-6], [0.0], [1e-6], [1e-6], [1e-6]], dtype=torch.float64)
    terms = torch.tensor([[1e-6], [0.0], [5.0], [5e-3], [5.0]], dtype=torch.float64)
    sums = torch.tensor([[1e-6], [0.0], [1e-6], [1e-6], [1.0]], dtype=torch.float64)  # the last one misses everything
    for peak, allowed in ((1.0, [1e-6, 0.1, 0.1, 5e-3, 1e-6]), (0.01, [1e-6, 0.1, 0.01, 5e-3, 1e-6])):
        cancelled = cancelled_sizes(sums, terms, asked, torch.tensor([peak], dtype=torch.float64))
        found = allowed_sizes(asked, torch.ones(5, 1, dtype=torch.float64), 1e-7, 0.1, cancelled)
        assert found[:, 0].tolist() == allowed
    assert not cancelled_sizes(sums, terms, asked, asked.amax(dim=0)).any()  # asked for throughout: no tail


@pytest.mark.parametrize(
    ("sides", "shown", "whole"),
    (
        ([1e3, 1.0, 1.0, 1e-9, 1e-9, 1e-9, 1e-9], 1e4, 1.0),  # one huge value of the three that stand
        ([1e3, 1e3, 1e3, 1e-9, 1e-9, 1e-9, 1e-9], 2.0, 2.0),  # a source so narrow that the field stays below it
        ([1e3, 1e3, 1e3, 1e-9, 1e-9, 1e-9, 1e-9], 0.0, 1e-9),  # never below what all conditions ask for
    ),
)
def test_the_amplitude_of_the_whole(sides, shown, whole):
    """Of seven conditions four cancel: the median of the others counts, and no more than the field shows."""
    points = torch.linspace(0, 1, 7, dtype=torch.float64)[:, None]
    constraint = LINE.constraint("u", at=points, equals=torch.tensor(sides, dtype=torch.float64), name="data")
    values, sizes = [constraint.values], [torch.ones(7, 1, dtype=torch.float64)]
    standing = [torch.arange(7)[:, None] < 3]
    asked = amplitudes([constraint], values, sizes, lambda of: float("inf"))
    assert asked == [1e-9]
    assert whole_amplitudes([constraint], values, sizes, asked, standing, lambda numbers: shown) == [whole]
    none = [torch.zeros(7, 1, dtype=torch.bool)]
    assert whole_amplitudes([constraint], values, sizes, asked, none, lambda numbers: shown) == [1e-9]
