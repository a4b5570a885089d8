"""Shapes, the study's own side: reconstruction by cnf and by SciPy, timed in the process that the case has."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.interpolate import RBFInterpolator
from scipy.spatial import cKDTree

from cnf.meshes.mesh import Mesh
from cnf.shapes.clouds.preparation import Prepared
from studies.shapes.peers import read_peak_memory

PSEUDO = 0.01  # how far pseudo-normal points lie from the surface, for shapes of size 2
NEIGHBOURS = 50  # of SciPy's local thin-plate splines
REACH = 0.6  # of the distance to the 55th neighbour: how far from the points their surface is followed


@dataclass(frozen=True, eq=False)
class Made:
    """A mesh, and what is to be said of how it was made."""

    mesh: Mesh
    setting: str
    measured: dict[str, float] = field(default_factory=dict)  # value_error, normal_error, ... of the field itself
    notes: tuple[str, ...] = ()  # what the method itself says to its user


OURS: dict[str, dict[str, Any]] = {  # name -> options of `reconstruct`
    "cnf-auto": {},  # whatever `reconstruct` does by itself; on the study's grid, if it has one
    "cnf": {"normals_mode": "exact", "solver": "sparse"},
    "cnf-snapped": {"normals_mode": "exact", "solver": "sparse", "snap": True},
    "cnf-refined": {"normals_mode": "exact", "solver": "sparse", "snap": True, "refinements": 1},
    "cnf-blend": {"normals_mode": "exact", "solver": "blend"},
    "cnf-sharp": {"sharp": True},  # as cnf-auto, with sharp edges kept
    "cnf-pseudo": {"normals_mode": "pseudo", "solver": "sparse"},
    "paper": {"normals_mode": "pseudo", "solver": "local"},
}


def run_ours(
    points: np.ndarray | Prepared, normals: np.ndarray | None, resolution: int | None, method: str, **changes: Any
) -> Made:
    """One of OURS: a field with exact or pseudo-normal conditions, and its mesh; the grid is cnf's choice if None."""
    from cnf.shapes.reconstruction.reconstruct import reconstruct

    options = {**OURS[method], **changes} | ({} if resolution is None else {"resolution": resolution})
    result = reconstruct(points, normals, most=None, **options)
    how = f"{options.get('normals_mode', 'exact')} normals, support {result.support:.3g}, {result.certificate.solver}"
    measured: dict[str, Any] = {
        "grid": result.settings["resolution"],
        "value_error": result.value_error,
        "normal_error": result.normal_error,
        "field_seconds": result.seconds["preparation"] + result.seconds["solve"],
    }
    return Made(result.mesh, how, measured, tuple(result.notes))


def run_trained(points: np.ndarray, normals: np.ndarray, resolution: int, method: str = "cnf-trained") -> Made:
    """As `cnf`, with a support that was trained; exact at every step of the training."""
    from cnf.shapes.clouds.cloud import PointCloud
    from cnf.shapes.clouds.preparation import prepare_cloud
    from studies.shapes.training import train_support

    cloud = prepare_cloud(PointCloud(points, normals), most=None)
    support, history = train_support(cloud)
    made = run_ours(cloud, None, resolution, "cnf", support=support)
    start, best = history.loss[0], history.best_loss
    course = f"{len(history)} steps, eikonal loss {start:.3g} to {best:.3g}, conditions to {max(history.residual):.0e}"
    return replace(made, setting=f"{made.setting}; {course}")


def run_scipy(points: np.ndarray, normals: np.ndarray, resolution: int, method: str = "scipy-tps") -> Made:
    """Local thin-plate splines of SciPy through pseudo-normal data, meshed by our own extraction."""
    from cnf.shapes.reconstruction.extraction import extract

    places = np.concatenate([points, points + PSEUDO * normals, points - PSEUDO * normals])
    heights = np.repeat([0.0, PSEUDO, -PSEUDO], len(points))
    fit = RBFInterpolator(places, heights, neighbors=NEIGHBOURS, kernel="thin_plate_spline")
    spacing = cKDTree(points).query(points, k=min(56, len(points)))[0][:, -1].mean()
    lower, upper = points.min(axis=0), points.max(axis=0)
    made = extract(fit, points, lower, upper, resolution, REACH * spacing)
    return Made(made.mesh, f"{NEIGHBOURS} neighbours, pseudo-normals {PSEUDO:g}, our grid and following")


METHODS: dict[str, Callable[..., Made]] = {
    **dict.fromkeys(OURS, run_ours),
    "cnf-trained": run_trained,
    "scipy-tps": run_scipy,
}


def run_timed(
    method: str, points: np.ndarray, normals: np.ndarray | None, resolution: int | None, **changes: Any
) -> Made:
    """One method on one cloud, with wall and processor seconds and the peak memory of this process so far, in MB."""
    import cnf.shapes.reconstruction.reconstruct  # noqa: F401  (before the clock starts, as in `peers`; cnf alone is lazy)

    wall, processor = time.perf_counter(), time.process_time()
    made = METHODS[method](points, normals, resolution, method, **changes)
    spent = {"seconds": time.perf_counter() - wall, "processor_seconds": time.process_time() - processor}
    return replace(made, measured={**made.measured, **spent, "megabytes": read_peak_memory()})
