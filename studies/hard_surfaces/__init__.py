"""Surfaces where points say little: few, uneven, close sheets, thin parts without normals, open ones."""
