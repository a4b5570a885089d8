"""Kernels, under their public name."""

from cnf.bases.kernels import DotProduct, Gaussian, KernelProfile, Matern, Pole, TruncatedGaussian, Wendland

__all__ = ["DotProduct", "Gaussian", "KernelProfile", "Matern", "Pole", "TruncatedGaussian", "Wendland"]
