"""Any device: what is promised of the host, kept on a pretended device, and how often the host has to wait for it.

Answers come from the same computation on the host; what is guarded here is that nothing leaves the device on the way,
that it comes out the same, and the budget of waits per step of training.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

import cnf
from cnf import encoders, kernels
from cnf.bases import Hermite, Kernel, RandomFourier, SkewedRBF
from cnf.bases.basis import Basis
from cnf.errors import BasisError, CnfError, ConstraintError, NumericalWarning, ViolationWarning
from cnf.operators import identity, partial
from cnf.solvers import LU, QR, Auto, Cholesky, MinimumNorm, Patches
from cnf.solvers.adjoint import solve, solve_transposed
from tests.bases.contract import CASES, Case, coupled_constraints, hermite_constraints, places, spread
from tests.devices.pretended import NAME, Pretended, Traffic, watched

MOST_WAITS = 4  # of the host in a step of training
SPACE = cnf.Space("x y", "u")
SQUARE = cnf.Box((0, 0), (1, 1))


def gathered(case: Case, device: str) -> tuple[Basis, list[cnf.Constraint]]:
    """A basis of the table and conditions on it, all on the device."""
    space, at = case.space(1), spread(1, 6, seed=8).to(device)
    draw = torch.Generator().manual_seed(11)
    sides = torch.randn(6, len(space.channels), generator=draw, dtype=torch.float64).to(device)
    if case.name.startswith("Hermite"):  # the conditions that it is made of; integrals have a test of their own
        points = spread(1, 9, seed=1).to(device)
        made = coupled_constraints(space, points) if space.channels[1:] else hermite_constraints(space, points)[:3]
        return Hermite(space, made, case.basis(1).kernel), made
    asked = [space.constraint(identity(), at=at[:4], equals=sides[:4], name="value")]
    if case.order:
        asked.append(space.constraint(partial("x"), at=at[4:], equals=sides[4:], name="slope"))
    return case.basis(1), asked


def waits_by_step(
    field: cnf.ConstrainedField, loss: object, steps: int = 3
) -> tuple[cnf.training.History, list[Traffic]]:
    """A short training, and what crossed between host and device in every step but the first."""
    seen: list[Traffic] = []
    with watched() as traffic:

        def look(step: int, solution: object, history: object) -> None:
            seen.append(Traffic(traffic.waits.copy(), traffic.uploads.copy()))

        history = cnf.fit(field, loss, steps=steps, progress=False, log_condition_every=None, callbacks=look)
    return history, [Traffic(b.waits - a.waits, b.uploads - a.uploads) for a, b in pairwise(seen)]


def check_budget(steps: list[Traffic], uploads: int = 0) -> None:
    for step in steps:
        assert sum(step.waits.values()) <= MOST_WAITS, dict(step.waits)
        assert sum(step.uploads.values()) <= uploads, dict(step.uploads)


def close(found: Tensor, expected: Tensor, times: float = 1.0) -> bool:
    """Equal to rounding; on the pretended device, whose numbers are the host's, mostly to the bit."""
    assert isinstance(found, Pretended)
    return float((found.detach().cpu() - expected).abs().max()) <= 1e-12 * times * max(1.0, float(expected.abs().max()))


# -- the device itself -----------------------------------------------------------------------------------------------


def test_the_device_keeps_its_tensors_apart():
    """Mixtures and NumPy are refused, single numbers of the host are not, gradients are those of the host."""
    x = torch.arange(1.0, 4.0, dtype=torch.float64)
    there = x.to(NAME).requires_grad_()
    for mixture in (
        lambda: there + x,
        lambda: x @ there,
        lambda: torch.cat([there, x]),
        lambda: there.index_add(0, torch.tensor([0]), there[:1]),
    ):
        with pytest.raises(RuntimeError, match="same device"):
            mixture()
    with pytest.raises(TypeError, match="numpy"):
        there.detach().numpy()
    (gradient,) = torch.autograd.grad((torch.tensor(2.0) * there**3).sum(), there)
    assert gradient.device.type == NAME and torch.equal(gradient.cpu(), 6 * x**2)


