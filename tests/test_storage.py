"""Saved fields come back the same, and files that are not fields are refused with one clear line."""

from __future__ import annotations

import copy
import hashlib
import io
import itertools
import os
import pathlib
import pickle
import re
import subprocess
import sys
import warnings
import zipfile

import pytest
import sympy
import torch
from torch import nn

import cnf
from cnf.bases.part import Part, find_final
from cnf.errors import CnfError, FileError, StorageWarning, ViolationError, ViolationWarning
from cnf.files import read_archive, write_archive, write_atomically
from cnf.operators.latex import used_coefficients
from cnf.solvers import Method
from cnf.storage.describing import LAYERS

ROOT = pathlib.Path(__file__).parents[1]
SPACE = cnf.Space("x t", "u")


def points(count: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(count, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def conditions() -> list[cnf.Constraint]:
    start = SPACE.constraint("u", at=points(6), equals=torch.sin(points(6)[:, 0]), name="start")
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


def copied(value, folder: pathlib.Path) -> list:
    """Copies by pickle, by torch.save, and deep."""
    torch.save(value, folder / "pickled.pt")
    again = torch.load(folder / "pickled.pt", weights_only=False)
    return [pickle.loads(pickle.dumps(value)), again, copy.deepcopy(value)]


@pytest.mark.parametrize("name", list(bases(conditions())))
def test_every_basis_comes_back_with_the_same_values(name, tmp_path):
    """Parameters are changed after construction, so that equality cannot come from equal initial values.

    The copies, pickled and deep, have these values too, and go their own way when they are changed.
    """
    constraints = conditions()
    field = cnf.ConstrainedField(bases(constraints)[name], constraints, tolerance=1e-6)
    with torch.no_grad():
        for parameter in field.parameters():
            parameter.mul_(1.05)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cnf.errors.CnfWarning)
        field.save(tmp_path / "field.pt")
        loaded = cnf.load(tmp_path / "field.pt")
        trained = field(points(20, 2))
        assert torch.equal(trained, loaded(points(20, 2)))
        expected = field.eval()(points(20, 2))
        found = copied(field, tmp_path), copied(field.solution, tmp_path), copied(field.train().solve(), tmp_path)
        for copies, values in zip(found, (expected, expected, trained), strict=True):
            for twin in copies:
                assert torch.equal(twin(points(20, 2)), values)
        with torch.no_grad():
            for parameter in itertools.chain.from_iterable(twin.parameters() for twin in found[0]):
                parameter.mul_(0.5)
            assert torch.equal(field.eval()(points(20, 2)), expected)
    buffers = dict(field.named_buffers())
    assert all(torch.equal(b, buffers[n]) and b.dtype == buffers[n].dtype for n, b in loaded.named_buffers())
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
    content = read_archive(path, "cnf field", 2)
    for changed, said in {
        "part": "has a part 'os.system', which this version of cnf does not know",
        "solver": "has a solver 'os.system', which",
        "function": "has the function 'os.system', which",
        "weights": "saved weights 'weights' do not fit",
        "rank": "says of its systems is damaged",
        "values": "are not those of its right-hand side",
    }.items():
        other = copy.deepcopy(content)
        if changed == "part":
            other["field"]["basis"]["part"] = "os.system"
        elif changed == "solver":
            other["field"]["solver"]["part"] = "os.system"
        elif changed == "function":
            other["field"]["constraints"][1]["rows"][0][0]["coefficient"] = ["os.system", ["Symbol", "x"]]
        elif changed == "weights":
            other["weights"]["weights"] = other["weights"]["weights"][:-1]
        elif changed == "rank":
            other["account"]["rank"] = "full"
        else:
            other["field"]["constraints"][1]["values"] += 0.1
        write_archive(tmp_path / "changed.pt", "cnf field", 2, other)
        with pytest.raises(CnfError, match=re.escape(said)) as refused:
            cnf.load(tmp_path / "changed.pt").eval()(points(2))
        assert "\n" not in str(refused.value)
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


# -- weights -----------------------------------------------------------------------------------------------------


def digest(tensor: torch.Tensor) -> str:
    return hashlib.sha256(tensor.detach().contiguous().numpy().tobytes()).hexdigest()


THREADS = """
import sys, torch, cnf, hashlib, warnings
warnings.simplefilter("ignore")
digest = lambda t: hashlib.sha256(t.detach().contiguous().numpy().tobytes()).hexdigest()
x = torch.rand(2000, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(9))
for count in (1, 2):
    torch.set_num_threads(count)
    for path in sys.argv[1:]:
        print(digest(cnf.load(path).eval()(x)))
"""


def test_values_do_not_depend_on_the_number_of_threads(tmp_path):
    """Dense, ill conditioned enough that solving with one thread and with two differs; sparse; blended patches."""
    data = SPACE.constraint("u", at=points(150), equals=lambda p: torch.sin(9 * p[:, 0] * p[:, 1]), name="data")
    slope = SPACE.constraint("u_t + u_x = 0", at=points(80, 1), name="slope")
    local = cnf.bases.Kernel(SPACE, data, cnf.kernels.Wendland(2, 0.3))
    fields = {
        "dense": cnf.ConstrainedField(cnf.bases.RandomFourier(SPACE, 500, 0.3), [data, slope]),
        "sparse": cnf.ConstrainedField(local, data, solver=cnf.solvers.SparseLU()),
        "patches": cnf.ConstrainedField(copy.deepcopy(local), data, solver=cnf.solvers.Patches()),
    }
    expected = []
    for name, field in fields.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cnf.errors.CnfWarning)
            expected.append(digest(field.eval()(points(2000, 9))))
            field.save(tmp_path / name)
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-c", THREADS, *(str(tmp_path / name) for name in fields)]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()
    assert found == expected * 2


