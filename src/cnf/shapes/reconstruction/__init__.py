"""Shapes: surfaces through points with normals, from the field to the mesh."""
