"""The page: docs/reproduction.md, every table and figure of the paper beside ours, written from committed rows alone.

In: records of every job, the folder of pictures. Out: Markdown. Sources, properties of bases and commands are taken
from the code as it is when the page is written.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from studies.machine import say_machine
from studies.paper.algorithms import link, list_algorithms, write_algorithm
from studies.paper.bases import PAPER as BASIS_MARKS
from studies.paper.bases import basis_table, measured_independence
from studies.paper.comparing import Found, compare_table
from studies.paper.details import held_out_pairs, own_tables
from studies.paper.figures import EXTRA, FIGURES, Figure, is_drawn
from studies.paper.jobs import EVERY_MATERIAL, JOBS, find_job
from studies.paper.records import SPENT, Records, read_records
from studies.paper.remarks import Remarks, find_remark, read_remarks
from studies.paper.showing import show_setting, show_table
from studies.paper.summary import Entries, claim_table, count_table, list_gaps, list_lacking, list_worse
from studies.paper.tables import BASELINE, OWN, TABLES
from studies.tables import Table

ROOT = Path(__file__).parents[2]
INTRODUCTION = """\
Every table, figure and algorithm of “Neural Fields with Hard Constraints of Arbitrary Differential Order” beside ours,
in its order and numbered as there. One command measures all of it and writes this page; by hand there are only remarks:

    {command}

Marks: ▲ ours is better, ▼ worse, = the same to two percent (PSNR to 0.05 dB, SSIM to the paper's two digits), with the
factor (or difference) between the two; ° not at the paper's size, and no mark for means over too few. Where the paper
compares with other methods, a mark says how our run of a baseline compares with the paper's: neither is a merit."""
MEASURED = """\
`{command}` runs every study at the paper's sizes and can be stopped and started again anywhere; `--only NAMES` runs
some of them, `--missing` only what has no rows in `studies/paper/rows` yet; `--page` writes the page from these rows,
and `--quick` is a look of about ten minutes that leaves this page alone: [studies]({studies}#the-paper-as-a-whole).
By hand, a study is run as follows; what it finished is found by the command above:"""

EVERY = """\
At a tenth of the paper's sample visits, so far: {counts}. NBRDF are networks that stand in for the materials. Settings
of the kernel methods were chosen on a dozen; below are the others, every pair on the materials that both were run on
([what was looked at](studies.md#materials-appearance-with-exact-measurements))."""


@dataclass(frozen=True)
class Place:
    """Where rows are read from, and where page and pictures go."""

    rows: Path
    page: Path
    images: Path


REPOSITORY = Place(ROOT / "studies/paper/rows", ROOT / "docs/reproduction.md", ROOT / "docs/images/reproduction")
LAYOUT: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Method", ("alg:1", "alg:2", "basis")),
    ("Fermat's principle", ("fig:1",)),
    ("Material appearance", ("table:brdf", "every-material", "fig:2")),
    ("Shapes", ("fig:3a", "fig:3b", "sec:supp-sdf")),
    ("Self-tuning PDE solver", ("fig:4", "table:advection-results", "objective")),
    ("Appendix: conditioning of neural bases", ("fig:5",)),
    (
        "Appendix: material appearance",
        ("fig:6", "table:brdf_abla", "fig:7", "fig:8", "table:brdf_report", "fig:9 to 14"),
    ),
    ("Appendix: shapes", ("tab:normal_error", "fig:15", "fig:16", "table:surface_report")),
    ("Appendix: PDE solver", ("fig:17", "table:pde_report", "table:advection-transfer-learning", "fig:table 9")),
)


def read_all(rows: Path) -> dict[str, Records | None]:
    """The records of every job; None for one without."""
    return {job.name: read_records(job.study(), rows, job.name) for job in JOBS}


