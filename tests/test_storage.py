"""Saved fields come back the same, and files that are not fields are refused with one clear line."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

import cnf
from cnf.errors import CnfError, FileError
from cnf.files import write_archive

SPACE = cnf.Space("x t", "u")


def points(count: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(count, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def conditions() -> list[cnf.Constraint]:
    start = SPACE.constraint("u", at=points(6), equals=lambda p: torch.sin(p[:, 0]), name="start")
    flow = SPACE.constraint(r"\partial_t u + c \partial_x u = \sin(\pi x) t", at=points(9, 1), c=0.1, name="flow")
    return [start, flow]


def bases(constraints: list[cnf.Constraint]) -> dict[str, cnf.bases.Basis]:
    network = nn.Sequential(nn.Linear(2, 20), nn.Softplus(3.0), nn.Linear(20, 24)).double()
    members = [cnf.encoders.LearnablePolynomial(2, 1, degree=3, seed=k) for k in range(16)]
    main = cnf.encoders.MLP(2, 1, hidden=(12, 12), seed=1)
    encoder = cnf.encoders.MLP(2, 12, hidden=(16,), activation="softplus:10.0", seed=2)
    lifted = cnf.encoders.FourierFeatures(2, 12, hidden=(16,), seed=5)  # its frequencies are a buffer
    return {
        "hypernet": cnf.bases.Hypernet(SPACE, main, size=20, codes=8, seed=3),
        "hypernet kernel": cnf.bases.HypernetKernel(SPACE, constraints, encoder, codes=8, seed=3),
        "dot hypernet kernel": cnf.bases.HypernetKernel(SPACE, constraints, lifted, cnf.kernels.DotProduct(), codes=8),
        "hybrid": cnf.bases.Hybrid(
            cnf.bases.Kernel(SPACE, constraints, cnf.kernels.Gaussian(0.4)), cnf.kernels.Wendland(2, [0.7, 0.9])
        ),
        "hybrid hypernet": cnf.bases.Hybrid(
            cnf.bases.HypernetKernel(SPACE, constraints, encoder, codes=8), cnf.kernels.Wendland(2, 1.5)
        ),
        "fourier": cnf.bases.RandomFourier(SPACE, 40, bandwidth=[0.4, 0.7], seed=3),
        "kernel": cnf.bases.Kernel(SPACE, constraints, cnf.kernels.Matern(2.5, 0.4)),
        "encoded": cnf.bases.Kernel(
            SPACE, constraints, cnf.kernels.Gaussian(1.0), cnf.encoders.SIREN(2, 32, omega=4.0)
        ),
        "skewed": cnf.bases.SkewedRBF(SPACE, constraints, bandwidth=0.2, full=True),
        "hermite": cnf.bases.Hermite(SPACE, constraints, cnf.kernels.Wendland(2, 1.5)),
        "polynomial": cnf.bases.Polynomial(SPACE, 6, center=0.5, scale=0.5),
        "layer": cnf.bases.ConstraintLayer(SPACE, network),
        "features": cnf.bases.ConstraintLayer(SPACE, cnf.encoders.FourierFeatures(2, 30, hidden=(16,), seed=1)),
        "independent": cnf.bases.Independent(SPACE, members),
        "concat": cnf.bases.Concat([cnf.bases.Polynomial(SPACE, 2), cnf.bases.RandomFourier(SPACE, 30, 0.5)]),
        "poles": cnf.bases.Concat(
            [
                cnf.bases.RandomFourier(SPACE, 30, 0.5),
                cnf.bases.Kernel(SPACE, torch.full((4, 2), 5.0, dtype=torch.float64).cumsum(0), cnf.kernels.Pole()),
            ]
        ),
    }


@pytest.mark.parametrize("name", list(bases(conditions())))
def test_every_basis_comes_back_with_the_same_values(name, tmp_path):
    """Parameters are changed after construction, so that equality cannot come from equal initial values."""
    constraints = conditions()
    field = cnf.ConstrainedField(bases(constraints)[name], constraints, tolerance=1e-6)
    with torch.no_grad():
        for parameter in field.parameters():
            parameter.mul_(1.05)
    field.save(tmp_path / "field.pt")
    loaded = cnf.load(tmp_path / "field.pt")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cnf.errors.CnfWarning)
        assert torch.equal(field(points(20, 2)), loaded(points(20, 2)))
    assert [c.name for c in loaded.constraints] == ["start", "flow"]
    assert loaded.constraints[1].operator == constraints[1].operator
    elsewhere = points(5, 7)
    expected = torch.sin(torch.pi * elsewhere[:, 0]) * elsewhere[:, 1]
    assert torch.allclose(loaded.constraints[1].at(elsewhere).values[:, 0], expected, rtol=1e-14)


def test_base_solver_tolerance_mode_and_learnable_coefficient_come_back(tmp_path):
    base = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))  # float32 on purpose
    speed = nn.Parameter(torch.tensor(0.3, dtype=torch.float64))
    flow = SPACE.constraint(r"\partial_t u + c \partial_x u = 0", at=points(9, 1), c=speed, name="flow")
    solver = cnf.solvers.MinimumNorm(cutoff=1e-13)
    field = cnf.ConstrainedField(
        cnf.bases.RandomFourier(SPACE, 40, 0.5), flow, base=base, solver=solver, tolerance=1e-7, on_violation="raise"
    ).eval()
    field.save(tmp_path / "field.pt")
    loaded = cnf.load(tmp_path / "field.pt")
    assert torch.equal(field(points(20, 2)), loaded(points(20, 2)))
    assert (loaded.solver, loaded.tolerance, loaded.on_violation, loaded.training) == (solver, 1e-7, "raise", False)
    assert next(loaded.base.parameters()).dtype == torch.float32
    assert "coefficients.c" in dict(loaded.named_parameters())


class Waves(cnf.bases.Basis):
    """A basis of one's own."""

    def __init__(self, space: cnf.Space):
        super().__init__(space, 20)
        self.scale = nn.Parameter(torch.ones((), dtype=torch.float64))

    def forward(self, x):
        return torch.cos(self.scale * x[:, :1] * torch.arange(20, dtype=x.dtype) + x[:, 1:])


