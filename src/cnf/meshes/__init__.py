"""Meshes: triangles over shared vertices, their files (STL, OBJ, PLY), and the closest points on them."""
