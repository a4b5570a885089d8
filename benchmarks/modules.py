"""Modules beside the fields they were made of: largest differences, and processor time per query.

`python -m benchmarks.modules [NAME ...]` prints a row per basis: the module as it is, exported, traced and under vmap
against the field, relative to 1 + |value|; slopes by jacrev against the field's own; ONNX in single precision where
onnxruntime is installed; then milliseconds of processor time for 2,000 points, of the field and of the module.
"""

from __future__ import annotations

import io
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, nn

import cnf
from cnf import bases, encoders, kernels, solvers
from cnf.exporting import write_model

SPACE = cnf.Space("x y", "u")
COUNT, QUERIES, TIMES = 400, 2000, 5
ANY = ((torch.export.Dim.DYNAMIC, torch.export.Dim.STATIC),)


def fields(names: Sequence[str] = ()) -> Iterator[tuple[str, cnf.ConstrainedField]]:
    """One field per kind of basis and of evaluation; all of them if none is named."""
    torch.manual_seed(0)
    points = torch.rand(COUNT, 2, dtype=torch.float64)
    values = SPACE.constraint("u", at=points, equals=lambda x: (3 * x).sin().sum(dim=1), name="values")
    few = SPACE.constraint("u", at=points[:60], equals=lambda x: (3 * x).sin().sum(dim=1), name="values")
    slopes = SPACE.constraint("u_x", at=points[:60], equals=0.5, name="slopes")

    def mlp() -> nn.Module:
        return encoders.MLP(2, 32, hidden=(32,))

    made: dict[str, Callable[[], cnf.ConstrainedField]] = {
        "Polynomial": lambda: cnf.ConstrainedField(bases.Polynomial(SPACE, 12, 0.5, 0.5), few),
        "Kernel, Gaussian": lambda: cnf.ConstrainedField(bases.Kernel(SPACE, points, kernels.Gaussian(0.05)), values),
        "Kernel, Matern": lambda: cnf.ConstrainedField(bases.Kernel(SPACE, points, kernels.Matern(2.5, 0.2)), values),
        "Kernel, encoder": lambda: cnf.ConstrainedField(
            bases.Kernel(SPACE, points[:60], kernels.Gaussian(0.5), mlp()), few
        ),
        "SkewedRBF": lambda: cnf.ConstrainedField(bases.SkewedRBF(SPACE, points, 0.05), values),
        "RandomFourier": lambda: cnf.ConstrainedField(bases.RandomFourier(SPACE, 2 * COUNT, 0.2), values),
        "Hermite": lambda: cnf.ConstrainedField(
            bases.Hermite(SPACE, [few, slopes], kernels.Gaussian(0.1)), [few, slopes]
        ),
        "ConstraintLayer": lambda: cnf.ConstrainedField(
            bases.ConstraintLayer(SPACE, encoders.SIREN(2, 200, hidden=(64,), omega=5.0)), few
        ),
        "Independent": lambda: cnf.ConstrainedField(
            bases.Independent(SPACE, [encoders.SIREN(2, 1, hidden=(12,), omega=5.0) for _ in range(80)]), few
        ),
        "Hypernet": lambda: cnf.ConstrainedField(
            bases.Hypernet(SPACE, encoders.SIREN(2, 1, hidden=(12,), omega=5.0), 80), few
        ),
        "HypernetKernel": lambda: cnf.ConstrainedField(bases.HypernetKernel(SPACE, points[:60], mlp()), few),
        "Concat": lambda: cnf.ConstrainedField(
            bases.Concat([bases.Polynomial(SPACE, 3), bases.RandomFourier(SPACE, 200, 0.3)]), few
        ),
        "with a base": lambda: cnf.ConstrainedField(bases.RandomFourier(SPACE, 200, 0.3), few, base=encoders.MLP(2, 1)),
        "Wendland, near": lambda: cnf.ConstrainedField(
            bases.Kernel(SPACE, points, kernels.Wendland(2, 0.2)), values, solver=solvers.SparseLU()
        ),
        "Hybrid, near": lambda: cnf.ConstrainedField(
            bases.Hybrid(bases.Kernel(SPACE, points, kernels.Gaussian(0.2)), kernels.Wendland(2, 0.2)), values
        ),
        "blended balls": lambda: cnf.ConstrainedField(
            bases.Kernel(SPACE, points, kernels.Wendland(2, 0.4)), values, solver=solvers.Patches()
        ),
    }
    for name, make in made.items():
        if not names or name in names:
            yield name, make().eval()


def difference(found: Tensor, want: Tensor) -> float:
    return float(((found - want).abs() / (1 + want.abs())).max())


def onnx_difference(solution: cnf.Solution, x: Tensor) -> float:
    """Beside the field, of the program in single precision; NaN where it cannot be run."""
    if find_spec("onnxruntime") is None or find_spec("onnxscript") is None:
        return float("nan")
    import onnxruntime

    with TemporaryDirectory() as folder:
        session = onnxruntime.InferenceSession(write_model(solution, f"{folder}/model.onnx", "onnx"))
    (found,) = session.run(None, {"points": x.float().numpy()})
    return difference(torch.from_numpy(found).double(), solution(x.float().double()))


def processor_time(function: Callable[[Tensor], Tensor], x: Tensor) -> float:
    """The least of a few, in milliseconds."""
    found = []
    for _ in range(TIMES):
        started = time.process_time()
        function(x)
        found.append(time.process_time() - started)
    return 1e3 * min(found)


def main() -> None:
    warnings.simplefilter("ignore")
    print(f"{'':18s}  module  export  traced    vmap  jacrev    onnx |   field  module  traced (ms, {QUERIES} points)")
    for name, field in fields(sys.argv[1:]):
        solution = field.solution
        module, x = solution.as_module(), torch.rand(QUERIES, 2, dtype=torch.float64)
        with torch.no_grad():
            want = solution(x)
            exported = torch.export.export(module, (x[:7],), dynamic_shapes=ANY).module()
            content = io.BytesIO()
            torch.jit.save(torch.jit.trace(module, x[:7], check_trace=False), content)
            content.seek(0)
            traced = torch.jit.load(content)
            slopes = torch.cat([solution.apply(f"u_{c}", x[:50]) for c in "xy"], dim=1)
            found = [difference(f(x), want) for f in (module, exported, traced, torch.func.vmap(module))]
            found.append(difference(torch.func.vmap(torch.func.jacrev(module))(x[:50])[:, 0], slopes))
            found.append(onnx_difference(solution, x))
            times = [processor_time(f, x) for f in (solution, module, traced)]
        numbers = " ".join(f"{v:7.0e}" for v in found)
        print(f"{name:18s} {numbers} | " + " ".join(f"{t:7.1f}" for t in times), flush=True)


if __name__ == "__main__":
    main()
