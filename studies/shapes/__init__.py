"""Surfaces through points, by cnf and by other packages, and how the work grows."""