def test_the_device_counts_what_the_host_waits_for():
    """One wait for each way to ask for a number, or for a shape that depends on numbers; none for arithmetic."""
    x = torch.arange(4.0).to(NAME)
    asked = (
        lambda: x[0].item(), lambda: float(x.sum()), lambda: bool(x[1] > 0), lambda: x.tolist(), lambda: x.cpu(),
        lambda: x.nonzero(), lambda: x[x > 1], lambda: torch.equal(x, x), lambda: x.unique(), lambda: int(x.argmax()),
        lambda: torch.linalg.svd(x.reshape(2, 2)),
    )  # fmt: skip
    for ask in asked:
        with watched() as traffic:
            ask()
        assert sum(traffic.waits.values()) == 1
    with watched() as traffic:
        (x * 2 + x.sort().values)[:3].sum()
        torch.where(x > 1, x, 0.0)
    assert not traffic.waits and not traffic.uploads
    with watched() as traffic:
        torch.tensor([1.0, 2.0], device=NAME)
        torch.ones(3).to(NAME)
    assert sum(traffic.uploads.values()) == 2 and not traffic.waits


# -- bases -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_every_basis(case: Case):
    """Values, derivatives, certificate, gradients and losses are those of the host, within the budget of waits."""
    x = places(1)
    basis, asked = gathered(case, "cpu")
    here = cnf.ConstrainedField(basis, asked)
    basis, asked = gathered(case, NAME)
    there = cnf.ConstrainedField(basis, asked)  # the basis follows the points
    assert all(isinstance(t, Pretended) for t in (*there.parameters(), *there.buffers()))
    expected, found = here.solve(), there.solve()
    size = max(1.0, expected.certificate.condition * 1e-3)
    assert close(found(x.to(NAME)), expected(x).detach(), size)
    if case.order:
        assert close(
            found.apply(r"\partial_x u", x.to(NAME)[:3]), expected.apply(r"\partial_x u", x[:3]).detach(), size
        )
    one, other = here.certificate, there.certificate
    assert (one.exact, one.rank, one.solver, one.notes) == (other.exact, other.rank, other.solver, other.notes)
    assert other.condition == pytest.approx(one.condition, rel=1e-6)
    if not any(p.requires_grad for p in basis.parameters()):
        return
    known = cnf.fit(here, lambda s: s(x).square().mean(), steps=2, progress=False, log_condition_every=None)
    at = x.to(NAME)
    history, steps = waits_by_step(there, lambda s: s(at).square().mean(), steps=2)
    assert history.loss == pytest.approx(known.loss, rel=1e-9)
    check_budget(steps)


def test_integrals():
    """Hermite with an integral among its conditions: the rules are made on the host, the numbers are the same."""

    def made(device: str) -> cnf.ConstrainedField:
        asked = hermite_constraints(SPACE, spread(2, 11, seed=1).to(device))
        return cnf.ConstrainedField(Hermite(SPACE, asked, kernels.Gaussian(0.4)), asked)

    expected, found = made("cpu").solve(), made(NAME).solve()
    assert close(found(places(2).to(NAME)), expected(places(2)).detach()) and found.certificate.exact


def test_hermite_takes_its_points_along():
    """Moved with a field or alone, its functions sit where they sat, and no step compares points again."""
    asked = hermite_constraints(SPACE, spread(2, 11, seed=1))[:3]
    field = cnf.ConstrainedField(Hermite(SPACE, asked, kernels.Gaussian(0.4)), asked)
    expected, x = field.solve()(places(2)).detach(), places(2).to(NAME)
    field.to(NAME)
    assert all(isinstance(c.points, Pretended) for c in field.basis.constraints)
    assert close(field.solve()(x), expected) and "Cholesky" in field.certificate.solver
    check_budget(waits_by_step(field, lambda s: s(x).square().mean())[1])
    alone = Hermite(SPACE, asked, kernels.Gaussian(0.4)).to(NAME)
    assert isinstance(alone(x), Pretended)


# -- solvers ---------------------------------------------------------------------------------------------------------


