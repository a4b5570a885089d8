"""Rendering, the stage: a material under one light, and the picture that those of its fits are held against."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from cnf.materials.reflectance import Material
from cnf.materials.rendering.environments import Environment, facing_light
from cnf.materials.rendering.metrics import ImageErrors, LinearErrors, image_errors, linear_errors
from cnf.materials.rendering.sphere import Scene, prepare_scene
from cnf.materials.rendering.tone import exposure_for, tone_map

STEPS = 80  # of the renderer's quadrature


@dataclass(frozen=True)
class View:
    """A fit as the stage shows it."""

    image: Tensor  # (H, W, 3) tone-mapped
    errors: ImageErrors  # of that
    linear: LinearErrors  # of the light itself, not clipped


@dataclass(frozen=True)
class Stage:
    """A reference rendered, with the exposure that all pictures of it share."""

    scene: Scene
    reference: Material
    exposure: float
    image: Tensor  # (H, W, 3) tone-mapped
    radiance: Tensor  # (H, W, 3) linear

    @staticmethod
    def of(reference: Material, environment: Environment, size: int, steps: int = STEPS, clipped: bool = True) -> Stage:
        """An exposure that suits the picture, some of the highlight clipped, or one that clips no channel anywhere."""
        scene = prepare_scene(environment, size, steps)
        radiance = scene.render(reference, reference.valid)
        brightest = radiance.amax(-1, keepdim=True).expand_as(radiance)
        exposure = exposure_for(radiance, scene.mask) if clipped else exposure_for(brightest, scene.mask, 100.0)
        return Stage(scene, reference, exposure, tone_map(radiance, exposure), radiance)

    @staticmethod
    def facing(reference: Material, size: int, steps: int = STEPS) -> Stage:
        """Under `facing_light`, the highlight in the middle and not clipped."""
        return Stage.of(reference, facing_light(), size, steps, clipped=False)

    def view(self, material: Material) -> View:
        """The picture of a fit of the reference, and how far it is from the reference's, as shown and as light."""
        radiance = self.scene.render(material, self.reference.valid)
        image = tone_map(radiance, self.exposure)
        mask = self.scene.mask
        return View(image, image_errors(image, self.image, mask), linear_errors(radiance, self.radiance, mask))

    def show(self, material: Material) -> tuple[Tensor, ImageErrors]:
        """The tone-mapped picture of a fit of the reference, and how far it is from the reference's."""
        seen = self.view(material)
        return seen.image, seen.errors
