"""`python -m studies conditioning`: condition numbers of four bases while they are trained for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cnf.reports.tables import write_text
from cnf.reports.terminal import Seed, check_folder, open_console, say

if TYPE_CHECKING:
    from studies.conditioning.study import Conditioning

Out = Annotated[Path | None, typer.Option("--out", help="Folder for table, CSV and pictures; none if left out.")]


def conditioning(
    points: Annotated[int, typer.Option(help="How many points, a square number (paper: 4096).")] = 256,
    parameters: Annotated[float, typer.Option(metavar="NUMBER", help="Parameters per basis (paper: 1.3e6).")] = 1e5,
    steps: Annotated[int, typer.Option(min=1, help="Training steps.")] = 60,
    seed: Seed = 0,
    out: Out = None,
) -> None:
    """Condition number of four bases while they are trained for it.

    The default takes well under two minutes; the paper's size (--points 4096 --parameters 1.3e6) takes hours on a small
    machine, nearly all of them for the hypernet.
    """
    from cnf.reports.progress import part
    from studies.conditioning import report as reports
    from studies.conditioning.study import BASES, Progress, check_study, train_basis

    check_study(points, parameters, steps, seed)
    folder = check_folder(out) if out is not None else None
    console = open_console()
    say(f"{points} points, about {parameters:g} parameters, {steps} steps of Adam on the log condition number\n")
    results: list[Conditioning] = []
    for name in BASES:
        with part(console, name, steps) as shown:

            def tell(progress: Progress, shown=shown) -> None:
                if shown.bar is not None:
                    shown.bar.update(shown.task, advance=1, detail=f"condition {progress.condition:.1e}")

            results.append(train_basis(name, points, parameters, steps, seed, report=tell))
            shown.result = f"condition {results[-1].start:.1e} to {results[-1].end:.1e}"
    table = reports.conditioning_table(results)
    say(f"\n{table}")
    if folder is not None:
        write_text(folder / "conditioning.txt", f"{table}\n")
        reports.write_conditioning(results, folder / "conditioning.csv")
        title = f"{points} points, {parameters:g} parameters: trained for the condition number alone"
        reports.plot_conditioning(results, folder / "conditioning.png", title)
        say(f"\ntable, CSV and picture are in {folder}")
