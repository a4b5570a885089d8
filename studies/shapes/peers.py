"""Shapes, the study's other side: surface reconstruction by Open3D and PyMeshLab, in a process of its own.

    python peers.py METHOD INPUT.npz OUTPUT.npz --threads 2 --resolution 160

INPUT holds `points` and `normals` (P, 3), or points alone, whose normals the package estimates itself; OUTPUT gets
`vertices`, `faces`, and JSON in `report`: wall and processor seconds without imports and files, peak memory in MB, the
setting. This file imports nothing of cnf, so that any
interpreter which has the packages can run it. `python peers.py --list` prints the methods whose package is there.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

Answer = tuple[np.ndarray, np.ndarray]  # vertices (V, 3), faces (F, 3)
Given = np.ndarray | None  # normals (P, 3), if they are known
MARGIN = 0.1  # Poisson: the cube is this much larger than the points
SPARSE = 0.05  # share of the vertices, those of least density, that are cut away from a surface known to be open
NEIGHBOURS = 10  # of normals that Open3D estimates and orients; of 10, 12, 16 and 30 (its default) best on thin parts


def open3d_poisson(
    points: np.ndarray, normals: Given, asked: argparse.Namespace, depth: int, cut: float = 0.0
) -> Answer:
    """Screened Poisson at an octree depth, Open3D's other defaults; `cut`: the share of vertices it is trimmed by."""
    open3d = importlib.import_module("open3d")
    cloud = _open3d_cloud(open3d, points, normals)
    make = open3d.geometry.TriangleMesh.create_from_point_cloud_poisson
    mesh, densities = make(cloud, depth=depth, scale=1 + MARGIN, n_threads=asked.threads)
    if cut:
        mesh.remove_vertices_by_mask(np.asarray(densities) < np.quantile(densities, cut))
    return _open3d_arrays(mesh)


def open3d_ball_pivoting(points: np.ndarray, normals: Given, asked: argparse.Namespace) -> Answer:
    """Balls of 1, 2 and 4 times the mean distance of nearest neighbours, the usual choice of Open3D's tutorial."""
    open3d = importlib.import_module("open3d")
    cloud = _open3d_cloud(open3d, points, normals)
    spacing = float(np.mean(cloud.compute_nearest_neighbor_distance()))
    radii = open3d.utility.DoubleVector([spacing, 2 * spacing, 4 * spacing])
    return _open3d_arrays(open3d.geometry.TriangleMesh.create_from_point_cloud_ball_pivoting(cloud, radii))


def pymeshlab_poisson(points: np.ndarray, normals: Given, asked: argparse.Namespace, weight: float) -> Answer:
    """Screened Poisson at depth 8 with a weight of the points (4 is the default, 100 nearly interpolates)."""
    options = {"depth": 8, "pointweight": weight, "threads": asked.threads}
    return _pymeshlab(points, normals, "generate_surface_reconstruction_screened_poisson", options)


def pymeshlab_apss(points: np.ndarray, normals: Given, asked: argparse.Namespace) -> Answer:
    """Algebraic point set surfaces, by marching cubes of the asked resolution."""
    return _pymeshlab(points, normals, "generate_marching_cubes_apss", {"resolution": asked.resolution})


def pymeshlab_rimls(points: np.ndarray, normals: Given, asked: argparse.Namespace) -> Answer:
    """Robust implicit moving least squares, by marching cubes of the asked resolution."""
    return _pymeshlab(points, normals, "generate_marching_cubes_rimls", {"resolution": asked.resolution})


# name -> (package, how, what is said of the setting)
PEERS: dict[str, tuple[str, Callable[..., Answer], str]] = {
    "open3d-poisson-8": ("open3d", partial(open3d_poisson, depth=8), "octree depth 8"),
    "open3d-poisson-9": ("open3d", partial(open3d_poisson, depth=9), "octree depth 9"),
    "open3d-poisson-10": ("open3d", partial(open3d_poisson, depth=10), "octree depth 10"),
    "open3d-poisson-8-trimmed": (
        "open3d",
        partial(open3d_poisson, depth=8, cut=SPARSE),
        f"octree depth 8, without the {100 * SPARSE:g} % of vertices of least density",
    ),
    "open3d-ball-pivoting": ("open3d", open3d_ball_pivoting, "radii 1, 2, 4 mean distances"),
    "pymeshlab-poisson-8": ("pymeshlab", partial(pymeshlab_poisson, weight=4), "octree depth 8"),
    "pymeshlab-poisson-w100": (
        "pymeshlab",
        partial(pymeshlab_poisson, weight=100),
        "octree depth 8, point weight 100",
    ),
    "pymeshlab-apss": ("pymeshlab", pymeshlab_apss, "marching cubes at the same resolution"),
    "pymeshlab-rimls": ("pymeshlab", pymeshlab_rimls, "marching cubes at the same resolution"),
}


