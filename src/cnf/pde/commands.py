"""`cnf solve`, `cnf check`, `cnf new` and `cnf read`: problem files and equations from the command line."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cnf.errors import CnfError, CnfWarning, FileError, LatexError, nearest
from cnf.late import whole_imports
from cnf.reports.terminal import Scheduler, Workers, choose_workers, open_console, say
from cnf.telling import listening

if TYPE_CHECKING:
    from cnf.pde.problems import Answer, Problem
    from cnf.reports.results import Results

File = Annotated[Path, typer.Argument(help="A problem file (TOML); cnf new writes one to begin with.")]
EXPECTED_TRIALS = 14


def solve(
    file: File,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for solution, pictures, report and exports; none if left out.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="Instead of the file's.")] = None,
    points: Annotated[int | None, typer.Option(min=1, help="Interior points, instead of the file's.")] = None,
    basis: Annotated[str | None, typer.Option(metavar="NAME", help="Basis, instead of the file's.")] = None,
    objective: Annotated[
        str | None, typer.Option(metavar="NAME", help="What tunes: held-out, leave-one-out, paper or none.")
    ] = None,
    minimum_norm: Annotated[
        bool, typer.Option("--minimum-norm", help="Take the smoothest field if the conditions leave it open.")
    ] = False,
    sweep: Annotated[
        list[str],
        typer.Option(
            "--sweep",
            metavar="NAME=VALUES",
            help="One problem for each value of a coefficient or of any number by its key: nu=0.1:1:20, "
            "nu=1e-3:1:10:log, points.count=200,400; several make a grid.",
        ),
    ] = [],  # noqa: B006
    workers: Workers = 1,
    scheduler: Scheduler = None,
) -> None:
    """Solve the problem in a file: tune, solve, certify, show.

    With --sweep, one problem for each value, and a table, an animation and a page of all of them; --out keeps every
    case as it is finished, and the same command goes on from there. Workers take cases of a sweep; of one problem they
    factor and solve patches, where these are large enough to be worth it. The answer does not depend on them.

    Exit code 0 only if every condition holds within the tolerance, and the estimate of the error meets the target
    (1e-3 unless the file says otherwise).
    """
    changes: dict[str, object] = {}
    changes |= {"seed": seed} if seed is not None else {}
    changes |= {"points": {"count": points}} if points is not None else {}
    changes |= {"basis": {"type": basis}} if basis is not None else {}
    changes |= {"tuning": {"objective": objective}} if objective is not None else {}
    changes |= {"solve": {"underdetermined": "minimum-norm"}} if minimum_norm else {}
    others = choose_workers(workers, scheduler)
    if sweep:
        from cnf.pde.sweeps.showing import solve_sweep

        solve_sweep(file, sweep, changes, others, out)
        return
    problem = read_problem(file, changes)
    if out is not None:
        from cnf.reports.results import check_target

        check_target(out)
    if others != 1 and problem.solving.method == "waves":
        raise CnfError('waves are one system, solved in one process; workers are for method = "patches" in [solve]')
    solve_and_write(problem, out, others)


def solve_and_write(problem: Problem, out: Path | Results | None, workers: int | str = 1) -> None:
    """Solve, show and write; an answer that does not hold is written first, and then an error.

    Ctrl-C ends the tuning with the best so far, which does not replace an answer that is there already.
    """
    from cnf.pde.report.folder import is_answer, write_answer
    from cnf.pde.report.table import answer_table
    from cnf.reports.plots import check_pictures

    if out is not None:
        check_pictures()  # matplotlib is asked for before the work, not after
    answer = run_problem(problem, workers)
    say(f"\n{answer_table(answer)}")
    for line in answer.verdict():
        say(line)
    if answer.tuning.interrupted and isinstance(out, Path) and is_answer(out):
        say(f"\n{out} holds an answer already, which is kept; this one goes to {out / 'interrupted'}")
        out = out / "interrupted"
    if out is not None:
        folder, done = (out, "written to") if isinstance(out, Path) else (out.target, "will be in")
        made = write_answer(answer, out)
        series = [path for path in made if path.parent != folder]
        names = [path.name for path in made if path.parent == folder]
        names += [f"{series[0].parent.name}/ ({len(series)} files)"] if series else []
        names += ["run.json"] if isinstance(out, Path) else []
        say(f"\n{done} {folder}: {', '.join(names)}")
    else:
        say("\n(--out FOLDER keeps the solution, pictures, a report and exports)")
    if answer.tuning.interrupted:
        raise KeyboardInterrupt
    if not answer.certificate.exact:
        raise CnfError(f"the conditions do not hold: {answer.certificate.advice()}")
    if answer.off_target:
        raise CnfError(answer.off_target)


def run_problem(problem: Problem, workers: int | str = 1) -> Answer:
    """Solve with a display of the trials."""
    from cnf.reports.progress import part

    # How many conditions there are is known beforehand for waves only; patches place as many as they need.
    count = f": {problem.conditions} conditions" if problem.solving.method == "waves" else ""
    say(f"{problem.title}{count}\n")
    try:
        with part(open_console(), "solving", EXPECTED_TRIALS) as shown, warnings.catch_warnings():
            warnings.simplefilter("ignore", CnfWarning)  # the verdict says the same
            with listening(shown.note):
                answer = problem.solve(report=shown.tell, workers=workers)
            shown.result = f"{answer.attempts}, best: {answer.tuning.best}"
    except KeyboardInterrupt:
        at = f" ({shown.at})" if shown.at else ""
        say(f"interrupted before there was an answer{at}: nothing is written, and what was there before is as it was")
        raise
    return answer


def check(file: File) -> None:
    """Read a problem file and show how it was understood; nothing is solved."""
    from cnf.pde.report.check import check_text

    problem = read_problem(file, {})
    say(check_text(problem.check()))


def new(
    name: Annotated[str | None, typer.Argument(help="Which example; left out: list them.")] = None,
    file: Annotated[Path | None, typer.Argument(help="Where to write it; default NAME.toml.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")] = False,
) -> None:
    """Write a commented example of a problem file, to begin with."""
    from cnf.files import write_text
    from cnf.pde.problems.templates import DATA, TEMPLATES, read_file, read_template

    if name is None:
        width = max(map(len, TEMPLATES))
        say("\n".join(f"{key:<{width}}  {text}" for key, text in TEMPLATES.items()))
        return
    if name not in TEMPLATES:
        raise CnfError(f"there is no example {name!r}; choose one of {', '.join(TEMPLATES)}.{nearest(name, TEMPLATES)}")
    target = file if file is not None else Path(f"{name}.toml")
    if target.exists() and not force:
        raise FileError(f"{target} exists already; choose another name, or --force to overwrite it")
    made = "" if target.parent.exists() else f" in the folder {target.parent}, which was made"
    write_text(target, read_template(name))
    data = target.parent / DATA[name] if name in DATA else None
    if data is not None and not data.exists():
        write_text(data, read_file(data.name))
        say(f"{data} written, the measurements it reads")
    say(f"{target} written{made}; cnf check {target} shows how it is read, cnf solve {target} solves it")


def read_problem(file: Path, changes: dict[str, object]) -> Problem:
    from cnf.pde.problems.first_look import look_over

    look_over(file, changes)  # mistakes in writing are answered before torch is imported
    with whole_imports():
        from cnf.pde.problems import Problem

    return Problem.read(file, **changes)


def read(
    latex: Annotated[str, typer.Argument(help=r"An operator or equation, such as 'u_t + 0.1 u_x = \sin(x)'.")],
    coordinates: Annotated[str, typer.Option(help="Names of the coordinates.")] = "x t",
    channels: Annotated[str, typer.Option(help="Names of the field's channels.")] = "u",
    given: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="NAME=NUMBER",
            help="A coefficient: beta=0.1, a vector n=1,0, or a function f=; repeatable.",
        ),
    ] = [],  # noqa: B006
) -> None:
    """Show how an equation in LaTeX is understood."""
    from cnf.pde.report.reading import describe_reading, read_coefficients

    try:
        say(describe_reading(latex, coordinates, channels, read_coefficients(given)))
    except LatexError as error:  # it speaks to those who write Python
        message = error.message.replace("give it as a keyword: ", "give it as --set ")
        raise LatexError(message, error.source, error.position) from None


def add_to(app: typer.Typer) -> None:
    """Put the commands of this slice into `app`."""
    for command in (solve, check, new, read):
        app.command()(command)
