"""Materials: measured reflectance read, fitted with exact measurements, rendered and compared."""

from cnf.materials.fitting.fit import QUICK, Fit, Settings, fit_material
from cnf.materials.fitting.fitted import FittedMaterial, as_material
from cnf.materials.fitting.folders import load_fit, save_fit
from cnf.materials.reflectance import GGX, Lambert, Material, decode, encode, list_materials, plastic, read_material
from cnf.materials.rendering.environments import Environment, read_environment, studio
from cnf.materials.rendering.metrics import ImageErrors, image_errors
from cnf.materials.rendering.sphere import Scene, prepare_scene, render_sphere
from cnf.materials.rendering.tone import exposure_for, tone_map

__all__ = [
    "GGX",
    "QUICK",
    "Environment",
    "Fit",
    "FittedMaterial",
    "ImageErrors",
    "Lambert",
    "Material",
    "Scene",
    "Settings",
    "as_material",
    "decode",
    "encode",
    "exposure_for",
    "fit_material",
    "image_errors",
    "list_materials",
    "load_fit",
    "plastic",
    "prepare_scene",
    "read_environment",
    "read_material",
    "render_sphere",
    "save_fit",
    "studio",
    "tone_map",
]
