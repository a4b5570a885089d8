"""Loading: a saved field, read back without pickle."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from cnf.bases.basis import Basis
from cnf.fetching import as_device
from cnf.field import ConstrainedField
from cnf.storage import Given, read_field


def load(
    path: object,
    *,
    basis: Basis | None = None,
    base: nn.Module | None = None,
    networks: Mapping[str, nn.Module] | None = None,
    coefficients: Mapping[str, object] | None = None,
    device: object = None,
) -> ConstrainedField:
    """The field that `field.save(path)` wrote, with the weights it had: the same values, bit for bit.

    Parts that a file cannot hold are given again: your own `basis`, the `base` network, other `networks` by the name
    the error message says, callable `coefficients` of operators by name. Their parameters are restored from the file.
    The field comes to the host, or to a `device` ("cpu", or one that torch knows), whatever device it was saved on.
    In eval mode nothing is solved until a parameter changes; `field.certificate` is measured on what was read.

    >>> space = cnf.Space("x", "u")
    >>> ends = space.constraint("u = x", at=[[0.0], [1.0]])
    >>> field = cnf.ConstrainedField(cnf.bases.Polynomial(space, 1), [ends])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     field.save(f"{folder}/line.pt")
    ...     again = cnf.load(f"{folder}/line.pt")
    >>> again.certificate.exact
    True
    """
    given = Given(basis, base, networks or {}, coefficients or {})
    return read_field(path, ConstrainedField, given, as_device(device))
