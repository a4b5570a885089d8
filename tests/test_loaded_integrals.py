r"""Integrals of fields that were kept: what a certificate says after loading, copying or moving is true for SciPy.

The parameters of a file are restored after the field is made, so rules that were found when it was made may be blind to
what it is now. Answers come from `scipy.integrate.quad` on the values of the field, told where it varies; in the plane
from Gauss' rule on panels. The library is never asked for the integral of its own field.
"""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
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
ROUNDING = {torch.float64: 1e-9, torch.float32: 1e-5}

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


def on_line(solution: cnf.Solution, integrand: Integrand) -> float:
    def value(x: float) -> float:
        with torch.no_grad():
            return integrand(x, float(solution(torch.tensor([[x]], dtype=torch.float64))))

    edges = [0.0, 0.1, 0.2, 0.25, STEP, 0.35, 0.4, 0.5, 0.6, 0.8, 1.0]
    parts = zip(edges, edges[1:], strict=False)
    return sum(scipy.integrate.quad(value, a, b, epsabs=1e-13, epsrel=1e-13, limit=200)[0] for a, b in parts)


def in_the_plane(solution: cnf.Solution, integrand: Integrand, panels: int = 40) -> float:
    nodes, weights = np.polynomial.legendre.leggauss(16)
    x = ((np.arange(panels)[:, None] + (nodes + 1) / 2) / panels).ravel()
    w = np.tile(weights / 2 / panels, panels)
    grid = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1)
    with torch.no_grad():
        u = solution(torch.from_numpy(grid))[..., 0].numpy()
    return float(w @ integrand(grid[..., 0], u) @ w)  # type: ignore[arg-type]


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
    "nested": (PLANE, r"\int_0^1\!\int_0^1 x u \, dx \, dy = 1", in_the_plane, lambda x, u: x * u),
    "nonlinear in the plane": (PLANE, r"\int_0^1\!\int_0^1 u^2 \, dx \, dy = 3", in_the_plane, lambda x, u: u**2 - 2),
}


@pytest.mark.parametrize("base", ["none", "untrained", "trained"])
@pytest.mark.parametrize("asked", ASKED)
def test_a_loaded_field_is_certified_as_it_is(asked: str, base: str, tmp_path: Path):
    """Integrals that are met stay met, for SciPy and for the certificate, and nothing is solved a second time."""
    space, written, summed, integrand = ASKED[asked]
    width = len(space.coordinates)
    given = None if base == "none" else network(width)
    field = cnf.ConstrainedField(waves(space), condition(space, written), base=given)
    if given is not None and base == "trained":
        train(given[0], 16.0 if width == 1 else 6.0)
    expected, x = field.eval()(spots(width)), spots(width)
    loaded = kept_in_file(field, tmp_path)
    certificate = loaded.certificate
    missed = abs(summed(loaded.solution, integrand) - 1)
    assert missed < 1e-9 and certificate.residuals["mass"].absolute == pytest.approx(missed, abs=1e-9)
    assert certificate.exact == field.certificate.exact
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
    """A network of one's own, passed again untrained; networks inside a basis; a learnt weight under the integral."""
    own = Rise()
    field = cnf.ConstrainedField(waves(LINE), condition(LINE, LINEAR[1]), base=own)
    train(own.inner, 40.0)
    _check(kept_in_file(field, tmp_path, base=Rise()), field)

    inner = network()[:2]
    layer = cnf.bases.ConstraintLayer(LINE, inner)
    field = cnf.ConstrainedField(layer, condition(LINE, LINEAR[1]))
    with torch.no_grad():
        inner[0].weight.mul_(20)
    _check(kept_in_file(field, tmp_path), field)

    weight = network()
    learnt = LINE.constraint(r"\int_0^1 a u \, dx = 1", a=weight, name="mass")
    field = cnf.ConstrainedField(waves(LINE), [condition(LINE, LINEAR[1])[0], learnt])
    train(weight[0], 30.0)
    found = kept_in_file(field, tmp_path)

    def weighed(x: float, u: float) -> float:
        return float(weight(torch.tensor([[x]], dtype=torch.float64)).detach()) * u

    _check(found, field, weighed)


def _check(
    loaded: cnf.ConstrainedField, field: cnf.ConstrainedField, integrand: Integrand = lambda x, u: u, tolerance=1e-9
) -> None:
    missed = abs(on_line(loaded.solution, integrand) - 1)
    assert loaded.certificate.exact and missed < tolerance
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
    before = float(state["base.2.weight"].sum())
    assert before == before
    state["base.2.weight"].copy_(torch.tensor([[50.0, -50.0, *[0.0] * 6]]))
    state["base.2.bias"].zero_()
    torch.save(content, tmp_path / "changed.pt")
    loaded = cnf.load(tmp_path / "changed.pt").eval()
    with pytest.warns(ViolationWarning):
        said = loaded.certificate.residuals["mass"].absolute
    assert said == pytest.approx(abs(on_line(loaded.solution, lambda x, u: u) - 1), rel=1e-6)
