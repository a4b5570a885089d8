"""Material appearance: a sphere, or any mesh, rendered by Mitsuba 3, for pictures in print. Needs the extra `mitsuba`.

In: a material or a `.bsdf` file, an `Environment`, and the file of a mesh instead of the sphere. Out: linear radiance
(size, size, 3), row 0 up, of the same view as `render_sphere`: the noise of a path tracer instead of the smoothing of a
quadrature. A mesh is moved and scaled to where the sphere would be; y is up.

The material goes to Mitsuba as a file for its `measured` BSDF, which every variant for RGB evaluates and samples by
itself. The default variant needs nothing but the package; those that compile, such as "llvm_ad_rgb", need an LLVM that
fits the processor, and one that does not may end the whole process, so they are used only when asked for.
"""

from __future__ import annotations

import importlib
import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cnf.errors import ConstraintError, MissingExtraError, nearest
from cnf.materials.reflectance.material import Material
from cnf.materials.reflectance.rgl import read_rgl
from cnf.materials.reflectance.rgl_writing import write_rgl
from cnf.materials.rendering.environments import Environment
from cnf.materials.rendering.sphere import FILL
from cnf.meshes.mesh import Mesh
from cnf.meshes.reading import read_surface

VARIANT = "scalar_rgb"
DEEPEST = 3.0  # towards the camera, which stands at 4
BOUNCES = 5  # of light between the parts of a mesh


def render_with_mitsuba(
    material: Material | str | os.PathLike[str],
    environment: Environment,
    size: int = 512,
    samples: int = 256,
    background: bool = False,
    variant: str = VARIANT,
    seed: int = 0,
    shape: str | os.PathLike[str] | None = None,
) -> Tensor:
    """Linear radiance (size, size, 3) float64 of a sphere; around it black, or the environment with `background`.

    `shape`: the file of a mesh (.ply, .obj, .stl) to show instead. A material given as a `.bsdf` file is rendered from
    that very file. `samples` per pixel: the noise falls with their square root. Mitsuba's variant and its log level are
    afterwards as before.
    """
    if not 8 <= size <= 4096 or not 1 <= samples <= 2**20:
        raise ConstraintError(
            f"a picture of size {size} with {samples} samples was asked for; expected 8 to 4096 pixels and 1 to 2^20"
        )
    mesh = None if shape is None else centre(read_surface(shape))
    with using(variant) as mitsuba, tempfile.TemporaryDirectory(prefix="cnf-") as folder:
        if isinstance(material, Material):
            file = write_rgl(Path(folder) / "material.bsdf", material)
        else:
            read_rgl(material)  # our one clear line for whatever is wrong with the file
            file = Path(material)
        described = describe(mitsuba, file, environment, size, samples, background)
        if mesh is not None:
            replace_sphere(described, write_mesh(mesh, Path(folder) / "shape.ply"))
        scene = mitsuba.load_dict(described)
        picture = np.array(mitsuba.render(scene, seed=seed), dtype=np.float64)
    return torch.from_numpy(np.ascontiguousarray(picture[:, :, :3]))


@contextmanager
def using(variant: str) -> Iterator[Any]:
    """The package, set to one of its variants and silent but for errors."""
    try:
        mitsuba = importlib.import_module("mitsuba")
    except ImportError:
        raise MissingExtraError.of("rendering with Mitsuba needs mitsuba", "mitsuba", "mitsuba") from None
    variants = [name for name in mitsuba.variants() if name.endswith("_rgb")]
    if variant not in variants:
        raise ConstraintError(
            f"no variant {variant!r} of Mitsuba for RGB; there are {', '.join(variants)}.{nearest(variant, variants)}"
        )
    before = mitsuba.variant()
    mitsuba.set_variant(variant)
    level = mitsuba.logger().log_level()  # each variant's, hence read after the choice
    mitsuba.set_log_level(mitsuba.LogLevel.Error)  # `measured` may give light of -1e-6, and a warning for each
    try:
        yield mitsuba
    finally:
        mitsuba.set_log_level(level)
        if before is not None:
            mitsuba.set_variant(before)