def test_nothing_is_solved_until_something_changes(tmp_path, monkeypatch):
    """The saved weights serve; another parameter, value or precision makes them invalid."""
    data = SPACE.constraint("u", at=points(30), equals=lambda p: torch.sin(9 * p[:, 0]), name="data")
    kernel = cnf.bases.Kernel(SPACE, data, cnf.kernels.Wendland(2, 0.5))
    solvers = (cnf.solvers.Auto(), cnf.solvers.SparseLU(), cnf.solvers.Patches(size=5), cnf.solvers.Patches("local"))
    x = points(50, 4)
    for solver in solvers:
        field = cnf.ConstrainedField(copy.deepcopy(kernel), data, solver=solver, tolerance=1e-8)
        field.save(tmp_path / "field.pt")
        assert field.training
        expected, known = field.solution(x), field.eval().certificate
        with monkeypatch.context() as patch:
            for plan in (cnf.systems.dense.MatrixPlan, cnf.systems.patched.PatchedPlan):
                patch.setattr(plan, "solve", None)
            loaded = cnf.load(tmp_path / "field.pt")
            assert torch.equal(loaded.solution(x), expected)  # in the mode it was saved in
            assert torch.equal(loaded.eval()(x), expected)
            measured = loaded.certificate
            assert measured.residuals == known.residuals and measured.exact
            assert [r.relative for r in measured.residuals.values()] == [r.relative for r in known.residuals.values()]
            assert measured.rank == known.rank
            assert measured.condition == known.condition or known.condition != known.condition
        for change in (
            lambda f: f.basis.kernel.log_length.data.add_(0.01),
            lambda f: f.update(values=0.3),
            lambda f: f.float(),
        ):
            for one in (field, loaded):
                change(one)
            assert torch.equal(loaded(x), field(x))
            assert "weights read from a file" not in str(loaded.certificate)


def test_a_certificate_is_measured_not_believed(tmp_path):
    """Weights that were changed in the file: the certificate of what was loaded says so, as loudly as told to."""
    field = cnf.ConstrainedField(cnf.bases.RandomFourier(SPACE, 40, 0.5), conditions(), on_violation="raise")
    assert field.certificate.exact
    field.save(tmp_path / "field.pt")
    content = read_archive(tmp_path / "field.pt", "cnf field", 2)
    content["weights"]["weights"][0] += 1.0
    write_archive(tmp_path / "forged.pt", "cnf field", 2, content)
    assert cnf.load(tmp_path / "field.pt").eval().certificate.exact
    with pytest.raises(ViolationError):
        cnf.load(tmp_path / "forged.pt").eval()(points(2))