def _matrix(kind: str) -> Tensor:
    draw = torch.Generator().manual_seed(1)
    root = torch.randn(6, 6, generator=draw, dtype=torch.float64)
    if kind == "definite":
        return root @ root.T + torch.eye(6, dtype=torch.float64)
    if kind == "deficient":
        return root[:, :3] @ torch.randn(3, 9, generator=draw, dtype=torch.float64)
    return root + 3 * torch.eye(6, dtype=torch.float64) if kind == "square" else torch.cat([root, root.sin()], dim=1)


@pytest.mark.parametrize(
    ("solver", "kind"),
    [
        (LU(), "square"), (Cholesky(), "definite"), (MinimumNorm(), "square"), (MinimumNorm(), "wide"),
        (MinimumNorm(cutoff=1e-10), "deficient"), (QR(), "wide"), (QR(), "square"), (Auto(), "square"),
        (Auto(), "definite"), (Auto(), "wide"), (Auto(reveal_rank=False), "wide"),
    ],
    ids=lambda value: getattr(value, "__class__", type(value)).__name__ if not isinstance(value, str) else value,
)  # fmt: skip
def test_every_dense_solver(solver, kind: str):
    """Solutions, the transposed map, the adjoint gradient, rank and condition number are those of the host."""

    def through(device: str) -> list[Tensor]:
        matrix = _matrix(kind).to(device).requires_grad_()
        b, c = (torch.arange(1.0, n + 1, dtype=torch.float64)[:, None].to(device) for n in matrix.shape)
        with watched() as traffic:
            factor = solver.factor(matrix, symmetric=kind == "definite")
        assert sum(traffic.waits.values()) <= 2  # what came of it; a singular value decomposition waits by itself
        with watched() as traffic:
            x, z = solve(matrix, b, factor), solve_transposed(matrix, c, factor)
            (gradient,) = torch.autograd.grad(x.square().sum() + z.sin().sum(), matrix)
        assert not traffic.waits and not traffic.uploads
        with watched() as traffic:
            worst = factor.condition_of(matrix)
        assert sum(traffic.waits.values()) <= 1
        (slope,) = torch.autograd.grad(worst, matrix)
        return [x, z, gradient, worst, slope, torch.tensor(float(factor.rank)).to(device)]

    for found, expected in zip(through(NAME), through("cpu"), strict=True):
        assert (found.detach().cpu() - expected.detach()).abs().max() <= 1e-8 * max(
            1.0, float(expected.detach().abs().max())
        )


def test_a_fallback_says_the_same():
    """Two equal conditions: LU finds the matrix singular, and the fallback warns and notes it on any device."""

    def told(device: str) -> tuple[str, tuple[str, ...]]:
        at = torch.tensor([[0.2, 0.3], [0.2, 0.3], [0.8, 0.5]], dtype=torch.float64).to(device)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            basis = Kernel(SPACE, SQUARE.halton(3).to(device), kernels.Gaussian(0.4))
        with pytest.warns(NumericalWarning, match="MinimumNorm was used instead") as caught:
            certificate = cnf.ConstrainedField(basis, [SPACE.constraint("u", at=at, equals=1.0)]).certificate
        return str(caught[0].message), certificate.notes

    assert told(NAME) == told("cpu")


def test_what_contradicts_is_found():
    """u = 0 and u = 1 at one point: the same warning, names and places as on the host."""

    def told(device: str) -> tuple[str, str]:
        at = SQUARE.halton(4).to(device)
        asked = [
            SPACE.constraint("u", at=at, equals=0, name="low"),
            SPACE.constraint("u", at=at[:1], equals=1, name="high"),
        ]
        field = cnf.ConstrainedField(RandomFourier(SPACE, 20, 0.3), asked)
        with pytest.warns(ViolationWarning), warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)
            certificate = field.solve().certificate
        return certificate.advice(), str(certificate.to_dict()["conflicts"])

    assert told(NAME) == told("cpu")


# -- training --------------------------------------------------------------------------------------------------------

