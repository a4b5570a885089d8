"""The conditions of a surface, and the field that meets them.

In comes a prepared cloud; out goes a solution whose channel d is zero at every point and has the normal as its gradient
where there is one to be trusted. Further channels carry the attributes.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.spatial import cKDTree

import cnf
from cnf.field import ConstrainedField
from cnf.shapes.clouds.preparation import Prepared
from cnf.shapes.reconstruction.surface import local_mean
from cnf.solution import Solution
from cnf.solvers import Method

BLEND = cnf.solvers.Patches(mode="blend", follow_density=True)
METHODS: dict[str, Method] = {
    "sparse": cnf.solvers.Auto(),
    "blend": BLEND,
    "local": cnf.solvers.Patches(mode="local"),
}


def solve_surface(
    cloud: Prepared,
    mode: str,
    method: Method,
    radius: float,
    offset: float,
    means: np.ndarray | None = None,
) -> Solution:
    """The field: channel d is the surface's, the others carry what the attributes have beyond their local means.

    `means` (P, k): these, if the points are some of a larger cloud's.
    """
    columns = np.empty((len(cloud), 0))
    if cloud.attributes:
        values = np.concatenate([*cloud.attributes.values()], axis=1)
        columns = values - (local_mean(cKDTree(cloud.points), values, cloud.points) if means is None else means)
    space = cnf.Space("x y z", " ".join(["d", *(f"a{k}" for k in range(columns.shape[1]))]))
    # Points in two groups: those with a normal to meet, and those whose estimated one is doubtful and left free.
    groups = {"": np.flatnonzero(cloud.trusted), " at points without normals": np.flatnonzero(~cloud.trusted)}
    where, normals = torch.from_numpy(cloud.points[cloud.trusted]), torch.from_numpy(cloud.normals[cloud.trusted])
    constraints = []
    if mode == "exact" and len(where):
        constraints = [
            space.constraint("d = 0", at=where, name="points"),
            space.constraint(r"\nabla d", at=where, equals=normals, name="normals"),
        ]
    elif len(where):
        shifts = torch.tensor([0.0, offset, -offset], dtype=torch.float64)
        places = torch.cat([where + s * normals for s in shifts])
        constraints = [
            space.constraint("d", at=places, equals=shifts.repeat_interleave(len(where)), name="points and offsets")
        ]
    if len(cloud.doubtful):
        free = torch.from_numpy(cloud.points[~cloud.trusted])
        constraints.append(space.constraint("d = 0", at=free, name="points without normals"))
    names = [
        name if values.shape[1] == 1 else f"{name} {k}"
        for name, values in cloud.attributes.items()
        for k in range(values.shape[1])
    ]
    for k, (name, column) in enumerate(zip(names, columns.T, strict=True)):
        for group, rows in groups.items():
            if not len(rows):
                continue
            at, wanted = torch.from_numpy(cloud.points[rows]), torch.from_numpy(column[rows])
            constraints.append(space.constraint(f"a{k}", at=at, equals=wanted, name=f"attribute {name}{group}"))
    basis = cnf.bases.Hermite(space, constraints, cnf.kernels.Wendland(1, radius))
    made = ConstrainedField(basis, constraints, solver=method).eval()
    return made.solution
