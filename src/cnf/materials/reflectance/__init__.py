"""Data, materials: measured and generated reflectance, its angles and its files."""

from cnf.data.materials.analytic import GGX, Lambert, plastic
from cnf.data.materials.angles import above_horizon, cosines, decode, directions, encode, half_difference
from cnf.data.materials.checksums import Checked, check_merl
from cnf.data.materials.material import Material
from cnf.data.materials.merl import Table, grid_angles, read_merl, tabulate, write_merl
from cnf.data.materials.nbrdf import Nbrdf
from cnf.data.materials.reading import list_materials, read_material
from cnf.data.materials.scattered import Scattered

__all__ = [
    "GGX",
    "Checked",
    "Lambert",
    "Material",
    "Nbrdf",
    "Scattered",
    "Table",
    "above_horizon",
    "check_merl",
    "cosines",
    "decode",
    "directions",
    "encode",
    "grid_angles",
    "half_difference",
    "list_materials",
    "plastic",
    "read_material",
    "read_merl",
    "tabulate",
    "write_merl",
]
