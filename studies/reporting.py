"""The report of a study from its rows: tables as text, Markdown and LaTeX, all numbers as CSV, pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cnf.files import write_text
from cnf.reports.terminal import say
from studies.study import Row, Study
from studies.tables import Table


def write_report(study: Study, rows: Sequence[Row], folder: Path, pictures: bool = True) -> list[Path]:
    """Print the tables; write NAME.txt, .md, .tex, .csv and pictures. Failed cases are named below the tables."""
    done = [row for row in rows if "failed" not in row]
    below = [f"failed: {study.label_case(row)}: {row['failed']}" for row in rows if "failed" in row]
    tables = study.tables(done) if done else []
    notes = study.notes(done) if done else ""
    text = "\n\n".join(filter(None, [*(table.text() for table in tables), notes, "\n".join(below)]))
    marked = "\n\n".join(filter(None, [*(table.markdown() for table in tables), notes, "\n\n".join(below)]))
    say(f"\n{text}" if text else "no case is finished")
    made = [
        write_text(folder / f"{study.stem}.txt", f"{text}\n"),
        write_text(folder / f"{study.stem}.md", f"# {study.name.capitalize()}\n\n{marked}\n"),
        write_text(folder / f"{study.stem}.tex", "\n\n".join(table.latex() for table in tables) + "\n"),
        *write_numbers(study, rows, folder),
    ]
    if pictures and done:
        made += study.plots(done, folder)
    say(f"\nwritten in {folder}: {', '.join(path.name for path in made)}")
    return made


def write_numbers(study: Study, rows: Sequence[Row], folder: Path) -> list[Path]:
    """NAME.csv, a row per case, and NAME_curves.csv, a row per point of a learning curve; numbers in full."""
    columns = [*study.key, *study.columns, "failed"]
    table = Table(columns, [[row.get(name) for name in columns] for row in rows])
    made = [write_text(folder / f"{study.stem}.csv", table.csv())]
    if study.curve:
        points = [
            [*(row[name] for name in study.key), *point]
            for row in rows
            if "curve" in row
            for point in zip(*(row["curve"][name] for name in study.curve), strict=True)
        ]
        curves = Table([*study.key, *study.curve], points)
        made.append(write_text(folder / f"{study.stem}_curves.csv", curves.csv()))
    return made
