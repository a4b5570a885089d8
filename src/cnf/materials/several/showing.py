"""Showing: several materials on the command line, from what was typed to the table of their fits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from cnf.errors import CnfError
from cnf.files import write_text
from cnf.materials.fitting.fit import Settings
from cnf.materials.fitting.methods import find_method
from cnf.materials.several.fits import FitMaterial, fit_materials
from cnf.materials.several.sources import list_sources
from cnf.reports.cases import Outcome
from cnf.reports.plots import check_pictures
from cnf.reports.progress import counted
from cnf.reports.results import publish_files
from cnf.reports.tables import Table
from cnf.reports.terminal import open_console, say

COLUMNS = {  # of the row of a fit: its heading, and how it is shown
    "method": ("method", "{}"),
    "worst_relative_error_at_conditions": ("at conditions", "{:.1e}"),
    "psnr": ("PSNR", "{:.2f}"),
    "ssim": ("SSIM", "{:.4f}"),
    "log_error": ("log error", "{:.2e}"),
    "parameters": ("parameters", "{}"),
    "seconds": ("seconds", "{:.1f}"),
}


def show_fits(
    files: Sequence[str],
    settings: Settings,
    method: str | None,
    out: Path,
    workers: int | str,
    light: Path | None,
    size: int,
    picture: bool,
) -> None:
    """Fit all, show a table and write it; in the end an error if any of them is not there, or not exact."""
    if method is not None:
        find_method(method)
    if picture:
        check_pictures()
    listed = list_sources(files)
    count = len(listed)
    say(f"{count} materials, by {method or 'the method that suits each'}, up to {settings.samples} samples\n")
    with counted(open_console(), count) as shown:

        def tell(outcome: Outcome) -> None:
            row = outcome.row
            words = outcome.reason if row is None else f"PSNR {row['psnr']:.2f} dB, {_word(outcome)}"
            shown.tell(outcome.case.name, words, repeated=outcome.repeated)

        work = FitMaterial(settings, method, None if light is None else light.absolute(), size, picture)
        try:
            outcomes = fit_materials(listed, work, out, workers, tell)
        except KeyboardInterrupt:
            say(f"interrupted: {shown.done} of {count} are done and kept in {out}; the same command goes on from there")
            raise
    if shown.repeated:
        say(f"  {shown.repeated} of {count} kept from an earlier run in {out}")
    say(f"\n{make_table(outcomes).text()}\n")
    faults = [one for one in outcomes if _fault(one)]
    for one in faults:
        say(f"  {one.case.name}: {_fault(one)}")
    lost = sum(one.lost for one in outcomes)
    if lost:
        raise CnfError(
            f"{lost} of {count} materials were lost with their workers; what is done is kept in {out}, and the same "
            "command goes on from there"
        )
    write_table(outcomes, out)
    say(f"written to {out}: table.csv, table.json, and a folder for each")
    if faults:
        raise CnfError(f"{len(faults)} of {count} materials have no good fit; see the lines above")


def make_table(outcomes: Sequence[Outcome], rounded: bool = True) -> Table:
    """A line for every material."""
    rows = []
    for one in outcomes:
        found = one.row or {}
        cells = [found.get(name) for name in COLUMNS]
        if rounded:
            looks = [look for _, look in COLUMNS.values()]
            cells = [None if cell is None else look.format(cell) for cell, look in zip(cells, looks, strict=True)]
        rows.append([one.case.name, _word(one), *cells])
    return Table(["material", "fit", *(heading for heading, _ in COLUMNS.values())], rows, left=3)


def write_table(outcomes: Sequence[Outcome], out: Path) -> None:
    """table.csv and table.json."""
    with publish_files([out / "table.csv", out / "table.json"]) as results:
        write_text(results.folder / "table.csv", make_table(outcomes, rounded=False).csv())
        rows = [
            {"material": one.case.name, "fit": _word(one), **(one.row or {"fault": one.reason})} for one in outcomes
        ]
        write_text(results.folder / "table.json", json.dumps({"run": results.run.identifier, "rows": rows}, indent=2))


def _word(one: Outcome) -> str:
    if one.row is None:
        return "lost" if one.lost else "failed"
    exact = one.row["exact"]
    return "no conditions" if exact is None else "exact" if exact else "NOT EXACT"


def _fault(one: Outcome) -> str:
    return one.reason if one.row is None else str(one.row["fault"])
