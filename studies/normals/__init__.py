"""Planar shapes with exact normals, beside pseudo-normals, SIREN and Hermite functions."""