def test_work_is_saved_even_if_it_violates_or_cannot_be_solved(tmp_path):
    """Contradicting values with on_violation="raise": saved with a warning, and whoever loads it is told again.

    A layer that answers at random cannot be solved for in eval mode of its own making: saved without weights.
    """
    pair = [SPACE.constraint("u", at=points(5), equals=float(k), name=f"is {k}") for k in (1, 2)]
    field = cnf.ConstrainedField(cnf.bases.RandomFourier(SPACE, 40, 0.5), pair, on_violation="raise")
    with pytest.warns(ViolationWarning):
        field.save(tmp_path / "field.pt")
    assert field.on_violation == "raise" and field.training
    loaded = cnf.load(tmp_path / "field.pt")
    assert loaded.on_violation == "raise"
    with pytest.raises(ViolationError, match="different values"):
        field.eval()(points(3))
    with pytest.raises(ViolationError):
        loaded.eval()(points(3))
    good = cnf.ConstrainedField(cnf.bases.RandomFourier(SPACE, 40, 0.5), pair[:1])
    with torch.no_grad():
        good.basis.log_bandwidth.fill_(float("nan"))
    with pytest.warns(StorageWarning, match="not finite"):
        good.save(tmp_path / "field.pt")


# -- conditions --------------------------------------------------------------------------------------------------


