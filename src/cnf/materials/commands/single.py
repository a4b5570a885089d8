"""`cnf material fit`: a measured material as a compact model with exact measurements; the other commands join here."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cnf.errors import CnfError, CnfWarning
from cnf.materials.commands import options
from cnf.reports.results import Results, check_target
from cnf.reports.terminal import Scheduler, Seed, Workers, choose_workers, open_console, say

if TYPE_CHECKING:
    from cnf.materials.fitting.fit import Fit, Settings
    from cnf.materials.fitting.folders import Source
    from cnf.materials.reflectance import Material
    from cnf.materials.rendering.stage import Stage
    from cnf.reports.progress import Part

material = typer.Typer(help="Fit, render and export measured materials.", no_args_is_help=True, rich_markup_mode=None)

File = Annotated[str, typer.Argument(metavar="FILE", help=f"The material: {options.FILES}.")]
Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...", help=f"The material: {options.FILES}. Several, or a folder of them, are fitted one by one."
    ),
]
SourceArgument = Annotated[
    str, typer.Argument(metavar="SOURCE", help=f"A folder of cnf material fit, or a material: {options.FILES}.")
]
PICTURE_SIZE = 256


@material.command()
def fit(
    files: Files,
    out: Annotated[
        Path,
        typer.Option("--out", help="Folder for the model, its numbers and pictures; of several, for a folder each."),
    ],
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
    workers: Workers = 1,
    scheduler: Scheduler = None,
) -> None:
    """A compact model of a material that reproduces 100 of its measurements exactly.

    Writes model.pt, fit.json, course.csv, conditions.csv (each measurement and what the model makes of it),
    certificate.txt (of methods with conditions) and pictures. Ctrl-C ends the training and writes what was reached.
    Several materials are kept as they are finished, and the same command goes on from there.
    """
    from cnf.materials.fitting.fit import suit_method
    from cnf.materials.fitting.folders import Source
    from cnf.materials.fitting.methods import find_method
    from cnf.materials.rendering.stage import Stage

    if basis is not None:
        find_method(basis)
    settings = options.choose_settings(quick, **options.pick_budget(locals()))
    elsewhere = choose_workers(workers, scheduler)
    if len(files) > 1 or options.is_folder(files[0]):
        from cnf.materials.several.showing import show_fits

        if name is not None or threads is not None:
            raise CnfError("several materials are fitted under their own names, on a thread each: --workers")
        show_fits(files, settings, basis, out, elsewhere, env, size, picture)
        return
    if elsewhere != 1:
        raise CnfError("one material is fitted in one process; --workers and --scheduler are of several")
    (file,) = files
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
    from cnf.materials.fitting.folders import save_fit
    from cnf.materials.reflectance.reading import is_generated
    from cnf.materials.report.inspection import describe_inspection, describe_linear
    from cnf.materials.report.outcome import measure_fit, write_outcome

    folder, done = (out, "written in") if isinstance(out, Path) else (out.target, "will be in")
    try:
        outcome = measure_fit(made, stage)
    except (KeyboardInterrupt, CnfError):
        if isinstance(out, Path):  # the training is not lost with what was to be said about it
            save_fit(made, out, source, {})
            say(f"the fit is in {folder}, without pictures and errors")
        raise
    check, errors, numbers = outcome.check, outcome.seen.errors, outcome.numbers
    what = "given values" if is_generated(source.path) else "measurements"
    if made.certificate is not None:
        say(f"\n{made.certificate}")
        say(
            f"\nthe {len(made.conditions)} {what} are {'exact' if outcome.exact else 'NOT exact'}, asked for as any "
            f"direction is: relative error of reflectance {check.worst:.1e}, of log(1 + f) {check.residual:.1e}"
        )
    else:
        say(f"\nno conditions: at the {len(made.conditions)} {what} reflectance differs by up to {check.worst:.1e}")
    say(
        f"rendered, against {stage.reference.standing.lower()}: PSNR {errors.psnr:.2f} dB, SSIM {errors.ssim:.4f}; "
        f"mean error of log(1 + f) "
        f"{numbers['log_error']:.2e}; {numbers['inference_seconds_per_million']:.2f} s for a million evaluations"
    )
    say(f"{describe_linear(outcome.seen.linear)}\n{describe_inspection(outcome.inspection)}")
    written = write_outcome(outcome, out, source, picture)
    names = [path.name for path in written] + (["run.json"] if isinstance(out, Path) else [])
    say(f"\n{done} {folder}: {', '.join(names)}")
    if made.course.stopped == "interrupted":
        say(f"the training was interrupted soon after step {made.course.step[-1] + 1}; this is what was reached")
        raise KeyboardInterrupt
    if outcome.fault:
        raise CnfError(f"the fit was written, but {outcome.fault}")
