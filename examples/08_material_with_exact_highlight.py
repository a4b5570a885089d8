"""A material with exact measurements
==================================

GGX gold as a small field that reproduces 100 chosen measurements to rounding.

The field is a Gaussian kernel of a SIREN, trained on samples of the material elsewhere. The 100 conditions are measured
again, as any query is answered, against the material itself, and a sphere is rendered beside the reference.
"""

from collections.abc import Callable

from torch import Tensor

from cnf.materials import (
    Settings,
    as_material,
    decode,
    exposure_for,
    fit_material,
    image_errors,
    prepare_scene,
    read_material,
    studio,
    tone_map,
)


def draw(reference: Tensor, image: Tensor) -> None:
    """Both spheres, and 100 times their difference."""
    from matplotlib import pyplot as plt

    _, axes = plt.subplots(1, 3, figsize=(9, 3.3), layout="constrained")
    shown = {
        "reference": reference,
        "fit": image,
        "difference, 100 times": (100 * (image - reference).abs()).clamp(0, 1),
    }
    for axis, (title, picture) in zip(axes, shown.items(), strict=True):
        axis.imshow(picture.detach())
        axis.set(title=title, xticks=[], yticks=[])
    plt.show()


def main(show: Callable[..., object] = lambda *_: None) -> dict[str, float]:
    """Worst relative error of the 100 measurements, and the PSNR of the rendered sphere."""
    gold = read_material("ggx:gold:0.2")  # or a file: "chrome.binary", "cg_sunflower_rgb.bsdf", "measured.csv"
    settings = Settings(samples=40_000, epochs=4, batch=1000, parameters=30_000)
    fit = fit_material(gold, "kernel-siren", settings)
    print(fit.certificate)

    fitted = as_material(fit)
    there = decode(fit.conditions.points)
    worst = ((fitted(there) - gold(there)).abs() / (1 + gold(there))).max().item()

    scene = prepare_scene(studio(), 64, steps=48)
    radiance = [scene.render(m) for m in (gold, fitted)]
    exposure = exposure_for(radiance[0], scene.mask)
    reference, image = (tone_map(r, exposure) for r in radiance)
    errors = image_errors(image, reference, scene.mask)
    print(f"100 measurements reproduced to {worst:.1e}; rendered: PSNR {errors.psnr:.1f} dB, SSIM {errors.ssim:.4f}")
    show(reference, image)
    return {"measurements": worst, "psnr": errors.psnr}


if __name__ == "__main__":
    main(draw)
