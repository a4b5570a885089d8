"""What a module is checked for before it is handed out: its precision, and that calls leave it as it is."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

import cnf
from cnf.errors import CnfError, NumericalWarning
from cnf.modules import measure_difference
from tests.bases.contract import anchors, places
from tests.modules.test_bases import solution_of

LINE = cnf.Space("x", "u")


def smooth(width: float, count: int = 9) -> cnf.Solution:
    """sin 3x by Gaussians: the wider, the larger the weights that cancel each other."""
    points = torch.linspace(0, 1, count, dtype=torch.float64)[:, None]
    condition = LINE.constraint("u", at=points, equals=lambda x: (3 * x[:, 0]).sin())
    basis = cnf.bases.Kernel(LINE, points, cnf.kernels.Gaussian(width))
    return cnf.ConstrainedField(basis, [condition]).eval().solution


def test_single_precision_that_is_far_off_is_told():
    """By how much is what the values at the anchors say, which the certificate calls exact."""
    solution = smooth(0.8)
    x = solution.constraints[0].points
    assert solution.certificate.exact
    with pytest.warns(NumericalWarning, match=r"in torch.float32 the module is [0-9.e+-]+ off the field") as told:
        module = solution.as_module(torch.float32)
    off = float((module(x).double() - (3 * x).sin()).abs().max())
    said = float(str(told[0].message).split("the module is ")[1].split()[0])
    assert off > 1e-3 and off <= 1.1 * said <= 20 * off
    assert f"{float(solution.weights.abs().sum()):.1e}" in str(told[0].message)


def test_single_precision_that_holds_is_silent():
    """With small weights, and as fine as the field itself, nothing is said."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module = smooth(0.1).as_module(torch.float32)
        assert module.like.dtype == torch.float32
        assert smooth(0.8).as_module(torch.float64).like.dtype == torch.float64


def test_single_precision_that_leaves_nothing_is_refused():
    """Weights of 4e7 leave numbers larger than the field."""
    solution = smooth(1.0)
    assert float(solution.weights.abs().sum()) > 3e7
    with pytest.raises(CnfError, match="leaves nothing of the field"):
        solution.as_module(torch.float32)


def test_a_jump_is_no_difference():
    """A base that jumps where a point lies: single precision may put that point on either side."""

    class Step(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.where(x > 0.25 * (1 - 1e-12), 5.0, 0.0).to(x)

    points = torch.tensor([[0.0], [0.25], [1.0]], dtype=torch.float64)
    condition = LINE.constraint("u", at=points, equals=1.0)
    solution = cnf.ConstrainedField(cnf.bases.RandomFourier(LINE, 20, 0.7), [condition], base=Step()).eval().solution
    module = solution.as_module().to(torch.float32)
    assert float(module(points)[1]) != pytest.approx(1.0, abs=0.1)  # it is on the other side
    assert measure_difference(module, solution.expansion, solution, [points]).share < 1e-4


def test_networks_that_calls_change_are_refused():
    """Spectral norms in training mode take a step at every call; in eval mode they leave with the field."""
    torch.manual_seed(0)
    normed = torch.nn.utils.parametrizations.spectral_norm
    base = nn.Sequential(normed(nn.Linear(2, 9)), nn.Tanh(), normed(nn.Linear(9, 1))).double()
    space = cnf.Space("x y", "u")
    condition = space.constraint("u", at=anchors(2)[:4], equals=1.0)
    for training in (True, False):
        base.train(training)
        field = cnf.ConstrainedField(cnf.bases.RandomFourier(space, 40, 0.7), [condition], base=base)
        solution = field.train(training).solve()
        if training:
            with pytest.raises(CnfError, match=r"a call changes its base.*base\.eval\(\)"):
                solution.as_module()
        else:
            module = solution.as_module()
            assert torch.equal(module(places(2)), module(places(2)))
            assert torch.allclose(module(places(2)), solution(places(2)), rtol=0, atol=1e-12)


def test_networks_that_count_their_calls_are_refused():
    """What is kept outside of buffers shows in the values of a second call."""

    class Counting(nn.Module):
        calls, step = 0, [0]  # the step is one for all copies

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += self.step[0]
            return x[:, :1] + 1e-3 * self.calls

    base, space = Counting(), cnf.Space("x y", "u")
    condition = space.constraint("u", at=anchors(2)[:4], equals=1.0)
    field = cnf.ConstrainedField(cnf.bases.RandomFourier(space, 40, 0.7), [condition], base=base).eval()
    solution = field.solution
    base.step[0] = 1  # from now on
    with pytest.raises(CnfError, match="a second call gives other values"):
        solution.as_module()


@pytest.mark.parametrize("name", ["Kernel-DotProduct-own-encoder", "Hypernet-own-network", "HypernetKernel"])
def test_fields_whose_networks_work_in_single_precision(name: str):
    """They leave: another order of the same roundings is no defect. What is off is a few of these roundings."""
    solution = solution_of(name).in_precision(torch.float32)
    want = solution(places(2))
    size = float(want.abs().max()) + float(solution.weights.abs().sum())
    assert float((solution.as_module()(places(2)) - want).abs().max()) <= 1e-5 * size


def test_a_script_in_single_precision_leaves():
    """As the field evaluates it: in double precision."""
    torch.manual_seed(0)
    script = torch.jit.script(nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)))
    solution = solution_of("RandomFourier", script)
    assert torch.allclose(solution.as_module()(places(2)), solution(places(2)), rtol=0, atol=1e-12)
