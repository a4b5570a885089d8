"""The folder of a sweep: what it has beside the folders of the cases, written when all of them are done."""

from __future__ import annotations

from pathlib import Path

from cnf.files import write_text
from cnf.pde.sweeps.frames import read_frames
from cnf.pde.sweeps.page import page_markup
from cnf.pde.sweeps.pictures import pictures_of
from cnf.pde.sweeps.sweep import Sweep
from cnf.pde.sweeps.table import full_table, json_text
from cnf.reports.plots import check_pictures
from cnf.reports.results import publish_files

TEXTS = ("table.csv", "table.json", "report.html")
PICTURES = ("strip.png", "animation.gif", "numbers.png")


def write_sweep(sweep: Sweep) -> list[Path]:
    """table.csv, table.json, report.html and pictures, all of them new, or as they were before; their paths."""
    check_pictures()
    files = [sweep.folder / name for name in (*PICTURES, *TEXTS)]
    with publish_files(files, optional=PICTURES) as results:
        shown = pictures_of(sweep, read_frames(sweep), results.folder)
        write_text(results.folder / "table.csv", full_table(sweep).csv())
        write_text(results.folder / "table.json", json_text(sweep, results.run))
        write_text(results.folder / "report.html", page_markup(sweep, shown, results.run))
    return [file for file in files if file.exists()]
