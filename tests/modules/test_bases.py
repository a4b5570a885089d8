"""Fields of every kind of basis as torch modules: the same values and derivatives, wherever they go.

What is right is what the field itself says, by its closed forms for derivatives; the module has torch's instead.
"""

from __future__ import annotations

import io
import pickle

import pytest
import torch
from torch import Tensor, nn

import cnf
from cnf.bases import Hermite
from cnf.errors import CnfError, ConstraintError
from cnf.modules import FieldModule
from tests.bases.contract import BY_NAME, anchors, places

NAMES = (
    *("Polynomial", "Kernel-Matern-2.5", "Kernel-Matern-5.5-MLP", "RandomFourier", "Hermite-two-channels"),
    *("Independent-per-channel", "Hypernet-own-network"),
)
SLOW = (  # together
    *(
        "Kernel-Wendland-2",
        "Kernel-Gaussian-MLP",
        "Kernel-DotProduct-own-encoder",
        "SkewedRBF-full",
        "Hermite-Gaussian",
    ),
    *("ConstraintLayer", "Independent-different", "Hypernet-per-channel", "HypernetKernel"),
    *("Hybrid-HypernetKernel-Wendland", "Hybrid-encoded-TruncatedGaussian", "Concat", "own-basis"),
)
EVERY = [*NAMES, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
ANY = ((torch.export.Dim.DYNAMIC, torch.export.Dim.STATIC),)
NUMBERS = (1, 2, 9)  # of points, other than those of the example


def solution_of(name: str, base: nn.Module | None = None) -> cnf.Solution:
    """The field of a basis of the contract in two coordinates, met at some anchors."""
    basis, points = BY_NAME[name].basis(2), anchors(2)[:6]
    space = basis.space
    constraints = [
        space.constraint(c, at=points, equals=lambda x, k=k: ((1 + k) * x).sin().sum(dim=1), name=c)
        for k, c in enumerate(space.channels)
    ]
    given = list(basis.constraints) if isinstance(basis, Hermite) else constraints
    return cnf.ConstrainedField(basis, given, base=base, on_violation="warn").eval().solution


def close(found: Tensor, want: Tensor, rounding: float = 1e-12) -> bool:
    return bool(((found - want).abs() <= rounding * (1 + want.abs())).all())


@pytest.fixture(scope="module", params=EVERY)
def pair(request) -> tuple[cnf.Solution, FieldModule]:
    found = solution_of(request.param)
    return found, found.as_module()


def test_values(pair):
    """Any shape of points, pickled, moved to single precision and back."""
    solution, module = pair
    x = places(2)  # 9 points, some outside the box, some at anchors
    want = solution(x)
    assert close(module(x), want) and close(module(x.reshape(3, 3, 2)), want.reshape(3, 3, -1))
    assert close(module(x[0]), want[0]) and module(x[:0]).shape == (0, want.shape[1])
    assert close(solution(x.reshape(3, 3, 2)), want.reshape(3, 3, -1))
    again = pickle.loads(pickle.dumps(module))
    assert torch.equal(again(x), module(x))
    single = again.float()(x)
    size = 1 + float(solution.weights.abs().sum())  # rounding is that of the terms, which are as large as weights
    assert single.dtype == torch.float32 and float((single.double() - want).abs().max()) <= 1e-5 * size


def test_nothing_is_learnt(pair):
    """No tensor asks for gradients, and all of them are in the state."""
    module = pair[1]
    assert not any(p.requires_grad for p in module.parameters()) and module.state_dict()
    assert not module(places(2)).requires_grad


def test_transforms(pair, request):
    """vmap, jacrev, jacfwd, and second derivatives, AT anchors too, where kernels are written in roots of zero."""
    solution, module = pair
    case, x = BY_NAME[request.node.callspec.params["pair"]], places(2)
    assert close(torch.func.vmap(module)(x), solution(x))
    if case.order >= 2:
        first = solution.derivatives(x, [(1, 0), (0, 1)])
        slopes = torch.stack([first[1, 0], first[0, 1]], dim=-1)
        assert close(torch.func.vmap(torch.func.jacrev(module))(x), slopes, 1e-11)
        assert close(torch.func.vmap(torch.func.jacfwd(module))(x), slopes, 1e-11)
        second = solution.derivatives(x, [(2, 0), (1, 1), (0, 2)])
        bends = torch.stack([second[2, 0], second[1, 1], second[1, 1], second[0, 2]], dim=-1)
        assert close(torch.func.vmap(torch.func.hessian(module))(x).flatten(2), bends, 1e-9)


def test_traced(pair):
    """A trace that was saved and read back serves any number of points."""
    solution, module = pair
    content = io.BytesIO()
    torch.jit.save(torch.jit.trace(module, places(2)[:5], check_trace=False), content)
    content.seek(0)
    traced = torch.jit.load(content)
    for count in NUMBERS:
        assert close(traced(places(2)[-count:]), solution(places(2)[-count:]))


def test_exported(pair):
    """So does an export."""
    solution, module = pair
    exported = torch.export.export(module, (places(2)[:5],), dynamic_shapes=ANY).module()
    for count in NUMBERS:
        assert close(exported(places(2)[-count:]), solution(places(2)[-count:]))


@pytest.mark.parametrize("name", ["Kernel-Matern-2.5", "Kernel-Gaussian-MLP", "Hypernet"])
def test_compiled(name: str):
    """As one graph, for any number of points; what the compiler makes of the graph is its own matter."""
    solution = solution_of(name)
    torch._dynamo.reset()
    compiled = torch.compile(solution.as_module(), fullgraph=True, backend="aot_eager", dynamic=True)
    for count in (5, *NUMBERS[1:]):
        assert close(compiled(places(2)[-count:]), solution(places(2)[-count:]))


def test_base():
    """A base in single precision, and one that is a field itself, leave with the field."""
    network = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    inner = solution_of("RandomFourier")
    field = cnf.ConstrainedField(inner.basis, list(inner.constraints)).eval()
    for base in (network, field):
        solution = solution_of("Kernel-Gaussian-MLP", base)
        module = solution.as_module()
        exported = torch.export.export(module, (places(2)[:5],), dynamic_shapes=ANY).module()
        assert close(module(places(2)), solution(places(2))) and close(exported(places(2)), solution(places(2)))


def test_what_cannot_leave():
    """A network whose way depends on numbers is refused in one line, and so are points of other coordinates."""

    class Deciding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(2, 20, dtype=torch.float64)

        def forward(self, x: Tensor) -> Tensor:
            found = self.inner(x)
            return torch.sin(found) if float(found.sum()) > 0 else torch.cos(found)

    space = cnf.Space("x y", "u")
    basis = cnf.bases.ConstraintLayer(space, Deciding())
    solution = cnf.ConstrainedField(basis, space.constraint("u", at=anchors(2)[:4], equals=1.0)).eval().solution
    with pytest.raises(CnfError, match="cannot leave"):
        solution.as_module()
    with pytest.raises(ConstraintError, match="columns x, y"):
        solution_of("Polynomial").as_module()(torch.zeros(3, 3))


def test_a_wrong_module_is_not_handed_out(monkeypatch):
    """One weight that is off by a millionth is noticed."""
    from cnf.modules import everywhere

    solution = solution_of("RandomFourier")
    given = everywhere.SumsOfFunctions.forward
    monkeypatch.setattr(everywhere.SumsOfFunctions, "forward", lambda self, x: given(self, x) * (1 + 1e-6))
    with pytest.raises(CnfError, match="not handed out"):
        solution.as_module()
