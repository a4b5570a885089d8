"""`cnf material`: fit a measured material, render it, write it for other renderers, look into files of materials."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cnf.errors import CnfError, CnfWarning
from cnf.materials.commands import options
from cnf.reports.results import Results, check_target, publish
from cnf.reports.terminal import Seed, open_console, say

if TYPE_CHECKING:
    from torch import Tensor

    from cnf.materials.fitting.fit import Fit, Settings
    from cnf.materials.fitting.folders import Source
    from cnf.materials.reflectance import Material
    from cnf.materials.rendering.stage import Stage
    from cnf.reports.progress import Part

material = typer.Typer(help="Fit, render and export measured materials.", no_args_is_help=True, rich_markup_mode=None)

File = Annotated[str, typer.Argument(metavar="FILE", help=f"The material: {options.FILES}.")]
SourceArgument = Annotated[
    str, typer.Argument(metavar="SOURCE", help=f"A folder of cnf material fit, or a material: {options.FILES}.")
]
PICTURE_SIZE = 256
COMPARED = 20_000  # directions at which an exported file is compared with its source


@material.command()
def fit(
    file: File,
    out: Annotated[Path, typer.Option("--out", help="Folder for the model, its numbers and pictures.")],
    name: options.Name = None,
    basis: Annotated[str, typer.Option(metavar="NAME", help=f"The method: {options.ALL_METHODS}.")] = "kernel-siren",
    quick: options.Quick = False,
    samples: options.Samples = None,
    epochs: options.Epochs = None,
    batch: options.Batch = None,
    conditions: options.Conditions = None,
    parameters: options.Parameters = None,
    placement: options.Placement = None,
    sampling: options.Sampling = None,
    loss: options.Loss = None,
    rate: options.Rate = None,
    precision: options.Precision = None,
    seed: Seed = 0,
    threads: options.Threads = None,
    env: options.Env = None,
    size: options.Size = PICTURE_SIZE,
    picture: Annotated[bool, typer.Option("--picture/--no-picture", help="render.png, lobes.png, curve.png.")] = True,
) -> None:
    """A compact model of a material that reproduces 100 of its measurements exactly.

    Writes model.pt, fit.json, course.csv, conditions.csv (each measurement and what the model makes of it),
    certificate.txt (of methods with conditions) and pictures. Ctrl-C ends the training and writes what was reached.
    """
    from cnf.materials.fitting.folders import Source
    from cnf.materials.fitting.methods import find_method
    from cnf.materials.rendering.stage import Stage

    find_method(basis)
    settings = options.choose_settings(quick, **options.pick_budget(locals()))
    options.set_threads(threads)
    given = options.open_material(file, name)
    stage = Stage.of(given, options.open_light(env), size)
    check_target(out)
    fit_and_write(stage, basis, settings, out, Source(file, name), picture)


def fit_and_write(
    stage: Stage, method: str, settings: Settings, out: Path | Results, source: Source, picture: bool = True
) -> None:
    """Fit the material on the stage, show and write what came out; a fit that is there is not lost to half a one."""
    from cnf.materials.fitting.folders import is_fit
    from cnf.materials.fitting.methods import find_method
    from cnf.materials.rendering.metrics import image_errors
    from cnf.reports.plots import check_pictures

    image_errors(stage.image, stage.image, stage.scene.mask)  # if a package is missing, now is the time to say so
    if picture:
        check_pictures()
    given = stage.reference
    say(f"{given.label}, by {find_method(method).title}, up to {settings.samples} samples x {settings.epochs}\n")
    made = train_with_display(given, method, settings)
    if not made.course.step:
        raise KeyboardInterrupt  # before the first step: there is nothing to keep
    if made.course.stopped == "interrupted" and isinstance(out, Path) and is_fit(out):
        say(f"\n{out} holds a fit already, which is kept; what was reached goes to {out / 'interrupted'}")
        out = out / "interrupted"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)  # the certificate says the same
        finish_fit(made, stage, out, source, picture)


def train_with_display(given: Material, method: str, settings: Settings) -> Fit:
    """Train while a bar shows how far it is, the loss, and the worst residual of the conditions."""
    from cnf.materials.fitting.fit import fit_material
    from cnf.reports.progress import part

    with part(open_console(), method, settings.epochs) as shown:

        def tell(step: int, steps: int, loss: float, residual: float | None) -> None:
            show_step(shown, step, steps, loss, residual)

        made = fit_material(given, method, settings, tell)
        shown.result = f"{made.parameters} parameters"
        if made.course.loss:
            shown.result += f", {made.course.step[-1] + 1} steps, loss {made.course.loss[-1]:.2e}"
        if made.certificate is not None:
            shown.result += f", worst residual {made.certificate.worst:.1e}"
    return made


def show_step(shown: Part, step: int, steps: int, loss: float, residual: float | None) -> None:
    if shown.bar is None:
        return
    detail = f"step {step + 1} of {steps}, loss {loss:.2e}"
    detail += "" if residual is None else f", worst residual {residual:.0e}"
    shown.bar.update(shown.task, total=steps, completed=step + 1, detail=detail)  # type: ignore[arg-type]


def finish_fit(made: Fit, stage: Stage, out: Path | Results, source: Source, picture: bool) -> None:
    """Measure, tell and write a fit; then say how it ended."""
    from cnf.materials.fitting.fitted import as_material
    from cnf.materials.fitting.folders import PICTURES, check_conditions, save_fit
    from cnf.materials.fitting.measuring import held_out_error, time_inference
    from cnf.materials.reflectance.reading import is_generated

    fitted = as_material(made, reference=stage.reference)
    folder, done = (out, "written in") if isinstance(out, Path) else (out.target, "will be in")
    try:
        image, errors = stage.show(fitted)
        numbers = {"psnr": errors.psnr, "ssim": errors.ssim, "rmse": errors.rmse}
        numbers["log_error"] = held_out_error(fitted, stage.reference)
        numbers["inference_seconds_per_million"] = time_inference(fitted)
    except (KeyboardInterrupt, CnfError):
        if isinstance(out, Path):  # the training is not lost with what was to be said about it
            save_fit(made, out, source, {})
            say(f"the fit is in {folder}, without pictures and errors")
        raise
    worst = check_conditions(made).worst
    what = "given values" if is_generated(source.path) else "measurements"
    if made.certificate is not None:
        say(f"\n{made.certificate}")
        verdict = "exact" if made.certificate.exact else "NOT exact"
        say(f"\nthe {len(made.conditions)} {what} are {verdict}: relative error of reflectance {worst:.1e}")
    else:
        say(f"\nno conditions: at the {len(made.conditions)} {what} reflectance differs by up to {worst:.1e}")
    say(
        f"rendered, against {stage.reference.standing.lower()}: PSNR {errors.psnr:.2f} dB, SSIM {errors.ssim:.4f}; "
        f"mean error of log(1 + f) "
        f"{numbers['log_error']:.2e}; {numbers['inference_seconds_per_million']:.2f} s for a million evaluations"
    )
    with publish(out, "fit", PICTURES) as results:
        written = save_fit(made, results, source, numbers)
        if picture:
            written += draw_fit(made, stage, image, errors, results.folder)
    names = [path.name for path in written] + (["run.json"] if isinstance(out, Path) else [])
    say(f"\n{done} {folder}: {', '.join(names)}")
    if made.course.stopped == "interrupted":
        say(f"the training was interrupted soon after step {made.course.step[-1] + 1}; this is what was reached")
        raise KeyboardInterrupt
    if made.certificate is not None and not made.certificate.exact:
        raise CnfError(f"the fit was written, but its conditions do not hold: {made.certificate.advice()}")


def draw_fit(made: Fit, stage: Stage, image: Tensor, errors: object, folder: Path) -> list[Path]:
    """What was given, fit and error map; slices of the reflectance; the loss."""
    from cnf.materials.fitting.fitted import as_material
    from cnf.materials.report.curves import draw_learning_curves
    from cnf.materials.report.lobes import draw_lobes
    from cnf.materials.report.pictures import Panel, draw_comparison

    title, course = made.method.title, made.course
    standing = stage.reference.standing
    panels = [Panel(standing, stage.image), Panel(title, image, errors)]  # type: ignore[arg-type]
    curves = [(standing, stage.reference), (title, as_material(made, reference=stage.reference))]
    made_here = [
        draw_comparison([(made.label, panels)], folder / "render.png"),
        draw_lobes(curves, folder / "lobes.png", made.label),
    ]
    if any(loss > 0 for loss in course.loss):  # a logarithmic scale has no zero
        entries = {made.method.name: (course.step, course.loss, course.seconds)}
        made_here.append(draw_learning_curves(entries, folder / "curve.png", made.label))
    return made_here


@material.command()
def render(
    source: SourceArgument,
    name: options.Name = None,
    env: options.Env = None,
    size: options.Size = 512,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The picture; default NAME.png.")] = None,
    background: Annotated[bool, typer.Option("--background", help="Show the environment around the sphere.")] = False,
    exposure: Annotated[
        float | None, typer.Option(metavar="NUMBER", help="Factor on all light; by default it suits the picture.")
    ] = None,
    backend: Annotated[str, typer.Option(metavar="cnf|mitsuba", help="Who renders; mitsuba is an extra.")] = "cnf",
    samples: Annotated[
        int | None, typer.Option(min=1, max=2**20, help="Per pixel, of mitsuba only (256); cnf needs none.")
    ] = None,
) -> None:
    """A sphere of a material, or of a fit, under an environment map, as PNG."""
    from cnf.files import check_writable
    from cnf.materials.rendering.tone import exposure_for, tone_map
    from cnf.materials.report.pictures import save_picture

    if backend not in ("cnf", "mitsuba"):
        raise CnfError(f"--backend is cnf or mitsuba; got {backend!r}")
    if samples is not None and backend == "cnf":
        raise CnfError("--samples is of --backend mitsuba; the renderer of cnf has no noise")
    if exposure is not None and not (math.isfinite(exposure) and exposure > 0):
        raise CnfError(f"--exposure is a positive number; got {exposure:g}")
    shown = options.open_source(source, name)
    light = options.open_light(env)
    target = check_picture(out if out is not None else Path(f"{shown.name}.png"))
    check_writable(target)
    if backend == "cnf":
        from cnf.materials.rendering.sphere import prepare_scene

        scene = prepare_scene(light, size)
        radiance, mask = scene.render(shown, shown.valid, "environment" if background else "black"), scene.mask
    else:
        from cnf.materials.rendering.mitsuba_backend import render_with_mitsuba

        given = Path(source) if source.lower().endswith(".bsdf") else shown  # the file itself, if it has one
        radiance = render_with_mitsuba(given, light, size, samples or 256, background).clamp_min(0)
        mask = cover_sphere(size)
    chosen = exposure_for(radiance, mask) if exposure is None else exposure
    save_picture(tone_map(radiance, chosen), target)
    say(f"{shown.label} under {light.name}, exposure {chosen:.4g}: {target}")


def check_picture(path: Path) -> Path:
    if path.suffix.lower() != ".png":
        raise CnfError(f"a picture is written as .png; got {str(path)!r}")
    return path


def cover_sphere(size: int) -> Tensor:
    """(size, size) bool: pixels on the sphere."""
    import torch

    from cnf.materials.rendering.sphere import FILL

    place = (torch.arange(size, dtype=torch.float64) + 0.5) / size * 2 - 1
    return torch.hypot(place[:, None], place[None, :]) < FILL - 2 / size


@material.command()
def export(
    source: SourceArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file: .binary (MERL) or .bsdf (RGL, Mitsuba).")],
    name: options.Name = None,
    convention: Annotated[
        str | None,
        typer.Option(metavar="nodes|centers", help="Where a reader of .binary puts the samples of the table (nodes)."),
    ] = None,
) -> None:
    """A material or a fit as a table that other renderers read; says how far the table is from it.

    A table interpolates: it has the model's values at its nodes, and conditions of a fit hold in the model only.
    """
    import torch

    from cnf.files import check_writable
    from cnf.materials.reflectance.merl import check_convention, read_merl, tabulate, write_merl
    from cnf.materials.reflectance.rgl import read_rgl
    from cnf.materials.reflectance.rgl_writing import write_rgl

    ending = out.suffix.lower()
    if ending not in (".binary", ".bsdf"):
        raise CnfError(f"a material is exported as .binary (MERL) or .bsdf (RGL); got {str(out)!r}")
    if ending == ".bsdf" and convention is not None:
        raise CnfError("--convention is of .binary files; .bsdf files say where their samples are")
    grid = check_convention(convention or "nodes")
    shown = options.open_source(source, name, exact=True)
    if out.exists() and Path(source).exists() and out.samefile(source):
        raise CnfError(f"{out} is the input itself; give the file another name")
    check_writable(out)
    if ending == ".binary":
        write_merl(out, tabulate(shown, grid, dtype=torch.float64))
        written: Material = read_merl(out, grid)
    else:
        written = read_rgl(write_rgl(out, shown))
    say(f"{shown.label}: {out} ({out.stat().st_size} bytes)")
    say(compare_export(shown, written))


def compare_export(shown: Material, written: Material) -> str:
    """How far the file is from what it was made of, at random directions."""
    from cnf.materials.fitting.sampling import draw_samples
    from cnf.materials.reflectance.angles import decode
    from cnf.materials.reflectance.merl import Table

    samples = draw_samples(shown, COMPARED, seed=1)
    angles = decode(samples.points)
    known = written.valid(angles)
    first = known & (angles[:, 2] < math.pi)
    if not bool(first.any()):
        return "the file knows none of the directions looked at"
    error = (written(angles).double().log1p() - samples.logs).abs()
    text = (
        f"table against model, |difference of log(1 + f)| at {int(first.sum())} directions, half of them near the "
        f"highlight: mean {float(error[first].mean()):.1e}, largest {float(error[first].max()):.1e}"
    )
    other = known & ~first
    if isinstance(written, Table) and bool(other.any()):  # stored for half of phi_d only
        text += (
            f"; where light and eye change places, which such a table takes for equal: mean "
            f"{float(error[other].mean()):.1e}, largest {float(error[other].max()):.1e}"
        )
    return text


@material.command(hidden=True, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def compare() -> None:
    """Several methods side by side: now python -m studies compare-materials, in a checkout."""
    raise CnfError("this is now python -m studies compare-materials, in a checkout; its options are the same")


@material.command("list")
def list_names(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file of one or many materials.")],
) -> None:
    """Names of the materials in a file, one per line."""
    from cnf.materials.reflectance import list_materials

    say("\n".join(list_materials(file)))


@material.command()
def check(path: Annotated[Path, typer.Argument(help="A .binary file of MERL, or a folder of them.")]) -> None:
    """Whether MERL's files are whole and unchanged, by their published sizes and SHA-256.

    The exit code is 1 if a file is changed or of wrong size.
    """
    from cnf.materials.reflectance.checksums import check_merl

    found = check_merl(path)
    width = max(len(checked.name) for checked in found)
    for checked in found:
        say(f"{checked.name:<{width}}  {checked.status:<10}  {checked.message}")
    bad = sum(checked.status in ("changed", "wrong size") for checked in found)
    if bad:
        raise CnfError(f"{bad} of {len(found)} files changed or of wrong size; see the lines above")
