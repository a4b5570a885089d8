"""Planar: distance fields and curves through points of the plane."""
