"""Files, glTF: all triangles (or points) of its scene, each part where its nodes put it; and meshes written as GLB.

A path comes in, `Decoded` comes out. Colours of vertices are linear light in glTF and shares of display colours here.
Materials, textures, cameras, skins and animations are not read.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cnf.errors import FileError
from cnf.meshes.decoded import Decoded, check_faces, check_finite, triangulate
from cnf.meshes.gltf_arrays import BINARY, JSON, MAGIC, Asset, read_asset, show_entry
from cnf.meshes.mesh import Mesh, unit_rows
from cnf.meshes.strips import cut_strips

POINTS, TRIANGLES, STRIP, FAN = 0, 4, 5, 6
FEW = 2**22  # vertices that are always taken; more only up to the bytes of the file: parts may be used many times
FLOAT, NUMBER = 5126, 5125  # float32 and uint32
Part = tuple[dict[str, Any], np.ndarray]  # a primitive, and the matrix (4, 4) of its node


def read_gltf(source: Path) -> Decoded:
    """Decode a .glb or .gltf file that `check_source` has passed."""
    asset = read_asset(source)
    parts = list(walk_scene(asset))
    modes = [primitive.get("mode", TRIANGLES) for primitive, _ in parts]
    if bad := [mode for mode in modes if not isinstance(mode, int)]:
        raise FileError(f"{source}: the mode of a primitive is a whole number from 0 to 6; got {str(bad[0])[:40]}")
    wanted = (TRIANGLES, STRIP, FAN) if set(modes) & {TRIANGLES, STRIP, FAN} else (POINTS,)
    notes = []
    if left := sum(mode not in wanted for mode in modes):
        notes.append(f"{left} of {len(modes)} parts are lines or points beside triangles, and not used")
    chosen = [part for part, mode in zip(parts, modes, strict=True) if mode in wanted]
    if not chosen:
        raise FileError(f"{source} has neither triangles nor points in its scene")
    check_total(asset, chosen)
    decoded = [decode_part(asset, *part) for part in chosen]
    points = np.concatenate([one.points for one in decoded])
    starts = np.cumsum([0, *(len(one.points) for one in decoded)])
    columns = join_columns([{**one.attributes, "normals": one.normals} for one in decoded])
    faces = [one.faces + start for one, start in zip(decoded, starts, strict=False) if one.faces is not None]
    if wanted == (POINTS,) or not faces:
        return Decoded(points, columns.pop("normals", None), None, columns, tuple(notes))
    with np.errstate(over="ignore", invalid="ignore"):
        check_finite(points, source)
    mesh = Mesh(points, np.concatenate(faces), columns)
    welded = mesh.weld()  # vertices are double at seams of textures and at hard edges, which do not cut the surface
    if len(welded.vertices) < len(points):
        notes.append(f"{len(points) - len(welded.vertices)} vertices at the places of others were joined with them")
        mesh = welded
    columns = dict(mesh.attributes)
    normals = columns.pop("normals", None)
    return Decoded(mesh.vertices, normals, mesh.faces if len(mesh.faces) else None, columns, tuple(notes))


def walk_scene(asset: Asset) -> Iterator[Part]:
    """Every primitive of the scene with the matrix of its node; of all meshes, if no node shows one."""
    scenes = asset.entries.get("scenes")
    if not scenes:
        for number in range(len(asset.entries.get("meshes") or ())):
            yield from ((primitive, np.eye(4)) for primitive in primitives_of(asset, number))
        return
    roots = asset.find("scenes", asset.entries.get("scene", 0)).get("nodes", [])
    waiting = deque((number, np.eye(4)) for number in as_list(roots))
    seen: set[int] = set()
    while waiting:
        number, above = waiting.popleft()
        node = asset.find("nodes", number)
        if number in seen:
            raise FileError(f"{asset.source}: node {number} hangs in two places; nodes form a tree")
        seen.add(number)
        with np.errstate(over="ignore", invalid="ignore"):
            matrix = above @ matrix_of(node, asset)
        if "mesh" in node:
            yield from ((primitive, matrix) for primitive in primitives_of(asset, node["mesh"]))
        waiting += [(child, matrix) for child in as_list(node.get("children"))]


def as_list(value: object) -> list:
    return value if isinstance(value, list) else []


def primitives_of(asset: Asset, number: object) -> list[dict[str, Any]]:
    found = as_list(asset.find("meshes", number).get("primitives"))
    if not all(isinstance(one, dict) and isinstance(one.get("attributes"), dict) for one in found):
        raise FileError(f"{asset.source}: mesh {number} has a part without attributes")
    return [one for one in found if "POSITION" in one["attributes"]]


def matrix_of(node: dict[str, Any], asset: Asset) -> np.ndarray:
    """(4, 4): the node's own matrix, or scale, then rotation, then translation."""
    if "matrix" in node:
        return numbers(node, "matrix", [0.0] * 16, asset).reshape(4, 4).T
    matrix = np.eye(4)
    x, y, z, w = numbers(node, "rotation", [0.0, 0.0, 0.0, 1.0], asset)
    matrix[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    matrix[:3, :3] *= numbers(node, "scale", [1.0, 1.0, 1.0], asset)
    matrix[:3, 3] = numbers(node, "translation", [0.0, 0.0, 0.0], asset)
    return matrix


def numbers(node: dict[str, Any], key: str, default: list[float], asset: Asset) -> np.ndarray:
    given = node.get(key, default)
    if not isinstance(given, list) or len(given) != len(default) or not all(type(v) in (int, float) for v in given):
        raise FileError(f"{asset.source}: the {key} of a node is {show_entry(given)}; expected {len(default)} numbers")
    try:
        return np.array(given, dtype=np.float64)
    except OverflowError:
        raise FileError(f"{asset.source}: the {key} of a node is beyond all numbers") from None


def check_total(asset: Asset, parts: list[Part]) -> None:
    """Refuse few bytes that say to draw the same part again and again, before memory is asked for."""
    total = 0
    for primitive, _ in parts:
        for number in (primitive["attributes"]["POSITION"], primitive.get("indices")):
            total += 0 if number is None else len(asset.array(number, (1, 3)))
    if total > max(FEW, asset.size):
        raise FileError(
            f"{asset.source} makes {total} corners of {asset.size} bytes by showing parts many times; it is not read"
        )


def decode_part(asset: Asset, primitive: dict[str, Any], matrix: np.ndarray) -> Decoded:
    """One primitive in the coordinates of the scene."""
    given, source = primitive["attributes"], asset.source
    local = asset.array(given["POSITION"], (3,)).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        points = local @ matrix[:3, :3].T + matrix[:3, 3]
    normals, attributes = None, {}
    for name, number in given.items():
        if name == "NORMAL":
            with np.errstate(all="ignore"):
                turned = asset.array(number, (3,)).astype(np.float64) @ cofactors(matrix[:3, :3]).T
                normals = unit_rows(turned) if np.isfinite(turned).all() else None
        elif name == "COLOR_0":
            attributes["colours"] = to_display(asset.array(number, (3, 4))[:, :3].astype(np.float64))
        elif name.startswith("_") and len(name) > 1:
            attributes[name[1:]] = asset.array(number, (1, 2, 3, 4)).astype(np.float64)
    for name, values in [("NORMAL", normals), *attributes.items()]:
        if values is not None and len(values) != len(points):
            raise FileError(f"{source}: a part has {len(points)} points, but {len(values)} values of {name[:40]!r}")
    mode = primitive.get("mode", TRIANGLES)
    if mode == POINTS:
        return Decoded(points, normals, None, attributes)
    listed = asset.array(primitive["indices"], (1,))[:, 0] if "indices" in primitive else np.arange(len(points))
    if listed.dtype.kind not in "iu":
        raise FileError(f"{source}: the vertex numbers of a part are not whole")
    corners = listed.astype(np.int64)
    if mode == TRIANGLES:
        if len(corners) % 3:
            raise FileError(f"{source}: {len(corners)} corners make no triangles; cut short?")
        faces = corners.reshape(-1, 3)
    else:
        faces = (cut_strips if mode == STRIP else triangulate)(corners, np.array([len(corners)]))
    if is_mirror(matrix[:3, :3]):  # which turns faces over
        faces = faces[:, ::-1]
    return Decoded(points, normals, check_faces(faces, len(points), source), attributes)


def cofactors(matrix: np.ndarray) -> np.ndarray:
    """(3, 3): how normals are turned where points are by `matrix`; det times the inverse, transposed."""
    a, b, c = matrix
    turned = np.stack([np.cross(b, c), np.cross(c, a), np.cross(a, b)])
    return -turned if is_mirror(matrix) else turned


def is_mirror(matrix: np.ndarray) -> bool:
    with np.errstate(all="ignore"):
        return bool(np.isfinite(matrix).all() and np.linalg.det(matrix) < 0)


def join_columns(parts: list[dict[str, np.ndarray | None]]) -> dict[str, np.ndarray]:
    """Attributes that all parts have, in the same width, below one another."""
    kept = {}
    for name in parts[0]:
        columns = [part.get(name) for part in parts]
        present = [values for values in columns if values is not None]
        if len(present) == len(parts) and len({values.shape[1] for values in present}) == 1:
            kept[name] = np.concatenate(present)
    return kept


def to_display(linear: np.ndarray) -> np.ndarray:
    """Linear light as shares of what a screen is told (sRGB)."""
    light = np.clip(np.nan_to_num(linear), 0, 1)
    return np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)


