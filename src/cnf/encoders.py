"""Encoders, under their public name."""

from cnf.bases.encoders import MLP, SIREN, FourierFeatures, LearnablePolynomial
from cnf.bases.spline_grid import SplineGrid

__all__ = ["MLP", "SIREN", "FourierFeatures", "LearnablePolynomial", "SplineGrid"]
