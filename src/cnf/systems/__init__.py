"""The matrix: layout, assembly, conditioning."""
