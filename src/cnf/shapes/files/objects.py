"""Points however they are given, as a `PointCloud`: arrays, tensors, a file's name, or another package's object.

A mesh, ours or another's, is sampled as that of a file is. What is not known is refused with a list of what is.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from cnf.errors import CnfError
from cnf.meshes.exchange import NORMALS, decode_object
from cnf.meshes.mesh import Mesh
from cnf.shapes.clouds.cloud import PointCloud
from cnf.shapes.files.reading import SAMPLED, read_cloud, sample_cloud


def as_cloud(points: object, normals: object = None, seed: int = 0) -> PointCloud:
    """Points (P, 3) and normals, if given beside them; `seed` is that of points drawn from a mesh."""
    given = find_cloud(points, seed)
    if given is None:
        return PointCloud(as_array(points, "points"), None if normals is None else as_array(normals, "normals"))
    if normals is None:
        return given
    if given.normals is not None:
        raise CnfError("the cloud carries its own normals; give them there, PointCloud(points, normals), not beside it")
    directions = as_array(normals, "normals")
    return PointCloud(given.points, directions, given.attributes, given.notes)


def find_cloud(points: object, seed: int) -> PointCloud | None:
    """The cloud in whatever is no array; None for arrays."""
    if isinstance(points, PointCloud):
        return points
    if isinstance(points, str | os.PathLike):
        return read_cloud(points, seed=seed)
    if isinstance(points, Mesh):
        others = {name: values for name, values in points.attributes.items() if name != NORMALS}
        return sample_cloud(replace(points, attributes=others), "it", SAMPLED, seed)
    decoded = None if isinstance(points, np.ndarray | list | tuple) else decode_object(points)
    if decoded is None:
        return None
    if decoded.faces is None:
        return PointCloud(decoded.points, decoded.normals, decoded.attributes, decoded.notes)
    mesh = Mesh(decoded.points, decoded.faces, decoded.attributes)
    return sample_cloud(mesh, type(points).__name__, SAMPLED, seed, decoded.notes)


def as_array(values: Any, what: str) -> np.ndarray:
    """float64, of an array, a tensor on any device, or lists."""
    if hasattr(values, "detach") and hasattr(values, "cpu"):  # a tensor of torch; one with a graph cannot be converted
        values = values.detach().cpu().resolve_conj().resolve_neg()
        values = values.float() if str(values.dtype) == "torch.bfloat16" else values
    try:
        array = np.asarray(values)
        if np.iscomplexobj(array):
            raise TypeError("they are complex")
        return array.astype(np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
        raise CnfError(
            f"the {what} cannot be read as an array (P, 3) of numbers ({reason}); expected an array, a tensor, the "
            "name of a file, or a cloud or mesh of trimesh, Open3D or PyVista"
        ) from None
