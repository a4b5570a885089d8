"""Encoders, under their public name."""

from cnf.bases.encoders import MLP, SIREN, FourierFeatures, LearnablePolynomial

__all__ = ["MLP", "SIREN", "FourierFeatures", "LearnablePolynomial"]