def find_peers() -> list[str]:
    """The methods whose package this interpreter has."""
    return [name for name, (package, _, _) in PEERS.items() if importlib.util.find_spec(package) is not None]


def read_peak_memory() -> float:
    """Largest resident size of this process in MB.

    Linux counts it per program in VmHWM; `ru_maxrss` would start at the size of the process that started this one.
    """
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return float(line.split()[1]) / 1024
    except OSError:
        pass
    try:
        import resource
    except ImportError:  # not on every system
        return float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 1024)


def _open3d_cloud(open3d: Any, points: np.ndarray, normals: Given) -> Any:
    cloud = open3d.geometry.PointCloud(open3d.utility.Vector3dVector(points))
    if normals is None:
        cloud.estimate_normals(open3d.geometry.KDTreeSearchParamKNN(NEIGHBOURS))
        cloud.orient_normals_consistent_tangent_plane(NEIGHBOURS)
        inward = _looks_inward(points, np.asarray(cloud.normals))
        normals = -np.asarray(cloud.normals) if inward else np.asarray(cloud.normals)
    cloud.normals = open3d.utility.Vector3dVector(normals)
    return cloud


def _looks_inward(points: np.ndarray, normals: np.ndarray) -> bool:
    """Whether normals (P, 3) that agree among themselves look inward: the point farthest along an axis tells."""
    ends = [points[:, axis].argmax() for axis in range(3)] + [points[:, axis].argmin() for axis in range(3)]
    return bool(sum(normals[end, k % 3] * (1 if k < 3 else -1) for k, end in enumerate(ends)) < 0)


def _open3d_arrays(mesh: Any) -> Answer:
    return np.asarray(mesh.vertices, dtype=np.float64), np.asarray(mesh.triangles, dtype=np.int64)


def _pymeshlab(points: np.ndarray, normals: Given, filter_name: str, options: dict[str, Any]) -> Answer:
    pymeshlab = importlib.import_module("pymeshlab")
    meshes = pymeshlab.MeshSet(verbose=False)
    if normals is None:
        meshes.add_mesh(pymeshlab.Mesh(vertex_matrix=points))
        meshes.apply_filter("compute_normal_for_point_clouds")
        normals = np.asarray(meshes.current_mesh().vertex_normal_matrix())
        normals = -normals if _looks_inward(points, normals) else normals
        meshes.clear()
    meshes.add_mesh(pymeshlab.Mesh(vertex_matrix=points, v_normals_matrix=normals))
    meshes.apply_filter(filter_name, **options)
    made = meshes.current_mesh()
    if made.face_number() == 0:
        raise RuntimeError(f"{filter_name} made no faces")
    return np.asarray(made.vertex_matrix(), dtype=np.float64), np.asarray(made.face_matrix(), dtype=np.int64)


def run(asked: argparse.Namespace) -> None:
    """One method on one cloud."""
    package, reconstruct, setting = PEERS[asked.method]
    importlib.import_module(package)  # before the clock starts
    with np.load(asked.input, allow_pickle=False) as given:
        points, normals = given["points"], given.get("normals")
    wall, processor = time.perf_counter(), time.process_time()
    vertices, faces = reconstruct(points, normals, asked)
    report = {
        "seconds": time.perf_counter() - wall,
        "processor_seconds": time.process_time() - processor,
        "megabytes": read_peak_memory(),
        "setting": f"{setting}; {package} {importlib.metadata.version(package)}",
    }
    np.savez(asked.output, vertices=vertices, faces=faces, report=json.dumps(report))


def main() -> None:
    """Read the command line, run one method or list them."""
    parser = argparse.ArgumentParser(description="surface reconstruction by other packages, for comparison")
    parser.add_argument("--list", action="store_true", help="print the methods that can run here and stop")
    parser.add_argument("method", nargs="?", choices=list(PEERS))
    parser.add_argument("input", nargs="?", help="NPZ file with points and normals")
    parser.add_argument("output", nargs="?", help="NPZ file to write")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--resolution", type=int, default=160)
    asked = parser.parse_args()
    if asked.list:
        print("\n".join(find_peers()))
        return
    if asked.output is None:
        parser.error("METHOD, INPUT and OUTPUT are needed")
    # Busy waiting of OpenMP on a shared machine makes Poisson up to thirty times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    end_with_input()
    run(asked)


def end_with_input() -> None:
    """End this process as soon as its standard input is closed: whoever started it is gone."""

    def watch() -> None:
        sys.stdin.read()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    main()
