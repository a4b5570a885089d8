"""`python -m studies compare-materials`: methods on a few materials, side by side as in the paper's figure."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from cnf.errors import CnfError, CnfWarning
from cnf.materials.commands import options
from cnf.materials.commands.single import File, train_with_display
from cnf.materials.fitting.folders import KeptFit, load_fit
from cnf.materials.reflectance import Material
from cnf.materials.rendering.metrics import ImageErrors
from cnf.materials.rendering.stage import Stage
from cnf.materials.report import lobes
from cnf.materials.report.curves import draw_learning_curves
from cnf.materials.report.pictures import Panel, draw_comparison
from cnf.reports.plots import check_pictures
from cnf.reports.results import check_target, publish
from cnf.reports.terminal import Seed, say, split_words
from studies.materials import results as reports
from studies.materials.cases import PAPER_METHODS, choose_methods
from studies.materials.comparing import Compared, Comparison
from studies.materials.subjects import Subject
from studies.materials.tables import study_text

MOST = 6  # materials of one comparison; more are a study


def compare(
    file: File,
    out: Annotated[Path, typer.Option("--out", help="Folder for fits, tables and pictures.")],
    name: Annotated[
        list[str] | None, typer.Option("--name", help="Which material of an archive; repeat for several rows.")
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help=f"From {options.ALL_METHODS}, with commas; default: the paper's five, none if --fits is given.",
        ),
    ] = None,
    fits: Annotated[
        list[str] | None, typer.Option(metavar="FOLDERS", help="Folders of cnf material fit to show as well.")
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
    size: options.Size = 256,
) -> None:
    """Several methods on a few materials, side by side.

    Fits a material by each and shows them beside it, with maps of their errors.

    Finished fits are kept in the folder and not made again with the same settings: after Ctrl-C, the same command goes
    on.
    """
    folders = [Path(word) for word in split_words(fits)]
    ways = choose_methods(methods, () if folders else PAPER_METHODS)
    settings = options.choose_settings(quick, **options.pick_budget(locals()))
    options.set_threads(threads)
    given = open_all(file, list(dict.fromkeys(name or [])))
    if folders and len(given) > 1:
        raise CnfError(f"--fits are of one material; {len(given)} were named")
    kept = [(folder, load_fit(folder)) for folder in folders]
    environment = options.open_light(env)
    check_target(out)
    check_pictures()
    found: list[tuple[Comparison, list[Compared]]] = []
    try:
        for subject, one in given:
            say(f"{one.label}")
            comparison = Comparison(subject, Stage.of(one, environment, size), settings, out)
            found.append((comparison, []))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CnfWarning)  # residuals are in the table
                run_methods(comparison, ways, kept, found[-1][1])
    except KeyboardInterrupt:
        say("interrupted; finished fits are kept, the same command goes on")
        raise
    report(found, out)


def open_all(file: str, names: Sequence[str | None]) -> list[tuple[Subject, Material]]:
    """Every material that was named, as a subject and read."""
    if len(names) > MOST:
        raise CnfError(
            f"a comparison shows at most {MOST} materials, {len(names)} were named; more are a study: "
            "python -m studies materials"
        )
    read = [(name, options.open_material(file, name)) for name in names or (None,)]
    group = read[0][1].label if len(read) == 1 else "Materials"
    return [(Subject(file, name, group), one) for name, one in read]


def run_methods(
    comparison: Comparison, methods: Sequence[str], kept: Sequence[tuple[Path, KeptFit]], results: list[Compared]
) -> None:
    """Every method into `results`: from an earlier run, or fitted now; then the fits that were made elsewhere."""
    for method in methods:
        known = comparison.find(method)
        if known is not None:
            say(f"  {method:<16} from an earlier run")
        results.append(
            known
            or comparison.run(
                method, lambda name: train_with_display(comparison.stage.reference, name, comparison.settings)
            )
        )
    for folder, one in kept:
        if one.fit.label != comparison.stage.reference.label:
            say(f"note: {folder} is a fit of {one.fit.label}")
        taken = [result.case.method for result in results]
        results.append(comparison.show_kept(one, folder, taken))
        if results[-1].case.method in taken:
            raise CnfError(f"two of the --fits are called {folder.resolve().name} and have one method; rename a folder")


def report(found: Sequence[tuple[Comparison, list[Compared]]], folder: Path) -> None:
    """Print the table; write it, the figure, slices of the reflectance and learning curves, all or none of them."""
    cases = [result.case for _, results in found for result in results]
    champion = reports.choose_champion(list(dict.fromkeys(case.method for case in cases)))
    say(f"\n{study_text(cases)}")
    with publish(folder, "comparison") as kept:
        place = kept.folder
        standings = dict.fromkeys(c.stage.reference.standing for c, _ in found)
        notes = [f"errors of pictures are against: {', '.join(standings).lower()}", f"run {kept.run.identifier}"]
        made = reports.write_study(cases, place, champion, notes)
        rows = []
        for comparison, own in found:
            given, name = comparison.stage.reference, comparison.name
            panels = [Panel(given.standing, comparison.stage.image)]
            panels += [Panel(r.title, r.image, ImageErrors(r.case.rmse, r.case.psnr, r.case.ssim)) for r in own]
            rows.append((given.label, panels))
            curves = [(given.standing, given), *((r.title, r.material) for r in own)]
            made.append(lobes.draw_lobes(curves, place / f"lobes_{name}.png", given.label))
            learning = reports.mean_curves([r.case for r in own])
            if learning:
                made.append(draw_learning_curves(learning, place / f"curves_{name}.png", given.label))
        made.append(draw_comparison(rows, place / "comparison.png"))
    say(f"\nwritten in {folder}: {', '.join(path.name for path in made)}, run.json")
