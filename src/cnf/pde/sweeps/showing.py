"""Showing: a sweep on the command line, from what was typed to its table and its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cnf.errors import CnfError
from cnf.late import whole_imports
from cnf.pde.problems.first_look import look_over
from cnf.pde.sweeps.axes import read_axes
from cnf.pde.sweeps.places import find_place
from cnf.reports.progress import counted
from cnf.reports.terminal import open_console, say

LISTED = 12  # faults that are told; the table has all


def solve_sweep(
    file: Path, over: Sequence[str], changes: Mapping[str, object], workers: int | str, out: Path | None
) -> None:
    """Solve all, show a table, write what there is to see; in the end an error if any of them is not good."""
    _look_over_sweep(file, over, changes)
    with whole_imports():
        from cnf.pde.sweeps.folder import write_sweep
        from cnf.pde.sweeps.sweep import Asked, Row, name_case, run_sweep
        from cnf.pde.sweeps.table import list_faults, short_table, tell_end, word_for
    from cnf.reports.plots import check_pictures

    asked = Asked.read(file, over, changes)
    if out is not None:
        check_pictures()  # matplotlib is asked for before the work, not after
    count = len(asked.cases)
    say(f"{asked.problem.title}: {count} problems, {', '.join(axis.key for axis in asked.axes)}\n")
    with counted(open_console(), count) as shown:

        def tell(row: Row) -> None:
            words = word_for(row)
            if row.found is not None and row.found["estimate"] is not None:
                words += f", estimate {row.found['estimate']:.0e}"
            shown.tell(name_case(row.values), words, repeated=row.repeated)

        try:
            sweep = run_sweep(asked, out, workers, tell)
        except KeyboardInterrupt:
            kept = "" if out is None else f"; they are kept in {out}, and the same command goes on from there"
            say(f"interrupted: {shown.done} of {count} are done{kept}")
            raise
    if shown.repeated:
        say(f"  {shown.repeated} of {count} kept from an earlier run in {out}")
    say(f"\n{short_table(sweep).text()}\n\n{tell_end(sweep)}")
    faults = list_faults([row for row in sweep.rows if not row.lost])
    for fault in faults[:LISTED]:
        say(f"  {fault}")
    if len(faults) > LISTED:
        say(f"  and {len(faults) - LISTED} more")
    lost = [row for row in sweep.rows if row.lost]
    if lost:
        again = "" if out is None else f"; what is done is kept in {out}, and the same command goes on from there"
        raise CnfError(f"{len(lost)} of {count} problems were lost: {lost[0].reason}{again}")
    if out is not None:
        written = write_sweep(sweep)
        say(f"\nwritten to {out}: {', '.join(path.name for path in written)}, cases/ (a folder for each)")
    else:
        say("\n(--out FOLDER keeps all solutions, a table, pictures and a report)")
    if faults:
        raise CnfError(f"{len(faults)} of {count} problems have no good answer; see the lines above")


def _look_over_sweep(file: Path, over: Sequence[str], changes: Mapping[str, object]) -> None:
    """Mistakes in writing are answered before torch is imported."""
    axes = read_axes(over)
    _, entries = look_over(file, changes)
    for axis in axes:
        find_place(entries, axis.key)