def describe(
    mitsuba: Any, file: Path, environment: Environment, size: int, samples: int, background: bool
) -> dict[str, Any]:
    """The scene as Mitsuba's dictionary: a unit sphere at the origin, seen from +z without perspective, y up."""
    view = mitsuba.ScalarTransform4f().look_at(origin=[0, 0, 4], target=[0, 0, 0], up=[0, 1, 0])
    side = 1 / FILL  # half the width of the picture
    return {
        "type": "scene",
        "integrator": {"type": "path", "max_depth": 2, "hide_emitters": not background},  # a sphere does not see itself
        "sensor": {
            "type": "orthographic",
            "to_world": view @ mitsuba.ScalarTransform4f().scale([side, side, 1]),
            "sampler": {"type": "multijitter", "sample_count": samples},
            "film": {
                "type": "hdrfilm",
                "width": size,
                "height": size,
                "pixel_format": "rgb",
                "rfilter": {"type": "box"},  # a pixel is the mean over its square, as in `render_sphere`
            },
        },
        "light": {
            "type": "envmap",
            "bitmap": mitsuba.Bitmap(stretch_rows(environment)),
            # Mitsuba puts the first column ahead of the camera, we the middle one.
            "to_world": mitsuba.ScalarTransform4f().rotate([0, 1, 0], 180.0),
        },
        "sphere": {"type": "sphere", "bsdf": {"type": "measured", "filename": str(file)}},
    }


def stretch_rows(environment: Environment) -> np.ndarray:
    """The same light as Mitsuba reads maps, (2 H + 1, W, 3) float32: first and last row at the poles, not beside them.

    The new rows are the old ones and the edges between them, so that interpolation finds the same light as before.
    """
    rows, columns = environment.radiance.shape[:2]
    down = torch.linspace(0, math.pi, 2 * rows + 1, dtype=torch.float64)[:, None]
    around = (torch.arange(columns, dtype=torch.float64) + 0.5) / columns * 2 * math.pi - math.pi  # 0 is straight ahead
    x, y, z = torch.broadcast_tensors(down.sin() * around.sin(), down.cos(), -down.sin() * around.cos())
    radiance = environment.lookup(torch.stack([x, y, z], -1).reshape(-1, 3))
    return radiance.detach().reshape(2 * rows + 1, columns, 3).numpy().astype(np.float32)


def centre(mesh: Mesh) -> Mesh:
    """The mesh with the middle of its bounds at the origin, as large as the picture lets the sphere be."""
    mesh = mesh.weld()
    corners = mesh.vertices[np.unique(mesh.faces)]
    low, high = corners.min(0), corners.max(0)
    reach = float(((high - low) / [2, 2, 2 * DEEPEST]).max())
    if not reach > 0:
        raise ConstraintError("a shape to render needs triangles that span some space")
    return Mesh((mesh.vertices - (low + high) / 2) / reach, mesh.faces)


def write_mesh(mesh: Mesh, target: Path) -> Path:
    """A binary PLY file with normals at the vertices, for Mitsuba to read."""
    columns = np.concatenate([mesh.vertices, mesh.vertex_normals], axis=1).astype("<f4")
    names = "".join(f"property float {name}\n" for name in ("x", "y", "z", "nx", "ny", "nz"))
    head = f"ply\nformat binary_little_endian 1.0\nelement vertex {len(columns)}\n{names}"
    head += f"element face {len(mesh.faces)}\nproperty list uchar int vertex_indices\nend_header\n"
    faces = np.empty(len(mesh.faces), dtype=[("count", "u1"), ("corners", "<i4", 3)])
    faces["count"], faces["corners"] = 3, mesh.faces
    target.write_bytes(head.encode() + columns.tobytes() + faces.tobytes())
    return target


def replace_sphere(scene: dict[str, Any], file: Path) -> None:
    """Put the mesh of the file where the sphere is; light may reach it by way of itself, and from either side."""
    bsdf = {"type": "twosided", "bsdf": scene.pop("sphere")["bsdf"]}
    scene["shape"] = {"type": "ply", "filename": str(file), "bsdf": bsdf}
    scene["integrator"]["max_depth"] = BOUNCES + 1
