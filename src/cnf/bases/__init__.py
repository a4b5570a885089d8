"""What is summed: bases, and the kernels and encoders they are made of."""

from cnf.bases import encoders, kernels
from cnf.bases.basis import Basis
from cnf.bases.cells import Cells
from cnf.bases.concat import Concat
from cnf.bases.corner_functions import CornerFunctions
from cnf.bases.cover import Cover
from cnf.bases.diffused_jumps import DiffusedJumps
from cnf.bases.edge_potentials import EdgePotentials
from cnf.bases.fourier import RandomFourier
from cnf.bases.hermite import Hermite
from cnf.bases.hybrid import Hybrid
from cnf.bases.hypernet import Hypernet, HypernetKernel
from cnf.bases.kernel import Kernel
from cnf.bases.networks import ConstraintLayer, Independent
from cnf.bases.part import find_final
from cnf.bases.partition import Partition
from cnf.bases.piecewise import Piecewise
from cnf.bases.polynomial import Polynomial
from cnf.bases.properties import Properties, properties_table
from cnf.bases.recommend import Recommendation, recommend
from cnf.bases.skewed import SkewedRBF
from cnf.bases.ties import Guide, Tie

__all__ = [
    "Basis",
    "Cells",
    "Concat",
    "ConstraintLayer",
    "CornerFunctions",
    "Cover",
    "DiffusedJumps",
    "EdgePotentials",
    "Guide",
    "Hermite",
    "Hybrid",
    "Hypernet",
    "HypernetKernel",
    "Independent",
    "Kernel",
    "Partition",
    "Piecewise",
    "Polynomial",
    "Properties",
    "RandomFourier",
    "Recommendation",
    "SkewedRBF",
    "Tie",
    "encoders",
    "kernels",
    "properties_table",
    "recommend",
]

CATALOGUE: dict[str, Properties] = {
    name: kind.properties
    for name, kind in find_final(Basis).items()
    if issubclass(kind, Basis) and kind.properties is not None
}