def build_page(place: Place, command: str = "python -m studies paper") -> str:
    """The whole page."""
    records, remarks = read_all(place.rows), read_remarks()
    entries = {table.label: compare_table(table, records[table.job]) for table in TABLES}
    blocks = ["# The paper, table by table", INTRODUCTION.format(command=command)]
    blocks += _summary(entries, records, remarks, place)
    for heading, items in LAYOUT:
        blocks.append(f"## {heading}")
        for item in items:
            blocks += _item(item, entries, records, remarks, place, command)
    blocks += _measured(records, command, place)
    return "\n\n".join(blocks) + "\n"


def _summary(entries: Entries, records: Mapping[str, Records | None], remarks: Remarks, place: Place) -> list[str]:
    drawn = [f for f in FIGURES if is_drawn(f, records, place.images)]
    blocks = [
        "## Summary",
        count_table(entries).markdown(),
        f"Pictures: {len(drawn)} of {len(FIGURES)} (figures 9 to 14 are one here, figure 3 two). Both algorithms and "
        "the table of bases are taken from the code.",
    ]
    gaps = [*list_gaps(entries, records, place.images), *list_lacking(records.get(EVERY_MATERIAL))]
    blocks += ["### Gaps", "\n".join(f"- {gap}." for gap in gaps) if gaps else "None."]
    blocks += ["### What the paper concludes", claim_table(entries, records).markdown()]
    worse = list_worse(entries, remarks, OWN)
    blocks += [
        "### Where ours is worse",
        "Errors of what the paper proposes:",
        worse.markdown() if worse else "None measured.",
    ]
    if (weak := list_worse(entries, remarks, BASELINE)) is not None:
        blocks += [
            "Errors of what it compares with: here a baseline of ours is weaker than the paper's.",
            weak.markdown(),
        ]
    if (other := list_worse(entries, remarks, again=True)) is not None:
        blocks += ["Advection by the paper's objective instead of ours:", other.markdown()]
    if (slow := list_worse(entries, remarks, seconds=True)) is not None:
        blocks += ["Seconds, on another machine than the paper's:", slow.markdown()]
    return blocks


def _item(
    item: str, entries: Entries, records: Mapping[str, Records | None], remarks: Remarks, place: Place, command: str
) -> list[str]:
    kind, _, name = item.partition(":")
    if kind == "alg":
        return [write_algorithm(next(a for a in list_algorithms() if a.number == name), place.page)]
    if item == "basis":
        return _bases(records, remarks, place)
    if item == EVERY_MATERIAL:
        return _every_material(records.get(item), command)
    if kind == "fig":
        return _figure(next(f for f in (*FIGURES, *EXTRA) if f.number == name), records, place, command)
    return _table(entries[item], records, remarks, command)


def _table(
    entries: Sequence[Sequence[Found]], records: Mapping[str, Records | None], remarks: Remarks, command: str
) -> list[str]:
    table = entries[0][0].table
    found = records[table.job]
    number = f"Table {table.number}" if table.number.isdigit() else "From the text"
    label = "again" if table.again else f"`{table.label}`"
    measured = "; ".join(map(say_machine, found.machines)) if found is not None and table.seconds else ""
    sentences = [
        table.about,
        f"Measured on {measured}." if measured else "",
        *_say_remarks([entry for line in entries for entry in line], remarks),
    ]
    blocks = [
        f"### {number} ({label}): {table.title}",
        show_table(entries).markdown(),
        "\n".join(f"- {text}" for text in dict.fromkeys(filter(None, sentences))),
        f"`{command} --only {table.job}`",
    ]
    if found is not None and table.details:
        blocks.append(_details(f"all that {table.job} measured", own_tables(find_job(table.job), found)))
    return [block for block in blocks if block]


def _every_material(found: Records | None, command: str) -> list[str]:
    """Beside table 2: materials that no setting was chosen on, by every method."""
    blocks = ["### Beside table 2: every material"]
    if found is None:
        return [*blocks, "*Not measured yet.*", f"`{command} --only {EVERY_MATERIAL}`"]
    groups = Counter(group for _, group in {(row["material"], row["group"]) for row in found.rows})
    counts = ", ".join(f"{many} of “{group}”" for group, many in sorted(groups.items()))
    return [
        *blocks,
        EVERY.format(counts=counts),
        held_out_pairs(found),
        _details("all means", own_tables(find_job(EVERY_MATERIAL), found)),
        f"`{command} --only {EVERY_MATERIAL}`",
    ]


