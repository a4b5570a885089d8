"""Materials, measuring: how far a fit is from its material where it was not trained, and how fast it is."""

from __future__ import annotations

import time

import torch

from cnf.materials.fitting.fitted import FittedMaterial
from cnf.materials.fitting.sampling import draw_samples
from cnf.materials.reflectance import Material
from cnf.materials.reflectance.angles import decode

HELD_OUT, HELD_SEED = 20_000, 2**40  # samples that no training sees: seeds of trainings are smaller
TIMED = 100_000  # evaluations that inference is timed with; scaled to a million


def held_out_error(fitted: FittedMaterial, material: Material) -> float:
    """Mean |d log(1 + f)| at fresh samples, drawn as those of the training."""
    samples = draw_samples(material, HELD_OUT, HELD_SEED)
    found = torch.log1p(fitted(decode(samples.points)))
    return float((found - samples.logs).abs().mean())


def time_inference(fitted: FittedMaterial, count: int = TIMED) -> float:
    """Seconds for a million evaluations, from `count`."""
    generator = torch.Generator().manual_seed(0)
    angles = torch.rand(count, 3, dtype=torch.float64, generator=generator)
    fitted(angles[:1000])
    started = time.perf_counter()
    fitted(angles)
    return (time.perf_counter() - started) * 1e6 / count
