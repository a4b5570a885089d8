"""Details: all that a study measured, by its own tables, as far as they can be made of committed rows."""

from __future__ import annotations

from collections.abc import Callable

from studies.paper.drawing import as_measured
from studies.paper.jobs import Job
from studies.paper.records import Records
from studies.tables import Table


def own_tables(job: Job, records: Records) -> str:
    """Markdown; studies that need data to be set up at all are asked by their tables alone."""
    return _write(lambda: _make(job, records))


def held_out_pairs(records: Records) -> str:
    """Markdown: the best method of ours against every other on materials that served no choice."""
    from studies.materials.results import choose_champion
    from studies.materials.tables import pair_table

    def make() -> list[Table]:
        measured = as_measured(records.rows)
        return [pair_table(measured, choose_champion([case.method for case in measured]))]

    return _write(make)


def _write(make: Callable[[], list[Table]]) -> str:
    try:
        tables = make()
    except (KeyError, TypeError) as error:  # a column of later versions
        return f"The study's own tables need what these rows do not have ({type(error).__name__}: {error})."
    return "\n\n".join(_plain(table).markdown() for table in tables)


def _make(job: Job, records: Records) -> list[Table]:
    if job.study_name == "materials":
        from studies.materials.tables import study_tables

        return study_tables(as_measured(records.rows))
    if job.study_name == "shapes":
        from studies.shapes.tables import make_tables

        return make_tables(records.rows)
    return job.study()().tables(records.rows)


def _plain(table: Table) -> Table:
    """Titles as text: headings would stand in the page's own list of contents."""
    return Table(table.header, table.rows, table.left, "", table.better) if not table.title else _titled(table)


def _titled(table: Table) -> Table:
    header = [f"{table.title}: {table.header[0]}", *table.header[1:]]
    left = table.left if isinstance(table.left, int) else [header[0] if n == table.header[0] else n for n in table.left]
    return Table(header, table.rows, left, "", table.better)
