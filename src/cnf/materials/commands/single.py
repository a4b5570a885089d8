"""`cnf material fit`: a measured material as a compact model with exact measurements; the other commands join here."""

from __future__ import annotations

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


@material.command()
def fit(
    file: File,
    out: Annotated[Path, typer.Option("--out", help="Folder for the model, its numbers and pictures.")],
    name: options.Name = None,
    basis: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"The method: {options.ALL_METHODS}. By default kernel-grid, kernel-siren for scattered measurements.",
        ),
    ] = None,
    quick: options.Quick = False,
    samples: options.Samples = None,
    epochs: options.Epochs = None,
    batch: options.Batch = None,
    conditions: options.Conditions = None,
    parameters: options.Parameters = None,
    placement: options.Placement = None,
    on_nodes: options.OnNodes = None,
    sampling: options.Sampling = None,
    loss: options.Loss = None,
    reciprocity: options.Reciprocity = None,
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
    from cnf.materials.fitting.fit import suit_method
    from cnf.materials.fitting.folders import Source
    from cnf.materials.fitting.methods import find_method
    from cnf.materials.rendering.stage import Stage

    if basis is not None:
        find_method(basis)
    settings = options.choose_settings(quick, **options.pick_budget(locals()))
    options.set_threads(threads)
    given = options.open_material(file, name)
    stage = Stage.of(given, options.open_light(env), size)
    check_target(out)
    fit_and_write(stage, basis or suit_method(given), settings, out, Source(file, name), picture)


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
    chosen = find_method(method)
    visits = "" if chosen.solved else f" x {settings.epochs}"
    say(f"{given.label}, by {chosen.title}, up to {settings.samples} samples{visits}\n")
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
    from cnf.materials.fitting.measuring import held_out_error, inspect_fit, time_inference
    from cnf.materials.reflectance.reading import is_generated
    from cnf.materials.report.inspection import describe_inspection, describe_linear

    fitted = as_material(made, reference=stage.reference)
    folder, done = (out, "written in") if isinstance(out, Path) else (out.target, "will be in")
    try:
        seen = stage.view(fitted)
        image, errors = seen.image, seen.errors
        numbers = {"psnr": errors.psnr, "ssim": errors.ssim, "rmse": errors.rmse}
        numbers["log_error"] = held_out_error(fitted, stage.reference)
        numbers["inference_seconds_per_million"] = time_inference(fitted)
        inspection = inspect_fit(fitted, stage.reference, seen.linear)
    except (KeyboardInterrupt, CnfError):
        if isinstance(out, Path):  # the training is not lost with what was to be said about it
            save_fit(made, out, source, {})
            say(f"the fit is in {folder}, without pictures and errors")
        raise
    check = check_conditions(made)
    worst = check.worst
    what = "given values" if is_generated(source.path) else "measurements"
    if made.certificate is not None:
        say(f"\n{made.certificate}")
        verdict = "exact" if made.certificate.exact and check.within(made.certificate.tolerance) else "NOT exact"
        say(
            f"\nthe {len(made.conditions)} {what} are {verdict}, asked for as any direction is: relative error of "
            f"reflectance {worst:.1e}, of log(1 + f) {check.residual:.1e}"
        )
    else:
        say(f"\nno conditions: at the {len(made.conditions)} {what} reflectance differs by up to {worst:.1e}")
    say(
        f"rendered, against {stage.reference.standing.lower()}: PSNR {errors.psnr:.2f} dB, SSIM {errors.ssim:.4f}; "
        f"mean error of log(1 + f) "
        f"{numbers['log_error']:.2e}; {numbers['inference_seconds_per_million']:.2f} s for a million evaluations"
    )
    say(f"{describe_linear(seen.linear)}\n{describe_inspection(inspection)}")
    with publish(out, "fit", PICTURES) as results:
        written = save_fit(made, results, source, numbers, inspection)
        if picture:
            written += draw_fit(made, stage, image, errors, results.folder)
    names = [path.name for path in written] + (["run.json"] if isinstance(out, Path) else [])
    say(f"\n{done} {folder}: {', '.join(names)}")
    if made.course.stopped == "interrupted":
        say(f"the training was interrupted soon after step {made.course.step[-1] + 1}; this is what was reached")
        raise KeyboardInterrupt
    if made.certificate is None:
        return
    if not made.certificate.exact:
        raise CnfError(f"the fit was written, but its conditions do not hold: {made.certificate.advice()}")
    if not check.within(made.certificate.tolerance):
        raise CnfError(
            f"the fit was written, but queries miss its conditions by {check.residual:.1e}, more than its certificate "
            f"says ({made.certificate.worst:.1e})"
        )


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
