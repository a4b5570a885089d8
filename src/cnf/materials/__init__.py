"""Material appearance: fitted reflectance, rendered and compared."""

from cnf.applications.materials.metrics import ImageErrors, error_map, image_errors, ssim_map
from cnf.applications.materials.rendering import Scene, prepare_scene, render_sphere
from cnf.applications.materials.tone import exposure_for, tone_map

__all__ = [
    "ImageErrors",
    "Scene",
    "error_map",
    "exposure_for",
    "image_errors",
    "prepare_scene",
    "render_sphere",
    "ssim_map",
    "tone_map",
]
