"""Details: all that a study measured, by its own tables, as far as they can be made of committed rows."""

from __future__ import annotations

from studies.paper.drawing import as_measured
from studies.paper.jobs import Job
from studies.paper.records import Records
from studies.tables import Table


def own_tables(job: Job, records: Records) -> str:
    """Markdown; studies that need data to be set up at all are asked by their tables alone."""
    try:
        tables = _make(job, records)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        return f"The study's own tables need what these rows do not have ({type(error).__name__}: {error})."
    return "\n\n".join(_plain(table).markdown() for table in tables)


def _make(job: Job, records: Records) -> list[Table]:
    if job.name == "materials":
        from studies.materials.tables import study_tables

        return study_tables(as_measured(records.rows))
    if job.name == "shapes":
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
