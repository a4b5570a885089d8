"""Reflectance: measured and generated reflectance, its angles and its files."""

from cnf.materials.reflectance.analytic import GGX, Lambert, plastic
from cnf.materials.reflectance.angles import above_horizon, cosines, decode, directions, encode, half_difference
from cnf.materials.reflectance.checksums import Checked, MerlFile, check_merl, find_merl
from cnf.materials.reflectance.material import Material
from cnf.materials.reflectance.merl import (
    Table,
    grid_angles,
    node_numbers,
    read_merl,
    snap_to_nodes,
    tabulate,
    write_merl,
)
from cnf.materials.reflectance.nbrdf import Nbrdf
from cnf.materials.reflectance.reading import list_materials, read_material
from cnf.materials.reflectance.scattered import Scattered

__all__ = [
    "GGX",
    "Checked",
    "Lambert",
    "Material",
    "MerlFile",
    "Nbrdf",
    "Scattered",
    "Table",
    "above_horizon",
    "check_merl",
    "cosines",
    "decode",
    "directions",
    "encode",
    "find_merl",
    "grid_angles",
    "half_difference",
    "list_materials",
    "node_numbers",
    "plastic",
    "read_material",
    "read_merl",
    "snap_to_nodes",
    "tabulate",
    "write_merl",
]