def to_linear(display: np.ndarray) -> np.ndarray:
    """The inverse of `to_display`."""
    shown = np.clip(display, 0, 1)
    return np.where(shown <= 0.04045, shown / 12.92, ((shown + 0.055) / 1.055) ** 2.4)


def write_glb(target: Path, mesh: Mesh) -> None:
    """One file: positions in float32 around the middle of the mesh, which a node puts back; attributes as `_name`."""
    if not len(mesh.faces):
        raise FileError("GLB files hold at least one triangle; the mesh has none")
    middle = (mesh.vertices.min(axis=0) + mesh.vertices.max(axis=0)) / 2
    columns = {"POSITION": mesh.vertices - middle}
    for name, values in mesh.attributes.items():
        if name == "normals" and values.shape[1] == 3:
            columns["NORMAL"] = values
        elif name == "colours" and values.shape[1] == 3:
            columns["COLOR_0"] = to_linear(values)
        elif values.shape[1] <= 4:
            columns[f"_{name}"] = values
    blocks, accessors = [], []
    for name, values in columns.items():
        with np.errstate(over="ignore"):
            block = np.ascontiguousarray(values, dtype="<f4")
        if not np.isfinite(block).all():
            raise FileError(f"GLB holds single precision, which {name.strip('_')!r} goes beyond; write .ply instead")
        kind = "SCALAR" if block.shape[1] == 1 else f"VEC{block.shape[1]}"
        accessors.append({"componentType": FLOAT, "count": len(block), "type": kind})
        blocks.append(block.tobytes())
    lowest, highest = (getattr(np.frombuffer(blocks[0], "<f4").reshape(-1, 3), end)(axis=0) for end in ("min", "max"))
    accessors[0] |= {"min": lowest.tolist(), "max": highest.tolist()}
    accessors.append({"componentType": NUMBER, "count": mesh.faces.size, "type": "SCALAR"})
    blocks.append(mesh.faces.astype("<u4").tobytes())
    starts = np.cumsum([0, *map(len, blocks)]).tolist()
    views = [
        {"buffer": 0, "byteOffset": at, "byteLength": len(block)} for at, block in zip(starts, blocks, strict=False)
    ]
    primitive = {"attributes": {name: k for k, name in enumerate(columns)}, "indices": len(columns), "mode": TRIANGLES}
    entries = {
        "asset": {"version": "2.0", "generator": "cnf"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0, "translation": middle.tolist()}],
        "meshes": [{"primitives": [primitive]}],
        "accessors": [{"bufferView": k, **accessor} for k, accessor in enumerate(accessors)],
        "bufferViews": views,
        "buffers": [{"byteLength": starts[-1]}],
    }
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 4)
    sizes = [12 + 8 + len(text) + 8 + starts[-1], len(text), starts[-1]]
    if sizes[0] >= 2**32:
        raise FileError("GLB files hold at most 4 GB; write .ply instead")
    total, first, second = (size.to_bytes(4, "little") for size in sizes)
    with target.open("wb") as file:
        file.write(MAGIC + (2).to_bytes(4, "little") + total)
        file.write(first + JSON.to_bytes(4, "little") + text)
        file.write(second + BINARY.to_bytes(4, "little"))
        file.writelines(blocks)
