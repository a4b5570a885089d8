"""A surface through points
========================

1500 points of a knotted tube with normals and colours, a field that meets them, a mesh.

The field d is zero at every point and its gradient is the given normal; both are measured by evaluating the field anew.
The mesh follows its zero set and is drawn through the points. A tube around a closed curve has the Euler number 0.
"""

from collections.abc import Callable

from scipy.spatial import cKDTree

from cnf.shapes import Mesh, PointCloud, reconstruct, sample_knot


def draw(cloud: PointCloud, mesh: Mesh) -> None:
    """The points, and the mesh through them, in the colours of the points."""
    from matplotlib import pyplot as plt
    from matplotlib.colors import LightSource

    figure = plt.figure(figsize=(9, 4.4), layout="constrained")
    left, right = (figure.add_subplot(1, 2, k, projection="3d", box_aspect=(1, 1, 0.5)) for k in (1, 2))
    left.scatter(*cloud.points.T, c=cloud.attributes["colours"], s=3)
    drawn = right.plot_trisurf(*mesh.vertices.T, triangles=mesh.faces, antialiased=False, linewidth=0)
    colours = mesh.attributes["colours"][mesh.faces].mean(axis=1)
    light = LightSource(azdeg=225, altdeg=50).shade_normals(mesh.face_normals, fraction=1.1)
    drawn.set_facecolor((0.35 + 0.65 * light)[:, None] * colours)
    for axis in (left, right):
        axis.set_axis_off()
        axis.view_init(elev=60, azim=-70)
    plt.show()


def main(show: Callable[..., object] = lambda *_: None) -> dict[str, float]:
    """Whether the mesh is watertight, its Euler number, the worst normal error, and the way of a point to a vertex."""
    cloud = sample_knot(1500)  # or cnf.shapes.read_cloud("cloud.ply")
    made = reconstruct(cloud, resolution=64, snap=True)
    mesh = made.mesh  # cnf.shapes.write_mesh(mesh, "mesh.ply") keeps it, colours included
    distance = cKDTree(mesh.vertices).query(cloud.points)[0].max()

    print(made.certificate)
    print(f"at the points: values to {made.value_error:.1e}, normals to {made.normal_error:.1e}")
    print(f"mesh: {mesh!r}, watertight: {mesh.is_watertight}, Euler number {mesh.euler}, area {mesh.area:.2f}")
    print(f"farthest point from a vertex: {distance:.1e}")
    show(cloud, mesh)
    return {
        "watertight": mesh.is_watertight,
        "euler": mesh.euler,
        "normals": made.normal_error,
        "distance": distance,
    }


if __name__ == "__main__":
    main(draw)
