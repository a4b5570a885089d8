"""What is summed: bases, and the kernels and encoders they are made of."""

from cnf.bases import encoders, kernels
from cnf.bases.basis import Basis
from cnf.bases.concat import Concat
from cnf.bases.fourier import RandomFourier
from cnf.bases.hermite import Hermite
from cnf.bases.kernel import Kernel
from cnf.bases.networks import ConstraintLayer, Independent
from cnf.bases.polynomial import Polynomial
from cnf.bases.skewed import SkewedRBF

__all__ = [
    "Basis",
    "Concat",
    "ConstraintLayer",
    "Hermite",
    "Independent",
    "Kernel",
    "Polynomial",
    "RandomFourier",
    "SkewedRBF",
    "encoders",
    "kernels",
]
