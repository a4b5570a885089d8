"""`python -m studies materials`: every method on many materials, in parallel, with the paper's tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cnf.errors import CnfError
from cnf.materials.commands import options
from cnf.reports.terminal import Seed, check_folder, say, split_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cnf.materials.comparison.cases import Case
    from cnf.materials.comparison.stage import Light, Subject
    from cnf.materials.fitting.fit import Settings
    from studies.materials.subjects import Chosen

COUNT = 20


def materials(
    materials: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help="Names from the data, such as chrome,gold-paint; default: see --count."),
    ] = None,
    material: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORDS|FILE", help="A material of your own: ggx:gold:0.1, a file, or FILE:NAME; repeatable."
        ),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(
            min=1, max=100, help="NBRDF of MERL: the ten most specular, then others evenly spread; and RGL's four (20)."
        ),
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help=f"From {options.ALL_METHODS}, with commas; default: the paper's five."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder with brdf/nbrdf_merl100.npz; default: environment variable CNF_DATA.")
    ] = None,
    env: options.Env = None,
    size: options.Size = 128,
    quick: Annotated[
        bool,
        typer.Option("--quick/--full", help="640 steps of 1000 samples per fit, or the paper's budget: 1280 of 5000."),
    ] = True,
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
    processes: Annotated[
        int, typer.Option(min=1, max=256, help="Materials at the same time, one thread each; 1: all threads for one.")
    ] = 2,
    pictures: Annotated[
        bool, typer.Option("--pictures/--no-pictures", help="Renderings of every material beside its reference.")
    ] = True,
    out: Annotated[Path, typer.Option("--out", help="Folder for cases, tables and pictures.")] = Path(
        "results/studies/materials"
    ),
) -> None:
    """Soft and constrained models of many materials: errors of renderings, times, sizes, exactness.

    Finished fits are kept in the folder and not run again with the same settings: after Ctrl-C, the same command goes
    on. Needs measurements in CNF_DATA, or materials of your own with --material.
    """
    ways = options.choose_methods(methods)
    settings = options.choose_settings(
        quick,
        samples=samples,
        epochs=epochs,
        batch=batch,
        conditions=conditions,
        parameters=parameters,
        placement=placement,
        sampling=sampling,
        loss=loss,
        rate=rate,
        precision=precision,
        seed=seed,
    )
    chosen = choose(split_words(materials), material or [], count, data)
    light = options.choose_light(env, size)
    folder = check_folder(out)
    say(
        f"{len(chosen)} material{'s' * (len(chosen) > 1)}, {len(ways)} method{'s' * (len(ways) > 1)} of about "
        f"{settings.parameters} parameters, {settings.samples} samples x {settings.epochs}, {settings.conditions} "
        "conditions\n"
    )
    failed: list[str] = []
    try:
        run(chosen, ways, settings, light, folder, processes, failed)
    except KeyboardInterrupt:
        say("\ninterrupted; the same command goes on. What is finished:")
        report(chosen, ways, settings, light, folder, pictures=False)
        raise
    report(chosen, ways, settings, light, folder, pictures)
    if failed:
        raise CnfError(
            f"{len(failed)} of {len(chosen)} materials failed, such as {failed[0]}; the same command runs them again, "
            "with fewer --processes if memory was short"
        )


def choose(names: Sequence[str], words: Sequence[str], count: int | None, data: Path | None) -> list[Chosen]:
    """The materials of the study; data are needed unless all are given by --material."""
    from studies.materials import subjects

    if names and count is not None:
        raise CnfError("--materials names materials and --count chooses some; give one of them")
    found: list[Chosen] = []
    if names:
        found += subjects.name_subjects(subjects.find_data(data), names)
    elif count is not None or data is not None or not words:
        found += subjects.choose_subjects(subjects.find_data(data), COUNT if count is None else count)
    found += [subjects.open_subject(word)[0] for word in dict.fromkeys(words)]
    subjects.check_distinct(found)
    return found


def run(
    chosen: Sequence[Chosen],
    methods: Sequence[str],
    settings: Settings,
    light: Light,
    folder: Path,
    processes: int,
    failed: list[str],
) -> None:
    """Run what is missing, with a line for every case as its material is done."""
    from studies.materials.study import run_study
    from studies.materials.subjects import finished_cases

    labels = {one.subject: one.label for one in chosen}
    missing: list[Subject] = []
    for one in chosen:
        cases = finished_cases([one], methods, settings, light, folder)
        if len(cases) == len(methods):
            say(f"  {one.label}   (from an earlier run)")
        else:
            missing.append(one.subject)

    def tell(subject: Subject, cases: list[Case] | None, problem: str) -> None:
        if cases is None:
            failed.append(f"{labels[subject]}: {problem}")
            say(f"  {labels[subject]}   failed: {problem}")
            return
        say(f"  {labels[subject]}")
        for case in cases:
            seen = f"PSNR {case.psnr:6.2f} dB   SSIM {case.ssim:.3f}   {case.seconds:7.1f} s"
            say(
                f"    {case.method:<13} {seen}"
                + ("" if case.residual is None else f"   conditions {case.residual:.0e}")
            )

    if missing:
        run_study(missing, methods, settings, light, folder, processes=processes, report=tell)


def report(
    chosen: Sequence[Chosen], methods: Sequence[str], settings: Settings, light: Light, folder: Path, pictures: bool
) -> None:
    """Print the table and where the order breaks; write tables and pictures."""
    from cnf.materials.report import cases as conversions
    from cnf.materials.report import results as reports
    from cnf.materials.report.curves import draw_learning_curves
    from studies.materials.dots import draw_study
    from studies.materials.pages import draw_pages
    from studies.materials.subjects import finished_cases

    cases = finished_cases(chosen, methods, settings, light, folder)
    if not cases:
        say("\nno fit is finished")
        return
    results = conversions.as_results(cases)
    champion = conversions.choose_champion(methods)
    say(f"\n{reports.study_text(results)}\n")
    for line in reports.where_order_breaks(results, champion):
        say(line)
    made = reports.write_study(results, folder, champion)
    made.append(draw_study(results, folder / "study.png", champion))
    count = len({case.material for case in cases})
    title = cases[0].label if count == 1 else f"mean over {count} materials"
    made.append(draw_learning_curves(conversions.mean_curves(cases), folder / "curves.png", title))
    if pictures:
        made += draw_pages(cases, methods, folder, "pictures")
    say(f"\nwritten in {folder}: {', '.join(path.name for path in made)}")
