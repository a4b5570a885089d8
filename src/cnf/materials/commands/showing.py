"""`cnf material render` and `inspect`: a picture of a material, and what physics says of it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cnf.errors import CnfError
from cnf.materials.commands import options
from cnf.materials.commands.single import SourceArgument, material
from cnf.reports.terminal import say

if TYPE_CHECKING:
    from torch import Tensor

    from cnf.materials.fitting.folders import KeptFit
    from cnf.materials.reflectance import Material

PICTURES, LINEAR = (".png",), (".exr", ".hdr")
INSPECTED_SIZE = 128  # pixels along a side of the pictures that are compared


@material.command()
def render(
    source: SourceArgument,
    name: options.Name = None,
    env: options.Env = None,
    size: options.Size = 512,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The picture, .png, or its light, linear, .exr or .hdr; default NAME.png."),
    ] = None,
    background: Annotated[bool, typer.Option("--background", help="Show the environment around the sphere.")] = False,
    exposure: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER", help="Factor on all light; by default it suits the picture, and is 1 for light."
        ),
    ] = None,
    backend: Annotated[str, typer.Option(metavar="cnf|mitsuba", help="Who renders; mitsuba is an extra.")] = "cnf",
    samples: Annotated[
        int | None, typer.Option(min=1, max=2**20, help="Per pixel, of mitsuba only (256); cnf needs none.")
    ] = None,
    shape: Annotated[
        Path | None, typer.Option(help="A mesh instead of the sphere, .ply, .obj or .stl, y up; mitsuba only.")
    ] = None,
) -> None:
    """A sphere of a material, or of a fit, under an environment map."""
    from cnf.files import check_writable
    from cnf.materials.rendering.radiance_files import save_radiance
    from cnf.materials.rendering.tone import exposure_for, tone_map
    from cnf.materials.report.pictures import save_picture

    if backend not in ("cnf", "mitsuba"):
        raise CnfError(f"--backend is cnf or mitsuba; got {backend!r}")
    if samples is not None and backend == "cnf":
        raise CnfError("--samples is of --backend mitsuba; the renderer of cnf has no noise")
    if shape is not None and backend == "cnf":
        raise CnfError("--shape is of --backend mitsuba; the renderer of cnf shows a sphere")
    if exposure is not None and not (math.isfinite(exposure) and exposure > 0):
        raise CnfError(f"--exposure is a positive number; got {exposure:g}")
    shown = options.open_source(source, name)
    light = options.open_light(env)
    target = check_picture(out if out is not None else Path(f"{shown.name}.png"))
    check_writable(target)
    mask: Tensor | None
    if backend == "cnf":
        from cnf.materials.rendering.sphere import prepare_scene

        scene = prepare_scene(light, size)
        radiance, mask = scene.render(shown, shown.valid, "environment" if background else "black"), scene.mask
    else:
        from cnf.materials.rendering.mitsuba_backend import render_with_mitsuba

        given = Path(source) if source.lower().endswith(".bsdf") else shown  # the file itself, if it has one
        radiance = render_with_mitsuba(given, light, size, samples or 256, background, shape=shape).clamp_min(0)
        mask = cover_sphere(size) if shape is None else None
    if target.suffix.lower() in LINEAR:
        chosen = 1.0 if exposure is None else exposure
        save_radiance(radiance * chosen, target)
    else:
        chosen = exposure_for(radiance, mask) if exposure is None else exposure
        save_picture(tone_map(radiance, chosen), target)
    say(f"{shown.label} under {light.name}, exposure {chosen:.4g}: {target}")


def check_picture(path: Path) -> Path:
    if path.suffix.lower() not in (*PICTURES, *LINEAR):
        raise CnfError(f"a picture is written as .png, its light as .exr or .hdr; got {str(path)!r}")
    return path


def cover_sphere(size: int) -> Tensor:
    """(size, size) bool: pixels on the sphere."""
    import torch

    from cnf.materials.rendering.sphere import FILL

    place = (torch.arange(size, dtype=torch.float64) + 0.5) / size * 2 - 1
    return torch.hypot(place[:, None], place[None, :]) < FILL - 2 / size


@material.command()
def inspect(
    source: SourceArgument,
    name: options.Name = None,
    env: options.Env = None,
    size: options.Size = INSPECTED_SIZE,
    threads: options.Threads = None,
    as_json: Annotated[bool, typer.Option("--json", help="All numbers, as JSON and nothing else.")] = False,
) -> None:
    """What physics says of a material; of a fit also how exact it is, and how far off in the highlight.

    Reciprocity (light and eye swapped), albedo (light out over light in, which must not be above 1), a jump at the
    mirror direction, values below zero. A fit is compared with what it was made from, if that is still there.
    """
    from cnf.materials.fitting.folders import load_fit
    from cnf.materials.reflectance.physics import measure_physics
    from cnf.materials.report.inspection import describe_physics

    options.set_threads(threads)
    if options.is_folder(source):
        if name is not None:
            raise CnfError(f"--name chooses from an archive; {source} is the folder of one fit")
        inspect_kept(load_fit(source), env, size, as_json)
        return
    found = measure_physics(options.open_material(source, name))
    say(json.dumps(found.to_dict(), indent=2) if as_json else describe_physics([(found.label, found)]))


def inspect_kept(kept: KeptFit, env: Path | None, size: int, as_json: bool) -> None:
    """Conditions, physics and, with the reference at hand, errors in the highlight."""
    from dataclasses import asdict

    from cnf.materials.fitting.fitted import as_material
    from cnf.materials.fitting.folders import check_conditions
    from cnf.materials.fitting.measuring import inspect_fit, point_errors
    from cnf.materials.rendering.stage import Stage
    from cnf.materials.report.inspection import describe_facing, describe_linear, describe_lobe, describe_physics

    reference = open_reference(kept)
    fitted = as_material(kept.fit, reference=reference)
    check, found = check_conditions(kept.fit), inspect_fit(fitted, reference)
    seen = points = None
    if reference is not None:
        stage = Stage.of(reference, options.open_light(env), size)
        seen = stage.view(fitted)
        points = point_errors(fitted, reference, seen, Stage.facing(reference, size).view(fitted))
    if as_json:
        numbers: dict[str, object] = {
            "conditions": {"worst_relative_error": check.worst, "worst_relative_residual": check.residual}
        }
        numbers |= found.to_dict() | {"points": None if points is None else asdict(points)}
        say(json.dumps(numbers, indent=2))
        return
    say(
        f"{fitted.label}: {len(check.angles)} conditions, asked for as any direction is: relative error of reflectance "
        f"{check.worst:.1e}, of log(1 + f) {check.residual:.1e}\n"
    )
    columns = [] if found.reference is None else [("reference", found.reference)]
    say(describe_physics([*columns, ("fit", found.fitted)]))
    if reference is None:
        say(f"\n{kept.source.path} cannot be read any more, so there is nothing to compare the fit with")
        return
    assert found.lobe is not None and seen is not None and points is not None
    say(f"\n{describe_lobe(found.lobe)}\nrendered: PSNR {seen.errors.psnr:.2f} dB, SSIM {seen.errors.ssim:.4f}")
    say(f"{describe_linear(seen.linear)}\n{describe_facing(points)}")


def open_reference(kept: KeptFit) -> Material | None:
    """What a fit was made from; None if it is not there any more."""
    try:
        return options.open_material(kept.source.path, kept.source.name)
    except CnfError:
        return None
