"""Comparison: methods on one material, under one light, measured and kept."""
