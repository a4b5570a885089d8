"""Data: point clouds and meshes in and out, normals, and clouds made ready for reconstruction."""

from cnf.data.cloud import PointCloud
from cnf.data.mesh import Mesh
from cnf.data.normals import estimate_normals, find_flipped, orient_normals, points_outward
from cnf.data.preparation import Prepared, prepare_cloud
from cnf.data.reading import read_cloud, read_mesh
from cnf.data.thinning import thin
from cnf.data.writing import write_cloud, write_mesh

__all__ = [
    "Mesh",
    "PointCloud",
    "Prepared",
    "estimate_normals",
    "find_flipped",
    "orient_normals",
    "points_outward",
    "prepare_cloud",
    "read_cloud",
    "read_mesh",
    "thin",
    "write_cloud",
    "write_mesh",
]