def _say_remarks(flat: Sequence[Found], remarks: Remarks) -> list[str]:
    """A sentence for every entry that is worse, each once, with the entries it is about."""
    said: dict[str, list[str]] = {}
    for found in flat:
        text = find_remark(remarks, found) if found.verdict == "worse" else ""
        if text:
            said.setdefault(text, []).append(f"{found.line.label}, {found.quantity.heading}")
    return [
        f"▼ {'; '.join(where) if len(where) < 4 else f'{len(where)} entries'}: {text}" for text, where in said.items()
    ]


def _details(summary: str, text: str) -> str:
    return f"<details>\n<summary>{summary}</summary>\n\n{text}\n\n</details>"


def _figure(figure: Figure, records: Mapping[str, Records | None], place: Place, command: str) -> list[str]:
    number = f"Figure {figure.number}" if figure.number[0].isdigit() else "Beside " + figure.number
    blocks = [f"### {number} (`{figure.label}`): {figure.title}"]
    found = records.get(figure.job)
    size = "" if found is None or find_job(figure.job).is_full(found.settings) else " ° Not at the paper's size."
    for part in figure.parts:
        if is_drawn(figure, records, place.images):
            where = Path(os.path.relpath(place.images / part.file, place.page.parent)).as_posix()
            blocks += [f"![{figure.title}]({where})", f"{part.caption}.{size}"]
        else:
            blocks.append("*Not drawn yet.*")
    if figure.job:
        blocks.append(f"`{command} --only {figure.job}`")
    if figure.about:
        blocks.append(figure.about)
    if figure.details and found is not None:
        text = own_tables(find_job(figure.job), found)
        blocks.append(_details(f"all that {figure.job} measured", text))
    return blocks


def _bases(records: Mapping[str, Records | None], remarks: Remarks, place: Place) -> list[str]:
    from studies.conditioning.study import RESOLVED

    found = records.get("conditioning")
    known = remarks.get("table:basis", {})
    lines = [f"- {name}: {known[name]}" for name in BASIS_MARKS if name in known]
    return [
        "### Table 1 (`table:basis`): basis functions",
        "The paper's marks, and after an arrow what the library declares of its own classes "
        f"([bases]({link('docs/bases.md', place.page)}#properties)) where that differs.",
        basis_table().markdown(),
        *(["\n".join(lines)] if lines else []),
        "Linear independence is measured by the study of conditioning (figure 5):",
        measured_independence(found, RESOLVED).markdown(),
    ]


def _measured(records: Mapping[str, Records | None], command: str, place: Place) -> list[str]:
    """Commands, settings and machines of every job."""
    lines: list[list[object]] = []
    machines: dict[str, list[str]] = {}
    for job in JOBS:
        found = records.get(job.name)
        if found is None:
            lines.append([f"`{job.name}`", "-", "-", "-", "not measured yet"])
            continue
        settings = ", ".join(f"{name} {show_setting(v)}" for name, v in found.settings.items())
        spent = [_minutes(found, name) for name in SPENT]
        lines.append([f"`{job.name}`", len(found.rows), *spent, settings])
        for facts in found.machines:
            machines.setdefault(say_machine(facts), []).append(job.name)
    table = Table(["study", "cases", "minutes", "of a processor", "settings"], lines, left=("study", "settings"))
    return [
        "## How it was measured",
        MEASURED.format(command=command, studies=link("docs/studies.md", place.page)),
        "\n".join(f"    {job.command}" for job in JOBS),
        table.markdown(),
        "\n".join(f"- {', '.join(names)}: {words}." for words, names in machines.items()) or "No machine yet.",
        "Seconds by the clock depend on what else a machine does; processor seconds, where rows have them, hardly.",
    ]


def _minutes(records: Records, name: str) -> str | None:
    values = [row[name] for row in records.rows if row.get(name) is not None]
    return f"{math.fsum(values) / 60:.1f}" if len(values) == len(records.rows) and values else None
