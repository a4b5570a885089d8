"""A surface through points: 1500 points of a knotted tube with normals and colours, a field that meets them, a mesh.

The field d is zero at every point and its gradient is the given normal; both are measured by evaluating the field anew.
The mesh follows its zero set and is drawn through the points. A tube around a closed curve has the Euler number 0.
"""

from scipy.spatial import cKDTree

from cnf.shapes import reconstruct, sample_knot


def main() -> dict[str, float]:
    """Whether the mesh is watertight, its Euler number, the worst normal error, and the way of a point to a vertex."""
    cloud = sample_knot(1500)  # or cnf.shapes.read_cloud("cloud.ply")
    made = reconstruct(cloud, resolution=64, snap=True)
    mesh = made.mesh  # cnf.shapes.write_mesh(mesh, "mesh.ply") keeps it, colours included
    distance = cKDTree(mesh.vertices).query(cloud.points)[0].max()

    print(made.certificate)
    print(f"at the points: values to {made.value_error:.1e}, normals to {made.normal_error:.1e}")
    print(f"mesh: {mesh!r}, watertight: {mesh.is_watertight}, Euler number {mesh.euler}, area {mesh.area:.2f}")
    print(f"farthest point from a vertex: {distance:.1e}")
    return {
        "watertight": mesh.is_watertight,
        "euler": mesh.euler,
        "normals": made.normal_error,
        "distance": distance,
    }


if __name__ == "__main__":
    main()
