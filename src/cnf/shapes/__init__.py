"""Shapes: point clouds and meshes in and out, and surfaces and curves through points with exact normals."""

from typing import TYPE_CHECKING

from cnf.late import from_modules, late_names

if TYPE_CHECKING:
    from cnf.meshes.mesh import Mesh
    from cnf.shapes.clouds.cloud import PointCloud
    from cnf.shapes.clouds.estimation import estimate_normals
    from cnf.shapes.clouds.flipped import find_flipped
    from cnf.shapes.clouds.generated import sample_knot
    from cnf.shapes.clouds.orientation import orient_normals, points_outward
    from cnf.shapes.clouds.preparation import Prepared, prepare_cloud
    from cnf.shapes.clouds.thinning import thin
    from cnf.shapes.files.reading import read_cloud, read_mesh
    from cnf.shapes.files.writing import write_cloud, write_mesh
    from cnf.shapes.planar.curve import PlanarCurve, fit_curve
    from cnf.shapes.reconstruction.reconstruct import Reconstruction, reconstruct
    from cnf.shapes.report.results import Look, write_results
    from cnf.shapes.tiles.run import TiledReconstruction, reconstruct_tiles

__getattr__, __dir__ = late_names(
    __name__,
    from_modules(
        {
            "cnf.shapes.clouds.cloud": "PointCloud",
            "cnf.shapes.clouds.generated": "sample_knot",
            "cnf.meshes.mesh": "Mesh",
            "cnf.shapes.clouds.estimation": "estimate_normals",
            "cnf.shapes.clouds.flipped": "find_flipped",
            "cnf.shapes.clouds.orientation": "orient_normals points_outward",
            "cnf.shapes.clouds.preparation": "Prepared prepare_cloud",
            "cnf.shapes.clouds.thinning": "thin",
            "cnf.shapes.files.reading": "read_cloud read_mesh",
            "cnf.shapes.files.writing": "write_cloud write_mesh",
            "cnf.shapes.planar.curve": "PlanarCurve fit_curve",
            "cnf.shapes.reconstruction.reconstruct": "Reconstruction reconstruct",
            "cnf.shapes.report.results": "Look write_results",
            "cnf.shapes.tiles.run": "TiledReconstruction reconstruct_tiles",
        }
    ),
)

__all__ = [
    "Look",
    "Mesh",
    "PlanarCurve",
    "PointCloud",
    "Prepared",
    "Reconstruction",
    "TiledReconstruction",
    "estimate_normals",
    "find_flipped",
    "fit_curve",
    "orient_normals",
    "points_outward",
    "prepare_cloud",
    "read_cloud",
    "read_mesh",
    "reconstruct",
    "reconstruct_tiles",
    "sample_knot",
    "thin",
    "write_cloud",
    "write_mesh",
    "write_results",
]
