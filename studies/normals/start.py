"""A trained hypernet kernel as the start of another shape, as the paper begins every shape with a circle."""

from __future__ import annotations

import cnf
from cnf.errors import CnfError
from cnf.shapes.planar.conditions import SPACE
from cnf.shapes.planar.fields import TOLERANCE


def move_hypernet(trained: cnf.ConstrainedField, conditions: list[cnf.Constraint]) -> cnf.ConstrainedField:
    """The same generated encoders and kernel with other points: a field that starts where `trained` ended.

    Unlike `field.transfer`, functions sit at the new points, and the two share no parameters.
    """
    basis = trained.basis
    assert isinstance(basis, cnf.bases.HypernetKernel)
    kernel = cnf.kernels.Gaussian(float(basis.kernel.bandwidth.detach()))  # type: ignore[operator]
    moved = cnf.bases.HypernetKernel(SPACE, conditions, basis.encoder, kernel, codes=basis.codes, seed=basis.seed)
    if moved.size != basis.size:
        raise CnfError(f"pre-trained for {basis.size} conditions, asked for {moved.size}; both must have as many")
    moved.hypernetwork.load_state_dict(basis.hypernetwork.state_dict())
    return cnf.ConstrainedField(moved, conditions, tolerance=TOLERANCE)
