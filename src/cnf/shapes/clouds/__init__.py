"""Clouds: points with normals, and the meshes they come from or become."""
