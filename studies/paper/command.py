"""`python -m studies paper`: every study of the paper in one go, and the page that shows it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from cnf.errors import CnfError
from cnf.files import write_text
from cnf.reports.terminal import say, split_words
from studies.options import Names, check_folder
from studies.paper.collecting import collect_folder, gather_kept, keep_records
from studies.paper.figures import draw_from_folder, draw_from_rows
from studies.paper.jobs import JOBS, Job, choose_jobs
from studies.paper.page import REPOSITORY, Place, build_page, read_all
from studies.paper.records import settle_settings
from studies.paper.running import Clock, Task, plan_tasks, run_tasks, say_time, time_of

JOB_NAMES = ", ".join(job.name for job in JOBS)
Only = Annotated[Names, typer.Option("--only", metavar="NAMES", help=f"From {JOB_NAMES}, with commas; default: all.")]
Quick = Annotated[bool, typer.Option("--quick", help="A look of about ten minutes; its page goes into --out.")]
Missing = Annotated[
    bool, typer.Option("--missing", help="Rows of the repository count as finished: run only what has none.")
]
PageOnly = Annotated[bool, typer.Option("--page", help="Run nothing: write page and curves from the rows there are.")]
RowsFrom = Annotated[
    list[Path] | None,
    typer.Option(
        "--rows-from", metavar="FOLDER", help="Run nothing: take over what a study finished in its --out; repeatable."
    ),
]
Workers = Annotated[int, typer.Option("--workers", min=1, max=256, help="Cases at the same time, one process each.")]
Pictures = Annotated[bool, typer.Option("--pictures/--no-pictures", help="Draw pictures.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", help="Folder of the studies' folders; default results/studies, or results/paper-quick."),
]


def paper(
    only: Only = None,
    quick: Quick = False,
    missing: Missing = False,
    page: PageOnly = False,
    rows_from: RowsFrom = None,
    workers: Workers = 1,
    pictures: Pictures = True,
    out: Out = None,
) -> None:
    """All of the paper's experiments, and one page about them.

    Runs every study at the paper's sizes (many hours; --quick: ten minutes) and writes docs/reproduction.md from their
    rows. Finished cases are kept in results/studies/NAME, where the studies themselves look for them: after Ctrl-C, the
    same command goes on. Surfaces and materials need data, see docs/studies.md.
    """
    if sum((quick, page, bool(rows_from))) > 1 or (page and missing):
        raise CnfError("--quick, --page and --rows-from exclude each other; give one of them")
    jobs = choose_jobs(split_words(only))
    folder = check_folder(out or Path("results/paper-quick" if quick else "results/studies"))
    place = Place(folder / "rows", folder / "reproduction.md", folder / "images") if quick else REPOSITORY
    command = "python -m studies paper" + (" --quick" if quick else "")
    report = Report(place, pictures, command)
    for source in rows_from or []:
        for job in collect_folder(source, place.rows, jobs):
            say(f"{job.name}: rows of {source}")
            report.draw(job, source)
    if page or rows_from:
        report.write()
        return
    run_jobs(jobs, folder, workers, quick, missing, report)


@dataclass(frozen=True)
class Report:
    """Where the page goes, and how it is made."""

    place: Place
    pictures: bool
    command: str

    def draw(self, job: Job, folder: Path) -> None:
        """The pictures that need the folder of a run."""
        if self.pictures:
            for sentence in draw_from_folder(job.name, folder, self.place.images):
                say(f"  {sentence}")

    def write(self) -> Path:
        """Pictures that rows are enough for, and the page."""
        if self.pictures:
            for sentence in draw_from_rows(read_all(self.place.rows), self.place.images):
                say(f"  {sentence}")
        made = write_text(self.place.page, build_page(self.place, self.command))
        say(f"\nwritten: {made}")
        return made


def run_jobs(jobs: list[Job], folder: Path, workers: int, quick: bool, missing: bool, report: Report) -> None:
    """Run what is missing of all jobs, and write the page of what is there, also after Ctrl-C."""
    started, left_out = time.monotonic(), dict[str, str]()
    tasks = plan_tasks(jobs, folder, report.place.rows, quick, missing, left_out)
    for name, reason in left_out.items():
        say(f"left out: {name}: {reason}")
    many = sum(len(task.missing) for task in tasks)
    there = sum(len(task.names) for task in tasks) - many
    expected = f"; {say_time(Clock(tasks, workers).left(tasks))}" if many else ""
    say(f"{many} case{'s' * (many != 1)} to run, {there} finished{expected}")

    def collect(task: Task) -> None:
        found = gather_kept(task.job, task.folder)
        if found is not None and found.settings == settle_settings(task.study.settings()):
            whole = not task.missing and not task.failed
            try:
                keep_records(task.job, found, report.place.rows, anew=whole and not missing)
            except CnfError as error:  # of a run that is not whole: its cases are kept in its folder
                say(f"  {error}")
                return
            if not task.missing:  # after Ctrl-C nobody wants to wait for pictures
                report.draw(task.job, task.folder)

    try:
        run_tasks(tasks, workers, collect)
    except KeyboardInterrupt:
        say("\ninterrupted; the same command goes on. The page of what is finished:")
        report.write()
        raise
    report.write()
    say(f"after {time_of(started)}")
    failed = [line for task in tasks for line in task.failed]
    for line in failed:
        say(f"failed: {line}")
    if failed:
        raise CnfError(f"{len(failed)} of {many} cases failed, such as {failed[0]}; the same command runs them again")
