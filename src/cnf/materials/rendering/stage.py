"""Rendering, the stage: a material under one light, and the picture that those of its fits are held against."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from cnf.materials.reflectance import Material
from cnf.materials.rendering.environments import Environment
from cnf.materials.rendering.metrics import ImageErrors, image_errors
from cnf.materials.rendering.sphere import Scene, prepare_scene
from cnf.materials.rendering.tone import exposure_for, tone_map

STEPS = 80  # of the renderer's quadrature


@dataclass(frozen=True)
class Stage:
    """A reference rendered, with the exposure that all pictures of it share."""

    scene: Scene
    reference: Material
    exposure: float
    image: Tensor  # (H, W, 3) tone-mapped

    @staticmethod
    def of(reference: Material, environment: Environment, size: int, steps: int = STEPS) -> Stage:
        scene = prepare_scene(environment, size, steps)
        radiance = scene.render(reference, reference.valid)
        exposure = exposure_for(radiance, scene.mask)
        return Stage(scene, reference, exposure, tone_map(radiance, exposure))

    def show(self, material: Material) -> tuple[Tensor, ImageErrors]:
        """The tone-mapped picture of a fit of the reference, and how far it is from the reference's."""
        image = tone_map(self.scene.render(material, self.reference.valid), self.exposure)
        return image, image_errors(image, self.image, self.scene.mask)