LOSSES = {
    "Condition": lambda x: cnf.losses.Condition(),
    "Independence": lambda x: cnf.losses.Independence(),
    "TotalVariation": lambda x: cnf.losses.TotalVariation(x),
    "Smoothness": lambda x: cnf.losses.Smoothness(x),
    "Eikonal": lambda x: cnf.losses.Eikonal(x),
    "Regression": lambda x: cnf.losses.Regression(x, lambda p: p[:, :1] * p[:, 1:]),
    "Regression-operator": lambda x: cnf.losses.Regression(x, 0.5, kind="huber", operator=r"\Delta u"),
    "drawn": lambda x: cnf.losses.TotalVariation(SQUARE, 20),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("functions", [9, 30], ids=["LU", "MinimumNorm"])
def test_losses(name: str, functions: int):
    """With a base network, every loss is the host's, step by step; points that are drawn, or constants of a loss, are
    all that is sent."""

    def made(device: str) -> tuple[cnf.ConstrainedField, object]:
        torch.manual_seed(3)
        base, p = (
            encoders.MLP(2, 1, hidden=(6,)).double().to(device),
            SQUARE.halton(functions if functions < 10 else 9, seed=3),
        )
        anchors = SQUARE.halton(functions, seed=3).to(device)
        basis = Kernel(SPACE, anchors, kernels.Gaussian(0.2), encoder=None)
        field = cnf.ConstrainedField(
            basis, [SPACE.constraint("u", at=p.to(device), equals=lambda z: z[:, 0])], base=base
        )
        return field, LOSSES[name](SQUARE.halton(12, seed=5).to(device))

    field, loss = made("cpu")
    known = cnf.fit(field, loss, steps=3, progress=False, log_condition_every=None)
    history, steps = waits_by_step(*made(NAME))
    assert history.loss == pytest.approx(known.loss, rel=1e-7)
    assert history.kept_residual == pytest.approx(known.kept_residual, abs=1e-12)
    check_budget(steps, uploads=2)


@pytest.mark.parametrize("loss", [cnf.losses.HeldOutResidual, cnf.losses.LeaveOneOut])
def test_losses_between_the_points(loss: Callable):
    """These look at other conditions; they wait more often, and come out the same."""

    def made(device: str) -> cnf.ConstrainedField:
        p = SQUARE.halton(12, seed=3).to(device)
        return cnf.ConstrainedField(
            Kernel(SPACE, p, kernels.Gaussian(0.3)), [SPACE.constraint(r"u + \Delta u = x", at=p)]
        )

    known = cnf.fit(made("cpu"), loss(), steps=2, progress=False)
    found = cnf.fit(made(NAME), loss(), steps=2, progress=False)
    assert found.loss == pytest.approx(known.loss, rel=1e-7)


def test_a_loss_that_is_no_number_says_why():
    """The term is named with its cause, though it is looked at together with everything else."""
    p = SQUARE.halton(6, seed=3).to(NAME)
    field = cnf.ConstrainedField(
        RandomFourier(SPACE, 20, 0.3), [SPACE.constraint("u", at=p, equals=1.0)], base=nn.Linear(2, 1).double().to(NAME)
    )
    bad = cnf.losses.Regression(p, lambda x: torch.full_like(x[:, :1], float("nan")), name="data")
    with pytest.raises(cnf.errors.TrainingError, match="data: the loss is nan; look at the parameters"):
        cnf.fit(field, bad, steps=2, progress=False)


def test_nonlinear_conditions():
    """u^2 + u_x = x by Newton's iteration."""

    def made(device: str) -> cnf.ConstrainedField:
        p = SQUARE.halton(10, seed=3).to(device)
        return cnf.ConstrainedField(RandomFourier(SPACE, 40, 0.4), [SPACE.constraint("u^2 + u_x = x", at=p)])

    expected, found = made("cpu").solve(), made(NAME).solve()
    assert close(found(places(2).to(NAME)), expected(places(2)).detach(), 1e3) and found.certificate.exact


# -- patches ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["blend", "local"])
@pytest.mark.parametrize("kind", ["Kernel", "Hermite", "SkewedRBF"])
def test_patches(mode: str, kind: str):
    """Cut up on the host, solved, blended, evaluated and differentiated on the device."""
    if mode == "local" and kind != "Kernel":
        pytest.skip("local patches take conditions of one kind on a kernel")

    def through(device: str) -> list[Tensor]:
        p, x = (SQUARE.halton(n, seed=s).to(device) for n, s in ((60, 3), (20, 9)))
        asked = [SPACE.constraint("u", at=p, equals=lambda z: torch.sin(3 * z[:, 0]))]
        if kind == "Hermite":
            asked.append(
                SPACE.constraint(r"\partial_x u", at=p, equals=lambda z: 3 * torch.cos(3 * z[:, 0]), name="slope")
            )
            basis: Basis = Hermite(SPACE, asked, kernels.Gaussian(0.12))
        else:
            basis = SkewedRBF(SPACE, p, 0.12) if kind == "SkewedRBF" else Kernel(SPACE, p, kernels.Wendland(3, 0.5))
        field = cnf.ConstrainedField(basis, asked, solver=Patches(mode=mode, size=10, neighbours=20))
        solution = field.solve()
        gradients = torch.autograd.grad(solution(x).square().mean(), list(field.parameters()))
        assert solution.certificate.exact
        return [solution(x), solution.apply(r"\partial_x u", x), *gradients]

    for found, expected in zip(through(NAME), through("cpu"), strict=True):
        assert close(found, expected.detach(), 1e3)


# -- files and errors ------------------------------------------------------------------------------------------------


def test_files(tmp_path):
    """Saved from the device, a field comes to the host or to a device, with the values it had; queries follow it."""
    p, x = SQUARE.halton(12, seed=3).to(NAME), SQUARE.halton(6, seed=9)
    base = encoders.MLP(2, 1, hidden=(6,)).double().to(NAME)
    field = cnf.ConstrainedField(
        RandomFourier(SPACE, 30, 0.3), [SPACE.constraint("u", at=p, equals=1.0)], base=base
    ).eval()
    expected = field(x).cpu()  # points of the host are sent to the field
    field.save(tmp_path / "field.pt")
    here, there = cnf.load(tmp_path / "field.pt"), cnf.load(tmp_path / "field.pt", device=NAME)
    assert torch.equal(here(x), expected) and close(there(x.to(NAME)), expected)
    assert there.certificate.exact and "read from a file" in there.certificate.notes[-1]
    with watched() as traffic:
        there(x.to(NAME))
    assert sum(traffic.waits.values()) == 1  # whether anything changed, all parameters in one transfer
    with torch.no_grad():
        next(there.base.parameters()).add_(1.0)
    assert not close(there(x.to(NAME)), expected)  # and a change is seen
    with pytest.raises(CnfError, match=f"no device 'gpu7' here; there is cpu, {NAME}:0"):
        cnf.load(tmp_path / "field.pt", device="gpu7")
    with pytest.raises(CnfError, match="no device 'meta'"):
        cnf.load(tmp_path / "field.pt", device="meta")


def test_strangers_are_named():
    """Conditions on two devices, and a base or a basis that stayed behind: who is where, and what to do."""
    p = SQUARE.halton(6)
    low, high = (
        SPACE.constraint("u", at=p, equals=0, name="low"),
        SPACE.constraint("u_x", at=p.to(NAME), equals=0, name="high"),
    )
    with pytest.raises(ConstraintError, match=rf"'low' on cpu; 'high' on {NAME}:0.*at=points.to"):
        cnf.ConstrainedField(RandomFourier(SPACE, 20, 0.3), [low, high])
    with pytest.raises(BasisError, match=rf"base network is on cpu, the conditions on {NAME}:0.*base.to\('{NAME}:0'\)"):
        cnf.ConstrainedField(RandomFourier(SPACE, 20, 0.3), high, base=nn.Linear(2, 1).double())
    field = cnf.ConstrainedField(RandomFourier(SPACE, 20, 0.3), low)
    field.basis.to(NAME)
    with pytest.raises(BasisError, match=rf"basis is on {NAME}:0 now, the field on cpu"):
        field.solve()
