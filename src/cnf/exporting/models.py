"""Models: a solved field as a program that others run without this library: ONNX, TorchScript, a torch export.

All take any number of points (P, D), named `points`, and give values (P, C), named `values`.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from cnf.errors import CnfError, MissingExtraError
from cnf.files import write_atomically
from cnf.modules import Difference, FieldModule, measure_difference
from cnf.solution import Solution

POINTS = 7  # of the example: any number but one
PRECISION = {"onnx": torch.float32}  # what most programs that run ONNX are made for; others have the field's


def write_model(solution: Solution, path: object, to: str, dtype: torch.dtype | None = None) -> Path:
    """Write the field as `to`: "onnx", "torchscript" or "pt2"; `dtype` is that of points and values.

    >>> space = cnf.Space("x y", "u")
    >>> condition = space.constraint("u = x", at=cnf.Box([0, 0], [1, 1]).grid(4))
    >>> solution = cnf.ConstrainedField(cnf.bases.RandomFourier(space, 40, 0.7), [condition]).solve()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = cnf.exporting.write_model(solution, f"{folder}/field.ts", "torchscript")
    ...     model = torch.jit.load(path)
    >>> torch.allclose(model(condition.points), condition.values)
    True
    """
    return write_measured(solution, path, to, dtype)[0]


def write_measured(
    solution: Solution, path: object, to: str, dtype: torch.dtype | None = None
) -> tuple[Path, Difference]:
    """The same, and how far off the field the program is, measured in its precision before torch writes it down."""
    writers = {"onnx": onnx_bytes, "torchscript": script_bytes, "pt2": export_bytes}
    if to not in writers:
        raise CnfError(f"a model is written as {', '.join(writers)}; got {to!r}")
    if to == "onnx":
        check_onnx()
    module = solution.as_module(dtype or PRECISION.get(to))
    conditions = [constraint.points for constraint in solution.constraints]
    difference = measure_difference(module, solution.expansion, solution, conditions)
    example = conditions[0][torch.arange(POINTS) % conditions[0].shape[0]].to(module.like)
    with quiet():
        try:
            content = writers[to](module, example)
        except CnfError:
            raise
        except Exception as error:  # exporters raise of all kinds
            lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
            raise CnfError(f"torch cannot write this field as {to} ({lines[0]:.300})") from None
    return write_atomically(path, lambda file: file.write_bytes(content)), difference


def script_bytes(module: FieldModule, example: Tensor) -> bytes:
    """A trace, which `torch.jit.load` reads, in C++ too."""
    content = io.BytesIO()
    with torch.no_grad():
        torch.jit.save(torch.jit.trace(module, example, check_trace=False), content)
    return content.getvalue()


def export_bytes(module: FieldModule, example: Tensor) -> bytes:
    """What `torch.export.load` reads."""
    content = io.BytesIO()
    torch.export.save(torch.export.export(module, (example,), dynamic_shapes=any_number()), content)
    return content.getvalue()


def onnx_bytes(module: FieldModule, example: Tensor) -> bytes:
    """An ONNX program."""
    with redirect_stdout(io.StringIO()):
        program = torch.onnx.export(
            module,
            (example,),
            dynamo=True,
            dynamic_shapes=any_number(),
            input_names=["points"],
            output_names=["values"],
            verbose=False,
        )
    assert program is not None
    return program.model_proto.SerializeToString()


def any_number() -> tuple[dict[int, object]]:
    """Any number of points."""
    return ({0: torch.export.Dim("number", min=1)},)


def check_onnx() -> None:
    """Refuse in one line if the packages that write ONNX are missing."""
    if find_spec("onnx") is None or find_spec("onnxscript") is None:
        raise MissingExtraError.of("ONNX files need onnx and onnxscript", "onnx onnxscript", "onnx")


@contextmanager
def quiet() -> Iterator[None]:
    """Exporters tell of their steps, and of packages that have nothing to do with the field."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