def round_trip(field: cnf.ConstrainedField, path: pathlib.Path, **given: object) -> cnf.ConstrainedField:
    """Saved and loaded; values, conditions and residuals must be the same, bit for bit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cnf.errors.CnfWarning)
        field.eval().save(path)
        loaded = cnf.load(path, **given)  # type: ignore[arg-type]
        x = torch.rand(9, len(field.basis.space.coordinates), dtype=field.dtype)
        assert torch.equal(loaded(x), field(x))
        assert loaded.certificate.residuals == field.certificate.residuals
    for ours, theirs in zip(loaded.constraints, field.constraints, strict=True):
        assert ours.name == theirs.name
        assert ours.operator.rows == theirs.operator.rows and ours.operator.to_latex() == theirs.operator.to_latex()
        assert torch.equal(ours.points, theirs.points) and torch.equal(ours.values, theirs.values)
    return loaded


def tables() -> list:
    """(space and coefficients as code, the operators written there) of every table of the operator language."""
    found = []
    for section in (ROOT / "docs" / "operators.md").read_text().split("\n## ")[1:]:
        block = re.search(r"```python\n(space = .*?)```", section, flags=re.DOTALL)
        rows = re.findall(r"^\| `(.*?)` \| `.*?` \|$", section, flags=re.MULTILINE)
        if block is not None:
            found.append(pytest.param(block.group(1), [row.replace("\\|", "|") for row in rows], id=section.split()[0]))
    assert len(found) == 5
    return found


@pytest.mark.parametrize(("setting", "written"), tables())
def test_every_operator_comes_back(setting, written, tmp_path):
    """Each as a condition with values of its own: a number, a tensor, a callable, in turn."""
    names: dict = {"cnf": cnf, "sympy": sympy}
    exec(compile(setting, "docs/operators.md", "exec"), names)
    space, constraints = names["space"], []
    generator = torch.Generator().manual_seed(1)
    for k, text in enumerate(written):
        at = 0.1 + 0.8 * torch.rand(2, len(space.coordinates), dtype=torch.float64, generator=generator)
        used = used_coefficients(text, space.frame, names["given"])
        operator = space.operator(text, **{name: names["given"][name] for name in used})
        table = torch.rand(2, len(operator.rows), dtype=torch.float64, generator=generator)
        values = (float(k), table, lambda p, table=table: p[:, :1].expand_as(table))[k % 3]
        constraints.append(space.constraint(operator, at=at, equals=values, name=text))
    round_trip(cnf.ConstrainedField(cnf.bases.RandomFourier(space, 200, 0.5), constraints), tmp_path / "field.pt")


def learnable(value: float) -> nn.Parameter:
    return nn.Parameter(torch.tensor(value, dtype=torch.float64))


def test_every_form_of_coefficient_and_right_hand_side_comes_back(tmp_path):
    """Numbers, expressions, learnable numbers, tables, vectors, networks, functions; names LaTeX has words for."""
    space = cnf.Space("x t", "u v_1", vectors={"w": ("u", "v_1")})
    at, normals = points(4), torch.nn.functional.normalize(points(4, 3) - 0.5)
    x, network = sympy.Symbol("x", real=True), cnf.encoders.MLP(2, 1, hidden=(6,), seed=3)
    flow = cnf.Space("x y", "u v", time="")

    def tilt(p):
        return torch.stack([p[:, 0], 1 + p[:, 1]], dim=1)

    made = [
        space.constraint("u_x = a", at=at, a=learnable(0.3)),
        space.constraint(r"\partial_t u = d \partial_x u", at=points(4, 1), d=learnable(0.1)),
        space.constraint(
            r"\lambda u + \mathrm{speed} \partial_x u = 1", at=points(3, 2), lambda_=0.1, speed=learnable(2.0)
        ),
        space.constraint(r"\mathrm{k_1} v_1 = \sin(\mathrm{k_1} x)", at=points(3, 4), k_1=learnable(1.5)),
        space.constraint(r"c u_x = f", at=points(3, 5), c=torch.tensor([1.0, 2.0, 3.0]), f=torch.rand(3)),
        space.constraint(r"g u_t = g(x, t) \frac{x}{3}", at=points(3, 6), g=network, name="network"),
        space.constraint(r"\partial_x (h \partial_x u) = h", at=points(3, 7), h=lambda p: 2 + p[:, 0], name="callable"),
        space.constraint(r"\max(x, t)^{\frac{1}{2}} u = |x - 0.1| e^{-t}", at=points(3, 8), name="expression"),
        space.constraint(
            cnf.operators.partial("x", channel="u") * (x**70 + sympy.GoldenRatio), at=at + 1.5, equals=0.1
        ),
        space.constraint(r"b u(0, t) + \int_0^{b} u \, dx = 1", at=points(2, 9), b=learnable(0.7), name="limits"),
        space.constraint("v_1", at=points(1, 11), equals=learnable(0.5), name="learnable value"),
    ]
    function = {"h": lambda p: 2 + p[:, 0]}
    field = cnf.ConstrainedField(cnf.bases.RandomFourier(space, 100, 0.5), made)
    loaded = round_trip(field, tmp_path / "field.pt", coefficients=function)
    assert [n for n, _ in loaded.named_parameters()] == [n for n, _ in field.named_parameters()]
    mean = SPACE.constraint(r"\int_0^1 u \, dx = 1", at=points(2))
    round_trip(cnf.ConstrainedField(cnf.bases.RandomFourier(SPACE, 30, 0.01), mean), tmp_path / "field.pt")
    vectors = [
        flow.constraint(r"\partial_n u = 0", at=at, n=normals, name="normals"),
        flow.constraint(r"(\mathbf{b}\cdot\nabla) v = 1", at=points(4, 1), b=[1.0, x], name="direction"),
        flow.constraint(r"\mathbf{c}\cdot\nabla u = 2", at=points(4, 2), c=tilt, name="function"),
    ]
    field = cnf.ConstrainedField(cnf.bases.RandomFourier(flow, 60, 0.5), vectors)
    round_trip(field, tmp_path / "field.pt", coefficients={"c": tilt})
    for twin in (copy.deepcopy(field.solve()), copy.deepcopy(field)):  # a local function cannot be pickled
        assert torch.equal(twin(at), field(at))
    pickled = cnf.ConstrainedField(cnf.bases.RandomFourier(flow, 60, 0.5), vectors[:2])
    for twin in copied(pickled, tmp_path):
        assert torch.equal(twin(at), pickled(at))
    with pytest.raises(FileError, match=r"coefficients=\{'c': function\}"):
        cnf.load(tmp_path / "field.pt")
    with pytest.raises(FileError, match="are not those of its right-hand side"):
        other = cnf.ConstrainedField(
            cnf.bases.RandomFourier(space, 40, 0.5), space.constraint("u = f", at=at, f=function["h"])
        )
        other.save(tmp_path / "other.pt")
        cnf.load(tmp_path / "other.pt", coefficients={"f": lambda p: p[:, 0]})


def test_what_is_shared_stays_shared_and_what_looks_alike_stays_apart(tmp_path):
    """Learnable numbers, kernels, layers, a parameter of the basis in a condition, frozen parameters, functions."""
    shared, first, second = learnable(0.3), learnable(0.3), learnable(0.3)
    made = [
        SPACE.constraint(r"u_t + c u_x = 0", at=points(4, k), c=c, name=f"flow {k}")
        for k, c in enumerate((shared, shared, first, second))
    ]
    kernel = cnf.kernels.Gaussian(0.5)
    kernels = [cnf.bases.Kernel(SPACE, points(12, 20 + k), kernel) for k in range(2)]
    activation = nn.Tanh()
    base = nn.Sequential(nn.Linear(2, 6), activation, nn.Linear(6, 6), activation, nn.Linear(6, 1))
    made.append(SPACE.constraint("u = l x", at=points(3, 9), l=kernel.log_length, name="length"))
    basis = cnf.bases.Concat([*kernels, cnf.bases.RandomFourier(SPACE, 30, 0.5)])
    basis.bases[2].log_bandwidth.requires_grad_(False)
    field = cnf.ConstrainedField(basis, made, base=base)
    for twin in (round_trip(field, tmp_path / "field.pt"), *copied(field, tmp_path)):
        numbers = [dict(c.operator.data).get("c") for c in twin.constraints]
        assert numbers[0] is numbers[1] and len({id(n) for n in numbers[1:4]}) == 3
        assert all(any(n is p for p in twin.parameters()) for n in numbers[:4])
        assert twin.basis.bases[0].kernel is twin.basis.bases[1].kernel
        assert twin.base[1] is twin.base[3]
        assert twin.constraints[4].right_hand_side.data["l"] is twin.basis.bases[0].kernel.log_length
        assert [n for n, p in twin.named_parameters() if not p.requires_grad] == ["basis.bases.2.log_bandwidth"]
    functions = [lambda p: 1 + p[:, 0], lambda p: 2 + p[:, 1]]
    made = [SPACE.constraint("f u = 1", at=points(4, k), f=f, name=f"{k}") for k, f in enumerate(functions)]
    field = cnf.ConstrainedField(cnf.bases.RandomFourier(SPACE, 30, 0.5), made)
    round_trip(field, tmp_path / "field.pt", coefficients={"f": functions[0], "f_2": functions[1]})
    with pytest.raises(FileError, match=r"coefficients=\{'f': function, 'f_2': function\}"):
        cnf.load(tmp_path / "field.pt")


def test_precisions_and_layers_come_back(tmp_path):
    """A field in float32, a base with every layer that has a rule, an encoder of another precision than the field."""
    layers = [kind() for name, kind in LAYERS.items() if name not in ("Linear", "Sequential")]
    layers += [nn.Softplus(3.0, 10.0), nn.ELU(0.5), nn.GELU("tanh"), cnf.bases.layers.Sine(2.0)]
    base = nn.Sequential(nn.Linear(2, 4, bias=False), *layers, cnf.encoders.MLP(4, 1, (5,), nn.Softplus(7.0), seed=1))
    base[-1].float()
    data = SPACE.constraint("u", at=points(9), equals=2.0)
    round_trip(cnf.ConstrainedField(cnf.bases.RandomFourier(SPACE, 40, 0.5), data, base=base), tmp_path / "field.pt")
    lifted = cnf.bases.Kernel(
        SPACE, data, encoder=nn.Sequential(cnf.bases.layers.FourierMap(torch.ones(3, 2)), nn.Linear(8, 4))
    )
    loaded = round_trip(cnf.ConstrainedField(lifted, data).float(), tmp_path / "field.pt")
    assert loaded.dtype == torch.float32 and loaded.solution.weights.dtype == torch.float32


def test_files_of_the_first_version_are_read(tmp_path):
    """Operators as LaTeX, layers with sizes, no weights; the field solves for them itself."""
    space = {"part": "Space", "arguments": {"coordinates": ["x", "t"], "channels": ["u"], "time": "t", "vectors": {}}}
    table, speed = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64), torch.tensor(0.3, dtype=torch.float64)
    common = {"space": space, "points": points(3)}

    def condition(name, operator, equals, values, data=(), known=(), used=()):
        text = {"name": name, "operator": operator, "equals": equals, "data": dict(data), "learnable": list(known)}
        return {"part": "Constraint", "arguments": {**common, **text, "in_values": list(used), "values": values}}

    zero = torch.zeros(3, 1, dtype=torch.float64)
    right = torch.sin(points(3)[:, :1]) * table[:, None]
    made = [
        condition("slope", r"\partial_{x} u", ["a"], zero + 0.3, {"a": speed}, ["a"], ["a"]),
        condition("flow", r"\partial_{t} u + a \partial_{x} u", 0.0, zero, {"a": speed}, ["a"]),
        condition("table", r"u", [r"f \sin{\left(x \right)}"], right, {"f": table}, (), ["f"]),
    ]
    base = {"part": "Linear", "sizes": [2, 1, True], "dtype": "float32"}
    layers = [base, {"part": "Softplus", "sizes": [2.0, 20.0]}, {"part": "Tanh", "sizes": []}]
    basis = {"part": "RandomFourier", "arguments": {"space": space, "size": 30, "bandwidth": 0.5, "seed": 3}}
    like = cnf.ConstrainedField(
        cnf.bases.RandomFourier(SPACE, 30, 0.5, seed=3),
        [
            SPACE.constraint("u_x = a", at=points(3), a=(a := nn.Parameter(speed.clone())), name="slope"),
            SPACE.constraint(r"u_t + a u_x = 0", at=points(3), a=a, name="flow"),
            SPACE.constraint(r"u = f \sin x", at=points(3), f=table, name="table"),
        ],
        base=nn.Sequential(nn.Linear(2, 1), nn.Softplus(2.0), nn.Tanh()),
    )
    what = {"basis": basis, "base": {"part": "Sequential", "layers": layers}, "constraints": made, "training": False}
    settings = {"tolerance": 1e-9, "on_violation": "warn", "solver": {"part": "LU", "arguments": {"refine": True}}}
    settings["solver"] = {"part": "Auto", "arguments": {"least_squares": False, "pivots": 1e-14}}
    content = {"field": {**what, **settings}, "state": dict(like.state_dict())}
    write_archive(tmp_path / "old.pt", "cnf field", 1, content)
    loaded = cnf.load(tmp_path / "old.pt")
    assert torch.equal(loaded(points(9, 1)), like.eval()(points(9, 1)))
    assert len(list(loaded.coefficients)) == 1 and next(loaded.base.parameters()).dtype == torch.float32


# -- parts -------------------------------------------------------------------------------------------------------


def test_parts_are_found_by_themselves_and_only_ours(tmp_path):
    """A basis in a new module of the package needs no table; one of the user's is asked for, whatever its name."""
    names = [kind.__name__ for contract in (Part, Method) for kind in find_final(contract).values()]
    assert len(names) == len(set(names)) and {"Kernel", "Gaussian", "SIREN", "Sine", "Patches"} <= set(names)

    class Ramps(cnf.bases.Basis):
        __module__ = "cnf.bases.ramps"

        def __init__(self, space, slope):
            super().__init__(space, 20)
            self.slope = slope

        def forward(self, x):
            return torch.tanh(self.slope * x[:, :1] - torch.arange(20, dtype=x.dtype) / 4 + x[:, 1:])

        def config(self):
            return {"space": self.space, "slope": self.slope}

    data = SPACE.constraint("u", at=points(6), equals=1.0)
    loaded = round_trip(cnf.ConstrainedField(Ramps(SPACE, 3.0), data), tmp_path / "ours.pt")
    assert type(loaded.basis) is Ramps and loaded.basis.slope == 3.0
    RandomFourier, own = (type(name, (Waves,), {}) for name in ("RandomFourier", "Own"))
    assert find_final(Part)["RandomFourier"] is cnf.bases.RandomFourier and own.__name__ not in find_final(Part)
    cnf.ConstrainedField(RandomFourier(SPACE), data).save(tmp_path / "theirs.pt")
    with pytest.raises(FileError, match="basis=basis"):
        cnf.load(tmp_path / "theirs.pt")
    assert type(cnf.load(tmp_path / "theirs.pt", basis=RandomFourier(SPACE)).basis) is RandomFourier


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory from /proc")
def test_sizes_are_refused_before_memory_is_asked_for(tmp_path):
    """Small files that ask for gigabytes: refused with one line each, in a process that stays small."""
    space = {"part": "Space", "arguments": {"coordinates": ["x", "t"], "channels": ["u"], "time": ["t"], "vectors": {}}}
    huge = 2**24

    def part(name, **arguments):
        return {"part": name, "arguments": arguments}

    layer = part("Linear", in_features=2, out_features=2**15, bias=True)
    encoders = {
        "linear": part("Linear", in_features=huge, out_features=4, bias=True),
        "mlp": part("MLP", inputs=2, outputs=4, hidden=[4096] * 40, activation="tanh"),
        "polynomial": part("LearnablePolynomial", inputs=9, outputs=1, degree=40),
        "many": {"part": "Sequential", "layers": {str(k): dict(layer) for k in range(4000)}},
    }
    asked = {name: part("ConstraintLayer", space=space, network=network) for name, network in encoders.items()}
    asked["fourier"] = part("RandomFourier", space=space, size=huge, bandwidth=0.5, seed=0)
    asked["degree"] = part("Polynomial", space=space, degree=huge, center=0.0, scale=1.0)
    asked["anchors"] = part("Kernel", space=space, anchors=torch.zeros(20000, 2), kernel=None, encoder=None)
    wide = part("Wendland", smoothness=2, radius=1.0, dimension=10**6)
    asked["wendland"] = part("Kernel", space=space, anchors=points(3), kernel=wide, encoder=None)
    field = cnf.ConstrainedField(cnf.bases.RandomFourier(SPACE, 40, 0.5), conditions())
    field.save(tmp_path / "good.pt")
    content = read_archive(tmp_path / "good.pt", "cnf field", 2)
    for name, basis in asked.items():
        other = copy.deepcopy(content)
        other["field"]["basis"] = basis
        write_archive(tmp_path / f"{name}.pt", "cnf field", 2, other)
    other = copy.deepcopy(content)
    term = other["field"]["constraints"][0]["rows"][0][0]
    term["integrals"] = [[["Symbol", f"_{k}"], 0, 1] for k in range(2)]
    term["substitution"] = [["x", ["Symbol", "_0"]], ["t", ["Symbol", "_1"]]]
    other["field"]["solver"]["arguments"]["least_squares"] = True
    many = points(20_000)
    other["field"]["constraints"][0].update(points=many, values=many[:, :1], side=None)
    write_archive(tmp_path / "integrals.pt", "cnf field", 2, other)
    other = {**content, "state": {**content["state"], "basis.phases": torch.zeros(1).expand(2**29)}}
    torch.save({**other, "kind": "cnf field", "version": 2}, tmp_path / "expanded.pt")
    laughs: list = ["ha"]
    for _ in range(40):
        laughs = [laughs, laughs]
    torch.save({**content, "field": laughs}, tmp_path / "laughs.pt")
    torch.save({**content, "more": "a" * 2**27}, buffer := io.BytesIO())
    with zipfile.ZipFile(buffer) as whole, zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as packed:
        for entry in whole.infolist():
            packed.writestr(entry.filename, whole.read(entry))
    buffer.close()
    files = sorted(tmp_path.glob("*.pt"))
    assert len(files) == 13 and all(f.stat().st_size < 2**20 for f in files)
    script = """
import pathlib, re, sys, cnf
def megabytes(word):  # not ru_maxrss: that starts with what the parent process had
    return int(re.search(word + r":\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1]) // 1024
cnf.load(sys.argv[1]).eval().certificate
for path in sys.argv[2:]:
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak starts here
    before = megabytes("VmRSS")
    try:
        cnf.load(path)
        print(path, "was read")
    except cnf.errors.CnfError as error:
        print(megabytes("VmHWM") - before, len(str(error).splitlines()), str(error))
"""
    good, others = tmp_path / "good.pt", [str(f) for f in files if f.name != "good.pt"]
    command = [sys.executable, "-c", script, str(good), *others]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.splitlines()
    assert len(lines) == len(others)
    for line, path in zip(lines, others, strict=True):
        megabytes, count = line.split()[:2]
        assert int(megabytes) < 100 and count == "1", (path, line)


def test_permissions_are_the_users(tmp_path):
    """A new file gets what the umask leaves, one that is replaced keeps its own."""
    before = os.umask(0o027)
    try:
        target = write_atomically(tmp_path / "new.txt", lambda path: path.write_text("a"))
        assert target.stat().st_mode & 0o777 == 0o640
        target.chmod(0o604)
        write_atomically(target, lambda path: path.write_text("b"))
        assert target.stat().st_mode & 0o777 == 0o604 and target.read_text() == "b"
    finally:
        os.umask(before)
