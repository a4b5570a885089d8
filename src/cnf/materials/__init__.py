"""Materials: measured reflectance read, fitted with exact measurements, rendered and compared."""

from typing import TYPE_CHECKING

from cnf.late import from_modules, late_names

if TYPE_CHECKING:
    from cnf.materials.fitting.fit import QUICK, Fit, Settings, fit_material
    from cnf.materials.fitting.fitted import FittedMaterial, as_material
    from cnf.materials.fitting.folders import load_fit, save_fit
    from cnf.materials.reflectance import GGX, Lambert, Material, decode, encode, list_materials, plastic, read_material
    from cnf.materials.rendering.environments import Environment, read_environment, studio
    from cnf.materials.rendering.metrics import ImageErrors, image_errors
    from cnf.materials.rendering.sphere import Scene, prepare_scene, render_sphere
    from cnf.materials.rendering.tone import exposure_for, tone_map

__getattr__, __dir__ = late_names(
    __name__,
    from_modules(
        {
            "cnf.materials.fitting.fit": "QUICK Fit Settings fit_material",
            "cnf.materials.fitting.fitted": "FittedMaterial as_material",
            "cnf.materials.fitting.folders": "load_fit save_fit",
            "cnf.materials.reflectance": "GGX Lambert Material decode encode list_materials plastic read_material",
            "cnf.materials.rendering.environments": "Environment read_environment studio",
            "cnf.materials.rendering.metrics": "ImageErrors image_errors",
            "cnf.materials.rendering.sphere": "Scene prepare_scene render_sphere",
            "cnf.materials.rendering.tone": "exposure_for tone_map",
        }
    ),
)

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
