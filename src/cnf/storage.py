"""Storage: a saved field, read back without pickle."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from cnf.bases.basis import Basis
from cnf.description import Reader, built_solver
from cnf.errors import FileError
from cnf.field import KIND, VERSION, ConstrainedField
from cnf.files import read_archive


def load(
    path: object,
    *,
    basis: Basis | None = None,
    base: nn.Module | None = None,
    networks: Mapping[str, nn.Module] | None = None,
    coefficients: Mapping[str, object] | None = None,
) -> ConstrainedField:
    """The field that `field.save(path)` wrote.

    Parts that a file cannot hold are given again: your own `basis`, the `base` network, other `networks` by
    the name the error
    message says, callable `coefficients` of operators by name. Their parameters are restored from the file.
    """
    content = read_archive(path, KIND, VERSION)
    reader = Reader(
        {**({"base": base} if base is not None else {}), **(networks or {})}, dict(coefficients or {}), basis
    )
    try:
        what = content["field"]
        field = ConstrainedField(
            reader.built(what["basis"], "basis"),
            [reader.built(c, "constraint") for c in what["constraints"]],
            base=None if what["base"] is None else reader.built(what["base"], "base"),
            solver=built_solver(what["solver"]),
            tolerance=what["tolerance"],
            on_violation=what["on_violation"],
        )
        field.load_state_dict(content["state"])
        field.train(bool(what["training"]))
    except (KeyError, TypeError, IndexError, AttributeError, ValueError, RuntimeError) as error:
        raise FileError(
            f"{path} does not describe a field this version can rebuild ({type(error).__name__}: {error})"
        ) from None
    return field
