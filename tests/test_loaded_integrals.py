r"""Integrals of fields that were kept: what a certificate says after loading, copying or moving is true for SciPy.

The parameters of a file are restored after the field is made, so rules that were found when it was made may be blind to
what it is now. Answers come from `scipy.integrate.quad` on the values of the field, told where it varies; in the plane
from Gauss' rule on panels. The library is never asked for the integral of its own field.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import scipy.integrate
import torch
from torch import Tensor, nn

import cnf
from cnf.errors import ViolationWarning
from cnf.operators import integral

LINE, PLANE = cnf.Space("x", "u"), cnf.Space("x y", "u")
STEP = 0.3  # where the trained network rises

Integrand = Callable[[float, float], float]  # of x and u


def spots(width: int) -> Tensor:
    return torch.rand(4, width, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def network(width: int = 1) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(width, 8), nn.Tanh(), nn.Linear(8, 1)).to(torch.float64)


def train(layer: nn.Module, sharpness: float) -> None:
    """What training may come to: units that rise where x + ... = 0.3 and beyond, over a length of 1/sharpness."""
    with torch.no_grad():
        layer.weight.fill_(sharpness)
        layer.bias.copy_(-sharpness * STEP - 2 * torch.arange(layer.bias.numel()))


def condition(space: cnf.Space, asked: object) -> list[cnf.Constraint]:
    values = space.constraint("u", at=spots(len(space.coordinates)), equals=1.0, name="values")
    if isinstance(asked, str):
        return [values, space.constraint(asked, name="mass")]
    return [values, space.constraint(asked, equals=1.0, name="mass")]


def waves(space: cnf.Space) -> cnf.bases.RandomFourier:
    torch.manual_seed(2)
    return cnf.bases.RandomFourier(space, 30, bandwidth=0.4)


def on_line(solution: cnf.Solution, integrand: Integrand, accuracy: float = 1e-13) -> float:
    def value(x: float) -> float:
        with torch.no_grad():
            return integrand(x, float(solution(torch.tensor([[x]], dtype=torch.float64))))

    edges = [0.0, 0.1, 0.2, 0.25, STEP, 0.35, 0.4, 0.5, 0.6, 0.8, 1.0]
    settings = {"epsabs": accuracy, "epsrel": accuracy, "limit": 200}
    return sum(scipy.integrate.quad(value, a, b, **settings)[0] for a, b in pairwise(edges))


def in_the_plane(solution: cnf.Solution, integrand: Integrand, below_diagonal: bool = False, panels: int = 40) -> float:
    """Over the unit square, or the half of it where y < x."""
    nodes, weights = np.polynomial.legendre.leggauss(16)
    x = ((np.arange(panels)[:, None] + (nodes + 1) / 2) / panels).ravel()
    w = np.tile(weights / 2 / panels, panels)
    grid = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1)
    stretch = grid[..., 0] if below_diagonal else np.ones(grid.shape[:2])
    grid[..., 1] *= stretch
    with torch.no_grad():
        u = solution(torch.from_numpy(grid))[..., 0].numpy()
    return float(w @ (stretch * integrand(grid[..., 0], u)) @ w)  # type: ignore[arg-type]


def kept_in_file(field: cnf.ConstrainedField, folder: Path, **given: object) -> cnf.ConstrainedField:
    field.save(folder / "field.pt")
    return cnf.load(folder / "field.pt", **given).eval()  # type: ignore[arg-type]


LINEAR = (LINE, r"\int_0^1 u \, dx = 1", on_line, lambda x, u: u)
ASKED = {
    "LaTeX": LINEAR,
    "Python": (LINE, integral("x", 0, 1), on_line, lambda x, u: u),
    "weighted": (LINE, r"\int_0^1 x^2 u \, dx = 1", on_line, lambda x, u: x**2 * u),
    "nonlinear": (LINE, r"\int_0^1 u^2 \, dx = 3", on_line, lambda x, u: u**2 - 2),
    "double": (PLANE, r"\int_0^1\!\int_0^1 u \, dx \, dy = 1", in_the_plane, lambda x, u: u),
    "nested": (
        PLANE,
        r"\int_0^1\!\int_0^x u \, dy \, dx = 1",
        partial(in_the_plane, below_diagonal=True),
        lambda x, u: u,
    ),
    "nonlinear in the plane": (PLANE, r"\int_0^1\!\int_0^1 u^2 \, dx \, dy = 9", in_the_plane, lambda x, u: u**2 - 8),
}


@pytest.mark.parametrize("base", ["none", "untrained", "trained"])
@pytest.mark.parametrize("asked", ASKED)
def test_a_loaded_field_is_certified_as_it_is(asked: str, base: str, tmp_path: Path):
    """Integrals that are met stay met, for SciPy and for the certificate, and nothing is solved a second time."""
    space, written, summed, integrand = ASKED[asked]
    width = len(space.coordinates)
    given = None if base == "none" else network(width)
    if given is not None and base == "trained":
        train(given[0], 16.0 if width == 1 else 6.0)
    field = cnf.ConstrainedField(waves(space), condition(space, written), base=given)
    expected, x = field.eval()(spots(width)), spots(width)
    loaded = kept_in_file(field, tmp_path)
    certificate = loaded.certificate
    assert abs(summed(loaded.solution, integrand) - 1) < 1e-8  # 1e-9 of what is asked
    assert certificate.exact and "read from a file" in str(certificate)
    assert torch.equal(loaded(x), expected) and torch.equal(loaded(x), expected)


class Rise(nn.Module):
    """A network of one's own, which says how fast it varies."""

    shortest_length = 0.02

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(1, 1, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        return 3 * torch.tanh(self.inner(x))


def test_other_parts_that_are_trained(tmp_path: Path):
    """A network of one's own, passed again untrained; a network inside a basis; a learnt bandwidth."""
    own = Rise()
    train(own.inner, 40.0)
    field = cnf.ConstrainedField(waves(LINE), condition(LINE, LINEAR[1]), base=own)
    _check(kept_in_file(field, tmp_path, base=Rise()), field)

    inner = network()[:2]
    layer = cnf.bases.ConstraintLayer(LINE, inner)
    with torch.no_grad():
        inner[0].weight.mul_(20)
    field = cnf.ConstrainedField(layer, condition(LINE, LINEAR[1]))
    _check(kept_in_file(field, tmp_path), field)

    narrow = waves(LINE)
    with torch.no_grad():
        narrow.log_bandwidth.sub_(3.0)
    field = cnf.ConstrainedField(narrow, condition(LINE, LINEAR[1]))
    _check(kept_in_file(field, tmp_path), field)


def _check(loaded: cnf.ConstrainedField, field: cnf.ConstrainedField) -> None:
    assert loaded.certificate.exact and abs(on_line(loaded.solution, lambda x, u: u) - 1) < 1e-9
    assert torch.equal(loaded(spots(1)), field.eval()(spots(1)))


def test_what_a_changed_file_misses_is_seen(tmp_path: Path):
    """A network in a file is exchanged for a narrow bump: the conditions are missed by as much as SciPy says."""
    field = cnf.ConstrainedField(waves(LINE), [condition(LINE, LINEAR[1])[1]], base=network()).eval()
    field.save(tmp_path / "field.pt")
    content = torch.load(tmp_path / "field.pt", weights_only=True)
    width, state = 1e-4, content["state"]
    state["base.0.weight"].fill_(0.0)
    state["base.0.weight"][:2] = 1 / width
    state["base.0.bias"].copy_(torch.tensor([-STEP / width, -STEP / width - 2, *[0.0] * 6]))
    state["base.2.weight"].copy_(torch.tensor([[50.0, -50.0, *[0.0] * 6]]))
    state["base.2.bias"].zero_()
    torch.save(content, tmp_path / "changed.pt")
    loaded = cnf.load(tmp_path / "changed.pt").eval()
    with pytest.warns(ViolationWarning):
        said = loaded.certificate.residuals["mass"].absolute
    assert said == pytest.approx(abs(on_line(loaded.solution, lambda x, u: u) - 1), rel=1e-6)


@pytest.mark.filterwarnings("ignore::cnf.errors.ViolationWarning")  # float32 under the tolerance of float64
def test_copies_and_changes_of_a_loaded_field(tmp_path: Path):
    """Copied, pickled, moved to another precision, given other values: the certificate is right within rounding."""
    base = network()
    train(base[0], 16.0)
    torch.manual_seed(4)
    kernel = cnf.bases.Kernel(LINE, spots(1), cnf.kernels.Gaussian(0.5), encoder=cnf.encoders.MLP(1, 8))
    field = cnf.ConstrainedField(kernel, condition(LINE, LINEAR[1])[1], base=base)

    def loaded() -> cnf.ConstrainedField:
        return kept_in_file(field, tmp_path)

    used = loaded()
    exact = [used.solution, copy.deepcopy(used).solution, copy.deepcopy(loaded()).solution]
    exact += [pickle.loads(pickle.dumps(used.solution)), pickle.loads(pickle.dumps(loaded())).solution]
    exact += [loaded().train().solution, kept_in_file(used, tmp_path).solution]
    coarse = [loaded().float().solution, used.solution.in_precision(torch.float32, throughout=True)]
    back = [loaded().float().double().solution]
    for solutions, rounding in ((exact, 1e-9), (back, 1e-9), (coarse, 1e-4)):
        for solution in solutions:
            assert solution.certificate.residuals["mass"].absolute < rounding
            assert abs(on_line(solution, lambda x, u: u, 0.1 * rounding) - 1) < rounding
    changed = used.update(values=2.0)
    assert changed.certificate.exact and abs(on_line(changed, lambda x, u: u) - 2) < 1e-9


def test_a_loaded_nonlinear_solution_is_kept(tmp_path: Path):
    """Measuring it remembers expressions in the conditions: no change, after which it would be solved anew."""
    field = cnf.ConstrainedField(waves(LINE), condition(LINE, ASKED["nonlinear"][1]))
    loaded = kept_in_file(field, tmp_path)
    found = loaded.solution
    assert loaded.certificate.exact and loaded.solution is found
