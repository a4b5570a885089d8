"""Rendering: a sphere of some material under a map of the surroundings, and how far two pictures are apart."""

from cnf.materials.rendering.metrics import ImageErrors, error_map, image_errors, ssim_map
from cnf.materials.rendering.sphere import Scene, prepare_scene, render_sphere
from cnf.materials.rendering.tone import exposure_for, tone_map

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