class Bump(nn.Module):
    """A network of one's own."""

    def __init__(self):
        super().__init__()
        self.height = nn.Parameter(torch.tensor(2.0, dtype=torch.float64))

    def forward(self, x):
        return self.height * torch.exp(-(x * x).sum(dim=1, keepdim=True))


def test_what_a_file_cannot_hold_is_asked_for_and_restored(tmp_path):
    start = SPACE.constraint("u", at=points(6), equals=1.0, name="start")
    slope = SPACE.constraint(r"a \partial_x u = 1", at=points(5, 1), a=lambda p: 1 + p[:, 0], name="slope")
    field = cnf.ConstrainedField(Waves(SPACE), [start, slope], base=Bump())
    with torch.no_grad():
        field.basis.scale.mul_(1.3)
        field.base.height.mul_(0.7)
    path = tmp_path / "field.pt"
    field.save(path)
    with pytest.raises(FileError, match="basis=basis"):
        cnf.load(path)
    with pytest.raises(FileError, match=r"coefficients=\{'a': function\}"):
        cnf.load(path, basis=Waves(SPACE))
    with pytest.raises(FileError, match="base=network"):
        cnf.load(path, basis=Waves(SPACE), coefficients={"a": lambda p: 1 + p[:, 0]})
    loaded = cnf.load(path, basis=Waves(SPACE), base=Bump(), coefficients={"a": lambda p: 1 + p[:, 0]})
    assert torch.equal(field(points(9, 3)), loaded(points(9, 3)))


