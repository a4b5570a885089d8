"""Cases that once passed for exact, or came back changed, without a word."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import cnf
from cnf.errors import BasisError, CnfError, CnfWarning, FileError, OperatorError, ViolationError

LINE = cnf.Space("x", "u")


def at(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None]


def waves(size: int = 64, bandwidth: float = 0.3) -> cnf.bases.RandomFourier:
    return cnf.bases.RandomFourier(LINE, size, bandwidth)


def trapezoid(solution: cnf.Solution, low: float, high: float, count: int = 200_001) -> float:
    x = torch.linspace(low, high, count, dtype=torch.float64)[:, None]
    with torch.no_grad():
        return float(np.trapezoid(solution(x)[:, 0].numpy(), dx=(high - low) / (count - 1)))


@pytest.mark.parametrize("bandwidth", [0.3, 0.03, 0.005, 0.002])
def test_integrals_follow_functions_of_any_width(bandwidth):
    """int_0^1 u = 1 measured by 200,001 trapezoids, for waves up to 500 radians per unit length."""
    mass = LINE.constraint(r"\int_0^1 u dx = 1", name="mass")
    values = LINE.constraint("u", at=at(0.3, 0.7), equals=torch.tensor([1.0, -1.0]), name="values")
    solution = cnf.ConstrainedField(waves(bandwidth=bandwidth), [mass, values]).solve()
    assert solution.certificate.exact
    assert trapezoid(solution, 0, 1) == pytest.approx(1.0, abs=1e-6 if bandwidth < 0.004 else 1e-8)


@pytest.mark.parametrize("weight", [r"\frac{1}{x}", r"\cos(100000 x)", r"\frac{1}{x^{0.99}}"])
def test_integrals_that_cannot_be_resolved_are_not_exact(weight):
    """A divergent integral, one that oscillates beyond every rule, one all but divergent: said, not certified."""
    condition = LINE.constraint(rf"\int_0^1 {weight} u dx = 1", name="weighted")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)
        certificate = cnf.ConstrainedField(waves(), condition).solve().certificate
    assert not certificate.exact
    assert "not resolved" in certificate.advice()


def test_an_integrable_singularity_is_resolved():
    """int_0^1 u / sqrt(x) dx = 1, which is 2 int_0^1 u(y^2) dy: 50 nodes of Gauss, for a smooth u."""
    condition = LINE.constraint(r"\int_0^1 \frac{1}{\sqrt{x}} u dx = 1", name="weighted")
    solution = cnf.ConstrainedField(waves(), condition).solve()
    nodes, weights = (torch.from_numpy(a) for a in np.polynomial.legendre.leggauss(50))
    values = solution(((nodes + 1) / 2).square()[:, None])[:, 0]
    assert solution.certificate.exact
    assert float((weights * values).sum().detach()) == pytest.approx(1.0, abs=1e-10)


def test_one_large_row_does_not_hide_a_contradiction():
    """u(0.5) = 0 and u(0.5) = 1, beside a row of norm 1e-16 that makes its own data look huge."""
    pair = [LINE.constraint("u", at=at(0.5), equals=v, name=f"u{v:.0f}") for v in (0.0, 1.0)]
    far = LINE.constraint("u", at=at(9.0), equals=1.0, name="far")
    basis = cnf.bases.Kernel(LINE, at(0.5, 0.6, 0.7), cnf.kernels.Gaussian(1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)
        with pytest.raises(ViolationError, match=r"u0.*u1"):
            cnf.ConstrainedField(basis, [*pair, far], on_violation="raise").solve()


def test_another_channel_does_not_hide_a_contradiction():
    space = cnf.Space("x", "u p")
    pair = [space.constraint("u", at=at(0.5), equals=v, name=f"u{v:.0f}") for v in (0.0, 1.0)]
    pressure = space.constraint("p", at=at(0.2), equals=1e9, name="pressure")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)
        certificate = (
            cnf.ConstrainedField(cnf.bases.RandomFourier(space, 20, 0.3), [*pair, pressure]).solve().certificate
        )
    assert not certificate.exact
    assert set(certificate.conflicts[0]) == {"u0", "u1"}


def test_zero_data_with_rounding_is_still_exact():
    """sin(pi x) is 1e-16, not 0, at x = 1: rounding in the data is not data."""
    ends = LINE.constraint(r"u = \sin(\pi x)", at=at(0.0, 1.0), name="ends")
    pde = LINE.constraint(r"u'' = -\pi^2 \sin(\pi x)", at=torch.linspace(0.05, 0.95, 19).double()[:, None], name="pde")
    assert cnf.ConstrainedField(waves(60, 0.5), [ends, pde]).solve().certificate.exact


def test_huge_coefficients_do_not_overflow_the_measure():
    certificate = (
        cnf.ConstrainedField(waves(), LINE.constraint("c u = 1", at=at(0.5), c=1e200, name="big")).solve().certificate
    )
    assert certificate.exact
    assert certificate.worst < 1e-12


def test_data_too_rough_for_the_basis_is_not_called_a_contradiction():
    """A step at 100 distinct points under waves of width 0.3: ill conditioned, but nothing contradicts."""
    x = torch.linspace(0, 1, 100, dtype=torch.float64)[:, None]
    step = LINE.constraint("u", at=x, equals=lambda p: (p[:, 0] > 0.5).double(), name="step")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)
        certificate = cnf.ConstrainedField(waves(400), step).solve().certificate
    assert certificate.conflicts == ()
    assert "bandwidth" in certificate.advice()


@pytest.mark.parametrize("layer", [nn.ELU(3.0), nn.GELU("tanh"), nn.Softplus(4.0)])
def test_settings_of_layers_are_saved(layer, tmp_path):
    base = nn.Sequential(nn.Linear(1, 8), layer, nn.Linear(8, 1)).double()
    field = cnf.ConstrainedField(waves(), LINE.constraint("u=1", at=at(0.5), name="a"), base=base)
    field.save(tmp_path / "f.pt")
    assert torch.equal(field(at(0.1, 0.9)), cnf.load(tmp_path / "f.pt")(at(0.1, 0.9)))


def test_a_single_flipped_bit_is_noticed(tmp_path):
    values = torch.linspace(0, 1, 40, dtype=torch.float64)
    field = cnf.ConstrainedField(waves(80), LINE.constraint("u", at=values[:, None], equals=values, name="a"))
    path = tmp_path / "f.pt"
    field.save(path)
    whole = bytearray(path.read_bytes())
    where = bytes(whole).index(values.numpy().tobytes())
    whole[where + 8 * 7 + 6] ^= 0x10
    path.write_bytes(bytes(whole))
    with pytest.raises(FileError, match="damaged"):
        cnf.load(path)


def test_shared_and_right_hand_side_parameters_come_back(tmp_path):
    speed, height = (nn.Parameter(torch.tensor(v, dtype=torch.float64)) for v in (0.3, 2.0))
    first = LINE.constraint("c u = 1", at=at(0.2), c=speed, name="first")
    second = LINE.constraint("c u' = k x", at=at(0.7), c=speed, k=height, name="second")
    field = cnf.ConstrainedField(waves(), [first, second])
    field.save(tmp_path / "f.pt")
    loaded = cnf.load(tmp_path / "f.pt")
    assert torch.equal(field(at(0.4)), loaded(at(0.4)))
    assert sorted(dict(loaded.named_parameters())) == sorted(dict(field.named_parameters()))
    loaded(at(0.4)).sum().backward()
    assert all(p.grad is not None for p in loaded.parameters())


def test_an_own_layer_inside_a_base_is_asked_for_by_its_place(tmp_path):
    class Cube(nn.Module):
        def forward(self, x):
            return x**3

    base = nn.Sequential(nn.Linear(1, 4), Cube(), nn.Linear(4, 1)).double()
    field = cnf.ConstrainedField(waves(), LINE.constraint("u=1", at=at(0.5), name="a"), base=base)
    field.save(tmp_path / "f.pt")
    with pytest.raises(FileError, match=r"networks=\{'base\.1': network\}"):
        cnf.load(tmp_path / "f.pt")
    assert torch.equal(field(at(0.3)), cnf.load(tmp_path / "f.pt", networks={"base.1": Cube()})(at(0.3)))


def test_constraints_do_not_follow_the_callers_tensors():
    points, values = at(0.0, 1.0), torch.tensor([1.0, 2.0], dtype=torch.float64)
    condition = LINE.constraint("u", at=points, equals=values, name="a")
    points += 0.5
    values *= 7
    solution = cnf.ConstrainedField(waves(), condition).solve()
    assert torch.allclose(solution(at(0.0, 1.0))[:, 0], torch.tensor([1.0, 2.0], dtype=torch.float64), atol=1e-12)


def test_eval_mode_notices_plain_attributes_and_settings():
    class Scaled(nn.Module):
        factor = 1.0

        def __init__(self):
            super().__init__()
            self.factor = 1.0

        def forward(self, x):
            return self.factor * x

    field = cnf.ConstrainedField(waves(), LINE.constraint("u=1", at=at(0.3), name="a"), base=Scaled()).eval()
    field(at(0.3))
    field.base.factor = 5.0
    assert field(at(0.3)).item() == pytest.approx(1.0, abs=1e-12)
    before = field.solution
    field.tolerance = 1e-30
    assert field.solution is not before


def test_second_derivatives_of_the_condition_number_are_refused():
    basis = waves(40, 0.5)
    field = cnf.ConstrainedField(basis, LINE.constraint("u=1", at=at(0.1, 0.3, 0.5, 0.8), name="a"))
    (first,) = torch.autograd.grad(cnf.losses.Condition()(field.solve()), basis.log_bandwidth, create_graph=True)
    with pytest.raises(CnfError, match="only once"):
        torch.autograd.grad(first, basis.log_bandwidth)


def test_fields_can_be_copied_after_use():
    field = cnf.ConstrainedField(waves(), LINE.constraint("u=1", at=at(0.3), name="a")).eval()
    field(at(0.3))
    assert torch.equal(copy.deepcopy(field)(at(0.7)), field(at(0.7)))


@pytest.mark.parametrize("answer", [None, np.ones(1), "x"])
def test_coefficients_that_return_nonsense_are_named(answer):
    with pytest.raises(CnfError, match="'k'"):
        LINE.constraint("k u = 1", at=at(0.5), k=lambda p: answer, name="a")


def test_other_nonsense_is_a_cnf_error(tmp_path):
    with pytest.raises(CnfError, match="'k'"):
        LINE.constraint("k u = 1", at=at(0.5), k=lambda p, q: p, name="a")
    with pytest.raises(CnfError, match="too large"):
        LINE.constraint("u", at=at(0.5), equals=10**400, name="a")
    field = cnf.ConstrainedField(waves(), LINE.constraint("u=1", at=at(0.3), name="a"))
    with pytest.raises(CnfError, match="no constraint 1"):
        field.update({1: 2})
    with pytest.raises(FileError):
        field.save(tmp_path / ("n" * 300))
    with pytest.raises(FileError):
        cnf.load(tmp_path / ("n" * 300))
    with pytest.raises(BasisError, match="seed"):
        cnf.bases.RandomFourier(LINE, 10, 0.3, seed=10**30)
    with pytest.raises(BasisError, match="more than"):
        cnf.bases.Polynomial(cnf.Space("a b c d g h", "u"), 60)
    assert cnf.bases.Polynomial(cnf.Space("a b c d g h", "u"), 3).size == 84
    seven = cnf.Space("a b c d g h k", "u")
    inner = "".join(r"\int_0^1 " for _ in range(7)) + "u da db dc dd dg dh dk = 1"
    with pytest.raises(OperatorError):
        seven.constraint(inner.replace(" dd ", r" \mathrm{d}d "), name="a")


def test_contradiction_does_not_hide_behind_a_basis_that_is_too_smooth():
    """u = 0 and u = 1 at the same ends: waves of length 5e4 make rows of u'' so small that any target looks large."""
    space = cnf.Space("x", "u")
    ends = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    inside = torch.linspace(0.05, 0.95, 20, dtype=torch.float64)[:, None]
    conditions = [
        space.constraint("u_{xx} = 1", at=inside, name="pde"),
        space.constraint("u = 0", at=ends, name="zero"),
        space.constraint("u = 1", at=ends, name="one"),
    ]
    field = cnf.ConstrainedField(cnf.bases.RandomFourier(space, 48, 5e4), conditions)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cnf.errors.CnfWarning)
        certificate = field.solve().certificate
    assert not certificate.exact
    assert max(certificate.residuals[name].relative for name in ("zero", "one")) >= 0.1