class Ripple(nn.Module):
    """A main network of one's own."""

    def __init__(self, outputs):
        super().__init__()
        values = torch.linspace(-3.0, 4.0, 2 * outputs, dtype=torch.float64)
        self.weight = nn.Parameter(values.reshape(2, outputs))

    def forward(self, x):
        return torch.sin(x @ self.weight)


def test_main_networks_of_ones_own_are_asked_for_and_restored(tmp_path):
    """The pattern of a hypernetwork is asked for by the name its basis calls it; the generated networks come back."""
    constraints = conditions()
    made = {
        "encoder": cnf.bases.HypernetKernel(SPACE, constraints, Ripple(3), cnf.kernels.Gaussian(0.7), codes=5),
        "network": cnf.bases.Hypernet(SPACE, Ripple(1), 30, codes=12),
    }
    for name, basis in made.items():
        field = cnf.ConstrainedField(basis, constraints, tolerance=1e-3)
        with torch.no_grad():
            for parameter in field.parameters():
                parameter.mul_(1.05)
        field.save(tmp_path / "field.pt")
        with pytest.raises(FileError, match=rf"networks=\{{'{name}': network\}}"):
            cnf.load(tmp_path / "field.pt")
        loaded = cnf.load(tmp_path / "field.pt", networks={name: Ripple(3 if name == "encoder" else 1)})
        assert torch.equal(field(points(20, 2)), loaded(points(20, 2)))


def test_damaged_foreign_and_newer_files_are_refused(tmp_path):
    path = tmp_path / "field.pt"
    cnf.ConstrainedField(cnf.bases.RandomFourier(SPACE, 40, 0.5), conditions()).save(path)
    whole = path.read_bytes()
    cases = {
        "cut": whole[: len(whole) // 2],
        "empty": b"",
        "text": b"not a field at all",
        "flipped": whole[:200] + bytes(b ^ 0xFF for b in whole[200:400]) + whole[400:],
    }
    for name, content in cases.items():
        broken = tmp_path / f"{name}.pt"
        broken.write_bytes(content)
        with pytest.raises(FileError) as caught:
            cnf.load(broken)
        assert "\n" not in str(caught.value), name
    write_archive(tmp_path / "newer.pt", "cnf field", 99, {})
    with pytest.raises(FileError, match="format version 99, newer"):
        cnf.load(tmp_path / "newer.pt")
    write_archive(tmp_path / "other.pt", "something else", 1, {})
    with pytest.raises(FileError, match="not a cnf field"):
        cnf.load(tmp_path / "other.pt")
    write_archive(tmp_path / "hollow.pt", "cnf field", 1, {"field": {"basis": {"part": "os.system", "sizes": ["ls"]}}})
    with pytest.raises(FileError, match="does not describe a field"):
        cnf.load(tmp_path / "hollow.pt")
    with pytest.raises(FileError, match="no file"):
        cnf.load(tmp_path / "missing.pt")


def test_pickled_code_is_never_run(tmp_path):
    """torch.save of an object whose unpickling would create a file."""

    class Attack:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    torch.save({"kind": "cnf field", "version": 1, "field": Attack()}, tmp_path / "attack.pt")
    with pytest.raises(FileError):
        cnf.load(tmp_path / "attack.pt")
    assert not (tmp_path / "ran").exists()


def test_a_failed_save_keeps_the_earlier_file(tmp_path):
    path = tmp_path / "field.pt"
    field = cnf.ConstrainedField(cnf.bases.RandomFourier(SPACE, 40, 0.5), conditions())
    field.save(path)
    before = path.read_bytes()

    class Odd(cnf.solvers.Solver):
        def factor(self, matrix, symmetric=False):
            return cnf.solvers.LU().factor(matrix)

    field.solver = Odd()
    with pytest.raises(CnfError, match="Odd"):
        field.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["field.pt"]
    field.solver = cnf.solvers.Auto()
    with pytest.raises(FileError, match="folder"):
        field.save(tmp_path)
